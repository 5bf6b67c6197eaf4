"""The advisor in the assembled program."""

from __future__ import annotations

import pytest

from tests.agent.test_advisor import ADVICE, ADVISOR, TOOL, advised
from tests.e2e.program import Program
from tests.support.server import LoopbackServer
from tests.support.validate import problems

pytestmark = pytest.mark.anyio


async def test_the_advisor_is_offered_counted_shown_and_sent_back_after_a_resume(program: Program) -> None:
    async with LoopbackServer(advised(ADVICE), "Again.", "Without.") as server:
        program.talk_to(server.url)
        arguments = ("--model", "sonnet", "--output-format", "stream-json", "--verbose")
        first = await program.run("-p", "hi", "--advisor", "opus", *arguments)
        assert first.code == 0, first.err
        used = first.frames[-1]["modelUsage"]
        assert (used[ADVISOR]["inputTokens"], used[ADVISOR]["outputTokens"]) == (2_000, 300)
        assert used["claude-sonnet-5-5"]["outputTokens"] == 500
        assert f"Advice from {ADVISOR}: Use a lock." in first.err + first.out
        await program.run("-p", "on", "-c", "--settings", '{"advisorModel": "opus"}', *arguments)
        await program.run("-p", "on", "-c", *arguments)
    assert [TOOL in body["tools"] for body in server.bodies] == [True, True, False]
    betas = [request.headers.get("anthropic-beta") for request in server.requests if request.path == "/v1/messages"]
    assert betas == ["advisor-tool-2026-03-01"] * 2 + [None]
    assert ADVICE in server.bodies[1]["messages"][1]["content"]
    assert [problems(body) for body in server.bodies] == [[], [], []]
