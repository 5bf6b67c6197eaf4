"""A change of model, effort or thinking shows its price first and, in interactive sessions, asks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentcli.agent.costs.cache_watch import SHORT_TTL
from agentcli.agent.profile import Tuning
from agentcli.commands.line import CommandLine, parse_line, run_command
from agentcli.commands.model import without_now
from agentcli.core import events as ev
from agentcli.core.aio import AbortReason
from agentcli.core.permission import Answer
from agentcli.plain.questions import answer_to
from tests.support.fakes import MODEL, Bench, bench, only, result_of
from tests.support.scripts import reply

pytestmark = pytest.mark.virtual

USED = {"input_tokens": 10, "cache_read_input_tokens": 40_000, "output_tokens": 5}

CHANGED = "The model is now claude-opus-5-5. The effort is now medium."


def used_bench(used: dict[str, int] | None = None, **rest: Any) -> Bench:
    rest.setdefault("interactive", True)
    return bench(reply("Hello.", usage=USED if used is None else used), "And?", **rest)


async def said(b: Bench, line: str, *answers: Answer) -> tuple[str, list[ev.PermissionRequested]]:
    """The text of the result and the questions, which get these answers."""
    left, events = list(answers), []
    command = parse_line(line)
    assert isinstance(command, CommandLine)
    async for event in run_command(b.engine, command.name, command.arguments):
        events.append(event)
        if isinstance(event, ev.PermissionRequested):
            assert b.engine.answer(event.request_id, left.pop(0))
    assert left == []
    assert not result_of(events).is_error
    return result_of(events).text, only(events, ev.PermissionRequested)


YES, NO = Answer("allow"), Answer("deny")


@pytest.mark.parametrize(
    ("line", "title", "price", "unchanged"),
    [
        ("/model opus", "Change the model to claude-opus-5-5?", "about $0.22", "The model is still claude-sonnet-5-5."),
        ("/effort low", "Change the effort to low?", "about $0.11", "The effort is still auto."),
        ("/thinking disabled", "Change thinking to disabled?", "about $0.11", "Thinking is still adaptive."),
    ],
)
async def test_the_price_is_shown_first_and_only_a_yes_changes_anything(
    line: str, title: str, price: str, unchanged: str
) -> None:
    b = used_bench({**USED, "cache_read_input_tokens": 44_000})
    async with b.engine:
        await b.run()
        before = b.engine.profile
        text, [question] = await said(b, line, NO)
        assert question.title == title
        assert question.display["kind"] == "confirm"
        assert price in question.reason
        assert "re-bills" in question.reason
        assert text == f"Cancelled. {unchanged}"
        assert b.engine.profile == before
        text, _questions = await said(b, line, YES)
        assert b.engine.profile != before
        assert "re-reads" not in text, "the price was in the question"


async def test_nothing_is_asked_while_nothing_is_cached_or_below_the_threshold() -> None:
    b = used_bench({"input_tokens": 10, "cache_read_input_tokens": 900, "output_tokens": 5})
    async with b.engine:
        assert await said(b, "/effort low") == ("The effort is low.", [])
        await b.run()
        text, questions = await said(b, "/effort high")
        assert (text, questions) == (
            "The effort is high. The next request re-reads 900 tokens, about $0.0022.",
            [],
        )


async def test_with_a_cold_cache_a_note_is_shown_and_nothing_is_asked() -> None:
    b = used_bench()
    async with b.engine:
        await b.run()
        await asyncio.sleep(SHORT_TTL)
        text, questions = await said(b, "/model opus")
        assert text == f"{CHANGED} The cache is cold: nothing is re-billed."
        assert questions == []


async def test_now_confirms_in_advance_like_the_pickers() -> None:
    b = used_bench()
    async with b.engine:
        await b.run()
        text, questions = await said(b, "/model opus now")
        assert questions == []
        assert text.startswith(f"{CHANGED} The next request re-reads 40k tokens")
        await said(b, f"/model {MODEL} NOW")
        assert (await said(b, "/effort low now"))[1] == []
        assert (await said(b, "/thinking disabled now"))[1] == []
        assert (b.engine.model, b.engine.profile.effort, b.engine.profile.thinking.mode) == (
            MODEL,
            "low",
            "disabled",
        )


def test_now_counts_only_as_the_last_word() -> None:
    assert without_now("opus now") == ("opus", True)
    assert without_now("opus") == ("opus", False)
    assert without_now("now") == ("now", False)
    assert without_now("") == ("", False)
    assert without_now("now opus") == ("now opus", False)


async def test_in_a_non_interactive_run_the_price_is_reported_with_the_change() -> None:
    b = used_bench(interactive=False)
    async with b.engine:
        await b.run()
        text, questions = await said(b, "/model opus")
        assert questions == []
        assert text == f"{CHANGED} The next request re-reads 40k tokens, about $0.20."


async def test_an_abort_at_the_question_changes_nothing() -> None:
    b = used_bench()
    async with b.engine:
        await b.run()
        events = []
        async for event in run_command(b.engine, "model", "opus"):
            events.append(event)
            if isinstance(event, ev.PermissionRequested):
                b.engine.abort(AbortReason.USER_CANCEL)
        assert [event.behavior for event in only(events, ev.PermissionResolved)] == ["withdrawn"]
        assert b.engine.model == MODEL
        assert not b.engine.running


# ------------------------------------------------------------------------------------------------------------ in lines


class Lines:
    """A user at the prompt of plain mode."""

    def __init__(self, *typed: str | None) -> None:
        self.typed = list(typed)
        self.seen: list[str] = []

    def write(self, pieces: Any) -> None:
        self.seen += [str(piece) for piece in pieces]

    async def read(self, question: str) -> str | None:
        self.seen.append(question)
        return self.typed.pop(0)

    async def edit(self, text: str) -> str:
        return text


@pytest.mark.parametrize(
    ("typed", "answer"), [(("y",), YES), (("n",), NO), (("what", "1"), YES), ((None,), NO)], ids=str
)
async def test_plain_mode_asks_and_esc_cancels_only_the_question(typed: tuple[str | None, ...], answer: Answer) -> None:
    b = used_bench()
    async with b.engine:
        await b.run()
        _text, [question] = await said(b, "/model opus", NO)
        lines = Lines(*typed)
        assert await answer_to(question, lines) == answer
        assert "re-bills 40k tokens, about $0.20, once" in "".join(lines.seen)
        assert "Change it" in "".join(lines.seen)


async def test_a_change_is_confirmed_from_the_configured_amount_on_and_its_price_is_noted_below_it() -> None:
    few = {"input_tokens": 10, "cache_read_input_tokens": 12_000, "output_tokens": 5}
    b = used_bench(few)
    async with b.engine:
        await b.run()
        text, questions = await said(b, "/effort high")
        assert (text, questions) == ("The effort is high. The next request re-reads 12k tokens, about $0.03.", [])
    b = used_bench(few, tuning=Tuning(confirm_cost_above=0.02))
    async with b.engine:
        await b.run()
        text, questions = await said(b, "/effort high", NO)
        assert text == "Cancelled. The effort is still auto."
        assert len(questions) == 1
