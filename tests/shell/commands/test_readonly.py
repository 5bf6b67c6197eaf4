"""The read-only proof, in both directions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcli.shell.command_context import CommandContext
from agentcli.shell.commands.command_parts import analyse, runs_beside_others
from agentcli.shell.commands.read_only import objection
from agentcli.shell.commands.read_only_table import EFFECTS
from agentcli.shell.parser.strict_parser import NotPlain
from tests.shell.compound_lines import COMPOUND_NOT_PROVEN, COMPOUND_READ_ONLY
from tests.shell.shell_lines import NOT_PROVEN, READ_ONLY
from tests.support.tables import each_row


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a line with $HOME shows depends on where that is, and on what lies beside it."""
    monkeypatch.setenv("HOME", "/usr")


def why_asked(command: str, project: Path, hides: bool = False, *, contained: bool = True) -> str:
    """Empty: it is proven to only read."""
    hidden = (lambda path: path.endswith("a.txt")) if hides else None
    place = replace(CommandContext.of(project, (project,)), hides=hidden, contained=contained)
    parts = analyse(command, place)
    if isinstance(parts, NotPlain):
        return str(parts)
    return "; ".join(part.objection or "a redirection" for part in parts if not part.only_reads)


LITERALS = " ".join(f"f{number}" for number in range(32))


def tables(*lines: str) -> list[Any]:
    """Parts of a table, each the argument of one test: a test per line would take longer than the lines do."""
    parts = [lines[first : first + 100] for first in range(0, len(lines), 100)]
    return [pytest.param(part, id=f"{len(part)} from {part[0]!r}") for part in parts]


@pytest.mark.parametrize("commands", tables(*READ_ONLY, *COMPOUND_READ_ONLY))
def test_read_only_commands_are_proven(commands: Sequence[str], shared_tree: Path) -> None:
    reasons = {command: why_asked(command, shared_tree) for command in commands}
    assert {command: reason for command, reason in reasons.items() if reason} == {}


@pytest.mark.parametrize("commands", tables(*NOT_PROVEN, *COMPOUND_NOT_PROVEN))
def test_other_commands_are_not_proven_and_have_a_reason(commands: Sequence[str], shared_tree: Path) -> None:
    assert [command for command in commands if not why_asked(command, shared_tree)] == []


PASSING_NAMES = [
    *("ls | xargs cat", "find . -type f -print0 | xargs -0 wc -l", "find . -name '*.py' -exec cat {} +"),
    *("cat $(git ls-files)", 'for f in $(ls); do cat "$f"; done', "git diff $(git merge-base main HEAD)"),
]


@pytest.mark.parametrize("command", PASSING_NAMES)
def test_a_program_gets_the_names_that_another_one_prints_only_in_a_sandbox(command: str, shared_tree: Path) -> None:
    assert why_asked(command, shared_tree) == ""
    assert "unknown" in why_asked(command, shared_tree, contained=False)


def test_every_value_of_a_loop_over_many_words_is_checked(shared_tree: Path) -> None:
    assert why_asked(f"for f in {LITERALS}; do cat $f; done", shared_tree) == ""
    last = LITERALS.replace("f31", "/etc/passwd")
    assert "outside the working directories" in why_asked(f"for f in {last}; do cat $f; done", shared_tree)


@each_row(
    ("command", "reason"),
    [
        ("git log --output=x", "`--output` of git log may change files or run code"),
        ("git -c core.pager=sh log", "`-c` of git can make it run other programs"),
        ("find . -delete", "`-delete` of find may change files or run code"),
        ("sed -i s/a/b/ x", "`-i` of sed may change files or run code"),
        ("npm test", "npm test may change files or run code"),
        ("git push origin main", "git push sends commits to a remote"),
        ("rm -rf /tmp/x", "rm deletes files"),
        ("curl example.org", "curl uses the network"),
        ("sh a.sh", "sh runs a script"),
        ("bash -c ls", "bash runs a script"),
        ("sudo ls", "sudo runs as another user"),
        ("make test", "make test may change files or run code"),
        ("ls $(id)", "the arguments of ls are unknown"),
        ("echo $SECRET", "the value of $SECRET is unknown"),
        ("ls {a,{b,c}}", "the brace expansion cannot be checked"),
        ("A=1 ls", "the assignment A=1 can change what programs do"),
        ("for ((;;)); do ls; done", "the for loop cannot be checked"),
        ("while true; do ls; done", "the loop may never end"),
        (f"for f in {LITERALS} f32; do cat $f; done", "$f has more than 32 values"),
        ("cat <<EOF\n$x\nEOF", "the here-document cannot be checked"),
        ("cat $(cat a.txt)", "an unquoted variable or substitution can expand to several words"),
        ("echo $((1+1))", "the arithmetic cannot be checked"),
        ("ls &", "it starts a background process"),
        ("ls 'x", "it cannot be parsed"),
        ("cd / && ls", "`cd /` leaves the working directories; the folder it would run in is unknown"),
        ("cat *link", "the pattern *link matches link, which leads outside the working directories"),
        ("cd dash && sort *", "the pattern * matches -o, which would be read as an option"),
        ("awk '{print > \"x\"}' a", "the awk program may do more than print"),
        ("cat a.txt | xargs cat", "the names that xargs passes to cat are unknown"),
    ],
)
def test_the_reason_names_the_obstacle(command: str, reason: str, tree: Path) -> None:
    assert why_asked(command, tree) == reason


