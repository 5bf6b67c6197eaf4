"""The cache watch: which block broke the prefix, why, and its cost; no notice while nothing breaks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.agent.costs.cache_watch import UNKNOWN, CacheWatch, Setup
from agentcli.context.edits import ContextEdit
from agentcli.core import events as ev
from agentcli.core.messages import Json, Message, Origin, TextBlock
from agentcli.core.usage import Usage
from agentcli.providers.base import Request, Thinking
from agentcli.tools.base import Output
from tests.support.cacheserver import PromptCache, caching_transport
from tests.support.examples import EXAMPLES
from tests.support.fakes import Bench, FakeTool, bench, only
from tests.support.scripts import call, fails, reply
from tests.support.tables import each_row
from tests.support.validate import first_problem
from tests.support.virtual import run_virtual

TOOLS: tuple[Json, ...] = ({"name": "Read", "description": "r"}, {"name": "Bash", "description": "b"})
SYSTEM = ("You are good. " * 200, "Where you are.")


def text(role: str, words: str) -> Json:
    return {"role": role, "content": [{"type": "text", "text": words}]}


def called(id: str, name: str, **input: Any) -> Json:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": input}]}


def result(id: str, words: str) -> Json:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": words}]}


MESSAGES = (
    text("user", "Fix it."),
    called("t1", "Read", file_path="src/x.py"),
    result("t1", "x " * 4_000),
    called("t2", "Bash", command="make\ntest"),
    result("t2", "ok"),
)
REQUEST = Request("model-a", MESSAGES, SYSTEM, TOOLS)
SETUP = Setup("model-a")


def usage(read: int = 0, written: int = 0, fresh: int = 0) -> Usage:
    return Usage(input_tokens=fresh, cache_read_input_tokens=read, cache_write_5m_tokens=written)


def watched(cached: int = 10_000) -> CacheWatch:
    """After a first request that left so many tokens in the cache."""
    watch = CacheWatch()
    assert watch.look(REQUEST, 0.0) is None
    assert watch.answered("model-a", usage(written=cached), 1.0) == []
    return watch


def grown(*more: Json, **changes: Any) -> Request:
    return replace(REQUEST, messages=(*MESSAGES, *more), **changes)


MORE = (text("assistant", "Done."), text("user", "Thanks."))


def test_a_conversation_that_grows_is_no_break() -> None:
    watch = watched()
    assert watch.look(grown(*MORE), 2.0) is None
    assert watch.answered("model-a", usage(read=10_000, written=20), 3.0) == []
    assert watch.cached_tokens == 10_020


def test_equal_content_in_other_objects_is_no_break() -> None:
    import copy

    assert watched().look(copy.deepcopy(grown(*MORE)), 2.0) is None


def test_a_block_added_to_the_last_message_is_no_break() -> None:
    longer = {**MESSAGES[-1], "content": [*MESSAGES[-1]["content"], {"type": "text", "text": "and a prompt"}]}
    assert watched().look(replace(REQUEST, messages=(*MESSAGES[:-1], longer)), 2.0) is None


CHANGES: list[tuple[str, Request, str, str]] = [
    ("model", grown(model="model-b"), "the model", "it was changed from model-a to model-b"),
    ("effort", grown(effort="low"), "the effort", "it was changed from auto to low"),
    (
        "thinking",
        grown(thinking=Thinking("disabled")),
        "the thinking setting",
        "it was changed from adaptive to disabled",
    ),
    ("system", grown(system=("Other.", SYSTEM[1])), "the system prompt", UNKNOWN),
    ("context", grown(system=(SYSTEM[0], "Elsewhere.")), "part 2 of the system prompt", UNKNOWN),
    ("tool", grown(tools=(TOOLS[0], {**TOOLS[1], "description": "c"})), "the tool Bash", UNKNOWN),
    ("tool added", grown(tools=(*TOOLS, {"name": "New"})), "the tool New", "it was added"),
    ("tool gone", grown(tools=TOOLS[:1]), "the tool Bash", "it was removed"),
    ("order", grown(tools=TOOLS[::-1]), "the order of the tools", UNKNOWN),
    (
        "result",
        replace(REQUEST, messages=(*MESSAGES[:2], result("t1", "[cleared]"), *MESSAGES[3:], *MORE)),
        "the result of Read src/x.py in turn 1",
        UNKNOWN,
    ),
    (
        "call",
        replace(REQUEST, messages=(*MESSAGES[:3], called("t2", "Bash", command="make"), *MESSAGES[4:])),
        "the call Bash make test in turn 2",
        UNKNOWN,
    ),
    (
        "prompt",
        replace(REQUEST, messages=(text("user", "No."), *MESSAGES[1:])),
        "the message “Fix it.” in turn 1",
        UNKNOWN,
    ),
    (
        "answer",
        replace(
            REQUEST,
            messages=(*MESSAGES[:2], {"role": "user", "content": [*MESSAGES[2]["content"], *MESSAGES[4]["content"]]}),
        ),
        "the call Bash make test in turn 2",
        UNKNOWN,
    ),
    (
        "added",
        replace(
            REQUEST,
            messages=(
                {"role": "user", "content": [*MESSAGES[0]["content"], {"type": "text", "text": "!"}]},
                *MESSAGES[1:],
            ),
        ),
        "what was added to the message in turn 1",
        UNKNOWN,
    ),
    ("shorter", replace(REQUEST, messages=MESSAGES[:3]), "the call Bash make test in turn 2", UNKNOWN),
]


@each_row(("name", "request_", "block", "reason"), CHANGES)
def test_a_break_names_the_block_and_the_reason(name: str, request_: Request, block: str, reason: str) -> None:
    watch = watched()
    found = watch.look(request_, 2.0)
    assert found is not None
    assert (found.block, found.reason) == (block, reason)
    [told] = watch.answered(request_.model, usage(written=10_000), 3.0)
    assert isinstance(told, ev.PrefixBroken)
    assert told.block == block
    assert watch.look(request_, 4.0) is None, "a break is told once"
    assert watch.answered(request_.model, usage(read=10_000), 5.0) == []


def test_the_reason_comes_from_an_event_since_the_last_request() -> None:
    watch = watched()
    watch.note(ev.ContextEdited(edits=[], step="microcompact", text="cleared 12 old results"))
    watch.note(ev.ContextEdited(agent="helper", edits=[], step="snip", text="somebody else's"))
    watch.note(ev.PrefixBroken(reason="microcompact: cleared 12 old results"))
    found = watch.look(replace(REQUEST, messages=(*MESSAGES[:2], result("t1", "-"), *MESSAGES[3:])), 2.0)
    assert found is not None
    assert found.reason == "cleared 12 old results", "said once, however many say it"
    watch.answered("model-a", usage(written=100), 3.0)
    again = watch.look(REQUEST, 4.0)
    assert again is not None
    assert again.reason == UNKNOWN, "a reason explains one break"


def test_rebilled_tokens_are_those_sent_again_and_not_read() -> None:
    """9,000 of the 10,000 tokens are the large result. Once it is cleared it is no longer billed; content
    after it is billed again, and the new tail is not counted."""
    watch = watched()
    cleared = replace(REQUEST, messages=(*MESSAGES[:2], result("t1", "-"), *MESSAGES[3:]))
    watch.look(cleared, 2.0)
    [told] = watch.answered("model-a", usage(read=900, written=100), 3.0)
    assert isinstance(told, ev.PrefixBroken)
    assert told.rebilled_tokens <= 100
    watch = watched()
    watch.look(grown(*MORE, effort="low"), 2.0)
    [told] = watch.answered("model-a", usage(written=10_100), 3.0)
    assert isinstance(told, ev.PrefixBroken)
    assert told.rebilled_tokens == pytest.approx(10_000, abs=50)


def test_a_cold_cache_is_reported_with_the_idle_time() -> None:
    watch = watched()
    assert not watch.cold(300.0)
    assert watch.cold(301.0)
    assert watch.look(grown(*MORE), 1_201.0) is None
    [told] = watch.answered("model-a", usage(written=10_020), 1_202.0)
    assert isinstance(told, ev.NoticeRaised)
    assert told.code == "cache"
    assert told.text.startswith("The prompt cache had gone cold (idle 20 min): 10k tokens")


def test_a_change_while_the_cache_is_cold_is_no_break() -> None:
    """Old results are cleared at that time because it costs nothing."""
    watch = watched()
    watch.note(ev.ContextEdited(edits=[], step="microcompact", text="cleared 1 old result"))
    assert watch.look(replace(REQUEST, messages=(*MESSAGES[:3], text("assistant", "-"), *MORE)), 1_201.0) is not None
    [told] = watch.answered("model-a", usage(written=9_000), 1_202.0)
    assert isinstance(told, ev.NoticeRaised)
    assert told.text.startswith("The prompt cache had gone cold (idle 20 min)")
    assert (watch.losses.breaks, watch.losses.expiries) == (0, 1)


@pytest.mark.parametrize(("idle", "said"), [(600.0, "The prompt cache had gone cold"), (2.0, "The server dropped")])
def test_an_edit_of_the_newest_content_does_not_explain_a_lost_cache(idle: float, said: str) -> None:
    """The result of a long command was moved to a file before it was ever sent."""
    watch = watched()
    watch.note(ev.ContextEdited(edits=[], step="budget", text="moved 1 large result to a file"))
    assert watch.look(grown(*MORE), 1.0 + idle) is None
    [told] = watch.answered("model-a", usage(written=10_020), 2.0 + idle)
    assert isinstance(told, ev.NoticeRaised)
    assert told.text.startswith(said)


def test_a_cache_that_lives_an_hour_is_not_cold_after_twenty_minutes() -> None:
    watch = CacheWatch()
    watch.look(REQUEST, 0.0)
    watch.answered("model-a", Usage(cache_write_1h_tokens=10_000), 1.0)
    assert not watch.cold(1_201.0)
    watch.look(grown(*MORE), 1_201.0)
    [told] = watch.answered("model-a", usage(written=10_020), 1_202.0)
    assert isinstance(told, ev.NoticeRaised)
    assert told.text.startswith("The server dropped the prompt cache")


def test_another_model_that_answers_is_the_reason() -> None:
    watch = watched()
    assert watch.look(grown(*MORE), 2.0) is None
    [told] = watch.answered("model-b", usage(written=10_020), 3.0)
    assert isinstance(told, ev.PrefixBroken)
    assert (told.block, told.reason) == ("the model", "model-b answered instead of model-a")


def test_a_parameter_that_the_endpoint_refused_is_the_reason() -> None:
    watch = watched()
    watch.look(grown(*MORE), 2.0)
    watch.note(ev.FeatureDropped(feature="effort", text="The endpoint does not support effort levels"))
    [told] = watch.answered("model-a", usage(written=10_020), 3.0)
    assert isinstance(told, ev.PrefixBroken)
    assert told.reason == "The endpoint does not support effort levels"


def test_an_endpoint_without_a_cache_gets_no_cache_notices() -> None:
    watch = CacheWatch()
    for number in range(3):
        assert watch.look(grown(*MORE * number), float(number)) is None
        assert watch.answered("model-a", usage(fresh=50_000), number + 0.5) == []


def test_a_request_that_was_never_answered_is_not_compared_with() -> None:
    watch = watched()
    watch.look(replace(REQUEST, messages=(*MESSAGES, *MORE, text("user", "a picture that is refused"))), 2.0)
    assert watch.look(grown(*MORE), 3.0) is None


def test_a_compaction_is_not_reported_as_a_cache_break() -> None:
    watch = watched()
    watch.note(ev.ContextCompacted(trigger="auto", tokens_before=10_000, tokens_after=500))
    assert watch.look(replace(REQUEST, messages=(text("user", "Summary."),)), 2.0) is None
    assert watch.answered("model-a", usage(read=300, written=200), 3.0) == []


SAID = Message("assistant", (TextBlock("Hi."),), "m1", Origin.REPLY, usage=usage(read=8_000, written=2_000))


def gone_on_with(setup: Setup = SETUP, at: float = 0.0, **done: Any) -> CacheWatch:
    watch = CacheWatch()
    watch.resume([SAID], setup, at, **done)
    watch.look(REQUEST, 0.0)
    return watch


@pytest.mark.parametrize(("at", "said"), [(-100.0, "was not used: effort"), (-301.0, "had gone cold")])
def test_a_resumed_session_reports_that_nothing_was_cached(at: float, said: str) -> None:
    assert gone_on_with(at=at).answered("model-a", usage(read=10_000, written=100), 1.0) == []
    watch = gone_on_with(at=at)
    [told] = watch.answered("model-a", usage(written=10_100), 1.0)
    assert isinstance(told, ev.NoticeRaised)
    assert told.text.startswith(f"The prompt cache of this session {said}")
    assert told.text.endswith("10k tokens were billed again.")
    assert watch.losses.expiries == (said == "had gone cold")


def test_resuming_with_another_model_names_it_as_the_reason() -> None:
    [told] = gone_on_with(Setup("model-b")).answered("model-a", usage(written=10_100), 1.0)
    assert isinstance(told, ev.PrefixBroken)
    assert (told.block, told.reason) == ("the model", "model-a answered instead of model-b")
    assert gone_on_with(Setup("model-a-20260101")).answered("model-a", usage(read=10_000), 1.0) == []


def test_content_compacted_or_dropped_before_leaving_is_not_expected_in_the_cache() -> None:
    watch = gone_on_with(compacted=True)
    assert watch.expected(SETUP, 0.0, 500) == 500
    assert watch.answered("model-a", usage(read=500, written=4_000), 1.0) == []
    watch = gone_on_with(freed=6_000)
    watch.explain("you dropped it")
    assert watch.expected(SETUP, 0.0, 500) == 4_000
    [told] = watch.answered("model-a", usage(read=1_000, written=9_000), 1.0)
    assert isinstance(told, ev.PrefixBroken)
    assert (told.reason, told.rebilled_tokens) == ("you dropped it", 3_000)


def test_control_characters_in_a_notice_cannot_move_the_cursor() -> None:
    watch = CacheWatch()
    hostile = called("t1", "Read\x1b[2J", file_path="a\x1b]0;title\x07b\nc")
    watch.look(replace(REQUEST, messages=(text("user", "x\x1b[1m"), hostile)), 0.0)
    watch.answered("model-a", usage(written=5_000), 1.0)
    watch.note(ev.ContextEdited(edits=[], step="snip", text="because\x1b[2J of\nthis"))
    found = watch.look(replace(REQUEST, messages=(text("user", "y"),)), 2.0)
    assert found is not None
    assert found.block.isprintable()
    assert found.reason.isprintable()


@settings(max_examples=2 * EXAMPLES)
@given(st.data())
def test_a_break_is_found_exactly_where_a_known_block_differs(data: st.DataObject) -> None:
    words = st.text("abc", min_size=1, max_size=3)
    old = tuple(
        text("user" if n % 2 == 0 else "assistant", w) for n, w in enumerate(data.draw(st.lists(words, min_size=1)))
    )
    new = list(old) + [text("user", w) for w in data.draw(st.lists(words, max_size=3))]
    place = data.draw(st.none() | st.integers(0, len(old) - 1))
    if place is not None:
        new[place] = text(old[place]["role"], old[place]["content"][0]["text"] + "!")
    watch = CacheWatch()
    watch.look(Request("m", old), 0.0)
    watch.answered("m", usage(written=2_000), 1.0)
    assert (watch.look(Request("m", tuple(new)), 2.0) is None) == (place is None)


def test_watching_a_long_conversation_costs_only_the_new_messages() -> None:
    messages = tuple(text("user" if n % 2 == 0 else "assistant", f"{n} " * 500) for n in range(2_000))
    watch = CacheWatch()
    watch.look(Request("m", messages, SYSTEM, TOOLS), 0.0)
    watch.answered("m", usage(written=1_000_000), 1.0)
    spent = []
    for turn in range(20):
        messages = (*messages, text("user", str(turn)))
        began = time.perf_counter()
        watch.look(Request("m", messages, SYSTEM, TOOLS), 2.0)
        watch.answered("m", usage(read=1_000_000, written=10), 3.0)
        spent.append(time.perf_counter() - began)
    assert sorted(spent)[10] < 0.005


# ------------------------------------------------------------------------------------------------ in the whole engine


def play(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtual(main)


def cached_bench(*replies: Json | str, cache: PromptCache, tools: Any = ()) -> Bench:
    """On an API with a cache, in virtual time."""
    cache.clock = lambda: asyncio.get_running_loop().time()
    transport = caching_transport(*replies, cache=cache, on_request=first_problem)
    return bench(transport=transport, tools=tools)


def test_an_edit_of_old_content_breaks_the_prefix_once_with_its_reason() -> None:
    async def main() -> None:
        cache = PromptCache(least=0)
        tool = FakeTool(output=Output("z" * 40_000))
        b = cached_bench(reply(call("Look", what="far")), "One.", "Two.", "Three.", cache=cache, tools=[tool])
        async with b.engine:
            await b.run("first")
            results = next(m for m in b.engine.messages if m.origin is Origin.TOOL_RESULTS)

            async def dropping() -> Any:
                edit = ContextEdit(kind="replace", target=f"{results.id}:0", text="[cleared]", step="user")
                b.engine.session.view.edit([edit])
                yield ev.ContextEdited(edits=[], step="user", text="you dropped the result of Look far")

            async for _event in b.engine.perform(dropping()):
                pass
            [broken] = only(await b.run("second"), ev.PrefixBroken)
            assert broken.block == "the result of Look in turn 1"
            assert broken.reason == "you dropped the result of Look far"
            assert broken.rebilled_tokens < 100, "what was dropped is not paid for again"
            assert only(await b.run("third"), ev.PrefixBroken) == []

    play(main)


def test_an_idle_hour_is_reported_as_an_expired_cache() -> None:
    async def main() -> None:
        cache = PromptCache()
        b = cached_bench(reply(call("Look")), "One.", "Two.", cache=cache, tools=[FakeTool(output=Output("z" * 9_000))])
        async with b.engine:
            await b.run("first")
            await asyncio.sleep(3_600)
            notices = [n.text for n in only(await b.run("second"), ev.NoticeRaised)]
        assert len(notices) == 1
        assert notices[0].startswith("The prompt cache had gone cold (idle 1 h): 2.4k tokens")

    play(main)


def test_a_picture_that_is_refused_in_the_newest_message_has_broken_nothing() -> None:
    async def main() -> None:
        cache = PromptCache(least=0)
        too_large = fails(400, "messages.2.content.0: image exceeds 5 MB maximum", "invalid_request_error")
        b = cached_bench("One.", too_large, "Two.", cache=cache)
        async with b.engine:
            await b.run("first")
            events = await b.run("look at this")
        assert len(only(events, ev.RequestRepaired)) == 1
        assert only(events, ev.PrefixBroken) == []

    play(main)
