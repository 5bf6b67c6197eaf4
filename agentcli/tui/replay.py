"""A resumed conversation as items: what the transcript would show had it been there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from agentcli.core.messages import Block, Message, Origin, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from agentcli.core.plaintext import plain_line, plain_text
from agentcli.interactive import wording
from agentcli.tui.answer_pieces import AnswerPieces
from agentcli.tui.model import AnswerItem, BoundaryItem, EndItem, Item, NoticeItem, ThinkingItem, ToolItem
from agentcli.tui.presenter import RESULT_SHOWN, Presenter, Titles


def replayed(messages: Iterable[Message], title_of: Titles) -> list[Item]:
    """Every message as the items it would have made; calls carry their results. Pure, so that a thread can do it."""
    presenter = Presenter()
    items: list[Item] = []
    places: dict[str, int] = {}
    pieces = AnswerPieces()
    for message in messages:
        if message.is_copy:
            continue
        match message.origin:
            case Origin.REPLY:
                for index, block in enumerate(message.content):
                    if isinstance(block, ToolUseBlock):
                        places[block.id] = len(items)
                    items.extend(_of_reply(message.id, index, block, title_of, pieces))
            case Origin.TOOL_RESULTS:
                for result in message.tool_results:
                    place = places.pop(result.tool_use_id, None)
                    call = items[place] if place is not None else None
                    if isinstance(call, ToolItem) and place is not None:
                        items[place] = _with_result(call, result)
            case Origin.BOUNDARY:
                items.append(BoundaryItem(id=message.id, text=wording.boundary(message)))
            case Origin.INTERRUPTION:
                items.append(EndItem(id=message.id, text="Interrupted.", level="warning"))
            case Origin.ERROR:
                items.append(NoticeItem(id=message.id, text=plain_text(message.text), level="error"))
            case _:
                item = presenter.message_item(message)
                if item is not None:
                    items.append(replace(item, id=message.id))
        pieces.take(message)
    return items


def _of_reply(message_id: str, index: int, block: Block, title_of: Titles, pieces: AnswerPieces) -> list[Item]:
    id = f"{message_id}:{index}"
    match block:
        case TextBlock():
            text = plain_text(block.text)
            joint = pieces.joint(message_id, index, text)
            return [AnswerItem(id=id, text=text.strip("\n"), done=True, joint=joint)] if text.strip() else []
        case ThinkingBlock():
            text = plain_text(block.thinking).strip("\n")
            return [ThinkingItem(id=id, text=text, seconds=0.0)] if text.strip() else []
        case ToolUseBlock():
            title = plain_line(title_of(block.name, block.input), 2_000)
            name = plain_line(block.name)
            return [ToolItem(id=id, name=name, title=title, status="interrupted", input=block.input)]
    return []


def _with_result(call: ToolItem, result: ToolResultBlock) -> ToolItem:
    status = "failed" if result.is_error else "done"
    text = plain_text(result.text[:RESULT_SHOWN])
    return replace(call, status=status, output=text)  # type: ignore[arg-type]