def test_every_described_command_needs_approval_and_shows_its_description() -> None:
    described = {name: objection((*name.split(), "x")) for name in EFFECTS}
    assert described == {name: f"{name} {effect}" for name, effect in EFFECTS.items()}


@each_row("command", ["ls", "cat a.txt | wc -l", "git status", "ls src/*.py", "timeout 5 ls"])
def test_read_only_commands_may_run_in_parallel(command: str) -> None:
    assert runs_beside_others(command)


@each_row("command", ["cd src", "cd src && ls", "ls > x", "ls *.py", "A=1 ls", "rm x", "ls 'x", "uniq a*"])
def test_commands_that_may_change_something_run_alone(command: str) -> None:
    assert not runs_beside_others(command)


def test_arguments_are_checked_in_the_directory_after_cd(tree: Path) -> None:
    (tree / "src" / "deep").mkdir()
    assert why_asked("cd src && cat ../a.txt", tree) == ""
    # The first cd may have failed here, and then `..` is another folder.
    assert why_asked("cd src; cat ../outside.txt", tree) != ""
    assert why_asked("cd src && cd deep && ls ../..", tree) == ""
    assert why_asked("cd src || cd .. && ls", tree) != ""
    assert why_asked("cd missing && ls", tree) == ""
    assert why_asked("cd linked && ls", tree) != ""


def test_where_git_may_fail_its_top_folder_is_one_of_two_places(tree: Path) -> None:
    """`cd ""` stays where it is."""
    for name in ("objects", "refs"):
        (tree / ".git" / name).mkdir()
    (tree / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tree / "src" / "b.txt").symlink_to(tree.parent / "outside.txt")
    top = 'cd "$(git rev-parse --show-toplevel)" && '

    def asked(command: str) -> bool:
        parts = analyse(command, replace(CommandContext.of(tree / "src", (tree,)), contained=True))
        return isinstance(parts, NotPlain) or not all(part.only_reads for part in parts)

    assert not asked(f"{top}cat a.txt")
    assert asked(f"{top}cat b.txt")
    assert asked('git -C "$(git rev-parse --show-toplevel)" diff -- b.txt')


def test_a_bare_repository_among_the_files_may_run_programs(tree: Path) -> None:
    trap = tree / "src" / "trap"
    (trap / "objects").mkdir(parents=True)
    (trap / "refs").mkdir()
    (trap / "HEAD").write_text("ref: refs/heads/main")
    assert "bare repository" in why_asked("cd src/trap && git status", tree)
    assert "bare repository" in why_asked("git -C src/trap status", tree)
    assert why_asked("cd src && git status", tree) == ""


def test_a_pattern_shows_nothing_that_a_rule_hides(tree: Path) -> None:
    assert why_asked("cat *.txt", tree) == ""
    assert why_asked("cat *.txt", tree, hides=True) != ""
    assert why_asked("cat b.*", tree, hides=True) == ""


def test_a_pattern_in_a_very_large_folder_is_not_expanded(tree: Path) -> None:
    for number in range(2_010):
        # A second name of a file is made sooner than another file.
        os.link(tree / "a.txt", f"{tree}/src/f{number}")
    assert "too many files" in why_asked("ls src/f*", tree)
    assert why_asked("ls src", tree) == ""


@each_row("program", ["python", "python3", "node", "ruby", "bash", "make", "cargo", "docker", "npx", "java"])
def test_an_interpreter_without_arguments_is_never_proven(program: str) -> None:
    assert objection((program,)) is not None


@pytest.mark.parametrize("names", [("HEAD",), ("commondir",), ("objects", "refs")])
def test_anything_that_git_could_treat_as_a_repository_makes_it_ask(names: tuple[str, ...], tree: Path) -> None:
    trap = tree / "src" / "trap"
    (trap / ".git").mkdir(parents=True)
    for name in names:
        (trap / name).symlink_to("nowhere")
    assert "bare repository" in why_asked("git -C src/trap status", tree)


def test_a_program_among_the_files_of_the_project_is_not_the_known_one(tree: Path) -> None:
    def asked(command: str, search_path: str) -> list[str | None]:
        parts = analyse(command, replace(CommandContext.of(tree, (tree,)), search_path=search_path))
        assert not isinstance(parts, NotPlain)
        return [part.objection for part in parts]

    own, others = tree / "bin", tree.parent / "bin"
    for folder in (own, others):
        folder.mkdir()
        for name in ("ls", "timeout"):
            (folder / name).write_text("#!/bin/sh\n")
            (folder / name).chmod(0o755)
    assert asked("ls", f"{others}:{own}") == [None]
    assert asked("ls", f"{own}:{others}") != [None]
    assert asked("ls", f":{others}") != [None]
    assert asked("ls", f"bin:{others}") != [None]
    (own / "ls").unlink()
    assert asked("ls", f"{own}:{others}") == [None]
    assert asked("timeout 5 ls", f"{own}:{others}") != [None]
    assert asked("echo x", f"{own}:{others}") == [None]
