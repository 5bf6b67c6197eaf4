"""Turn parsed flags into `Options` for the engine and settings for the front end.

Checks everything that can be known before the first request. Reads the files that flags name; writes nothing, starts
nothing.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from agentcli.assemble import Options
from agentcli.cli.flags import Parsed
from agentcli.core.errors import UsageError
from agentcli.core.messages import Json
from agentcli.core.permission import PermissionMode
from agentcli.core.text.patterns import lazy_pattern
from agentcli.headless.run import HeadlessSettings

_UUID = lazy_pattern(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


_PASSED_ON = (
    *("effort", "fast", "thinking", "max_thinking_tokens", "max_turns", "max_budget_usd", "token_budget"),
    *("task_budget", "allowed_tools", "disallowed_tools", "trust", "sandbox", "agents", "mcp_config"),
    *("strict_mcp_config", "settings", "setting_sources", "fork_session"),
)
"""Flags whose value is the option of the same name."""

_HEADLESS = (
    "output_format",
    "input_format",
    "verbose",
    "replay_user_messages",
    "include_hook_events",
    "wait_background",
)
"""The same for the settings of a headless run."""

_NEEDED_STREAMS = {
    "include_partial_messages": "output_format",
    "include_hook_events": "output_format",
    "replay_user_messages": "input_format",
}
"""Flags that need stream-json."""


def build_options(parsed: Parsed, cwd: Path) -> Options:
    """Check the flags and convert them. Raises `UsageError`."""
    _check_session_flags(parsed)
    _check_formats(parsed)
    return Options(
        cwd=cwd,
        interactive=not parsed.headless,
        offer_auto_mode=not parsed.headless,
        key_needed=parsed.headless,
        model=_not_empty(parsed, "model"),
        fallback_models=parsed.get("fallback_model", ()),
        advisor=_not_empty(parsed, "advisor"),
        system_prompt=_text_or_file(parsed, "system_prompt", cwd),
        append_system_prompt=_text_or_file(parsed, "append_system_prompt", cwd),
        json_schema=_json_schema(parsed.get("json_schema"), cwd),
        tools=None if "default" in parsed.get("tools", ()) else parsed.get("tools"),
        permission_mode=_permission_mode(parsed),
        add_dirs=tuple(_folder(text, cwd) for text in parsed.get("add_dir", ())),
        agent=_not_empty(parsed, "agent"),
        continue_latest=parsed.get("continue", False),
        resume=parsed.get("resume") or None,
        session_id=_session_id(parsed.get("session_id")),
        name=_not_empty(parsed, "name"),
        persist=not parsed.get("no_session_persistence", False),
        raw_events=parsed.get("include_partial_messages", False),
        **{key: parsed.values[key] for key in _PASSED_ON if key in parsed.values},
    )


def headless_settings(parsed: Parsed, cwd: Path) -> HeadlessSettings:
    debug_file = _not_empty(parsed, "debug_file")
    return HeadlessSettings(
        prompt=parsed.prompt,
        debug_filter=parsed.get("debug"),
        debug_file=cwd / debug_file if debug_file else None,
        **{key: parsed.values[key] for key in _HEADLESS if key in parsed.values},
    )


def _check_session_flags(parsed: Parsed) -> None:
    goes_on = "continue" in parsed.values or "resume" in parsed.values
    if "continue" in parsed.values and "resume" in parsed.values:
        raise UsageError("--continue and --resume exclude each other. Use one of them.")
    if "resume" in parsed.values and not parsed.get("resume") and parsed.headless:
        raise UsageError("--resume needs a session with -p: --resume ID. agentcli sessions list shows them.")
    if parsed.get("fork_session") and not goes_on:
        raise UsageError("--fork-session copies a session: add --continue or --resume ID.")
    if parsed.get("session_id") and goes_on and not parsed.get("fork_session"):
        raise UsageError("--session-id is for a new session. Add --fork-session, or omit it.")


def _check_formats(parsed: Parsed) -> None:
    streams_out = parsed.get("output_format") == "stream-json"
    streams_in = parsed.get("input_format") == "stream-json"
    if streams_in and not streams_out:
        raise UsageError("--input-format stream-json needs --output-format stream-json too.")
    if streams_in and parsed.prompt is not None:
        raise UsageError("With --input-format stream-json prompts come from standard input. Omit the prompt argument.")
    for key, needed in _NEEDED_STREAMS.items():
        if parsed.get(key) and parsed.get(needed) != "stream-json":
            raise UsageError(f"{_flag(key)} needs {_flag(needed)} stream-json.")


def _flag(key: str) -> str:
    return "--" + key.replace("_", "-")


def _not_empty(parsed: Parsed, key: str) -> str | None:
    value: str | None = parsed.get(key)
    if value is not None and not value.strip():
        raise UsageError(f"{_flag(key)} is empty. Add a value or omit it.")
    return value


def _text_or_file(parsed: Parsed, key: str, cwd: Path) -> str | None:
    flag = _flag(key)
    text: str | None = parsed.get(key)
    file: str | None = parsed.get(f"{key}_file")
    if text is not None and file is not None:
        raise UsageError(f"{flag} and {flag}-file exclude each other. Use one of them.")
    return text if file is None else _read(file, cwd, f"{flag}-file")


def _read(name: str, cwd: Path, flag: str) -> str:
    path = cwd / Path(name).expanduser()
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{flag}: cannot read {path} ({error.strerror}). Check the path.") from None
    except ValueError:
        raise UsageError(f"{flag}: {path} is not UTF-8 text. Save it as UTF-8.") from None


def _json_schema(given: str | None, cwd: Path) -> Json | None:
    if given is None:
        return None
    flag = "--json-schema"
    text = given if given.lstrip().startswith(("{", "[")) else _read(given, cwd, flag)
    try:
        schema: Json = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{flag} is not valid JSON: {error}.") from None
    from agentcli.tools.structured import schema_problem

    problem = schema_problem(schema)
    if problem is not None:
        raise UsageError(f"{flag}: {problem}")
    return schema


def _permission_mode(parsed: Parsed) -> PermissionMode | None:
    mode: str | None = parsed.get("permission_mode")
    if parsed.get("dangerously_skip_permissions"):
        if mode not in (None, PermissionMode.BYPASS.value):
            raise UsageError(f"--dangerously-skip-permissions and --permission-mode {mode} exclude each other.")
        return PermissionMode.BYPASS
    return None if mode is None else PermissionMode(mode)


def _folder(text: str, cwd: Path) -> Path:
    path = cwd / Path(text).expanduser()
    if not path.is_dir():
        raise UsageError(f"--add-dir: {path} is not a folder. Check the path.")
    return path.resolve()


def _session_id(text: str | None) -> str | None:
    if text is not None and not _UUID.fullmatch(text):
        raise UsageError(f"--session-id must be a UUID, not {text!r}.")
    return None if text is None else text.lower()
