"""Edits over a log: the same bytes each time, and the log itself never changes."""

from __future__ import annotations

import gc
import json

from hypothesis import given
from hypothesis import strategies as st

from agentcli.context.edits import ContextEdit, Edits, block_id, edit_from_dict, edit_to_dict
from agentcli.context.view import ContextView
from agentcli.core.messages import Message, Origin, TextBlock, ToolResultBlock, ToolUseBlock
from tests.support.validate import problems


def conversation(turns: int) -> list[Message]:
    log = []
    for turn in range(turns):
        call = ToolUseBlock(f"call{turn}", "Read", {"file_path": f"{turn}.py"})
        result = ToolResultBlock(f"call{turn}", (TextBlock(f"content {turn} " * 50),))
        log += [
            Message("user", (TextBlock(f"prompt {turn}"),), f"p{turn}", Origin.PROMPT),
            Message("assistant", (TextBlock(f"I read {turn}."), call), f"a{turn}", Origin.REPLY),
            Message("user", (result,), f"r{turn}", Origin.TOOL_RESULTS),
            Message("assistant", (TextBlock(f"Done {turn}."),), f"d{turn}", Origin.REPLY),
        ]
    return log


LOG = conversation(4)
QUESTION = Message("user", (TextBlock("and now?"),), "last", Origin.PROMPT)


def refused(view: ContextView) -> list[str]:
    """What the API would not take of a request with this view of the log."""
    body = {"model": "m", "max_tokens": 10, "messages": list(view.wire([*LOG, QUESTION]))}
    return [problem for problem in problems(body) if "tool" in problem or "content" in problem or "role" in problem]


def test_a_replaced_result_keeps_its_call_and_the_rest_stays_the_same_object() -> None:
    view = ContextView()
    view.edit([ContextEdit(kind="replace", target="r1:0", text="[cleared]", step="microcompact", freed=150)])
    shown = view.messages(LOG)
    assert shown[6].tool_results[0].text == "[cleared]"
    assert [one is other for one, other in zip(shown, LOG, strict=True)].count(False) == 1
    assert view.messages(LOG)[6] is shown[6], "the same object, so that what was encoded is remembered"
    assert refused(view) == []


def test_a_dropped_pair_is_gone_and_the_request_is_valid() -> None:
    view = ContextView()
    view.edit([ContextEdit(kind="drop", target="a1:1"), ContextEdit(kind="drop", target="r1:0")])
    assert "call1" not in json.dumps(list(view.wire(LOG)))
    assert refused(view) == []


def test_a_collapsed_span_is_one_message_and_can_be_restored() -> None:
    edits = Edits()
    edits.add(ContextEdit(kind="collapse", target="p0", through="d1", text="They read 0 and 1."))
    shown = edits.shown(LOG)
    assert [message.id for message in shown] == ["collapse:p0", *[message.id for message in LOG[8:]]]
    assert edits.shown(LOG)[0] is shown[0]
    edits.add(ContextEdit(kind="restore", target="p0"))
    assert list(edits.shown(LOG)) == list(LOG)


def test_tokens_freed_since_the_last_usage_are_subtracted_from_the_estimate() -> None:
    from dataclasses import replace

    from agentcli.core.usage import Usage

    log = [*LOG[:-1], replace(LOG[-1], usage=Usage(input_tokens=10_000, output_tokens=100))]
    view = ContextView()
    assert view.estimate(log, 0) == 10_100
    view.edit([ContextEdit(kind="replace", target="r1:0", text="[cleared]", freed=500)], after=log[-1].id)
    assert view.estimate(log, 0) == 9_600
    newer = replace(LOG[-1], id="new", usage=Usage(input_tokens=9_500, output_tokens=100))
    assert view.estimate([*log, LOG[0], newer], 0) == 9_600, "the next response has counted it"


EDIT = st.one_of(
    st.builds(
        lambda message, number, kind, text: ContextEdit(kind=kind, target=f"{message.id}:{number}", text=text),
        st.sampled_from(LOG),
        st.integers(0, 2),
        st.sampled_from(["replace", "restore"]),
        st.text(max_size=5),
    ),
    st.builds(
        lambda turn: ContextEdit(kind="collapse", target=f"p{turn}", through=f"d{turn}", text="x"), st.integers(0, 3)
    ),
)


@given(st.lists(EDIT, max_size=12))
def test_any_edits_give_a_valid_request_and_survive_the_session_file(made: list[ContextEdit]) -> None:
    one, other = ContextView(), ContextView()
    one.edit(made)
    other.edit([edit_from_dict(json.loads(json.dumps(edit_to_dict(edit)))) for edit in made])
    assert one.wire(LOG) == other.wire(LOG)
    assert refused(one) == []
    assert conversation(4) == LOG, "the log is as it was"


def test_a_block_is_identified_by_its_message_and_index() -> None:
    assert block_id(LOG[1], 1) == "a0:1"


def test_a_collapse_or_an_undo_whose_end_was_lost_hides_no_later_messages() -> None:
    edits = Edits()
    edits.add(ContextEdit(kind="collapse", target="p1", through="gone", text="x"))
    assert list(edits.shown(LOG)) == list(LOG)
    boundary = Message("user", (), "b", Origin.BOUNDARY, meta={"messages": ["s"]})
    summary = Message("user", (TextBlock("All of it"),), "s", Origin.SUMMARY)
    edits.add(ContextEdit(kind="undo_compaction", target="b", through="gone"))
    assert edits.in_force([*LOG, boundary, summary, QUESTION]) == (*LOG, QUESTION)


def test_what_was_edited_before_a_compaction_is_kept_once_and_shown_as_before_after_its_undo() -> None:
    log = conversation(100)
    boundary = Message("user", (), "b", Origin.BOUNDARY)
    summary = Message("user", (TextBlock("All of it"),), "s", Origin.SUMMARY)
    view = ContextView()
    view.edit(ContextEdit(kind="replace", target=f"r{turn}:0", text="[cleared]") for turn in range(100))
    before = list(view.wire(log))
    assert view.estimate(log, 0) > 0
    copies = _messages_alive()

    compacted = [*log, boundary, summary]
    view.wire(compacted)
    assert view.estimate(compacted, 0) > 0
    assert _messages_alive() <= copies - 100 + 2

    view.edit([ContextEdit(kind="undo_compaction", target="b", through="s")])
    assert list(view.wire(compacted)) == before


def _messages_alive() -> int:
    gc.collect()
    return sum(type(one) is Message for one in gc.get_objects())
