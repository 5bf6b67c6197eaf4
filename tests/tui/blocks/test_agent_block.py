"""The block of a sub-agent: two rows at every width, its transcript when opened, and how rarely it is laid out."""

from __future__ import annotations

from typing import Any

import pytest

from agentcli.core import events as ev
from agentcli.tui.blocks.base import Block
from agentcli.tui.blocks.items import make_block
from agentcli.tui.blocks.markdown import load_parser
from agentcli.tui.progress import AgentItem
from agentcli.tui.theme.palette import Palette
from tests.support.agent_events import agent_end, agent_start, agent_work, question, task_call
from tests.tui.test_progress import Session, running

PALETTE = Palette()


def screen(block: Block, width: int = 80) -> list[str]:
    return [line.strip.text.rstrip() for line in block.layout(width, PALETTE)]


def block_of(session: Session, now: float = 0.0, *, expanded: bool = False) -> Block:
    block = make_block(session.shown.of(AgentItem)[0])
    block.expanded = expanded
    block.tick(now)
    return block


def working() -> Session:
    session = running("explore-1")
    session.show(list(agent_work("explore-1"))[:-1])
    return session


# ------------------------------------------------------------------------------------------------------------ two rows


@pytest.mark.parametrize(
    ("width", "rows"),
    [
        (
            80,
            [
                "● explore-1 Find the callers · running · 1 min 57 s",
                "  │ Grep head · 1.1k tokens · $0.01",
            ],
        ),
        (40, ["● explore-1 Find the callers · running", "  │ Grep head · 1.1k tokens · $0.01"]),
        (20, ["● explore-1 Find th…", "│ Grep head"]),
    ],
)
def test_a_running_agent_says_what_it_does_and_took_so_far(width: int, rows: list[str]) -> None:
    assert screen(block_of(working(), 120.0), width) == rows


@pytest.mark.parametrize(
    ("status", "text", "rows"),
    [
        (
            "completed",
            "# Callers\n\n- a.py",
            ["✓ explore-1 Find the callers · done · 14 s", "  │ Callers · 24k tokens · $0.05 · 2 turns"],
        ),
        (
            "failed",
            "The model was overloaded.",
            [
                "✗ explore-1 Find the callers · failed · 14 s",
                "  │ The model was overloaded. · 24k tokens · $0.05 · 2 turns",
            ],
        ),
        (
            "stopped",
            "The agent explore-1 was stopped before it was done.",
            ["■ explore-1 Find the callers · stopped · 14 s", "  │ 24k tokens · $0.05 · 2 turns"],
        ),
    ],
)
def test_an_ended_agent_says_how_it_ended_also_without_colours(status: str, text: str, rows: list[str]) -> None:
    session = working()
    session.show(agent_end("explore-1", "t-explore-1", status, text=text))
    assert screen(block_of(session)) == rows


def test_an_agent_that_asks_says_what_about() -> None:
    session = working()
    session.show(question("explore-1"))
    assert screen(block_of(session)) == [
        "? explore-1 Find the callers · waits for you",
        "  │ Bash make · 1.1k tokens · $0.01",
    ]


def test_a_background_agent_is_marked_while_it_runs() -> None:
    session = running("explore-1", background=True)
    assert screen(block_of(session)) == ["● explore-1 Find the callers · running · background", "  │ Starting"]


# ------------------------------------------------------------------------------------------------------- its transcript


def test_opened_it_shows_its_prompt_tools_and_text() -> None:
    load_parser()
    session = working()
    session.show(list(agent_work("explore-1"))[-1])
    assert screen(block_of(session, expanded=True))[2:] == [
        "  │",
        "  │ ❯ Find all callers.",
        "  │",
        "  │ ▸ Thought for 1 s",
        "  │",
        "  │ ◆ Found it.",
        "  │",
        "  │ ✓ Grep head · 2 matches",
        "  │   │ a.py:1",
        "  │   │ b.py:2",
        "",
    ]


def test_an_agent_inside_of_another_is_opened_with_it() -> None:
    session = running("general-1")
    session.show(task_call("inner", agent="general-1"), agent_start("explore-1", "inner", parent="general-1"))
    session.show(next(agent_work("explore-1")))
    assert screen(block_of(session, expanded=True)) == [
        "● general-1 Find the callers · running",
        "  │ explore: Find the callers",
        "  │",
        "  │ ● explore-1 Find the callers · running",
        "  │   │ Starting",
        "  │   │",
        "  │   │ ❯ Find all callers.",
        "  │",
        "",
    ]


def test_of_an_agent_whose_transcript_is_gone_the_report_and_the_session_are_shown() -> None:
    load_parser()
    session = working()
    session.show(agent_end("explore-1", "t-explore-1", text="Three *callers*."))
    session.progress().drop_items()
    assert screen(block_of(session, expanded=True))[2:] == [
        "  │ Its transcript is in session s-explore-1",
        "  │",
        "  │ ◆ Three callers.",
        "",
    ]


def test_items_that_are_no_longer_kept_are_counted() -> None:
    session = running("explore-1")
    session.show(agent_work("explore-1", turns=60))
    assert screen(block_of(session, expanded=True))[2] == "  │ … 81 earlier items: see session s-explore-1"


# ---------------------------------------------------------------------------------------------------- what it costs


def test_text_of_an_agent_is_laid_out_only_while_it_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    from agentcli.tui.blocks.answer import AnswerBlock

    laid_out: list[str] = []
    plain = AnswerBlock.layout

    def layout(self: AnswerBlock, width: int, palette: Palette) -> Any:
        laid_out.append(self.source)
        return plain(self, width, palette)

    monkeypatch.setattr(AnswerBlock, "layout", layout)
    session = running("explore-1")
    block = block_of(session)
    block.layout(80, PALETTE)
    for event in agent_work("explore-1", text="word " * 200):
        session.show(event)
        if block.tick(1.0):
            block.layout(80, PALETTE)
    assert not laid_out
    block.expanded = True
    block.layout(80, PALETTE)
    assert len(laid_out) == 1


def test_a_block_is_painted_again_only_when_it_looks_different() -> None:
    session = running("explore-1")
    block = block_of(session)
    block.layout(80, PALETTE)
    painted = 0
    for _piece in range(50):
        session.show(ev.TextStreamed(agent="explore-1", message_id="m", index=0, text="more "))
        if block.tick(1.0):
            block.layout(80, PALETTE)
            painted += 1
    assert painted == 1


def test_growing_text_is_not_laid_out_again_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    from agentcli.tui.blocks.answer import AnswerBlock

    replaced: list[str] = []
    monkeypatch.setattr(AnswerBlock, "replace", lambda self, item: replaced.append(item.text))
    session = running("explore-1")
    block = block_of(session, expanded=True)
    for _piece in range(5):
        session.show(ev.TextStreamed(agent="explore-1", message_id="m", index=0, text="more "))
        assert block.tick(1.0)
        block.layout(80, PALETTE)
    assert not replaced
    assert screen(block)[-2].endswith("more more more more more")


def test_a_report_that_the_transcript_ends_with_is_not_shown_twice() -> None:
    load_parser()
    session = running("explore-1")
    for index, text in enumerate(("The first part. ", "The second part.")):
        session.show(ev.TextStreamed(agent="explore-1", message_id="m", index=index, text=text))
    session.show(agent_end("explore-1", "t-explore-1", text="The first part. The second part."))
    opened = "\n".join(screen(block_of(session, expanded=True))[2:])
    assert opened.count("second part") == 1
