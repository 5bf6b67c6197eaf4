"""/trace as text, for plain mode and for programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.commands.line import run_command
from agentcli.core.events import Result
from tests.support.fakes import Bench, FakeTool, bench, collect, result_of
from tests.support.recorded import recorded
from tests.support.scripts import call_with_id, reply

pytestmark = pytest.mark.anyio


async def trace(b: Bench, arguments: str) -> Result:
    return result_of(await collect(run_command(b.engine, "trace", arguments)))


async def test_the_last_prompt_another_one_or_a_step_of_it(tmp_path: Path) -> None:
    look = call_with_id("toolu_1", "Look", what="\x1b[31ma")
    b = recorded(tmp_path, reply("Looking.", look), "Done.", "Two.", tools=[FakeTool()])
    async with b.engine:
        await collect(b.engine.submit("one"))
        await collect(b.engine.submit("two"))
        assert (await trace(b, "")).text.startswith("Prompt 2: two\n")
        first = (await trace(b, "1")).text
        assert "request: results of the calls" in first
        step = (await trace(b, "1.3")).text
        assert "Proven: the digest of this request is the recorded one" in step
        assert "── call Look" in step
        assert step.endswith("── assistant\nDone.")
        assert "\x1b" not in first + step
        for arguments, problem in {
            "3": "This session has 2 prompts.",
            "1.9": "Prompt 1 has the steps 1 to 3.",
            "now": "/trace takes the number of a prompt",
        }.items():
            result = await trace(b, arguments)
            assert (result.is_error, problem in result.text + str(result.errors)) == (True, True), arguments


async def test_a_session_without_a_file_has_no_trace() -> None:
    b = bench("Hello.")
    async with b.engine:
        await b.run("hi")
        result = await trace(b, "")
    assert "not saved" in result.text + str(result.errors)
