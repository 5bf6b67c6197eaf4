"""Attacks on the assembled program that need a name service or a sandbox of their own."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcli.assemble import Options
from agentcli.assemble.environment import Environment
from agentcli.commands.line import run_command
from agentcli.config.trust import TrustState, TrustStore
from agentcli.core.errors import UsageError
from agentcli.core.permission import PermissionMode
from agentcli.sandbox.linux import probe
from tests.support.contained import Project, no, web_server, yes
from tests.support.fakes import collect
from tests.support.scripts import call

pytestmark = pytest.mark.anyio
PUBLIC, PRIVATE = "93.184.216.34", "127.0.0.1"


@pytest.mark.parametrize("answers", [(PRIVATE, PUBLIC), (PUBLIC, PRIVATE)])
async def test_a_name_that_changes_its_address_leads_web_fetch_to_no_private_one(
    contained: Project, monkeypatch: pytest.MonkeyPatch, answers: tuple[str, str]
) -> None:
    """The answers alternate, so that looking a name up twice would get both."""
    given, connected = list(answers), []
    connect = socket.socket.connect

    def resolve(host: Any, port: Any, *_rest: Any, **_options: Any) -> list[Any]:
        given.append(address := given.pop(0))
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    def record(self: socket.socket, address: Any) -> None:
        connected.append(address[0])
        if address[0] == PUBLIC:
            raise ConnectionRefusedError
        connect(self, address)

    with web_server() as port:
        fetch = call("WebFetch", url=f"http://rebind.example.org:{port}/secret", prompt="Read it")
        async with contained.session(fetch) as session:
            monkeypatch.setattr(socket, "getaddrinfo", resolve)
            monkeypatch.setattr(socket.socket, "connect", record)
            (result,) = await session.run(yes)
    assert PRIVATE not in connected
    assert "page /secret" not in result
    assert ("private address" in result) == (answers[0] == PRIVATE)


async def test_where_bubblewrap_cannot_block_the_network_less_runs_unasked(
    contained: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    able = probe.try_out
    monkeypatch.setattr(probe, "try_out", lambda program: replace(able(program), network=False))
    options: dict[str, Any] = {"permission_mode": PermissionMode.DEFAULT}
    contained.git("add", ".")
    async with contained.commands("git ls-files | xargs cat", "cat src/app.py", **options) as session:
        results = await session.run(no)
        assert [event.input["command"] for event in session.asked] == ["git ls-files | xargs cat"]
        assert "x = 1" in results[1]
    with pytest.raises(UsageError, match="cannot block the network"):
        async with contained.commands("true"):
            pass


async def test_a_planted_file_takes_no_folder_of_the_user_out_of_undo(contained: Project) -> None:
    """Folders with a `pyvenv.cfg` are virtual environments, which undo does not cover."""
    (contained.path / ".gitignore").write_text("data/\n")
    data = contained.path / "data" / "a.csv"
    data.parent.mkdir()
    data.write_text("years of work")
    (data.parent / "pyvenv.cfg").touch()
    async with contained.commands("python3 -c \"import shutil; shutil.rmtree('data')\"") as session:
        await session.run(no)
        assert not data.exists()
        await collect(run_command(session.engine, "undo", ""))
    assert data.read_text() == "years of work"


async def test_a_plugin_that_is_swapped_after_the_check_of_trust_does_not_run(
    contained: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, ran = contained.path / ".agentcli" / "plugins" / "swapped.py", contained.root / "ran"
    plugin.parent.mkdir(parents=True)
    plugin.write_text("# as it was trusted\n")
    check = TrustStore.state

    def swap(self: TrustStore, cwd: Path) -> TrustState:
        found = check(self, cwd)
        plugin.write_text(f"open({str(ran)!r}, 'w')\n")
        return found

    store = Environment(Options(cwd=contained.path, environ=contained.environ)).trust
    store.trust(store.state(contained.path))
    monkeypatch.setattr(TrustStore, "state", swap)
    async with contained.session(trust=False) as session:
        await session.run(no)
    assert "open" in plugin.read_text()
    assert not ran.exists()
