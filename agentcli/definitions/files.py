"""Parse definition files, Markdown with a header, into typed values: commands, skills, agents and output styles."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from agentcli.core.frozen import frozen
from agentcli.core.text.lazy_pattern import lazy_pattern
from agentcli.core.text.plaintext import plain_line
from agentcli.definitions.folders import Scope
from agentcli.definitions.frontmatter import Document

LONGEST_DESCRIPTION = 1_024
_RULE = lazy_pattern(r"[^\s(]+(?:\s*\([^)]*(?:\)|\Z))?")
"""One rule of `allowed-tools`, with an unclosed bracket: without that it would allow every use of the tool."""
_NAME = lazy_pattern(r"[a-z0-9][a-z0-9_.-]*(?::[a-z0-9][a-z0-9_.-]*)*\Z")


@frozen
class DefinitionOrigin:
    """Where a definition comes from."""

    path: Path
    scope: Scope
    label: str
    """The file as shown to the user: `.claude/commands/review.md`."""
    approved: bool = True
    """Whether its `allowed-tools` apply: it is the user's own file, or unchanged since the user trusted it."""


@frozen
class CommandFile:
    """A slash command; `body` is the prompt that it sends."""

    name: str
    """With its sub-folders as namespaces: `frontend:component`."""
    description: str
    origin: DefinitionOrigin
    body: str
    body_line: int = 1
    """Line of the file where the body begins."""
    argument_hint: str = ""
    allowed_tools: tuple[str, ...] = ()
    model: str = ""


@frozen
class SkillFile:
    """A skill; the model or the user loads its `body` when it is needed."""

    name: str
    description: str
    origin: DefinitionOrigin
    body: str
    allowed_tools: tuple[str, ...] = ()
    model: str = ""
    argument_hint: str = ""
    for_model: bool = True
    """Whether the model may load it; false with `disable-model-invocation`."""
    for_user: bool = True
    """Whether it is in the user's menu; false with `user-invocable: false`."""

    @property
    def folder(self) -> Path:
        return self.origin.path.parent


@frozen
class AgentFile:
    """A sub-agent; `prompt` is its system prompt."""

    name: str
    description: str
    origin: DefinitionOrigin
    prompt: str
    tools: tuple[str, ...] | None = None
    """None: all tools of the session."""
    disallowed_tools: tuple[str, ...] = ()
    model: str = ""
    """A model or an alias; "" and `inherit`: the session's model."""
    max_turns: int | None = None
    background: bool = False
    """Whether it runs in the background."""
    worktree: bool = False
    """Whether it runs in a git worktree of its own."""


@frozen
class StyleFile:
    """An output style; `body` is added to the system prompt."""

    name: str
    description: str
    origin: DefinitionOrigin
    body: str
    keep_coding_instructions: bool = False
    """Whether the default instructions about coding stay in the system prompt."""


Definition = CommandFile | SkillFile | AgentFile | StyleFile
D = TypeVar("D", bound=Definition)
Parse = Callable[[str, Document, DefinitionOrigin], D]
"""Makes a definition of the name from the file's path, the parsed file, and where it is. Raises `ValueError` with a
message for the user."""


def parse_command(name: str, document: Document, origin: DefinitionOrigin) -> CommandFile:
    return CommandFile(
        name=_valid_name(name),
        description=_description(document) or _first_line(document.body),
        origin=origin,
        body=document.body,
        body_line=document.body_line,
        argument_hint=_argument_hint(document),
        allowed_tools=_rules(document),
        model=document.text("model"),
    )


def parse_skill(name: str, document: Document, origin: DefinitionOrigin) -> SkillFile:
    description = _description(document)
    if not description:
        raise ValueError("A skill needs a `description`, which says when to use it.")
    return SkillFile(
        name=_valid_name(document.text("name") or name),
        description=description,
        origin=origin,
        body=document.body,
        allowed_tools=_rules(document),
        model=document.text("model"),
        argument_hint=_argument_hint(document),
        for_model=not document.flag("disable-model-invocation"),
        for_user=document.flag("user-invocable", default=True),
    )


def _argument_hint(document: Document) -> str:
    """The hint as written: the header's parser reads `[file]` as a list."""
    hint = document.fields.get("argument-hint", "")
    return plain_line(hint if isinstance(hint, str) else f"[{', '.join(hint)}]", 100)


def parse_agent(name: str, document: Document, origin: DefinitionOrigin) -> AgentFile:
    description = _description(document)
    if not description:
        raise ValueError("An agent needs a `description`, which says when to use it.")
    if not document.body.strip():
        raise ValueError("An agent needs a text after its header: it is the agent's system prompt.")
    turns = document.text("max-turns") or document.text("maxturns")
    if turns and not (turns.isdecimal() and int(turns) > 0):
        raise ValueError("`max-turns` must be a number of at least 1.")
    tools = document.texts("tools")
    return AgentFile(
        name=_valid_name(document.text("name") or name),
        description=description,
        origin=origin,
        prompt=document.body,
        tools=None if not tools or tools == ("*",) else tools,
        disallowed_tools=document.texts("disallowed-tools") or document.texts("disallowedtools"),
        model=document.text("model"),
        max_turns=int(turns) if turns else None,
        background=document.flag("background"),
        worktree=document.text("isolation") == "worktree",
    )


def parse_style(name: str, document: Document, origin: DefinitionOrigin) -> StyleFile:
    if not document.body.strip():
        raise ValueError("An output style needs a text after its header.")
    return StyleFile(
        name=_valid_name(document.text("name") or name),
        description=_description(document) or _first_line(document.body),
        origin=origin,
        body=document.body,
        keep_coding_instructions=document.flag("keep-coding-instructions"),
    )


def _valid_name(name: str) -> str:
    folded = re.sub(r"\s+", "-", name.strip().lower())
    if not _NAME.match(folded) or len(folded) > 64:
        raise ValueError(f"The name {plain_line(name, 80)!r} cannot be used: letters, digits, `-` and `_`, at most 64.")
    return folded


def _rules(document: Document) -> tuple[str, ...]:
    """The rules of `allowed-tools`: a list, or one line with commas or blanks between them."""
    return tuple(rule for text in document.texts("allowed-tools") for rule in _RULE.findall(text))


def _description(document: Document) -> str:
    return plain_line(document.text("description"), LONGEST_DESCRIPTION)


def _first_line(body: str) -> str:
    line = next((line for line in body.splitlines() if line.strip()), "")
    return plain_line(line.lstrip("#").strip(), 120)
