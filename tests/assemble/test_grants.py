"""What an approval opens in the sandbox, in the assembled program: exactly that, for that command."""

from __future__ import annotations

import json

import pytest

from agentcli.core.permission import PermissionMode
from tests.support.contained import Project, fetching, no, yes

pytestmark = pytest.mark.anyio
DEFAULT = PermissionMode.DEFAULT
TOKENS = {"GH_TOKEN": "token-of-gh", "NPM_TOKEN": "token-of-npm"}


async def test_an_approved_write_outside_works_and_nothing_beside_it(contained: Project) -> None:
    other = contained.root / "other"
    other.mkdir()
    commands = (
        f"echo one > {other}/a.txt",
        f"python3 -c \"open('{other}/b.txt', 'w')\" > {other}/c.txt",
        f"touch {other}/empty",
        f"mkdir -p {other}/deep/er",
    )
    async with contained.commands(*commands, permission_mode=DEFAULT) as session:
        results = await session.run(yes)
        assert len(session.asked) == 4
    assert (other / "a.txt").read_text() == "one\n"
    assert "Read-only file system" in results[1]
    assert not (other / "b.txt").exists()
    assert (other / "empty").exists()
    assert (other / "deep" / "er").is_dir()


async def test_a_declined_write_outside_leaves_no_file(contained: Project) -> None:
    async with contained.commands("echo one > ../a.txt") as session:
        await session.run(no)
    assert not (contained.root / "a.txt").exists()


async def test_a_file_that_the_command_did_not_write_is_not_left_behind(contained: Project) -> None:
    async with contained.commands("false && echo one > ../a.txt") as session:
        await session.run(yes)
    assert not (contained.root / "a.txt").exists()


async def test_a_rule_makes_the_paths_it_names_writable(contained: Project) -> None:
    other = contained.root / "other"
    other.mkdir()
    rules = (f"Edit(/{other}/**)", "Bash(echo *)")
    commands = (f"echo one > {other}/a.txt",)
    async with contained.commands(*commands, permission_mode=DEFAULT, allowed_tools=rules) as session:
        await session.run(no)
        assert session.asked == []
    assert (other / "a.txt").read_text() == "one\n"


async def test_a_rule_for_many_commands_opens_no_path_outside(contained: Project) -> None:
    options = {"permission_mode": DEFAULT, "allowed_tools": ("Bash(touch *)",)}
    async with contained.commands(f"touch {contained.root}/made", **options) as session:
        (result,) = await session.run(no)
        assert session.asked == []
    assert "Read-only file system" in result
    assert not (contained.root / "made").exists()


@pytest.mark.parametrize(("rule", "kept"), [("Bash(git config *)", True), ("Bash(git *)", False), ("Bash", False)])
async def test_a_rule_keeps_dangerous_git_settings_only_if_it_names_them(
    contained: Project, rule: str, kept: bool
) -> None:
    options = {"permission_mode": DEFAULT, "allowed_tools": (rule,)}
    async with contained.commands("git config core.pager ./evil", **options) as session:
        await session.run(yes)
    assert ("evil" in (contained.path / ".git" / "config").read_text()) is kept


async def test_a_rule_for_exactly_this_command_opens_its_path(contained: Project) -> None:
    command = f"touch {contained.root}/made"
    async with contained.commands(command, permission_mode=DEFAULT, allowed_tools=(f"Bash({command})",)) as session:
        await session.run(no)
        assert session.asked == []
    assert (contained.root / "made").exists()


@pytest.mark.parametrize("place", [".ssh/authorized_keys", ".config/agentcli/settings.json"])
async def test_credentials_and_own_folders_are_never_opened(contained: Project, place: str) -> None:
    target = contained.home / place
    target.parent.mkdir(parents=True)
    target.write_text("mine\n")
    async with contained.commands(f"echo x > {target}", permission_mode=DEFAULT) as session:
        await session.run(yes)
    assert target.read_text() == "mine\n"


