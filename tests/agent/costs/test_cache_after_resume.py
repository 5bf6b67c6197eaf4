"""The prompt cache of a resumed session: digests in its file tell a later process what changed in the meantime."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.costs.cache_watch import (
    CacheWatch,
    Fingerprints,
    Front,
    find_change_since_closed,
    front_from,
)
from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.core import events as ev
from agentcli.core.messages import Json, Message, Origin, TextBlock
from agentcli.core.usage import Usage
from agentcli.providers.base import Request, Thinking
from tests.support.cacheserver import PromptCache, caching_transport
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
    assert find_change_since_closed(front_of(), front_of(request_now)) == (block, reason)


def test_changed_instructions_are_named_and_unchanged_ones_are_not() -> None:
    assert find_change_since_closed(front_of(), front_of(context="Write poems.")) == (
        "the instructions before all messages",
        LEFT_OTHERWISE,
    )
    equal = replace(REQUEST, tools=tuple(dict(tool) for tool in TOOLS), system=(*REQUEST.system,), max_tokens=9)
    assert find_change_since_closed(front_of(), front_of(equal)) is None
    budget = replace(REQUEST, thinking=Thinking("adaptive", 5_000))
    assert find_change_since_closed(front_of(), front_of(budget)) is None, "adaptive thinking has no budget"


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
        told = find_change_since_closed(front, front_of())
        # Characters that are not assigned yet do nothing to a terminal.
        assert not {unicodedata.category(c) for c in "".join(told or ())} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


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


# ----------------------------------------------------------------------------------------------- in the session file


def engine_in(folder: Path, *replies: str, cache: PromptCache, **options: Any) -> Engine:
    for name in ("home", "work"):
        (folder / name).mkdir(exist_ok=True)
    environ = {"HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"}
    provider = provider_on(caching_transport(*replies, cache=cache))
    made = Options(cwd=folder / "work", environ=environ, provider=provider, **{"sandbox": "off", **options})
    return build_engine(made)
