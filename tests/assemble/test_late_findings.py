"""What the sandbox finds after a command's result, on the assembled program."""

from __future__ import annotations

import pytest

from agentcli.sandbox.quarantine import inventory
from tests.sandbox.test_decoys import DECOYS, PLACE, plant
from tests.support.contained import Project

pytestmark = pytest.mark.anyio


async def test_a_repository_behind_decoys_is_reported_with_the_next_event(
    contained: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventory, "MAX_FOLDERS", 20)
    async with contained.commands(f"{DECOYS}; {plant(contained.root / 'ran')}") as session:
        await session.run()
        assert session.asked == []
        # Waits for the search.
        session.engine.session.tool_context.launcher.close()
        await session.run(prompt="and now?")
        assert any(f"{PLACE}/config was moved to quarantine" in text for text in session.notices())
    assert not (contained.path / PLACE / "config").exists()


async def test_a_repository_behind_decoys_does_not_outlive_the_session(
    contained: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventory, "MAX_FOLDERS", 20)
    async with contained.commands(f"{DECOYS}; {plant(contained.root / 'ran')}") as session:
        await session.run()
    assert (contained.path / PLACE).is_dir()
    assert not (contained.path / PLACE / "config").exists()
