"""Parse arguments by the table in `table.py`. Knows no `Options` and reads no file.

typer would need 90 ms for the same; a headless start has 400 ms in total. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from agentcli.cli import COMMANDS
from agentcli.cli.flags.table import BY_NAME, Flag
from agentcli.core.errors import UsageError
from agentcli.core.frozen import frozen
from agentcli.core.text.lazy_pattern import lazy_pattern

_RULE_LIST = lazy_pattern(r"(?:[A-Z]\w*|mcp__[\w*-]+)(?:\([^)]*\))?(?:,(?:[A-Z]\w*|mcp__[\w*-]+)(?:\([^)]*\))?)*")


@frozen
class Parsed:
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values by `Flag.key`, only of the given flags. Lists are tuples."""
    prompt: str | None = None
    command: tuple[str, ...] = ()
    """Sub-command and its arguments. If set, the other fields are empty."""

    def get(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)

    @property
    def headless(self) -> bool:
        """Whether this is a headless run: -p, or stream-json for both input and output, because programs that drive
        agentcli over pipes do not pass -p."""
        streams = self.get("input_format") == "stream-json" and self.get("output_format") == "stream-json"
        return bool(self.get("print")) or streams


def parse(argv: Sequence[str]) -> Parsed:
    """Parse the arguments. Raises `UsageError` for anything that is not in the table."""
    if argv and argv[0] in COMMANDS:
        return Parsed(command=tuple(argv))
    parsed = _Arguments(list(argv)).read()
    if parsed.prompt is not None and not parsed.get("print"):
        _refuse_mistyped_command(parsed.prompt)
    return parsed


def split_list(text: str) -> tuple[str, ...]:
    """Split a list at commas or blanks, but not inside parentheses; empty items are dropped."""
    items: list[str] = []
    depth, start = 0, 0
    for position, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth = max(0, depth - 1)
        elif depth == 0 and (character == "," or character.isspace()):
            items.append(text[start:position])
            start = position + 1
    items.append(text[start:])
    return tuple(item.strip() for item in items if item.strip())


class _Arguments:
    def __init__(self, argv: list[str]) -> None:
        self._rest = argv
        self._values: dict[str, Any] = {}
        self._prompt: str | None = None

    def read(self) -> Parsed:
        while self._rest:
            argument = self._rest.pop(0)
            if argument == "--":
                for word in self._rest:
                    self._take_prompt(word)
                break
            if argument.startswith("-") and argument != "-":
                self._take_flag(argument)
            else:
                self._take_prompt(argument)
        return Parsed(self._values, self._prompt)

    def _take_prompt(self, word: str) -> None:
        if self._prompt is not None:
            _refuse_mistyped_command(self._prompt)
            raise UsageError(f"Two prompts given, {self._prompt!r} and {word!r}. Put quotes around the whole prompt.")
        self._prompt = word

    def _take_flag(self, argument: str) -> None:
        name, equals, attached = argument.partition("=")
        flag = BY_NAME.get(name)
        if flag is None:
            if self._take_joined_switches(argument):
                return
            raise UsageError(unknown_flag(name))
        given: str | None = attached if equals else None
        if flag.kind == "switch":
            if given is not None:
                raise UsageError(f"{name} takes no value. Omit {('=' + attached)!r}.")
            self._values[flag.key] = True
            return
        if given is None:
            given = self._next_value(flag, name)
        value = "" if given is None else _value(flag, name, given)
        if flag.repeats:
            self._values[flag.key] = (*self._values.get(flag.key, ()), *value)
        else:
            self._values[flag.key] = value
        if flag.kind == "rules":
            self._take_more_rules(flag, name)

    def _take_joined_switches(self, argument: str) -> bool:
        """Take `-pc` as `-p -c`; False if the argument is not such a group."""
        letters = [BY_NAME.get(f"-{letter}") for letter in argument[1:]]
        if argument.startswith("--") or not all(flag is not None and flag.kind == "switch" for flag in letters):
            return False
        for flag in letters:
            if flag is not None:
                self._values[flag.key] = True
        return True

    def _next_value(self, flag: Flag, name: str) -> str | None:
        if flag.kind == "equals":
            return None
        following = self._rest[0] if self._rest else None
        if flag.kind == "optional" and (following is None or following.startswith("-")):
            return None
        # A value may begin with a dash (a prompt, a negative number), but a known flag means that the value is missing.
        if following is None or following in BY_NAME:
            raise UsageError(f"{name} needs a value: {name} {flag.metavar or '|'.join(flag.choices)}.")
        return self._rest.pop(0)

    def _take_more_rules(self, flag: Flag, name: str) -> None:
        """Rules may also follow as separate arguments, as in scripts for other programs.

        A bare word before the prompt could be either: guessing would lose a prompt or grant a tool, so it is refused.
        """
        while self._rest and _RULE_LIST.fullmatch(self._rest[0]):
            word = self._rest[0]
            if self._prompt is None and "(" not in word and not word.startswith("mcp__"):
                raise UsageError(
                    f"{word!r} after {name} could be a rule or the prompt. "
                    f"Join rules with commas, and put the prompt before {name}."
                )
            self._rest.pop(0)
            self._values[flag.key] = (*self._values[flag.key], *split_list(word))


def _value(flag: Flag, name: str, text: str) -> Any:
    match flag.kind:
        case "integer" | "number":
            return _number(flag, name, text)
        case "choice":
            return _choice(flag, name, text)
        case "names" | "rules":
            items = split_list(text)
            return tuple(_choice(flag, name, item) for item in items) if flag.choices else items
        case "paths" | "texts":
            return (text,)
        case _:
            return text


def _number(flag: Flag, name: str, text: str) -> float:
    wanted = "a whole number" if flag.kind == "integer" else "a number"
    try:
        value: float = int(text) if flag.kind == "integer" else float(text)
    except ValueError:
        raise UsageError(f"{name} must be {wanted}, not {text!r}.") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise UsageError(f"{name} must be {wanted}, not {text!r}.")
    if flag.minimum is not None and value < flag.minimum:
        raise UsageError(f"{name} must be {flag.minimum:g} or more, not {text}.")
    return value


def _choice(flag: Flag, name: str, text: str) -> str:
    if text in flag.choices:
        return text
    near = nearest(text, flag.choices)
    hint = f" Did you mean {near}?" if near else ""
    raise UsageError(f"{name} must be one of {', '.join(flag.choices)}, not {text!r}.{hint}")


def unknown_flag(name: str) -> str:
    near = nearest(name, tuple(BY_NAME))
    return f"There is no flag {name}. " + (f"Did you mean {near}?" if near else "agentcli --help lists all flags.")


def _refuse_mistyped_command(prompt: str) -> None:
    if prompt in COMMANDS:
        raise UsageError(f"A command comes first: agentcli {prompt}.")
    near = nearest(prompt, tuple(COMMANDS)) if prompt.isascii() and prompt.isalpha() else None
    if near is not None:
        raise UsageError(f"There is no command {prompt!r}. Did you mean {near}?")


def nearest(word: str, known: tuple[str, ...]) -> str | None:
    # Imported here: only needed for an error message.
    from difflib import get_close_matches

    folded = {name.casefold(): name for name in known}
    matches = get_close_matches(word.casefold(), folded, n=1, cutoff=0.7)
    return folded[matches[0]] if matches else None
