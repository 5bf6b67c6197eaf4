"""Every slash command on a real engine: its answer, its effect, and one `Result` at the end."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from agentcli.agent.engine import Engine
from agentcli.commands.base import ALWAYS, Command
from agentcli.commands.line import CommandLine, parse_line, run_command
from agentcli.commands.registry import COMMANDS, find, find_matching, near
from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.core.permission import PermissionMode
from agentcli.workspace import listing
from agentcli.workspace.diffs import NO_REPOSITORY
from tests.support import assembled
from tests.support.fakes import collect, only, result_of
from tests.support.scripts import call, fails, reply
from tests.support.tables import each_row

pytestmark = pytest.mark.anyio


def engine_on(tmp_path: Path, *replies: Json | str, **rest: object) -> Engine:
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    return assembled.engine_on(project, *replies, **rest)


async def said(engine: Engine, line: str) -> str:
    """The text of a command's one Result; fails where the command failed."""
    result = await outcome(engine, line)
    assert not result.is_error, result.errors
    return result.text


async def outcome(engine: Engine, line: str) -> ev.Result:
    command = parse_line(line)
    assert isinstance(command, CommandLine)
    events = await collect(run_command(engine, command.name, command.arguments))
    assert isinstance(events[0], ev.SessionStarted)
    return result_of(events)


async def refused(engine: Engine, line: str) -> str:
    result = await outcome(engine, line)
    assert (result.is_error, result.terminal, result.subtype) == (True, "command_failed", "error_during_execution")
    return result.errors[0]


