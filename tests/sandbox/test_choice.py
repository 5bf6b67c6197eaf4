"""Which sandbox a session gets, how that is detected, and the profile for macOS as text."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.core.errors import UsageError
from agentcli.sandbox import choose as choosing
from agentcli.sandbox.choose import SandboxEnvironment, choose
from agentcli.sandbox.linux import probe as probing
from agentcli.sandbox.linux.bubblewrap import BubblewrapLauncher
from agentcli.sandbox.linux.probe import Ability, probe
from agentcli.sandbox.plan import SandboxRules
from agentcli.sandbox.seatbelt import SeatbeltLauncher, profile
from tests.support.tables import each_row, grouped

GOOD = Ability("/usr/bin/bwrap", ("--cap-drop", "ALL"), network=True, seccomp=True)


@pytest.fixture
def around(tmp_path: Path) -> SandboxEnvironment:
    return SandboxEnvironment(environ={"PATH": ""}, temp_root=tmp_path, cache_dir=None, platform="linux")


def rules_in(folder: Path) -> SandboxRules:
    return SandboxRules(working_dirs=(folder,), home=folder / "home")


def with_ability(monkeypatch: pytest.MonkeyPatch, ability: Ability) -> None:
    monkeypatch.setattr(choosing, "probe", lambda *_given: ability)


# ---------------------------------------------------------------------------------------------------------- choice


def test_sandbox_off_is_reported(tmp_path: Path, around: SandboxEnvironment) -> None:
    chosen = choose("off", rules_in(tmp_path), around)
    assert (chosen.launcher.name, chosen.launcher.level, chosen.problem) == ("none", "off", "")


def test_a_missing_sandbox_is_reported_with_advice(tmp_path: Path, around: SandboxEnvironment) -> None:
    chosen = choose("on", rules_in(tmp_path), around)
    assert (chosen.launcher.name, chosen.launcher.level) == ("none", "not available")
    assert "without a sandbox" in chosen.problem
    assert "apt install bubblewrap" in chosen.problem
    assert "agentcli doctor" in chosen.advice


def test_strict_without_a_sandbox_does_not_start(tmp_path: Path, around: SandboxEnvironment) -> None:
    with pytest.raises(UsageError, match="bubblewrap"):
        choose("strict", rules_in(tmp_path), around)


@pytest.mark.parametrize(
    ("mode", "network", "level"),
    [
        ("on", True, "bubblewrap, network on"),
        ("on", False, "bubblewrap, network off"),
        ("strict", True, "bubblewrap, network off, strict"),
    ],
)
def test_the_level_describes_the_active_protection(
    tmp_path: Path, around: SandboxEnvironment, monkeypatch: pytest.MonkeyPatch, mode: str, network: bool, level: str
) -> None:
    with_ability(monkeypatch, GOOD)
    chosen = choose(mode, replace(rules_in(tmp_path), network=network), around)
    assert isinstance(chosen.launcher, BubblewrapLauncher)
    assert chosen.launcher.level == level


def test_a_network_that_cannot_be_disabled_is_reported(
    tmp_path: Path, around: SandboxEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_ability(monkeypatch, replace(GOOD, network=False))
    chosen = choose("on", replace(rules_in(tmp_path), network=False), around)
    assert chosen.launcher.level == "bubblewrap, network on"
    assert "cannot block it" in chosen.problem
    with pytest.raises(UsageError):
        choose("strict", rules_in(tmp_path), around)


def test_strict_needs_filters_for_system_calls(
    tmp_path: Path, around: SandboxEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_ability(monkeypatch, replace(GOOD, seccomp=False))
    with pytest.raises(UsageError, match="seccomp"):
        choose("strict", rules_in(tmp_path), around)
    assert choose("on", rules_in(tmp_path), around).launcher.name == "bubblewrap"


def test_other_systems_have_no_sandbox(tmp_path: Path, around: SandboxEnvironment) -> None:
    assert (
        "No sandbox is available for this system"
        in choose("on", rules_in(tmp_path), replace(around, platform="win32")).problem
    )


# ----------------------------------------------------------------------------------------------------------- probe


def fake_bwrap(folder: Path, script: str) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"PATH": str(folder)}


def test_a_sandbox_that_does_not_work_is_reported_with_reason_and_advice(tmp_path: Path) -> None:
    environ = fake_bwrap(tmp_path / "bin", "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    ability = probe(environ, (), None)
    assert not ability.works
    assert "No permissions to create new namespace" in ability.problem
    assert "unprivileged_userns" in ability.problem


def test_a_program_in_the_project_is_never_used(tmp_path: Path) -> None:
    environ = fake_bwrap(tmp_path / "work" / "node_modules" / ".bin", "exit 0")
    assert "not installed" in probe(environ, (tmp_path / "work",), None).problem
    relative = {"PATH": os.path.relpath(tmp_path / "work" / "node_modules" / ".bin")}
    assert "not installed" in probe(relative, (), None).problem


@pytest.mark.skipif(not Path("/proc/sys/kernel/random/boot_id").exists(), reason="answers are kept per boot, by /proc")
def test_the_probe_result_is_cached_until_something_changes(tmp_path: Path) -> None:
    count = tmp_path / "count"
    environ = fake_bwrap(tmp_path / "bin", f"echo x >> {count}")
    first = probe(environ, (), tmp_path / "cache")
    tries = len(count.read_text().split())
    assert tries >= 3
    assert probe(environ, (), tmp_path / "cache") == first
    assert len(count.read_text().split()) == tries
    (tmp_path / "cache" / probing.CACHE_FILE).write_text("junk")
    assert probe(environ, (), tmp_path / "cache") == first
    assert len(count.read_text().split()) == 2 * tries


def test_a_failed_probe_is_not_cached(tmp_path: Path) -> None:
    environ = fake_bwrap(tmp_path / "bin", "exit 1")
    assert not probe(environ, (), tmp_path / "cache").works
    fake_bwrap(tmp_path / "bin", "exit 0")
    assert probe(environ, (), tmp_path / "cache").works


# -------------------------------------------------------------------------------------------------------- excluded


@each_row(
    ("command", "bare"),
    grouped(
        {
            True: [
                *("docker ps", "docker compose up -d", "git push origin"),
            ],
            False: [
                *("dockerd", "docker ps; rm -rf x", "docker ps && true", "docker run $(cat x)", "docker run `x`"),
                *("docker ps > out", "docker ps\nrm x", "echo docker", "git pull"),
            ],
        }
    ),
)
def test_only_a_plain_command_runs_outside(tmp_path: Path, command: str, bare: bool) -> None:
    rules = replace(rules_in(tmp_path), excluded_commands=("docker", "git push *"))
    launcher = BubblewrapLauncher(rules, GOOD, tmp_path)
    arguments = ["/bin/bash", "-c", 'eval "$1"', "bash", command]
    launch = launcher.launch(arguments, tmp_path, {})
    launch.close()
    assert (launch.arguments == tuple(arguments)) is bare
    assert (launch.terminate is None) is bare


# -------------------------------------------------------------------------------------------------------- seatbelt


def macos(**changes: object) -> SandboxRules:
    rules = SandboxRules(
        working_dirs=(Path("/Users/me/app"),),
        home=Path("/Users/me"),
        own_folders=(Path("/Users/me/.config/agentcli"),),
    )
    return replace(rules, **changes)  # type: ignore[arg-type]


def test_the_profile_allows_writing_only_in_the_working_directories() -> None:
    lines = profile(macos(allow_write=(Path("/opt/cache"),)), Path("/private/tmp/x")).splitlines()
    assert lines[:3] == ["(version 1)", "(allow default)", "(deny file-write*)"]
    allowed = next(line for line in lines if line.startswith("(allow file-write* (subpath"))
    assert allowed == (
        '(allow file-write* (subpath "/private/tmp/x") (subpath "/Users/me/app") (subpath "/opt/cache"))'
    )


def test_the_profile_denies_protected_paths_after_the_writable_ones() -> None:
    text = profile(macos(), Path("/t"))
    deny = text.index('(deny file-write* (subpath "/Users/me/app/.agentcli")')
    assert deny > text.index("(allow file-write* (subpath")
    assert '(subpath "/Users/me/app/.git")' in text
    with_git = profile(macos(), Path("/t"), git=True)
    assert '(subpath "/Users/me/app/.git")' not in with_git
    assert '(subpath "/Users/me/app/.git/hooks")' in with_git
    assert '(deny file-write-unlink (literal "/Users/me/app/.git"))' in with_git


def test_the_profile_of_a_read_only_command_opens_neither_the_project_nor_the_network() -> None:
    usual, closed = (profile(macos(), Path("/t"), reads_only=reads_only) for reads_only in (False, True))
    for text, is_open in ((usual, True), (closed, False)):
        writable = next(line for line in text.splitlines() if line.startswith("(allow file-write* (subpath"))
        assert ("/Users/me/app" in writable) is is_open
        assert ("(deny network*)" not in text) is is_open


def test_the_profile_hides_secrets_last(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    text = profile(macos(denied_files=lambda: (tmp_path / "app/.env",), home=tmp_path), Path("/t"))
    hidden = next(line for line in text.splitlines() if line.startswith("(deny file-read*"))
    for path in (".ssh", "Library/Keychains", "app/.env", ".netrc"):
        assert f'(subpath "{tmp_path}/{path}")' in hidden
    assert '(subpath "/Users/me/.config/agentcli")' in hidden
    assert text.index(hidden) > text.index('/.mcp.json"')


def test_the_profile_can_disable_the_network() -> None:
    assert "(deny network*)" not in profile(macos(), Path("/t"))
    assert "(deny network*)" in profile(macos(network=False), Path("/t"))


def test_names_cannot_break_out_of_the_profile() -> None:
    odd = Path('/Users/me/a") (allow file-write* (subpath "/\\')
    text = profile(macos(working_dirs=(odd,)), Path("/t"))
    assert '(subpath "/Users/me/a\\") (allow file-write* (subpath \\"/\\\\")' in text


def test_a_command_is_started_by_sandbox_exec_with_a_folder_of_its_own(tmp_path: Path) -> None:
    launcher = SeatbeltLauncher(macos(), tmp_path)
    launch = launcher.launch(["/bin/sh", "-c", "true"], Path("/Users/me/app"), {"SSH_AUTH_SOCK": "x", "A": "b"})
    assert launch.arguments[:2] == ("/usr/bin/sandbox-exec", "-p")
    assert launch.arguments[3:] == ("/bin/sh", "-c", "true")
    assert "SSH_AUTH_SOCK" not in launch.environ
    assert Path(launch.environ["TMPDIR"]).is_relative_to(tmp_path.resolve())
    assert launch.environ["A"] == "b"
