from __future__ import annotations

from typing import Any

from agentcli.core import events
from agentcli.core.events import (
    BackgroundChanged,
    BlockFinished,
    ContextCompacted,
    ContextEdited,
    MessageAppended,
    ModeChanged,
    ModelFellBack,
    PermissionDecided,
    PermissionDenied,
    PrefixBroken,
    RawStreamed,
    ReplyStarted,
    ReplyTombstoned,
    RequestStarted,
    RetryScheduled,
    ToolFinished,
    ToolResultAdded,
    ToolStarted,
)
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import (
    ImageBlock,
    Message,
    Origin,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    user_message,
)
from agentcli.core.usage import Usage
from agentcli.headless.stream_json import Frames, result_frame
from tests.headless.fake_engine import SESSION, failed, result, started
from tests.support.tables import each_row


def frames(*given: events.Event, replay: bool = False) -> list[dict[str, Any]]:
    mapping = Frames(SequentialIds(), replay)
    return [frame for event in (started(), *given) for frame in mapping.frames(event)][1:]


def block(block: Any, index: int = 0, message_id: str = "m1") -> BlockFinished:
    return BlockFinished(message_id=message_id, api_id="msg_1", model="claude-x", index=index, block=block)


def reply(*content: Any, message_id: str = "m1") -> MessageAppended:
    return MessageAppended(message=Message("assistant", content, message_id, Origin.REPLY, "msg_1", "claude-x"))


def test_every_submission_begins_with_init() -> None:
    [frame] = Frames(SequentialIds()).frames(started(effort="high"))
    assert frame["type"] == "system"
    assert frame["subtype"] == "init"
    assert {key: frame[key] for key in ("cwd", "session_id", "tools", "model", "permissionMode", "apiKeySource")} == {
        "cwd": "/w",
        "session_id": SESSION,
        "tools": ["Read"],
        "model": "claude-x",
        "permissionMode": "default",
        "apiKeySource": "env",
    }
    assert "compact" in frame["slash_commands"]
    assert (frame["mcp_servers"], frame["agents"], frame["skills"]) == ([], [], [])
    assert frame["version"]
    assert frame["uuid"]


def test_a_frame_per_block_with_one_message_id() -> None:
    blocks = [ThinkingBlock("hm", "sig"), TextBlock("hi"), ToolUseBlock("t1", "Read", {"file_path": "a"})]
    found = frames(*(block(one, index) for index, one in enumerate(blocks)), reply(*blocks))
    assert [frame["message"]["content"] for frame in found] == [
        [{"type": "thinking", "thinking": "hm", "signature": "sig"}],
        [{"type": "text", "text": "hi"}],
        [{"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a"}}],
    ]
    assert {frame["message"]["id"] for frame in found} == {"msg_1"}
    assert all(frame["parent_tool_use_id"] is None and frame["session_id"] == SESSION for frame in found)


def test_text_kept_on_an_abort_is_shown_as_aborted() -> None:
    found = frames(block(TextBlock("whole")), reply(TextBlock("whole"), TextBlock("hal")))
    assert [(frame["message"]["content"][0]["text"], frame.get("aborted")) for frame in found] == [
        ("whole", None),
        ("hal", True),
    ]


def test_text_cut_by_the_output_limit_is_not_called_aborted() -> None:
    message = Message("assistant", (TextBlock("hal"),), "m1", Origin.REPLY, "msg_1", "claude-x", "max_tokens")
    [frame] = frames(MessageAppended(message=message))
    assert "aborted" not in frame


def test_two_equal_blocks_are_two_frames_and_no_more() -> None:
    assert len(frames(block(TextBlock("x")), block(TextBlock("x"), 1), reply(TextBlock("x"), TextBlock("x")))) == 2


def test_each_tool_result_is_one_user_frame_with_structured_data() -> None:
    added = ToolResultBlock("t1", (TextBlock("data"),))
    missing = ToolResultBlock("t2", (TextBlock("stopped"),), is_error=True)
    message = MessageAppended(message=user_message((added, missing), "u1", Origin.TOOL_RESULTS))
    one, two = frames(ToolResultAdded(tool_use_id="t1", name="Read", result=added, structured={"lines": 3}), message)
    assert one["type"] == "user"
    assert one["message"]["content"] == [
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "data"}], "is_error": False}
    ]
    assert one["tool_use_result"] == {"lines": 3}
    assert two["message"]["content"][0]["tool_use_id"] == "t2"
    assert two["message"]["content"][0]["is_error"] is True


