"""Record the sessions of `tests/data/sessions`: the assembled program on scripted models.

    python -m tests.support.record_sessions [NAME …]

They are verified by `tests/history/test_verify.py`: after a wanted change of the loop's behaviour, record them again
and read the difference.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.core import events as ev
from agentcli.core.aio import AbortReason
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Json
from agentcli.core.permission import Answer, PermissionMode
from agentcli.hooks.rules import HookRule
from agentcli.providers.catalog import Catalog
from agentcli.providers.provider import MessagesProvider, RetryPolicy
from agentcli.session.base import Rewind
from tests.support.assembled import SEARCH_PATH
from tests.support.scripts import call, call_with_id, fails, fault, pause, reply, say, think, transport_for

FOLDER = Path(__file__).parent.parent / "data" / "sessions"
FOLDER_OF_PROJECT = Path(tempfile.gettempdir(), "recorded-session")
_START = datetime(2026, 11, 19, 10, tzinfo=UTC)
_TOOLS = ("Read", "Write", "Bash", "TodoWrite", "Task", "AskUserQuestion")


class SteadyClock:
    """A clock that moves by 50 ms each time it is read, so that recordings of one script are alike."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        self.seconds += 0.05
        return self.seconds

    def timestamp(self) -> str:
        now = _START + timedelta(seconds=self.seconds)
        return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


Answers = Callable[[ev.PermissionRequested], Answer]
React = Callable[[Engine, ev.Event], None]


@dataclass
class Desk:
    """A project folder, and the processes that work on its one session."""

    folder: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    react: React = lambda _engine, _event: None
    answers: Answers = lambda _question: Answer("allow")
    ids: SequentialIds = field(default_factory=SequentialIds)
    clock: SteadyClock = field(default_factory=SteadyClock)
    session_id: str = ""

    @property
    def project(self) -> Path:
        return self.folder / "project"

    def open(self, *replies: Json | str, **more: Any) -> Engine:
        policy = RetryPolicy(max_retries=4, base_delay=0.001, max_delay=0.002)
        provider = MessagesProvider(
            transport_for(*replies), Catalog(), policy, None, SequentialIds(), chance=lambda: 0.5
        )
        options: dict[str, Any] = {
            "cwd": self.project,
            "environ": {"PATH": SEARCH_PATH, "HOME": str(self.folder)},
            "provider": provider,
            "permission_mode": PermissionMode.DEFAULT,
            "interactive": True,
            "model": "claude-sonnet-5-5",
            "system_prompt": "Be brief.",
            "tools": _TOOLS,
            "settings": '{"sandbox": {"mode": "off"}, "undo": false, "memory": false}',
            "trust": True,
            "ids": self.ids,
            "clock": self.clock,
            **self.options,
            **more,
        }
        if self.session_id:
            options["resume"] = self.session_id
        engine = build_engine(Options(**options))
        self.session_id = engine.session_id
        return engine

    async def run(self, engine: Engine, work: Any) -> None:
        async with aclosing(engine.submit(work) if isinstance(work, str) else work) as events:
            async for event in events:
                self.react(engine, event)
                if isinstance(event, ev.PermissionRequested):
                    engine.answer(event.request_id, self.answers(event))

    async def prompts(self, replies: Sequence[Json | str], *prompts: str, **more: Any) -> None:
        engine = self.open(*replies, **more)
        async with engine:
            for prompt in prompts:
                await self.run(engine, prompt)

    def when(self, kind: type[ev.Event], act: Callable[[Engine], object], number: int = 1) -> None:
        """Act at the event of this kind with this number."""
        seen = 0

        def react(engine: Engine, event: ev.Event) -> None:
            nonlocal seen
            if isinstance(event, kind):
                seen += 1
                if seen == number:
                    act(engine)

        self.react = react

    def file(self) -> Path:
        return next((self.folder / ".local/state/agentcli/sessions").glob(f"*/{self.session_id}.jsonl"))


async def plain_answers(desk: Desk) -> None:
    await desk.prompts(["Hello.", reply(think("Two and two."), say("Four."))], "Hi", "What is two and two?")


async def parallel_tools(desk: Desk) -> None:
    names = [str(desk.project / name) for name in ("a.txt", "b.txt")]
    looks = reply("I look.", *(call("Read", file_path=name) for name in names), call("Bash", command="echo three"))
    write = reply(call("Write", file_path=str(desk.project / "c.txt"), content="three\n"))
    await desk.prompts([looks, write, "Both say hello; I wrote c.txt."], "Compare @a.txt and b.txt")


