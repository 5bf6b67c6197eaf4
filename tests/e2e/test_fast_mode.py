"""Fast mode in the assembled program: sent, priced, shown, resumed and refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.program import Program
from tests.support.scripts import fails, reply
from tests.support.server import LoopbackServer
from tests.support.terminal import TerminalProgram, app_with

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


async def test_fast_mode_is_refused_for_other_models_and_reported_when_the_server_refuses_it(program: Program) -> None:
    async with LoopbackServer(fails(400, "speed: Extra inputs are not permitted"), "Hi.", "Hi.") as server:
        program.talk_to(server.url)
        refused = await program.run("-p", "hi", "--fast", "--model", "sonnet")
        assert (refused.code, server.bodies) == (2, [])
        assert "--fast: claude-sonnet-5-5 has no fast mode. Models that have it: claude-opus-5-5" in refused.err
        ended = await program.run("-p", "hi", "--fast")
        assert (ended.code, ended.out) == (0, "Hi.\n")
        assert ended.err == "agentcli: The server refused fast mode; requests continue without it.\n"
        program.environ["AGENTCLI_FAST_MODE"] = "true"
        ended = await program.run("-p", "hi", "--model", "sonnet")
        assert (ended.code, ended.out) == (0, "Hi.\n")
        assert "claude-sonnet-5-5 has no fast mode." in ended.err
    assert ["speed" in body for body in server.bodies] == [True, False, False]


@pytest.mark.parametrize("arguments", [["--plain"], []])
async def test_the_command_turns_fast_mode_on(tmp_path: Path, arguments: list[str]) -> None:
    async with app_with(tmp_path, reply("Hi.", usage=USED), arguments=arguments, rows=30) as (app, server):
        await _ready(app, arguments)
        await app.submit("/fast")
        await app.wait_for("Fast mode is on. A million tokens cost")
        if not arguments:
            await app.wait_for(lambda: " · fast · " in app.text)
        await _ready(app, arguments)
        await app.submit("hi")
        await app.wait_for("Hi.")
        assert server.bodies[0]["speed"] == "fast"
        await _ready(app, arguments)
        await app.submit("/cost")
        await app.wait_for("$0.048")


async def _ready(app: TerminalProgram, arguments: list[str]) -> None:
    if arguments:
        await app.wait_for(lambda: app.text.rstrip().endswith(("\n❯", "\n>")))
    else:
        await app.ready()
