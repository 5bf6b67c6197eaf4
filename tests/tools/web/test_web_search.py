"""WebSearch: a side request with the API's search tool, alone and through the engine over real HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentcli.assemble import Options, build_engine
from agentcli.core import events as ev
from agentcli.core.aio import AbortController, AbortSignal
from agentcli.core.messages import Block, Json, TextBlock, UnknownBlock
from agentcli.core.permission import PermissionMode
from agentcli.tools.base import SmallReply
from agentcli.tools.web.websearch import VERSIONS, WebSearch
from tests.support.fakes import collect, only, result_of
from tests.support.scripts import call, event, reply, say
from tests.support.server import LoopbackServer
from tests.tools.running import context_in, run, text_of

pytestmark = pytest.mark.anyio


def searched(*urls: str, error: str | None = None) -> tuple[Block, ...]:
    content: Any = [
        {"type": "web_search_result", "url": u, "title": f"Title of {u}", "encrypted_content": "x"} for u in urls
    ]
    if error is not None:
        content = {"type": "web_search_tool_result_error", "error_code": error}
    return (
        UnknownBlock({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}),
        UnknownBlock({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": content}),
    )


@dataclass
class Searcher:
    replies: list[SmallReply]
    tools: list[Json] = field(default_factory=list)

    async def ask(
        self, system: str, prompt: str, signal: AbortSignal, server_tools: tuple[Json, ...] = ()
    ) -> SmallReply:
        self.tools += server_tools
        return self.replies.pop(0)


async def search(tmp_path: Path, *replies: SmallReply, **input: Any) -> tuple[Any, Searcher]:
    searcher = Searcher(list(replies))
    output = await run(WebSearch(), context_in(tmp_path, small_model=searcher), **{"query": "python 3.15", **input})
    return output, searcher


async def test_results_have_their_sources(tmp_path: Path) -> None:
    cited = TextBlock("It is out.", ({"url": "https://b.example/", "title": "B"},))
    blocks = (*searched("https://a.example/", "https://b.example/"), cited)
    output, searcher = await search(tmp_path, SmallReply("It is out.", blocks=blocks))
    text = text_of(output)
    assert "It is out." in text
    assert "not as instructions" in text
    assert text.index("https://b.example/") < text.index("https://a.example/"), "what is cited comes first"
    assert output.summary == "2 sources, 1 search"
    assert output.display["kind"] == "search"
    assert [item["url"] for item in output.structured["results"]] == ["https://b.example/", "https://a.example/"]
    (tool,) = searcher.tools
    assert tool == {"type": VERSIONS[0], "name": "web_search", "max_uses": 5, "allowed_callers": ["direct"]}


async def test_domains_are_passed_on_without_a_scheme(tmp_path: Path) -> None:
    found = SmallReply("x", blocks=searched("https://a.example/"))
    _output, searcher = await search(tmp_path, found, allowed_domains=["https://docs.python.org/", "a.example/b"])
    assert searcher.tools[0]["allowed_domains"] == ["docs.python.org", "a.example/b"]
    assert "blocked_domains" not in searcher.tools[0]


def test_allowed_and_blocked_domains_together_are_refused(tmp_path: Path) -> None:
    given = {"query": "x y", "allowed_domains": ["a.com"], "blocked_domains": ["b.com"]}
    assert WebSearch().check(given, context_in(tmp_path)) == "Give allowed_domains or blocked_domains, not both."
    assert WebSearch().check({"query": "  "}, context_in(tmp_path)) == "The query is empty."
    assert WebSearch().title({"query": "a\nb"}) == "Search the web: a b"
    (need,) = WebSearch().needs({"query": "x"}, context_in(tmp_path))
    assert (need.kind, need.target) == ("fetch", "search:x")


async def test_an_older_version_of_the_tool_is_tried_when_the_endpoint_does_not_know_the_newest(tmp_path: Path) -> None:
    unknown = SmallReply("", "tools.0: Input tag 'web_search_20260318' does not match any of the expected tags")
    found = SmallReply("old", blocks=searched("https://a.example/"))
    output, searcher = await search(tmp_path, unknown, unknown, found)
    assert [tool["type"] for tool in searcher.tools] == list(VERSIONS)
    assert "allowed_callers" not in searcher.tools[-1]
    assert "old" in text_of(output)


@pytest.mark.parametrize(
    ("replies", "says"),
    [
        ([SmallReply("", "web search is not enabled for this organization")] * 3, "This endpoint has no web search"),
        ([SmallReply("", "overloaded")], "The search failed: overloaded"),
        ([SmallReply("I know that by heart.")], "answered without searching"),
        ([SmallReply("", blocks=searched(error="too_many_requests"))], "failed: too many requests"),
    ],
)
async def test_search_errors_are_reported(tmp_path: Path, replies: list[SmallReply], says: str) -> None:
    output, _searcher = await search(tmp_path, *replies)
    assert output.is_error
    assert says in text_of(output)


async def test_a_missing_model_is_reported_and_an_abort_ends_the_search(tmp_path: Path) -> None:
    output = await run(WebSearch(), context_in(tmp_path), query="xx")
    assert output.is_error
    controller = AbortController()
    controller.abort()
    searcher = Searcher([SmallReply("", "aborted")])
    stopped = await run(WebSearch(), context_in(tmp_path, small_model=searcher), controller.signal, query="xx")
    assert stopped.summary == "stopped"


def block_events(index: int, block: Json) -> list[Json]:
    return [
        event({"type": "content_block_start", "index": index, "content_block": block}),
        event({"type": "content_block_stop", "index": index}),
    ]


SEARCH_STEPS = [
    *block_events(0, {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}),
    *block_events(
        1,
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [
                {"type": "web_search_result", "url": "https://a.example/", "title": "A", "encrypted_content": "x"}
            ],
        },
    ),
]


async def engine_events(tmp_path: Path, *replies: Json) -> tuple[list[ev.Event], list[Json]]:
    async with LoopbackServer(*replies) as server:
        options = Options(
            cwd=tmp_path,
            environ={"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url, "HOME": str(tmp_path)},
            permission_mode=PermissionMode.BYPASS,
            persist=False,
        )
        async with build_engine(options) as engine:
            events = await collect(engine.submit("go"))
        return events, server.bodies


async def test_a_search_is_a_request_of_its_own_whose_cost_is_counted(tmp_path: Path) -> None:
    usage = {"server_tool_use": {"web_search_requests": 1}}
    events, bodies = await engine_events(
        tmp_path,
        reply(call("WebSearch", query="what is new")),
        reply(*SEARCH_STEPS, say("This is new."), usage=usage),
        reply(say("Done.")),
    )
    assert result_of(events).text == "Done."
    (finished,) = only(events, ev.ToolFinished)
    assert not finished.result.is_error, finished.result.text
    assert "This is new." in finished.result.text
    assert "https://a.example/" in finished.result.text
    main, side, _last = bodies
    assert side["tools"] == [{"type": VERSIONS[0], "name": "web_search", "max_uses": 5, "allowed_callers": ["direct"]}]
    assert side["model"] != main["model"]
    reported = only(events, ev.UsageReported)
    assert [event.purpose for event in reported] == ["turn", "tool", "turn"]
    assert [event.usage.web_search_requests for event in reported] == [0, 1, 0]
    assert reported[1].cost_usd > 0.01, "a search has a price of its own"


async def test_a_paused_search_is_continued(tmp_path: Path) -> None:
    events, bodies = await engine_events(
        tmp_path,
        reply(call("WebSearch", query="what is new")),
        reply(say("Looking. "), *[_shifted(step) for step in SEARCH_STEPS], stop_reason="pause_turn"),
        reply(say("This is new.")),
        reply(say("Done.")),
    )
    (finished,) = only(events, ev.ToolFinished)
    assert "Looking. This is new." in finished.result.text
    continued = bodies[2]["messages"]
    assert [message["role"] for message in continued] == ["user", "assistant"]
    assert [block["type"] for block in continued[1]["content"]] == ["text", "server_tool_use", "web_search_tool_result"]


def _shifted(step: Json) -> Json:
    return event({**step["event"], "index": step["event"]["index"] + 1})
