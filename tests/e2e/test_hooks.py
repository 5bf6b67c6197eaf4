"""Hooks in the assembled program: one test per promise."""

from __future__ import annotations

import json
import os
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import Program
from tests.support.guide import block_with
from tests.support.scripts import call, fails, reply
from tests.support.server import LoopbackServer
from tests.support.terminal import app_with

pytestmark = pytest.mark.anyio

FLAGS = ("--output-format", "json", "--permission-mode", "bypassPermissions", "--sandbox", "off")


def hooks(event: str, command: str, matcher: str = "") -> dict[str, Any]:
    return {"hooks": {event: [{"matcher": matcher, "hooks": [{"type": "command", "command": command}]}]}}


DENY_RM = hooks("PreToolUse", "grep -q '\"rm ' && { echo 'Use git rm.' >&2; exit 2; } || true", "Bash")


def settings(program: Program, value: dict[str, Any]) -> None:
    path = program.work / ".agentcli" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value))


async def test_a_hook_denies_a_call_and_the_run_goes_on(program: Program) -> None:
    (program.work / "file").touch()
    turn = [reply(call("Bash", command="rm file")), "I will not."]
    async with LoopbackServer(*turn, *turn) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "go", *FLAGS, "--settings", json.dumps(DENY_RM))
        assert ended.code == 0, ended.err
        assert (program.work / "file").exists()
        assert len(json.loads(ended.out)["permission_denials"]) == 1
        assert "PreToolUse hook" in ended.err
        assert "denied the call: Use git rm." in ended.err
        streamed = await program.run(
            *("-p", "go", "--output-format", "stream-json", "--include-hook-events"),
            *FLAGS[2:],
            *("--settings", json.dumps(DENY_RM)),
        )
    started, ended_frame = (
        next(frame for frame in streamed.frames if frame.get("subtype") == kind)
        for kind in ("hook_started", "hook_response")
    )
    assert started["hook_event"] == "PreToolUse"
    assert (ended_frame["hook_id"], ended_frame["outcome"]) == (started["hook_id"], "denied")
    assert (ended_frame["exit_code"], ended_frame["stderr"]) == (2, "Use git rm.\n")


async def test_hooks_and_stream_json_see_absolute_paths_and_the_directory_and_the_model_its_own_input(
    program: Program,
) -> None:
    (program.work / "a.txt").write_text("one\n")
    given = [{"file_path": "a.txt"}, {"command": "true"}]
    seen = [{"file_path": str(program.work / "a.txt")}, {"command": "true", "cwd": str(program.work)}]
    echo = 'import json, sys; print(json.dumps(json.load(sys.stdin)["tool_input"]), file=open("seen", "a"))'
    # A hook may send back what it has seen: the derived fields are taken out again.
    back = (
        "import json, sys; input = json.load(sys.stdin)['tool_input']; "
        "print(json.dumps({'hookSpecificOutput': {'hookEventName': 'PreToolUse', 'updatedInput': input}}))"
    )
    commands = {event: f"python3 -c {shlex.quote(echo)}" for event in ("PreToolUse", "PostToolUse")}
    configured = {event: hooks(event, command)["hooks"][event] for event, command in commands.items()}
    configured["PreToolUse"] += hooks("PreToolUse", f"python3 -c {shlex.quote(back)}")["hooks"]["PreToolUse"]
    calls = [reply(call("Read", **given[0])), reply(call("Bash", **given[1])), "Done."]
    async with LoopbackServer(*calls) as server:
        program.talk_to(server.url)
        flags = ("--output-format", "stream-json", *FLAGS[2:], "--settings", json.dumps({"hooks": configured}))
        ended = await program.run("-p", "go", *flags)
    assert ended.code == 0, ended.err
    told = [json.loads(line) for line in (program.work / "seen").read_text().splitlines()]
    assert [input for input in told if input in seen] == told
    assert len(told) == 4
    blocks = [block for frame in ended.frames if frame["type"] == "assistant" for block in frame["message"]["content"]]
    assert [block["input"] for block in blocks if block["type"] == "tool_use"] == seen
    sent = [block for message in server.bodies[-1]["messages"] for block in message["content"]]
    assert [block["input"] for block in sent if block["type"] == "tool_use"] == given
    assert not any(block.get("is_error") for block in sent)


