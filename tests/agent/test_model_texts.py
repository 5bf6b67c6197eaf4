"""Every text that the model can read beside prompts, from the real code paths, printed into one file.

`python -m pytest tests/agent/test_model_texts.py --basetemp=DIR` leaves it in `DIR`. Read it as a model would: is it
true, is it short, does it say what to do next? The test itself checks what can be checked: that each is there, is not
too long, and does not use words that a model or a user could not understand.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agentcli.agent.loop import wording as words
from agentcli.agent.toolcalls.call_result import interrupted_call
from agentcli.core import events as ev
from agentcli.core.abort import AbortReason
from agentcli.core.messages import Json
from agentcli.core.permission import Answer, PermissionMode
from tests.support.assembled import Assembled
from tests.support.scripts import call, call_raw, reply

pytestmark = pytest.mark.anyio
LONG = "Part of a long story. " * 900
QUESTION = {"question": "Which?", "header": "Which", "options": [{"label": "A"}, {"label": "B"}]}
LONGEST = 1_200
"""Characters of a text of ours; what files and commands put into it comes on top and is short here."""
NOT_OURS = (
    "the person",
    "somebody",
    "anew",
    "of its own accord",
    "shall",
    "what stands in the way",
    "They say",
)
"""Words that VOICE leaves out."""


@dataclass
class Texts:
    found: dict[str, list[str]] = field(default_factory=dict)

    def add(self, heading: str, texts: Iterable[str]) -> None:
        self.found.setdefault(heading, []).extend(texts)

    def written(self, path: Path) -> str:
        parts = [f"## {heading}\n\n" + "\n\n---\n\n".join(texts) for heading, texts in self.found.items()]
        text = "\n\n\n".join(parts) + "\n"
        path.write_text(text, encoding="utf-8")
        return text


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "a.txt").write_text("one\ntwo\none\n")
    (folder / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    (folder / "empty.txt").write_text("")
    (folder / "blob.bin").write_bytes(bytes(range(256)))
    (folder / "src" / "app.py").write_text("".join(f"line {n}\n" for n in range(1, 31)))
    (folder / "src" / "AGENTS.md").write_text("Use tabs.\n")
    (folder / ".env").write_text("SECRET=1\n")
    (folder / "n.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    return folder


TOOLS: list[Json] = [
    call("Read", file_path="a.txt"),
    call("Read", file_path="src/app.py", offset=3, limit=2),
    call("Read", file_path="src/app.py", offset=99),
    call("Read", file_path="missing.txt"),
    call("Read", file_path="a.tx"),
    call("Read", file_path="src"),
    call("Read", file_path="empty.txt"),
    call("Read", file_path="blob.bin"),
    call("Read", file_path="a.txt", pages="1-2"),
    call("Read", file_path=""),
    call("Edit", file_path="crlf.txt", old_string="one", new_string="two"),
    call("Write", file_path="crlf.txt", content="x\n"),
    call("Edit", file_path="a.txt", old_string="one", new_string="two"),
    call("Edit", file_path="a.txt", old_string="oen", new_string="two"),
    call("Edit", file_path="a.txt", old_string="two", new_string="two"),
    call("Edit", file_path="missing.txt", old_string="a", new_string="b"),
    call("Edit", file_path="blob.bin", old_string="a", new_string="b"),
    call("Edit", file_path="a.txt", old_string="two", new_string="three"),
    call("Write", file_path="src/app.py", content="x\n"),
    call("Write", file_path="new/b.txt", content="x\n"),
    call("Write", file_path="new/b.txt", content="x\n"),
    call("MultiEdit", file_path="a.txt", edits=[{"old_string": "three", "new_string": "four"}, {"old_string": "no"}]),
    call(
        "MultiEdit",
        file_path="a.txt",
        edits=[{"old_string": "three", "new_string": "four"}, {"old_string": "five", "new_string": "six"}],
    ),
    call("NotebookEdit", notebook_path="n.ipynb", new_source="x", edit_mode="insert", cell_type="code"),
    call("Glob", pattern="*.txt"),
    call("Glob", pattern="*.none"),
    call("Grep", pattern="line 1", output_mode="content"),
    call("Grep", pattern="nowhere"),
    call("Grep", pattern="("),
    call("Bash", command="true"),
    call("Bash", command="false"),
    call("Bash", command="echo out; exit 3"),
    call("Bash", command="nosuchprogram"),
    call("Bash", command="sleep 5", timeout=20),
    call("Bash", command="sleep 5", run_in_background=True),
    call("BashOutput", bash_id="bash_1"),
    call("KillShell", bash_id="bash_1"),
    call("BashOutput", bash_id="bash_9"),
    call("KillShell", bash_id="bash_9"),
    call("Bash", command="cd /; pwd"),
    call("TodoWrite", todos=[{"content": "Paint it", "status": "pending"}]),
    call("WebFetch", url="nonsense", prompt="x"),
    call("ExitPlanMode", plan="x"),
    call("Nonsense"),
    call("Raed", file_path="a.txt"),
    call("Read", path="a.txt"),
    call_raw("Read", "[1, 2"),
    call("AskUserQuestion", questions=[QUESTION]),
]


def yes(event: ev.PermissionRequested) -> Answer:
    if event.name == "AskUserQuestion":
        return Answer("allow", updated_input={**event.input, "answers": {"Which?": "A"}})
    return Answer("allow", message="A note with the approval.") if event.name == "Skip" else Answer("allow")


async def from_tools(project: Path, texts: Texts) -> None:
    replies = [reply(one) for one in TOOLS]
    options = {"permission_mode": PermissionMode.BYPASS}
    async with Assembled(project, [*replies, "Done."], yes, options) as session:
        await session.run()
        await session.engine.files.undo()
        (project / "src" / "app.py").write_text("changed\n")
        session.requests.clear()
    texts.add("Results of tools", session.results)
    assert len(session.results) == len(TOOLS)


async def from_refusals(project: Path, texts: Texts) -> None:
    bash, ask = reply(call("Bash", command="touch x")), reply(call("AskUserQuestion", questions=[QUESTION]))
    plan, enter = reply(call("ExitPlanMode", plan="Change a.txt")), reply(call("EnterPlanMode"))
    outside = reply(call("Read", file_path="/etc/hostname"))
    secret = reply(call("Read", file_path=".env"), call("Bash", command="cat .env"))
    settings = '{"sandbox": {"mode": "off"}, "permissions": {"deny": ["Read(.env)"]}}'
    cases: list[tuple[str, list[Json], Answer, Json]] = [
        ("declined", [bash, ask, enter], Answer("deny"), {}),
        ("declined with words", [bash, ask, enter], Answer("deny", message="Use make."), {}),
        ("plan mode", [bash, plan], Answer("deny", message="Too large."), {"permission_mode": PermissionMode.PLAN}),
        ("plan approved", [plan, bash], Answer("allow"), {"permission_mode": PermissionMode.PLAN}),
        ("nobody to ask", [bash, ask, enter, outside], Answer("deny"), {"interactive": False}),
        ("dontAsk", [bash, ask], Answer("deny"), {"permission_mode": PermissionMode.DONT_ASK}),
        ("denied by a rule", [secret], Answer("deny"), {"settings": settings}),
    ]
    for name, replies, answer, options in cases:
        async with Assembled(project, [*replies, "Done."], lambda _event, a=answer: a, options) as session:
            await session.run()
            texts.add(f"Refusals: {name}", session.results)
            texts.add(f"Refusals: {name}", _notes(session))


async def from_interruptions(project: Path, texts: Texts) -> None:
    calls = reply(call("Bash", command="echo begun; sleep 30"), call("Bash", command="touch never"))
    for reason in AbortReason:
        options = {"permission_mode": PermissionMode.BYPASS}
        async with Assembled(project, [calls], options=options) as session:
            async with asyncio.timeout(20), aclosing(session.engine.submit("go")) as stream:
                async for event in stream:
                    if isinstance(event, ev.ToolProgressed):
                        session.engine.abort(reason)
            texts.add(f"Interruptions: {reason.value}", session.results)
            texts.add(f"Interruptions: {reason.value}", _notes(session))
    texts.add("Interruptions: a call that was cut off", [interrupted_call(r, True) for r in AbortReason])


async def from_attachments(project: Path, texts: Texts) -> None:
    outside = project.parent / "outside.txt"
    outside.write_text("theirs\n")
    settings = '{"sandbox": {"mode": "off"}, "permissions": {"deny": ["Read(.env)"]}}'
    options = {"settings": settings, "interactive": False, "permission_mode": PermissionMode.ACCEPT_EDITS}
    replies = [
        reply(call("Read", file_path="a.txt"), call("TodoWrite", todos=[{"content": "Paint", "status": "pending"}])),
        reply(call("Bash", command="ls", run_in_background=True)),
        "Done.",
        "Done.",
        "Done.",
    ]
    async with Assembled(project, replies, options=options) as session:
        await session.run(f"@src/app.py:1-2 @src @.env @blob.bin @{outside}")
        (project / "a.txt").write_text("one\nchanged\none\n")
        session.engine.permissions.set_mode(PermissionMode.PLAN)
        await session.follow(session.engine.shell("echo by the user"))
        await session.run("go on")
        session.engine.permissions.set_mode(PermissionMode.DEFAULT)
        (project / "a.txt").unlink()
        await session.run("and now?")
        session_id = session.engine.session_id
        texts.add("Attachments", _notes(session))
    async with Assembled(project, ["Done."], options={"resume": session_id, "cwd": project / "src"}) as again:
        await again.run("in another folder")
        texts.add("Attachments after a resume elsewhere", _notes(again)[-1:])


async def from_the_loop(project: Path, texts: Texts) -> None:
    same = [reply(call("Glob", pattern="*.none"))] * 8
    async with Assembled(project, [*same, "Done."], options={"interactive": False}) as session:
        await session.run()
        texts.add("Loop guard", _notes(session))
    cut = reply("Half of", stop_reason="max_tokens")
    async with Assembled(project, [cut, cut, "it."], options={"interactive": False}) as session:
        await session.run()
        texts.add("Output limit", _notes(session))
    async with Assembled(project, [reply(""), "Done."], options={"interactive": False}) as session:
        await session.run()
        texts.add("Empty reply", _notes(session) or [words.EMPTY_REPLY])
    async with Assembled(project, [reply(call("Glob", pattern="*"))], options={"max_turns": 1}) as session:
        await session.run()
        texts.add("Turn limit", _notes(session))
    texts.add("Token budget", [words.token_budget(5_000)])
    texts.add("Stop hook", [words.stop_hook(["Run the tests first."])])


async def from_undo(project: Path, texts: Texts) -> None:
    replies = [reply(call("Write", file_path="made.txt", content="x\n")), "Done.", "Fine.", "Fine."]
    async with Assembled(project, replies, options={"permission_mode": PermissionMode.ACCEPT_EDITS}) as session:
        await session.run("make it")
        await session.engine.files.undo()
        await session.run("and now?")
        await session.engine.files.redo()
        await session.run("and now?")
        texts.add("Undo", _notes(session))


async def from_compaction(project: Path, texts: Texts) -> None:
    todos = [{"content": "Paint it", "status": "pending"}]
    replies = [
        reply(call("Read", file_path="src/app.py"), call("TodoWrite", todos=todos)),
        LONG,
        LONG,
        "A summary.",
        "Fine.",
    ]
    async with Assembled(project, replies) as session:
        await session.run("begin")
        await session.run("go on")
        await session.follow(session.engine.compact("the tests"))
        texts.add("Compaction: the request", [session.requests[-1]["messages"][-1]["content"][-1]["text"]])
        await session.run("and now?")
        content = session.requests[-1]["messages"][0]["content"]
        texts.add("Compaction: what follows it", [block["text"] for block in content])


def _notes(session: Assembled) -> list[str]:
    """Everything of ours in the log beside results."""
    own = ("prompt", "reply", "tool_results", "boundary", "error")
    return [message.text for message in session.log if message.origin.value not in own]


async def test_every_text_for_the_model_is_printed_and_reads_well(project: Path, tmp_path: Path) -> None:
    texts = Texts()
    for source in (
        from_tools,
        from_refusals,
        from_interruptions,
        from_attachments,
        from_the_loop,
        from_undo,
        from_compaction,
    ):
        folder = project
        await source(folder, texts)
    text = texts.written(tmp_path / "model_texts.txt")
    assert all(texts.found.values()), [heading for heading, found in texts.found.items() if not found]
    for heading, found in texts.found.items():
        for one in found:
            assert one.strip(), heading
            assert len(one) <= (LONGEST if not heading.startswith("Compaction") else 4_000), (heading, one)
    for phrase in NOT_OURS:
        assert not re.search(rf"\b{re.escape(phrase)}\b", text), phrase
