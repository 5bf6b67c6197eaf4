"""Microcompact: old results that can be produced again are cleared in batches when it pays off."""

from __future__ import annotations

from agentcli.assemble.context_pipeline import clearable_tools
from agentcli.context.edits import Edits
from agentcli.context.old_results import Microcompact, ToolResultBudget
from agentcli.context.steps import ContextState, StepPlan
from tests.context.logs import Talk


def read_much(count: int, words: int = 2_000) -> tuple[Talk, list[str]]:
    talk = Talk()
    talk.prompt("go")
    blocks = [talk.call("Read", {"file_path": f"/{number}.py"}, "some words\n" * words) for number in range(count)]
    return talk, blocks


def state(estimate: int = 70_000, edits: Edits | None = None, **rest: object) -> ContextState:
    edits = edits or Edits()
    return ContextState(estimate=estimate, usable=100_000, edited=edits.edited, **rest)  # type: ignore[arg-type]


def targets(plan: StepPlan | None) -> list[str]:
    return [] if plan is None else [edit.target for edit in plan.edits]


def test_all_but_the_newest_results_are_cleared_with_a_line_naming_each() -> None:
    talk, blocks = read_much(12)
    plan = Microcompact(clearable_tools(), keep=8).plan(talk.log, state())
    assert targets(plan) == blocks[:4]
    assert plan is not None
    assert plan.text == "cleared 4 old results"
    assert plan.edits[0].text == (
        "[Cleared to make room: the old result of Read /0.py (2,001 lines). Read it again if you need it.]"
    )
    assert plan.freed > 4 * 3_000


def test_below_the_threshold_results_are_cleared_only_with_a_cold_cache() -> None:
    talk, blocks = read_much(12)
    step = Microcompact(clearable_tools(), keep=8)
    assert step.plan(talk.log, state(50_000)) is None
    assert targets(step.plan(talk.log, state(50_000, cache_cold=True))) == blocks[:4]


def test_a_small_gain_is_not_worth_clearing() -> None:
    talk, _blocks = read_much(12, words=300)
    assert Microcompact(clearable_tools(), keep=8).plan(talk.log, state()) is None
    small = ContextState(estimate=9_000, usable=10_000)
    assert Microcompact(clearable_tools(), keep=8).plan(talk.log, small) is not None, (
        "a tenth of a small window is worth it"
    )


def test_a_result_that_cannot_be_repeated_stays() -> None:
    talk = Talk()
    talk.prompt("go")
    for name in ("mcp__docs__read", "Task", "AskUserQuestion", "Edit", "ExitPlanMode"):
        talk.call(name, {"file_path": "/a"}, "some words\n" * 5_000)
    talk.call("TodoWrite", {}, "ok")
    assert Microcompact(clearable_tools(), keep=0).plan(talk.log, state()) is None


def test_pinned_results_and_the_newest_exchange_always_stay() -> None:
    talk, blocks = read_much(6, words=4_000)
    step = Microcompact(clearable_tools(), keep=0)
    assert targets(step.plan(talk.log, state(pinned=frozenset([blocks[1]])))) == [blocks[0], *blocks[2:5]]
    assert targets(step.plan(talk.log, state())) == blocks[:5], "a pin can be taken away again"


def test_the_path_of_a_stored_large_result_is_kept() -> None:
    talk = Talk()
    talk.prompt("go")
    block = talk.call("Bash", {"command": "make\x1b[31m all\n" + "x" * 500}, "noise " * 20_000)
    edits = Edits()
    plan = ToolResultBudget(lambda name, _text: f"/results/{name}").plan(talk.log, state())
    assert plan is not None
    edits.add(plan.edits[0])
    talk.call("Bash", {"command": "make"}, "ok")
    small = ContextState(estimate=1_900, usable=2_000, edited=edits.edited)
    cleared = Microcompact(clearable_tools(), keep=0).plan(talk.log, small)
    assert targets(cleared) == [block]
    assert cleared is not None
    text = cleared.edits[0].text
    assert "is in /results/toolu_1_0.txt" in text
    assert "\x1b" not in text
    assert len(text) < 500