async def denied_call(desk: Desk) -> None:
    desk.answers = lambda _question: Answer("deny", message="Do not delete anything.")
    await desk.prompts([reply(call("Bash", command="rm a.txt")), "I leave it.", "Fine."], "Delete a.txt", "Good")


async def declined_and_stopped(desk: Desk) -> None:
    desk.answers = lambda _question: Answer("deny", interrupt=True)
    replies = [reply(call("Bash", command="rm a.txt"), call("Bash", command="rm b.txt")), "All right."]
    await desk.prompts(replies, "Delete a.txt and b.txt", "Never mind")


async def abort_in_stream(desk: Desk) -> None:
    desk.when(ev.TextStreamed, lambda engine: engine.abort(), 2)
    await desk.prompts([reply(say("One, two, three, four.", 5), pause(60)), "Fine."], "Count", "Go on")


async def abort_in_tools(desk: Desk) -> None:
    desk.when(ev.ToolStarted, lambda engine: engine.abort(AbortReason.INTERRUPT), 2)
    calls = [
        call("Read", file_path=str(desk.project / "a.txt")),
        call("Bash", command="sleep 60"),
        call("Bash", command="ls"),
    ]
    await desk.prompts([reply(*calls), "Fine."], "Wait", "Stop that")


async def closed_in_stream(desk: Desk) -> None:
    closing: list[asyncio.Future[None]] = []
    desk.when(ev.TextStreamed, lambda engine: closing.append(asyncio.ensure_future(engine.aclose())), 2)
    await desk.prompts([reply(say("One, two, three, four.", 5), pause(60))], "Count")
    await asyncio.gather(*closing)
    await desk.prompts(["Fine."], "Go on")


async def abort_before_prompt(desk: Desk) -> None:
    async def wait(_data: Json) -> Json:
        engine.abort()
        await asyncio.Event().wait()
        return {}

    desk.options = {"hooks": (HookRule("UserPromptSubmit", "", wait),)}
    engine = desk.open("Fine.")
    async with engine:
        await desk.run(engine, "Stop this")
    desk.options = {}
    await desk.prompts(["Fine."], "Go on")


async def retry_and_fallback(desk: Desk) -> None:
    replies = [fails(500), "One.", *[fails(529)] * 3, "Two.", reply(say("Thr", 1), fault("drop")), "Three."]
    await desk.prompts(replies, "One", "Two", "Three", fallback_models=("claude-haiku-5-5",))


async def failed_request(desk: Desk) -> None:
    await desk.prompts([fails(400, "The request is wrong."), "Better."], "Hi", "Again")


async def broken_after_change(desk: Desk) -> None:
    desk.answers = lambda _question: Answer("allow")
    write = call("Write", file_path=str(desk.project / "c.txt"), content="three\n")
    await desk.prompts([reply(write, pause(0.3), say("and then", 3), fault("drop")), "Done."], "Write c.txt")


async def output_limit(desk: Desk) -> None:
    cut = reply("A long story that", stop_reason="max_tokens", usage={"output_tokens": 8_192})
    again = reply(" goes on and", stop_reason="max_tokens", usage={"output_tokens": 64_000})
    await desk.prompts([cut, again, again, reply(" ends.")], "Tell a long story")


async def empty_and_refused(desk: Desk) -> None:
    refused = reply(say("No."), stop_reason="refusal", stop_details={"category": "cyber"})
    await desk.prompts([reply(stop_reason="end_turn"), "Here.", refused, "Sure."], "Hi", "Bad", "Good")


async def manual_compaction(desk: Desk) -> None:
    text = "A long text about many things. " * 400
    engine = desk.open(text, "Yes.", "A summary: texts about many things.", "As I said.")
    async with engine:
        for work in ("Tell me", "And?", engine.compact("the facts"), "What was it?"):
            await desk.run(engine, work)


async def auto_compaction(desk: Desk) -> None:
    text = "A long text about many things. " * 400
    replies: list[Json | str] = [
        reply(text, usage={"input_tokens": 100 + 3_000 * n, "output_tokens": 3_000}) for n in range(3)
    ]
    settings = '{"sandbox": {"mode": "off"}, "contextWindow": 20000, "maxOutputTokens": 4000, "undo": false}'
    await desk.prompts(
        [*replies, "A summary: texts.", "Fine."], "One", "Two", "Three", "Four", settings=settings, interactive=False
    )


