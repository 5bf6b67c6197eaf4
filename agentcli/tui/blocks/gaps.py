"""Blank rows between blocks."""

from __future__ import annotations

from agentcli.tui.agent_progress import AgentItem
from agentcli.tui.model import Item, NoticeItem, OutputItem, PromptItem, ToolItem


def gap(before: Item, after: Item) -> int:
    """Number of blank rows between two consecutive blocks."""
    if isinstance(before, ToolItem | AgentItem) and isinstance(after, ToolItem | AgentItem):
        return 0
    if isinstance(before, NoticeItem) and isinstance(after, NoticeItem):
        return 0
    if isinstance(before, PromptItem) and isinstance(after, OutputItem):
        return 0
    return 1
