"""Sub-agents in the app: their items, what is kept of them, interruption, and what they leave when they have ended."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Iterable
from dataclasses import replace

from agentcli.core import events as ev
from agentcli.core.messages import Message, Origin, TextBlock
from agentcli.tui import progress as module
from agentcli.tui.model import Activity, Add, AnswerItem, Grow, NoticeItem, PromptItem, Replace, ThinkingItem, ToolItem
from agentcli.tui.presenter import Presenter
from agentcli.tui.progress import ENDED_KEPT, AgentItem, AgentProgress
from agentcli.tui.resume import replay
from tests.support.agent_events import agent_end, agent_start, agent_work, question, task_call, task_end
from tests.support.shown import Shown
from tests.tui.test_presenter import result


class Session:
    """A presenter and what it shows; the clock goes one second with each event."""

    def __init__(self) -> None:
        self.shown, self.presenter, self.now = Shown(), Presenter(), 0.0

    def show(self, *events: ev.Event | Iterable[ev.Event]) -> None:
        for event in events:
            for one in (event,) if isinstance(event, ev.Event) else event:
                self.now += 1
                self.shown.apply(self.presenter.show(one, self.now))

    def progress(self, place: int = 0) -> AgentProgress:
        return self.shown.of(AgentItem)[place].progress

    @property
    def activity(self) -> Activity:
        return self.presenter.activity


def running(*agents: str, background: bool = False) -> Session:
    """A session in which these agents have started at the same time."""
    session = Session()
    session.presenter.begin(0.0)
    for agent in agents:
        session.show(task_call(f"t-{agent}"))
    for agent in agents:
        session.show(agent_start(agent, f"t-{agent}", background=background))
    return session


# --------------------------------------------------------------------------------------------------------- the items


def test_an_agent_takes_the_place_of_the_call_that_started_it() -> None:
    session = running("explore-1", "explore-2")
    assert session.shown.texts() == [
        "agent: explore-1: Find the callers [running]",
        "agent: explore-2: Find the callers [running]",
    ]
    session.show(agent_end("explore-2", "t-explore-2"), task_end("t-explore-2"))
    session.show(agent_end("explore-1", "t-explore-1", "failed"), task_end("t-explore-1"))
    assert session.shown.texts() == [
        "agent: explore-1: Find the callers [failed]",
        "agent: explore-2: Find the callers [done]",
    ]


def test_nothing_of_an_agent_becomes_part_of_the_conversation() -> None:
    session = running("explore-1")
    phase = session.activity
    session.show(agent_work("explore-1"))
    assert len(session.shown.items) == 1
    assert session.activity == phase
    items = session.progress().items()
    assert [type(item) for item in items] == [PromptItem, ThinkingItem, AnswerItem, ToolItem]
    assert items[2].text == "Found it."
    assert items[3].status == "done"


def test_events_of_an_agent_need_no_operation_but_when_its_state_changes() -> None:
    session = running("explore-1")
    for event in agent_work("explore-1", turns=3):
        assert session.presenter.show(event, 1.0) == []
    asked = session.presenter.show(question("explore-1"), 2.0)
    assert [type(operation) for operation in asked] == [Replace]
    assert session.progress().status == "waiting"
    assert session.progress().doing == "Bash make"
    assert session.activity.text == "Waiting for your answer"
    resolved = ev.PermissionResolved(agent="explore-1", request_id="q", tool_use_id="x", behavior="allow")
    assert [type(operation) for operation in session.presenter.show(resolved, 3.0)] == [Replace]
    assert session.activity.text == "1 agent running"


def test_what_an_agent_does_and_took_is_counted() -> None:
    session = running("explore-1")
    seen = set()
    for event in agent_work("explore-1", turns=2):
        session.show(event)
        seen.add(session.progress().doing)
    assert {"Thinking", "Writing", "Grep head", "Waiting for the model"} <= seen
    assert (session.progress().tokens, session.progress().cost_usd) == (2_200, 0.02)
    session.show(agent_end("explore-1", "t-explore-1"))
    progress = session.progress()
    assert (progress.tokens, progress.cost_usd, progress.turns, progress.seconds) == (24_000, 0.05, 2, 14.0)
    assert progress.report == "Three callers."


def test_a_call_that_was_refused_is_not_what_an_agent_still_does() -> None:
    session = running("explore-1")
    session.show(ev.BlockStarted(message_id="m1", index=0, kind="tool_use", name="Bash", agent="explore-1"))
    assert session.progress().doing == "Writing the input of Bash"
    session.show(ev.RequestStarted(model="m", turn=2, agent="explore-1"))
    assert session.progress().doing == "Waiting for the model"


def test_an_agent_inside_of_another_is_shown_there_and_counted_in_both() -> None:
    session = running("general-1")
    session.show(task_call("inner", agent="general-1"))
    session.show(agent_start("explore-1", "inner", parent="general-1"), agent_work("explore-1"))
    assert len(session.shown.items) == 1
    (inner,) = session.progress().items()
    assert isinstance(inner, AgentItem)
    assert len(inner.progress.items()) == 4
    assert session.progress().tokens == inner.progress.tokens == 1_100
    version = session.progress().version
    session.show(agent_end("explore-1", "inner"))
    assert inner.progress.status == "done"
    assert session.progress().version > version
    assert session.activity.agents == 1


def test_the_activity_says_how_many_agents_the_work_waits_for() -> None:
    session = running("explore-1", "explore-2", "explore-3")
    assert (session.activity.text, session.activity.agents) == ("3 agents running", 3)
    session.show(agent_end("explore-1", "t-explore-1"), task_end("t-explore-1"))
    assert (session.activity.text, session.activity.agents) == ("2 agents running", 2)


def test_a_task_that_fails_before_its_agent_starts_stays_a_call() -> None:
    session = Session()
    session.show(task_call("t"), task_end("t", text="There is no agent called x.", outcome="failed"))
    assert session.shown.texts() == ["tool: explore: Find the callers [failed]"]


def test_all_text_of_agents_is_free_of_control_sequences() -> None:
    bad = "a\x1b[2Jb\x07"
    session = Session()
    session.show(task_call("t"), agent_start("x-1", "t", description=bad), agent_work("x-1", text=bad))
    session.show(question("x-1"), agent_end("x-1", "t", text=bad))
    progress = session.progress()
    words = [progress.title, progress.report, *(str(getattr(item, "text", "")) for item in progress.items())]
    assert not any("\x1b" in word or "\x07" in word for word in words)


# ------------------------------------------------------------------------------------------- interruption and the end


def test_an_interruption_stops_the_agents_of_the_submission_and_nothing_of_them_comes_after_it() -> None:
    session = running("explore-1", "explore-2")
    session.show(agent_work("explore-1"))
    session.shown.apply(session.presenter.interrupted(60.0))
    assert [item.progress.status for item in session.shown.of(AgentItem)] == ["stopped", "stopped"]
    assert session.activity.agents == 0
    kept = len(session.progress().items())
    session.show(agent_work("explore-1", turns=2))
    assert len(session.progress().items()) == kept
    session.show(agent_end("explore-1", "t-explore-1", "stopped", duration_ms=61_000))
    assert session.progress().seconds == 61.0
    session.show(result(terminal="aborted_tools"))
    assert [item.progress.status for item in session.shown.of(AgentItem)] == ["stopped", "stopped"]
    assert session.activity == Activity()


def test_an_interrupted_command_of_an_agent_keeps_its_partial_output() -> None:
    progress = AgentProgress(agent_start("explore-1", "t"), 0.0)
    running_call = ToolItem(id="c", name="Bash", title="make", status="running")
    progress.apply([Add(running_call), Grow("c", "half of "), Grow("c", "the output")])
    progress.apply([Replace(replace(running_call, status="interrupted"))])
    (call,) = progress.items()
    assert isinstance(call, ToolItem)
    assert (call.status, call.output) == ("interrupted", "half of the output")


def test_a_background_agent_goes_on_after_its_call_and_the_submission() -> None:
    session = running("explore-1", background=True)
    session.show(task_end("t-explore-1"))
    session.shown.apply(session.presenter.interrupted(5.0))
    session.show(result(terminal="aborted_tools"))
    session.show(agent_work("explore-1"))
    assert session.progress().status == "running"
    assert session.activity == Activity(agents=1)
    assert len(session.progress().items()) == 4
    session.show(agent_end("explore-1", "t-explore-1", background=True))
    assert session.activity.agents == 0
    notice = session.shown.of(NoticeItem)[-1].text
    assert notice.startswith("Agent explore-1 completed: Find the callers (2 turns")
    assert notice.endswith("The model gets its report with the next request.")


def test_a_background_agent_that_starts_after_its_call_has_ended_takes_its_place_too() -> None:
    session = Session()
    session.show(task_call("t"), task_end("t"), agent_start("explore-1", "t", background=True))
    assert session.shown.texts() == ["agent: explore-1: Find the callers [running]"]


def test_an_agent_without_an_end_is_stopped_with_the_submission() -> None:
    session = running("explore-1")
    session.show(result())
    assert session.progress().status == "stopped"


# --------------------------------------------------------------------------------------------------- resumed sessions


def test_a_resumed_session_shows_agents_as_blocks_without_what_they_did() -> None:
    prompt = Message("user", (TextBlock("Look."),), "p", Origin.PROMPT)
    history = [
        ev.MessageAppended(message=prompt),
        *task_call("a"),
        *task_call("b"),
        agent_start("explore-1", "a"),
        agent_start("explore-2", "b", background=True),
        agent_end("explore-1", "a"),
        task_end("a"),
        task_end("b"),
        result(),
    ]
    items = replay(history, lambda name, _input: name)
    agents = [item.progress for item in items if isinstance(item, AgentItem)]
    assert [(one.id, one.status, one.report) for one in agents] == [
        ("explore-1", "done", "Three callers."),
        ("explore-2", "stopped", ""),
    ]
    assert not any(isinstance(item, ToolItem) for item in items)


# ------------------------------------------------------------------------------------------------------------- memory


def test_an_agent_keeps_its_last_items_and_counts_the_others() -> None:
    session = running("explore-1")
    session.show(agent_work("explore-1", turns=80))
    progress = session.progress()
    assert len(progress.items()) == module.KEPT_ITEMS
    assert progress.dropped == 1 + 3 * 80 - module.KEPT_ITEMS
    session.show(agent_work("explore-1", text="x" * 200_000, size=1_000))
    sizes = [len(item.text) for item in progress.items() if isinstance(item, AnswerItem)]
    assert module.MAX_TEXT < max(sizes) < module.MAX_TEXT + 100


def test_text_that_streams_without_end_is_kept_within_limits() -> None:
    session = running("explore-1")
    for _piece in range(100):
        session.show(ev.TextStreamed(agent="explore-1", message_id="m", index=0, text="y" * 1_000))
    (answer,) = session.progress().items()
    assert isinstance(answer, AnswerItem)
    assert len(answer.text) <= 2 * module.MAX_TEXT + 1


def test_ended_agents_give_their_memory_back() -> None:
    session = Session()
    gone: list[weakref.ref[object]] = []

    def run_agents(first: int, count: int) -> int:
        """Bytes in use afterwards."""
        for number in range(first, first + count):
            agent, call = f"explore-{number}", f"t{number}"
            session.show(task_call(call), agent_start(agent, call))
            session.show(agent_work(agent, turns=3, text="The quick brown fox. " * 300, size=1_000))
            gone.append(weakref.ref(session.presenter.agents._runs[agent].presenter))
            session.show(agent_end(agent, call), task_end(call), result())
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = run_agents(0, ENDED_KEPT)
        after = run_agents(100, 2 * ENDED_KEPT)
    finally:
        tracemalloc.stop()
    # A row and a report each; what the last ones keep was there before, too.
    assert (after - before) / (2 * ENDED_KEPT) < 4_000
    assert not any(reference() for reference in gone)
    kept = [item.progress for item in session.shown.of(AgentItem) if item.progress.items()]
    assert kept == [item.progress for item in session.shown.of(AgentItem)[-ENDED_KEPT:]]
    assert session.progress(0).dropped > 0
