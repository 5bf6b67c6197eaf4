"""The cache watch: which block broke the prefix, why, and its cost; no notice while nothing breaks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.agent.costs.cache_watch import UNKNOWN, CacheWatch
from agentcli.context.edits import ContextEdit
from agentcli.core import events as ev
from agentcli.core.messages import Json, Origin
from agentcli.core.usage import Usage
from agentcli.providers.base import Request, Thinking
from agentcli.tools.base import Output
from tests.support.cacheserver import PromptCache, caching_transport
from tests.support.examples import EXAMPLES
from tests.support.fakes import Bench, FakeTool, bench, only
from tests.support.scripts import call, reply
from tests.support.tables import each_row
from tests.support.validate import first_problem

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


def usage(read: int = 0, written: int = 0, fresh: int = 0) -> Usage:
    return Usage(input_tokens=fresh, cache_read_input_tokens=read, cache_write_5m_tokens=written)


def watched(cached: int = 10_000) -> CacheWatch:
    """After a first request that left so many tokens in the cache."""
    watch = CacheWatch()
    assert ask(watch, REQUEST, usage(written=cached), at=0.0) == []
    return watch


def ask(watch: CacheWatch, request: Request, used: Usage, *, at: float = 2.0, answering: str = "") -> list[ev.Event]:
    watch.sent(request, at)
    return watch.answered(answering or request.model, used, at + 1.0)


def break_in(watch: CacheWatch, request: Request, used: Usage | None = None) -> ev.PrefixBroken:
    [found] = ask(watch, request, used or usage(written=10_000))
    assert isinstance(found, ev.PrefixBroken)
    return found


def notice_in(watch: CacheWatch, request: Request, used: Usage, *, at: float) -> str:
    [found] = ask(watch, request, used, at=at)
    assert isinstance(found, ev.NoticeRaised)
    assert found.code == "cache"
    return found.text


def grown(*more: Json, **changes: Any) -> Request:
    return replace(REQUEST, messages=(*MESSAGES, *more), **changes)


MORE = (text("assistant", "Done."), text("user", "Thanks."))
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
    found = break_in(watch, request_)
    assert (found.block, found.reason) == (block, reason)
    assert ask(watch, request_, usage(read=10_000), at=4.0) == [], "a break is told once"


def test_the_reason_comes_from_an_event_since_the_last_request() -> None:
    watch = watched()
    watch.note(ev.ContextEdited(edits=[], step="microcompact", text="cleared 12 old results"))
    watch.note(ev.ContextEdited(agent="helper", edits=[], step="snip", text="somebody else's"))
    watch.note(ev.PrefixBroken(reason="microcompact: cleared 12 old results"))
    found = break_in(watch, replace(REQUEST, messages=(*MESSAGES[:2], result("t1", "-"), *MESSAGES[3:])))
    assert found.reason == "cleared 12 old results", "said once, however many say it"
    assert break_in(watch, REQUEST).reason == UNKNOWN, "a reason explains one break"


def test_rebilled_tokens_are_those_sent_again_and_not_read() -> None:
    """9,000 of the 10,000 tokens are the large result. Once it is cleared it is no longer billed; content
    after it is billed again, and the new tail is not counted."""
    cleared = replace(REQUEST, messages=(*MESSAGES[:2], result("t1", "-"), *MESSAGES[3:]))
    assert break_in(watched(), cleared, usage(read=900, written=100)).rebilled_tokens <= 100
    again = break_in(watched(), grown(*MORE, effort="low"), usage(written=10_100))
    assert again.rebilled_tokens == pytest.approx(10_000, abs=50)


@pytest.mark.parametrize("request_", [grown(*MORE), replace(REQUEST, messages=(*MESSAGES[:3], *MORE))])
def test_a_cold_cache_is_reported_with_the_idle_time_and_is_no_break(request_: Request) -> None:
    """Old results are cleared at that time because it costs nothing."""
    watch = watched()
    assert not watch.cold(300.0)
    assert watch.cold(301.0)
    watch.note(ev.ContextEdited(edits=[], step="microcompact", text="cleared 1 old result"))
    told = notice_in(watch, request_, usage(written=10_020), at=1_201.0)
    assert told.startswith("The prompt cache had gone cold (idle 20 min): ")
    assert (watch.losses.breaks, watch.losses.expiries) == (0, 1)


def test_a_cache_that_lives_an_hour_is_not_cold_after_twenty_minutes() -> None:
    watch = CacheWatch()
    ask(watch, REQUEST, Usage(cache_write_1h_tokens=10_000), at=0.0)
    # An edit of the newest content does not explain a lost cache.
    watch.note(ev.ContextEdited(edits=[], step="budget", text="moved 1 large result to a file"))
    assert not watch.cold(1_201.0)
    told = notice_in(watch, grown(*MORE), usage(written=10_020), at=1_201.0)
    assert told.startswith("The server dropped the prompt cache")


def test_another_model_that_answers_is_the_reason() -> None:
    [told] = ask(watched(), grown(*MORE), usage(written=10_020), answering="model-b")
    assert isinstance(told, ev.PrefixBroken)
    assert (told.block, told.reason) == ("the model", "model-b answered instead of model-a")


def test_a_parameter_that_the_endpoint_refused_is_the_reason() -> None:
    watch = watched()
    watch.note(ev.FeatureDropped(feature="effort", text="The endpoint does not support effort levels"))
    told = break_in(watch, grown(*MORE), usage(written=10_020))
    assert told.reason == "The endpoint does not support effort levels"


def test_an_endpoint_without_a_cache_gets_no_cache_notices() -> None:
    watch = CacheWatch()
    for number in range(3):
        assert ask(watch, grown(*MORE * number), usage(fresh=50_000), at=float(number)) == []


def test_a_compaction_is_not_reported_as_a_cache_break() -> None:
    watch = watched()
    watch.note(ev.ContextCompacted(trigger="auto", tokens_before=10_000, tokens_after=500))
    assert ask(watch, replace(REQUEST, messages=(text("user", "Summary."),)), usage(read=300, written=200)) == []


def test_control_characters_in_a_notice_cannot_move_the_cursor() -> None:
    watch = CacheWatch()
    hostile = called("t1", "Read\x1b[2J", file_path="a\x1b]0;title\x07b\nc")
    ask(watch, replace(REQUEST, messages=(text("user", "x\x1b[1m"), hostile)), usage(written=5_000), at=0.0)
    watch.note(ev.ContextEdited(edits=[], step="snip", text="because\x1b[2J of\nthis"))
    found = break_in(watch, replace(REQUEST, messages=(text("user", "y"),)))
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
    ask(watch, Request("m", old), usage(written=2_000), at=0.0)
    assert (ask(watch, Request("m", tuple(new)), usage(read=2_000)) == []) == (place is None)


# ------------------------------------------------------------------------------------------------ in the whole engine


def cached_bench(*replies: Json | str, cache: PromptCache, tools: Any = ()) -> Bench:
    """On an API with a cache, in virtual time."""
    cache.clock = lambda: asyncio.get_running_loop().time()
    transport = caching_transport(*replies, cache=cache, on_request=first_problem)
    return bench(transport=transport, tools=tools)


@pytest.mark.virtual
async def test_an_edit_of_old_content_breaks_the_prefix_once_with_its_reason() -> None:
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
