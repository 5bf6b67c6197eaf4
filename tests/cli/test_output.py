"""No command prints control or invisible characters, whatever names it meets."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agentcli.cli
from agentcli.cli.app import command_tree
from agentcli.cli.main import main
from agentcli.cli.output import echo, echo_json, echo_styled
from agentcli.config.paths import Paths
from agentcli.history.claude_code import find_files
from agentcli.sandbox.quarantine.store import Quarantine
from agentcli.session.base import project_dir
from agentcli.session.find import list_sessions
from tests.support.fork_server import forking_command

HOSTILE = (
    "x\x1b[2J\x1b]0;t\x07\x9b31m\x85\x7f\u202e\u2066\u200f\u061c\u200b\u200d\u2060\ufeff\u00ad\u2028\U000e0041\ufe0f"
    "\rFAKE\nFAKE\x0bFAKE\tz"
)
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe0f\ufeff\ud800-\udfff\U000e0041]"
    "|^FAKE",
    re.MULTILINE,
)
LONE_BYTE = "\udcff"
"""As Python decodes a file name that is not UTF-8."""

ARGUMENTS: dict[str, list[list[str]]] = {
    "help": [[], [HOSTILE], ["permissions", HOSTILE], [LONE_BYTE]],
    "config": [[], ["--json"], ["--trust"], ["--trust", "--json"], [f"--{HOSTILE}"]],
    "demo": [["--permission-mode", HOSTILE], ["--speed", HOSTILE], [HOSTILE]],
    "doctor": [["--sandbox", "off"], ["--sandbox", "off", "--json"], ["--sandbox", HOSTILE]],
    "trust": [[], ["--list"], ["--remove"], ["--yes"], [HOSTILE], [LONE_BYTE]],
    "login": [[HOSTILE], ["--base-url", HOSTILE], ["--base-url", f"https://{HOSTILE}/", "--no-check"]],
    "logout": [[], ["--all"], ["--base-url", HOSTILE]],
    "status": [[], ["--json"]],
    "completion": [["bash"], [HOSTILE]],
    "sessions": [[], [HOSTILE]],
    "sessions list": [[], ["--json"], ["--all"], ["--all", "--json"], [HOSTILE]],
    "permissions": [[], [HOSTILE]],
    "permissions test": [
        [HOSTILE],
        [HOSTILE, "--json"],
        [LONE_BYTE, "--json"],
        [f"cat '{HOSTILE}'", "--trust"],
        ["x", "--tool", HOSTILE],
        [HOSTILE, "--tool", "Read"],
        [HOSTILE, "--tool", "Edit", "--json"],
        ["x", "--mode", HOSTILE],
    ],
    "sessions show": [["hostile"], ["0f8fad5b"], ["0f8fad5b", "--json"], [HOSTILE], [LONE_BYTE]],
    "sessions export": [["hostile", "-o", "-"], ["0f8fad5b", "-o", "-", "--format", "json"], [HOSTILE], [LONE_BYTE]],
    "trace": [
        ["hostile"],
        ["hostile", "--step", "1", "--json"],
        ["hostile", "--export", "-"],
        [HOSTILE],
        [LONE_BYTE, "--step", "1"],
    ],
    "sessions rename": [["hostile", HOSTILE], ["hostile", LONE_BYTE], [HOSTILE, "x"]],
    "sessions delete": [["hostile"], [HOSTILE], ["hostile", "--yes"]],
    "sessions import": [[], ["--all", "--list"], [HOSTILE], ["--from", HOSTILE], ["--all", "--json"], ["--all"]],
    "sessions prune": [["--older-than", "0h", "--named", "--dry-run"], ["--older-than", HOSTILE]],
    "sessions search": [["hostile"], ["fake", "--all"], ["fake", "--json"], [HOSTILE], [LONE_BYTE]],
    "bisect": [["false"], ["hostile", "false", "--json"], [HOSTILE, HOSTILE], ["false", "--from", HOSTILE]],
    "blame": [[HOSTILE], [f"x:{HOSTILE}"], [f"{HOSTILE}:3", "--json"], [LONE_BYTE]],
    "replay": [
        ["hostile"],
        ["hostile", "--verify"],
        [HOSTILE, "--verify"],
        [f"{HOSTILE}.jsonl", "--verify"],
        [f"{HOSTILE}.zip", "--verify"],
        ["hostile", "--with", HOSTILE],
        ["hostile", "--model", HOSTILE, "--json"],
    ],
    "permissions list": [[], ["--json"], ["--trust"], ["--trust", "--json"]],
    "quarantine": [[], [HOSTILE]],
    "quarantine list": [[], ["--json"], [HOSTILE]],
    "quarantine restore": [["hostile"], [HOSTILE]],
    "quarantine rm": [["hostile"], [HOSTILE]],
    "plugins": [[], [HOSTILE]],
    "plugins list": [[], ["--json"], ["--trust"], [HOSTILE]],
    "plugins new": [[HOSTILE], ["notes", "--project"], [LONE_BYTE]],
    "mcp": [[], [HOSTILE]],
    "mcp add": [[HOSTILE, "--", "x"], ["y", "--", HOSTILE], ["y", HOSTILE], ["y", "-e", HOSTILE, "--", "x"]],
    "mcp add-json": [["y", HOSTILE], ["y", json.dumps({"command": "x", HOSTILE: 1})], [LONE_BYTE, "{}"]],
    "mcp list": [["--no-connect"], ["--no-connect", "--json"], ["--mcp-config", HOSTILE], [HOSTILE]],
    "mcp get": [["x"], ["x", "--json"], [HOSTILE], ["x", "--trust"]],
    "mcp remove": [["x"], [HOSTILE], ["x", "--scope", HOSTILE]],
    "mcp test": [["x"], ["x", "--json"], [HOSTILE]],
    "mcp reset-project-choices": [[]],
    "mcp login": [["x"], [HOSTILE]],
    "mcp logout": [["x"], [HOSTILE]],
    "mcp serve": [[HOSTILE], ["--tools", HOSTILE], ["--permission-mode", HOSTILE]],
}
STARTS = [
    [f"--{HOSTILE}"],
    ["-p"],
    ["-p", "x", "--output-format", HOSTILE],
    ["-p", "x", "--resume", HOSTILE],
    ["-p", "x", "--resume", HOSTILE, "--output-format", "json"],
    ["-p", "x", "--allowedTools", HOSTILE],
    ["-p", "x", "--allowedTools", f"{HOSTILE}(", "--output-format", "stream-json", "--verbose"],
    ["-p", "x", "--add-dir", HOSTILE],
    ["-p", "x", "--settings", HOSTILE],
    ["-p", "x", "--settings", json.dumps({HOSTILE: 1})],
    ["-p", "x", "--mcp-config", HOSTILE],
    ["-p", "x", "--mcp-config", json.dumps({"mcpServers": {HOSTILE: {"command": 1}}})],
    ["-p", "x", "--json-schema", HOSTILE],
    ["-p", "x", "--model", HOSTILE],
    ["-p", "x", HOSTILE],
]


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    if path:
        yield " ".join(path)
    for name, below in (getattr(command, "commands", None) or {}).items():
        yield from leaves(below, (*path, name))


@pytest.fixture
def hostile_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders, files, settings, rules, sessions, branch and variables with hostile names and content."""
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC", "AGENTCLI", "XDG", "_AGENTCLI"))]:
        monkeypatch.delenv(name)
    home, work = tmp_path / f"home{HOSTILE}", tmp_path / f"work{HOSTILE}"
    settings = {
        "model": HOSTILE,
        "theme": HOSTILE,
        HOSTILE: HOSTILE,
        "permissions": {"allow": [f"Bash({HOSTILE})", HOSTILE], "deny": [f"Read({HOSTILE})"], HOSTILE: 1},
        "env": {"A": HOSTILE},
        "sandbox": {"allowWrite": [HOSTILE]},
        "mcpServers": {
            HOSTILE: {"command": "x"},
            "x": {"command": f"/none/{HOSTILE}", "args": [HOSTILE], "env": {HOSTILE: HOSTILE}, HOSTILE: 1},
        },
    }
    for folder in (home / ".config" / "agentcli", work / ".agentcli"):
        folder.mkdir(parents=True)
        (folder / "settings.json").write_text(json.dumps(settings, ensure_ascii=False), encoding="utf-8")
    (work / ".git").mkdir()
    (work / ".git" / "HEAD").write_text(f"ref: refs/heads/{HOSTILE}")
    hooks = work / ".agentcli" / "hooks"
    hooks.mkdir()
    (hooks / f"{HOSTILE}1").write_bytes(HOSTILE.encode() + b"\xff")
    (hooks / f"{HOSTILE}2{LONE_BYTE}").symlink_to(tmp_path)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ANTHROPIC_API_KEY", f"sk{HOSTILE}")
    monkeypatch.setenv("AGENTCLI_EFFORT", HOSTILE)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.chdir(work)
    state = Paths.from_environ(os.environ).state_dir
    assert state is not None
    put_session(state, work)
    put_foreign_session(home / ".claude")
    put_quarantined(state / "quarantine" / "hostile")
    (state / "trust.json").write_text(json.dumps({"folders": {f"/{HOSTILE}": {"parts": {}}}}))
    return work


