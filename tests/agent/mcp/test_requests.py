"""What MCP servers ask of the session: input of the user, an address to open, replies of the model, folders."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.mcp.requests import CANCELLED, MAX_ASKED, MAX_OPEN, SessionRequests
from agentcli.agent.profile import Profile
from agentcli.core import events as ev
from agentcli.core.aio import AbortReason, AbortSignal
from agentcli.core.messages import Json
from agentcli.core.permission import Answer
from agentcli.mcp.configuration import ServerConfig, ServerSurroundings
from agentcli.mcp.protocol import InputAnswer, InputRequest, McpContent, PromptMessage, SamplingReply, SamplingRequest
from agentcli.mcp.servers import McpServers
from agentcli.tools.base import Output, Progress, ToolContext
from tests.support.fakes import Bench, FakeTool, bench, only, result_of
from tests.support.scripts import call, pause, reply
from tests.support.tables import each_row

pytestmark = pytest.mark.virtual

SCHEMA: Json = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
FORM = InputRequest("small", "Who are you?", SCHEMA)
HELLO = SamplingRequest("small", (PromptMessage("user", McpContent("text", text="Say hello")),), "Be short.", 50)


@dataclass
class AskingTool(FakeTool):
    """A tool whose server asks while it runs."""

    name: str = "Ask"
    work: Callable[[Json], Coroutine[Any, Any, Any]] | None = None
    answers: list[Any] = field(default_factory=list)

    async def run(
        self, input: Json, context: ToolContext, signal: AbortSignal
    ) -> AsyncGenerator[Progress | Output, None]:
        assert self.work is not None
        self.answers.append(await self.work(input))
        yield Output("asked")


@dataclass
class Asked:
    """A session with one tool, and what the server got."""

    bench: Bench
    requests: SessionRequests
    tool: AskingTool
    servers: McpServers

    async def run(self, answer: Callable[[ev.PermissionRequested], Answer | None]) -> list[ev.Event]:
        """One prompt; questions are answered as they come, unless the answer is None."""
        seen: list[ev.Event] = []
        async for event in self.bench.engine.submit("go"):
            seen.append(event)
            if isinstance(event, ev.PermissionRequested) and (said := answer(event)) is not None:
                assert self.bench.engine.answer(event.request_id, said)
        assert self.bench.refused == []
        return seen

    async def once(self, answer: Callable[[ev.PermissionRequested], Answer | None]) -> list[ev.Event]:
        """The same, and close the engine."""
        async with self.bench.engine:
            return await self.run(answer)


def session(
    *replies: Json | str,
    request: Callable[[SessionRequests, Json], Coroutine[Any, Any, Any]] = lambda requests, _input: requests.elicit(
        FORM
    ),
    calls: int = 1,
    budget: float = 0.5,
    **rest: Any,
) -> Asked:
    interactive = rest.pop("interactive", True)
    requests = SessionRequests(interactive=interactive, sampling_budget_usd=budget)
    servers = McpServers([ServerConfig("small", "stdio", command="/none")], ServerSurroundings(Path("/work")), requests)
    tool = AskingTool(work=lambda arguments: request(requests, arguments))
    script = [reply(*(call("Ask", what=str(number)) for number in range(calls))), *replies, "Done."]
    made = bench(*script, tools=[tool], mcp=servers, interactive=interactive, **rest)
    return Asked(made, requests, tool, servers)


def answered(answer: Answer) -> Callable[[ev.PermissionRequested], Answer]:
    return lambda _question: answer


def accept(**content: Any) -> Answer:
    return Answer("allow", updated_input={"content": content})


# ------------------------------------------------------------------------------------------------------------ forms


async def test_a_form_is_asked_in_the_stream_of_the_call_and_its_answer_goes_to_the_server() -> None:
    asked = session()
    events = await asked.once(answered(accept(name="Ada")))
    (question,) = only(events, ev.PermissionRequested)
    assert question.title == "The MCP server small asks for input"
    assert question.display == {"kind": "mcp_form", "server": "small", "message": "Who are you?", "schema": SCHEMA}
    assert only(events, ev.PermissionResolved)[-1].request_id == question.request_id
    assert asked.tool.answers == [InputAnswer("accept", {"name": "Ada"})]
    assert result_of(events).text == "Done."
    assert asked.requests.roots() == asked.bench.engine.session.tool_context.working_dirs


@each_row(
    ("answer", "action"),
    [
        (Answer("deny"), "decline"),
        (CANCELLED, "cancel"),
        (Answer("allow"), "decline"),
        (accept(name=7), "decline"),
        (accept(name="Ada", more="x"), "decline"),
    ],
)
async def test_only_an_answer_that_fits_the_form_is_accepted(answer: Answer, action: str) -> None:
    asked = session()
    await asked.once(answered(answer))
    assert [each.action for each in asked.tool.answers] == [action]
    assert asked.tool.answers[0].content == {}


async def test_a_form_that_cannot_be_shown_is_declined_with_a_reason_in_the_log() -> None:
    nested = InputRequest("small", "Hm", {"properties": {"x": {"type": "object"}}})

    asked = session(request=lambda requests, _input: requests.elicit(nested))
    events = await asked.once(answered(Answer("allow")))
    assert only(events, ev.PermissionRequested) == []
    assert asked.tool.answers == [InputAnswer("decline")]
    server = asked.servers.get("small")
    assert server is not None
    reason = "the field 'x' is not a text, a number, yes or no, or a choice"
    assert list(server.log) == [f"request for input declined: {reason}"]
    assert [each.text for each in only(events, ev.NoticeRaised)] == [
        f"A request for input by the MCP server small was declined: {reason}."
    ]


async def test_without_a_user_nothing_is_claimed_and_everything_is_cancelled() -> None:
    asked = session(interactive=False)
    assert not asked.requests.elicits
    assert not asked.requests.samples
    events = await asked.once(answered(accept(name="Ada")))
    assert only(events, ev.PermissionRequested) == []
    assert asked.tool.answers == [InputAnswer("cancel")]
    assert (await asked.requests.sample(HELLO)).refused


async def test_closing_one_question_cancels_all_that_are_open() -> None:
    asked = session(calls=3)
    questions: list[ev.PermissionRequested] = []

    def close_the_last(question: ev.PermissionRequested) -> Answer | None:
        questions.append(question)
        return CANCELLED if len(questions) == 3 else None

    events = await asked.once(close_the_last)
    assert [each.action for each in asked.tool.answers] == ["cancel"] * 3
    assert len(only(events, ev.PermissionResolved)) == 3


async def test_an_interruption_cancels_the_question() -> None:
    asked = session()

    def stop(_question: ev.PermissionRequested) -> None:
        asked.bench.engine.abort(AbortReason.USER_CANCEL)

    async with asked.bench.engine:
        events = await asked.run(stop)
        assert result_of(events).terminal == "aborted_tools"
    assert asked.tool.answers == [InputAnswer("cancel")]


async def test_a_server_that_asks_again_and_again_is_cut_off_until_the_next_prompt() -> None:
    async def ask_on(requests: SessionRequests, _input: Json) -> list[str]:
        return [(await requests.elicit(FORM)).action for _again in range(MAX_ASKED + 3)]

    asked = session(reply(call("Ask")), "Done.", request=ask_on)
    events = await asked.once(answered(Answer("deny")))
    assert asked.tool.answers == [["decline"] * MAX_ASKED + ["cancel"] * 3, ["cancel"] * (MAX_ASKED + 3)]
    assert len([each for each in only(events, ev.NoticeRaised) if "asked 20 times" in each.text]) == 1


async def test_a_flood_of_questions_at_once_is_bounded() -> None:
    async def flood(requests: SessionRequests, _input: Json) -> list[str]:
        found = await asyncio.gather(*(requests.elicit(FORM) for _each in range(1_000)))
        return [each.action for each in found]

    asked = session(request=flood)
    await asked.once(answered(Answer("deny")))
    (actions,) = asked.tool.answers
    assert actions.count("decline") == MAX_OPEN
    assert actions.count("cancel") == 1_000 - MAX_OPEN


async def test_a_question_between_prompts_reaches_whoever_listens() -> None:
    asked = session()
    questions = asked.bench.engine.session.server_questions
    assert questions is not None
    async with asked.bench.engine:
        assert await asked.requests.elicit(FORM) == InputAnswer("cancel")
        listening = asyncio.create_task(questions.wait_for_events())
        await asyncio.sleep(0)
        waiting = asyncio.create_task(asked.requests.elicit(FORM))
        (question,) = await listening
        assert isinstance(question, ev.PermissionRequested)
        assert asked.bench.engine.answer(question.request_id, accept(name="Ada"))
        assert (await waiting).content == {"name": "Ada"}
        (resolved,) = await questions.wait_for_events()
        assert isinstance(resolved, ev.PermissionResolved)


async def test_a_server_that_goes_away_takes_its_question_back() -> None:
    asked = session()
    questions = asked.bench.engine.session.server_questions
    assert questions is not None
    async with asked.bench.engine:
        listening = asyncio.create_task(questions.wait_for_events())
        await asyncio.sleep(0)
        waiting = asyncio.create_task(asked.requests.elicit(FORM))
        (question,) = await listening
        waiting.cancel()
        await asyncio.wait([waiting])
        (resolved,) = await questions.wait_for_events()
        assert isinstance(question, ev.PermissionRequested)
        assert isinstance(resolved, ev.PermissionResolved)
        assert (resolved.request_id, resolved.behavior) == (question.request_id, "withdrawn")


# -------------------------------------------------------------------------------------------------------- addresses


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "works", "action", "opened"),
    [
        (Answer("allow"), True, "accept", 1),
        (Answer("allow"), False, "cancel", 1),
        (Answer("allow", updated_input={"open": False}), True, "accept", 0),
        (Answer("deny"), True, "decline", 0),
        (CANCELLED, True, "cancel", 0),
    ],
)
async def test_an_address_is_opened_only_after_a_yes(
    answer: Answer, works: bool, action: str, opened: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses: list[str] = []

    def open_address(address: str, _environ: object, _folders: object) -> bool:
        addresses.append(address)
        return works

    request = InputRequest("small", "Sign in", url="https://example.com/x")
    monkeypatch.setattr("agentcli.agent.mcp.requests.open_in_browser", open_address)
    asked = session(request=lambda requests, _input: requests.elicit(request))
    events = await asked.once(answered(answer))
    assert only(events, ev.PermissionRequested)[0].display["url"] == "https://example.com/x"
    assert [each.action for each in asked.tool.answers] == [action]
    assert addresses == ["https://example.com/x"] * opened
    # Whoever opens it, or has to, can copy the address.
    has_address = any("https://example.com/x" in each.text for each in only(events, ev.NoticeRaised))
    assert has_address == (answer.behavior == "allow" and not (opened and works))


async def test_an_address_that_is_not_https_is_declined_without_a_question() -> None:
    request = InputRequest("small", "Look", url="file:///etc/passwd")
    asked = session(request=lambda requests, _input: requests.elicit(request))
    events = await asked.once(answered(Answer("allow")))
    assert only(events, ev.PermissionRequested) == []
    assert asked.tool.answers == [InputAnswer("decline")]


# --------------------------------------------------------------------------------------------------------- sampling


def sampled(*replies: Json | str, request: SamplingRequest = HELLO, times: int = 1, **rest: Any) -> Asked:
    async def sample(requests: SessionRequests, _input: Json) -> list[SamplingReply]:
        return [await requests.sample(request) for _each in range(times)]

    return session(*replies, request=sample, **rest)


async def test_a_reply_of_the_model_is_asked_for_counted_and_made_without_tools_or_thinking() -> None:
    asked = sampled("Hello!")
    async with asked.bench.engine:
        events = await asked.run(answered(Answer("allow")))
        totals = asked.bench.engine.costs.totals
    (question,) = only(events, ev.PermissionRequested)
    shown = question.display
    assert (shown["kind"], shown["server"], shown["system"]) == ("mcp_sampling", "small", "Be short.")
    assert shown["messages"] == [{"role": "user", "text": "Say hello"}]
    assert (shown["model"], shown["max_tokens"]) == ("claude-haiku-5-5", 50)
    assert 0 < shown["most_usd"] < 0.01
    assert asked.tool.answers == [[SamplingReply("Hello!", "claude-haiku-5-5", "endTurn")]]
    sent = asked.bench.requests[1]
    assert sent["model"] == "claude-haiku-5-5"
    assert sent["max_tokens"] == 50
    assert sent["thinking"] == {"type": "disabled"}
    assert "tools" not in sent
    assert totals.by_model["claude-haiku-5-5"].requests == 1


@pytest.mark.parametrize(("answer", "why"), [(Answer("deny"), "declined"), (CANCELLED, "cancelled")])
async def test_without_a_yes_nothing_is_sent(answer: Answer, why: str) -> None:
    asked = sampled()
    await asked.once(answered(answer))
    assert asked.tool.answers[0][0].refused == f"the user {why} the request"
    assert len(asked.bench.requests) == 2


@pytest.mark.parametrize(("scope", "questions"), [("session", 1), ("once", 2)])
async def test_a_yes_is_asked_again_unless_it_is_for_the_session(scope: str, questions: int) -> None:
    asked = sampled("One", "Two", times=2)
    events = await asked.once(answered(Answer("allow", updated_input={"scope": scope})))
    assert len(only(events, ev.PermissionRequested)) == questions
    assert [each.text for each in asked.tool.answers[0]] == ["One", "Two"]


async def test_a_server_that_has_spent_its_budget_gets_no_reply() -> None:
    big = reply("Long", usage={"input_tokens": 100, "output_tokens": 50})
    asked = sampled(big, times=2, budget=0.00003)
    events = await asked.once(answered(Answer("allow", updated_input={"scope": "session"})))
    first, second = asked.tool.answers[0]
    assert first.text == "Long"
    assert "is spent" in second.refused
    assert any("mcp.samplingBudgetUsd" in each.text for each in only(events, ev.NoticeRaised))


async def test_a_reply_is_no_longer_than_the_budget_pays_for() -> None:
    greedy = SamplingRequest("small", HELLO.messages, "", 1_000_000)
    asked = sampled("x", "y", request=greedy, times=1)
    poor = sampled("x", request=greedy, budget=0.0001)
    async with asked.bench.engine, poor.bench.engine:
        await asked.run(answered(Answer("allow")))
        await poor.run(answered(Answer("allow")))
    assert asked.bench.requests[1]["max_tokens"] == 4_096
    assert 0 < poor.bench.requests[1]["max_tokens"] < 200


@pytest.mark.parametrize(
    "messages",
    [
        (PromptMessage("user", McpContent("text", text="ߞ ߋ" * 20_000)),),
        (*HELLO.messages, *[PromptMessage("user", McpContent("image", mime_type="image/png", data="aaaa"))] * 25),
    ],
    ids=["rare letters", "images"],
)
async def test_a_prompt_of_more_tokens_than_it_seems_is_asked_about_although_its_server_is_allowed(
    messages: tuple[PromptMessage, ...],
) -> None:
    async def sample(requests: SessionRequests, _input: Json) -> list[SamplingReply]:
        hostile = SamplingRequest("small", messages, "", 1)
        return [await requests.sample(request) for request in (HELLO, HELLO, hostile)]

    asked = session("One", "Two", "Three", request=sample, budget=0.05)
    events = await asked.once(answered(Answer("allow", updated_input={"scope": "session"})))
    assert [len(question.display["messages"]) for question in only(events, ev.PermissionRequested)] == [
        1,
        len(messages),
    ]


async def test_requests_at_the_same_time_spend_no_more_than_the_budget() -> None:
    big = reply("Long", usage={"input_tokens": 100, "output_tokens": 50})

    async def sample(requests: SessionRequests, _input: Json) -> list[SamplingReply]:
        return await asyncio.gather(*(requests.sample(HELLO) for _each in range(20)))

    asked = session(big, request=sample, budget=0.00003)
    await asked.once(answered(Answer("allow", updated_input={"scope": "session"})))
    assert [each.text for each in asked.tool.answers[0] if not each.refused] == ["Long"]


async def test_a_model_without_a_price_is_asked_about_each_time() -> None:
    profile = Profile(model="own-model", small_model="own-model", system=("Be good.",))
    asked = sampled("One", "Two", times=2, profile=profile)
    events = await asked.once(answered(Answer("allow", updated_input={"scope": "session"})))
    assert len(only(events, ev.PermissionRequested)) == 2
    assert only(events, ev.PermissionRequested)[0].display["most_usd"] is None


@each_row(
    ("hints", "model"),
    [
        ((), "claude-haiku-5-5"),
        (("claude-3-sonnet",), "claude-sonnet-5-5"),
        (("gpt-7", "sonnet"), "claude-sonnet-5-5"),
        (("haiku", "sonnet"), "claude-haiku-5-5"),
        (("claude",), "claude-haiku-5-5"),
    ],
)
async def test_hints_choose_between_the_small_model_and_the_sessions(hints: tuple[str, ...], model: str) -> None:
    asked = sampled(request=SamplingRequest("small", HELLO.messages, "", 50, hints))
    events = await asked.once(answered(Answer("deny")))
    assert only(events, ev.PermissionRequested)[0].display["model"] == model


@each_row(
    "messages",
    [
        (),
        (PromptMessage("assistant", McpContent("text", text="I begin")),),
        (*HELLO.messages, PromptMessage("assistant", McpContent("text", text="I"))),
        (PromptMessage("user", McpContent("audio", data="AAAA", mime_type="audio/wav")),),
        (PromptMessage("user", McpContent("text", text="a" * 500_000)),),
    ],
)
async def test_messages_that_cannot_be_sent_are_refused_without_a_question(messages: tuple[PromptMessage, ...]) -> None:
    asked = sampled(request=SamplingRequest("small", messages))
    events = await asked.once(answered(Answer("allow")))
    assert only(events, ev.PermissionRequested) == []
    assert asked.tool.answers[0][0].refused


async def test_an_interruption_stops_the_model_and_the_server_gets_an_error() -> None:
    asked = sampled(reply("Hel", pause(60), "lo"))

    def allow(_question: ev.PermissionRequested) -> Answer:
        asyncio.get_running_loop().call_later(5, asked.bench.engine.abort)
        return Answer("allow")

    async with asked.bench.engine:
        await asked.run(allow)
        assert asked.bench.engine.costs.totals.by_model["claude-haiku-5-5"].requests == 1
    assert asked.tool.answers[0][0].refused == "the user cancelled the request"


# ---------------------------------------------------------------------------------------------- with a real server