def test_a_result_frame_names_the_call_and_its_permission_decision() -> None:
    result = ToolResultBlock("t1", (TextBlock("data"),))
    decided = PermissionDecided(
        tool_use_id="t1", name="Read", behavior="allow", reason="allowed by rule Read", rule="Read"
    )
    started = ToolStarted(tool_use_id="t1", name="Read", input={}, title="Read a.py")
    ended = ToolFinished(
        tool_use_id="t1", name="Read", result=result, summary="3 lines", display={"kind": "code"}, duration_ms=7
    )
    (frame,) = frames(decided, started, ended, ToolResultAdded(tool_use_id="t1", name="Read", result=result))
    call = frame["tool_call"]
    assert (call["title"], call["summary"], call["duration_ms"]) == ("Read a.py", "3 lines", 7)
    assert call["display"] == {"kind": "code"}
    assert call["permission"]["reason"] == "allowed by rule Read"


def test_background_commands_and_modes_become_system_frames() -> None:
    one, two, three = frames(
        BackgroundChanged(task_id="b1", status="running", command="sleep 9"),
        BackgroundChanged(task_id="b1", status="killed", command="sleep 9", summary="killed"),
        ModeChanged(mode="plan", reason="asked for"),
    )
    assert (one["subtype"], one["description"]) == ("task_started", "sleep 9")
    assert (two["subtype"], two["status"]) == ("task_notification", "stopped")
    assert three["permissionMode"] == "plan"


def test_events_around_the_reply_become_system_frames() -> None:
    found = frames(
        RequestStarted(model="m", turn=1),
        RequestStarted(model="m", turn=1, purpose="summary"),
        RetryScheduled(attempt=1, max_attempts=10, wait_seconds=0.529, kind="overloaded", text="Busy.", status=529),
        ModelFellBack(from_model="a", to_model="b", reason="overloaded"),
        PermissionDenied(tool_use_id="t", name="Bash", input={"command": "x"}, reason="no"),
        ContextCompacted(trigger="auto", tokens_before=9, tokens_after=2),
        RawStreamed(data={"type": "ping"}),
    )
    assert [(frame["type"], frame.get("subtype")) for frame in found] == [
        ("system", "status"),
        ("system", "api_retry"),
        ("system", "model_fallback"),
        ("system", "permission_denied"),
        ("system", "compact_boundary"),
        ("system", "status"),
        ("stream_event", None),
    ]
    retry = found[1]
    assert (retry["attempt"], retry["max_retries"], retry["retry_delay_ms"]) == (1, 10, 529)
    assert (retry["error_status"], retry["error"]) == (529, "overloaded")
    assert found[4]["compact_metadata"] == {"trigger": "auto", "pre_tokens": 9, "post_tokens": 2}
    assert found[6]["event"] == {"type": "ping"}


def test_changes_of_context_and_cache_are_reported_with_numbers() -> None:
    edits = [{"kind": "replace", "target": "m1:0", "text": "gone"}]
    edited, broken = frames(
        ContextEdited(edits=edits, step="microcompact", freed_tokens=3_100, text="cleared 2 old results"),
        PrefixBroken(reason="the model was changed", block="the tool Bash", rebilled_tokens=40_000),
    )
    assert (edited["type"], edited["subtype"], edited["step"], edited["freed_tokens"], edited["text"]) == (
        "system",
        "context_edited",
        "microcompact",
        3_100,
        "cleared 2 old results",
    )
    assert (broken["type"], broken["subtype"]) == ("system", "prefix_broken")
    assert (broken["block"], broken["reason"], broken["rebilled_tokens"]) == (
        "the tool Bash",
        "the model was changed",
        40_000,
    )


def test_a_void_reply_is_withdrawn_under_its_original_id() -> None:
    mapping = Frames(SequentialIds())
    given = [
        ReplyStarted(message_id="m1", api_id="msg_1", model="m"),
        block(TextBlock("x")),
        ReplyTombstoned(message_id="m1", reason="broken"),
    ]
    found = [frame for event in given for frame in mapping.frames(event)]
    assert (found[1]["subtype"], found[1]["message_id"]) == ("tombstone", "msg_1")


def test_prompts_are_echoed_only_when_asked_for() -> None:
    prompt = MessageAppended(message=user_message("hi", "u1", Origin.PROMPT))
    assert frames(prompt) == []
    [echo] = frames(prompt, replay=True)
    assert (echo["uuid"], echo["isReplay"], echo["message"]["content"]) == (
        "u1",
        True,
        [{"type": "text", "text": "hi"}],
    )


