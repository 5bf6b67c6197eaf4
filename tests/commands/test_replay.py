"""/replay says how to replay the session that is open."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.commands.line import run_command
from tests.support.fakes import Bench, bench, collect, result_of
from tests.support.recorded import recorded

pytestmark = pytest.mark.virtual


async def replay(b: Bench) -> str:
    result = result_of(await collect(run_command(b.engine, "replay", "")))
    return result.text or result.errors[0]


async def test_it_names_the_session_for_another_terminal(tmp_path: Path) -> None:
    b = recorded(tmp_path, "Hello.")
    async with b.engine:
        assert "nothing to replay" in await replay(b)
        await b.run("Hi")
        assert f"agentcli replay {b.engine.session_id} --verify" in await replay(b)


async def test_a_session_that_is_not_saved_cannot_be_replayed() -> None:
    b = bench("Hello.")
    async with b.engine:
        await b.run("Hi")
        assert "nothing to replay" in await replay(b)