async def queued_prompt(desk: Desk) -> None:
    desk.when(ev.ToolStarted, lambda engine: engine.enqueue("Also read b.txt"))
    look = reply(call("Read", file_path=str(desk.project / "a.txt")))
    await desk.prompts([look, "Read both."], "Read a.txt")
    desk.when(ev.TextStreamed, lambda engine: engine.enqueue("And then?", "later"))
    await desk.prompts(["First.", "Then."], "What first?")


async def stop_hook(desk: Desk) -> None:
    seen: list[Json] = []

    def check(data: Json) -> Json:
        seen.append(data)
        return {"decision": "block", "reason": "Run the tests first."} if len(seen) == 1 else {}

    desk.options = {"hooks": (HookRule("Stop", "", check),)}
    await desk.prompts(["Done.", "The tests pass."], "Fix it")


async def rewind(desk: Desk) -> None:
    await desk.prompts(["One.", "Two."], "One", "Two")
    prompts = [line for line in desk.file().read_text().splitlines() if '"origin":"prompt"' in line]
    second = prompts[1].partition('"uuid":"')[2].partition('"')[0]
    await desk.prompts(["Other."], "Another", rewind=Rewind(before=second))


async def resumed(desk: Desk) -> None:
    await desk.prompts([reply(call("Bash", command="cd sub && pwd")), "I am in sub."], "Go to sub")
    await desk.prompts(["Still there."], "Where are you?", effort="high")


async def cut_off(desk: Desk) -> None:
    await desk.prompts(
        ["One.", reply(say("Two"), call("Read", file_path=str(desk.project / "a.txt"))), "Three."], "1", "2"
    )
    lines = desk.file().read_bytes().splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if b'"call"' in line or b"ToolStarted" in line)
    desk.file().write_bytes(b"".join(lines[: last + 1]))
    await desk.prompts(["Again."], "Go on")


async def sub_agent(desk: Desk) -> None:
    task = call("Task", description="look", prompt="Look at a.txt", subagent_type="explore")
    inner = reply(say("It says hello."), match="Look at a.txt")
    await desk.prompts([reply(task), inner, "The agent says hello."], "Let an agent look")


async def todo_and_modes(desk: Desk) -> None:
    todos = [{"content": "look", "status": "in_progress", "activeForm": "looking"}]
    engine = desk.open(reply(call("TodoWrite", todos=todos)), "Planned.", "In plan mode.", "Changed.", "Small.")
    async with engine:
        await desk.run(engine, "Plan")
        engine.permissions.set_mode(PermissionMode.PLAN)
        await desk.run(engine, "Only think")
        engine.permissions.set_mode(PermissionMode.DEFAULT)
        await desk.run(engine, "Now change")
        engine.set_model("claude-haiku-5-5")
        engine.set_effort("low")
        await desk.run(engine, "Quickly")


async def loop_guard(desk: Desk) -> None:
    same = [reply(call_with_id(f"same_{n}", "Bash", command="cat a.txt")) for n in range(6)]
    await desk.prompts([*same, "I stop."], "Watch a.txt")


SCENARIOS: Mapping[str, Callable[[Desk], Awaitable[None]]] = {
    scenario.__name__: scenario
    for scenario in (
        *(
            plain_answers,
            parallel_tools,
            denied_call,
            declined_and_stopped,
            abort_in_stream,
            abort_in_tools,
            abort_before_prompt,
            closed_in_stream,
        ),
        *(retry_and_fallback, failed_request, broken_after_change, output_limit, empty_and_refused),
        *(manual_compaction, auto_compaction, queued_prompt, stop_hook, rewind, resumed, cut_off, sub_agent),
        *(todo_and_modes, loop_guard),
    )
}


def record(name: str, target: Path) -> None:
    folder = FOLDER_OF_PROJECT if target.parent == FOLDER else target.parent / "recorded-session"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "project" / "sub").mkdir(parents=True)
    for file in ("a.txt", "b.txt"):
        (folder / "project" / file).write_text("hello\n")
    (folder / "project" / "AGENTS.md").write_text("Be kind.\n")
    desk = Desk(folder)
    asyncio.run(SCENARIOS[name](desk))  # type: ignore[arg-type]
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(desk.file().read_bytes())
    shutil.rmtree(folder)


if __name__ == "__main__":
    for scenario in sys.argv[1:] or SCENARIOS:
        record(scenario, FOLDER / f"{scenario}.jsonl")
        print(scenario)
