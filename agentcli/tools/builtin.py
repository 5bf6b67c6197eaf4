"""Base classes and path helpers of the built-in tools. Descriptions come from .md files."""

from __future__ import annotations

import os
import sys
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.core.text.plaintext import plain_line, visible_text
from agentcli.tools.base import Output, Tool, ToolContext

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
    """The description file beside the first of these modules that has one.

    Cached per process, because each sub-agent creates its own tools.
    """
    beside = (Path(str(sys.modules[module].__file__)).with_name(f"{name.lower()}.md") for module in modules)
    return next(path for path in beside if path.is_file()).read_text(encoding="utf-8").strip()


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


def shown_path(path: str, context: ToolContext) -> str:
    return visible_text(name_below(path, context))


def failure(text: str, summary: str = "failed") -> Output:
    return Output(text, is_error=True, summary=summary)


def os_failure(error: OSError, what: str) -> Output:
    """An error output for an error of the operating system."""
    reason = (error.strerror or str(error) or type(error).__name__).lower()
    return failure(f"{what}: {reason}.", summary=reason)
