from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Self

import pytest

from agentcli.assemble import Options
from agentcli.cli.main import main
from agentcli.config.credentials import KeyStore
from agentcli.doctor import checks, machine
from agentcli.doctor.checks import CHECKS, run_checks
from agentcli.doctor.finding import CheckContext, Finding, OutputScreen, format_finding, summary
from agentcli.sandbox.linux.probe import probe

KEY = "sk-doctor-never-shows-this"


@pytest.fixture
def place(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    return place


def report(capfd: pytest.CaptureFixture[str], *flags: str) -> tuple[int, dict[str, dict[str, str]], str]:
    code = main(["doctor", "--json", *flags], os.environ)
    shown = capfd.readouterr().out
    return code, {check["name"]: check for check in json.loads(shown)["checks"]}, shown


def test_doctor_proves_the_sandbox_and_never_shows_the_key(capfd: pytest.CaptureFixture[str], place: Path) -> None:
    if not (ability := probe(os.environ, (), None)).works:
        pytest.skip(f"no sandbox to prove: {ability.problem}")
    code, found, shown = report(capfd)
    assert code == 0
    assert found["sandbox"]["status"] == "ok"
    assert "writes outside are refused" in found["files"]["text"]
    assert found["key"]["text"].startswith("from ANTHROPIC_API_KEY")
    assert KEY not in shown
    assert list((place / "work").iterdir()) == []
    assert not list((place / "home" / ".cache" / "agentcli").glob("doctor-*"))


@pytest.mark.parametrize("command", ["doctor", "doctor --json", "status", "status --json", "config", "config --json"])
def test_a_password_in_the_address_is_shown_nowhere(
    capfd: pytest.CaptureFixture[str], place: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://kim:hunter2@127.0.0.1:9/api")
    main(command.split(), os.environ)
    shown = capfd.readouterr()
    assert "@127.0.0.1:9/api" in shown.out
    assert "hunter2" not in shown.out + shown.err


def test_a_key_in_place_of_the_address_is_not_repeated(
    capfd: pytest.CaptureFixture[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", KEY)
    assert main(["status"], os.environ) == 2
    shown = capfd.readouterr()
    assert "looks like a key" in shown.err
    assert KEY not in shown.out + shown.err


def test_doctor_proves_that_strict_has_no_network(capfd: pytest.CaptureFixture[str], place: Path) -> None:
    if not (ability := probe(os.environ, (), None)).network:
        pytest.skip(f"no sandbox to prove: {ability.problem}")
    _code, found, _shown = report(capfd, "--sandbox", "strict")
    assert "commands have no network" in found["network"]["text"]


def test_doctor_reports_a_missing_sandbox(
    capfd: pytest.CaptureFixture[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _code, found, _shown = report(capfd, "--sandbox", "off")
    assert found["sandbox"]["status"] == "warn"
    monkeypatch.setenv("PATH", str(place))
    code, found, _shown = report(capfd)
    assert found["sandbox"]["status"] == "warn"
    assert "apt install bubblewrap" in found["sandbox"]["text"]
    assert "agentcli doctor" not in found["sandbox"]["text"]
    assert found["git"]["status"] == "warn"
    code, found, _shown = report(capfd, "--sandbox", "strict")
    assert (code, found["sandbox"]["status"]) == (1, "fail")


def test_a_missing_key_fails_and_broken_settings_warn(
    capfd: pytest.CaptureFixture[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    settings = place / "home" / ".config" / "agentcli" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"modle": "x"}')
    code, found, _shown = report(capfd, "--sandbox", "off")
    assert code == 1
    assert found["key"]["status"] == "fail"
    assert found["settings"]["status"] == "warn"
    assert "modle" in found["settings"]["text"]


def test_each_line_begins_with_its_status(capfd: pytest.CaptureFixture[str], place: Path) -> None:
    assert main(["doctor", "--sandbox", "off"], os.environ) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[-1] == "1 warning. Each → shows a fix."
    heads = [line for line in lines[:-2] if not line.startswith(" ")]
    assert len(heads) > 8
    assert all(line.split()[0] in ("ok", "warn", "fail") for line in heads)
    assert "\x1b" not in "".join(lines)
    assert max(len(line) for line in lines) <= 80


def test_doctor_runs_no_program_of_the_folder_it_looks_at(
    capfd: pytest.CaptureFixture[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = place / "work" / ".venv" / "bin"
    planted.mkdir(parents=True)
    for name in ("git", "rg", "bash"):
        (planted / name).write_text(f"#!/bin/sh\ntouch {place}/sprung\n")
        (planted / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{planted}:{os.environ['PATH']}")
    _code, found, _shown = report(capfd, "--sandbox", "off")
    assert not any(str(planted) in found[name]["text"] for name in ("git", "ripgrep", "bash"))
    assert not (place / "sprung").exists()


# -------------------------------------------------------------------------------------------------------- the lines


def test_programs_that_are_asked_for_their_version_get_no_key(place: Path) -> None:
    program = place / "bin" / "git"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "git 1 key:$ANTHROPIC_API_KEY:"\n')
    program.chmod(0o755)
    found = {
        finding.name: finding.text
        for finding in machine.programs(context(place, PATH=str(program.parent), ANTHROPIC_API_KEY=KEY))
    }
    assert found["git"] == f"git 1 key:: ({program})"


def test_the_lines_fit_the_terminal_and_are_aligned() -> None:
    finding = Finding("warn", "sandbox", "word " * 30, "Do this and that. " * 5)
    for width in (40, 60, 80, 200):
        lines = list(format_finding(finding, width))
        assert max(map(len, lines)) <= width
        assert "".join(lines).count("→") == 1
    wide = list(format_finding(finding, 80))
    assert wide[0].startswith("warn  sandbox       word")
    assert all(line.startswith(" " * 20) for line in wide[1:])
    narrow = list(format_finding(finding, 40))
    assert narrow[0] == "warn  sandbox"
    assert narrow[1].startswith("      word")


def test_only_the_status_is_coloured_and_text_brings_no_colours() -> None:
    finding = Finding("fail", "key", "evil \x1b[31mred\x07", "\x1b]0;title\x07do")
    [plain] = [line for line in format_finding(finding, None) if "key" in line]
    assert "\x1b" not in plain
    lines = list(format_finding(finding, 80, coloured=True))
    assert lines[0].startswith("\x1b[1;31mfail \x1b[0m key")
    assert "".join(lines).count("\x1b") == 2


def test_the_summary_counts_warnings_and_failures() -> None:
    ok, warn, failed = Finding("ok", "a", ""), Finding("warn", "b", ""), Finding("fail", "c", "")
    assert summary([ok]) == "No problems found."
    assert summary([ok, warn, warn]).startswith("2 warnings.")
    assert summary([failed, warn]).startswith("1 failure and 1 warning.")


# --------------------------------------------------------------------------------------------------------- the checks


def context(place: Path, columns: int = 100, encoding: str = "utf-8", **more: str) -> CheckContext:
    environ = {"HOME": str(place / "home"), "PATH": os.environ["PATH"], "TERM": "xterm-256color", **more}
    options = Options(cwd=place / "work", environ=environ, sandbox="off")
    return CheckContext(options, environ, OutputScreen(True, columns, 30, encoding))


def test_a_check_that_breaks_is_a_finding(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_context: CheckContext) -> Iterator[Finding]:
        raise OSError("the disk is on fire")
        yield

    monkeypatch.setattr("agentcli.doctor.checks.CHECKS", (("versions", broken), *CHECKS[-1:]))
    found = list(run_checks(context(place), online=False))
    assert (found[0].status, found[0].name, found[0].text) == ("fail", "versions", "the disk is on fire")
    assert len(found) > 1 or not Path("/proc/sys/fs/inotify/max_user_watches").exists()


def test_the_terminal_line_lists_capabilities(place: Path) -> None:
    [line] = machine.terminal(context(place, COLORTERM="truecolor", TMUX="x", SSH_TTY="/dev/pts/1"))
    assert line.text == "a terminal, TERM=xterm-256color, 100x30, all colours, UTF-8, ssh, tmux"
    [line] = machine.terminal(context(place, encoding="ANSI_X3.4-1968"))
    assert (line.status, "LANG=C.UTF-8" in line.advice) == ("warn", True)
    [line] = machine.terminal(context(place, TERM="dumb"))
    assert (line.status, "no colours" in line.text) == ("warn", True)
    [line] = machine.terminal(context(place, columns=30))
    assert (line.status, "40x10" in line.advice) == ("warn", True)
    [line] = machine.terminal(context(place, NO_COLOR="1"))
    assert "NO_COLOR" in line.text


def test_the_clipboard_line_names_the_way_that_a_copy_takes(place: Path) -> None:
    programs = place / "bin"
    programs.mkdir()
    (programs / "xclip").write_text("#!/bin/sh\n")
    (programs / "xclip").chmod(0o755)
    [line] = machine.clipboard(context(place, DISPLAY=":0", PATH=str(programs)))
    assert line.text == "by xclip"
    [line] = machine.clipboard(context(place, DISPLAY=":0", PATH=str(programs), SSH_TTY="x"))
    assert line.text == "through the terminal (OSC 52)"
    [line] = machine.clipboard(context(place, TERM="linux"))
    assert line.status == "warn"


def test_a_definition_with_a_mistake_is_named(place: Path) -> None:
    assert list(checks.definitions(context(place))) == []
    path = place / "work/.claude/agents/bad.md"
    path.parent.mkdir(parents=True)
    path.write_text("no header")
    [line] = checks.definitions(context(place))
    assert line.text == ".claude/agents/bad.md:1: An agent needs a `description`, which says when to use it."


def test_each_mcp_server_is_listed_and_none_is_started(place: Path) -> None:
    assert list(checks.servers(context(place))) == []
    mark = place / "started"
    user = {
        "there": {"command": "sh", "args": ["-c", f"touch {mark}"]},
        "gone": {"command": "no-such-program-here"},
        "web": {"type": "http", "url": "https://kim:hunter2@h.example/mcp"},
        "off": {"command": "sh", "disabled": True},
        "bad": {"command": 1},
    }
    path = place / "home/.config/agentcli/settings.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"mcpServers": user}))
    (place / "work/.mcp.json").write_text(json.dumps({"mcpServers": {"theirs": {"command": "sh"}}}))
    found = list(checks.servers(context(place)))
    assert [(line.status, line.text.partition(" (")[0]) for line in found[1:]] == [
        ("ok", "theirs"),
        ("ok", "there"),
        ("warn", "gone"),
        ("ok", "web"),
        ("ok", "off"),
    ]
    assert "'command' must be a string" in found[0].text
    assert found[1].text.endswith("waits for approval")
    assert found[3].text.endswith("the program was not found")
    assert "hunter2" not in found[4].text
    assert not mark.exists()


def test_untrusted_folder_settings_are_reported(place: Path) -> None:
    assert list(checks.trust(context(place))) == []
    (place / "work" / ".agentcli").mkdir()
    (place / "work" / ".agentcli" / "settings.json").write_text('{"model": "haiku"}')
    [line] = checks.trust(context(place))
    assert "not trusted" in line.text
    assert "agentcli trust" in line.advice


def test_stored_sessions_are_counted_and_cut_off_ones_named(place: Path) -> None:
    [line] = checks.sessions(context(place))
    assert line.text == "none stored yet"
    folder = place / "home" / ".local" / "state" / "agentcli" / "sessions" / "key"
    folder.mkdir(parents=True)
    folder.parent.chmod(0o755)
    whole, cut = (folder / f"{digit * 8}-0000-4000-8000-000000000000.jsonl" for digit in "ab")
    whole.write_text('{"type":"session"}\n')
    cut.write_text('{"type":"session"}\n{"type":"us')
    found = list(checks.sessions(context(place)))
    assert (found[0].status, "chmod 700" in found[0].advice) == ("warn", True)
    assert found[1].text.startswith("2 stored, 0 of this folder")
    assert "bbbbbbbb" in found[1].text
    assert "aaaaaaaa" not in found[1].text
    folder.parent.chmod(0o700)
    assert len(list(checks.sessions(context(place)))) == 1


# --------------------------------------------------------------------------------------------------------- the endpoint


class Endpoint:
    """Answers every GET with one status and body, and keeps the requests."""

    def __init__(self, status: int, body: str, **headers: str) -> None:
        self.seen: list[tuple[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.seen.append((self.path, self.headers.get("authorization", "")))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_arguments: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def asked(place: Path, endpoint: Endpoint, **more: str) -> Finding:
    environ = {"ANTHROPIC_BASE_URL": endpoint.url, "ANTHROPIC_API_KEY": KEY, **more}
    [line] = checks.endpoint(context(place, **environ))
    assert KEY not in repr(line)
    return line


def test_online_the_server_is_asked_for_its_models(place: Path) -> None:
    with Endpoint(200, '{"data": [{"id": "one"}, {"id": "two"}]}') as server:
        line = asked(place, server, ANTHROPIC_MODEL="two")
        assert line.status == "ok"
        assert line.text.endswith("has 2 models, including two")
        assert server.seen == [("/v1/models?limit=1000", f"Bearer {KEY}")]
        line = asked(place, server, ANTHROPIC_MODEL="three")
        assert (line.status, "one, two" in line.advice) == ("warn", True)


def test_a_refused_key_fails_and_a_server_without_a_list_does_not(place: Path) -> None:
    with Endpoint(401, "{}") as server:
        line = asked(place, server)
        assert (line.status, "refuses the key" in line.text) == ("fail", True)
        assert "ANTHROPIC_API_KEY" in line.text
    for status, body in ((404, ""), (200, "<html>")):
        with Endpoint(status, body) as server:
            line = asked(place, server)
            assert (line.status, "does not list" in line.text) == ("ok", True)
    line = asked(place, server)
    assert (line.status, "cannot be reached" in line.text) == ("fail", True)


def test_the_key_does_not_follow_a_redirect(place: Path) -> None:
    with Endpoint(200, '{"data": []}') as other, Endpoint(302, "", Location=f"{other.url}/v1/models") as server:
        line = asked(place, server)
        assert line.status == "warn"
        assert other.seen == []


def test_the_scripted_model_needs_no_key_and_no_server(place: Path) -> None:
    scripted = context(place, AGENTCLI_SCRIPT="x.json")
    for check in (checks.key, checks.endpoint):
        [line] = check(scripted)
        assert line.status == "ok"
        assert "the model is scripted" in line.text


def test_a_saved_key_is_reported_by_its_location(place: Path) -> None:
    url = "http://127.0.0.1:9"
    state = place / "home" / ".local" / "state" / "agentcli"
    KeyStore(state, vault=lambda: None).keep(url, KEY)
    [line] = checks.key(context(place, ANTHROPIC_BASE_URL=url))
    assert line.status == "ok"
    assert str(state) in line.text
    assert KEY not in repr(line)
