"""`agentcli mcp login` and `logout`, with an authorization server on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from agentcli.cli import mcp_login
from agentcli.core.aio import in_thread
from agentcli.core.errors import AgentError, UsageError
from tests.mcp.oauth.signing_in import SignInBench, on_bench
from tests.support.authorization_server import browse

pytestmark = pytest.mark.anyio


class Terminal:
    """The command's output, and what the user types."""

    def __init__(self) -> None:
        self.text = ""
        self.changed = threading.Event()
        self.input, self._typed = os.pipe()

    def echo(self, text: str = "", *, err: bool = False) -> None:
        self.text += f"{text}\n"
        self.changed.set()

    def type(self, line: str) -> None:
        os.write(self._typed, line.encode())

    async def wait_for(self, pattern: str) -> str:
        while (found := re.search(pattern, self.text)) is None:
            await in_thread(self.changed.wait, 20)
            self.changed.clear()
        return found.group()

    def close(self) -> None:
        os.close(self.input)
        os.close(self._typed)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    made = Terminal()
    stdin = os.fdopen(os.dup(made.input))
    monkeypatch.setattr(mcp_login, "echo", made.echo)
    monkeypatch.setattr(mcp_login, "notice", made.echo)
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.chdir(tmp_path)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AGENTCLI_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AGENTCLI_CONFIG_DIR", str(tmp_path / "config"))
    yield made
    stdin.close()
    made.close()


def command(*arguments: str, url: str = "https://example.com/mcp") -> Callable[[], None]:
    servers = {
        "files": {"type": "http", "url": url},
        "own": {"type": "http", "url": url, "headers": {"Authorization": "Bearer x"}},
        "program": {"command": "/bin/true"},
    }
    app = typer.Typer()
    mcp_login.register(app)
    flag = ["--mcp-config", json.dumps({"mcpServers": servers})]
    return lambda: get_command(app).main([*arguments, *flag], standalone_mode=False)


@on_bench
async def test_the_user_signs_in_in_a_browser_and_out_again(bench: SignInBench, terminal: Terminal) -> None:
    work = asyncio.ensure_future(in_thread(command("login", "files", url=bench.protected.endpoint)))
    await browse(await terminal.wait_for(r"http://\S+/authorize\S+"))
    await work
    assert terminal.text.endswith("Signed in to files: 2 tools.\n")
    assert "secret" in (bench.state_dir / "mcp-tokens.json").read_text()
    assert "secret" not in terminal.text

    await in_thread(command("logout", "files", url=bench.protected.endpoint))
    assert terminal.text.endswith("Signed out of files.\n")
    assert bench.authorization.access == {}
    assert "secret" not in (bench.state_dir / "mcp-tokens.json").read_text()


@on_bench
async def test_without_a_browser_the_user_pastes_the_address(bench: SignInBench, terminal: Terminal) -> None:
    work = asyncio.ensure_future(in_thread(command("login", "files", "--no-browser", url=bench.protected.endpoint)))
    address = await terminal.wait_for(r"http://\S+/authorize\S+")
    redirect = (await browse(address, follows=False)).headers["location"]
    terminal.type("what now?\n\n")
    await terminal.wait_for("neither an address nor a code")
    terminal.type(redirect[:20])
    terminal.type(f"{redirect[20:]}\n")
    await work
    assert terminal.text.endswith("Signed in to files: 2 tools.\n")


@on_bench
async def test_a_refused_sign_in_is_reported(bench: SignInBench, terminal: Terminal) -> None:
    bench.authorization.redirect = {"code": None, "error": "access_denied"}
    work = asyncio.ensure_future(in_thread(command("login", "files", url=bench.protected.endpoint)))
    await browse(await terminal.wait_for(r"http://\S+/authorize\S+"))
    with pytest.raises(AgentError, match=r"Not signed in to files\. The authorization server refused: access_denied\."):
        await work


@pytest.mark.parametrize("verb", ["login", "logout"])
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("other", "There is no MCP server 'other'. There are: files, own, program."),
        ("own", "own has no sign-in. It has credentials in its configuration."),
        ("program", "program has no sign-in."),
    ],
)
async def test_a_server_without_a_sign_in_is_named(terminal: Terminal, verb: str, name: str, problem: str) -> None:
    with pytest.raises((AgentError, UsageError)) as caught:
        await in_thread(command(verb, name))
    assert str(caught.value) == problem


@pytest.mark.parametrize("verb", ["login", "logout"])
async def test_a_server_of_a_repository_needs_approval(tmp_path: Path, terminal: Terminal, verb: str) -> None:
    entry = {"mcpServers": {"theirs": {"type": "http", "url": "https://example.com/mcp"}}}
    (tmp_path / ".mcp.json").write_text(json.dumps(entry))
    with pytest.raises(AgentError, match="not approved"):
        await in_thread(command(verb, "theirs"))
