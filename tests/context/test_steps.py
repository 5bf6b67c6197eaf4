"""What a change is worth against the cache it breaks, and the pipeline that weighs the steps: for any conversation."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.assemble.context_pipeline import clearable_tools
from agentcli.context.edits import ContextEdit, edit_from_dict
from agentcli.context.old_results import Microcompact, Snip, ToolResultBudget
from agentcli.context.steps import (
    LOOKED_BACK,
    ContextState,
    ContextStep,
    Pipeline,
    StepPlan,
    expect_turns,
    newest_exchange,
    still_cached,
    worth_it,
)
from agentcli.context.view import ContextView
from agentcli.core.events import ContextEdited
from agentcli.core.messages import Block, Message, Origin, TextBlock, ToolResultBlock
from agentcli.core.usage import Usage
from tests.context.logs import Talk, ran, refused, shown_text, talks

# ------------------------------------------------------------------------------------------------------ the arithmetic


def freeing(tokens: int, *, must: bool = False) -> StepPlan:
    return StepPlan((ContextEdit(kind="replace", target="m:0", text="x", freed=tokens),), "", must)


def at(cached: int, **rest: object) -> ContextState:
    return ContextState(estimate=50_000, usable=100_000, cached=cached, **rest)  # type: ignore[arg-type]


def test_one_freed_token_pays_for_one_and_three_quarters_rewritten_ones() -> None:
    """20 turns at a tenth are 2 input tokens; a rewritten one costs 1.25 − 0.1."""
    assert worth_it(freeing(1_000), 10_000, at(10_000 + 1_000 + 1_700))
    assert not worth_it(freeing(1_000), 10_000, at(10_000 + 1_000 + 1_800))
    assert worth_it(freeing(1_000), 10_000, at(10_000 + 1_000 + 1_800, turns_to_come=30))


def test_a_free_change_is_worthwhile_and_one_without_gain_is_not() -> None:
    assert worth_it(freeing(1), 30_000, at(30_000)), "all of it is behind the cache"
    assert worth_it(freeing(1), 0, at(40_000, cache_cold=True))
    assert not worth_it(freeing(0), 30_000, at(0))
    assert worth_it(freeing(0, must=True), 0, at(40_000))


def test_near_the_limit_space_matters_more_than_the_cache() -> None:
    assert worth_it(freeing(1_000), 0, ContextState(estimate=86_000, usable=100_000, cached=86_000))
    assert not worth_it(freeing(156), 0, ContextState(estimate=86_000, usable=100_000, cached=86_000)), (
        "that is no room"
    )
    assert not worth_it(freeing(1_000), 0, ContextState(estimate=84_000, usable=100_000, cached=84_000))
    assert worth_it(freeing(10), 0, ContextState(estimate=10, usable=0, cached=10)), "no window at all is a full one"


def test_a_change_that_makes_room_is_worthwhile_even_below_the_limit() -> None:
    below = ContextState(estimate=76_000, usable=100_000, cached=76_000, turns_to_come=1)
    assert not worth_it(freeing(20_000), 0, below)
    assert worth_it(replace(freeing(20_000), for_room=True), 0, below)
    assert not worth_it(replace(freeing(156), for_room=True), 0, below), "that is no room"


def test_an_hour_s_cache_costs_more_to_write_again() -> None:
    assert worth_it(freeing(1_000), 10_000, at(10_000 + 1_000 + 1_700))
    assert not worth_it(freeing(1_000), 10_000, at(10_000 + 1_000 + 1_700, long_lived=True))


def test_the_expected_number_of_turns_follows_the_work_and_is_bounded() -> None:
    assert [expect_turns(turn, None) for turn in (1, 3, 30)] == [1, 3, 20]
    assert [expect_turns(turn, 5) for turn in (1, 3, 4, 5, 6)] == [1, 3, 2, 1, 1]
    assert expect_turns(2, None, earlier=9) == 11
    assert expect_turns(5, 5, earlier=9) == 10, "the bound is for one prompt"


def test_the_newest_exchange_is_the_open_or_the_last_answered_one() -> None:
    talk = Talk()
    assert newest_exchange(talk.log) == 0
    talk.prompt("go")
    talk.call("Bash", {}, "a")
    talk.call("Bash", {}, "b")
    assert newest_exchange(talk.log) == 3
    talk.answer()
    talk.prompt("more")
    assert newest_exchange(talk.log) == 3
    talk.answer()
    talk.prompt("and?")
    assert newest_exchange(talk.log) == 6


# -------------------------------------------------------------------------------------------------------- the pipeline


class Fixed:
    """A step that wants the same as long as it is not done."""

    def __init__(self, name: str, block: str, freed: int) -> None:
        self.name = name
        self._edit = ContextEdit(kind="replace", target=block, text="x", freed=freed, step=name)

    def plan(self, shown: Sequence[Message], state: ContextState) -> StepPlan | None:
        return None if state.edited(self._edit.target) else StepPlan((self._edit,), f"shortened {self._edit.target}")


def long_talk() -> tuple[Talk, list[str]]:
    talk = Talk()
    talk.prompt("go")
    return talk, [talk.call("Bash", {"command": str(n)}, "some words of output " * 500) for n in range(10)]


def test_a_change_of_sent_content_is_reported_with_its_reason_and_visible_at_once() -> None:
    talk, blocks = long_talk()
    view = ContextView()
    events = ran(Pipeline([Fixed("snip", blocks[8], 9_000)]), view, talk.log, lambda freed: at(25_000 - freed))
    assert events == [
        ContextEdited(
            edits=[{"kind": "replace", "target": blocks[8], "text": "x", "step": "snip", "freed": 9_000}],
            step="snip",
            freed_tokens=9_000,
            text=f"shortened {blocks[8]}",
        ),
    ]
    assert shown_text(view, talk.log, blocks[8]) == "x"


def test_a_change_of_unsent_content_breaks_nothing() -> None:
    talk, blocks = long_talk()
    events = ran(Pipeline([Fixed("budget", blocks[9], 10)]), ContextView(), talk.log, lambda _freed: at(0))
    assert [type(event) for event in events] == [ContextEdited]


def test_small_changes_are_made_when_the_prefix_is_broken_anyway() -> None:
    talk, blocks = long_talk()
    small = Fixed("snip", blocks[5], 50)
    large = Fixed("microcompact", blocks[1], 20_000)
    state = ContextState(estimate=30_000, usable=100_000, cached=29_000)
    assert ran(Pipeline([small]), ContextView(), talk.log, lambda _freed: state) == []
    events = ran(Pipeline([small, large]), ContextView(), talk.log, lambda _freed: state)
    assert [event.step for event in events if isinstance(event, ContextEdited)] == ["microcompact", "snip"]


def test_a_step_waits_until_the_previous_one_is_recorded() -> None:
    talk, blocks = long_talk()
    view = ContextView()
    steps = [Fixed("snip", blocks[1], 9_000), Fixed("microcompact", blocks[2], 9_000)]
    running = Pipeline(steps).run(view, talk.log, lambda _freed: at(0, cache_cold=True))
    assert next(running).step == "snip"
    assert [shown_text(view, talk.log, block) == "x" for block in blocks[1:3]] == [True, False]
    assert next(running).step == "microcompact"
    assert [shown_text(view, talk.log, block) == "x" for block in blocks[1:3]] == [True, True]
    assert next(running, None) is None


def test_until_the_next_reply_nothing_is_cached_after_the_break() -> None:
    talk, blocks = long_talk()
    view = ContextView()
    seen: list[int] = []

    class Watching:
        name = "watching"

        def plan(self, shown: Sequence[Message], state: ContextState) -> StepPlan | None:
            seen.append(state.cached)
            return None

    pipeline = Pipeline([Watching(), Fixed("microcompact", blocks[1], 20_000)])
    state = ContextState(estimate=30_000, usable=100_000, cached=29_000)
    assert ran(pipeline, view, talk.log, lambda _freed: state)
    ran(pipeline, view, talk.log, lambda _freed: state)
    talk.answer()
    talk.prompt("more")
    ran(pipeline, view, talk.log, lambda _freed: state)
    assert seen[0] == seen[2] == 29_000
    assert seen[1] < 12_000


def test_pins_bind_every_step() -> None:
    talk, blocks = long_talk()
    step = Fixed("snip", blocks[1], 9_000)
    cold = at(0, cache_cold=True)
    pinned = at(0, cache_cold=True, pinned=frozenset([blocks[1]]))
    assert ran(Pipeline([step]), ContextView(), talk.log, lambda _freed: pinned) == []
    assert ran(Pipeline([step]), ContextView(), [], lambda _freed: cold) == []


def test_freed_tokens_lower_the_estimate_and_the_next_request_equally() -> None:
    talk, blocks = long_talk()
    talk.answer("Done.", Usage(28_000, 20))
    talk.prompt("more")
    view = ContextView()
    before = view.estimate(talk.log, 0)
    events = ran(
        Pipeline([Microcompact(clearable_tools(), keep=3)]),
        view,
        talk.log,
        lambda freed: ContextState(estimate=before - freed, usable=30_000, cached=before),
    )
    assert isinstance(events[0], ContextEdited)
    assert events[0].freed_tokens > 10_000
    assert view.estimate(talk.log, 0) == before - events[0].freed_tokens
    assert shown_text(view, talk.log, blocks[0]).startswith("[Cleared to make room")


# ------------------------------------------------------------------------------------------------ for any conversation


def steps_in(order: Sequence[int]) -> list[ContextStep]:
    """Eager ones, so that small conversations are enough."""
    made: list[ContextStep] = [
        ToolResultBudget(lambda name, _text: f"/results/{name}", limit=3_000, per_message=7_000),
        Snip(picture_replies=1),
        Microcompact(clearable_tools(), keep=1, threshold=0.0),
    ]
    return [made[place] for place in order]


def all_blocks(log: Sequence[Message]) -> dict[str, Block]:
    return {f"{message.id}:{number}": block for message in log for number, block in enumerate(message.content)}


states = st.builds(
    ContextState,
    estimate=st.integers(0, 5_000),
    usable=st.integers(1, 5_000),
    cached=st.integers(0, 5_000),
    cache_cold=st.booleans(),
)


@given(talks(), st.permutations(range(3)), st.data(), states)
def test_any_log_order_and_pins_give_a_valid_request_with_all_required_content(
    log: list[Message], order: list[int], data: st.DataObject, basis: ContextState
) -> None:
    kept = copy.deepcopy(log)
    blocks = all_blocks(log)
    pinned = frozenset(data.draw(st.sets(st.sampled_from(sorted(blocks)))))
    pipeline, view = Pipeline(steps_in(order)), ContextView()
    resumed = ContextView()

    def state(freed: int) -> ContextState:
        return ContextState(
            estimate=max(0, basis.estimate - freed),
            usable=basis.usable,
            cached=basis.cached,
            cache_cold=basis.cache_cold,
            pinned=pinned,
        )

    turns = [place for place, message in enumerate(log) if message.role == "assistant"]
    for end in [*turns, len(log)]:  # as a loop does it: before every request
        events = ran(pipeline, view, log[:end], state)
        for event in events:
            if isinstance(event, ContextEdited):
                resumed.edit(map(edit_from_dict, event.edits), log[end - 1].id)
        assert refused(view, log[:end]) == []
    done = sum(event.freed_tokens for event in events if isinstance(event, ContextEdited))
    assert ran(pipeline, view, log, lambda freed: state(done + freed)) == [], "applying twice changes nothing"
    assert resumed.wire(log) == view.wire(log), "what was recorded gives the same request again"
    shown = all_blocks(view.messages(log))
    assert all(shown[block] == blocks[block] for block in pinned), "pinned blocks are there as they were"
    newest = newest_exchange(log)
    untouched = all_blocks(log[newest:])
    fresh = {id for id, block in untouched.items() if isinstance(block, ToolResultBlock)}
    assert all(shown[id] == block for id, block in untouched.items() if id not in fresh)
    assert log == kept, "nothing in the log has changed"
    last = next(message for message in reversed(log) if message.origin is Origin.PROMPT)
    assert TextBlock("the very last words") in view.messages(log)[log.index(last)].content


@given(talks(), st.permutations(range(3)))
def test_sent_messages_change_only_with_a_reported_edit(log: list[Message], order: list[int]) -> None:
    pipeline, view = Pipeline(steps_in(order)), ContextView()
    sent: tuple[object, ...] = ()
    for end in [p for p, message in enumerate(log) if message.role == "assistant"]:
        events = ran(pipeline, view, log[:end], lambda _freed: at(40_000))
        wire = view.wire(log[:end])
        if not events:
            assert wire[: len(sent)] == sent
        sent = wire


@pytest.mark.parametrize("step", range(3))
@given(log=talks())
def test_incremental_planning_equals_planning_from_the_start(step: int, log: list[Message]) -> None:
    used = steps_in([step])[0]
    state = at(0, cache_cold=True)
    for end in range(len(log)):
        used.plan(log[:end], state)
    assert used.plan(log, state) == steps_in([step])[0].plan(log, state)


def test_the_cache_is_found_where_a_request_ended_and_not_far_back() -> None:
    blocks = (TextBlock("x"),)
    talk = [Message("assistant" if n % 2 else "user", blocks, str(n), Origin.PROMPT) for n in range(40)]
    assert [still_cached(talk, place) for place in (39, 38, 37, 36)] == [39, 37, 37, 35]
    reached = [place for place in range(40) if still_cached(talk, place)]
    assert reached == list(range(40 - LOOKED_BACK + 1, 40))
    assert still_cached(talk[:1], 0) == 0
