"""/context on a real engine: items with their ids, pinned, dropped with the price, restored, also after a resume."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.commands.context import handles
from agentcli.commands.line import run_command
from agentcli.context.user_edits import LAST_PROMPT, NOT_THERE, PINNED
from agentcli.core import events as ev
from agentcli.core.text.columns import cell_count
from tests.commands.test_commands import engine_on, refused, said
from tests.support.fakes import collect, only, result_of
from tests.support.scripts import reply

pytestmark = pytest.mark.anyio

STORY = "a long story " * 3_000
USED = {"input_tokens": 10, "cache_read_input_tokens": 9_000, "cache_creation_input_tokens": 3_000, "output_tokens": 5}


async def test_items_are_listed_with_their_ids_and_can_be_pinned_dropped_and_restored(tmp_path: Path) -> None:
    async with engine_on(tmp_path, STORY, reply("Two.", usage=USED)) as engine:
        await collect(engine.submit("tell\x1b[31m me"))
        await collect(engine.submit("and now?"))
        prompt, answer, last, _two = (f"{message.id}:0" for message in engine.messages)
        short = handles(item.id for item in engine.context.items())
        listed = await said(engine, "/context items")
        assert "\x1b" not in listed
        assert [line.split()[0] for line in listed.splitlines()][-5:-3] == [short[prompt], short[answer]]
        assert "always stays" in await said(engine, f"/context pin {short[answer].upper()}")
        assert engine.context.pins == {answer}
        listed = await said(engine, "/context items")
        assert "pinned: a long story" in next(line for line in listed.splitlines() if short[answer] in line)
        assert await refused(engine, f"/context drop {answer}") == PINNED
        assert "no longer pinned" in await said(engine, f"/context unpin {answer}")
        price = await said(engine, f"/context price {answer}")
        assert price.startswith("Dropping it: saves ")
        dropped = await said(engine, f"/context drop {answer}")
        assert price.removeprefix("Dropping it: saves") in dropped
        assert await refused(engine, f"/context drop {last}") == LAST_PROMPT
        assert "dropped: " in (await said(engine, "/context items")).splitlines()[-2]
        session = engine.session_id
    async with engine_on(tmp_path, resume=session) as engine:
        assert [item.id for item in engine.context.dropped_items()] == [answer]
        assert "Restored: adds " in await said(engine, f"/context restore {answer}")
        assert engine.context.dropped_items() == []


async def test_the_row_the_drop_and_the_total_have_one_number(tmp_path: Path) -> None:
    async with engine_on(tmp_path, STORY, reply("Two.", usage=USED)) as engine:
        await collect(engine.submit("tell me"))
        await collect(engine.submit("and now?"))
        answer = f"{engine.messages[1].id}:0"
        before = engine.context.outlook().tokens
        row = next(item.tokens for item in engine.context.items() if item.id == answer)
        assert sum(item.tokens for item in engine.context.items()) == before
        assert f"saves {row:,} tokens a turn" in await said(engine, f"/context drop {answer}")
        assert engine.context.outlook().tokens == before - row
        assert sum(item.tokens for item in engine.context.items()) == before - row
        assert [item.tokens for item in engine.context.dropped_items()] == [row]
        session = engine.session_id
    async with engine_on(tmp_path, resume=session) as engine:
        assert [item.tokens for item in engine.context.dropped_items()] == [row]
        assert f"adds {row:,} tokens a turn" in await said(engine, f"/context restore {answer}")
        assert engine.context.outlook().tokens == before
        assert next(item.tokens for item in engine.context.items() if item.id == answer) == row


async def test_the_list_has_columns_for_share_age_and_cache_that_fit(tmp_path: Path) -> None:
    async with engine_on(tmp_path, STORY, reply("Two.", usage=USED)) as engine:
        await collect(engine.submit("長い長い物語を聞かせてください。" * 9))
        await collect(engine.submit("and now?"))
        header, *rows, legend = (await said(engine, "/context items")).splitlines()
        assert header.split() == ["id", "kind", "tokens", "share", "age", "cached", "what"]
        assert all(cell_count(row) <= 78 for row in (header, *rows, legend))
        edges = [header.index(name) + len(name) for name in ("tokens", "share", "age")]
        for row in rows:
            assert all(row[edge - 1] != " " and row[edge] == " " for edge in edges), row
        system, *_tools = rows
        assert system.split()[1:] == ["system", *system.split()[2:4], "-", "yes", "System", "prompt"]
        told = [row.split() for row in rows[-4:]]
        assert [(row[1], row[4], row[5]) for row in told] == [
            ("prompts", "1", "yes"),
            ("answers", "1", "yes"),
            ("prompts", "now", "yes"),
            ("answers", "now", "no"),
        ]
        shares = [float(row.split()[3].strip("<%")) for row in rows]
        assert sum(shares) == pytest.approx(
            100 * engine.context.outlook().tokens / engine.context.outlook().window, abs=0.1 * len(rows)
        )


async def test_the_first_line_states_size_and_share_of_the_window(tmp_path: Path) -> None:
    async with engine_on(tmp_path, reply("Two.", usage=USED)) as engine:
        await collect(engine.submit("and now?"))
        first, *_kinds, cached, compacts = (await said(engine, "/context")).splitlines()
        assert first == "The next request has about 12k tokens: 1.2% of the 1M window of claude-sonnet-5-5."
        assert cached == "About 12k of them are read from the prompt cache."
        assert compacts.startswith("It is compacted automatically at ")
        engine.set_model("opus")
        assert "read from the prompt cache" not in await said(engine, "/context")


def test_two_items_with_the_same_short_name_keep_their_ids() -> None:
    ids = [f"{number}:0" for number in range(20_000)]
    names = handles(ids)
    assert len(set(names.values())) == len(ids)
    assert any(name == id for id, name in names.items()), "some clash among so many"
    assert handles(ids[:5]) == {id: names[id] for id in ids[:5]}, "a name does not depend on the others"


async def test_pins_come_back_with_a_resumed_session(tmp_path: Path) -> None:
    async with engine_on(tmp_path, "One.") as engine:
        await collect(engine.submit("first"))
        item = f"{engine.messages[0].id}:0"
        await said(engine, f"/context pin {item}")
        session = engine.session_id
    async with engine_on(tmp_path, resume=session) as engine:
        assert engine.context.pins == {item}
    async with engine_on(tmp_path, resume=session, fork_session=True) as engine:
        assert engine.context.pins == {item}


async def test_unknown_actions_and_items_are_refused(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        assert await refused(engine, "/context drop x:0") == NOT_THERE
        assert await refused(engine, "/context pin x:0") == NOT_THERE
        for line in ("/context drop", "/context what", "/context items please"):
            assert "lists the items with their ids" in await refused(engine, line)


LONG_STORY = "a long story " * 3_000


async def test_compact_reports_the_saving_and_how_to_undo_it(tmp_path: Path) -> None:
    async with engine_on(tmp_path, LONG_STORY, "A summary.", "On.") as engine:
        await collect(engine.submit("tell me"))
        assert "Summarised: about " in (text := await said(engine, "/compact the greeting"))
        assert "/compact undo reverts it." in text
        assert "tokens are back" in await said(engine, "/compact undo")
        assert "no compaction to undo" in await refused(engine, "/compact UNDO")
        assert not result_of(await collect(engine.submit("go on"))).is_error
        assert any(message.text == LONG_STORY for message in engine.session.view.messages(engine.messages))


async def test_undo_works_after_a_resume_in_a_new_process(tmp_path: Path) -> None:
    async with engine_on(tmp_path, LONG_STORY, "A summary.") as engine:
        await collect(engine.submit("tell me"))
        await said(engine, "/compact")
        session = engine.session_id
    async with engine_on(tmp_path, resume=session) as engine:
        assert len(engine.session.view.messages(engine.messages)) < 3
        assert "tokens are back" in await said(engine, "/compact undo")
    async with engine_on(tmp_path, "On.", resume=session) as engine:
        await collect(engine.submit("go on"))
        shown = [message.text for message in engine.session.view.messages(engine.messages)]
    assert shown[:2] == ["tell me", LONG_STORY]
    assert shown[-2:] == ["go on", "On."]


async def test_undo_without_a_compaction_creates_no_session(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        events = await collect(run_command(engine, "compact", "undo"))
        assert result_of(events).is_error
        assert not only(events, ev.ContextEdited)
    assert not list(tmp_path.rglob("*.jsonl"))
