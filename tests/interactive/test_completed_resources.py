"""Resources of MCP servers behind an `@`: found by address, name and title, and completed by their server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from agentcli.interactive.completion import Completions, FileHit, FoundFiles, file_menu, target_at
from agentcli.mcp.servers import McpServers
from agentcli.plain.prompt_reader import PromptCompleter
from tests.support.mcp_offers import fake, servers_with
from tests.support.virtual import run_virtual

pytestmark = pytest.mark.virtual


class SomeFiles:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_closed = False

    async def files(self, query: str, limit: int) -> FoundFiles:
        self.asked.append(query)
        return FoundFiles([FileHit("src/"), FileHit("shop/in.py")])

    def begin(self) -> None:
        pass

    async def aclose(self) -> None:
        self.is_closed = True


async def make_completions(servers: Callable[[], McpServers | None], files: SomeFiles | None = None) -> Completions:
    engine = SimpleNamespace(session=SimpleNamespace())

    def connected() -> Any:
        engine.session.mcp = servers()
        return engine

    completions = Completions(connected, lambda: None)  # type: ignore[arg-type, return-value]
    await completions.use(files or SomeFiles())  # type: ignore[arg-type]
    return completions


def found(query: str, servers: McpServers | None) -> list[FileHit]:
    hits: list[FileHit] = []

    async def main() -> None:
        hits.extend((await (await make_completions(lambda: servers)).files(query, 20)).hits)

    run_virtual(main)
    return hits


def paths(query: str, servers: McpServers | None) -> list[str]:
    return [hit.path for hit in found(query, servers)]


def notes() -> McpServers:
    return servers_with(("notes", "connected"), ("down", "failed"))


def test_without_a_query_files_come_before_resources() -> None:
    assert paths("", notes()) == ["src/", "shop/in.py", "notes:note://one", "notes:note://two", "notes:note://"]
    assert paths("", None) == ["src/", "shop/in.py"]


def test_resources_are_found_by_address_and_by_title() -> None:
    assert paths("ntwo", notes())[-1] == "notes:note://two"
    assert paths("Shopping", notes())[0] == "notes:note://two"
    [hit] = [hit for hit in found("Shopping", notes()) if hit.detail]
    assert hit.detail == "Shopping list"


def test_a_query_that_names_a_server_finds_only_its_resources() -> None:
    servers = notes()
    assert paths("notes:note://on", servers) == ["notes:note://one"]
    fake(servers, "notes").values = ("two", "twelve")
    assert paths("notes:note://tw", servers) == ["notes:note://two", "notes:note://twelve"]
    assert fake(servers, "notes").done[-1] == "complete resource note://{name} name tw {}"


async def test_a_server_that_does_not_answer_is_not_waited_for_long() -> None:
    servers = notes()

    async def never(*_arguments: object) -> tuple[str, ...]:
        await asyncio.sleep(600)
        return ()

    fake(servers, "notes").complete = never  # type: ignore[assignment, method-assign]
    hits = await (await make_completions(lambda: servers)).files("notes:note://one", 20)
    assert [hit.path for hit in hits.hits] == ["notes:note://one"]
    assert asyncio.get_running_loop().time() < 5


def test_a_template_is_inserted_up_to_its_variable_and_completed_on() -> None:
    target = target_at("see @notes:", 11, first_line=True)
    assert target is not None
    menu = file_menu(target, FoundFiles(found(target.query, notes())))
    assert menu.title == "files and resources"
    inserts = {candidate.label: (candidate.insert, candidate.then) for candidate in menu.candidates}
    assert inserts["notes:note://"] == ("@notes:note://", "go on")
    assert inserts["notes:note://one"] == ("@notes:note://one", "stay")


async def test_values_of_another_session_or_search_are_asked_for_again() -> None:
    servers, files = notes(), SomeFiles()
    source = await make_completions(lambda: servers, files)

    async def completed() -> list[str]:
        source.begin()
        return [hit.path for hit in (await source.files("notes:note://A", 20)).hits]

    assert await completed() == ["notes:note://Ada", "notes:note://Alan"]
    fake(servers, "notes").values = ("Ann",)
    assert await completed() == ["notes:note://Ann"]
    servers = notes()
    await source.use(SomeFiles())
    assert files.is_closed
    assert await completed() == ["notes:note://Ada", "notes:note://Alan"]


async def test_plain_mode_completes_resources_and_arguments_of_prompts() -> None:
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    async def late(command: str, typed: str) -> list[tuple[str, str]]:
        assert (command, typed) == ("mcp__notes__greet", "a")
        return [("Ada", "Whom")]

    async def completed(text: str) -> list[str]:
        known = await make_completions(notes)
        known.commands, known.choices, known.late_choices = lambda _typed: [], lambda _: [], late  # type: ignore[method-assign]
        completions = PromptCompleter(known).get_completions_async(
            Document(text), CompleteEvent(completion_requested=True)
        )
        return [completion.text async for completion in completions]

    assert await completed("@notes:note://on") == ["@notes:note://one"]
    assert await completed("/mcp__notes__greet a") == ["Ada"]
