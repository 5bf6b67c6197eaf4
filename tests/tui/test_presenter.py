"""Events become items: hostile text, withdrawn replies, retries, random conversations and their replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.core import events as ev
from agentcli.core.messages import (
    Message,
    Origin,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    UnknownBlock,
    user_message,
)
from agentcli.tui.blocks.tool import ToolBlock
from agentcli.tui.model import (
    Above,
    AnswerItem,
    BoundaryItem,
    EndItem,
    NoticeItem,
    OutputItem,
    PromptItem,
    ThinkingItem,
    ToolItem,
)
from agentcli.tui.presenter import Presenter
from agentcli.tui.progress import AgentProgress
from agentcli.tui.resume import replay
from agentcli.tui.theme.palette import Palette
from tests.headless.fake_engine import result
from tests.support.fakes import FakeTool, bench, collect
from tests.support.reply_events import block as finished
from tests.support.reply_events import streamed
from tests.support.scripts import call, fault, reply, say, think
from tests.support.shown import Shown
from tests.support.virtual import run_virtual


def presented(*events: ev.Event) -> Shown:
    shown, presenter = Shown(), Presenter()
    for number, event in enumerate(events):
        shown.apply(presenter.show(event, float(number)))
    return shown


def test_running_output_replaces_its_last_row_also_that_of_an_agent() -> None:
    start = ev.ToolStarted(tool_use_id="t", name="Bash", input={}, title="Bash fetch")
    pieces = ["begun\nfetch 1%", "\rfetch 2%\x1b[2J", "\rfetch 3%\nnext\rlone"]
    events = [ev.ToolProgressed(tool_use_id="t", text=piece, data={"bytes": 1, "lines": 7}) for piece in pieces]
    presenter = Presenter()
    operations = [operation for event in (start, *events) for operation in presenter.show(event, 0.0)]
    shown = Shown()
    shown.apply(operations)
    [item] = shown.of(ToolItem)
    assert item.output == "begun\nfetch 3%\nnext\nlone"
    agent = AgentProgress(ev.AgentStarted(agent="a", tool_use_id="a", name="explore", description="", model="m"), 0.0)
    agent.apply(operations)
    [kept] = agent.items()
    assert isinstance(kept, ToolItem)
    assert (kept.output, kept.line_breaks) == (item.output, 7)
    assert "… 4 more lines above" in ToolBlock(kept).layout(80, Palette())[1].strip.text


def test_progress_of_a_call_stands_on_its_line_and_goes_with_its_result() -> None:
    use = ToolUseBlock("t", "mcp__notes__slow", {})
    progress = [
        ev.ToolProgressed(tool_use_id="t", text=f"step {step} ({step} of 10)\x1b[2J", data={"done": step, "total": 10})
        for step in (1, 2)
    ]
    running = presented(
        finished(use), ev.ToolStarted(tool_use_id="t", name=use.name, input={}, title="slow"), *progress
    )
    [item] = running.of(ToolItem)
    assert (item.summary, item.output) == ("step 2 (2 of 10)", "")
    header = ToolBlock(item).layout(80, Palette())[0].strip.text
    assert header.rstrip() == "● slow · step 2 (2 of 10)"


def test_a_withdrawn_reply_leaves_nothing() -> None:
    shown = presented(
        ev.ThinkingStreamed(message_id="m1", index=0, text="hm"),
        streamed("half", index=1),
        ev.BlockStarted(message_id="m1", index=2, kind="tool_use", name="Bash"),
        ev.ReplyTombstoned(message_id="m1", reason="broke off"),
        streamed("whole", message="m2"),
    )
    assert shown.texts() == ["answer: whole"]


def test_a_prompt_after_a_blocked_one_is_shown_once() -> None:
    presenter = Presenter()
    for text in ("blocked", "sent"):
        presenter.sent(text, 0)
        if text == "blocked":
            presenter.show(result(terminal="prompt_blocked", is_error=True), 1)
    assert presenter.show(ev.MessageAppended(message=user_message("sent", "p", Origin.PROMPT)), 2) == []
    assert presenter.show(ev.MessageAppended(message=user_message("other", "q", Origin.PROMPT)), 3) != []


def test_retries_are_one_notice_that_counts_up() -> None:
    retry = {"max_attempts": 10, "wait_seconds": 4, "kind": "overloaded", "text": "Overloaded", "status": 529}
    shown = presented(ev.RetryScheduled(attempt=1, **retry), ev.RetryScheduled(attempt=2, **retry))
    assert [item.text for item in shown.of(NoticeItem)] == ["529 overloaded, attempt 2 of 10."]


def test_thinking_folds_with_the_seconds_it_took_and_blank_text_is_not_shown() -> None:
    shown = presented(
        ev.ThinkingStreamed(message_id="m1", index=0, text="hm"),
        finished(ThinkingBlock("hm"), index=0),
        streamed("\n\n", index=1),
        finished(TextBlock("\n\n"), index=1),
        finished(UnknownBlock({"type": "redacted_thinking"}), index=2),
    )
    assert [(item.text, item.seconds) for item in shown.of(ThinkingItem)] == [("hm", 1.0), ("", 4.0)]
    assert len(shown.items) == 2


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"duration_ms": 1_500}, "1.5 s"),
        ({"duration_ms": 400}, None),
        ({"turns": 3, "duration_ms": 75_000}, "1 min 15 s · 3 turns"),
        ({"turns": 0}, None),
        ({"is_error": True, "terminal": "model_error", "errors": ["No such model"]}, "No such model"),
        (
            {"is_error": True, "terminal": "max_turns", "errors": ["x"]},
            "Stopped at the turn limit. Send a prompt to continue.",
        ),
        ({"is_error": True, "terminal": "command_failed", "errors": ["x"]}, None),
        (
            {"is_error": True, "terminal": "aborted_streaming"},
            "Interrupted. What should be done instead?",
        ),
    ],
)
def test_the_last_line_gives_the_outcome(changes: dict[str, Any], expected: str | None) -> None:
    assert [item.text for item in presented(result(**changes)).of(EndItem)] == ([] if expected is None else [expected])


def test_the_answer_of_a_command_is_output_with_a_summary_that_opens() -> None:
    summary = Message("user", (TextBlock("All of it"),), "s", Origin.SUMMARY)
    meta = {"trigger": "manual", "tokens_before": 84_000, "tokens_after": 6_000}
    shown = presented(
        ev.NoticeRaised(text="bad", level="error", code="command"),
        ev.MessageAppended(message=Message("user", (), "b", Origin.BOUNDARY, meta=meta)),
        ev.MessageAppended(message=summary),
        ev.ContextCompacted(trigger="manual", tokens_before=84_000, tokens_after=6_000),
    )
    assert [type(item) for item in shown.items] == [OutputItem, BoundaryItem, OutputItem], "the rule, then the summary"
    assert [item.failed for item in shown.of(OutputItem)] == [True, False]
    assert shown.of(OutputItem)[1].title
    assert shown.of(BoundaryItem)[0].text == "compacted: 84k → 6k tokens · /compact undo reverts it"


def conversation(replies: Sequence[Any], prompts: int) -> tuple[Shown, Shown]:
    """What was shown live, and what a new process shows of the same log."""
    live, again = Shown(), Shown()

    async def run() -> None:
        looking = FakeTool("Look", steps=1)
        b = bench(*replies, "Enough.", tools=[looking])
        async with b.engine as engine:
            presenter = Presenter()
            for number in range(prompts):
                for event in await collect(engine.submit(f"prompt {number}")):
                    live.apply(presenter.show(event, 0.0))
            again.apply([Above(tuple(replay(engine.take_history(), engine.title_of)))])

    run_virtual(run)
    return live, again


STEPS = st.lists(
    st.one_of(
        st.text(min_size=1, max_size=20).map(say),
        st.text(min_size=1, max_size=20).map(think),
        st.just(call("Look", what="x")),
        st.just(call("Nothing")),
    ),
    min_size=1,
    max_size=4,
)
REPLIES = st.lists(st.one_of(STEPS.map(lambda steps: reply(*steps)), st.just(reply("half", fault("drop")))), max_size=5)


@given(REPLIES)
def test_any_conversation_is_shown_consistently_and_identically_after_a_resume(replies: list[Any]) -> None:
    live, again = conversation(replies, 2)
    assert not [item for item in live.of(ToolItem) if item.status in ("writing", "waiting", "running")]
    kinds = (PromptItem, AnswerItem, ToolItem)
    told = [(type(item), getattr(item, "text", "")) for item in live.items if isinstance(item, kinds)]
    retold = [(type(item), getattr(item, "text", "")) for item in again.items if isinstance(item, kinds)]
    assert told == retold


def test_a_command_that_runs_again_with_network_counts_its_time_without_the_wait() -> None:
    presenter, shown = Presenter(), Shown()
    question = {"request_id": "q", "tool_use_id": "t"}
    shown.apply(presenter.show(ev.ToolStarted(tool_use_id="t", name="Bash", input={}, title="Bash get"), 10.0))
    asked = ev.PermissionRequested(name="Bash", input={}, title="Bash get", reason="", suggestions=[], **question)
    shown.apply(presenter.show(asked, 12.0))
    (item,) = shown.of(ToolItem)
    assert item.status == "waiting"
    shown.apply(presenter.show(ev.PermissionResolved(behavior="allow", **question), 72.0))
    (item,) = shown.of(ToolItem)
    assert (item.status, item.began) == ("running", 70.0)
    assert (presenter.activity.text, presenter.activity.step_began) == ("Bash get", 70.0)


def test_an_approved_call_that_has_not_begun_no_longer_waits_for_an_answer() -> None:
    presenter, shown = Presenter(), Shown()
    question = {"request_id": "q", "tool_use_id": "t"}
    block = ToolUseBlock("t", "Bash", {"command": "make"})
    shown.apply(presenter.show(finished(block), 10.0))
    asked = ev.PermissionRequested(name="Bash", input={}, title="Bash make", reason="", suggestions=[], **question)
    shown.apply(presenter.show(asked, 12.0))
    shown.apply(presenter.show(ev.PermissionResolved(behavior="allow", **question), 20.0))
    (item,) = shown.of(ToolItem)
    assert item.status == "queued"


def test_a_compaction_counts_its_own_time_and_no_time_counts_while_the_user_is_asked() -> None:
    presenter = Presenter()
    presenter.begin(10.0)
    presenter.show(ev.CompactionStarted(trigger="auto"), 100.0)
    assert presenter.activity.step_began == 100.0
    proposed = ev.CompactionProposed(
        request_id="q", summary="s", tokens_before=9, tokens_after=1, cost_usd=None, kept=[], dropped=[]
    )
    presenter.show(proposed, 110.0)
    assert presenter.activity.phase == "waiting"
    presenter.show(ev.RequestStarted(model="m", turn=2, purpose="turn", estimated_tokens=1), 200.0)
    assert presenter.activity.began == 100.0, "90 seconds were the user's"
