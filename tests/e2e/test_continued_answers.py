"""An answer that came in several replies is one answer, in every front end and output format (SPEC 2.7)."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import Program
from tests.support.scripts import call, reply
from tests.support.server import LoopbackServer
from tests.support.terminal import TerminalProgram, app_with

pytestmark = pytest.mark.anyio

CUT: list[Any] = [
    reply("thrown away", stop_reason="max_tokens"),
    reply("PART ONE is lo", stop_reason="max_tokens"),
    reply("ng,\n\n", stop_reason="max_tokens"),
    reply("PART TWO is short."),
]
WHOLE = "PART ONE is long,\n\nPART TWO is short."
LONG = "PART ONE. " * 60
OVERFULL: list[Any] = [
    reply(LONG, stop_reason="model_context_window_exceeded"),
    reply("A summary of it."),
    reply("PART TWO."),
]


@pytest.mark.parametrize(("script", "whole"), [(CUT, WHOLE), (OVERFULL, LONG + "PART TWO.")])
@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
async def test_print_mode_prints_all_pieces(program: Program, form: str, script: list[Any], whole: str) -> None:
    async with LoopbackServer(*script) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "write " * 60, "--output-format", form, "--verbose")
    assert ended.code == 0, ended.err
    if form == "text":
        assert ended.out == f"{whole}\n"
    else:
        result = ended.frames[-1]
        assert (result["subtype"], result["result"]) == ("success", whole)


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
async def test_print_mode_prints_every_piece_that_a_token_budget_asked_for(program: Program, form: str) -> None:
    used = {"input_tokens": 10, "output_tokens": 400}
    script: list[Any] = [
        reply("The report.", usage=used),
        reply("I check ", usage=used, stop_reason="max_tokens"),  # raised, so it is requested again
        reply("I check one thing.", call("Glob", pattern="*.nothing"), usage=used),
        reply("The check.\n", usage=used),
        reply("Nothing useful is left.", usage={"input_tokens": 10, "output_tokens": 2_000}),
    ]
    async with LoopbackServer(*script) as server:
        program.talk_to(server.url)
        ended = await program.run("-p", "write", "--token-budget", "3000", "--output-format", form, "--verbose")
    assert ended.code == 0, ended.err
    whole = "The report.\n\nI check one thing.\n\nThe check.\n\nNothing useful is left."
    assert ended.out == f"{whole}\n" if form == "text" else ended.frames[-1]["result"] == whole


@pytest.mark.parametrize("arguments", [["--plain"], []])
async def test_all_pieces_are_shown_and_copied_as_one_answer(tmp_path: Path, arguments: list[str]) -> None:
    sequence = f"\x1b]52;c;{base64.b64encode(WHOLE.encode()).decode()}".encode()
    environ = {"SSH_CONNECTION": "1 2 3 4", "TERM_PROGRAM": "WezTerm"}
    async with app_with(tmp_path, *CUT, arguments=arguments, rows=60, environ=environ) as (app, server):
        await _ready(app, arguments)
        await app.submit("write")
        await app.wait_for("PART TWO is short.")
        assert "PART ONE is lo" in app.text
        await app.wait_for(lambda: len(server.bodies) == len(CUT))
        await _ready(app, arguments)
        await app.submit("/copy")
        await app.wait_for(lambda: sequence in app.raw)


async def _ready(app: TerminalProgram, arguments: list[str]) -> None:
    if arguments:
        await app.wait_for(lambda: app.text.rstrip().endswith(("\n❯", "\n>")))
    else:
        await app.ready()
