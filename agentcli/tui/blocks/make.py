"""Which block shows which item."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentcli.tui.blocks.base import Block
from agentcli.tui.blocks.notice import BoundaryBlock, EndBlock, NoticeBlock, OutputBlock
from agentcli.tui.blocks.thinking import ThinkingBlock
from agentcli.tui.blocks.tool import ToolBlock
from agentcli.tui.blocks.user import PromptBlock
from agentcli.tui.blocks.welcome import WelcomeBlock
from agentcli.tui.model import (
    AnswerItem,
    BoundaryItem,
    EndItem,
    Item,
    NoticeItem,
    OutputItem,
    PromptItem,
    ThinkingItem,
    ToolItem,
    WelcomeItem,
)


def make_block(item: Item) -> Block:
    if isinstance(item, AnswerItem):
        from agentcli.tui.blocks.answer import AnswerBlock

        return AnswerBlock(item)
    return _BLOCKS[type(item)](item)


_BLOCKS: Mapping[type[Item], Callable[[Any], Block]] = {
    BoundaryItem: BoundaryBlock,
    EndItem: EndBlock,
    NoticeItem: NoticeBlock,
    OutputItem: OutputBlock,
    PromptItem: PromptBlock,
    ThinkingItem: ThinkingBlock,
    ToolItem: ToolBlock,
    WelcomeItem: WelcomeBlock,
}