def put_session(state: Path, cwd: Path) -> None:
    folder = project_dir(state, cwd)
    folder.mkdir(parents=True)
    line = {"type": "user", "uuid": "1", "cwd": str(cwd), "message": {"role": "user", "content": HOSTILE}}
    path = folder / "0f8fad5b-d9cb-469f-a165-70867728950e.jsonl"
    path.write_text(json.dumps(line) + "\n" + json.dumps({"type": "custom-title", "customTitle": HOSTILE}) + "\n")
    assert list_sessions(state, cwd), "the fixture's session is found"


def put_foreign_session(folder: Path) -> None:
    path = folder / "projects" / f"-{HOSTILE}" / "1f8fad5b-d9cb-469f-a165-70867728950e.jsonl"
    path.parent.mkdir(parents=True)
    line = {"type": "user", "uuid": "1", "cwd": f"/{HOSTILE}", "message": {"role": "user", "content": HOSTILE}}
    title = {"type": "custom-title", "customTitle": HOSTILE}
    path.write_text(f"{json.dumps(line)}\n{json.dumps(title)}\n")
    assert find_files(folder, None) == [path]


def put_quarantined(place: Path) -> None:
    texts = dict.fromkeys(("kind", "command", "reason"), HOSTILE)
    place.mkdir(parents=True)
    (place / "manifest.json").write_text(json.dumps({**texts, "path": f"/{HOSTILE}/{HOSTILE}", "when": 0}))
    assert [item.id for item in Quarantine(place.parent).items()] == ["hostile"]


