"""Safe lines with something dangerous inserted: none may pass unless it is still provably read-only."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.permissions.rules import parse_rule
from agentcli.shell.command_context import CommandContext
from agentcli.shell.commands.command_parts import analyse
from agentcli.shell.parser.loose_parser import loose_segments, loose_words
from agentcli.shell.parser.strict_parser import NotPlain, plain_commands
from tests.shell.compound_lines import COMPOUND_NOT_PROVEN, COMPOUND_READ_ONLY
from tests.shell.shell_lines import NOT_PROVEN, READ_ONLY

ALWAYS_DANGEROUS = [
    "; rm x", "&& rm x", "|| rm x", "| rm x", "& rm x", "\nrm x\n", "; touch x", "| sh", "| bash", "| xargs rm", "| tee x",
    " $(rm x) ", " `rm x` ", " > x ", " >> x ", " < x ", " 2> x ", " &> x ", " <(rm x) ", " >(rm x) ", " & ",
    " $x ", " ${x} ", " $((x)) ", " $SECRET ", " {a,$(id)} ", " ~/x ", " $'x' ", "\r", "\x00", "\x1b", "; eval x", "; . x", "; cd /", "&& cd ../..",
    "; PATH=1", "; TMPDIR=1", " && x() { ls; }", " && ( touch x )", "; if ls; then rm x; fi", " |& ls", "; for i in 1; do rm x; done", "; while :; do ls; done", "; curl x", "; python x", "; find . -delete",
    "; sed -i s/a/b/ x", "; sort -o x", "; git push", "; ./x", "; /bin/ls", "; 'ls'", "; l\\s", "; cat /proc/self/environ",
]  # fmt: skip
"""Appended to a line outside of its quotes, each of these makes it one that has to ask."""

PIECES = ["-o", "-i", "-exec", "-delete", "--output=x", "--pre=sh", "-c", "\\", "'", '"', "$", "`", "(", ")", "{", "}", ";", "&",
          "|", ">", "<", "\n", "#", "!", "*", "~", "[", "]", "=", " ", "\t", "$(", "<<EOF\n", "\\\n", "rm x", "A=1 ", "é", "\u200b"]  # fmt: skip

ALL_READ_ONLY = [*READ_ONLY, *COMPOUND_READ_ONLY]
# In one line the `x` of another would be known.
ONE_LINE = [line for line in ALL_READ_ONLY if "<<" not in line and "#" not in line and "x" not in line.split("=")[0]]

safe_lines = st.sampled_from(ONE_LINE)


def only_reads(command: str, project: Path) -> bool:
    parts = analyse(command, CommandContext.of(project, (project,)))
    return not isinstance(parts, NotPlain) and all(part.only_reads for part in parts)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mutations")
    (folder / ".git").mkdir()
    (folder / "src").mkdir()
    (folder / "with blank.txt").touch()
    return folder


@given(line=safe_lines, insertion=st.sampled_from(ALWAYS_DANGEROUS), more=safe_lines)
def test_additions_to_a_safe_line_are_detected(project: Path, line: str, insertion: str, more: str) -> None:
    if "#" in line + more:
        line = more = "ls"
    assert not only_reads(f"{line}{insertion}", project)
    assert not only_reads(f"{line} {insertion} {more}", project)
    assert not only_reads(f"{more}; {line} {insertion}", project)


@given(
    line=safe_lines,
    bad=st.sampled_from([*NOT_PROVEN, *COMPOUND_NOT_PROVEN]),
    joint=st.sampled_from(["; ", " && ", " || ", "\n", " | "]),
)
def test_one_unsafe_part_makes_the_whole_command_unsafe(project: Path, line: str, bad: str, joint: str) -> None:
    if not bad.strip() or bad.startswith("#") or "#" in line or "dash" in bad or "folder" in bad or "link" in bad:
        return
    # These lead out of another tree, or depend on its file names, or on what is piped into them, or on where a cd before them has led.
    # An assignment alone does nothing behind a command that only reads.
    if (
        bad in ("A=1", "A=1 B=2")
        or "outside" in bad
        or bad == "ls */"
        or bad.startswith(("xargs", "find *"))
        or "cd " in line
    ):
        return
    assert not only_reads(f"{line}{joint}{bad}", project)


@given(data=st.data())
def test_a_line_broken_at_random_never_passes_with_other_programs(project: Path, data: st.DataObject) -> None:
    """If a line passes, the strict walk knows all its words and operators, and nothing writes."""
    line = data.draw(st.sampled_from(ALL_READ_ONLY))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(line)))
        line = line[:at] + data.draw(st.sampled_from(PIECES)) + line[at:]
    parts = analyse(line, CommandContext.of(project, (project,)))
    if isinstance(parts, NotPlain) or not all(part.only_reads for part in parts):
        return
    assert not parse_rule("Bash(rm *)").matches_command(parts[-1].command.text)
    assert all(part.inner[0] != "rm" for part in parts)
    assert all(redirection.kind != "write" for part in parts for redirection in part.command.redirections)


@given(text=st.text(st.sampled_from(" abrm'\"\\$`(){};&|<>\n#!*~[]=-/.x1"), max_size=40))
def test_any_text_can_be_walked(text: str) -> None:
    plain_commands(text)
    loose_segments(text)
    loose_words(text)


@given(before=safe_lines, after=safe_lines, joint=st.sampled_from(["; ", " && ", "\n", " | ", " & "]))
def test_a_deny_rule_finds_its_command_among_others(before: str, after: str, joint: str) -> None:
    if "#" in before:
        return
    assert parse_rule("Bash(rm *)").matches_somewhere(f"{before}{joint}rm -rf x{joint}{after}")
