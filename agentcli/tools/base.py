"""The interface of a tool, its context and input schema, and base classes and path helpers of the built-in tools.

A tool declares what it needs (`needs`) and never asks the user. It yields progress and then exactly one `Output`. A
failure in the outside world (missing file, failing command) is an `Output` with `is_error`, never an exception. An
exception is a bug, which the caller turns into an error result.

Inputs are checked against the subset of JSON Schema that they need: readable problems, and coercion of harmless
mistakes. Not `jsonschema`: it takes a tenth of a second to import, and its messages do not help a model. Unknown
keywords never make a value invalid.

Descriptions of built-in tools come from .md files.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agentcli.core.aio import AbortSignal
from agentcli.core.frozen import frozen
from agentcli.core.messages import Block, ImageBlock, Json, TextBlock, UnknownBlock
from agentcli.core.permission import ORDINARY, Grant, Need, PermissionMode
from agentcli.core.processes.launch import Launcher
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line, visible_text
from agentcli.tools.files.read_cache import ReadCache
from agentcli.tools.shell.environment import NO_FURTHER, PassedVariables

if TYPE_CHECKING:
    from agentcli.tools.shell.background import Shells

Content = str | tuple[TextBlock | ImageBlock | UnknownBlock, ...]


@frozen
class SmallReply:
    text: str
    error: str = ""
    """Why there is no text; empty if there is."""
    blocks: tuple[Block, ...] = ()
    """All blocks of the reply, including server tool results and citations."""


class SmallModel(Protocol):
    """A side request to the small model; its cost is counted. Bound to one call by the executor."""

    async def ask(
        self, system: str, prompt: str, signal: AbortSignal, server_tools: tuple[Json, ...] = ()
    ) -> SmallReply: ...


@frozen
class AgentTask:
    """The task of a sub-agent and its options."""

    call_id: str
    agent: str
    """Name of the agent definition."""
    description: str
    prompt: str
    model: str = ""
    """Model name; empty: the definition's, else the session's."""
    background: bool = False
    worktree: bool = False
    """Whether the agent works in its own git worktree."""
    is_planned: bool = False
    """Whether plan mode is on."""


class AgentStarter(Protocol):
    """Starts sub-agents for one call; their events are reported with the call's own."""

    def problem(self, task: AgentTask) -> str | None:
        """Reason why the task cannot be started; None if it can."""
        ...

    async def start(self, task: AgentTask, signal: AbortSignal) -> Output:
        """Run a task to its end, or only start it if it runs in the background."""
        ...

    def has_background(self, agent_id: str) -> bool:
        """Whether there is a background agent with this id."""
        ...

    async def stop(self, agent_id: str) -> str:
        """Stop a background agent; returns its report."""
        ...


@frozen
class ToolContext:
    """Where a call runs. Immutable: a tool reports changes in its output, and the executor applies them."""

    cwd: Path
    """Working directory of shell commands. It follows their `cd`; file tools use `root` instead."""
    working_dirs: tuple[Path, ...]
    """The folders the agent may work in, resolved; the first is where the session started."""
    results_dir: Path | None = None
    """Private folder for output too large for the conversation; None if nothing may be written."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Environment of child processes, without keys and tokens."""
    passed: PassedVariables = NO_FURTHER
    """Additional variables that the settings pass to child processes."""
    proxies: Mapping[str, str] = field(default_factory=dict)
    """Proxy variables with their credentials, for requests that tools make themselves."""
    read_cache: ReadCache = field(default_factory=ReadCache)
    """Which file contents the model has seen. Shared by all calls of a conversation."""
    hides: Callable[[str], bool] | None = None
    """Whether a file (absolute path) must not appear in search results; None: nothing is hidden.

    A search is allowed for a folder as a whole, so rules against single files in it apply here.
    """
    launcher: Launcher = Launcher()
    shells: Shells | None = None
    """The background commands of the session; None if they are not available."""
    call_id: str = ""
    small_model: SmallModel | None = None
    """None if no model is available, e.g. in tests of a single tool."""
    agents: AgentStarter | None = None
    """None if sub-agents cannot be started."""
    mode: PermissionMode = PermissionMode.DEFAULT
    """The permission mode when the call begins."""
    before_plan: PermissionMode = PermissionMode.DEFAULT
    """The mode that an approved plan returns to."""
    reaches: Callable[[str], bool] | None = None
    """Whether a rule allows fetching from a host although its name resolves to a private address; None: no host."""
    by_user: bool = False
    """Whether the user typed this command; it then gets their whole environment."""
    credentials: Mapping[str, str] = field(default_factory=dict)
    """Variables with credentials. A grant may pass some of them to one command."""
    grant: Grant = ORDINARY
    """Permissions of this call's command beyond the usual sandbox limits."""
    needs: tuple[Need, ...] = ()
    """The needs approved for this call; empty if there was no decision, e.g. in tests of a single tool."""
    also_writable: tuple[Path, ...] = ()
    """More folders that sandboxed commands may write (`sandbox.allowWrite`)."""

    @property
    def root(self) -> Path:
        """The folder where the session started; relative paths of file tools start here."""
        return self.working_dirs[0] if self.working_dirs else self.cwd

    def folder_of(self, needs: Sequence[Need]) -> Path:
        """The base of relative paths in a call: the shell's directory for commands, else the root."""
        return self.cwd if any(need.kind == "execute" for need in needs) else self.root


