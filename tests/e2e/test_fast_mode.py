"""Fast mode in the assembled program: sent, priced, shown, resumed and refused."""

from __future__ import annotations

import pytest

from tests.e2e.program import Program
from tests.support.scripts import reply
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio

USED = {"input_tokens": 1_000, "output_tokens": 1_000, "speed": "fast"}


async def test_a_fast_run_is_priced_as_such_and_its_session_stays_fast(program: Program) -> None:
    async with LoopbackServer(*[reply("Hi.", usage=USED)] * 3) as server:
        program.talk_to(server.url)
        arguments = ("--output-format", "json", "--model", "claude-opus-5")
        first = await program.run("-p", "hi", "--fast", *arguments)
        assert first.code == 0, first.err
        assert first.frames[0]["total_cost_usd"] == pytest.approx(0.06)
        assert first.frames[0]["usage"]["speed"] == "fast"
        await program.run("-p", "hi", "-c", *arguments)
        await program.run("-p", "hi", "-c", "--settings", '{"fastMode": false}', *arguments)
    assert [body.get("speed") for body in server.bodies] == ["fast", "fast", None]
    betas = [request.headers.get("anthropic-beta") for request in server.requests if request.path == "/v1/messages"]
    assert betas == ["fast-mode-2026-02-01"] * 2 + [None]
