"""The tree of a session: branches over several processes, their names, costs and changes, and what going back costs."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Self

import pytest

from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.assemble.options import another_session
from agentcli.commands.front_end import Choice, FrontEnd
from agentcli.commands.line import run_command
from agentcli.commands.registry import find
from agentcli.commands.tree import price_at, read_tree
from agentcli.core.events import Event, NoticeRaised, PermissionRequested, UsageReported
from agentcli.core.messages import Json
from agentcli.core.permission import Answer, PermissionMode
from agentcli.history.replay.verify import describe, read_session, verify
from agentcli.session.base import Rewind
from tests.support.cacheserver import CacheServer
from tests.support.fakes import collect, result_of
from tests.support.scripts import call, fails, reply
from tests.support.validate import problems

pytestmark = pytest.mark.anyio


class Desk(FrontEnd):
    """A user who picks from lists; `open_session` opens the session in a new engine, as the front ends do."""

    def __init__(self, folder: Path, url: str, sandbox: str = "off", **rest: Any) -> None:
        self.folder = folder / "project"
        self.folder.mkdir(exist_ok=True)
        environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "ANTHROPIC_API_KEY": "sk-test"}
        self._options = Options(
            cwd=self.folder,
            environ={**environ, "ANTHROPIC_BASE_URL": url},
            interactive=True,
            permission_mode=PermissionMode.BYPASS,
            sandbox=sandbox,
            **rest,
        )
        self.engine = build_engine(self._options)
        self.picks: list[str] = []
        self.asked: list[tuple[str, list[Choice]]] = []
        self.prefilled = ""
        self.shown: list[Event] = []
        """Events of work that commands ran."""
        self.stops_at: type[Event] | tuple[()] = ()
        """The kind of event at which that work is interrupted."""
        self.answers: list[str] = []
        """To questions about lines that both changed: keep or replace."""
        self.permission: Answer | None = None
        """The answer to all other questions; None: they are closed."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.engine.aclose()

    async def options(self) -> Options:
        return self._options

    async def choose(self, title: str, choices: Sequence[Choice]) -> str | None:
        self.asked.append((title, list(choices)))
        picked = self.picks.pop(0) if self.picks else None
        return picked if any(choice.value == picked for choice in choices) else None

    def prefill(self, text: str) -> None:
        self.prefilled = text

    async def open_session(self, resume: str | None = None, rewind: Rewind | None = None) -> None:
        await self.engine.aclose()
        self.engine = build_engine(another_session(self._options, resume, rewind))

    async def perform(self, work: AsyncGenerator[Event, None]) -> None:
        async with aclosing(self.engine.perform(work)) as events:
            async for event in events:
                self.shown.append(event)
                if isinstance(event, PermissionRequested):
                    chosen = {"choice": self.answers.pop(0)} if self.answers else None
                    answer = Answer("deny") if chosen is None else Answer("allow", updated_input=chosen)
                    self.engine.answer(event.request_id, self.permission or answer)
                if isinstance(event, self.stops_at):
                    self.engine.abort()

    async def prompt(self, text: str) -> str:
        return result_of(await collect(self.engine.submit(text))).text

    async def command(self, line: str, *picks: str) -> str:
        name, _blank, arguments = line.partition(" ")
        self.picks = list(picks)
        if name not in ("tree", "rewind", "what-if"):
            return result_of(await collect(run_command(self.engine, name, arguments))).text
        command = find(name)
        assert command is not None
        events = await collect(command.load()(self.engine, arguments, self))
        return "\n".join(event.text for event in events if isinstance(event, NoticeRaised))

    async def drawn(self) -> list[str]:
        tree = await read_tree(self.engine)
        return [f"{row.lines}{row.mark} {row.title}" for row in tree.rows]


def write(name: str, text: str) -> Json:
    return reply(call("Write", file_path=name, content=text))


async def texts_sent(engine: Engine) -> list[str]:
    return [message.text for message in await engine.all_messages() if message.origin.value == "prompt"]


async def test_branches_are_drawn_named_and_switched_between(tmp_path: Path) -> None:
    script = ["One.", write("a.txt", "1\n2\n"), "Two.", "By hand.", "Back again."]
    async with CacheServer(*script) as server, Desk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        assert "regex" in await desk.command("branch regex")
        await desk.prompt("With a regex")
        said = await desk.command("tree 1", "after", "conversation")
        assert "1 prompt stays as a branch" in said
        assert await texts_sent(desk.engine) == ["First"]
        await desk.command("branch by hand")
        await desk.prompt("By hand instead")
        assert await desk.drawn() == [
            "● First",
            "├─○ [regex] With a regex",
            "◉ [by hand] By hand instead",
        ]
        tree = await read_tree(desk.engine)
        assert "1 file +2 −0" in tree.rows[1].facts(tree.now)
        # Back by name; the other branch stays, and nothing that was sent is sent differently.
        await desk.command("tree regex", "after")
        assert await texts_sent(desk.engine) == ["First", "With a regex"]
        await desk.prompt("Go on")
        drawn = await desk.drawn()
        assert drawn[1] == "├─○ [by hand] By hand instead"
        assert drawn[-1] == "◉ [regex] Go on"
        assert desk.engine.session_id == (await read_tree(desk.engine)).timeline.session_id


