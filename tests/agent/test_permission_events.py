"""Permission events carry reason, parts and rules, for the user and for programs."""

from __future__ import annotations

import pytest

from agentcli.core import events as ev
from agentcli.core.permission import Answer, PermissionMode
from agentcli.shell.commands.command_parts import runs_beside_others
from agentcli.tools.shell.bash import Bash
from tests.support.fakes import bench, only
from tests.support.scripts import call, reply

pytestmark = pytest.mark.anyio


async def run(command: str, answer: Answer, interactive: bool = True) -> list[ev.Event]:
    b = bench(
        reply(call("Bash", command=command)),
        "Done.",
        tools=[Bash(runs_beside_others)],
        mode=PermissionMode.DEFAULT,
        interactive=interactive,
    )
    events: list[ev.Event] = []
    async with b.engine:
        async for event in b.engine.submit("go"):
            events.append(event)
            if isinstance(event, ev.PermissionRequested):
                b.engine.answer(event.request_id, answer)
    return events


async def test_a_question_has_a_reason_for_each_part_and_the_rules_to_save() -> None:
    events = await run("echo a && mkdir b && npm test", Answer("deny", "no"))
    (asked,) = only(events, ev.PermissionRequested)
    assert asked.reason == "Needs approval: mkdir may change files or run code (in `mkdir b`)"
    assert asked.details == [
        "echo a: allowed because it is read-only",
        "mkdir b: needs approval because mkdir may change files or run code",
        "npm test: needs approval because npm test may change files or run code",
    ]
    assert asked.suggestions == ["Bash(mkdir b)", "Bash(npm test *)"]
    wider, exact = asked.rule_choices
    covers = "exactly mkdir b; npm test with any arguments"
    assert (wider["rules"], wider["covers"]) == (asked.suggestions, covers)
    assert (exact["rules"], exact["covers"]) == (["Bash(mkdir b)", "Bash(npm test)"], "exactly this command")


async def test_every_call_has_a_decision_with_its_source() -> None:
    events = await run("echo a | wc -c", Answer("deny"))
    (decided,) = only(events, ev.PermissionDecided)
    assert (decided.behavior, decided.reason) == ("allow", "allowed because it is read-only")
    assert len(decided.details) == 2


async def test_noninteractive_denials_name_all_needed_rules() -> None:
    events = await run("mkdir b && npm test", Answer("deny"), False)
    (denied,) = only(events, ev.PermissionDenied)
    assert denied.reason == (
        "Denied `Bash mkdir b && npm test`: it needs approval because mkdir may change files or run code "
        "(in `mkdir b`), and this session is non-interactive; "
        "the parts without `mkdir b` can run as a call of their own, "
        "and the user can allow such calls with --allowedTools 'Bash(mkdir *),Bash(npm test *)'."
    )
    assert denied.rules == ["Bash(mkdir *)", "Bash(npm test *)"]


async def test_a_question_shows_the_whole_command_with_invisible_characters() -> None:
    command = "echo 'a\u202eb' && touch " + "x" * 3_000 + "\u200b"
    (asked,) = only(await run(command, Answer("deny")), ev.PermissionRequested)
    assert asked.display["kind"] == "command"
    assert asked.display["command"] == command.replace("\u202e", "<U+202E>").replace("\u200b", "<U+200B>")
    assert all("\u202e" not in text for text in (asked.reason, *asked.details))
