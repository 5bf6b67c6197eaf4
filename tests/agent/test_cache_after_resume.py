"""The prompt cache of a resumed session: digests in its file tell a later process what changed in the meantime."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli import __version__
from agentcli.agent.costs.cache_watch import (
    CacheWatch,
    Fingerprints,
    Front,
    Setup,
    changed_since_closed,
    front_from,
)
from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.core import events as ev
from agentcli.core.messages import Json, Message, Origin, TextBlock
from agentcli.core.usage import Usage
from agentcli.providers.base import Request, Thinking
from tests.support.cacheserver import PromptCache, caching_transport
from tests.support.fakes import collect, only, result_of
from tests.support.scripts import provider_on
from tests.support.tables import each_row

TOOLS: tuple[Json, ...] = ({"name": "Read", "description": "r" * 400}, {"name": "Grep", "description": "g" * 400})
REQUEST = Request("model-a", (), ("You are good. " * 100, "Where you are. " * 100), TOOLS, effort="high")
CONTEXT = "Write no secrets."
LEFT_OTHERWISE = "it has changed since the session was closed"


def front_of(request: Request = REQUEST, context: str = CONTEXT) -> Front:
    return Fingerprints().front(request, request.model, context)


GREP_CHANGED = replace(REQUEST, tools=(TOOLS[0], {**TOOLS[1], "description": "finds"}))
PART_CHANGED = replace(REQUEST, system=(REQUEST.system[0], "Elsewhere."))


@each_row(
    ("request_now", "block", "reason"),
    [
        (replace(REQUEST, effort=None), "the effort", "it was changed from high to auto"),
        (GREP_CHANGED, "the tool Grep", LEFT_OTHERWISE),
        (replace(REQUEST, tools=TOOLS[:1]), "the tool Grep", "it was removed"),
        (replace(REQUEST, tools=(*TOOLS, {"name": "New"})), "the tool New", "it was added"),
        (replace(REQUEST, tools=TOOLS[::-1]), "the order of the tools", LEFT_OTHERWISE),
        (replace(REQUEST, system=("Be bad.", REQUEST.system[1])), "the system prompt", LEFT_OTHERWISE),
        (PART_CHANGED, "part 2 of the system prompt", LEFT_OTHERWISE),
        (
            replace(REQUEST, thinking=Thinking("disabled")),
            "the thinking setting",
            "it was changed from adaptive to disabled",
        ),
    ],
)
def test_each_change_is_named(request_now: Request, block: str, reason: str) -> None:
    assert changed_since_closed(front_of(), front_of(request_now)) == (block, reason)


def test_changed_instructions_are_named_and_unchanged_ones_are_not() -> None:
    assert changed_since_closed(front_of(), front_of(context="Write poems.")) == (
        "the instructions before all messages",
        LEFT_OTHERWISE,
    )
    equal = replace(REQUEST, tools=tuple(dict(tool) for tool in TOOLS), system=(*REQUEST.system,), max_tokens=9)
    assert changed_since_closed(front_of(), front_of(equal)) is None
    budget = replace(REQUEST, thinking=Thinking("adaptive", 5_000))
    assert changed_since_closed(front_of(), front_of(budget)) is None, "adaptive thinking has no budget"


def test_several_changes_are_one_reason_that_names_some() -> None:
    changed = replace(REQUEST, tools=(), system=("Other.",), effort="low", thinking=Thinking("disabled"))
    told = changed_since_closed(front_of(), front_of(changed, ""))
    assert told == (
        "the effort",
        "it was changed from high to low; also changed: the tool Read, the tool Grep, the system prompt and 2 more",
    )


def test_an_update_is_the_reason_for_other_tools_and_not_for_another_effort() -> None:
    before = replace(front_of(), version="0.0.1")
    updated = f"agentcli was updated from 0.0.1 to {__version__}"
    assert changed_since_closed(before, front_of(GREP_CHANGED)) == ("the tool Grep", updated)
    effort = changed_since_closed(before, front_of(replace(REQUEST, effort="low")))
    assert effort == ("the effort", "it was changed from high to low")


def test_a_fingerprint_holds_no_texts_and_survives_the_session_file() -> None:
    front = front_of()
    line = json.dumps(front.to_dict())
    assert front_from(json.loads(line)) == front
    for text in ("good", "Where", "secrets", "rrr"):
        assert text not in line
    assert len(line) < 400


JUNK: st.SearchStrategy[Any] = st.none() | st.text() | st.integers() | st.lists(st.text() | st.integers())
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "model": JUNK,
    "effort": st.just("high") | JUNK,
    "thinking": st.just({"mode": "adaptive", "budget": None}) | JUNK,
    "tools": st.lists(st.tuples(st.text(), st.text())) | JUNK,
    "system": st.lists(st.text()) | JUNK,
    "context": JUNK,
}


@given(st.fixed_dictionaries({}, optional=FIELDS) | st.fixed_dictionaries(FIELDS), st.text())
def test_any_record_loads_as_a_fingerprint_or_none(found: Json, version: str) -> None:
    front = front_from(found, version)
    if front is not None:
        told = changed_since_closed(front, front_of())
        # Characters that are not assigned yet do nothing to a terminal.
        assert not {unicodedata.category(c) for c in "".join(told or ())} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


def test_names_in_a_file_cannot_move_the_cursor() -> None:
    hostile = {**front_of().to_dict(), "model": "m\x1b[2J", "tools": [["Read\x1b]0;x\x07\n", "1"]]}
    front = front_from(hostile, "1\x1b[1m")
    assert front is not None
    told = changed_since_closed(front, front_of())
    assert told is not None
    assert all(text.isprintable() for text in (*told, front.model, front.version))


# ------------------------------------------------------------------------------------------------------ in the watch

SAID = Message(
    "assistant",
    (TextBlock("Hi."),),
    "m1",
    Origin.REPLY,
    usage=Usage(cache_read_input_tokens=8_000, cache_write_5m_tokens=2_000),
)


def gone_on(
    request: Request, before: Front | None = None, at: float = 0.0, context: str = CONTEXT, **done: Any
) -> CacheWatch:
    watch = CacheWatch()
    watch.keep_fronts(lambda: context, lambda _front: None)
    watch.resume([SAID], before or front_of(), at, **done)
    watch.compare_front(request)
    watch.sent(replace(request, messages=({"role": "user", "content": "Go on."},)), 0.0)
    return watch


def setup_of(request: Request) -> Setup:
    return Setup(request.model, request.effort, request.thinking)


def test_the_cache_estimate_accounts_for_changes_before_the_messages() -> None:
    cases = (
        (REQUEST, 10_000),
        (replace(REQUEST, effort="low"), 0),
        (GREP_CHANGED, 0),
        (PART_CHANGED, 0),
        (replace(REQUEST, thinking=Thinking("disabled")), 4_000),
    )
    for request, expected in cases:
        assert gone_on(request).expected(setup_of(request), 1.0, head=4_000) == expected
    assert gone_on(REQUEST, context="Other.").expected(setup_of(REQUEST), 1.0, head=4_000) == 4_000
    assert gone_on(GREP_CHANGED).cold(1.0), "it is of no use any more: old content can change for nothing"
    assert gone_on(GREP_CHANGED).seconds_left(1.0) is None
    low = gone_on(replace(REQUEST, effort="low"))
    assert not low.cold(1.0)
    assert low.expected(setup_of(REQUEST), 1.0, head=4_000) == 10_000, "with the effort of before it is of use again"


def test_the_first_cache_miss_after_a_resume_names_the_change_and_its_cost() -> None:
    [told] = gone_on(GREP_CHANGED).answered("model-a", Usage(cache_write_5m_tokens=10_100), 1.0)
    assert isinstance(told, ev.PrefixBroken)
    assert (told.block, told.reason, told.rebilled_tokens) == ("the tool Grep", LEFT_OTHERWISE, 10_000)
    little = Usage(cache_read_input_tokens=9_500, cache_write_5m_tokens=600)
    [told] = gone_on(PART_CHANGED).answered("model-a", little, 1.0)
    assert isinstance(told, ev.PrefixBroken)
    assert told.rebilled_tokens == 500, "a change that is known is told however little it cost"
    assert gone_on(REQUEST).answered("model-a", little, 1.0) == []
    read = Usage(cache_read_input_tokens=10_000)
    assert gone_on(replace(REQUEST, effort="low")).answered("model-a", read, 1.0) == [], "the model takes no effort"


@pytest.mark.parametrize(
    ("request_", "at", "said"),
    [
        (GREP_CHANGED, -400.0, "The prompt cache had gone cold (idle 6 min 40 s): 10k tokens were billed again."),
        (REQUEST, -100.0, "The server dropped the prompt cache: 10k tokens were billed again."),
    ],
)
def test_a_lost_cache_is_reported_without_a_break(request_: Request, at: float, said: str) -> None:
    watch = gone_on(request_, at=at)
    [told] = watch.answered("gateway/its-own-name", Usage(cache_write_5m_tokens=10_100), 1.0)
    assert isinstance(told, ev.NoticeRaised), "a server's own name for the same model is no change"
    assert told.text == said
    assert watch.losses.expiries == 1
    assert gone_on(REQUEST, at=at).answered("model-a", Usage(cache_read_input_tokens=10_000), 1.0) == []


@pytest.mark.parametrize(
    ("request_", "answering"),
    [(replace(REQUEST, fallback_models=("model-b",)), "model-b"), (replace(REQUEST, model="model-b"), "model-b")],
)
def test_resuming_with_another_model_names_it_as_the_reason(request_: Request, answering: str) -> None:
    [told] = gone_on(request_).answered(answering, Usage(cache_write_5m_tokens=10_100), 1.0)
    assert isinstance(told, ev.PrefixBroken)
    assert (told.block, told.reason) == ("the model", "it was changed from model-a to model-b")


def test_content_compacted_or_dropped_before_leaving_is_not_expected_in_the_cache() -> None:
    watch = gone_on(REQUEST, compacted=True)
    assert watch.expected(setup_of(REQUEST), 0.0, 500) == 500
    used = Usage(cache_read_input_tokens=500, cache_write_5m_tokens=4_000)
    assert watch.answered("model-a", used, 1.0) == []
    watch = gone_on(REQUEST, freed=6_000)
    watch.explain("you dropped it")
    assert watch.expected(setup_of(REQUEST), 0.0, 500) == 4_000
    [told] = watch.answered("model-a", Usage(cache_read_input_tokens=1_000, cache_write_5m_tokens=9_000), 1.0)
    assert isinstance(told, ev.PrefixBroken)
    assert (told.reason, told.rebilled_tokens) == ("you dropped it", 3_000)


def test_a_fingerprint_is_saved_only_when_it_changed() -> None:
    kept: list[Front] = []
    watch = CacheWatch()
    watch.keep_fronts(lambda: CONTEXT, kept.append)
    low = replace(REQUEST, effort="low")
    for request in (REQUEST, REQUEST, low, low, REQUEST):
        watch.sent(replace(request, messages=({"role": "user", "content": "x"},)), 0.0)
        watch.answered("model-a", Usage(cache_write_5m_tokens=2_000), 0.5)
    assert [front.effort for front in kept] == ["high", "low", "high"]


# ----------------------------------------------------------------------------------------------- in the session file


def engine_in(folder: Path, *replies: str, cache: PromptCache, **options: Any) -> Engine:
    for name in ("home", "work"):
        (folder / name).mkdir(exist_ok=True)
    environ = {"HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"}
    provider = provider_on(caching_transport(*replies, cache=cache))
    made = Options(cwd=folder / "work", environ=environ, provider=provider, **{"sandbox": "off", **options})
    return build_engine(made)


def fronts_in(folder: Path) -> list[Json]:
    [path] = folder.rglob("*.jsonl")
    records = map(json.loads, path.read_text().splitlines())
    return [record["front"] for record in records if record["type"] == "request-front"]


@pytest.mark.anyio
async def test_a_session_file_keeps_one_fingerprint_across_processes_while_nothing_changes(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "AGENTS.md").write_text("Speak of the kingfisher.\n")
    cache = PromptCache()
    async with engine_in(tmp_path, "One.", "Two.", cache=cache) as engine:
        for prompt in ("one", "two"):
            session = result_of(await collect(engine.submit(prompt))).session_id
    async with engine_in(tmp_path, "Three.", cache=cache, resume=session) as engine:
        await collect(engine.submit("three"))
    [front] = fronts_in(tmp_path)
    assert front["context"], "there are instructions"
    assert "kingfisher" not in json.dumps(front)
    assert dict(front["tools"]).keys() >= {"Read", "Grep"}
    async with engine_in(tmp_path, "Four.", cache=cache, resume=session, effort="low") as engine:
        await collect(engine.submit("four"))
    assert [front["effort"] for front in fronts_in(tmp_path)] == [None, "low"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("before", "after", "block"),
    [
        ({"effort": "high"}, {"effort": "low"}, "the effort"),
        ({}, {"disallowed_tools": ("Grep",)}, "the tool Grep"),
        ({}, {"append_system_prompt": "Be brief."}, "the system prompt"),
        ({}, {"thinking": "disabled", "model": "sonnet"}, "the thinking setting"),
        ({"model": "haiku"}, {"model": "sonnet"}, "the model"),
    ],
)
async def test_after_a_resume_the_estimate_matches_the_bill(
    tmp_path: Path, before: dict[str, Any], after: dict[str, Any], block: str
) -> None:
    cache = PromptCache()
    before = {"model": "sonnet", **before}
    async with engine_in(tmp_path, "One. " * 2_000, "Two.", cache=cache, **before) as engine:
        for prompt in ("one", "two"):
            session = result_of(await collect(engine.submit(prompt))).session_id
    for fork in (True, False):
        async with engine_in(tmp_path, "Three.", cache=cache, resume=session, fork_session=fork, **before) as engine:
            assert engine.context.outlook().cached_tokens == cache.readings[1].prompt, "as it was left"
    async with engine_in(tmp_path, "Three.", cache=cache, resume=session, **after) as engine:
        outlook = engine.context.outlook()
        [broken] = only(await collect(engine.submit("three")), ev.PrefixBroken)
    assert broken.block == block
    assert outlook.cached_tokens == pytest.approx(cache.readings[-1].read, rel=0.3), "an estimate, not counted"
    assert (outlook.cached_tokens == 0) == (block != "the thinking setting")
    assert broken.rebilled_tokens == pytest.approx(cache.readings[1].prompt - cache.readings[-1].read, rel=0.2)
