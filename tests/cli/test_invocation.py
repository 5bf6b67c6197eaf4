from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcli.cli.flags import FLAGS, parse
from agentcli.cli.invocation import build_options, headless_settings
from agentcli.core.errors import UsageError
from agentcli.core.permission import PermissionMode

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


def test_an_empty_system_prompt_is_not_the_default_one(tmp_path: Path) -> None:
    assert build_options(parse(["-p", "--system-prompt", ""]), tmp_path).system_prompt == ""


@pytest.mark.parametrize(("value", "tools"), [("", ()), ("default", None), ("Read", ("Read",))])
def test_the_tools_flag_knows_none_all_and_some(tmp_path: Path, value: str, tools: tuple[str, ...] | None) -> None:
    assert build_options(parse(["-p", "x", "--tools", value]), tmp_path).tools == tools


def test_skipping_permissions_is_the_bypass_mode(tmp_path: Path) -> None:
    options = build_options(parse(["-p", "x", "--dangerously-skip-permissions"]), tmp_path)
    assert options.permission_mode is PermissionMode.BYPASS


def test_json_lines_both_ways_mean_headless_without_print() -> None:
    assert parse(STREAMS).headless
    assert not parse(["--output-format", "stream-json"]).headless


def test_a_schema_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps({"type": "object", "properties": {}}), encoding="utf-8")
    assert build_options(parse(["-p", "--json-schema", "s.json"]), tmp_path).json_schema is not None


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