@frozen
class Progress:
    """Shown while the tool runs; not stored. See `ToolProgressed`."""

    text: str = ""
    data: Json = field(default_factory=dict)


@frozen
class Output:
    """The result of a call."""

    content: Content
    """For the model."""
    is_error: bool = False
    is_exit_code: bool = False
    """Whether the error is only the exit code of a command that ran to its end; the call itself did not fail."""
    summary: str = ""
    """One line for the user, e.g. `214 lines`, `exit 1`."""
    display: Json = field(default_factory=dict)
    """For the user: `{"kind": "diff" | "code" | "text" | "image" | "matches", ...}`; unknown kinds are ignored."""
    structured: Any = None
    """Value for programs: `tool_use_result` in stream-json."""
    data: Json = field(default_factory=dict)
    """Stored with the result in the log, for later steps: see `core.messages.RESULT_DATA`."""
    new_cwd: Path | None = None
    """New working directory of shell commands, if this call changed it."""
    mode: Literal["plan", "previous"] | None = None
    """Enter plan mode, or return to the mode before it."""
    todos: list[Json] | None = None
    """The complete task list, if the call changed it."""
    wanted_hosts: tuple[str, ...] | None = None
    """If not None, a command failed for lack of network access, to these hosts as far as known; it may be run again."""
    allows: tuple[str, ...] = ()
    """Allow rules that apply until the submission ends, from a skill that the user trusts."""
    allows_from: str = ""
    """The file that these rules come from."""
    cancel_siblings: bool = False
    """Whether this failure makes the parallel calls pointless."""
    notices: tuple[str, ...] = ()
    """Warnings for the user, each shown as a separate notice."""
    final: Any = None
    """If not None, the submission ends with this value (structured output)."""


ToolRun = AsyncGenerator[Progress | Output, None]
"""Progress, then exactly one `Output`."""


class Tool(Protocol):
    """A tool. Its input is a plain dictionary that has passed `input_schema`.

    A tool may also have `runs_beside(input) -> bool`: whether a call that is not safe may still run in parallel with
    others; and `preview(input, context) -> Json | Output | None`: what a call would do, in the form of
    `Output.display`, shown with a permission question. It runs in a thread and changes nothing. If it returns an
    `Output`, that is the failure of the call: the model gets it and the user is not asked.
    """

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def input_schema(self) -> Json: ...

    def title(self, input: Json) -> str:
        """One line for the user that describes this call. Also called with input that failed its schema."""
        ...

    def is_safe(self, input: Json) -> bool:
        """Whether this call is read-only, so that it may run in parallel, be discarded and be repeated."""
        ...

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        """The needs that permissions must cover. Cheap, no side effects, never asks."""
        ...

    def check(self, input: Json, context: ToolContext) -> str | None:
        """Checks beyond the schema, before permission is asked: None if valid, else a message for the model."""
        ...

    def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        """Yield progress, then one Output. On an abort: stop soon, leave no process behind, still yield an Output."""
        ...


_PATHS = ("file_path", "notebook_path", "path")
"""Input fields of built-in tools that name a file or folder."""


