"""`agentcli trace` on sessions of the real program: every request is proven, also those of a sub-agent."""

from __future__ import annotations

import json

import pytest

from tests.e2e.program import Program
from tests.support.scripts import call, pause, reply
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio

KEY = "sk-ant-api03-" + "a1B2" * 12


async def record_session(program: Program) -> None:
    """Two prompts, the second with a sub-agent."""
    (program.work / "calc.txt").write_text(f"sum = 1\nkey = {KEY}\n")
    replies = [
        reply(pause(0.05), call("Read", file_path="calc.txt")),
        reply("It adds."),
        reply(call("Task", description="look around", prompt="Who calls it?", subagent_type="explore")),
        reply(call("Grep", pattern="sum")),
        reply("Nobody calls it."),
        reply("Nobody."),
    ]
    async with LoopbackServer(*replies) as server:
        program.talk_to(server.url)
        assert (await program.run("-p", f"what does\x1b[31m it do? {KEY}")).code == 0
        assert (await program.run("-p", "who calls it?", "-c")).code == 0


async def test_a_prompt_is_a_timeline_and_every_request_in_it_is_proven(program: Program) -> None:
    await record_session(program)
    first = await program.run("trace", "what", "--prompt", "1")
    assert "Prompt 1: what does" in first.out
    assert "Read calc.txt" in first.out
    assert "\x1b" not in first.out
    last = (await program.run("trace", "what")).out.splitlines()
    rows = [row.rpartition("  ")[2] for row in last if row[:1].isdigit()]
    assert len(rows) == 6, last
    assert ["Grep" in row for row in rows] == [False, False, False, True, False, False]
    opened = [json.loads((await program.run("trace", "what", "--step", str(n), "--json")).out) for n in (1, 3, 5, 6)]
    assert [step["proven"] for step in opened] == [True] * 4, "also the requests of the sub-agent"
    assert opened[1]["request"]["messages"][0]["content"][-1]["text"] == "Who calls it?"
    shown = (await program.run("trace", "what", "--prompt", "1", "--step", "3")).out
    assert "Proven: the digest of this request is the recorded one" in shown
    assert "2 new messages after 1 unchanged" in shown
    assert shown.endswith("It adds.\n")
    assert KEY not in json.dumps(opened) + shown + first.out


async def test_a_session_is_exported_for_tracing_tools(program: Program) -> None:
    await record_session(program)
    ended = await program.run("trace", "what", "--export", "spans.json")
    assert (ended.code, ended.out) == (0, "")
    file = program.work / "spans.json"
    assert json.loads((await program.run("trace", "what", "--export", "-")).out) == json.loads(file.read_text())
    [scope] = json.loads(file.read_text())["resourceSpans"][0]["scopeSpans"]
    spans = {span["spanId"]: span for span in scope["spans"]}
    above = {span["name"]: spans.get(span.get("parentSpanId", ""), {}).get("name") for span in spans.values()}
    assert above["execute_tool Task"] == "invoke_agent agentcli"
    assert above["invoke_agent explore"] == "execute_tool Task"
    assert above["execute_tool Grep"] == "invoke_agent explore"
    assert len({span["traceId"] for span in spans.values()}) == 2
    assert "It adds" not in file.read_text()


async def test_wrong_arguments_are_explained(program: Program) -> None:
    await record_session(program)
    for arguments, problem in {
        ("--prompt", "9"): "This session has 2 prompts",
        ("--step", "99"): "Prompt 2 has the steps 1 to 6",
        ("--json",): "--json belongs to --step K",
        ("--export", "missing/x.json"): "was not written",
    }.items():
        ended = await program.run("trace", "what", *arguments)
        assert (ended.code != 0, problem in ended.err, "Traceback" in ended.err) == (True, True, False), ended


@pytest.mark.parametrize(
    "flags",
    [
        ("--append-system-prompt", "Be kind."),
        ("--system-prompt", "You are a parrot."),
        ("--json-schema", '{"type": "object", "properties": {"word": {"type": "string"}}}'),
        ("--settings", '{"memory": false, "outputStyle": "terse"}'),
        ("--advisor", "claude-opus-5-5", "--model", "claude-sonnet-5-5"),
    ],
)
async def test_requests_are_proven_whatever_they_were_made_of(program: Program, flags: tuple[str, ...]) -> None:
    folder = program.home / ".config" / "agentcli"
    for path, text in {
        folder / "output-styles" / "terse.md": "---\nname: terse\ndescription: Short\n---\nSay little.",
        folder / "skills" / "sums" / "SKILL.md": "---\nname: sums\ndescription: Adds\n---\nAdd them.",
    }.items():
        path.parent.mkdir(parents=True)
        path.write_text(text)
    answer = reply(call("StructuredOutput", word="a")) if "--json-schema" in flags else "Done."
    async with LoopbackServer(answer, "Done.") as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "what does it do?", *flags)
        [body, *_more] = server.bodies
    assert ended.code == 0, ended.err
    step = json.loads((await program.run("trace", "what", "--step", "1", "--json")).out)
    assert (step["doubts"], step["request"]["system"]) == ([], body["system"])
    assert step["request"]["tools"] == body["tools"]