async def test_a_branch_reads_the_shared_beginning_from_the_cache(tmp_path: Path) -> None:
    long = "word " * 3_000
    async with CacheServer(long, "Two.", "Three.", "Four.") as server, Desk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.prompt("Second")
        before = price_at(desk.engine, await read_tree(desk.engine), (await read_tree(desk.engine)).rows[0].prompt)
        await desk.command("tree 1", "after")
        await desk.prompt("Second, differently")
        await desk.command("tree 2", "after")
        await desk.prompt("Go on there")
        first, second, branched, returned = server.cache.readings
        assert second.read == first.prompt
        # The whole request of the first prompt was cached, and is read again from both sides.
        assert branched.read == first.prompt
        assert returned.read == second.prompt
        # What was shown as the price before is what was billed: the answer that had not been cached yet, and no more.
        assert abs(before.tokens - (branched.written - 20)) < 120
        assert any("re-bills" in choice.detail for _title, choices in desk.asked for choice in choices)


async def test_the_price_of_going_back_to_a_cold_cache_is_all_of_it(tmp_path: Path) -> None:
    async with CacheServer("word " * 3_000, "Two.") as server, Desk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.prompt("Second")
        tree = await read_tree(desk.engine)
        warm = price_at(desk.engine, tree, tree.rows[0].prompt)
        from agentcli.core.frozen import replace

        cold = price_at(desk.engine, replace(tree, now="2199-01-01T00:00:00.000Z"), tree.rows[0].prompt)
    assert cold.tokens > warm.tokens + 3_000
    assert cold.usd is not None
    assert warm.usd is not None
    assert cold.usd > warm.usd > 0


async def test_editing_a_prompt_goes_before_it_and_keeps_its_text(tmp_path: Path) -> None:
    async with CacheServer("One.", "Two.") as server, Desk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.prompt("Second \x1b[31mred")
        await desk.command("tree 2", "edit")
        assert desk.prefilled.startswith("Second ")
        assert "\x1b" not in desk.prefilled
        assert await texts_sent(desk.engine) == ["First"]
        assert await desk.drawn() == ["◉ First", "○ Second red"]


async def test_a_summary_of_what_is_left_goes_with_the_next_prompt_once(tmp_path: Path) -> None:
    summary = "They tried a \x1b[31mregex."
    replies = ("One.", "Two.", "Three.", summary, "Four.", "Five.")
    async with CacheServer(*replies) as server, Desk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.prompt("With a regex")
        await desk.prompt("More of it")
        before = desk.engine.costs.session_totals.cost_usd
        said = await desk.command("tree 1", "after+summary")
        assert "2 prompts stay as a branch." in said
        assert said.endswith("The model gets the summary with your next prompt.")
        asked = server.bodies[3]["messages"][0]["content"][0]["text"]
        assert "With a regex" in asked
        assert "More of it" in asked
        assert "First" not in asked
        spent = [event for event in desk.shown if isinstance(event, UsageReported)]
        price = sum(one.cost_usd or 0 for one in spent)
        assert desk.engine.costs.session_totals.cost_usd == pytest.approx(before + price)
        assert desk.engine.costs.session_totals.cost_usd > before
        shown = [event.text for event in desk.engine.take_history() if isinstance(event, NoticeRaised)]
        assert shown[-1] == "Summary of what you left, for the model:\nThey tried a regex."
        await desk.prompt("By hand instead")
        # It survives a resume.
        await desk.open_session(desk.engine.session_id)
        await desk.prompt("Go on")
        for body in server.bodies[4:6]:
            assert problems(body) == []
            sent = [block["text"] for message in body["messages"] for block in message["content"]]
            carried = [text for text in sent if "They tried a regex." in text]
            assert len(carried) == 1
            assert carried[0].startswith("[The user went back to this point")
            assert not any("With a regex" in text for text in sent)
        assert await desk.drawn() == [
            "● First",
            "├─○ With a regex",
            "│ ○ More of it",
            "● By hand instead",
            "◉ Go on",
        ]


@pytest.mark.parametrize(
    ("what", "said"), [("both", "as they were at this point"), ("conversation", "as that branch left")]
)
async def test_the_summary_says_which_files_there_are(tmp_path: Path, what: str, said: str) -> None:
    replies = ("One.", write("a.txt", "1\n"), "Two.", "It wrote a.", "Three.")
    async with CacheServer(*replies) as server, Desk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.prompt("Second")
        await desk.command("tree 1", "after+summary", what)
        assert (desk.folder / "a.txt").exists() == (what == "conversation")
        await desk.prompt("Go on")
        assert f"Files are {said}" in str(server.bodies[-1]["messages"])
        path = desk.engine.session.store.path
        assert path is not None
    found = await verify(read_session(path))
    assert found.difference is None, "\n".join(describe(found))
    assert found.exit_code == 0


async def test_without_a_summary_the_switch_is_made_all_the_same(tmp_path: Path) -> None:
    async with CacheServer("One.", "Two.", fails(400), "Three.") as server, Desk(tmp_path, server.url) as desk:
        await desk.prompt("First")
        await desk.prompt("Second")
        said = await desk.command("tree 1", "after+summary")
        assert "There is no summary: " in said
        assert await texts_sent(desk.engine) == ["First"]
        await desk.command("tree 2", "after")
        desk.stops_at = NoticeRaised
        said = await desk.command("tree 2", "edit+summary")
        assert said.endswith("There is no summary: it was stopped.")
        assert await texts_sent(desk.engine) == ["First"]
        assert len(server.bodies) == 3


async def test_mistakes_are_explained(tmp_path: Path) -> None:
    async with CacheServer("One.") as server, Desk(tmp_path, server.url) as desk:
        assert "no prompt yet" in await desk.command("tree")
        await desk.prompt("First")
        assert "There is no branch or prompt nope" in await desk.command("tree nope")
        await desk.command("branch one, two")
        assert "Named branches: one, two." in await desk.command("tree one")
        await desk.command("tree One, Two")
        assert desk.asked[-1][0] == "Go to “First”?"
        await desk.command("branch one")
        events = await collect(run_command(desk.engine, "branch", "One"))
        assert any("is the name of a branch already" in getattr(event, "text", "") for event in events)
