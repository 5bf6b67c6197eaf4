"""Which old exchanges may be replaced by a summary, with what and when: for any conversation."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.context import collapse as words
from agentcli.agent.context.collapse import LATEST_TURNS, MAX_ASKED, MIN_SPAN, Collapse, Span, Thresholds, find_spans
from agentcli.assemble.context_pipeline import clearable_tools
from agentcli.context.edits import ContextEdit, block_id
from agentcli.context.estimate import message_tokens
from agentcli.context.old_results import Microcompact, Snip
from agentcli.context.steps import ContextState, ContextStep, Pipeline
from agentcli.context.view import ContextView
from agentcli.core.messages import Block, Message, Origin, TextBlock, ToolResultBlock, ToolUseBlock, user_message
from tests.context.logs import PIXEL, Talk, numbered, ran, refused, talks

BODY = numbered(1, 200)
"""About three thousand tokens as a result."""


def exchange(talk: Talk, number: int, body: str = BODY) -> str:
    """Returns the id of its prompt."""
    prompt = talk.prompt(f"question {number}")
    talk.call("Read", {"file_path": f"/{number}.py"}, body)
    talk.answer(f"answer {number}")
    return prompt


def long_talk(count: int = 6) -> Talk:
    talk = Talk()
    for number in range(count):
        exchange(talk, number)
    return talk


def spans(log: Sequence[Message], *stay: str) -> list[Span]:
    return list(find_spans(log, lambda message: message.id in stay, message_tokens))


def ends(found: Sequence[Span]) -> list[tuple[str, str]]:
    return [(span.ids[0], span.ids[-1]) for span in found]


# --------------------------------------------------------------------------------------------------------- which spans


def test_whole_exchanges_are_spans_but_never_the_last_two() -> None:
    talk = long_talk(4)
    assert ends(spans(talk.log)) == [("m0", "m3"), ("m4", "m7")]
    talk.prompt("one more")
    assert ends(spans(talk.log)) == [("m0", "m3"), ("m4", "m7"), ("m8", "m11")]
    assert spans(long_talk(2).log) == spans([]) == []


def test_short_exchanges_are_combined_until_a_summary_pays_off() -> None:
    talk = Talk()
    for number in range(40):
        talk.prompt(f"question {number}")
        talk.answer("word " * 300)
    found = spans(talk.log)
    assert found
    assert all(MIN_SPAN <= span.tokens < 2 * MIN_SPAN and span.count > 1 for span in found)
    assert spans(talk.log[:10]) == []


def test_an_exchange_with_required_content_is_not_collapsed() -> None:
    talk = long_talk(5)
    assert ends(spans(talk.log, "m6")) == [("m0", "m3"), ("m8", "m11")]


def test_an_unanswered_prompt_is_in_no_span() -> None:
    talk = Talk()
    talk.prompt("nobody answers this " * 500)
    exchange(talk, 0)
    talk._add("user", [TextBlock("and quickly " * 900)], Origin.QUEUED)
    exchange(talk, 1)
    exchange(talk, 2)
    exchange(talk, 3)
    assert ends(spans(talk.log)) == [("m2", "m3"), ("m6", "m9")], "only the finished turn of the first exchange"


def turns(talk: Talk, count: int, body: str = BODY) -> None:
    for number in range(count):
        talk.call("Read", {"file_path": f"/{number}.py"}, body)


def test_finished_turns_of_the_running_prompt_are_spans_but_never_the_last_ones() -> None:
    talk = Talk()
    talk.prompt("do all of it")
    turns(talk, LATEST_TURNS)
    assert spans(talk.log) == []
    turns(talk, 3)
    found = spans(talk.log)
    assert ends(found) == [("m1", "m2"), ("m3", "m4"), ("m5", "m6")]
    assert {(span.kind, span.count) for span in found} == {("turn", 1)}
    assert ends(spans(talk.log, "m4")) == [("m1", "m2"), ("m5", "m6")]
    talk.answer()
    assert ends(spans(talk.log)) == ends(found)
    talk.prompt("and more")
    turns(talk, LATEST_TURNS)
    assert len(spans(talk.log)) == 3 + LATEST_TURNS, "those of the previous prompt too, but not its words"


@pytest.mark.parametrize("name", ["ToolSearch", "Skill"])
def test_a_turn_that_loaded_tools_or_instructions_stays(name: str) -> None:
    talk = Talk()
    talk.prompt("do all of it")
    talk.call(name, {"query": "x"}, BODY)
    turns(talk, 1 + LATEST_TURNS)
    assert ends(spans(talk.log)) == [("m3", "m4")]


def test_a_committed_span_of_turns_leaves_the_rest_of_its_exchange_to_later_spans() -> None:
    talk = Talk()
    prompt = talk.prompt("do all of it")
    turns(talk, 2 + LATEST_TURNS)
    view, step = ContextView(), staged(talk.log)
    plan = step.plan_all(talk.log, frozenset(), view.edits.edited)
    assert plan is not None
    assert plan.text == "summarised 2 old turns"
    view.edit(plan.edits, talk.log[-1].id)
    assert [message.id for message in view.messages(talk.log)][:2] == [prompt, "collapse:m1"]
    assert refused(view, talk.log) == []
    talk.answer()
    exchange(talk, 8)
    exchange(talk, 9)
    shown = view.messages(talk.log)
    left = list(find_spans(shown, lambda message: message.id.startswith("collapse:"), message_tokens))
    assert [(span.kind, *ends([span])) for span in left] == [("exchange", ("m5", "m13"))]


def test_attachments_before_a_prompt_belong_to_its_exchange() -> None:
    talk = Talk()
    exchange(talk, 0)
    note = talk._add("user", [TextBlock("The user ran: make")], Origin.ATTACHMENT)
    for number in range(3):
        exchange(talk, number)
    assert ends(spans(talk.log)) == [("m0", "m3"), (note, "m8")]


# ---------------------------------------------------------------------------------------------------------- the words


def only_span(log: Sequence[Message]) -> Span:
    (span,) = spans(log)
    return span


def test_the_small_model_sees_the_exchange_with_long_content_cut() -> None:
    talk = Talk()
    talk.prompt("look at it", PIXEL)
    talk.call("Read", {"file_path": "/a.py"}, "begin " + "x" * 300_000 + " end", is_error=True)
    talk.call("Look", {"what": "y" * 100_000}, [TextBlock("seen"), PIXEL])
    talk.answer("z\x00" * 100_000)
    exchange(talk, 1)
    exchange(talk, 2)
    text = words.format_span(only_span(talk.log))
    assert "User: look at it\nUser: (a picture)" in text
    assert "Agent called Read with {'file_path': '/a.py'}" in text
    assert "Failed: begin x" in text
    assert "x end" in text
    assert "Result: (with a picture) seen" in text
    assert "\x00" not in text
    assert len(text) < 12_000
    for number in range(200):
        exchange(talk, number, "words of many kinds " * 5_000)
    whole = Span(tuple(talk.log), "exchange", 200, 10**6)
    assert len(words.format_span(whole)) < MAX_ASKED + 1_000


def test_the_users_messages_are_kept_verbatim_beside_the_summary() -> None:
    talk = long_talk(3)
    text = words.stand_in(only_span(talk.log), "They read \x1b[31m0.py.")
    assert text is not None
    assert "<user_message>\nquestion 0\n</user_message>" in text
    assert text.endswith("They read 0.py.")


@pytest.mark.parametrize("summary", ["", " \n", "many words that say little " * 300])
def test_an_empty_or_too_long_summary_is_rejected(summary: str) -> None:
    assert words.stand_in(only_span(long_talk(3).log), summary) is None


def test_notes_that_still_apply_are_kept_verbatim() -> None:
    talk = long_talk(1)
    plan, old, long = (
        user_message(text, id, Origin.ATTACHMENT, {kind: True})
        for text, id, kind in (("[Plan mode is on.]", "p", "mode"), ("old", "o", "folders"), ("w " * 900, "l", "long"))
    )
    talk.log[2:2] = [plan, old, long]
    exchange(talk, 1)
    talk.log.append(user_message("new", "n", Origin.ATTACHMENT, {"folders": True}))
    exchange(talk, 2)
    span = only_span(talk.log)
    notes = words.list_standing_notes(span, talk.log)
    assert notes == ["[Plan mode is on.]"]
    assert "[Plan mode is on.]" in str(words.stand_in(span, "Read.", notes))


# ----------------------------------------------------------------------------------------------------------- the step


def staged(log: Sequence[Message], thresholds: Thresholds | None = None) -> Collapse:
    step = Collapse(thresholds)
    for number, span in enumerate(spans(log)):
        step.stage(span, f"summary {number}")
    return step


def at(estimate: int, **rest: object) -> ContextState:
    return ContextState(estimate=estimate, usable=100_000, **rest)  # type: ignore[arg-type]


def test_nothing_is_committed_before_the_threshold_or_when_nothing_is_staged() -> None:
    talk = long_talk()
    assert staged(talk.log).plan(talk.log, at(74_999)) is None
    assert Collapse().plan(talk.log, at(99_000)) is None


def test_the_oldest_spans_are_committed_first_and_only_as_many_as_needed() -> None:
    talk = long_talk(8)
    step = staged(talk.log)
    size = next(iter(step.staged.values())).freed
    plan = step.plan(talk.log, ContextState(estimate=9 * size, usable=10 * size))
    assert plan is not None
    assert [(edit.target, edit.through, edit.text) for edit in plan.edits] == [
        (f"m{4 * n}", f"m{4 * n + 3}", f"summary {n}") for n in range(5)
    ]
    assert plan.text == "summarised 5 old exchanges"
    assert plan.freed == pytest.approx(5 * size, rel=0.01)
    assert len(step.staged) == 6, "they are still there if it is not carried out"


def test_a_span_pinned_after_staging_is_skipped_and_stays_staged() -> None:
    talk = long_talk()
    step = staged(talk.log)
    plan = step.plan(talk.log, at(99_000, pinned=frozenset({"m2:0"})))
    assert plan is not None
    assert [edit.target for edit in plan.edits] == ["m4", "m8", "m12"]
    assert "m0" in step.staged


def test_a_span_is_summarised_again_after_the_user_drops_a_block() -> None:
    talk = long_talk()
    step = staged(talk.log)
    view = ContextView()
    view.edit(
        [ContextEdit(kind="drop", target="m1:0", step="user"), ContextEdit(kind="drop", target="m2:0", step="user")]
    )
    view.edit([ContextEdit(kind="replace", target="m6:0", text="[Cleared]", step="microcompact")])
    plan = step.plan(talk.log, at(99_000, edited=view.edits.edited))
    assert plan is not None
    assert [edit.target for edit in plan.edits] == ["m4", "m8", "m12"]
    assert "m0" not in step.staged


# ----------------------------------------------------------------------------------------------------- for any of them


def said_last(log: Sequence[Message]) -> str:
    return next(message.text for message in reversed(log) if message.origin is Origin.PROMPT)


@given(log=talks(), more=talks(), data=st.data())
def test_any_conversation_and_commits_give_a_valid_and_repeatable_request(
    log: list[Message], more: list[Message], data: st.DataObject
) -> None:
    log = log + [_again(message) for message in more]
    blocks = [block_id(message, number) for message in log for number in range(len(message.content))]
    pinned = frozenset(data.draw(st.lists(st.sampled_from(blocks), max_size=3)))
    before, view = copy.deepcopy(log), ContextView()
    original = view.wire(log)
    step = Collapse()
    for span in find_spans(log, lambda message: words.has_any(message, pinned), message_tokens):
        if data.draw(st.booleans()):
            step.stage(span, data.draw(st.sampled_from(["gist", "", " "])) + "what happened")
    later = data.draw(st.lists(st.sampled_from(blocks), max_size=1))
    plan = step.plan_all(log, pinned | frozenset(later), view.edits.edited)
    view.edit(plan.edits if plan else (), log[-1].id)
    assert refused(view, log) == []
    shown = view.messages(log)
    assert said_last(log) in "".join(message.text for message in shown)
    ids = {message.id: message for message in shown}
    for block in (*pinned, *later):
        message_id, _colon, number = block.rpartition(":")
        kept = next(message for message in log if message.id == message_id)
        assert ids[message_id].content[int(number)] is kept.content[int(number)]
    freed = plan.freed if plan else 0
    assert sum(map(message_tokens, shown)) == sum(map(message_tokens, log)) - freed
    view.edit([ContextEdit(kind="restore", target=edit.target) for edit in (plan.edits if plan else ())], log[-1].id)
    assert view.wire(log) == original
    assert log == before


@given(log=talks(), more=talks(), data=st.data())
def test_any_order_with_the_other_steps_gives_a_valid_request(
    log: list[Message], more: list[Message], data: st.DataObject
) -> None:
    log = log + [_again(message) for message in more]
    blocks = [block_id(message, number) for message in log for number in range(len(message.content))]
    pinned = frozenset(data.draw(st.lists(st.sampled_from(blocks), max_size=3)))
    step = staged(log)
    steps: list[ContextStep] = data.draw(st.permutations([Snip(), Microcompact(clearable_tools(), keep=1), step]))
    view, pipeline = ContextView(), Pipeline(steps)
    before = copy.deepcopy(log)

    def state(freed: int) -> ContextState:
        return ContextState(estimate=95_000 - min(freed, 10_000), usable=100_000, cached=90_000, pinned=pinned)

    for _time in range(2):
        ran(pipeline, view, log, state)
        assert refused(view, log) == []
        shown = {message.id: message for message in view.messages(log)}
        assert said_last(log) in "".join(message.text for message in shown.values())
        for block in pinned:
            message_id, _colon, number = block.rpartition(":")
            kept = next(message for message in log if message.id == message_id)
            assert shown[message_id].content[int(number)] == kept.content[int(number)]
    assert log == before


def _again(message: Message) -> Message:
    """For a second half of a conversation: other ids."""
    return replace(message, id=f"n{message.id}", content=tuple(map(_other, message.content)))


def _other(block: Block) -> Block:
    if isinstance(block, ToolUseBlock):
        return replace(block, id=f"b{block.id}")
    return replace(block, tool_use_id=f"b{block.tool_use_id}") if isinstance(block, ToolResultBlock) else block