async def test_a_projects_hook_runs_only_as_it_was_trusted(program: Program) -> None:
    logs = hooks("PreToolUse", "echo one >> hook.log")
    settings(program, logs)
    turn = [reply(call("Bash", command="true")), "Done."]
    async with LoopbackServer(*turn * 4) as server:
        program.talk_to(server.url)
        log = program.work / "hook.log"
        await program.run("-p", "go", *FLAGS)
        assert not log.exists()
        assert "echo one >> hook.log" in (await program.run("trust")).out, "the exact command is shown"
        assert (await program.run("trust", "--yes")).code == 0
        await program.run("-p", "go", *FLAGS)
        assert log.read_text() == "one\n"
        settings(program, hooks("PreToolUse", "echo two >> hook.log"))
        await program.run("-p", "go", *FLAGS)
        assert log.read_text() == "one\n", "a change asks again"
        await program.run("-p", "go", *FLAGS, "--trust")
        assert log.read_text() == "one\ntwo\n"


async def test_a_blocked_prompt_fails_the_run_without_a_request(program: Program) -> None:
    command = "grep -q password && { echo 'No secrets.' >&2; exit 2; }"
    async with LoopbackServer("Never.") as server:
        program.talk_to(server.url)
        flags = ("--settings", json.dumps(hooks("UserPromptSubmit", command)))
        ended = await program.run("-p", "my password is x", *FLAGS, *flags)
        assert ended.code == 1
        assert json.loads(ended.out)["errors"] == ["A hook blocked this prompt: No secrets."]
        assert server.requests == []


async def test_a_failed_run_prints_its_result_and_then_waits_for_its_stop_failure_hooks(program: Program) -> None:
    gate = program.work / "gate"
    os.mkfifo(gate)
    held = os.open(gate, os.O_RDWR)
    async with LoopbackServer(fails(400, "no luck"), fails(400, "no luck")) as server:
        program.talk_to(server.url)
        configured = ("--settings", json.dumps(hooks("StopFailure", f"head -c 4 {gate}; cat > failed.json")))
        running = await program.start("-p", "go", "--output-format", "stream-json", *FLAGS[2:], *configured)
        assert (await running.frame("result"))["is_error"]
        assert not (program.work / "failed.json").exists()
        os.write(held, b"open")
        assert (await running.finish()).code == 1
        assert "no luck" in json.loads((program.work / "failed.json").read_text())["error"]

        (program.work / "failed.json").unlink()
        stuck = await program.start("-p", "go", "--output-format", "stream-json", *FLAGS[2:], *configured)
        await stuck.frame("result")
        stuck.signal(signal.SIGINT)
        assert (await stuck.finish()).code == 128 + signal.SIGINT
        assert not (program.work / "failed.json").exists()
    os.close(held)


async def test_the_example_of_the_guide_works(program: Program) -> None:
    example = block_with("json", '"PostToolUse"')
    tools = program.work.parent / "tools"
    tools.mkdir()
    (tools / "ruff").write_text("#!/bin/sh\necho formatted > formatted.txt\n")
    (tools / "ruff").chmod(0o755)
    program.environ["PATH"] = f"{tools}:{program.environ['PATH']}"
    user = program.home / ".config" / "agentcli" / "settings.json"
    user.parent.mkdir(parents=True, exist_ok=True)
    user.write_text(example)
    (program.work / "file").touch()
    calls = [
        reply(call("Bash", command="rm file")),
        reply(call("Write", file_path="new.py", content="x=1")),
        reply(call("Bash", command="ls")),
        "Done.",
    ]
    async with LoopbackServer(*calls) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "go", *FLAGS)
        assert json.loads(ended.out)["result"] == "Done.", ended.err
        assert len(json.loads(ended.out)["permission_denials"]) == 1
        assert "Use git rm." in json.dumps(server.requests[1].body["messages"])
    assert (program.work / "file").exists()
    assert (program.work / "formatted.txt").read_text() == "formatted\n"


@pytest.mark.parametrize("mode", ["app", "plain"])
async def test_a_project_is_trusted_without_a_restart(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "work" / ".agentcli" / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(hooks("UserPromptSubmit", "grep -q never && { echo 'Not that.' >&2; exit 2; } || true")))
    plain = mode == "plain"
    arguments = ["--plain"] if plain else []
    async with app_with(tmp_path, reply("A first answer."), arguments=arguments) as (app, server):
        await app.wait_for("Trust this folder?")
        await app.wait_for("Answer:" if plain else "Continue without it")
        await app.answer(*(("r", "enter") if plain else ("r",)))
        if not plain:
            await app.ready()
        await app.submit("never mind")
        await app.wait_for("A first answer.")
        await app.submit("/trust")
        await app.wait_for(lambda: app.text.count("Answer:") > 1 if plain else "Trust it: all of this" in app.text)
        await app.answer(*(("t", "enter") if plain else ("t",)))
        await app.wait_for("definitions apply now.")
        await app.submit("never mind")
        await app.wait_for("blocked: Not that.")
        await app.wait_for("The prompt was not sent.")
        assert len(server.requests) == 1