def test_the_output_checks_cover_every_command() -> None:
    assert set(ARGUMENTS) == set(leaves(command_tree()))


@pytest.mark.parametrize("command", ARGUMENTS)
def test_no_command_prints_control_or_invisible_characters(
    command: str, hostile_world: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        for arguments in ARGUMENTS[command]:
            assert_harmless([*command.split(), *arguments], capfdbinary)


@pytest.mark.parametrize("arguments", STARTS, ids=lambda arguments: ascii(" ".join(arguments))[:40])
def test_no_startup_message_has_control_or_invisible_characters(
    arguments: list[str],
    hostile_world: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AGENTCLI_SCRIPT", str(hostile_world / "script.json"))
    (hostile_world / "script.json").write_text(json.dumps({"version": 1, "replies": ["fine"]}))
    assert_harmless(arguments, capfdbinary)


def test_an_invalid_address_is_reported_without_control_characters(
    hostile_world: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", HOSTILE)
    for output in ("text", "json", "stream-json"):
        assert_harmless(["-p", "x", "--output-format", output], capfdbinary)


def assert_harmless(arguments: list[str], capture: pytest.CaptureFixture[bytes]) -> None:
    main(arguments, os.environ)
    out, err = capture.readouterr()
    for printed in (out.decode("utf-8", "surrogateescape"), err.decode("utf-8", "surrogateescape")):
        found = FORBIDDEN.search(printed)
        assert found is None, (arguments, found, ascii(printed))
    assert out or err, f"{arguments} printed nothing, so this proves nothing"


def test_our_own_colours_pass_and_nothing_else_does(capfd: pytest.CaptureFixture[str]) -> None:
    echo_styled("\x1b[1mhead\x1b[0m \x1b[2J\x1b]0;x\x07\u202e")
    echo("\x1b[1m \u202e\ud800")
    echo_json({"a": "\x1b\x7f\x9b\u202eé"})
    assert capfd.readouterr().out == (
        "\x1b[1mhead\x1b[0m ␛[2J␛]0;x␇<U+202E>\n␛[1m <U+202E><U+D800>\n"
        '{\n  "a": "\\u001b\\u007f\\u009b\\u202e\\u00e9"\n}\n'
    )


WRITERS = {"print", "echo", "secho", "echo_via_pager", "confirm", "prompt", "getpass", "style"}


CLI = Path(agentcli.cli.__file__).parent


@pytest.mark.parametrize("path", sorted(CLI.rglob("*.py")), ids=lambda path: str(path.relative_to(CLI)))
def test_only_one_module_of_the_command_line_writes(path: Path) -> None:
    if path == CLI / "output.py":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        text = ast.unparse(node.func)
        owner, _dot, name = text.rpartition(".")
        direct = text == "print" or (text.startswith(("sys.stdout", "sys.stderr")) and name.startswith("write"))
        library = owner in ("typer", "click", "getpass") and name in WRITERS
        writes = direct or library or text == "os.write"
        assert not writes, f"{path.name}:{node.lineno}: {text}; use cli/output.py"


@pytest.mark.parametrize("to_terminal", [True, False], ids=["terminal", "pipe"])
def test_an_answer_never_brings_control_characters(hostile_world: Path, to_terminal: bool) -> None:
    """On a terminal it has no misleading characters either; in a pipe such characters are data."""
    script = hostile_world / "script.json"
    script.write_text(json.dumps({"version": 1, "replies": [HOSTILE]}))
    reading, writing = os.openpty() if to_terminal else os.pipe()
    try:
        command = forking_command("-m", "agentcli", "-p", "x", "--no-session-persistence")
        environ = {**os.environ, "AGENTCLI_SCRIPT": str(script)}
        streams = {"stdin": subprocess.DEVNULL, "stdout": writing, "stderr": subprocess.DEVNULL}
        done = subprocess.run(command, **streams, env=environ, check=False)
        shown = os.read(reading, 65_536).decode().replace("\r\n", "\n")
    finally:
        os.close(reading)
        os.close(writing)
    assert done.returncode == 0, shown
    assert "FAKE" in shown
    assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown) is None, ascii(shown)
    assert ("\u202e" in shown) is not to_terminal
    assert ("<U+202E>" in shown) is to_terminal