@pytest.mark.parametrize("command", [one for one in COMMANDS if one.kind == "report"], ids=lambda one: one.name)
async def test_every_command_answers_without_arguments_and_asks_no_model(command: object, tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        result = await outcome(engine, f"/{command.name}")  # type: ignore[attr-defined]
    assert result.text or result.errors
    assert (result.turns, result.usage.output_tokens) == (0, 0)


async def test_undo_names_the_prompts_that_were_sent_while_the_undone_one_ran(tmp_path: Path) -> None:
    replies = [reply(call("Write", file_path=name, content="x")) for name in ("a.txt", "b.txt")]
    async with engine_on(tmp_path, *replies, "Done.", "Good.") as engine:
        async for event in engine.submit("make a"):
            if isinstance(event, ev.ToolStarted) and event.title.endswith("a.txt"):
                engine.enqueue("and b")
        assert (await said(engine, "/undo")).startswith(
            "Undid the changes of “make a” and of “and b”, sent while it ran: 2 files removed."
        )
        await collect(engine.submit("go on"))
        note = next(message.text for message in engine.messages if message.text.startswith("[The user undid"))
        assert "for “make a” and “and b”." in note


async def test_undo_redo_and_diff_report_each_changed_file(tmp_path: Path) -> None:
    replies: list[Json | str] = [reply(call("Bash", command="echo 1 > a.txt; printf '\\0' > b.bin")), "Done.", "Good."]
    async with engine_on(tmp_path, *replies) as engine:
        await collect(engine.submit("make two files"))
        diff = await said(engine, "/diff")
        listed = "  A a.txt  +1 −0, new file\n  A b.bin  new file, binary\n\ndiff --git"
        assert diff.startswith(f"2 files changed in this session, +1 −0:\n{listed}")
        assert (await said(engine, "/diff last")).startswith(f"2 files changed by the last prompt, +1 −0:\n{listed}")
        undone = await said(engine, "/undo")
        assert undone == "Undid the changes of “make two files”: 2 files removed.\n  D a.txt\n  D b.bin"
        assert engine.messages[-1].text == "Done.", "the model learns of it with the next prompt"
        assert await refused(engine, "/undo") == "Nothing more to undo in this session."
        assert (await said(engine, "/diff")).startswith("agentcli has not changed any files in this session.")
        assert (await said(engine, "/redo")).startswith(
            "Redid the changes of “make two files”: 2 files created again.\n  A a.txt\n  A b.bin"
        )
        (tmp_path / "project" / "a.txt").write_text("mine\n")
        assert "! a.txt: left alone, it was changed later" in await said(engine, "/undo")
        assert await refused(engine, "/diff all") == NO_REPOSITORY
        assert (await refused(engine, "/diff some")).startswith("/diff shows what agentcli changed in this session")
        assert not result_of(await collect(engine.submit("go on"))).is_error


async def test_undo_and_redo_mark_each_file_with_its_change(tmp_path: Path) -> None:
    bash = call("Bash", command="rm gone.txt; echo 2 > kept.txt; echo 3 > new.txt")
    async with engine_on(tmp_path, reply(bash), "Done.") as engine:
        (tmp_path / "project" / "gone.txt").write_text("1")
        (tmp_path / "project" / "kept.txt").write_text("1")
        await collect(engine.submit("tidy"))
        assert await said(engine, "/undo") == (
            "Undid the changes of “tidy”: 1 file restored, 1 file recreated, 1 file removed.\n"
            "  A gone.txt\n  M kept.txt\n  D new.txt"
        )
        assert await said(engine, "/redo") == (
            "Redid the changes of “tidy”: 1 file changed again, 1 file created again, 1 file removed again.\n"
            "  M kept.txt\n  A new.txt\n  D gone.txt"
        )


async def test_diff_says_which_changed_files_the_user_has_deleted_since(tmp_path: Path) -> None:
    bash = call("Bash", command="echo 2 > kept.txt; echo 3 > new.txt; rm gone.txt")
    async with engine_on(tmp_path, reply(bash), "Done.", "Done.") as engine:
        project = tmp_path / "project"
        for name in ("kept.txt", "gone.txt", "mine.txt"):
            (project / name).write_text("1\n")
        await collect(engine.submit("write"))
        (project / "new.txt").unlink()
        (project / "mine.txt").unlink()
        await collect(engine.submit("rest"))
        (project / "kept.txt").unlink()
        assert (await said(engine, "/diff")).split("\n")[:4] == [
            "3 files changed in this session, +2 −2:",
            "  D gone.txt  +0 −1, deleted",
            "  M kept.txt  +1 −1, deleted since, not by agentcli",
            "  A new.txt  +1 −0, new file, deleted since, not by agentcli",
        ]


async def test_a_file_without_a_copy_is_named_by_diff_and_undo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_COPIED", 100)
    monkeypatch.setattr(listing, "ALWAYS_COPIED", 100)
    async with engine_on(tmp_path, reply(call("Bash", command="rm mid.bin")), "Done.") as engine:
        (tmp_path / "project" / "mid.bin").write_bytes(b"l" * 200)
        await collect(engine.submit("tidy"))
        assert await said(engine, "/diff") == (
            "1 file changed in this session, +0 −0:\n  D mid.bin  deleted, too large, no copy kept"
        )
        assert await said(engine, "/undo") == (
            "No change of “tidy” was undone: 1 file without a copy left as it is.\n"
            "  ! mid.bin: deleted; too large, no copy kept"
        )


async def test_effort_shows_the_current_level_and_uses_the_nearest_supported_one(tmp_path: Path) -> None:
    async with engine_on(tmp_path, model="claude-opus-4-6") as engine:
        assert "The effort is auto" in await said(engine, "/effort")
        assert "claude-opus-4-6 supports low, medium, high, max or auto." in await said(engine, "/effort")
        assert "using 'high'" in await said(engine, "/effort xhigh")
        assert engine.profile.effort == "high"
        assert await said(engine, "/effort low") == "The effort is low."
        await said(engine, "/effort auto")
        assert engine.profile.effort is None
        assert "There is no effort level 'huge'" in await refused(engine, "/effort huge")


async def test_a_model_change_adapts_the_options_and_a_typing_error_is_refused(tmp_path: Path) -> None:
    async with engine_on(tmp_path, effort="max") as engine:
        assert "has a context window of 200k tokens, not 1M" in await refused(engine, "/model claude-haiku-4-5[1m]")
        assert "claude-haiku-4-5 does not support effort levels" in await said(engine, "/model claude-haiku-4-5")
        assert (engine.model, engine.effort) == ("claude-haiku-4-5", None)
        assert "'low' is ignored" in await said(engine, "/effort low")
        await said(engine, "/model my-own-model")
        assert engine.effort is None
        await said(engine, "/model claude-opus-4-5")
        assert engine.effort == "high", "the nearest level to the chosen one"
        assert "The effort is now max." in await said(engine, "/model claude-opus-4-6")
        assert engine.effort == "max", "as it was chosen"
        assert "Did you mean claude-sonnet-5-5" in await refused(engine, "/model claude-sonet-5-5")
        assert "not in the catalogue" in await said(engine, "/model my-own-server/llama")
        assert engine.model == "my-own-server/llama"
        assert "The model is my-own-server/llama." in await said(engine, "/model")


async def test_a_command_without_arguments_refuses_some_instead_of_ignoring_them(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        for command in COMMANDS:
            if not command.argument_hint and command.local != ALWAYS:
                said = await refused(engine, f"/{command.name} and more")
                assert said == f"/{command.name} takes no arguments, so nothing was done."
        assert engine.permissions.mode is not PermissionMode.PLAN


async def test_thinking_of_an_unknown_model_is_not_sent(tmp_path: Path) -> None:
    unsent = "No thinking mode is sent to my-own-server/llama: agentcli does not know which ones it has."
    async with engine_on(tmp_path, model="my-own-server/llama") as engine:
        assert (await said(engine, "/thinking")).startswith(f"{unsent} For others it is ")
        assert await said(engine, "/thinking disabled") == f"Thinking is disabled for other models. {unsent}"


async def test_thinking_is_refused_for_a_model_without_it(tmp_path: Path) -> None:
    async with engine_on(tmp_path, model="claude-opus-5-5") as engine:
        assert "It always thinks." in await refused(engine, "/thinking disabled")
        await said(engine, "/model sonnet")
        assert await said(engine, "/thinking disabled") == "Thinking is disabled."
        assert engine.profile.thinking.mode == "disabled"
        await refused(engine, "/thinking hard")


async def test_mode_and_plan_change_the_mode_and_emit_an_event(tmp_path: Path) -> None:
    async with engine_on(tmp_path, interactive=True) as engine:
        events = await collect(run_command(engine, "plan", ""))
        assert [event.mode for event in only(events, ev.ModeChanged)] == ["plan"]
        assert "already" in await said(engine, "/plan")
        assert "The mode is plan." in await said(engine, "/mode")
        assert "The mode is accept edits: " in await said(engine, "/mode acceptedits")
        assert engine.permissions.mode is PermissionMode.ACCEPT_EDITS
        assert "mode      accept edits" in await said(engine, "/status")
        await said(engine, "/mode default")
        await said(engine, "/mode Accept Edits")
        assert engine.permissions.mode is PermissionMode.ACCEPT_EDITS
        assert "There is no mode 'yolo'" in await refused(engine, "/mode yolo")


async def test_a_non_interactive_prompt_cannot_widen_permissions(tmp_path: Path) -> None:
    async with engine_on(tmp_path, permission_mode=PermissionMode.DONT_ASK) as engine:
        for mode in ("bypassPermissions", "acceptEdits", "default"):
            assert "--permission-mode" in await refused(engine, f"/mode {mode}")
        assert engine.permissions.mode is PermissionMode.DONT_ASK
        await said(engine, "/plan")
        assert "--permission-mode" in await refused(engine, "/mode dontAsk")


async def test_permissions_lists_rules_with_their_sources(tmp_path: Path) -> None:
    async with engine_on(tmp_path, allowed_tools=("Bash(ls)",), disallowed_tools=("WebFetch",)) as engine:
        text = await said(engine, "/permissions")
    assert "\nflags\n  deny   WebFetch\n  allow  Bash(ls)" in text


async def test_cost_counts_the_used_tokens(tmp_path: Path) -> None:
    async with engine_on(tmp_path, "Hello.") as engine:
        assert await said(engine, "/cost") == "Nothing has been used yet."
        await collect(engine.submit("hi"))
        text = await said(engine, "/usage")
    assert "claude-sonnet-5-5         1 " in text
    assert "0% of the input was read from the cache" in text


async def test_compact_is_a_submission_of_its_own(tmp_path: Path) -> None:
    async with engine_on(tmp_path, "Hello.", "A summary.") as engine:
        await collect(engine.submit("a long story " * 5000))
        events = await collect(run_command(engine, "compact", "the greeting"))
    assert only(events, ev.ContextCompacted)
    assert result_of(events).text.startswith("Summarised: about ")


async def test_an_unknown_command_is_a_failure_with_a_hint(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        assert "--continue opens" in await refused(engine, "/undo")
        assert await refused(engine, "/unod") == "There is no command /unod. Did you mean /undo?"
        assert await refused(engine, "/xyzzy") == "There is no command /xyzzy. /help lists all commands."
        assert "Did you mean /undo" in await refused(engine, "/help unod")


async def test_a_command_alone_creates_no_session(tmp_path: Path) -> None:
    async with engine_on(tmp_path, "Hello.") as engine:
        await collect(run_command(engine, "status", ""))
    assert not list(tmp_path.rglob("*.jsonl"))


@each_row(
    ("text", "parsed"),
    [
        ("/undo", ("undo", "")),
        ("  /compact  keep the\nplan ", ("compact", "keep the\nplan")),
        ("/unknown word", ("unknown", "word")),
        ("/usr/bin/env is missing", None),
        ("/etc is full, why?", None),
        ("/", None),
        ("/ undo", None),
        ("what is /undo?", None),
        ("/1", None),
    ],
)
def test_a_path_at_the_beginning_of_a_prompt_is_no_command(text: str, parsed: tuple[str, str] | None) -> None:
    line = parse_line(text)
    assert ((line.name, line.arguments) if isinstance(line, CommandLine) else None) == parsed


def test_commands_are_found_by_name_alias_and_a_few_letters() -> None:
    assert find("USAGE") is find("cost")
    assert find("nothing") is None
    assert near("comp")[0] == "compact"
    assert [command.name for command in find_matching("mo")][:2] == ["model", "mode"]
    assert [command.name for command in find_matching("uo")] == ["undo"]
    assert len(find_matching("")) == len(COMMANDS)
    assert find_matching("zzz") == []


def test_every_command_can_be_loaded_and_has_a_line_for_the_menu() -> None:
    for command in COMMANDS:
        assert callable(command.load())
        assert command.manual
        assert command.summary
        assert "\n" not in command.summary


@pytest.mark.parametrize("name", [one.name for one in COMMANDS if one.local == ALWAYS and one.is_local_only])
async def test_a_command_that_needs_a_front_end_is_refused_without_one(tmp_path: Path, name: str) -> None:
    async with engine_on(tmp_path) as engine:
        for line in (f"/{name}", f"/{name} no such argument"):
            assert await refused(engine, line) == f"/{name} is not available here. Start agentcli without -p to use it."


async def test_the_context_is_counted_by_kind_and_a_session_renamed(tmp_path: Path) -> None:
    async with engine_on(tmp_path, "Hello.") as engine:
        await collect(engine.submit("Hi"))
        text = await said(engine, "/context")
        assert "system" in text
        assert "prompts" in text
        items = engine.context.items()
        assert abs(sum(item.tokens for item in items) - engine.context.outlook().tokens) <= len(items), "they add up"
        assert "This session has no name." in await said(engine, "/rename")
        assert "called Fresh name" in await said(engine, "/rename Fresh name")
        assert "This session is called Fresh name." in await said(engine, "/rename")


async def test_fast_mode_is_turned_on_and_off_with_its_price_and_refused_without_it(tmp_path: Path) -> None:
    used = {"input_tokens": 10, "cache_read_input_tokens": 40_000, "output_tokens": 1_000}
    fast = reply("Hello.", usage={**used, "speed": "fast"})
    async with engine_on(tmp_path, reply("Hello.", usage=used), fast, model="opus") as engine:
        assert await said(engine, "/fast status") == "Fast mode is off."
        await collect(engine.submit("Hi"))
        before, spent = engine.context.outlook().next_cost_usd, engine.costs.totals.cost_usd
        assert await said(engine, "/fast") == (
            "Fast mode is on. A million tokens cost $8.00 in and $40.00 out, instead of $4.00 in and $20.00 out. "
            "The next request re-reads 40k tokens, about $0.40."
        )
        assert engine.is_fast
        after = engine.context.outlook().next_cost_usd
        assert before is not None
        assert after is not None
        assert after > 20 * before, "the cache of the other speed is of no use, and the price is double"
        events = await collect(engine.submit("Hi"))
        assert engine.costs.totals.cost_usd - spent == pytest.approx(2 * spent)
        assert "fast mode was turned on" in only(events, ev.PrefixBroken)[0].reason
        assert "speed     fast" in await said(engine, "/status")
        assert "It has no fast mode" in await said(engine, "/model sonnet")
        assert not engine.is_fast
        assert await refused(engine, "/fast") == (
            "claude-sonnet-5-5 has no fast mode. Models that have it: claude-opus-5-5, claude-opus-5, claude-opus-4-8."
        )
        await said(engine, "/model opus")
        assert engine.is_fast, "it stays on for models that have it"
        assert (await said(engine, "/fast off now")).startswith(
            "Fast mode is off. The next request re-reads 40k tokens"
        )
        assert "Use /fast, /fast on" in await refused(engine, "/fast please")


async def test_fast_mode_that_the_server_refused_is_off_and_stays_off(tmp_path: Path) -> None:
    refusal = fails(400, "speed: Extra inputs are not permitted")
    async with engine_on(tmp_path, refusal, "Hello.", "Again.", model="opus", fast=True) as engine:
        assert engine.is_fast
        events = await collect(engine.submit("Hi"))
        [dropped] = only(events, ev.FeatureDropped)
        assert dropped.text == "The server refused fast mode; requests continue without it."
        assert not engine.is_fast
        assert await refused(engine, "/fast on") == "The server refused fast mode for claude-opus-5-5."
        assert only(await collect(engine.submit("Hi")), ev.FeatureDropped) == []


async def test_a_change_that_invalidates_the_cache_shows_its_cost(tmp_path: Path) -> None:
    used = {"input_tokens": 10, "cache_read_input_tokens": 40_000, "output_tokens": 5}
    async with engine_on(tmp_path, reply("Hello.", usage=used)) as engine:
        assert await said(engine, "/effort low") == "The effort is low.", "nothing is cached yet"
        await collect(engine.submit("Hi"))
        assert await said(engine, "/effort high") == (
            "The effort is high. The next request re-reads 40k tokens, about $0.10."
        )
        assert await said(engine, "/effort high") == "The effort is high.", "it was high already"
        assert await said(engine, "/effort low") == "The effort is low.", "what is cached was made with it"
        assert await said(engine, "/model opus") == (
            "The model is now claude-opus-5-5. The next request re-reads 40k tokens, about $0.20."
        )
        assert await said(engine, "/model sonnet") == "The model is now claude-sonnet-5-5."
        assert "re-reads" in await said(engine, "/thinking disabled")


async def test_a_shell_line_runs_directly_and_is_reported_with_the_next_prompt(tmp_path: Path) -> None:
    async with engine_on(tmp_path, "I see.", environ={**os.environ, "HOME": str(tmp_path), "GH_TOKEN": "s3"}) as engine:
        events = await collect(engine.shell('echo "token $GH_TOKEN"'))
        (finished,) = only(events, ev.ToolFinished)
        assert "token s3" in finished.result.text
        assert not result_of(events).is_error
        assert any("token s3" in message.text for message in engine.messages)


# ------------------------------------------------------------------------------------------------------ help and doctor


@each_row("command", COMMANDS)
def test_the_examples_of_a_page_are_lines_of_that_command(command: Command) -> None:
    examples = [line.strip() for line in command.manual.splitlines() if line.startswith("  ")]
    assert examples
    for typed, text in (re.split("  +", example, maxsplit=1) for example in examples):
        line = parse_line(typed)
        assert isinstance(line, CommandLine)
        assert line.command is command
        assert text
        assert not line.arguments or command.argument_hint, f"{typed}: the usage of /{command.name} names no argument"


async def test_help_lists_all_commands_and_explains_one(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        everything = await said(engine, "/help")
        words = " ".join(everything.split())
        assert all(command.usage in words and command.summary in words for command in COMMANDS)
        assert max(map(len, everything.splitlines())) < 80
        assert "agentcli --help" in everything
        one = await said(engine, "/help /usage")
        assert one.splitlines()[0] == "/cost (also /usage)"
        assert "  /compact undo" in await said(engine, "/help compact")
        assert await refused(engine, "/help compat") == "There is no command /compat. Did you mean /compact?"
        assert await refused(engine, "/help zzzzz") == "There is no command /zzzzz. /help lists all commands."


async def test_doctor_shows_one_line_per_check(tmp_path: Path) -> None:
    async with engine_on(tmp_path) as engine:
        text = await said(engine, "/doctor")
        assert "online" in await refused(engine, "/doctor nonsense")
    heads = [line for line in text.splitlines()[:-2] if not line.startswith(" ")]
    assert len(heads) > 8
    assert {line.split()[0] for line in heads} <= {"ok", "warn", "fail"}
    assert any(line.split()[1] == "sandbox" for line in heads)
