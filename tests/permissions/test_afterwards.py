"""Commands whose later parts depend on changes by earlier parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.permissions.deciding import bash, policy
from tests.support.tables import each_row


def behavior(command: str, project: Path, allow: str = "", mode: str = "acceptEdits") -> str:
    return bash(policy(mode, allow, search_path=""), command, project).behavior


@pytest.fixture
def project(tree: Path) -> Path:
    (tree / "d1").mkdir()
    (tree / "d1" / "x").symlink_to(tree.parent / "outside.txt")
    (tree / "d1" / "out").symlink_to(tree.parent)
    (tree / "e").mkdir()
    (tree / "gitlink").symlink_to(tree / ".gitattributes")
    (tree / "later").symlink_to(tree / "d3" / "out" / "y")
    return tree


@each_row(
    "command",
    [
        "mkdir -p e/objects e/refs && echo x > e/HEAD && git -C e status",
        *("mkdir -p e/objects e/refs && echo x > e/HEAD", "mkdir -p e/objects e/refs; touch e/HEAD e/config"),
        "cd e && mkdir -p objects/pack refs/heads && touch HEAD",
        "for n in objects refs; do mkdir -p e/$n; done; echo x > e/HEAD",
        *("touch e/HEAD && echo ../.. > e/commondir", "mv d1 d3 || cat d3/x", "cat d3/x | mv d1 d3"),
        *("mv d1 d3 | cat d3/x", "mv d1 d3 && cd d3 && touch out/y", "cp a.txt c.txt && cat c.txt"),
        *("echo x > -o && sort *", "echo x > .python-version && python3 --version"),
        *("mkdir new && find . -type f -print0 | xargs -0 cat", "echo '* diff=x' > .gitattributes && git diff"),
        *("sed -i s/a/b/ .gitmodules && git status", "mkdir -p e/objects && mkdir e/refs && git -C e status"),
        *("rm .git/HEAD && git status", "mv d1 d3 && git diff", "echo x > a.txt && git diff --ext-diff"),
        "for f in a; do git diff; touch .gitattributes; done",
    ],
)
def test_a_part_that_depends_on_earlier_changes_asks(command: str, project: Path) -> None:
    assert behavior(command, project) == "ask"


@each_row(
    "command",
    [
        *("mkdir -p new/deep && touch new/deep/a", "mkdir new && echo x > new/a && cat a.txt >> new/a"),
        *("mv a.txt c.txt && echo done && mkdir other", "cat a.txt | head -5 > c.txt", "cp a.txt c.txt"),
        *("sed -i s/a/b/ README.md && git diff", "mkdir -p new && git status --short"),
        *("mkdir -p e/objects && touch e/HEAD", "rm README.md && git status"),
        *("echo x > src/config && git diff --stat | head -5", 'echo "$PWD" > c.txt && git status'),
        "for f in a; do git diff; touch c.txt; done",
    ],
)
def test_consecutive_plain_edits_are_accepted(command: str, project: Path) -> None:
    assert behavior(command, project) == "allow"


def test_a_rule_that_lets_folders_be_moved_proves_nothing_about_what_follows(project: Path) -> None:
    moving = "Bash(mv *)"
    assert behavior("mv d1 d3", project, moving, "default") == "allow"
    assert behavior("mv d1 d3 && cat d3/x", project, moving, "default") == "ask"
    assert behavior("ln -s / d3 && cat d3/etc/passwd", project, "Bash(ln *)", "default") == "ask"
    assert behavior("npm test && ls", project, "Bash(npm test *)", "default") == "allow"


def test_git_reads_after_a_commit_whose_message_was_written_before(project: Path) -> None:
    command = "cat > msg.txt <<'EOF'\ntext\nEOF\ngit add -A && git commit -F msg.txt && git log --stat -1"
    rules = "Bash(git add *)\nBash(git commit *)\nEdit(msg.txt)"
    assert behavior(command, project, rules, "default") == "allow"


def test_a_file_command_whose_targets_are_not_known_makes_git_ask(project: Path) -> None:
    assert behavior("sed -i w.gitattributes a.txt && git diff", project, "Bash(sed *)") == "ask"
    assert behavior("rm -rf src && git status", project, "Bash(rm *)") == "ask"
