"""Find what can be completed at the cursor, and the candidates. Values and pure functions; front ends show them.

A `Target` is the part of the text that a completion would replace: `@src/ma`, `/eff`, the argument of a command.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from agentcli.core.frozen import frozen
from agentcli.core.text.fuzzy import fuzzy_match
from agentcli.interactive.completion.sources import ArgumentSource, CommandSource, FoundFiles

if TYPE_CHECKING:
    from agentcli.commands.base import Command

_MENTION = re.compile(r"""(?:^|[\s(\[{<,;"'`=])@(?:"([^"\n]*)|([^\s"]*))$""")
_RANGE = re.compile(r":\d+(?:-\d*)?$")
"""Lines of a mentioned file, which nothing completes."""
_COMMAND = re.compile(r"/([^\s/]*)$")
_ARGUMENT = re.compile(r"/([^\s/]+)[ \t]+(.*)$", re.DOTALL)
_MAX_QUERY = 200


@frozen
class Target:
    kind: Literal["file", "command", "argument"]
    query: str
    start: int
    """First column of the part in the cursor's line; it ends at the cursor."""
    command: str = ""


@frozen
class Candidate:
    label: str
    """Listed text. Untrusted: front ends spell out its hidden characters."""
    insert: str
    """Replacement for the target."""
    detail: str = ""
    hint: str = ""
    """Text after the label, e.g. the arguments of a command."""
    positions: tuple[int, ...] = ()
    """Indexes of the matching characters in the label."""
    is_dimmed: bool = False
    """Whether it is listed, but cannot be used now; its detail says why."""
    then: Literal["stay", "go on", "send"] = "stay"
    """What Enter does after inserting: nothing; complete the next part; send the prompt."""


@frozen
class Menu:
    target: Target
    candidates: tuple[Candidate, ...] = ()
    title: str = ""
    note: str = ""
    """Extra line that cannot be chosen: help for an argument."""
    chosen: int = 0
    """Index of the initially selected candidate; -1: none, so that Enter sends the text as typed."""


def target_at(line: str, column: int, *, first_line: bool) -> Target | None:
    """The part before the cursor that can be completed, if any."""
    before = line[:column]
    if first_line and before.startswith("/"):
        if (command := _COMMAND.fullmatch(before)) is not None:
            return Target("command", command.group(1), 0)
        if (argument := _ARGUMENT.fullmatch(before)) is not None and "@" not in argument.group(2):
            return Target("argument", argument.group(2), argument.start(2), argument.group(1))
    if "@" not in before:
        return None
    mention = _MENTION.search(before[-_MAX_QUERY - 2 :])
    if mention is None:
        return None
    quoted = mention.group(1) is not None
    query = mention.group(1) if quoted else mention.group(2)
    if _RANGE.search(query):
        return None
    return Target("file", query, column - len(query) - (2 if quoted else 1))


def file_menu(target: Target, found: FoundFiles) -> Menu:
    candidates = tuple(
        Candidate(
            label=hit.path,
            insert=mention_of(hit.path, open_ended=hit.is_dir),
            detail=hit.detail,
            positions=hit.positions,
            then="go on" if hit.is_dir else "stay",
        )
        for hit in found.hits
    )
    title = "files and resources" if any(hit.detail for hit in found.hits) else "files"
    if not candidates:
        return Menu(target, title=title, note=found.note)
    return Menu(target, candidates, title=f"{title} · {found.note}" if found.note else title)


def mention_of(path: str, *, open_ended: bool = False) -> str:
    """`@path`, quoted if the path has blanks; without a blank at the end, because a range of lines may follow.
    `open_ended`: the path of a folder, which may be continued."""
    if re.search(r"[\s\"']", path):
        path = path.replace('"', "")
        return f'@"{path}' if open_ended else f'@"{path}"'
    return f"@{path}"


def command_menu(target: Target, commands: CommandSource) -> Menu:
    return Menu(target, tuple(_entry(one, target.query) for one in commands(target.query)), title="commands")


def argument_menu(target: Target, commands: CommandSource, choices: ArgumentSource) -> Menu | None:
    """Argument help and candidates for a command; None for an unknown command."""
    command = next((one for one in commands(target.command) if one.name == target.command), None)
    offered = choices(target.command)
    if command is None and not offered:
        return None
    usage = f"/{command.name} {command.argument_hint}".rstrip() if command is not None else f"/{target.command}"
    note = f"{usage}   {command.summary}" if command is not None and command.argument_hint else ""
    ranked: list[tuple[int, int, Candidate]] = []
    for place, (value, words) in enumerate(offered):
        found = fuzzy_match(target.query, value)
        if found is not None:
            then: Literal["go on", "send"] = "go on" if value.endswith(" ") else "send"
            one = Candidate(value, value, detail=words, positions=found.positions, then=then)
            ranked.append((-found.score, place, one))
    ranked.sort(key=lambda each: each[:2])
    candidates = tuple(one for _score, _place, one in ranked)
    if not candidates and not note:
        return None
    return Menu(target, candidates, title=usage if not note else "", note=note, chosen=0 if target.query else -1)


def _entry(command: Command, query: str) -> Candidate:
    found = fuzzy_match(query.lower(), command.name)
    hint = command.argument_hint
    # `[level]` may be left out, `<name>` may not.
    complete = not hint or hint.startswith("[")
    return Candidate(
        label=f"/{command.name}",
        insert=f"/{command.name} " if hint else f"/{command.name}",
        detail=command.described,
        hint=hint,
        positions=tuple(at + 1 for at in found.positions) if found is not None else (),
        is_dimmed=bool(command.unavailable),
        then="send" if complete else "go on",
    )
