"""Rules and the commands that models write: here-documents, exit codes, exported variables, saved output."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.permissions.rules import parse_rule
from tests.permissions.deciding import bash, policy
from tests.support.tables import each_row


def behavior(command: str, project: Path, allow: str, mode: str = "default") -> str:
    temp = project.parent / "temp"
    temp.mkdir(exist_ok=True)
    return bash(policy(mode, allow, search_path="", temp=temp), command, project).behavior


@each_row(
    ("rule", "command"),
    [
        ("Bash(git *)", "git commit -m \"$(cat <<'EOF'\nFix: it's done\n\n$(not run)\nEOF\n)\""),
        ("Bash(git *)", "git add -A && git commit -m \"$(cat <<'EOF'\nFix\nEOF\n)\" && git status"),
        ("Bash(git commit *)", "git commit -F - <<'EOF'\nFix\nEOF"),
        ("Bash(git *)", "git add -A && git commit -F - <<'EOF' && git log -1\nFix\nEOF"),
        ("Bash(git tag *)", 'git tag "v$(cat a.txt)"'),
        ("Bash(npm test *)", 'npm test; echo "exit: $?"'),
        ("Bash(npm test *)", "export CI=1; npm test"),
        ("Bash(npm test *)", "CI=1 FORCE_COLOR=0 npm test"),
        ("Bash(npm test *)", "set -e; npm test"),
        ("Bash(npm test *)", "set -euo pipefail\nnpm test | tail -5"),
        ("Bash(npm test *)", "for i in 1 2 3; do npm test; done"),
        ("Bash(npm test *)", "if npm test; then echo ok; else echo failed; fi"),
        ("Bash(npm test *)", "(cd src && npm test)"),
        ("Bash(npm test *)", 'for f in a b; do npm test "$f"; done'),
        ("Bash(python3 *)", "python3 - <<'EOF'\nprint(1)\nEOF"),
        ("Bash(python3 -m json.tool *)", "cat a.txt | python3 -m json.tool"),
    ],
)
def test_a_rule_covers_commands_as_models_write_them(rule: str, command: str, tree: Path) -> None:
    assert behavior(command, tree, rule) == "allow"


@each_row(
    ("rule", "command"),
    [
        ("Bash(git *)", 'git commit -m "$(touch x)"'),
        ("Bash(git *)", "git commit -F - <<EOF\n$(touch x)\nEOF"),
        ("Bash(git commit *)", 'git "$x" commit'),
        ("Bash(git commit *)", 'x=push; git $x; git commit -m "a"'),
        ("Bash(npm test)", 'npm test "$(cat a.txt)"'),
        ("Bash(npm test a)", 'for f in a b; do npm test "$f"; done'),
        ("Bash(npm test $x)", "x=b; npm test $x"),
        ('Bash(npm test "$x")', 'read -r x < a.txt; npm test "$x"'),
        ("Bash(npm test *)", "npm test; touch x"),
        ("Bash(npm test *)", "export PATH=.; npm test"),
        ("Bash(npm test *)", "export CI=1 PATH=.; npm test"),
        ("Bash(npm test *)", "export NODE_OPTIONS=--require=./x; npm test"),
        ("Bash(npm test *)", "PATH=.; npm test"),
        ("Bash(npm test *)", "set -a; npm test"),
        ("Bash(npm test *)", "npm test > a.txt"),
        ("Bash(npm test *)", "npm test | tee a.txt"),
        ("Bash(npm test *)", "npm test > .git/x.txt"),
        ("Bash(npm test *)", "npm test > $TMPDIR/../x.txt"),
        ("Bash(npm test *)", 'npm test > "$x"'),
        ("Bash(npm test *)", "ls | tee out.txt"),
        ("Bash(npm test *)", "npm test; ls > out.txt"),
        ("Bash(python3)", "python3 <<'EOF'\nprint(1)\nEOF"),
        ("Bash(python3)", "echo 'print(1)' | python3"),
        ("Bash(python3)", "{ python3; } < a.txt"),
        ("Bash(python3 -m pytest *)", "python3 - <<'EOF'\nprint(1)\nEOF"),
        ("Bash(bash)", "cat a.txt | bash"),
        ("Bash(mv *)", "for i in 1 2; do cat d3/x; mv d1 d3; done"),
        ("Bash(touch *)", "cd src; rm x; cd ..; cat outside.txt"),
    ],
)
def test_a_rule_covers_no_more_than_its_text(rule: str, command: str, tree: Path) -> None:
    assert behavior(command, tree, rule) == "ask"


@pytest.mark.parametrize(
    ("command", "asks"),
    [
        ("d=new; mkdir -p $d/x", "allow"),
        ("x=..; mkdir $x/q", "ask"),
        ('for d in a ..; do mkdir "$d/x"; done', "ask"),
        ('mkdir "$(cat a.txt)"', "ask"),
        ("x=.git; echo a > $x/config", "ask"),
    ],
)
def test_accepted_edits_know_every_value_of_a_name(command: str, asks: str, tree: Path) -> None:
    assert behavior(command, tree, "Bash(none)", "acceptEdits") == asks


@each_row(
    "command",
    [
        *("ls # rm -rf build", "git -C src rm x", "git commit -m \"$(cat <<'EOF'\nrm x; ls\nrm y\nEOF\n)\""),
        *("gh pr create --title x --body 'rm -rf x'", "for f in a; do echo 'rm x'; done"),
    ],
)
def test_text_is_not_mistaken_for_a_command(command: str) -> None:
    assert not parse_rule("Bash(rm:*)").matches_somewhere(command)


@each_row(
    "command",
    [
        *("cat <<'EOF' | bash\nrm x\nEOF", "ls #\nrm x", "for c in rm ls; do $c x; done"),
        *("for c in ls rm; do $c x; done", "x=rm; x=ls; $x y", 'git commit -m "$(rm x)"'),
        *("while read -r l; do rm $l; done < a.txt", "sed 's/a/rm x/e' y", "gh alias set x '!rm y'"),
        "echo 'rm x' > run.sh; ./run.sh",
    ],
)
def test_a_command_is_seen_in_every_construct(command: str) -> None:
    assert parse_rule("Bash(rm:*)").matches_somewhere(command)