def test_an_interruption_is_a_user_frame_and_an_error_an_assistant_frame() -> None:
    stopped, error = frames(
        MessageAppended(message=user_message("[stopped]", "u1", Origin.INTERRUPTION)),
        MessageAppended(
            message=Message("assistant", (TextBlock("Wrong key."),), "e", Origin.ERROR, meta={"kind": "authentication"})
        ),
    )
    assert (stopped["type"], stopped["isSynthetic"]) == ("user", True)
    assert (error["type"], error["message"]["model"], error["error"]) == (
        "assistant",
        "<synthetic>",
        "authentication_failed",
    )


def test_an_image_result_is_passed_on() -> None:
    image = ToolResultBlock("t", (ImageBlock({"type": "base64", "media_type": "image/png", "data": "AA"}),))
    [frame] = frames(ToolResultAdded(tool_use_id="t", name="Read", result=image))
    assert frame["message"]["content"][0]["content"][0]["type"] == "image"


def test_success_has_a_result_and_the_fields_that_scripts_need() -> None:
    frame = result_frame(result(structured_output={"n": 1}))
    assert (frame["subtype"], frame["is_error"], frame["result"], frame["num_turns"]) == (
        "success",
        False,
        "the answer",
        1,
    )
    assert (frame["duration_ms"], frame["duration_api_ms"], frame["session_id"]) == (5, 3, SESSION)
    assert (frame["terminal_reason"], frame["stop_reason"]) == ("completed", "end_turn")
    assert (frame["usage"]["input_tokens"], frame["modelUsage"]) == (2, {"claude-x": {"inputTokens": 2}})
    assert frame["structured_output"] == {"n": 1}


def test_an_api_failure_is_never_reported_as_success() -> None:
    frame = result_frame(failed("API error 400: no.", api_error_status=400))
    assert (frame["subtype"], frame["is_error"]) == ("error_during_execution", True)
    assert frame["errors"] == ["API error 400: no."]
    assert frame["result"] == "API error 400: no."
    assert (frame["api_error_status"], frame["terminal_reason"]) == (400, "model_error")


def test_a_limit_has_its_message_in_errors_and_result() -> None:
    frame = result_frame(failed("Too many turns.", subtype="error_max_turns", terminal="max_turns", text="so far"))
    assert (frame["subtype"], frame["errors"]) == ("error_max_turns", ["Too many turns."])
    assert frame["result"] == "Too many turns."


def held_before(event: events.Event) -> tuple[list[str], int]:
    """The kinds of the frames that are out after `event` follows a complete block, and the output tokens of the
    block's frame."""
    begun = ReplyStarted(message_id="m1", api_id="msg_1", model="claude-x", usage=Usage(7, 1))
    mapping = Frames(SequentialIds())
    for early in (started(), begun, block(TextBlock("hi"))):
        list(mapping.frames(early))
    stop = RawStreamed(data={"type": "content_block_stop", "index": 0})
    assert list(mapping.frames(stop)) == [], "the end of the message may follow at once"
    found = list(mapping.frames(event))
    return [frame["type"] for frame in found], found[0]["message"]["usage"]["output_tokens"]


@each_row(
    ("event", "frame"),
    [
        (events.BlockStarted(message_id="m1", index=1, kind="text"), ""),
        (events.TextStreamed(message_id="m1", index=1, text="x"), ""),
        (events.ToolInputStreamed(message_id="m1", index=1, text="x"), ""),
        (ToolStarted(tool_use_id="t1", name="Read", input={}, title="Read a"), ""),
        (ToolFinished(tool_use_id="t1", name="Read", result=ToolResultBlock("t1", ())), ""),
        (ToolResultAdded(tool_use_id="t1", name="Read", result=ToolResultBlock("t1", ())), "user"),
        (events.NoticeRaised(text="x"), "system"),
        (RawStreamed(data={"type": "ping"}), "stream_event"),
    ],
)
def test_a_held_frame_goes_out_before_whatever_comes_next(event: events.Event, frame: str) -> None:
    assert held_before(event) == (["assistant", "stream_event", *filter(None, [frame])], 1)


def test_a_held_frame_has_the_whole_usage_when_the_end_of_its_message_is_next() -> None:
    delta = RawStreamed(data={"type": "message_delta", "usage": {"output_tokens": 41}})
    assert held_before(delta) == (["assistant", "stream_event", "stream_event"], 41)
    reported = events.UsageReported(model="claude-x", usage=Usage(7, 41), cost_usd=None)
    assert held_before(reported) == (["assistant", "stream_event"], 41)