SCRIPT = "echo run >> ran.log\n"


@pytest.mark.parametrize("owner", ["project", "user", "user, new file", "run with --trust"])
async def test_a_script_that_a_hook_names_does_not_run_after_the_model_changed_it(program: Program, owner: str) -> None:
    script, evil = program.work / "scripts" / "fmt.sh", program.home / "evil"
    script.parent.mkdir()
    if owner != "user, new file":
        script.write_text(SCRIPT)
    hook = hooks("PostToolUse", 'sh "$CLAUDE_PROJECT_DIR"/scripts/fmt.sh', "Read")
    if owner.startswith("user"):
        path = program.home / ".config" / "agentcli" / "settings.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(hook))
    else:
        settings(program, hook)
    (program.work / "a.txt").touch()
    text = f"touch {evil}\n"
    planted = call("Write", file_path="scripts/fmt.sh", content=text)
    forced = call("Bash", command=f"echo touch {evil} > scripts/fmt.sh")
    read = reply(call("Read", file_path="a.txt"))
    trust = ("--trust",) if owner == "run with --trust" else ()
    async with LoopbackServer(read, reply(planted), read, "Done.", read, reply(forced), read, "Done.") as server:
        program.talk_to(server.url)
        if owner == "project":
            shown = await program.run("trust", "--yes")
            assert SCRIPT.strip() in shown.out, "the script is part of what is trusted"
        asked = await program.run("-p", "go", "--permission-mode", "acceptEdits", "--output-format", "json", *trust)
        denied = [each["tool_input"].get("file_path") for each in json.loads(asked.out)["permission_denials"]]
        assert (str(script) in map(str, (program.work / str(name) for name in denied))) == (owner != "user, new file")
        ended = await program.run("-p", "go", *FLAGS, *trust)
    assert script.read_text() == text
    assert not evil.exists()
    assert (program.work / "ran.log").exists() == (owner in ("project", "run with --trust"))
    assert "scripts/fmt.sh changed" in ended.err


@pytest.mark.parametrize("command", ["cd scripts && ./fmt.sh", 'S=scripts; sh "$(pwd)/$S/fmt.sh"'])
async def test_a_script_is_found_in_a_folder_that_another_word_of_the_hook_names(
    program: Program, command: str
) -> None:
    script, evil = program.work / "scripts" / "fmt.sh", program.home / "evil"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\ntouch {program.work}/ran\n")
    script.chmod(0o755)
    settings(program, hooks("PostToolUse", command, "Read"))
    read = reply(call("Read", file_path="scripts/fmt.sh"))
    planted = reply(call("Write", file_path="scripts/fmt.sh", content=f"#!/bin/sh\ntouch {evil}\n"))
    async with LoopbackServer(read, planted, read, "Done.") as server:
        program.talk_to(server.url)
        await program.run("trust", "--yes")
        ended = await program.run("-p", "go", "--permission-mode", "acceptEdits", "--output-format", "json")
    assert len(json.loads(ended.out)["permission_denials"]) == 1
    assert (program.work / "ran").exists()
    assert not evil.exists()


async def test_a_repository_cannot_crowd_out_the_scripts_that_the_users_own_hook_names(program: Program) -> None:
    (program.work / "scripts").mkdir()
    (program.work / "scripts" / "fmt.sh").write_text(f"touch {program.home}/evil\n")
    (program.work / "a.txt").write_text("a")
    folder = program.home / ".config" / "agentcli"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps(hooks("PostToolUse", "sh scripts/fmt.sh", "Read")))
    (program.work / ".claude").mkdir()
    words = " ".join(f"f{number}" for number in range(700))
    (program.work / ".claude" / "settings.json").write_text(json.dumps({"x": {"command": words}}))
    async with LoopbackServer(reply(call("Read", file_path="a.txt")), "Done.") as server:
        program.talk_to(server.url)
        await program.run("-p", "go")
    assert not (program.home / "evil").exists()
