"""Create the block for an item."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentcli.tui import model
from agentcli.tui.agents import AgentItem
from agentcli.tui.blocks.base import Block
from agentcli.tui.blocks.texts import (
    BoundaryBlock,
    EndBlock,
    NoticeBlock,
    OutputBlock,
    PromptBlock,
    ThoughtsBlock,
    WelcomeBlock,
)
from agentcli.tui.blocks.tool import ToolBlock


def make_block(item: model.Item) -> Block:
    if isinstance(item, model.AnswerItem):
        from agentcli.tui.blocks.answer import AnswerBlock

        return AnswerBlock(item)
    if isinstance(item, AgentItem):
        from agentcli.tui.blocks.agent import AgentBlock

        return AgentBlock(item)
    return _BLOCKS[type(item)](item)


_BLOCKS: Mapping[type[model.Item], Callable[[Any], Block]] = {
    model.BoundaryItem: BoundaryBlock,
    model.EndItem: EndBlock,
    model.NoticeItem: NoticeBlock,
    model.OutputItem: OutputBlock,
    model.PromptItem: PromptBlock,
    model.ThinkingItem: ThoughtsBlock,
    model.ToolItem: ToolBlock,
    model.WelcomeItem: WelcomeBlock,
}
