"""`agentcli doctor` tries each promise of the sandbox, and reports one that is broken."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentcli.cli.main import main
from agentcli.doctor import checks, sandbox_trial
from agentcli.sandbox import host_proxy as host_proxy
from agentcli.sandbox.limits import LimitWatch
from agentcli.sandbox.linux.bubblewrap import BubblewrapLauncher
from agentcli.sandbox.linux.mounts import Mounts
from agentcli.sandbox.linux.probe import Ability, probe
from agentcli.sandbox.quarantine.guard import Guard
from agentcli.sandbox.session_folder import SessionFolder

Checks = dict[str, list[dict[str, str]]]
Break = Callable[[pytest.MonkeyPatch], None]


KEY = "sk-doctor-never-shows-this"


@pytest.fixture
def ability() -> Ability:
    found = probe(os.environ, (), None)
    if not found.works:
        pytest.skip(f"no sandbox to prove: {found.problem}")
    return found


@pytest.fixture
def place(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    return place


def report(capfd: pytest.CaptureFixture[str], *flags: str) -> tuple[int, Checks]:
    code = main(["doctor", "--json", *flags], os.environ)
    found: Checks = {}
    for check in json.loads(capfd.readouterr().out)["checks"]:
        found.setdefault(check["name"], []).append(check)
    return code, found


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_every_promise_is_tried_and_nothing_of_the_user_is_touched(
    ability: Ability, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (place / "home" / ".npmrc").write_text("mine")
    if not ability.network or not ability.seccomp:
        pytest.skip("this machine's sandbox lacks a part")
    code, found = report(capfd)
    assert code == 0
    texts = {name: rows[0]["text"] for name, rows in found.items() if len(rows) == 1}
    for name, promise in (
        ("files", "writes outside are refused"),
        ("files", "agentcli's own installation is read-only"),
        ("secrets", "credential files cannot be read"),
        ("secrets", "keys in environment variables are left out"),
        ("secrets", "~/.npmrc shows its registry without the token"),
        ("quarantine", "new files that other programs would run are removed"),
        ("quarantine", "new git repositories that would run programs go to quarantine"),
        ("isolation", "other processes are not visible"),
        ("isolation", "commands cannot type into your terminal"),
        ("isolation", "commands cannot use io_uring"),
        ("limits", "too many processes"),
        ("limits", "too much memory"),
        ("limits", "processor time is limited"),
        ("network", "in auto mode commands have no network"),
        ("network", "with allowed hosts, a proxy blocks all others"),
        ("clean-up", "the private /tmp is removed at the end; no other files are left in the project"),
    ):
        assert promise in texts[name], found
    assert files_in(place / "work") == set()
    home = {name for name in files_in(place / "home") if not name.startswith(".cache/agentcli/sandbox.json")}
    assert home <= {".npmrc", ".cache", ".cache/agentcli"}


def test_strict_also_closes_unix_sockets(
    ability: Ability, place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if not ability.network or not ability.seccomp:
        pytest.skip("no strict sandbox here")
    only(monkeypatch, "isolation", "network")
    code, found = report(capfd, "--sandbox", "strict")
    assert code == 0
    assert "Unix sockets are closed" in found["isolation"][0]["text"]
    assert found["network"][0]["text"] == "in auto mode commands have no network"


def only(patch: pytest.MonkeyPatch, *topics: str) -> None:
    """Leave the other checks and topics out, which take most of the time."""
    patch.setattr("agentcli.doctor.checks.CHECKS", (("sandbox", checks.sandbox),))
    all_of_them = sandbox_trial._LinuxTrial.topics
    patch.setattr(
        sandbox_trial._LinuxTrial, "topics", lambda trial: [topic for topic in all_of_them(trial) if topic[0] in topics]
    )


def _everything_writable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Mounts, "arguments", lambda *_: ["--bind", "/", "/", "--dev", "/dev", "--proc", "/proc"])


def _unlimited(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LimitWatch, "add", lambda *_: None)
    # Nothing ends these commands early now.
    patch.setattr(sandbox_trial, "_PROCESSES", sandbox_trial._PROCESSES.replace("sleep 3", "sleep 0"))
    patch.setattr(sandbox_trial, "_MEMORY", sandbox_trial._MEMORY.replace("sleep(3)", "sleep(0)"))


def _attribute(owner: Any, name: str, value: Any) -> Break:
    return lambda patch: patch.setattr(owner, name, value)


@pytest.mark.parametrize(
    ("how", "topic", "promises"),
    [
        (_everything_writable, "files", ["writes outside are refused", "agentcli's own installation is read-only"]),
        (
            _everything_writable,
            "secrets",
            ["credential files cannot be read", "~/.npmrc shows its registry without the token"],
        ),
        (
            _attribute(sandbox_trial, "child_environment", dict),
            "secrets",
            ["keys in environment variables are left out"],
        ),
        (
            _attribute(Guard, "finish", lambda _: ()),
            "quarantine",
            [
                "new files that other programs would run are removed",
                "new git repositories that would run programs go to quarantine",
            ],
        ),
        (
            _attribute(BubblewrapLauncher, "_system_call_filter", lambda *_: ()),
            "isolation",
            ["commands cannot type into your terminal"],
        ),
        (
            _unlimited,
            "limits",
            ["a command with too many processes is stopped", "a command with too much memory is stopped"],
        ),
        (
            _attribute(BubblewrapLauncher, "shares_network", lambda *_: True),
            "network",
            ["in auto mode commands have no network"],
        ),
        (
            _attribute(host_proxy, "host_matches", lambda *_: True),
            "network",
            ["with allowed hosts, a proxy blocks all others"],
        ),
        (_attribute(SessionFolder, "remove", lambda _: None), "clean-up", ["the private /tmp is removed at the end"]),
    ],
)
def test_a_broken_promise_fails(
    ability: Ability,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    how: Break,
    topic: str,
    promises: list[str],
) -> None:
    if not ability.network or not ability.seccomp:
        pytest.skip("this machine's sandbox lacks a part")
    only(monkeypatch, topic)
    how(monkeypatch)
    code, found = report(capfd)
    assert code == 1
    broken = [row for row in found[topic] if row["status"] == "fail"]
    assert {f"does not hold: {promise}" for promise in promises} <= {row["text"] for row in broken}
    assert all(row["advice"].startswith("Do not rely on the sandbox") for row in broken)


def test_a_feature_missing_on_this_machine_is_named_and_not_counted_as_proven(
    ability: Ability, place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("agentcli.sandbox.choose.probe", lambda *_: Ability(ability.program, ability.privileges))
    only(monkeypatch, "isolation", "network")
    code, found = report(capfd)
    assert code == 0
    for topic, reason in (("isolation", "system call filters"), ("network", "cannot be blocked")):
        [row] = [row for row in found[topic] if row["status"] == "warn"]
        assert row["text"].startswith("not tried: ")
        assert reason in row["text"]


def test_a_script_that_does_not_start_proves_nothing(
    ability: Ability, place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sandbox_trial, "isolated_python", lambda *_: ["/bin/false"])
    only(monkeypatch, "isolation", "network")
    _code, found = report(capfd)
    for topic in ("isolation", "network"):
        assert [row["status"] for row in found[topic]] == ["warn"]
        assert "does not start in the sandbox" in found[topic][0]["text"]


def test_without_bubblewrap_the_report_says_what_to_install_and_why(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(place))
    _code, found = report(capfd)
    [row] = found["sandbox"]
    assert row["status"] == "warn"
    assert "apt install bubblewrap" in row["text"]
    assert "doctor" not in row["text"]
    assert "can do anything you can" in row["advice"]


def test_when_no_command_works_nothing_counts_as_proven(
    ability: Ability, place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    only(monkeypatch, "files", "secrets", "quarantine")
    monkeypatch.setattr(Mounts, "arguments", lambda *_: ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"])
    code, found = report(capfd)
    assert code == 1
    assert "does not hold: commands write in the project" in [row["text"] for row in found["files"]]
    assert not {"secrets", "quarantine"} & set(found)
