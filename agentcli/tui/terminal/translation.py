"""Translate input tokens into Textual's messages.

Names the keys that Textual does not. Uses Textual's key tables and mouse parsing, but not its state machine: the tokens
are already complete sequences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from textual import events
from textual._xterm_parser import XTermParser
from textual.keys import Keys
from textual.message import Message

from agentcli.tui.terminal import input as tokens

_SURROGATE = re.compile("[\ud800-\udfff]").search


@dataclass
class BackgroundColour(Message):
    """The terminal's reply with its background colour, components from 0 to 255."""

    rgb: tuple[int, int, int]

    @property
    def is_light(self) -> bool:
        red, green, blue = self.rgb
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue >= 128


class Translation:
    """Translates tokens. Keeps the state that mouse reports depend on."""

    def __init__(self) -> None:
        self._parser = XTermParser()

    def messages(self, found: Iterable[tokens.Token]) -> Iterator[Message]:
        for token in _without_passed_moves(found):
            try:
                yield from self._messages(token)
            except (ValueError, OverflowError):
                continue  # out-of-range numbers that no terminal sends

    def _messages(self, token: tokens.Token) -> list[Message]:
        match token:
            case tokens.TypedText(text):
                return [event for character in text for event in self._keys(character)]
            case tokens.Sequence(text):
                return self._sequence(text)
            case tokens.Escape():
                return [events.Key("escape", "\x1b")]
            case tokens.Pasted(text):
                return [events.Paste(text)]
            case tokens.Focus(gained):
                return [events.AppFocus() if gained else events.AppBlur()]
            case tokens.Background(red, green, blue):
                return [BackgroundColour((red, green, blue))]
        return []

    def _sequence(self, text: str) -> list[Message]:
        if text.startswith("\x1b[<"):
            report = self._parser.parse_mouse_code(text)
            return [] if report is None else [report]
        found: list[Message] = [*self._keys(text)]
        if found or len(text) != 2:
            return found
        # ESC and a character: the key with Alt. It types nothing, so it has no character.
        plain = [event.key.removeprefix("alt+") for event in self._parser._sequence_to_key_events(text[1], alt=True)]
        return [events.Key(f"alt+{name}", None) for name in plain if name != Keys.Ignore]

    def _keys(self, text: str) -> list[events.Key]:
        found = self._parser._sequence_to_key_events(text)
        return [event for event in found if event.key != Keys.Ignore and not _SURROGATE(event.character or "")]


def _without_passed_moves(found: Iterable[tokens.Token]) -> list[tokens.Token]:
    """Keep only the last of several mouse moves that arrived together."""
    kept: list[tokens.Token] = []
    for token in found:
        if kept and _is_move(token) and _is_move(kept[-1]) and _buttons(token) == _buttons(kept[-1]):
            kept[-1] = token
        else:
            kept.append(token)
    return kept


def _is_move(token: tokens.Token) -> bool:
    buttons = _buttons(token)
    return buttons is not None and bool(buttons & 32) and not buttons & 64


def _buttons(token: tokens.Token) -> int | None:
    if not isinstance(token, tokens.Sequence) or not token.text.startswith("\x1b[<"):
        return None
    number = token.text[3:].split(";", 1)[0]
    return int(number) if number.isascii() and number.isdigit() else None
