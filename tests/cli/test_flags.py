"""The table of flags: how arguments are parsed and which options follow from them."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from agentcli.__main__ import ALLOCATIONS_BETWEEN_COLLECTIONS, COLLECTIONS_AFTER_START, bound_collections
from agentcli.cli.flags import FLAGS, parse, split_list
from agentcli.cli.invocation import build_options, headless_settings
from agentcli.core.errors import UsageError
from agentcli.core.permission import PermissionMode

RULES = ("Read", "Bash(git log, x:*)", "Edit")


@pytest.mark.parametrize(
    ("argv", "prompt", "values"),
    [
        (["-p", "hi", "--model", "m"], "hi", {"print": True, "model": "m"}),
        (["--model=m", "-p", "hi"], "hi", {"print": True, "model": "m"}),
        (["hi", "--print", "--model", "m"], "hi", {"print": True, "model": "m"}),
        (["-pc"], None, {"print": True, "continue": True}),
        (["-p", "confg"], "confg", {"print": True}),
        (["-p", "--", "--model"], "--model", {"print": True}),
        (["--system-prompt", "", "--setting-sources="], None, {"system_prompt": "", "setting_sources": ()}),
        (["--append-system-prompt", "- be brief"], None, {"append_system_prompt": "- be brief"}),
        (["-r"], None, {"resume": ""}),
        (["-r", "-p"], None, {"resume": "", "print": True}),
        (["-r", "abc"], None, {"resume": "abc"}),
        (["--resume=abc"], None, {"resume": "abc"}),
        (["-p", "--debug", "hi"], "hi", {"print": True, "debug": ""}),
        (["--debug=api,!raw"], None, {"debug": "api,!raw"}),
        (["--allowedTools", "Read,Bash(git log, x:*)", "--allowed-tools=Edit"], None, {"allowed_tools": RULES}),
        (["--add-dir", "a", "--add-dir=b"], None, {"add_dir": ("a", "b")}),
        (["do it", "--allowedTools", "Read", "Bash(ls *)", "mcp__a__b"], "do it", {
            "allowed_tools": ("Read", "Bash(ls *)", "mcp__a__b"),
        }),
    ],
)  # fmt: skip
def test_arguments_are_a_prompt_and_values(argv: list[str], prompt: str | None, values: dict[str, object]) -> None:
    parsed = parse(argv)
    assert (parsed.prompt, dict(parsed.values)) == (prompt, values)


def test_a_word_that_may_be_a_rule_or_the_prompt_is_refused() -> None:
    with pytest.raises(UsageError, match="could be a rule or the prompt"):
        parse(["-p", "--allowedTools", "Read", "Hello"])
    assert parse(["-p", "--allowedTools", "Read", "say hello"]).prompt == "say hello"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--modle", "x"], r"There is no flag --modle. Did you mean --model\?"),
        (["--allowedtool", "x"], "Did you mean --allowedTools|Did you mean --allowed-tools"),
        (["--qqqqqq"], "agentcli --help lists all flags"),
        (["-x"], "There is no flag -x"),
        (["--max-turns", "-1"], "--max-turns must be 1 or more, not -1"),
        (["--max-turns", "many"], "--max-turns must be a whole number, not 'many'"),
        (["--max-budget-usd", "nan"], "--max-budget-usd must be a number, not 'nan'"),
        (["--permission-mode", "acceptedits"], r"must be one of .* Did you mean acceptEdits\?"),
        (["--output-format=xml"], "--output-format must be one of text, json, stream-json, not 'xml'"),
        (["--setting-sources", "user,home"], "--setting-sources must be one of user, project, local, not 'home'"),
        (["--model"], "--model needs a value: --model MODEL"),
        (["--model", "--verbose"], "--model needs a value"),
        (["--verbose=yes"], "--verbose takes no value"),
        (["-p", "fix", "the", "bug"], "Put quotes around the whole prompt"),
        (["confg"], r"There is no command 'confg'. Did you mean config\?"),
        (["session"], r"Did you mean sessions\?"),
        (["--verbose", "config"], "A command comes first: agentcli config"),
    ],
)
def test_wrong_usage_is_explained_in_one_sentence(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(argv)


def test_a_sub_command_keeps_its_own_arguments() -> None:
    assert parse(["sessions", "list", "--all"]).command == ("sessions", "list", "--all")


def test_commas_in_parentheses_do_not_split() -> None:
    assert split_list(" A, B(x,(y,z)) ,,C") == ("A", "B(x,(y,z))", "C")
    assert split_list("Read Bash(npm run test *), Edit(src/(a)/**)") == (
        "Read", "Bash(npm run test *)", "Edit(src/(a)/**)",
    )  # fmt: skip
    assert split_list("") == ()
    assert split_list("Bash(a), b)") == ("Bash(a)", "b)")


def test_the_table_is_consistent() -> None:
    names = [name for flag in FLAGS for name in flag.names]
    assert len(names) == len(set(names))
    assert len({flag.key for flag in FLAGS}) == len(FLAGS)
    assert all(flag.help.endswith(".") for flag in FLAGS)


UUID = "ABCDEF00-1111-4111-8111-111111111111"
STREAMS = ["--input-format", "stream-json", "--output-format", "stream-json"]


def test_every_flag_reaches_its_option(tmp_path: Path) -> None:
    (tmp_path / "system.md").write_text("be good", encoding="utf-8")
    (tmp_path / "extra").mkdir()
    argv = [
        *["-p", "hi", "--output-format", "stream-json", "--include-partial-messages", "--verbose"],
        *["--json-schema", '{"type":"object"}', "--resume", "abc", "--fork-session", "--session-id", UUID],
        *["--name", "n", "--no-session-persistence", "--model", "m", "--fallback-model", "a,b", "--effort", "low"],
        *["--thinking", "enabled", "--max-thinking-tokens", "2000", "--max-turns", "3", "--max-budget-usd", "0.5"],
        *["--token-budget", "10", "--task-budget", "20", "--system-prompt-file", "system.md"],
        *["--append-system-prompt", "more", "--tools", "Read,Edit", "--allowedTools", "Read", "--disallowedTools"],
        *["Bash(rm *)", "--permission-mode", "plan", "--trust", "--add-dir", "extra", "--settings", "{}"],
        *["--setting-sources", "user", "--debug=api", "--debug-file", "log"],
    ]
    options, headless = build_options(parse(argv), tmp_path), headless_settings(parse(argv), tmp_path)
    assert (options.model, options.fallback_models, options.effort) == ("m", ("a", "b"), "low")
    assert (options.thinking, options.max_thinking_tokens, options.max_turns) == ("enabled", 2000, 3)
    assert (options.max_budget_usd, options.token_budget, options.task_budget) == (0.5, 10, 20)
    assert (options.system_prompt, options.append_system_prompt) == ("be good", "more")
    assert (options.json_schema, options.tools) == ({"type": "object"}, ("Read", "Edit"))
    assert (options.allowed_tools, options.disallowed_tools) == (("Read",), ("Bash(rm *)",))
    assert (options.permission_mode, options.trust) == (PermissionMode.PLAN, True)
    assert (options.add_dirs, options.cwd) == ((tmp_path / "extra",), tmp_path)
    assert (options.settings, options.setting_sources) == ("{}", ("user",))
    assert (options.resume, options.fork_session, options.session_id) == ("abc", True, UUID.lower())
    assert (options.name, options.persist, options.raw_events, options.interactive) == ("n", False, True, False)
    assert (headless.prompt, headless.output_format, headless.verbose) == ("hi", "stream-json", True)
    assert (headless.debug_filter, headless.debug_file) == ("api", tmp_path / "log")


def test_without_flags_the_settings_apply(tmp_path: Path) -> None:
    options = build_options(parse(["-p", "hi"]), tmp_path)
    assert (options.model, options.tools, options.permission_mode, options.setting_sources) == (None, None, None, None)
    assert (options.system_prompt, options.persist, options.trust) == (None, True, False)


@pytest.mark.parametrize(
    ("argv", "option", "value"),
    [
        (["--system-prompt", ""], "system_prompt", ""),
        (["--tools", ""], "tools", ()),
        (["--tools", "default"], "tools", None),
        (["--tools", "Read"], "tools", ("Read",)),
        (["--dangerously-skip-permissions"], "permission_mode", PermissionMode.BYPASS),
        (["--json-schema", "s.json"], "json_schema", {"type": "object"}),
    ],
)
def test_a_flag_is_an_option(tmp_path: Path, argv: list[str], option: str, value: object) -> None:
    (tmp_path / "s.json").write_text('{"type": "object"}', encoding="utf-8")
    assert getattr(build_options(parse(["-p", *argv]), tmp_path), option) == value


def test_json_lines_both_ways_mean_headless_without_print() -> None:
    assert parse(STREAMS).headless
    assert not parse(["--output-format", "stream-json"]).headless


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--input-format", "stream-json"], "needs --output-format stream-json too"),
        ([*STREAMS, "hi"], "prompts come from standard input"),
        (["--include-partial-messages"], "needs --output-format stream-json"),
        (["--replay-user-messages"], "needs --input-format stream-json"),
        (["-c", "-r", "x"], "exclude each other"),
        (["-r"], "--resume needs a session"),
        (["--fork-session"], "add --continue or --resume"),
        (["-c", "--session-id", UUID], "--session-id is for a new session"),
        (["--session-id", "7"], "must be a UUID, not '7'"),
        (["--model", " "], "--model is empty"),
        (["--system-prompt", "a", "--system-prompt-file", "b"], "exclude each other"),
        (["--system-prompt-file", "missing.md"], r"cannot read .*missing.md \(No such file"),
        (["--append-system-prompt-file", "."], "cannot read"),
        (["--json-schema", "{"], "is not valid JSON"),
        (["--json-schema", "missing.json"], "cannot read"),
        (["--json-schema", "[1]"], "A JSON schema must be an object"),
        (["--json-schema", '{"type":"object","required":3}'], "Not a JSON schema: at required"),
        (["--add-dir", "nowhere"], "nowhere is not a folder"),
        (["--dangerously-skip-permissions", "--permission-mode", "plan"], "exclude each other"),
    ],
)
def test_conflicting_flags_are_refused(tmp_path: Path, argv: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build_options(parse(["-p", *argv]), tmp_path)


def test_every_flag_of_the_table_is_used() -> None:
    """A flag that nothing reads would be in the help and do nothing."""
    folder = Path(__file__).parents[2] / "agentcli" / "cli"
    readers = ("invocation.py", "flags.py", "main.py", "front_ends.py")
    source = "".join((folder / name).read_text(encoding="utf-8") for name in readers)
    unused = [flag.key for flag in FLAGS if f'"{flag.key.removesuffix("_file")}"' not in source]
    assert unused == []


def check_that_collections_look_only_at_what_came_since() -> None:
    gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS)
    gc.callbacks.append(bound_collections)
    looked_at: list[int] = []
    gc.callbacks.append(lambda phase, _info: looked_at.append(len(gc.get_objects())) if phase == "start" else None)
    kept: list[list[int]] = [[] for _each in range(3 * ALLOCATIONS_BETWEEN_COLLECTIONS)]
    assert gc.get_freeze_count() > 2 * ALLOCATIONS_BETWEEN_COLLECTIONS
    assert gc.get_threshold() == COLLECTIONS_AFTER_START
    assert 0 < max(looked_at) <= 10 * COLLECTIONS_AFTER_START[0], looked_at
    assert len(kept) == 3 * ALLOCATIONS_BETWEEN_COLLECTIONS


def test_collections_look_only_at_what_came_since() -> None:
    """In a Python of its own: thresholds are those of the whole process."""
    code = f"import {__name__} as checks; checks.{check_that_collections_look_only_at_what_came_since.__name__}()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
