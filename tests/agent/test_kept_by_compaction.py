"""What a compaction must never lose: the last prompt and pinned content, however often it runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.context.compaction import INFLATING, LITTLE_TO_GAIN, NOTHING_YET, PINNED_TOO_MUCH
from agentcli.agent.profile import Profile
from agentcli.context.compact import word_for_word
from agentcli.context.estimate import block_tokens, message_tokens
from agentcli.core import events as ev
from agentcli.core.messages import ImageBlock, Message, Origin, TextBlock
from agentcli.tools.base import Output
from tests.context.logs import talks
from tests.support.compacting import LONG, told, tool
from tests.support.curating import BIG, item
from tests.support.fakes import MODEL, FakeTool, bench, collect, only, result_of
from tests.support.scripts import call, reply
from tests.support.virtual import run_virtual

pytestmark = pytest.mark.virtual

LAST = "Rename every function of the parser, and leave the lexer alone: its tests are not ours. " * 4
PICTURE = ImageBlock({"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="})


# ------------------------------------------------------------------------------------------------- again and again


async def test_compacting_again_without_gain_changes_nothing_and_does_not_blame_pins() -> None:
    summary = "A summary of it all, with detail. " * 10
    b = bench(LONG, LONG, *[summary] * 3, "On.")
    async with b.engine:
        await b.run("Tell a story.")
        await b.run(LAST)
        assert not result_of(await collect(b.engine.compact())).is_error
        await collect(b.engine.compact())
        before = b.engine.messages
        events = await collect(b.engine.compact())
        assert b.engine.messages == before
        assert [event.text for event in only(events, ev.CompactionFailed)] == [LITTLE_TO_GAIN]


async def test_the_middle_of_pasted_text_may_be_cut() -> None:
    pasted = f"What is wrong here? {'A line of a log. ' * 4_000} Say it in a sentence."
    b = bench("Nothing.", *["A summary."] * 4, "On.")
    async with b.engine:
        await b.run(pasted)
        for _time in range(4):
            await collect(b.engine.compact())
        await b.run("go")
    assert 8_000 < len(told(b)) < 40_000
    assert "What is wrong here?" in told(b)
    assert "Say it in a sentence." in told(b)


async def test_the_picture_of_the_last_prompt_is_still_there_after_the_second_compaction() -> None:
    b = bench(LONG, LONG, "A summary. " * 40, "A summary. " * 30, "On.")
    async with b.engine:
        await b.run("Tell a story.")
        await collect(b.engine.submit((TextBlock(LAST), PICTURE)))
        for _time in range(2):
            assert not result_of(await collect(b.engine.compact())).is_error
        await b.run("go")
    assert told(b).count(PICTURE.source["data"]) == 1


def test_the_last_prompt_has_its_share_and_older_messages_get_the_rest() -> None:
    texts = ["old words " * 30, "older task " * 30, "the task " * 30, "and this too " * 30]
    assert word_for_word(texts, 0) == ""
    kept = word_for_word(texts, 0, last=2, least=1_000)
    assert [text.strip() in kept for text in texts] == [False, False, True, True]
    assert "2 earlier ones are left out" in kept
    longer = [text * 10 for text in texts]
    shared = word_for_word(longer, 0, last=2, least=500)
    assert shared.count("characters were left out here") == 2
    assert block_tokens(TextBlock(shared)) < 600
    assert word_for_word(texts, 10_000, last=2, least=150) == word_for_word(texts, 10_000)


@given(st.data())
def test_the_last_prompt_is_in_the_next_request_after_any_number_of_compactions(data: st.DataObject) -> None:
    log: list[Message] = data.draw(talks())
    lengths = data.draw(st.lists(st.sampled_from([1, 5, 30, 200]), min_size=1, max_size=4))
    window = data.draw(st.sampled_from([9_000, 200_000]))

    async def main() -> None:
        profile = Profile(model=MODEL, small_model="x", context_window=window)
        summaries: list[Any] = [reply("Some of it. " * length) for length in lengths]
        b = bench(*summaries, reply("On.", repeat=True), log=tuple(log), profile=profile)
        async with b.engine:
            for _length in lengths:
                for failed in only(await collect(b.engine.compact()), ev.CompactionFailed):
                    assert failed.text in (INFLATING, LITTLE_TO_GAIN, NOTHING_YET)
                wire = json.dumps(list(b.engine.session.view.wire(b.engine.messages)))
                assert "the very last words" in wire
            assert list(b.engine.messages[: len(log)]) == log
        assert b.refused == []

    run_virtual(main)


# --------------------------------------------------------------------------------------------------------- with pins


async def test_pinned_content_counts_against_the_budget_of_kept_messages() -> None:
    calls = [reply(call("Look", what="far")), "One.", reply(call("Look", what="near")), "Two."]
    lines = {"far": BIG, "near": BIG[: len(BIG) // 4]}
    both = FakeTool(output=lambda given: Output(f"{given['what']}: {lines[given['what']]}"))
    b = bench(*calls, "A summary.", "On.", tools=[both])
    async with b.engine:
        await b.run("first")
        await b.run("second")
        far = next(one.id for one in b.engine.context.items() if one.category == "results")
        assert b.engine.context.pin(far) is None
        before = b.engine.messages
        events = await collect(b.engine.compact())
        assert not result_of(events).is_error
        # The pinned result is most of it and stays, so that the other, being most of the rest, cannot stay too.
        new = [event.message for event in only(events, ev.MessageAppended)]
        assert Origin.TOOL_RESULTS not in [message.origin for message in new]
        assert sum(map(message_tokens, new)) < 0.85 * sum(map(message_tokens, before))
        await b.run("go")
    assert "far: A line" in told(b)
    assert "second" in told(b)


async def test_a_pin_in_the_last_exchange_does_not_prevent_keeping_it_verbatim() -> None:
    b = bench(LONG, reply(call("Look", what="map")), "Here.", "A summary.", "On.", tools=[tool()])
    async with b.engine:
        await b.run("tell")
        await b.run("where?")
        b.engine.context.pin(item(b, "results"))
        events = await collect(b.engine.compact())
        new = [event.message for event in only(events, ev.MessageAppended)]
        assert Origin.TOOL_RESULTS in [message.origin for message in new]
        await b.run("go")
    assert told(b).count("map was seen. map was seen. map was seen.") == 1 or "the result of Look" not in told(b)


async def test_everything_pinned_is_named_as_the_reason() -> None:
    b = bench(LONG, "A summary that takes some room too. " * 20)
    async with b.engine:
        await b.run("tell")
        for one in b.engine.context.items():
            b.engine.context.pin(one.id)
        events = await collect(b.engine.compact())
        assert [event.text for event in only(events, ev.CompactionFailed)] == [PINNED_TOO_MUCH]
