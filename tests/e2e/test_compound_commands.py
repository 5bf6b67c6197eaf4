"""Compound commands through the assembled program, in a non-interactive run."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from agentcli.sandbox.linux.probe import probe
from tests.e2e.program import Program
from tests.support.file_states import file_states
from tests.support.scripts import call, reply, say
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio

RUN = [
    'for f in src/*.py; do wc -l "$f"; done',
    "if [ -d src ]; then ls src; fi",
    'while read -r line; do echo "$line"; done < a.txt',
    'x=a.txt; [[ -f "$x" ]] && echo "$(head -1 "$x"): $PWD"',
    "cat <<'EOF' # rm -rf src\n$(rm -rf src)\nEOF",
    "find src -name '*.py' -exec wc -l {} +",
]
RUNS_ITS_INPUT = "echo 'true]touch made' | sed -n 's/[]/]/;s|/e#|b|'"
"""GNU sed reads a bracket here where a simpler parser reads a delimiter, and runs the rest of the line."""
REFUSED = [
    RUNS_ITS_INPUT,
    'for f in src/*.py; do rm "$f"; done',
    'echo "$(touch made)"',
    'while read -r f; do cat "$f"; done < a.txt',
    "find . -exec echo {} + -execdir perl -e 'print 43' {} +",
    "find . -exec echo {} + -fprint /tmp/made",
    "find . -exec printf %s {} ';' -okdir sh -c id {} ';'",
]


async def test_read_only_compounds_run_and_others_are_refused(program: Program) -> None:
    (program.work / "src").mkdir()
    (program.work / "src" / "app.py").write_text("x = 1\n", encoding="utf-8")
    (program.work / "a.txt").write_text("/etc/passwd\n", encoding="utf-8")
    commands = [*RUN, *REFUSED]
    replies = [reply(call("Bash", command=command, description="look")) for command in commands]
    async with LoopbackServer(*replies, reply(say("done"))) as server:
        program.talk_to(server.url)
        ended = await program.run(
            "-p", "look", "--output-format", "stream-json", "--verbose", "--disallowedTools", "Bash(rm:*)"
        )
    results = [
        block
        for frame in ended.frames
        if frame["type"] == "user"
        for block in frame["message"]["content"]
        if block["type"] == "tool_result"
    ]
    assert [bool(block.get("is_error")) for block in results] == [False] * len(RUN) + [True] * len(REFUSED), json.dumps(
        results
    )
    assert (program.work / "src" / "app.py").exists()
    assert not (program.work / "made").exists()


async def test_a_rule_for_a_script_does_not_cover_one_of_the_same_name_elsewhere(program: Program) -> None:
    for folder in (program.work, program.work / "vendor"):
        folder.mkdir(exist_ok=True)
        for name in ("build.sh", "my build.sh"):
            (folder / name).write_text(f"touch {folder}/made\n", encoding="utf-8")
        (folder / "run.sh").write_text(f"#!/bin/sh\ntouch {folder}/made\n", encoding="utf-8")
        (folder / "run.sh").chmod(0o755)
    refused = [
        "cd vendor && sh build.sh",
        "(cd vendor; sh build.sh)",
        "cd vendor && sh 'my build.sh'",
        "cd vendor && ./run.sh --fast",
        "cd vendor",
        # The folder of the command before is kept.
        "sh build.sh",
        "./run.sh",
    ]
    run = ["sh build.sh", "cd vendor && cd .. && ./run.sh", "cd vendor && ../run.sh", "make --version"]
    replies = [reply(call("Bash", command=command)) for command in (*run, "cd ..", *refused)]
    rules = ["Bash(sh build.sh)", "Bash(sh 'my build.sh')", "Bash(./run.sh *)", "Bash(make *)"]
    async with LoopbackServer(*replies, reply(say("done"))) as server:
        program.talk_to(server.url)
        ended = await program.run(
            "-p", "build", "--output-format", "stream-json", "--verbose", "--allowedTools", ",".join(rules)
        )
        assert ended.code == 0
        results = [request.body["messages"][-1]["content"][-1] for request in server.requests[1:]]
    failed = [
        command for command, block in zip((*run, "cd ..", *refused), results, strict=True) if block.get("is_error")
    ]
    assert failed == [command for command in refused if command != "cd vendor"], json.dumps(results)
    assert (program.work / "made").exists()
    assert not (program.work / "vendor" / "made").exists()


async def test_hostile_names_that_one_program_passes_to_another_change_nothing(program: Program) -> None:
    if not (ability := probe(os.environ, (), None)).works:
        pytest.skip(f"no sandbox here: {ability.problem}")
    (program.home / ".ssh").mkdir()
    (program.home / ".ssh" / "id_rsa").write_text("PRIVATE", encoding="utf-8")
    names = ("-o", "--output=made", "a.txt", "b.txt", "quote'", "-exec", "src/-i")
    for name in names:
        (program.work / name).parent.mkdir(exist_ok=True)
        (program.work / name).write_text(f"text of {name}\n", encoding="utf-8")
    (program.work / "key").symlink_to(program.home / ".ssh" / "id_rsa")
    git = ("git", "-c", "user.name=u", "-c", "user.email=u@example.org")
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["commit", "-qm", "x"],
        ["update-ref", "refs/tags/--output=tag", "HEAD"],
    ):
        subprocess.run([*git, *words], cwd=program.work, check=True, capture_output=True)
    before = file_states(program.work)
    commands = [
        "sort $(ls)",
        "ls | xargs sort",
        "git ls-files | xargs cat",
        "for f in $(git ls-files); do sed -n 1p $f; done",
        "git log $(git describe --tags)",
        "find . -type f -exec sort {} +",
    ]
    replies = [reply(call("Bash", command=command)) for command in commands]
    async with LoopbackServer(*replies, reply(say("done"))) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "look", "--output-format", "json")
        sent = json.dumps(server.requests[-1].body["messages"])
    assert json.loads(ended.out)["permission_denials"] == []
    assert "text of b.txt" in sent
    assert "PRIVATE" not in sent
    assert file_states(program.work) == before


async def test_names_that_a_command_finds_get_around_no_ask_rule(program: Program) -> None:
    plan = program.home / "Documents" / "plan.txt"
    plan.parent.mkdir()
    plan.write_text("private\n")
    (program.work / "note").symlink_to(plan)
    subprocess.run("git init -q && git add note", shell=True, cwd=program.work, check=True)
    folder = program.home / ".config" / "agentcli"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps({"permissions": {"ask": ["Read(~/Documents/**)"]}}))
    spellings = ["git ls-files | xargs cat", "find . -type l -exec cat {} +", "cat $(ls)"]
    replies = [reply(call("Bash", command=command)) for command in spellings]
    async with LoopbackServer(*replies, "done") as server:
        program.talk_to(server.url)
        await program.run("-p", "look")
        shown = json.dumps([request.body for request in server.requests])
    assert "private" not in shown
    assert shown.count("needs approval") >= len(spellings)


async def test_a_read_only_command_leaves_nothing_in_the_caches_of_later_ones(program: Program) -> None:
    if not probe(os.environ, (), None).works:
        pytest.skip("no sandbox works here")
    # Sort takes these names for its options, and runs the file as a program.
    option = program.work / "--compress-program=." / "x"
    option.parent.mkdir()
    option.touch()
    planted = program.work / "x"
    planted.write_text("#!/bin/sh\nmkdir -p ~/.cache/pip && touch ~/.cache/pip/evil /tmp/ran && echo ran >&2\n")
    planted.chmod(0o755)
    (program.work / "-S64K").touch()
    (program.work / "big").write_text("line\n" * 200_000)
    subprocess.run("git init -q && git add .", shell=True, cwd=program.work, check=True)
    async with LoopbackServer(reply(call("Bash", command="git ls-files | xargs sort | tail -1")), "done") as server:
        program.talk_to(server.url)
        await program.run("-p", "look")
        result = json.dumps(server.requests[-1].body["messages"][-1])
    assert "Read-only file system" in result or "cannot create" in result, result
    assert not list(program.home.rglob("evil"))