class BuiltinTool:
    """Defaults for a read-only tool. A subclass sets `name` and `input_schema` and implements `run`."""

    name: str
    input_schema: Json
    subject: str
    """The input field that identifies the target of a call, e.g. its file."""
    names_file = False
    """Whether `subject` is the file that a call reads or writes."""
    folder_field = ""
    """The input field that names a folder to search."""
    again = ""
    """How the model gets an old result again. Results of tools without it are never cleared to make room."""
    explores = False
    """Whether read-only agents such as `explore` get it."""
    main_agent_only = False
    """Whether it addresses the user, or the caller of the session."""
    needs_conversation = False
    """Whether it needs a conversation, a model or MCP servers, so that `agentcli mcp serve` does not offer it."""
    keeps_state = False
    """Whether a resumed session restores state from its calls, also from those before a compaction."""
    max_repeats = 0
    """Identical calls before the loop guard asks, if more than usual."""

    @cached_property
    def description(self) -> str:
        modules = tuple(kind.__module__ for kind in type(self).__mro__ if issubclass(kind, BuiltinTool))
        return _description_beside(modules, self.name)

    def title(self, input: Json) -> str:
        return plain_line(f"{self.name} {input.get(self.subject, '')}").strip()

    def is_safe(self, input: Json) -> bool:
        return True

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return (Need("read", absolute_path(input.get(self.subject), context)),)

    def check(self, input: Json, context: ToolContext) -> str | None:
        return path_problem(input.get(self.subject))

    def observed(self, input: Json, context: ToolContext) -> Json:
        """A copy of an input for hooks and other programs, with absolute paths. The tool does not run with it."""
        paths = {name: absolute_path(input[name], context) for name in _PATHS if isinstance(input.get(name), str)}
        return {**input, **paths}


@cache
def _description_beside(modules: tuple[str, ...], name: str) -> str:
    """The text of `<name in lower case>.md` beside the first of these modules that has one.

    Cached per process, because each sub-agent creates its own tools.
    """
    beside = [Path(str(sys.modules[module].__file__)).with_name(f"{name.lower()}.md") for module in modules]
    found = next((path for path in beside if path.is_file()), None)
    if found is None:
        raise FileNotFoundError(f"{name} has no description for the model. Write it to {beside[0]}")
    return found.read_text(encoding="utf-8").strip()


class QuestionTool(BuiltinTool):
    """A tool that asks the user. Never safe: a broken stream must not ask twice, and the answer may change the mode."""

    main_agent_only = needs_conversation = True

    def is_safe(self, input: Json) -> bool:
        return False

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return (Need("question", self.title(input)),)


def title_of(tool: Tool, input: Json, root: Path) -> str:
    """The title. `root`: where the session started, not the current directory: a title must stay correct after a
    `cd`."""
    title, folder = tool.title(input), f"{root}/"
    for name in _PATHS:
        path = input.get(name)
        if isinstance(path, str) and path.startswith(folder) and ".." not in path:
            title = title.replace(path, path[len(folder) :] or ".", 1)
    return title


def object_schema(required: list[str], properties: dict[str, Any]) -> Json:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


MAX_PATH_LENGTH = 4_096
"""In characters, the limit of Linux."""


def absolute_path(given: object, context: ToolContext) -> str:
    """An absolute path without `..` and `~`; relative paths start at the project's root.

    The approved text and the opened path are the same. A path in the temp folder of sandboxed commands is mapped to its
    real location.
    """
    text = given if isinstance(given, str) else ""
    home = context.environ.get("HOME")
    if home and (text == "~" or text.startswith("~/")):
        text = home + text[1:]
    # Without a `Path`, for speed: a resumed session calls this for each of its calls.
    return context.launcher.outside(os.path.normpath(os.path.join(context.root, text)))  # noqa: PTH118


def path_problem(given: object) -> str | None:
    if not isinstance(given, str) or not given.strip():
        return "The path is empty. Give the path of a file."
    if len(given) > MAX_PATH_LENGTH:
        return f"The path has {len(given):,} characters; no path has more than {MAX_PATH_LENGTH:,}."
    return None if is_encodable(given) else "The path contains characters that no file name can have."


def is_encodable(text: str) -> bool:
    """Whether the operating system accepts the text in a name or a command: no NUL, no lone surrogates."""
    try:
        return b"\x00" not in text.encode("utf-8")
    except UnicodeEncodeError:
        return False


def name_below(path: str, context: ToolContext) -> str:
    """The path for display: relative if it is below the project's root."""
    return context.launcher.inside(path).removeprefix(str(context.root).rstrip("/") + "/")


def show_path(path: str, context: ToolContext) -> str:
    return visible_text(name_below(path, context))


def failure(text: str, summary: str = "failed") -> Output:
    return Output(text, is_error=True, summary=summary)


def os_failure(error: OSError, what: str) -> Output:
    """An error output for an error of the operating system."""
    reason = (error.strerror or str(error) or type(error).__name__).lower()
    return failure(f"{what}: {reason}.", summary=reason)


_TYPE_NAMES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_TYPE_CLASSES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


