"""Commands allowed without asking are run in a real shell: nothing in the folder or around it may change."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from agentcli.shell.command_context import CommandContext
from agentcli.shell.commands.command_parts import analyse
from agentcli.shell.parser.strict_parser import NotPlain, plain_commands
from tests.shell.shell_lines import READ_ONLY
from tests.support.assembled import SEARCH_PATH
from tests.support.examples import EXAMPLES
from tests.support.file_states import file_states

SLOW = ("npm ", "pip ", "sleep", "lsof", "java", "docker", "go version", "cargo", "rustc")

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


def environment(home: Path) -> dict[str, str]:
    return {
        "PATH": SEARCH_PATH,
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_PAGER": "cat",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.com",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.com",
    }


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = tmp_path_factory.mktemp("real") / "project"
    (project / "src").mkdir(parents=True)
    (project / "tests").mkdir()
    (project.parent / "home").mkdir()
    (project.parent / "outside.txt").write_text("outside")
    for name in ("a.txt", "b.txt", "a.py", "src/app.py", "a.csv", "a", "b", "file", "with blank.txt"):
        (project / name).write_text("1 foo 200\n2 bar,x 3\n")
    (project / "a.json").write_text('{"name": "x", "scripts": {"a": 1}, "items": [1]}')
    (project / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    run = lambda *words: subprocess.run(words, cwd=project, env=environment(project.parent / "home"), check=True)  # noqa: E731
    run("git", "init", "-q", "-b", "main", "--template=")
    run("git", "add", ".")
    run("git", "commit", "-qm", "first")
    (project / "a.txt").write_text("changed\n")
    run("git", "stash", "-q")
    # All states of files are compared after each line: fewer files, less work.
    run("git", "gc", "-q")
    (project / "b.txt").write_text("changed too\n")
    return project


BATCHES = [[line for line in READ_ONLY if not line.strip().startswith(SLOW)][start::8] for start in range(8)]


@pytest.mark.parametrize("lines", BATCHES, ids=lambda lines: f"{len(lines)} lines from {lines[0]!r}")
def test_no_line_that_is_allowed_changes_anything(lines: list[str], repository: Path) -> None:
    before = file_states(repository.parent)
    place = CommandContext.of(repository, (repository,))
    for line in lines:
        parts = analyse(line, place)
        if isinstance(parts, NotPlain) or not all(part.only_reads for part in parts):
            continue
        subprocess.run(
            ["bash", "-c", line],
            cwd=repository,
            env=environment(repository.parent / "home"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=30,
            check=False,
        )
        assert file_states(repository.parent) == before, line


WORDS = [line for line in READ_ONLY if "xargs" not in line]


@pytest.mark.parametrize("start", range(4))
def test_the_shell_sees_the_same_words(start: int, tmp_path: Path) -> None:
    """Every program is replaced by one that prints its arguments, which must be the checked words."""
    script = ["set -f", "shopt -u expand_aliases"]
    expected: list[tuple[str, ...]] = []
    show = "__show() { printf '%s\\0' \"$@\" >&9; printf '\\n\\0' >&9; }"
    for line in WORDS[start::4]:
        parts = plain_commands(line)
        assert not isinstance(parts, NotPlain), line
        for part in parts:
            if part.words[0] in ("time", "[") or "\n" in part.text:
                continue
            script.append(f"__show {part.text}")
            expected.append(part.words)
    program = "\n".join([show, *script])
    out = tmp_path / "words"
    done = subprocess.run(
        ["bash", "-c", f"exec 9>'{out}'\n{program}\n"],
        check=True,
        cwd=tmp_path,
        env={"HOME": "/h", "PATH": os.environ["PATH"]},
    )
    assert done.returncode == 0
    seen = [tuple(words.split("\0")[:-1]) for words in out.read_text(encoding="utf-8").split("\n\0")][:-1]
    assert seen == expected


PIECES = (
    *(
        *("-o", "-i", "-c", "-l", "-e", "-f", "-r", "-R", "-L", "-x", "-w", "-n", " x ", " a b", "--output=x"),
        *("-exec", "-delete"),
    ),
    *(
        *("'", '"', "\\", ";", "|", "&&", "\n", "#", "!", "*", "?", "[", "]", "=", ",", " ", "{", "}", "~", "w x"),
        *("/e", "p;", ">"),
    ),
    *(
        *("../outside.txt", "link", "linked/../outside.txt", "src/../../outside.txt", "cd src && ", "| xargs cat"),
        *(".*", "-C .."),
    ),
)


@pytest.mark.parametrize("seed", range(EXAMPLES // 5))
def test_lines_changed_at_random_that_still_pass_change_and_leak_nothing(seed: int, repository: Path) -> None:
    random = Random(seed)
    outside = repository.parent / "outside.txt"
    outside.write_text("CANARY\n")
    for name, target in (("link", outside), ("linked", repository.parent / "home")):
        if not (repository / name).is_symlink():
            (repository / name).symlink_to(target)
    before = file_states(repository.parent)
    place = CommandContext.of(repository, (repository,))
    lines = [line for line in READ_ONLY if not line.strip().startswith(SLOW) and "seq" not in line]
    run = 0
    while run < 40:
        line = random.choice(lines)
        for _ in range(random.randint(1, 3)):
            at = random.randint(0, len(line))
            line = line[:at] + random.choice(PIECES) + line[at:]
        parts = analyse(line, place)
        if isinstance(parts, NotPlain) or not all(part.only_reads for part in parts):
            continue
        run += 1
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=repository,
            env={**environment(repository.parent / "home"), "SECRET": "CANARY"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
        )
        assert b"CANARY" not in done.stdout + done.stderr, line
        assert file_states(repository.parent) == before, line
