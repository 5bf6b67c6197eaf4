"""Who wrote each line of a file, from real sessions with real snapshots."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from contextlib import aclosing
from pathlib import Path

import pytest

from agentcli.assemble import Options, build_engine
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.messages import Json
from agentcli.core.permission import PermissionMode
from agentcli.history.blame import parse_place
from agentcli.history.blame_text import BlameText, read_blame
from agentcli.workspace.folders import KEEP_SECONDS
from tests.support.scripts import call, reply
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio

DOUBLE = "def double(number):\n    return number + number\n"
TRIPLE = "def triple(number):\n    return number + number + number\n"
START = f'"""Numbers."""\n\n{DOUBLE}'


class Project:
    """A folder in which sessions run. Sessions are named by letters in the order in which they began."""

    def __init__(self, folder: Path) -> None:
        self.home = folder
        self.state = folder / ".local" / "state" / "agentcli"
        self.folder = folder / "project"
        self.folder.mkdir()
        self.file = self.folder / "numbers.py"
        self.file.write_text(START)
        self.sessions: list[str] = []

    async def prompt(self, text: str, *replies: Json | str, session: str = "", fork: bool = False) -> None:
        """Run a prompt in a new session, or in the one with this letter."""
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.home), "ANTHROPIC_API_KEY": "sk-test"}
        async with LoopbackServer(*replies, "Done.") as server:
            options = Options(
                cwd=self.folder,
                environ={**environ, "ANTHROPIC_BASE_URL": server.url},
                permission_mode=PermissionMode.BYPASS,
                settings='{"sandbox": {"mode": "off"}}',
                resume=self.sessions[ord(session) - ord("a")] if session else None,
                fork_session=fork,
            )
            engine = build_engine(options)
            async with engine, aclosing(engine.submit(text)) as events:
                async for _event in events:
                    pass
        if engine.session_id not in self.sessions:
            self.sessions.append(engine.session_id)

    async def blame(self, place: str = "numbers.py") -> BlameText:
        return await read_blame(place, self.folder, self.state)

    async def authors(self, place: str = "numbers.py") -> list[str]:
        """For each line: the session, the prompt and the call, or the kind."""
        found = []
        for origin in (await self.blame(place)).blame.origins:
            change = origin.change
            if change is None:
                found.append(origin.kind)
                continue
            letter = chr(ord("a") + self.sessions.index(change.session_id))
            found.append(f"{letter}{change.prompt_number}.{change.call_number}")
        return found

    def git(self, *arguments: str) -> None:
        command = ["git", "-c", "user.name=kim", "-c", "user.email=kim@example.invalid", *arguments]
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        subprocess.run(command, cwd=self.folder, env=environ, capture_output=True, check=True)

    def edit(self, old: str, new: str) -> None:
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))


def edit(old: str, new: str) -> Json:
    return reply(call("Edit", file_path="numbers.py", old_string=old, new_string=new))


def shell(command: str) -> Json:
    return reply(call("Bash", command=command))


READ = reply(call("Read", file_path="numbers.py"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path.resolve())


async def test_lines_of_edits_of_commands_and_of_the_user_are_told_apart(project: Project) -> None:
    await project.prompt("document it", READ, edit('"""Numbers."""', '"""All numbers."""'))
    project.edit("    return number + number\n", "    # as taught at school\n    return number + number\n")
    await project.prompt("add zero", shell("echo ZERO = 0 >> numbers.py"), session="a")
    project.file.write_text(project.file.read_text() + "ONE = 1\n")
    assert await project.authors() == ["a1.2", "before", "before", "user", "before", "a2.3", "user"]


async def test_the_last_author_of_a_line_counts_whatever_was_committed_between(project: Project) -> None:
    project.git("init", "-q")
    await project.prompt("add zero", shell("echo ZERO = 0 >> numbers.py"))
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "zero")
    await project.prompt("a float", READ, edit("ZERO = 0", "ZERO = 0.0\nHALF = 0.5"))
    project.git("commit", "-q", "-a", "-m", "floats")
    assert (await project.authors())[-2:] == ["b1.2", "b1.2"]
    project.edit("HALF = 0.5", "HALF  =  0.5")
    assert (await project.authors())[-2:] == ["b1.2", "user"]


async def test_moved_lines_keep_their_author_and_copied_ones_do_not(project: Project) -> None:
    await project.prompt("add triple", shell(f"cat >> numbers.py <<'END'\n{TRIPLE}END"))
    project.file.write_text(f"{TRIPLE}{START}")
    assert await project.authors() == ["a1.1", "a1.1", "before", "before", "before", "before"]
    await project.prompt("move it", shell("(tail -n +3 numbers.py; head -2 numbers.py) > new; mv new numbers.py"))
    assert await project.authors() == ["before", "before", "before", "before", "a1.1", "a1.1"]
    await project.prompt("twice", shell("tail -2 numbers.py > new; cat new >> numbers.py"))
    assert (await project.authors())[-4:] == ["a1.1", "a1.1", "c1.1", "c1.1"]


async def test_lines_that_come_back_keep_their_author(project: Project) -> None:
    project.git("init", "-q")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "start")
    await project.prompt("add zero", shell("echo ZERO = 0 >> numbers.py"))
    project.git("checkout", "-q", "-b", "zero")
    project.git("commit", "-q", "-a", "-m", "zero")
    project.git("checkout", "-q", "-")
    project.git("checkout", "-q", "HEAD~0")
    await project.prompt("elsewhere", shell("echo 1 > other.txt"))
    project.git("checkout", "-q", "zero")
    await project.prompt("shorten", shell("head -4 numbers.py > new; mv new numbers.py"))
    project.git("checkout", "-q", "numbers.py")
    assert (await project.authors())[-1] == "a1.1"


@pytest.mark.parametrize("command", ["mv numbers.py sums.py", "git mv numbers.py sums.py && echo ONE = 1 >> sums.py"])
async def test_a_file_is_followed_through_its_names(project: Project, command: str) -> None:
    project.git("init", "-q")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "start")
    await project.prompt("add zero", shell("echo ZERO = 0 >> numbers.py"))
    await project.prompt("rename", shell(command))
    (project.folder / "sums.py").rename(project.folder / "totals.py")
    await project.prompt("go on", shell("echo TWO = 2 >> totals.py"))
    added = ["b1.1"] if "ONE" in command else []
    assert await project.authors("totals.py") == [*["before"] * 4, "a1.1", *added, "c1.1"]
    assert [Path(name).name for name in (await project.blame("totals.py")).blame.names] == ["sums.py", "numbers.py"]


async def test_a_file_that_no_session_has_seen_is_the_users_and_an_ignored_one_is_not_guessed(project: Project) -> None:
    project.git("init", "-q")
    (project.folder / ".gitignore").write_text("*.log\n")
    await project.prompt("add zero", shell("echo ZERO = 0 >> numbers.py; echo secret > build.log"))
    (project.folder / "new.py").write_text("NEW = 1\n")
    assert await project.authors("new.py") == ["user"]
    with pytest.raises(AgentError, match=r"build.log is in no snapshot, because git ignores it"):
        await project.blame("build.log")


async def test_sessions_are_put_in_the_order_of_their_changes_and_copies_count_once(project: Project) -> None:
    await project.prompt("add zero", shell("echo ZERO = 0 >> numbers.py"))
    await project.prompt("add one", shell("echo ONE = 1 >> numbers.py"))
    await project.prompt("change zero", shell("sed -i 's/ZERO = 0/ZERO = 0.0/' numbers.py"), session="a")
    await project.prompt("add two", shell("echo TWO = 2 >> numbers.py"), session="a", fork=True)
    assert (await project.authors())[-3:] == ["a2.2", "b1.1", "c3.3"]


async def test_what_the_user_saves_during_a_call_is_not_its_own(project: Project) -> None:
    await project.prompt("rename", READ, edit("Numbers", "Sums"))
    journal = next((project.state / "snapshots" / "sessions").iterdir())
    recorded = journal.read_text()
    after = hashlib.sha1(b"blob %d\0" % project.file.stat().st_size + project.file.read_bytes()).hexdigest()
    files = {"numbers.py": ["100644", "0" * 40, "100644", after]}
    for doubtful, author in ((True, "a1.2"), (False, "user")):
        line = {"type": "user", "n": 1, "root": str(project.folder), "files": files, "made": [], "gone": []}
        journal.write_text(f"{recorded}{json.dumps({**line, 'doubtful': doubtful, 'command': 'make'})}\n")
        assert (await project.authors())[0] == author
        shown = "\n".join((await project.blame()).format())
        assert ("or your own change while it ran" in shown) is doubtful


async def test_deleted_snapshots_make_lines_unknown_instead_of_the_users(project: Project) -> None:
    await project.prompt("add zero", shell("echo ZERO = 0 >> numbers.py"))
    await project.prompt("add one", shell("echo ONE = 1 >> numbers.py"))
    sessions = project.state / "snapshots" / "sessions"
    first = sessions / f"{project.sessions[0]}.jsonl"
    lost = first.read_text()
    for tree in {word for word in lost.split('"') if len(word) == 40}:
        lost = lost.replace(tree, tree[::-1])
    first.write_text(lost)
    assert await project.authors() == [*["unknown"] * 5, "b1.1"]
    assert "the snapshots that tell were deleted" in "\n".join((await project.blame()).format())
    first.unlink()
    assert (await project.authors())[:5] == ["before"] * 5
    path = next((project.state / "sessions").glob(f"*/{project.sessions[0]}.jsonl"))
    os.utime(path, (path.stat().st_mtime - KEEP_SECONDS - 60,) * 2)
    assert (await project.authors())[:5] == ["unknown"] * 5


async def test_a_call_of_a_sub_agent_is_named_with_the_call_that_started_it(project: Project) -> None:
    task = reply(call("Task", description="add zero", prompt="PART", subagent_type="general"))
    adds = {**shell("echo ZERO = 0 >> numbers.py"), "match": "PART"}
    await project.prompt("delegate it", adds, task, "Added.")
    shown = list((await project.blame()).format())
    mark = f"{project.sessions[0][:8]}:1 sub-agent"
    assert shown[4].startswith(mark)
    [entry] = [row for row in shown if row.startswith(f"{mark}  A call")]
    assert entry.startswith(f"{mark}  A call of a sub-agent (general: add zero)  ")
    assert entry.endswith(": 1 line")


async def test_of_a_session_whose_file_was_deleted_only_the_id_is_known(project: Project) -> None:
    await project.prompt("add zero", shell("echo ZERO = 0 >> numbers.py"))
    await project.prompt("add one", shell("echo ONE = 1 >> numbers.py"))
    next((project.state / "sessions").glob(f"*/{project.sessions[1]}.jsonl")).unlink()
    assert (await project.authors())[-2:] == ["a1.1", "b0.0"]
    shown = list((await project.blame()).format())
    assert shown[5].startswith(f"{project.sessions[1][:8]}  ")
    assert f"{project.sessions[1][:8]}  A call of this prompt: 1 line" in shown


async def test_rows_fit_the_terminal_and_are_complete_for_programs(project: Project) -> None:
    long, key = "x" * 300, "sk-ant-api03-" + "a1B2" * 12
    await project.prompt(
        f"make it\x1b[31m worse\u202e {key} {long}", shell(f"printf 'bad \\033[2J\u202e{long}\\n' >> numbers.py")
    )
    text = await project.blame()
    whole = "\n".join(text.format())
    assert long in whole
    assert f"{project.sessions[0][:8]}:1 #1  5 │ bad" in whole
    for width in (120, 80, 40):
        rows = list(text.format(width))
        assert max(map(len, rows)) <= width
        assert f"{project.sessions[0][:8]}:1 #1" in rows[4]
        assert rows[0].startswith("before")
        whole += "\n".join(rows)
    assert not {"\x1b", "\u202e"} & set(whole)
    assert rows[5] == ""
    assert "claude-" in " ".join(rows[6:])
    assert "\x1b[36m" in next(row for row in text.format(styled=True) if f"{project.sessions[0][:8]}" in row)
    assert " … xxx" in whole
    assert key not in whole + json.dumps(text.record())
    [before, bad] = text.record()["origins"]
    assert before == {"kind": "before"}
    assert (bad["call"], bad["prompt"], bad["kind"]) == (1, 1, "call")
    assert bad["prompt_cost_usd"] > bad["cost_usd"] > 0
    assert text.record()["lines"][4]["text"].startswith("bad \x1b[2J")


async def test_some_lines_only_and_plain_errors(project: Project, tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="No session has changed files in a folder around"):
        await project.blame()
    await project.prompt("add zero", shell("echo ZERO = 0 >> numbers.py; mkdir sub; mv numbers.py 'sub/a:b.py'"))
    some = await project.blame("sub/a:b.py:4-5")
    assert [line["line"] for line in some.record()["lines"]] == [4, 5]
    assert [origin.kind for _line, origin in some.lines] == ["before", "call"]
    assert len((await project.blame("sub/a:b.py:5,99")).lines) == 1
    (project.folder / "picture.png").write_bytes(b"\x89PNG\0\0")
    (project.folder / "empty").touch()
    (project.folder / "large").write_bytes(b"x" * (5 << 20))
    assert list((await project.blame("empty")).lines) == []
    for place, problem in {
        "missing.py": "cannot be read: missing",
        "picture.png": "is a binary file",
        "large": "cannot be read: too large .the limit is 4 MB",
        "sub": "cannot be read: not a regular file",
        "sub/a:b.py:90": "has only 5 lines",
        "numbers.py:x": "is not a range of lines",
        "numbers.py:9-3": "is not a range of lines",
        f"numbers.py:{'9' * 5_000}": "is not a range of lines",
    }.items():
        with pytest.raises((AgentError, UsageError), match=problem):
            await project.blame(place)
    assert parse_place("numbers.py:3", project.folder) == (project.file, 3, 3)
