"""One prompt with many tool turns in `-p`: its finished turns are summarised while it runs."""

from __future__ import annotations

import json

import pytest

from agentcli.core.messages import Json
from agentcli.providers.script import ScriptedReply
from tests.e2e.program import Program
from tests.support.cacheserver import CachingPlayer, PromptCache
from tests.support.scripts import call, fails, reply, script
from tests.support.server import LoopbackServer
from tests.support.validate import problems

pytestmark = pytest.mark.anyio

WINDOW = 80_000
RECORD = "record of a finished part"
"""In what the small model is asked."""
GIST = "Some files were written."
TEXT = "some words of a long text " * 500


class Worker(CachingPlayer):
    """A model that writes files until the context has `filled` tokens, and goes on in small steps until a summary is in
    its context. With `refuses`, it refuses requests without one as too long as soon as one is ready."""

    def __init__(self, filled: int, *, refuses: bool = False) -> None:
        super().__init__(script(), PromptCache())
        self._filled = filled
        self._refuses = refuses
        self._summaries = 0

    def next(self, body: Json) -> ScriptedReply:
        self._left = [[one, 1] for one in script(self._reply(body)).replies]
        return super().next(body)

    def _reply(self, body: Json) -> Json:
        if RECORD in json.dumps(body["system"]):
            self._summaries += 1
            return reply(GIST)
        if GIST in json.dumps(body["messages"]):
            return reply("Done.")
        if self._refuses and self._summaries >= 2:  # Asked for the second one, it has the first.
            return fails(400, "prompt is too long: 90000 tokens > 80000 maximum")
        if len(json.dumps(body)) // 4 < self._filled:
            return reply(call("Write", file_path=f"{self.requests}.txt", content=TEXT))
        return reply(call("Bash", command=f"echo {self.requests}"))


async def work(program: Program, worker: Worker) -> tuple[Json, str]:
    """The last request to the main model, and what the run reported."""
    async with LoopbackServer() as server:
        server.player = worker
        program.talk_to(server.url)
        settings = json.dumps({"contextWindow": WINDOW, "sandbox": {"mode": "off"}})
        flags = ("--permission-mode", "bypassPermissions", "--settings", settings, "--verbose", "--max-turns", "200")
        ended = await program.run("-p", "Write many files.", *flags)
        assert (ended.code, ended.out.strip()) == (0, "Done."), ended.err
        assert [problems(body) for body in server.bodies] == [[] for _ in server.bodies]
        return [body for body in server.bodies if RECORD not in json.dumps(body["system"])][-1], ended.err


async def test_finished_turns_of_one_prompt_are_summarised_when_space_is_needed(program: Program) -> None:
    last, reported = await work(program, Worker(60_000))
    assert "old turn" in reported
    assert "ompacted" not in reported
    assert "Write many files." in json.dumps(last["messages"])
    written = json.dumps(last["messages"]).count(TEXT.strip())
    assert len(list(program.work.glob("*.txt"))) > written > 0


async def test_a_prompt_that_gets_too_long_commits_the_summaries_of_its_finished_turns(program: Program) -> None:
    last, reported = await work(program, Worker(50_000, refuses=True))
    assert "summarised" in reported
    assert "ompacted" not in reported
    assert GIST in json.dumps(last["messages"])
