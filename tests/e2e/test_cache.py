"""Costs of a conversation with a prompt cache: no content is billed in full twice.

Real tools, real HTTP, both transports; the server says what it would bill. Claude Code reads 97.6 % of its input from
the cache with a prompt many times larger than ours, which makes that easier for it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path

import pytest

from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.commands.line import run_command
from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.core.permission import PermissionMode
from agentcli.core.text.format import about_money, money, token_count
from tests.e2e.program import Program
from tests.support.cacheserver import CacheServer, Reading
from tests.support.fakes import collect, only, result_of
from tests.support.scripts import call, reply, say, think

pytestmark = pytest.mark.anyio

SOURCE = "".join(f"def function_{number}(argument):\n    return argument + {number}\n\n\n" for number in range(20))


def engine_on(url: str, folder: Path, **rest: object) -> Engine:
    project = folder / "project"
    if not project.exists():
        project.mkdir()
        (project / "one.py").write_text(SOURCE)
        (project / "two.py").write_text(SOURCE.replace("function", "other"))
    options: dict[str, object] = {
        "cwd": project,
        "environ": {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "ANTHROPIC_API_KEY": "sk-test",
            "ANTHROPIC_BASE_URL": url,
        },
        "permission_mode": PermissionMode.BYPASS,
        "settings": '{"sandbox": {"mode": "off"}}',
    }
    return build_engine(Options(**{**options, **rest}))  # type: ignore[arg-type]


def work(turn: int) -> Json:
    """One turn of ordinary work: looking, changing, running, sometimes several calls at once, sometimes thinking."""
    match turn % 6:
        case 0:
            return reply(think(f"Thought {turn}."), call("Read", file_path="one.py", offset=turn + 1, limit=12))
        case 1:
            return reply(say(f"Searching {turn}."), call("Grep", pattern=f"function_{turn}"), call("Glob", pattern="*"))
        case 2:
            old, new = f"argument + {turn}\n", f"argument - {turn}\n"
            return reply(
                call("Read", file_path="one.py", offset=turn * 4, limit=5),
                call("Edit", file_path="one.py", old_string=old, new_string=new),
            )
        case 3:
            return reply(call("Bash", command=f"echo turn {turn}; wc -l one.py"))
        case 4:
            todos = [{"content": f"Step {turn}", "status": "in_progress", "activeForm": f"Stepping {turn}"}]
            return reply(call("TodoWrite", todos=todos))
    return reply(call("Bash", command=f"exit {turn}"), call("Nope", turn=turn))


def check_only_tails_were_billed(readings: Sequence[Reading]) -> None:
    """Each request reads all of the one before it, and none but the first bills anything outside the cache."""
    for number, (before, after) in enumerate(pairwise(readings), 1):
        assert after.read == before.prompt, f"request {number + 1} read {after.read:,} of {before.prompt:,} tokens"
    assert all(reading.fresh == 0 for reading in readings)


def cached_share(readings: Sequence[Reading]) -> float:
    return sum(one.read for one in readings) / sum(one.prompt for one in readings)


def check_quiet(events: Sequence[ev.Event]) -> None:
    assert only(events, ev.PrefixBroken) == []
    assert [notice for notice in only(events, ev.NoticeRaised) if notice.code == "cache"] == []


async def test_thirty_steady_turns_read_all_but_their_own_tails_from_the_cache(tmp_path: Path) -> None:
    async with CacheServer(*(work(turn) for turn in range(29)), "Done.") as server:
        async with engine_on(server.url, tmp_path) as engine:
            events = await collect(engine.submit("Do thirty things."))
        assert result_of(events).turns == 30
        check_only_tails_were_billed(server.cache.readings)
        check_quiet(events)
        assert cached_share(server.cache.readings) >= 0.95
        usage = engine.costs.totals.usage
        assert usage.cache_read_input_tokens / usage.prompt_tokens == pytest.approx(cached_share(server.cache.readings))


async def test_modes_queued_prompts_and_attachments_break_nothing(tmp_path: Path) -> None:
    """Ten prompts of three turns; between them the mode is switched, in them prompts are queued; the task list goes
    stale, a command ends in the background."""
    replies: list[Json | str] = []
    for prompt in range(10):
        replies += [work(prompt * 2), work(prompt * 2 + 1), f"Answer {prompt}."]
    replies[4] = reply(call("Bash", command="true", run_in_background=True))
    modes = [PermissionMode.PLAN, PermissionMode.BYPASS, PermissionMode.ACCEPT_EDITS, PermissionMode.DEFAULT]
    async with CacheServer(*replies) as server:
        async with engine_on(server.url, tmp_path) as engine:
            for prompt in range(10):
                queued = False
                async with aclosing(engine.submit(f"Prompt {prompt}.")) as events:
                    async for event in events:
                        check_quiet([event])
                        if isinstance(event, ev.ToolStarted) and not queued:
                            queued = True
                            engine.enqueue(f"And also {prompt}.")
                assert isinstance(event, ev.Result)
                assert not event.is_error
                engine.permissions.set_mode(modes[prompt % len(modes)])
            sent = str(server.bodies[-1]["messages"])
        assert "Plan mode is on" in sent
        assert "And also 9." in sent
        assert "Background commands that have ended" in sent
        check_only_tails_were_billed(server.cache.readings)
        assert cached_share(server.cache.readings) >= 0.95


async def test_a_turn_of_many_calls_is_still_found_in_the_cache(tmp_path: Path) -> None:
    """The cache looks back twenty blocks only: a turn that adds more than that needs a breakpoint of its own."""
    many = [
        reply(*(call("Read", file_path="two.py", offset=first + number, limit=1) for number in range(30)))
        for first in (1, 31)
    ]
    async with CacheServer(work(0), many[0], work(3), many[1], "Done.") as server:
        async with engine_on(server.url, tmp_path) as engine:
            events = await collect(engine.submit("Do many things."))
        assert not result_of(events).is_error
        check_only_tails_were_billed(server.cache.readings)
        check_quiet(events)


async def test_the_cache_survives_new_processes(program: Program) -> None:
    """Each prompt in a process of its own, as with `-p -c` in a script; one of them in another mode."""
    (program.work / "one.py").write_text(SOURCE)
    replies: list[Json | str] = []
    for prompt in range(4):
        replies += [work(prompt * 6), work(prompt * 6 + 1), f"Answer {prompt}."]
    async with CacheServer(*replies) as server:
        program.talk_to(server.url)
        for prompt in range(4):
            resumed = () if prompt == 0 else ("-c",)
            mode = "plan" if prompt == 2 else "bypassPermissions"
            ended = await program.run("-p", f"Prompt {prompt}.", *resumed, "--permission-mode", mode)
            assert ended.code == 0, ended.err
            assert "cache" not in ended.err
        readings = server.cache.readings
        assert len(readings) == 12
        check_only_tails_were_billed(readings)


async def test_a_request_for_a_summary_reads_the_conversation_from_the_cache(tmp_path: Path) -> None:
    summary = "<summary>All is well.</summary>"
    large = reply(call("Bash", command="seq 4000"))
    async with CacheServer(work(0), large, work(1), "Done.", summary, "Fine.") as server:
        async with engine_on(server.url, tmp_path) as engine:
            await collect(engine.submit("Do some things."))
            compacted = result_of(await collect(engine.compact()))
            assert not compacted.is_error, compacted.errors
            check_quiet(await collect(engine.submit("And now?")))
        *_earlier, last, asked, after = server.cache.readings
        assert asked.read == last.prompt
        assert after.read > 0, "the system prompt and the tools are still cached"


# ------------------------------------------------------------------------------------- leaving out what is superseded


def snips(events: Sequence[ev.Event]) -> list[ev.ContextEdited]:
    return [event for event in only(events, ev.ContextEdited) if event.step == "snip"]


async def test_nothing_is_rewritten_unless_it_saves_more_than_the_broken_cache_costs(tmp_path: Path) -> None:
    """A short file that is read twice at the beginning of a short run: leaving out the first read would save some
    hundred tokens in the few remaining requests, and write about as many to the cache again."""
    read = reply(call("Read", file_path="one.py", limit=40))
    turns = [read, read, *(reply(call("Bash", command=f"echo {number}")) for number in range(4)), "Done."]
    async with CacheServer(*turns) as server, engine_on(server.url, tmp_path, max_turns=8) as engine:
        events = await collect(engine.submit("Look."))
        shown = await collect(run_command(engine, "cost", ""))
    assert snips(events) == []
    check_quiet(events)
    check_only_tails_were_billed(server.cache.readings)
    assert "Leaving out" not in result_of(shown).text


async def test_worthwhile_removals_are_made_and_their_cost_is_counted(tmp_path: Path) -> None:
    read = reply(call("Read", file_path="one.py"))
    steady = [reply(call("Read", file_path="two.py", offset=number + 1, limit=1)) for number in range(20)]
    turns = (*steady[:12], read, read, *steady[12:], "Done.")
    async with CacheServer(*turns) as server, engine_on(server.url, tmp_path) as engine:
        events = await collect(engine.submit("Look."))
        shown = result_of(await collect(run_command(engine, "cost", ""))).text
        steps = engine.costs.spending.steps
    (edited,) = snips(events)
    rebilled = sum(event.rebilled_tokens for event in only(events, ev.PrefixBroken))
    # The second reading is answered by the first request without the first one.
    assert (steps.requests, steps.saved_tokens) == (9, 9 * edited.freed_tokens)
    assert steps.rebilled_tokens == rebilled
    assert steps.saved_usd > steps.rebilled_usd > 0
    saved = f"saved {token_count(steps.saved_tokens)} tokens in 9 requests, {about_money(steps.saved_usd)};"
    assert saved in shown
    assert f"rewritten for {token_count(rebilled)} tokens, {money(steps.rebilled_usd)} more" in shown
