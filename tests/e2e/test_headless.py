"""Real processes against a loopback Messages API. Few and fast: each process costs most of half a second."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.e2e.program import Program
from tests.support.scripts import call, fails, reply, say
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio


def text_of(message: dict) -> str:  # type: ignore[type-arg]
    content = message["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


async def test_text_with_piped_input(program: Program) -> None:
    async with LoopbackServer(reply(say("It is a list."))) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "what is this?", stdin=b"a\nb\n")
        assert (ended.code, ended.out, ended.err) == (0, "It is a list.\n", "")
        assert "what is this?\n\na\nb" in text_of(server.bodies[0]["messages"][0])


async def test_json_is_one_result_and_the_conversation_can_be_continued(program: Program) -> None:
    async with LoopbackServer(reply(say("one")), reply(say("two"))) as server:
        program.talk_to(server.url)
        first = await program.run("-p", "hi", "--output-format", "json")
        [result] = first.frames
        assert (first.code, result["type"], result["subtype"], result["result"]) == (0, "result", "success", "one")
        second = await program.run("-p", "and?", "--output-format", "json", f"--resume={result['session_id']}")
        assert second.frames[0]["session_id"] == result["session_id"]
        assert [message["role"] for message in server.bodies[1]["messages"]] == ["user", "assistant", "user"]
        listed = await program.run("sessions", "list")
        assert result["session_id"] in listed.out


async def test_stream_json_shows_a_tool_call_as_it_happens(program: Program) -> None:
    (program.work / "a.txt").write_text("content of a\n", encoding="utf-8")
    path = str(program.work / "a.txt")
    async with LoopbackServer(reply(say("Let me look."), call("Read", file_path=path)), reply(say("done"))) as server:
        program.talk_to(server.url)
        ended = await program.run(
            "-p", "look", "--output-format", "stream-json", "--include-partial-messages", "--verbose"
        )
    frames = [frame for frame in ended.frames if frame.get("subtype") != "status"]
    kinds = [frame["type"] for frame in frames if frame["type"] != "stream_event"]
    assert ended.code == 0
    assert kinds == ["system", "assistant", "assistant", "user", "assistant", "result"]
    assert {frame["event"]["type"] for frame in frames if frame["type"] == "stream_event"} >= {
        "message_start",
        "content_block_delta",
        "message_stop",
    }
    tool_result = next(frame for frame in frames if frame["type"] == "user")
    assert "content of a" in json.dumps(tool_result["message"])
    assert "tool_use_result" in tool_result
    assert len({frame["session_id"] for frame in frames}) == 1


async def test_a_line_sent_while_a_tool_runs_joins_the_submission(program: Program) -> None:
    """The tool waits for a file that is written only after the second line was sent."""
    wait = "while ! test -e go; do sleep 0.02; done; cat go"
    async with LoopbackServer(
        reply(call("Bash", command=wait)), reply(say("both done")), reply(say("third"))
    ) as server:
        program.talk_to(server.url)
        running = await program.start(
            *("--output-format", "stream-json", "--verbose", "--allowedTools", "Bash"),
            *("--input-format", "stream-json", "--replay-user-messages"),
        )
        running.say("first")
        await running.frame("assistant")
        running.say("second")
        running.send({"type": "control_request", "request_id": "r", "request": {"subtype": "mystery"}})
        assert (await running.frame("control_response"))["response"]["subtype"] == "error"
        (program.work / "go").write_text("went", encoding="utf-8")
        assert (await running.frame("result"))["result"] == "both done"
        running.say("more")
        assert (await running.frame("result"))["result"] == "third"
        running.end_input()
        ended = await running.finish()
        assert ended.code == 0
        folded = server.bodies[1]["messages"][-1]
        assert folded["content"][0]["type"] == "tool_result"
        assert "second" in text_of(folded)
    echoed = [text_of(frame["message"]) for frame in ended.frames if frame.get("isReplay")]
    assert echoed == ["first", "second", "more"]
    assert ended.kinds().count("init") == 2


async def test_a_schema_gives_structured_output(program: Program) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    replies = [reply(call("StructuredOutput", n="x")), reply(call("StructuredOutput", n=4))]
    async with LoopbackServer(*replies) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "count", "--output-format", "json", "--json-schema", json.dumps(schema))
    assert (ended.code, ended.frames[0]["structured_output"]) == (0, {"n": 4})


async def test_a_tool_that_would_have_to_ask_is_denied_and_the_run_succeeds(program: Program) -> None:
    target = str(program.work / "new.txt")
    async with LoopbackServer(reply(call("Write", file_path=target, content="x")), reply(say("I may not."))) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "write", "--output-format", "stream-json")
    assert ended.code == 0
    assert "permission_denied" in ended.kinds()
    assert ended.frames[-1]["permission_denials"][0]["tool_name"] == "Write"
    assert not (program.work / "new.txt").exists()


async def test_failures_of_the_api_are_one_sentence_and_an_exit_code(program: Program) -> None:
    cases = [
        (fails(401, "invalid x-api-key", "authentication_error"), 1, "ANTHROPIC_API_KEY"),
        (fails(404, "model: nope", "not_found_error"), 1, "nope"),
        (fails(529, "Overloaded", "overloaded_error", repeat=True), 75, ""),
    ]
    for answer, code, part in cases:
        async with LoopbackServer(answer) as server:
            program.talk_to(server.url)
            ended = await program.run("-p", "hi", "--model", "nope")
        assert (ended.code, ended.out) == (code, ""), ended
        assert part in ended.err
        assert ended.err.startswith("agentcli: ")
        assert ended.err.count("\n") == 1
        assert "Traceback" not in ended.err


async def test_an_unreachable_host_is_worth_trying_again_later(program: Program) -> None:
    async with LoopbackServer() as server:
        program.talk_to(server.url)
    ended = await program.run("-p", "hi", "--output-format", "json")
    [result] = ended.frames
    assert ended.code == 75
    assert (result["subtype"], result["is_error"], result["terminal_reason"]) == (
        "error_during_execution",
        True,
        "model_error",
    )
    assert result["result"] == result["errors"][0]
    assert "Traceback" not in ended.err


async def test_a_missing_key_is_reported_with_what_to_do(program: Program) -> None:
    del program.environ["ANTHROPIC_API_KEY"]
    ended = await program.run("-p", "hi", "--output-format", "stream-json")
    assert ended.code == 1
    assert "ANTHROPIC_API_KEY" in ended.err
    [result] = ended.frames
    assert (result["is_error"], result["errors"][0]) == (True, ended.err.removeprefix("agentcli: ").rstrip())


async def test_a_broken_settings_file_is_reported_and_the_run_continues(program: Program) -> None:
    folder = program.home / ".config" / "agentcli"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text('{"model": \n oops}', encoding="utf-8")
    async with LoopbackServer(reply(say("fine"))) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "hi")
    assert (ended.code, ended.out) == (0, "fine\n")
    assert "settings.json" in ended.err
    assert "line 2" in ended.err


async def test_the_turn_limit_is_an_attachment_with_its_numbers(program: Program) -> None:
    async with LoopbackServer(reply(call("Glob", pattern="*")), reply(call("Glob", pattern="*"))) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "hi", "--output-format", "stream-json", "--max-turns", "2")
    expected = {"type": "max_turns_reached", "max_turns": 2, "turn_count": 2}
    assert [frame["attachment"] for frame in ended.frames if "attachment" in frame] == [expected]
    assert ended.frames[-1]["subtype"] == "error_max_turns"
    (stored,) = program.home.rglob("*.jsonl")
    assert '"max_turns_reached"' in stored.read_text()


async def test_closed_standard_streams_do_not_crash_the_run(program: Program) -> None:
    async with LoopbackServer(reply(say("a")), reply(say("b")), reply(say("c"))) as server:
        program.talk_to(server.url)
        ended = await program.shell("$AGENTCLI <&-", "-p", "hi")
        assert (ended.code, ended.out, ended.err) == (0, "a\n", "")
        ended = await program.shell("$AGENTCLI >&-", "-p", "hi")
        assert (ended.code, "Traceback" in ended.err) == (0, False), ended
        ended = await program.shell("$AGENTCLI <&- >&- 2>&-", "-p", "hi")
        assert ended.code == 0
        assert len(server.bodies) == 3


async def test_without_a_home_it_still_answers(program: Program) -> None:
    shutil.rmtree(program.home)
    program.environ["HOME"] = "/proc/nowhere"
    async with LoopbackServer(reply(say("fine"))) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "hi")
    assert (ended.code, ended.out, "Traceback" in ended.err) == (0, "fine\n", False)


async def test_a_command_that_needs_no_model_needs_no_key(program: Program) -> None:
    del program.environ["ANTHROPIC_API_KEY"]
    helped = await program.run("-p", "/help")
    assert helped.code == 0
    assert "/undo" in helped.out
    asked = await program.run("-p", "/compact")
    assert asked.code == 1


@pytest.mark.parametrize("status", [500, 429])
async def test_the_fallback_model_answers_when_retries_are_used_up(program: Program, status: int) -> None:
    async with LoopbackServer(fails(status, repeat=2), reply(say("from the other"))) as server:
        program.talk_to(server.url)
        arguments = ("--model", "claude-sonnet-5-5", "--fallback-model", "claude-haiku-5-5")
        ended = await program.run("-p", "hi", *arguments, "--output-format", "stream-json", "--verbose")
        assert (ended.code, ended.frames[-1]["result"]) == (0, "from the other")
        assert [body["model"] for body in server.bodies] == ["claude-sonnet-5-5"] * 2 + ["claude-haiku-5-5"]
        [fallen] = [frame for frame in ended.frames if frame.get("subtype") == "model_fallback"]
        assert (fallen["from_model"], fallen["to_model"]) == ("claude-sonnet-5-5", "claude-haiku-5-5")


async def test_files_that_the_prompt_mentions_are_attached_but_not_those_in_piped_text(program: Program) -> None:
    (program.work / "a.txt").write_text("content of a\n", encoding="utf-8")
    (program.work / "b.txt").write_text("content of b\n", encoding="utf-8")
    async with LoopbackServer(reply(say("Fine."))) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "look at @a.txt and @/etc/hostname", stdin=b"see @b.txt\n")
        sent = text_of(server.bodies[0]["messages"][0])
    assert (ended.code, ended.out) == (0, "Fine.\n")
    assert "1\tcontent of a" in sent
    assert "content of b" not in sent
    assert "@/etc/hostname was not attached: reading it needs approval" in sent
    assert "@/etc/hostname was not attached: reading it needs approval" in ended.err


async def test_a_stream_json_line_attaches_files_unless_the_client_composed_it(program: Program) -> None:
    (program.work / "a.txt").write_text("content of a\n", encoding="utf-8")
    async with LoopbackServer(reply(say("one")), reply(say("two"))) as server:
        program.talk_to(server.url)
        running = await program.start("-p", "--input-format", "stream-json", "--output-format", "stream-json")
        line = {"type": "user", "message": {"role": "user", "content": "/help @a.txt"}, "client_composed": True}
        running.send(line)
        await running.frame("result")
        running.say("look at @a.txt")
        await running.frame("result")
        running.end_input()
        ended = await running.finish()
        first, second = server.bodies
    assert ended.code == 0
    assert "content of a" not in json.dumps(first["messages"])
    assert text_of(first["messages"][0]).endswith("/help @a.txt")
    assert "1\\tcontent of a" in json.dumps(second["messages"][-1])


async def test_a_model_with_1m_means_that_model_or_is_refused(program: Program) -> None:
    async with LoopbackServer(reply("Hi.")) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "hi", "--model", "sonnet[1m]", "--output-format", "json")
        assert (server.bodies[0]["model"], "anthropic-beta" in server.requests[0].headers) == (
            "claude-sonnet-5-5",
            False,
        )
        assert ended.frames[0]["modelUsage"]["claude-sonnet-5-5"]["contextWindow"] == 1_000_000
        refused = await program.run("-p", "hi", "--model", "claude-haiku-4-5[1m]")
        assert refused.code == 2
        assert "claude-haiku-4-5 has a context window of 200k tokens, not 1M." in refused.err
        assert len(server.bodies) == 1