async def test_approved_git_settings_stay_and_others_are_changed_back(contained: Project) -> None:
    inner = contained.root / "inner"
    inner.mkdir()
    commands = (
        "git config user.name someone",
        "git config core.pager less",
        "git remote add origin https://example.org/x.git",
    )
    async with contained.commands(*commands) as session:
        await session.run(yes)
        assert len(session.asked) == 3
    assert contained.git("config", "--local", "user.name") == "someone"
    assert contained.git("config", "--local", "core.pager") == "less"
    assert contained.git("config", "--local", "remote.origin.url") == "https://example.org/x.git"


async def test_git_settings_without_approval_stay_as_they_are(contained: Project) -> None:
    script = "import subprocess; subprocess.run('git branch y; git con'+'fig core.fsmonitor ./evil', shell=True)"
    async with contained.commands(f'git branch x; python3 -c "{script}"') as session:
        (result,) = await session.run(no)
        assert session.asked == []
    assert "Read-only file system" in result
    assert "fsmonitor" not in (contained.path / ".git" / "config").read_text()


async def test_an_approved_submodule_is_added(contained: Project) -> None:
    lib = contained.path / "vendor-source"
    lib.mkdir()
    contained.git("init", "-q", "vendor-source")
    contained.git("-C", "vendor-source", "commit", "-q", "--allow-empty", "-m", "lib")
    command = "git -c protocol.file.allow=always submodule add ./vendor-source lib"
    async with contained.commands(command) as session:
        (result,) = await session.run(yes)
    assert (contained.path / "lib" / ".git").exists(), result
    assert "vendor-source" in contained.git("config", "--local", "submodule.lib.url")


SHOW = "python3 -c 'import os; print(sorted(n for n in os.environ if n.endswith(\"_TOKEN\")))'"


@pytest.fixture
def program(contained: Project) -> str:
    """A program called gh that shows the tokens it gets."""
    folder = contained.root / "bin"
    folder.mkdir()
    (folder / "gh").write_text(f"#!/bin/sh\n{SHOW}\n")
    (folder / "gh").chmod(0o755)
    return str(folder)


async def test_a_rule_gives_a_token_to_its_program_alone(contained: Project, program: str) -> None:
    rules = ("Env(gh:GH_TOKEN)", "Bash(gh *)")
    commands = ("gh pr list", "gh pr list && true", f"gh pr list; {SHOW}", SHOW)
    variables = {**TOKENS, "PATH": f"{program}:{contained.environ['PATH']}"}
    options = {"permission_mode": DEFAULT, "allowed_tools": rules, "variables": variables}
    async with contained.commands(*commands, **options) as session:
        results = await session.run(yes)
    assert results[0] == "['GH_TOKEN']"
    assert "TOKEN" not in "".join(results[1:])


async def test_without_the_rule_an_approved_program_gets_no_token(contained: Project, program: str) -> None:
    variables = {**TOKENS, "PATH": f"{program}:{contained.environ['PATH']}"}
    for mode in (DEFAULT, PermissionMode.AUTO):
        async with contained.commands("gh pr list", permission_mode=mode, variables=variables) as session:
            (result,) = await session.run(yes)
        assert result == "[]"


async def test_the_question_offers_the_token_as_a_rule_of_its_own(contained: Project, program: str) -> None:
    variables = {**TOKENS, "PATH": f"{program}:{contained.environ['PATH']}"}
    async with contained.commands("gh pr list", permission_mode=DEFAULT, variables=variables) as session:
        await session.run(no)
        (question,) = session.asked
    offered = [choice for choice in question.rule_choices if "Env(gh:GH_TOKEN)" in choice["rules"]]
    assert len(offered) == 1
    assert "GH_TOKEN" in offered[0]["covers"]
    assert question.suggestions == ["Bash(gh pr list)"]


async def test_a_host_that_a_rule_denies_stays_closed(contained: Project) -> None:
    settings = json.dumps({"permissions": {"allow": ["Network(*.internal)"], "deny": ["Network(x.internal)"]}})
    command = fetching("http://x.internal/")
    async with contained.commands(command, settings=settings, interactive=False) as session:
        (result,) = await session.run()
    assert "may not reach x.internal" in result
