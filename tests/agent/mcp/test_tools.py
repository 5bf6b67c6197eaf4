"""A tool of an MCP server: its title, its progress, its results, and what becomes of large ones."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from agentcli.agent.mcp.tools import MAX_DESCRIPTION, McpTool, sendable_schema
from agentcli.core.aio import AbortController
from agentcli.core.messages import ImageBlock, Json
from agentcli.core.permission import Need
from agentcli.mcp.connection import McpFailure
from agentcli.mcp.protocol import CallProgress, McpContent, McpResult, ToolOffer
from agentcli.mcp.server import OnProgress
from agentcli.tools.base import Progress
from tests.support.mcp_fakes import FakeServer, text_result, tool_offer
from tests.support.mcp_server import PIXEL
from tests.support.virtual import run_virtual
from tests.tools.running import context_in, run, run_fully, text_of

NAME = "mcp__files__read_all"


def connected(
    offer: ToolOffer | None = None, answer: McpResult | Exception | None = None
) -> tuple[FakeServer, McpTool]:
    offer = offer or tool_offer("read.all", path="string")
    server = FakeServer("files", offer)
    server.connect()

    async def answered(tool: str, arguments: Json, on_progress: OnProgress) -> McpResult:
        if isinstance(answer, Exception):
            raise answer
        return answer or text_result("done")

    server.answer = answered
    return server, McpTool(server, offer, NAME)


def result_text(answer: McpResult | Exception, folder: Path, **offer: object) -> str:
    _server, tool = connected(ToolOffer("t", **offer), answer)  # type: ignore[arg-type]
    return text_of(asyncio.run(run(tool, context_in(folder, results_dir=folder / "results"))))


def test_the_title_is_one_plain_line_with_the_arguments(tmp_path: Path) -> None:
    offer = ToolOffer("x", title="Read \x1b[31mall")
    tool = McpTool(FakeServer("files", offer), offer, NAME)
    assert tool.title({"path": "a\nb", "deep": {"n": 1}}) == 'files: Read all (path: a b, deep: {"n": 1})'
    assert tool.title({}) == "files: Read all"
    assert len(tool.title({"path": "x" * 10_000})) <= 200


def test_it_asks_also_when_its_server_declares_it_read_only(tmp_path: Path) -> None:
    for reads in (True, False):
        offer = tool_offer("t", read_only=reads)
        _server, tool = connected(offer)
        assert tool.is_safe({}) is reads
        assert tool.needs({}, context_in(tmp_path)) == (
            Need("other", f"version:{offer.version}", is_declared_read_only=reads),
        )


def test_descriptions_are_stripped_and_cut() -> None:
    assert McpTool(FakeServer("s"), ToolOffer("t", description="a\x1b[2Jb"), NAME).description == "ab"
    assert len(McpTool(FakeServer("s"), ToolOffer("t", description="x" * 9_000), NAME).description) < MAX_DESCRIPTION


def test_schemas_are_sent_as_they_are_but_for_what_the_api_refuses() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "$defs": {}}
    assert sendable_schema(schema) == schema
    assert sendable_schema({"oneOf": [{}], "properties": {}}) == {"properties": {}, "type": "object"}


def test_progress_is_reported_and_a_flood_of_it_thinned_out(tmp_path: Path) -> None:
    server, tool = connected()

    async def answer(_tool: str, _arguments: Json, on_progress: OnProgress) -> McpResult:
        for step in range(1_000):
            on_progress(CallProgress(step, 1_000, "copying\x07"))
        return text_result("copied")

    server.answer = answer
    output, progress = run_virtual(lambda: run_fully(tool, context_in(tmp_path)))
    assert text_of(output) == "copied"
    assert progress == [Progress("copying (0 of 1000)", {"done": 0, "total": 1_000})]


def test_an_abort_ends_the_call_with_a_result(tmp_path: Path) -> None:
    server, tool = connected()
    cancelled: list[str] = []

    async def answer(_tool: str, _arguments: Json, _on_progress: OnProgress) -> McpResult:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("told")
            raise
        raise AssertionError

    server.answer = answer

    async def main() -> None:
        controller = AbortController()
        asyncio.get_running_loop().call_later(5, controller.abort)
        output = await run(tool, context_in(tmp_path), controller.signal)
        assert (output.is_error, output.summary) == (True, "stopped")

    run_virtual(main)
    assert cancelled == ["told"]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (McpFailure("files: no \x1b[31msuch file"), f"{NAME} failed. files: no such file"),
        (text_result("It does not work.", is_error=True), "It does not work."),
    ],
)
def test_failures_are_results(answer: McpResult | Exception, text: str, tmp_path: Path) -> None:
    output = asyncio.run(run(connected(answer=answer)[1], context_in(tmp_path)))
    assert (output.is_error, text_of(output)) == (True, text)


def test_tools_that_were_removed_or_turned_off_are_refused_before_any_question(tmp_path: Path) -> None:
    server, tool = connected()
    server.disabled_tools = frozenset({"read.all"})
    assert tool.check({}, context_in(tmp_path)) == f"The user has turned {NAME} off."
    server.disabled_tools = frozenset()
    server.connect(tool_offer("other"))
    assert tool.check({}, context_in(tmp_path)) == "The MCP server files no longer has the tool read.all."


def test_pictures_become_image_blocks_in_their_place(tmp_path: Path) -> None:
    parts = (McpContent("text", text="before"), McpContent("image", data=PIXEL, mime_type="image/png"))
    _server, tool = connected(answer=McpResult(parts))
    output = asyncio.run(run(tool, context_in(tmp_path)))
    assert not isinstance(output.content, str)
    assert isinstance(output.content[1], ImageBlock)
    assert output.content[1].source["media_type"] == "image/png"
    assert output.summary == "before, 1 picture"


def test_sound_and_other_data_go_to_files(tmp_path: Path) -> None:
    parts = (
        McpContent("audio", data="AAEC", mime_type="audio/x-wav"),
        McpContent("resource", data="AAEC", mime_type="application/pdf", uri="note://pdf"),
        McpContent("image", data="AAEC", mime_type="image/png"),
        McpContent("audio", data="not base64!", mime_type="audio/x-wav"),
    )
    text = result_text(McpResult(parts), tmp_path)
    saved = sorted((tmp_path / "results").iterdir())
    assert [path.read_bytes() for path in saved] == [b"\0\1\2"] * 3
    assert all(str(path) in text for path in saved)
    assert "Audio: audio/x-wav, 3 B, saved as" in text
    assert "Resource note://pdf: application/pdf, 3 B, saved as" in text
    assert "Picture that cannot be shown (it is damaged" in text
    assert "that is not valid base64" in text


def texts(*parts: str, structured: object = None) -> McpResult:
    return McpResult(tuple(McpContent("text", text=text) for text in parts), structured=structured)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (McpResult(), "(no content)"),
        (texts("a\x1b]0;title\x07b\x00c"), "abc"),
        (McpResult((McpContent("resource", text="The note.", uri="note://one"),)), "[Resource note://one]\nThe note."),
        (
            McpResult((McpContent("link", text="The second", uri="note://two", name="two", mime_type="text/plain"),)),
            "[Link to the resource note://two (two, text/plain)]\nThe second",
        ),
        # Structured content is shown unless a text says the same, also if the server wraps it in an object.
        (texts(structured={"sum": 3}), '{"sum": 3}'),
        (texts('{ "sum":3 }', structured={"sum": 3}), '{ "sum":3 }'),
        (texts("The sum is 3", structured={"sum": 3}), 'The sum is 3\n{"sum": 3}'),
        (texts("one\ntwo\n", structured={"content": "one\ntwo"}), "one\ntwo\n"),
        (texts("one", "two", structured={"result": ["one", "two"]}), "one\ntwo"),
        (texts("one", "two", structured={"result": "one\ntwo"}), "one\ntwo"),
        (texts("7", structured={"result": 7}), "7"),
        (texts("one", structured={"result": "one", "pages": 3}), 'one\n{"result": "one", "pages": 3}'),
        (texts("one", structured={"result": ["one", "two"]}), 'one\n{"result": ["one", "two"]}'),
        (texts(structured={"result": ""}), '{"result": ""}'),
    ],
)
def test_results_are_text_for_the_model(result: McpResult, expected: str, tmp_path: Path) -> None:
    output = asyncio.run(run(connected(answer=result)[1], context_in(tmp_path)))
    assert (text_of(output), output.structured) == (expected, result.structured)


def test_a_result_that_is_its_own_summary_is_not_displayed_below_it(tmp_path: Path) -> None:
    short, long = (
        asyncio.run(run(connected(answer=text_result(text))[1], context_in(tmp_path))) for text in ("It is 42.", "a\nb")
    )
    assert (short.summary, short.display) == ("It is 42.", {})
    assert (long.summary, long.display) == ("2 lines", {"kind": "text", "text": "a\nb"})


def test_large_results_go_to_a_file_that_can_be_read_in_parts(tmp_path: Path) -> None:
    value = [{"number": number} for number in range(20_000)]
    text = result_text(text_result(json.dumps(value)), tmp_path)
    (path,) = (tmp_path / "results").iterdir()
    assert f"All of it is in {path}" in text
    assert len(text) < 3_000
    assert json.loads(path.read_text()) == value
    assert path.read_text().count("\n") == 20_000 - 1
    assert path.stat().st_mode & 0o077 == 0


def test_a_limit_of_the_tool_wins(tmp_path: Path) -> None:
    assert "All of it is in" in result_text(text_result("x" * 101), tmp_path, max_result_chars=100)
    assert result_text(text_result("x " * 100_000), tmp_path, max_result_chars=500_000) == "x " * 100_000


def test_without_a_folder_the_rest_is_left_out(tmp_path: Path) -> None:
    _server, tool = connected(answer=text_result("word " * 100_000))
    text = text_of(asyncio.run(run(tool, context_in(tmp_path))))
    assert "the rest could not be saved" in text
