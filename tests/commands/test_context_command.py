"""/context on a real engine: items with their ids, pinned, dropped with the price, restored, also after a resume."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.agent.pinning import LAST_PROMPT, NOT_THERE, PINNED
from tests.commands.test_commands import engine_on, refused, said
from tests.support.fakes import collect
from tests.support.scripts import reply

pytestmark = pytest.mark.anyio

STORY = "a long story " * 3_000
USED = {"input_tokens": 10, "cache_read_input_tokens": 9_000, "cache_creation_input_tokens": 3_000, "output_tokens": 5}


async def test_items_are_listed_with_their_ids_and_can_be_pinned_dropped_and_restored(tmp_path: Path) -> None:
    async with engine_on(tmp_path, STORY, reply("Two.", usage=USED)) as engine:
        await collect(engine.submit("tell\x1b[31m me"))
        await collect(engine.submit("and now?"))
        prompt, answer, last, _two = (f"{message.id}:0" for message in engine.messages)
        listed = await said(engine, "/context items")
        assert "\x1b" not in listed
        assert [line.split()[0] for line in listed.splitlines()][-4:-2] == [prompt, answer]
        assert "whatever happens" in await said(engine, f"/context pin {answer}")
        assert "pinned" in next(line for line in (await said(engine, "/context items")).splitlines() if answer in line)
        assert await refused(engine, f"/context drop {answer}") == PINNED
        assert "pinned no more" in await said(engine, f"/context unpin {answer}")
        price = await said(engine, f"/context price {answer}")
        assert price.startswith("Dropping it: saves ")
        dropped = await said(engine, f"/context drop {answer}")
        assert price.removeprefix("Dropping it: saves") in dropped
        assert await refused(engine, f"/context drop {last}") == LAST_PROMPT
        assert "dropped" in (await said(engine, "/context items")).splitlines()[-1]
        session = engine.session_id
    async with engine_on(tmp_path, resume=session) as engine:
        assert [item.id for item in engine.dropped_items()] == [answer]
        assert "Restored: adds " in await said(engine, f"/context restore {answer}")
        assert engine.dropped_items() == []


async def test_pins_come_back_with_a_resumed_session(tmp_path: Path) -> None:
    async with engine_on(tmp_path, "One.") as engine:
        await collect(engine.submit("first"))
        item = f"{engine.messages[0].id}:0"
        await said(engine, f"/context pin {item}")
        session = engine.session_id
    async with engine_on(tmp_path, resume=session) as engine:
        assert engine.pins == {item}
    async with engine_on(tmp_path, resume=session, fork_session=True) as engine:
        assert engine.pins == {item}


async def test_what_is_not_understood_or_not_there_is_refused(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        assert await refused(engine, "/context drop x:0") == NOT_THERE
        assert await refused(engine, "/context pin x:0") == NOT_THERE
        for line in ("/context drop", "/context what", "/context items please"):
            assert "takes items, or pin" in await refused(engine, line)
