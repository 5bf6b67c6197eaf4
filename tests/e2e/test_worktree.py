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


async def test_projects_with_similar_paths_share_no_worktree_folder(program: Program) -> None:
    parent = program.work
    rules = reply(call("Bash", command="pwd"), call("Write", file_path="b.txt", content="two\n"))
    async with LoopbackServer(rules, "Done.", rules, "Done.") as server:
        program.talk_to(server.url)
        for name in ("w/secret", "w-secret"):
            program.work = parent / name
            program.work.mkdir(parents=True)
            git(program, "init", "-q")
            git(program, "commit", "-q", "--allow-empty", "-m", "one")
            flags = ("--trust", "--worktree=fix", "--permission-mode", "acceptEdits")
            ended = await program.run("-p", *flags, "--", "go")
            assert ended.code == 0, ended.err
        folders = [request.body["messages"][-1]["content"][0]["content"] for request in server.requests[1::2]]
    assert len({*map(str, folders)}) == 2, folders


async def test_a_folder_without_a_repository_has_no_worktrees(program: Program) -> None:
    ended = await program.run("-p", "--worktree", "--trust", "--", "go")
    assert (ended.code, "git repository" in ended.err) == (2, True)


HOSTILE = """
[filter "evil"]
\tsmudge = sh -c 'touch "$0"; cat' {ran}
\tclean = sh -c 'touch "$0"; cat' {ran}
\trequired = true
[include]
\tpath = included
[includeIf "onbranch:agentcli/**"]
\tpath = for-the-worktree
"""
INCLUDED = '[filter "other"]\n\tprocess = sh -c "touch {ran}"\n\trequired = true\n[core]\n\tfsmonitor = touch {ran}\n'


async def test_a_worktree_runs_no_program_that_the_repository_configures(program: Program) -> None:
    ran = program.home / "ran"
    (program.work / "a.txt").write_text("one\n")
    (program.work / "b.md").write_text("two\n")
    (program.work / ".gitattributes").write_text("*.txt filter=evil\n*.md filter=other\n")
    git(program, "init", "-q")
    git(program, "add", ".")
    git(program, "commit", "-qm", "one")
    folder = program.work / ".git"
    with (folder / "config").open("a") as config:
        config.write(HOSTILE.format(ran=ran))
    (folder / "included").write_text("[core]\n\thooksPath = other-hooks\n")
    (folder / "for-the-worktree").write_text(INCLUDED.format(ran=ran))
    (folder / "hooks").mkdir(exist_ok=True)
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        hook = folder / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
        hook.chmod(0o755)
    task = reply(call("Task", description="look", prompt="look", isolation="worktree"))
    async with LoopbackServer("Nothing to do.", task, "Nothing to do.", "Done.") as server:
        program.talk_to(server.url)
        trusted = await program.run("trust", "--yes")
        for shown in ("filter.evil.smudge", "core.hookspath = other-hooks", "hooks/post-checkout"):
            assert shown in trusted.out
        ended = await program.run("-p", "--worktree=fix", "go")
        assert (ended.code, ended.out, ended.err) == (0, "Nothing to do.\n", "")
        assert "agentcli/fix" not in git(program, "-c", "core.fsmonitor=false", "branch")
        ended = await program.run("-p", "--permission-mode", "bypassPermissions", "go")
        assert (ended.code, ended.out) == (0, "Done.\n"), ended.err
        assert len(server.requests) == 4, "the agent has run in its worktree"
    assert not ran.exists()
