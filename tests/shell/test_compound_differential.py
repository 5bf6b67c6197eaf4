"""Compound commands in a real shell: only checked programs start, with checked arguments."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from agentcli.shell.command_context import CommandContext
from agentcli.shell.commands.command_parts import analyse
from agentcli.shell.parser.strict_parser import NotPlain, SimpleCommand
from agentcli.shell.parser.words import MARKED, NAME, SOME
from tests.shell.compound_lines import COMPOUND_NOT_PROVEN, COMPOUND_READ_ONLY, WRITTEN_READ_ONLY
from tests.support.file_states import file_states

BASH = shutil.which("bash") or ""
pytestmark = pytest.mark.skipif(not BASH, reason="bash is not installed")

LOGGED = (
    *("ls", "cat", "head", "tail", "wc", "grep", "git", "sed", "sort", "find", "date", "basename", "dirname", "stat"),
    *("seq", "diff", "xargs", "timeout", "uniq", "rm", "touch", "tee", "bash", "sh", "python3", "npm", "curl", "env"),
)
LINES = [line for line in (*WRITTEN_READ_ONLY, *COMPOUND_READ_ONLY[len(WRITTEN_READ_ONLY) :: 7]) if "sleep" not in line]


@pytest.fixture
def logged(tree: Path) -> tuple[Path, Path]:
    """A folder of programs that record what they are given before they do it, and the record."""
    programs, record = tree.parent / "programs", tree.parent / "record"
    programs.mkdir()
    record.mkdir()
    for name in LOGGED:
        real = shutil.which(name) or "/bin/true"
        # The separator of records cannot be in a word of these lines.
        (programs / name).write_text(
            f'#!/bin/sh\n{{ printf "%s\\0" {name} "$@"; printf "\\036\\0"; }} > {record}/$$\nexec {real} "$@"\n'
        )
        (programs / name).chmod(0o755)
    return programs, record


def expected(command: str, project: Path) -> list[re.Pattern[str]]:
    """One expression for each form that a part of the command may have, with words ended by NUL."""
    place = replace(CommandContext.of(project, (project,)), home=str(project.parent), contained=True)
    parts = analyse(command, place)
    assert not isinstance(parts, NotPlain), command
    found: list[re.Pattern[str]] = []
    for part in parts:
        assert part.only_reads, command
        words = part.command.words
        found.append(re.compile("".join(_expression(part.command, index) for index in range(len(words)))))
    return found


def _expression(command: SimpleCommand, index: int) -> str:
    word = command.words[index]
    if re.search(f"[{SOME}{NAME}]", word) or index in command.globs:
        return "(?:[^\0]*\0)*"
    return "[^\0]*".join(map(re.escape, MARKED.split(word))) + "\0"


def recorded(record: Path) -> list[str]:
    """What each program was given. Each writes a file of its own: those of a pipeline run at the same time."""
    return [path.read_text(encoding="utf-8", errors="replace").removesuffix("\x1e\0") for path in record.iterdir()]


@pytest.mark.parametrize("start", range(4))
def test_only_judged_programs_run_with_judged_words_and_nothing_changes(
    start: int, tree: Path, logged: tuple[Path, Path]
) -> None:
    programs, record = logged
    before = file_states(tree)
    for line in LINES[start::4]:
        for path in record.iterdir():
            path.unlink()
        known = expected(line, tree)
        subprocess.run(
            [BASH, "-c", line],
            cwd=tree,
            env={"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(tree.parent), "USER": "u", "SHELL": "/bin/sh"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=30,
            check=False,
        )
        for run in recorded(record):
            program = run.partition("\0")[0]
            # What find and xargs start is judged with names that are added to it.
            fits = any(each.fullmatch(run) or each.pattern.find(re.escape(program) + "\0") > 0 for each in known)
            assert fits, f"{line!r} ran {run.split(chr(0))[:-1]}"
        assert file_states(tree) == before, line


@pytest.mark.parametrize("seed", range(3))
def test_a_compound_line_changed_at_random_that_still_passes_runs_nothing_else(
    seed: int, tree: Path, logged: tuple[Path, Path]
) -> None:
    random, (programs, record) = Random(seed), logged
    pieces = [*" \"'$`(){};|&\n#!*=\\", "-o ", "$x", "rm x", "> x", "done", "do ", "; fi", "$(", "<<EOF\n", "\nEOF\n"]
    pieces += ["x=", "read x", "[[ ", " ]]", "$((", "))", ";;"]
    before, tried = file_states(tree), 0
    for _ in range(1_500):
        line = random.choice(COMPOUND_READ_ONLY if random.random() < 0.7 else COMPOUND_NOT_PROVEN)
        for _ in range(random.randint(1, 3)):
            at = random.randint(0, len(line))
            line = line[:at] + random.choice(pieces) + line[at + random.randint(0, 2) :]
        parts = analyse(line, replace(CommandContext.of(tree, (tree,)), home=str(tree.parent)))
        if isinstance(parts, NotPlain) or not all(part.only_reads for part in parts) or "sleep" in line:
            continue
        tried += 1
        if tried > 12:
            break
        for path in record.iterdir():
            path.unlink()
        environ = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(tree.parent), "SECRET": "CANARY"}
        done = subprocess.run(
            [BASH, "-c", line],
            cwd=tree,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
        )
        started = {run.partition("\0")[0] for run in recorded(record)}
        words = {word for part in parts for word in part.command.words}
        assert started <= words, (line, started)
        assert b"CANARY" not in done.stdout + done.stderr, line
        assert file_states(tree) == before, line
    assert tried > 5
