"""/quarantine on a real engine, and `agentcli quarantine`, on items that were really moved away."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agentcli.cli.main import main
from agentcli.sandbox.quarantine.store import Quarantine, QuarantinedItem
from tests.commands.test_commands import engine_on, refused, said

pytestmark = pytest.mark.anyio


@pytest.fixture
def item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> QuarantinedItem:
    for name in [name for name in os.environ if name.startswith(("AGENTCLI", "XDG"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    planted = tmp_path / "project" / "bad\x1b[31m.envrc"
    planted.parent.mkdir()
    planted.write_text("planted")
    store = Quarantine(tmp_path / ".local" / "state" / "agentcli" / "quarantine")
    store.folder.parent.mkdir(parents=True)
    return store.take(planted, "make\x1b[2J", "other programs obey it")


async def test_items_are_listed_and_restored_from_a_session(tmp_path: Path, item: QuarantinedItem) -> None:
    async with engine_on(tmp_path) as engine:
        text = await said(engine, "/quarantine")
        assert item.id in text
        assert "other programs obey it" in text
        assert "\x1b" not in text
        assert "Restored" in await said(engine, f"/quarantine restore {item.id}")
        assert Path(item.path).read_text() == "planted"
        assert await said(engine, "/quarantine list") == "Quarantine is empty."


async def test_an_existing_file_is_never_overwritten_by_a_restore(tmp_path: Path, item: QuarantinedItem) -> None:
    Path(item.path).write_text("mine")
    async with engine_on(tmp_path) as engine:
        assert "exists. Move it away first." in await refused(engine, f"/quarantine restore {item.id}")
        assert Path(item.path).read_text() == "mine"
        assert "Deleted" in await said(engine, f"/quarantine rm {item.id}")
        assert await said(engine, "/quarantine") == "Quarantine is empty."


@pytest.mark.parametrize("line", ["restore", "rm", "list x", "nonsense", "restore ../../x", "rm nothing"])
async def test_an_invalid_request_is_refused_and_changes_nothing(
    tmp_path: Path, item: QuarantinedItem, line: str
) -> None:
    async with engine_on(tmp_path) as engine:
        assert "quarantine" in await refused(engine, f"/quarantine {line}")
        assert item.id in await said(engine, "/quarantine")


async def test_the_command_line_shows_the_same(item: QuarantinedItem, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["quarantine", "list"], os.environ) == 0
    shown = capfd.readouterr().out
    assert item.id in shown
    assert "\x1b" not in shown
    assert main(["quarantine", "list", "--json"], os.environ) == 0
    [listed] = json.loads(capfd.readouterr().out)
    assert (listed["id"], listed["path"]) == (item.id, item.path)
    assert main(["quarantine", "restore", item.id], os.environ) == 0
    assert Path(item.path).exists()
    assert main(["quarantine", "rm", item.id], os.environ) == 2
    assert "There is no item" in capfd.readouterr().err
