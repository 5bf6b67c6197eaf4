"""`agentcli permissions test` and the program decide alike: one assembled policy, asked in two ways."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.assemble.environment import Environment
from agentcli.cli.flags import parse
from agentcli.cli.invocation import build_options
from agentcli.cli.main import main
from agentcli.cli.permissions import decide_call, rights_with
from agentcli.config.trust import TrustState, TrustStore
from agentcli.core.errors import UsageError
from agentcli.core.permission import Decision, Need, PermissionMode
from agentcli.shell import restricted_files
from tests.sandbox.box import ability_or_skip
from tests.shell.shell_lines import NOT_PROVEN, READ_ONLY

pytestmark = pytest.mark.anyio

COMMANDS = [*READ_ONLY[::12], *NOT_PROVEN[::12]]
RULES = {
    "allow": ["Bash(npm test *)", "Bash(git add *)", "Edit(src/**)"],
    "ask": ["Bash(git push *)"],
    "deny": ["Read(./.env)", "Bash(rm *)"],
}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC", "AGENTCLI", "XDG", "CLAUDE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-not-a-key")
    monkeypatch.setattr(restricted_files, "_SECONDS", 60.0)
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    for name in ("a.txt", "a.py", ".env", "src/app.py"):
        (folder / name).write_text("foo\n")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    monkeypatch.chdir(folder)
    return folder


def program(flags: list[str]) -> Engine:
    options = build_options(parse(["-p", "go", "--no-session-persistence", *flags]), Path.cwd())
    return build_engine(options)


def of_the_program(engine: Engine, command: str) -> Decision:
    parts = engine.session
    return parts.permissions.decide("Bash", {"command": command}, (Need("execute", command),), parts.tool_context)


@pytest.mark.parametrize("rules", [False, True])
@pytest.mark.parametrize("sandbox", ["on", "off"])
@pytest.mark.parametrize("mode", [mode.value for mode in PermissionMode])
async def test_sub_command_and_session_decide_alike_about_many_commands(
    mode: str, sandbox: str, rules: bool, work: Path
) -> None:
    flags = ["--permission-mode", mode, "--sandbox", sandbox]
    flags += ["--settings", json.dumps({"permissions": RULES})] if rules else []
    if (mode, sandbox) == ("auto", "off"):
        for refused in (rights_with, program):
            with pytest.raises(UsageError, match="Auto mode is not available"):
                refused(flags)
        return
    if mode == "auto":
        ability_or_skip()
    rights = rights_with(flags)
    # All of them once; then another tenth in each mode, since decisions are most of the work.
    first = list(PermissionMode).index(PermissionMode(mode))
    commands = COMMANDS if (mode, sandbox, rules) == ("default", "off", True) else COMMANDS[first::10]
    async with program(flags) as engine:
        for command in commands:
            assert decide_call(rights, "Bash", command)[0] == of_the_program(engine, command), command


@pytest.mark.parametrize(
    ("command", "code"), [("git status", 0), ("grep -r foo .", 0), ("cat .env", 4), ("npm test -- -x", 0), ("make", 3)]
)
async def test_the_sub_command_takes_the_flags_of_the_program(
    command: str, code: int, work: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    flags = ["--sandbox", "off", "--allowedTools", "Bash(npm test *)", "--permission-mode", "default"]
    if code == 4:
        flags += ["--disallowedTools", "Read(.env)"]
    assert main(["permissions", "test", command, *flags], os.environ) == code
    shown = capfd.readouterr().out
    async with program(flags) as engine:
        assert shown.splitlines()[0].endswith(of_the_program(engine, command).reason)


async def test_the_key_file_makes_no_command_ask_and_is_refused_by_name(work: Path) -> None:
    for flags in (["--sandbox", "off"], ["--sandbox", "on"]):
        async with program(flags) as engine:
            for command in ("git status", "git log -p", "rg x", "grep -rn x .", "git diff"):
                assert of_the_program(engine, command).behavior == "allow", command
            (keys,) = engine.permissions.policy.private
            assert of_the_program(engine, f"cat {keys}").reason == "denied: agentcli keeps API keys there"


EVIL = '{"permissions": {"allow": ["Bash"], "deny": ["Read(x)"]}}'


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_a_settings_file_that_is_swapped_after_the_check_is_not_obeyed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    settings = work / ".agentcli" / name
    settings.parent.mkdir(parents=True)
    settings.write_text('{"permissions": {"allow": ["Bash(make *)"]}}')
    options = Options(cwd=work, environ={"HOME": str(tmp_path / "home")})
    store = Environment(options).trust
    store.trust(store.state(work))
    assert Environment(options).settings.texts("permissions.allow") == ("Bash(make *)",)

    def swapping(self: TrustStore, cwd: Path) -> TrustState:
        found = check(self, cwd)
        settings.write_text(EVIL)
        return found

    check = TrustStore.state
    monkeypatch.setattr(TrustStore, "state", swapping)
    obeyed = Environment(options).settings
    assert obeyed.texts("permissions.allow") == ()
    assert obeyed.texts("permissions.deny") == ("Read(x)",), "what forbids holds without trust"


async def test_the_search_index_is_as_closed_to_commands_as_the_sessions_in_it(work: Path) -> None:
    home = Path(os.environ["HOME"])
    async with program([]) as engine:
        own = engine.permissions.policy.own_folders
    assert {str(home / ".local/state/agentcli"), str(home / ".cache/agentcli/sessions")} <= set(own)
