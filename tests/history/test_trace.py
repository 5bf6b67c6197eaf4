"""A prompt as a timeline: what really happened stands in its rows, its text, its opened steps and its export."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.ports import Answer
from agentcli.core import events as ev
from agentcli.core.errors import AgentError
from agentcli.core.messages import Json
from agentcli.core.permission import PermissionMode
from agentcli.history.export.otlp import export_prompts, wrap_spans
from agentcli.history.sent_requests import digest_texts
from agentcli.history.step_texts import StepReader, format_pieces
from agentcli.history.trace import Trace, choose_prompt, format_trace, make_trace
from agentcli.providers.catalog import Catalog
from agentcli.session.timeline import read_timeline
from tests.support.collector import parse_request
from tests.support.fakes import Bench, FakeTool, collect
from tests.support.recorded import recorded, session_file
from tests.support.scripts import call_with_id, fails, fault, pause, reply, say

pytestmark = pytest.mark.virtual

KEY = "sk-ant-api03-" + "a1B2" * 12


def traced(folder: Path, number: int | None = None) -> Trace:
    timeline = read_timeline(session_file(folder))
    return make_trace(timeline, *choose_prompt(timeline, number))


def reader_of(b: Bench) -> StepReader:
    return StepReader(lambda: digest_texts([*b.engine.profile.system, *b.engine.session.requests.tools]), Catalog())


def exported(folder: Path) -> list[Json]:
    timeline = read_timeline(session_file(folder))
    return export_prompts(timeline, timeline.current)


def facts(span: Json) -> dict[str, Any]:
    """The attributes of a span."""
    return {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}


async def record_eventful_prompt(folder: Path) -> Bench:
    """A call that overlaps the stream, a question, a broken stream, an overloaded server."""
    b = recorded(
        folder,
        reply(pause(1), call_with_id("toolu_1", "Look", what="a", seconds=2), pause(4)),
        reply("Well", fault("drop")),
        fails(529, "Overloaded"),
        reply(pause(1), "Done."),
        tools=[FakeTool(need="edit")],
        mode=PermissionMode.DEFAULT,
        interactive=True,
    )
    async with b.engine:
        async for event in b.engine.submit(f"Look, with {KEY}"):
            if isinstance(event, ev.PermissionRequested):
                asyncio.get_running_loop().call_later(1, b.engine.answer, event.request_id, Answer("allow"))
    return b


async def test_overlaps_waits_and_retries_are_rows_with_their_times(tmp_path: Path) -> None:
    await record_eventful_prompt(tmp_path)
    trace = traced(tmp_path)
    first, look = trace.rows[:2]
    assert (first.label, first.start, first.end, first.ttft_ms) == ("request: the prompt", 0, 5000, 1000)
    assert (look.label, look.start, look.end, look.waits) == ("Look a", 1000, 4000, [(1000, 2000)])
    assert look.notes == ["waited 1.0 s for your answer: allow", "began while the reply streamed"]
    rest = [(row.kind, row.label, row.failed) for row in trace.rows[2:]]
    assert rest == [
        ("request", "request: results of the calls", True),
        ("retry", "retry 1 of 10: connection", True),
        ("retry", "retry 2 of 10: overloaded (529)", True),
        ("request", "request: results of the calls", False),
    ]
    retry, last = trace.rows[-2:]
    assert (last.start, last.ttft_ms) == (retry.end, 1000), "the time counts from the last attempt"


async def test_the_text_shows_bars_where_there_is_room_and_no_secrets(tmp_path: Path) -> None:
    await record_eventful_prompt(tmp_path)
    wide = format_trace(traced(tmp_path), 100)
    assert KEY not in wide
    assert all(sign in wide for sign in "░█━?~")
    assert "░ until the first token  █ reply  ━ call  ? waits for you  ~ retry wait" in wide
    narrow = format_trace(traced(tmp_path), 40)
    assert "━" not in narrow
    assert max(map(len, narrow.splitlines())) <= 40
    assert "Look a" in narrow


async def test_a_stopped_prompt_shows_how_far_it_came(tmp_path: Path) -> None:
    looks = call_with_id("toolu_1", "Look", what="a", seconds=60)
    b = recorded(tmp_path, reply(looks, say("I am"), pause(30)), tools=[FakeTool()])
    async with b.engine:
        asyncio.get_running_loop().call_later(5, b.engine.abort)
        await collect(b.engine.submit("go"))
    trace = traced(tmp_path)
    assert [(row.label, row.end, row.failed) for row in trace.rows if row.kind in ("call", "request")] == [
        ("request: the prompt", 5000, False),
        ("Look a", 5000, True),
    ]
    assert "aborted" in format_trace(trace, 100).splitlines()[1]


async def test_a_running_prompt_is_shown_as_far_as_it_came(tmp_path: Path) -> None:
    b = recorded(tmp_path, reply(call_with_id("toolu_1", "Look", what="a", seconds=9), pause(20)), tools=[FakeTool()])
    async with b.engine:
        async for event in b.engine.submit("go"):
            if isinstance(event, ev.ToolStarted):
                shown = format_trace(traced(tmp_path), 100)
                b.engine.abort()
    assert "cut off, or still running" in shown
    assert "Look a" in shown


async def test_a_step_opens_what_was_sent_and_what_came_back(tmp_path: Path) -> None:
    b = recorded(tmp_path, reply("Looking.", call_with_id("toolu_1", "Look", what=KEY)), "Done.", tools=[FakeTool()])
    await b.once("look")
    trace, reader = traced(tmp_path), reader_of(b)
    first, call, second = trace.rows
    assert [row.label for row in trace.rows][::2] == ["request: the prompt", "request: results of the calls"]
    whole = format_pieces(reader.show_request(first))
    assert whole.startswith("Proven: the digest of this request is the recorded one")
    assert "── 1 tool\nLook" in whole
    assert whole.endswith("── user\nlook")
    assert reader.body(first) == b.requests[0]
    assert "── assistant\nLooking." in format_pieces(reader.show_response(first))
    new = reader.format(second)
    assert "2 new messages after 1 unchanged" in new
    assert "system prompt, part 1" not in new
    assert KEY not in new + format_pieces(reader.show_request(call)) + json.dumps(reader.record(second))
    assert reader.record(second)["proven"] is True
    assert "── result" in format_pieces(reader.show_response(call))
    with pytest.raises(AgentError, match="has the steps 1 to 3"):
        trace.row(4)


async def test_an_export_is_valid_for_the_official_protocol_and_always_the_same(tmp_path: Path) -> None:
    await record_eventful_prompt(tmp_path)
    made = wrap_spans(exported(tmp_path))
    assert json.dumps(made) == json.dumps(wrap_spans(exported(tmp_path)))
    assert KEY not in json.dumps(made)
    spans = parse_request(json.dumps(made)).resource_spans[0].scope_spans[0].spans
    assert [(span.name, span.kind) for span in spans] == [
        ("invoke_agent agentcli", 1),
        ("chat claude-sonnet-5-5", 3),
        ("execute_tool Look", 1),
        ("chat claude-sonnet-5-5", 3),
        ("chat claude-sonnet-5-5", 3),
    ]
    assert {(len(span.trace_id), len(span.span_id)) for span in spans} == {(16, 8)}
    assert {span.parent_span_id for span in spans[1:]} == {spans[0].span_id}
    assert (spans[1].end_time_unix_nano - spans[1].start_time_unix_nano) == 5_000_000_000


async def test_spans_have_the_names_of_the_conventions_and_events_for_what_delayed_them(tmp_path: Path) -> None:
    await record_eventful_prompt(tmp_path)
    agent, first, look, void, last = exported(tmp_path)
    assert facts(agent)["gen_ai.operation.name"] == "invoke_agent"
    sent = facts(first)
    assert sent["gen_ai.operation.name"] == "chat"
    assert sent["gen_ai.conversation.id"] == session_file(tmp_path).stem
    assert sent["gen_ai.response.finish_reasons"] == {"values": [{"stringValue": "tool_use"}]}
    assert sent["gen_ai.usage.input_tokens"] == "10"
    assert sent["gen_ai.response.id"].startswith("msg_")
    assert sent["gen_ai.response.time_to_first_chunk"] == 1.0
    assert (facts(look)["gen_ai.tool.name"], facts(look)["gen_ai.tool.call.id"]) == ("Look", "toolu_1")
    [asked] = look["events"]
    assert (asked["name"], facts(asked)) == (
        "agentcli.permission_asked",
        {"agentcli.wait_seconds": 1.0, "agentcli.answer": "allow"},
    )
    assert (facts(void)["error.type"], void["status"]) == ("void", {"code": 2})
    assert [event["name"] for event in agent["events"]] == ["agentcli.retry_scheduled"] * 2
    codes = [facts(event).get("http.response.status_code") for event in agent["events"]]
    assert codes == [None, "529"]
    assert int(last["startTimeUnixNano"]) <= int(agent["events"][0]["timeUnixNano"])


async def test_an_export_has_no_texts(tmp_path: Path) -> None:
    await record_eventful_prompt(tmp_path)
    made = json.dumps(exported(tmp_path))
    assert not [text for text in ("Done.", "Look, with", "Overloaded", KEY) if text in made]


async def test_a_tool_of_an_mcp_server_has_the_names_of_that_protocol(tmp_path: Path) -> None:
    look = call_with_id("toolu_1", "mcp__files__read", what="a")
    b = recorded(tmp_path, reply(look), "Done.", tools=[FakeTool(name="mcp__files__read")])
    await b.once("look")
    _agent, _chat, call, _last = exported(tmp_path)
    found = facts(call)
    assert call["name"] == "execute_tool read"
    assert (found["mcp.method.name"], found["gen_ai.tool.name"]) == ("tools/call", "read")
    assert found["agentcli.mcp.server"] == "files"


async def test_a_request_beside_the_conversation_is_named_but_cannot_be_opened(tmp_path: Path) -> None:
    b = recorded(tmp_path, reply("One. " * 2000), "<summary>They counted.</summary>")
    async with b.engine:
        await collect(b.engine.submit("one"))
        await collect(b.engine.compact())
    [side] = [row for row in traced(tmp_path).rows if row.kind == "side"]
    reader = reader_of(b)
    for shown in (reader.show_request(side), reader.show_response(side)):
        assert format_pieces(shown).startswith("side: compact")
        assert format_pieces(shown).endswith("not stored: it is no part of the conversation.")
    assert reader.record(side) == {}
    assert "side: compact" in format_trace(traced(tmp_path), 100)
