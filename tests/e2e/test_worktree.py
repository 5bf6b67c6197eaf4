"""`--worktree` on the whole program: the agent works beside the user's own folder, and nothing unchanged remains."""

from __future__ import annotations

import subprocess

import pytest

from tests.e2e.program import Program
from tests.support.scripts import call, reply
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio


def git(program: Program, *arguments: str) -> str:
    identity = ("-c", "user.name=u", "-c", "user.email=u@example.org")
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=program.work, check=True, capture_output=True, text=True).stdout


async def test_work_happens_in_a_worktree_that_is_kept_only_with_changes(program: Program) -> None:
    (program.work / "a.txt").write_text("one\n")
    git(program, "init", "-q")
    git(program, "add", ".")
    git(program, "commit", "-qm", "one")
    write = reply(call("Write", file_path="b.txt", content="two\n"), call("Bash", command="cat a.txt b.txt"))
    async with LoopbackServer("Nothing to do.", write, "Done.") as server:
        program.talk_to(server.url)
        refused = await program.run("-p", "--worktree=fix", "go")
        assert (refused.code, "trusted first" in refused.err) == (2, True)
        assert (await program.run("trust", "--yes")).code == 0
        unchanged = await program.run("-p", "--worktree=fix", "go")
        assert (unchanged.code, unchanged.out, unchanged.err) == (0, "Nothing to do.\n", "")
        assert "agentcli/fix" not in git(program, "branch")
        kept = await program.run("-p", "--worktree=fix", "--permission-mode", "acceptEdits", "go")
        assert kept.code == 0, kept.err
        assert "agentcli --worktree=fix" in kept.err
        shown = str(server.requests[-1].body["messages"][-1])
        assert "one" in shown
        assert "two" in shown
    assert not (program.work / "b.txt").exists()
    assert "agentcli/fix" in git(program, "branch")


async def test_a_folder_without_a_repository_has_no_worktrees(program: Program) -> None:
    ended = await program.run("-p", "--worktree", "--trust", "--", "go")
    assert (ended.code, "git repository" in ended.err) == (2, True)