def find_problems(schema: Mapping[str, Any], value: object, path: str = "") -> list[str]:
    """Messages such as `limit: must be an integer`; empty if the value is valid."""
    if not isinstance(schema, Mapping):
        return []  # `true` is a valid schema
    options = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(options, list):
        if any(not find_problems(option, value, path) for option in options):
            return []
        kinds = [_TYPE_NAMES.get(str(option.get("type")), "") for option in options]
        if all(kinds):
            return [_at(path, f"must be {' or '.join(kinds)}")]
        return find_problems(options[0], value, path)
    expected = schema.get("type")
    allowed: list[Any] = expected if isinstance(expected, list) else [expected]
    if expected is not None and not any(_is_a(kind, value) for kind in allowed):
        return [_at(path, f"must be {' or '.join(_TYPE_NAMES.get(str(kind), str(kind)) for kind in allowed)}")]
    if "const" in schema and value != schema["const"]:
        return [_at(path, f"must be {schema['const']!r}")]
    if "enum" in schema and value not in schema["enum"]:
        return [_at(path, f"must be one of {', '.join(map(str, schema['enum']))}")]
    found = _bounds(schema, value, path)
    if isinstance(value, dict):
        found += _members(schema, value, path)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            found += find_problems(schema["items"], item, f"{path}[{index}]")
    return found


def coerce(schema: Mapping[str, Any], value: Any) -> Any:
    """Correct unambiguous mistakes: "5" for 5, "true" for true. Never changes `value` itself."""
    if not isinstance(schema, Mapping):
        return value
    kind = schema.get("type")
    if isinstance(value, str):
        if kind == "integer" and re.fullmatch(r"\s*-?\d{1,18}\s*", value):
            return int(value)
        if kind == "number" and re.fullmatch(r"\s*-?\d{1,18}(?:\.\d{1,18})?\s*", value):
            return float(value)
        if kind == "boolean" and value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        return value
    if kind == "integer" and isinstance(value, float) and value.is_integer() and abs(value) < 1e18:
        return int(value)
    if isinstance(value, dict) and isinstance(schema.get("properties"), dict):
        known = schema["properties"]
        required = schema.get("required", ())
        return {
            name: coerce(known.get(name, {}), item)
            for name, item in value.items()
            # Some models write null for omitted fields.
            if not (item is None and name in known and name not in required and not _is_nullable(known[name]))
        }
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [coerce(schema["items"], item) for item in value]
    return value


def check_input(schema: Mapping[str, Any], value: Json) -> tuple[Json, list[str]]:
    fitted = coerce(schema, value)
    return fitted, find_problems(schema, fitted)


def _at(path: str, text: str) -> str:
    return f"{path.lstrip('.') or 'input'}: {text}"


def _is_nullable(schema: Mapping[str, Any]) -> bool:
    if not isinstance(schema, Mapping):
        return True
    kind = schema.get("type")
    options = schema.get("anyOf") or schema.get("oneOf") or ()
    return (
        kind is None or kind == "null" or (isinstance(kind, list) and "null" in kind) or any(map(_is_nullable, options))
    )


def _is_a(kind: object, value: object) -> bool:
    expected = _TYPE_CLASSES.get(str(kind), object)
    return isinstance(value, expected) and (expected is object or (kind == "boolean") == isinstance(value, bool))


def _bounds(schema: Mapping[str, Any], value: object, path: str) -> list[str]:
    found: list[str] = []
    if isinstance(value, int | float) and not isinstance(value, bool):
        if "minimum" in schema and value < schema["minimum"]:
            found.append(_at(path, f"must be at least {schema['minimum']}"))
        if "maximum" in schema and value > schema["maximum"]:
            found.append(_at(path, f"must be at most {schema['maximum']}"))
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            found.append(_at(path, "must not be empty" if schema["minLength"] == 1 else "is too short"))
        if len(value) > schema.get("maxLength", len(value)):
            found.append(_at(path, f"must have at most {counted(schema['maxLength'], 'character')}"))
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            found.append(_at(path, f"must have at least {counted(schema['minItems'], 'item')}"))
        if len(value) > schema.get("maxItems", len(value)):
            found.append(_at(path, f"must have at most {counted(schema['maxItems'], 'item')}"))
    return found


def _members(schema: Mapping[str, Any], value: Json, path: str) -> list[str]:
    known = schema.get("properties", {})
    found = [_at(f"{path}.{name}", "required") for name in schema.get("required", ()) if name not in value]
    rest = schema.get("additionalProperties", True)
    for name, item in value.items():
        if name in known:
            found += find_problems(known[name], item, f"{path}.{name}")
        elif rest is False:
            found.append(_at(f"{path}.{name}", f"unknown; known are {', '.join(known) or 'none'}"))
        elif isinstance(rest, dict):
            found += find_problems(rest, item, f"{path}.{name}")
    return found
