"""Replace the secrets of an exported session, and list what was replaced and where.

First everything that is exported is searched, then all of it is replaced: a value that is recognised in one place, such
as a password in `.env`, is replaced in all others too, always by the same placeholder.

A heuristic that can be wrong in both directions: users should look at the list before they share a file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import Any

from agentcli.core.frozen import frozen, slotted
from agentcli.core.messages import Json
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.secret_text import is_secret_name, token_matches

_UNKNOWN, _IN_URL = "value that looks like a password", "password in a URL"
_PLURALS = {_UNKNOWN: "values that look like a password", _IN_URL: "passwords in URLs"}
_ELSEWHERE = "the rest of the session file"
_MAX_PLACES = 4
_MIN_LENGTH = 6

_ASSIGNMENTS = (
    r"""(?<![\w$.])(?P<variable>[A-Z][A-Z0-9_]{2,60})=(?P<q>["']?)(?P<value>[^\s"'`;&|<>()]{6,400})(?P=q)""",
    r"""(?x)(?P<p>["']?)\b(?P<name>[A-Za-z][\w.-]{1,60})(?P=p)\s{0,4}(?::=|=>|[:=])\s{0,4}
    (?P<q>["'])(?P<value>[^\s"'\\]{6,400})(?P=q)""",
    r"""(?m)^[ \t0-9+\-|→:]{0,16}(?P<name>[A-Za-z][\w.-]{1,60}):[ \t]+(?P<value>[^\s"'#{}\[\],]{8,400})[ \t]*$""",
    r"""(?<!\S)--?(?P<name>[A-Za-z][\w-]{1,40})[ =]["']?(?P<value>[^\s"'-][^\s"']{5,400})""",
    r"""(?i)\b(?:password|passphrase|secret)(?: is|:| =) {1,4}["'`“]?(?P<prose>[^\s"'`”]{7,400}[^\s"'`”.,;:!?)])""",
    r"""(?i)\b[a-z][a-z0-9+.-]{1,20}://[^/?#\s"'<>\\:@]{0,200}:(?P<url>[^/?#\s"'<>\\@]{3,400})@""",
)
_SENSITIVE = r"(?i)(?:passw(?:or)?d|passphrase|secret|token|api[_.-]?key|access[_.-]?key|(?:^|[_.-])(?:pass|pwd))$"
_OFTEN_WORDS = r"(?i)pass(?:w(?:or)?d|phrase)?$|pwd$|secret$"
_NO_VALUE = r"[$<{%*\[…/~]|\.{1,2}/|.*(?:\(|\$\{|\{\{)|(?i:x+|true|false|none|null)$"
"""Begins like a reference to a variable, a path, a placeholder or a call."""

_compiled = cache(re.compile)


@frozen
class Place:
    """Where a secret stood: in a `prompt`, an `answer` or the `thinking` of this number, a `call` or its `output`."""

    kind: str
    number: int
    title: str = ""

    def describe(self) -> str:
        call = f"call {self.number}{f' `{self.title}`' if self.title else ''}"
        names = {"call": call, "output": f"the output of {call}", "answer": f"the answer to prompt {self.number}"}
        return names.get(self.kind) or {
            "prompt": f"prompt {self.number}",
            "thinking": f"the thinking after prompt {self.number}",
        }.get(self.kind, _ELSEWHERE)


@slotted
class Secret:
    kind: str
    placeholder: str = ""
    """"" until it is replaced for the first time."""
    places: dict[Place, None] = field(default_factory=dict)


class Redactor:
    def __init__(self, known: Mapping[str, str] | None = None, home: str = "", shown_home: str = "~") -> None:
        """`known`: variables of the environment, whose secrets are recognised too. `home`: the home folder, shown as
        `shown_home`."""
        self._secrets: dict[str, Secret] = {}
        """By value, in the order of the first replacement once everything is replaced."""
        self._needles: dict[str, tuple[str, str, str]] = {}
        """What is searched: the value itself, or a weak one with its surroundings; before, value, after."""
        self._pattern: re.Pattern[str] | None = None
        self._replaced: list[Secret] = []
        homes = {path.rstrip("/") for path in (home, os.path.realpath(home)) if len(path) > 1 and path.startswith("/")}
        folders = "|".join(map(re.escape, homes))
        self._home = re.compile(rf"(?<![\w~./-])(?:{folders})(?![\w.-])") if folders else None
        self._shown_home = shown_home
        self._known = {
            value: f"value of ${name}"
            for name, value in (known or {}).items()
            if is_secret_name(name) and _is_strong(value) and not _is_no_value(value)
        }

    # ------------------------------------------------------------------------------------------------------- search

    def search(self, value: Any) -> None:
        """Find the secrets in all texts of a JSON value."""
        for text in _texts(value):
            for kind, found in token_matches(text):
                self._add(kind, found)
            for known, kind in self._known.items():
                if known in text:
                    self._add(kind, known)
            self._search_assignments(text)
        self._pattern = None

    def _search_assignments(self, text: str) -> None:
        for pattern in _ASSIGNMENTS:
            for found in _compiled(pattern).finditer(text):
                groups = found.groupdict()
                group = next(name for name in ("url", "prose", "value") if groups.get(name))
                value, name, variable = found[group], groups.get("name") or "", groups.get("variable") or ""
                is_named = group != "value" or is_secret_name(variable) or _names_secret(name)
                if _is_no_value(value) or not is_named:
                    continue
                kind = _IN_URL if group == "url" else _UNKNOWN
                if _is_strong(value):
                    self._add(kind, value)
                elif group == "url" or _compiled(_OFTEN_WORDS).search(name or variable):
                    # A word that also has other meanings is replaced only where it is a password.
                    start, end = found.start(group) - found.start(), found.end(group) - found.start()
                    self._add(kind, value, found[0][:start], found[0][end:])

    def _add(self, kind: str, value: str, before: str = "", after: str = "") -> None:
        self._secrets.setdefault(value, Secret(kind))
        self._needles.setdefault(before + value + after, (before, value, after))

    # ------------------------------------------------------------------------------------------------------ replace

    def replace(self, value: Any, place: Place | None = None) -> Any:
        """A JSON value without the secrets found so far, and with `~` for the home folder."""
        if isinstance(value, str):
            return self._replace_text(value, place)
        if isinstance(value, dict):
            opaque = _opaque_fields(value)
            return {
                self._replace_text(name, place): each if name in opaque else self.replace(each, place)
                for name, each in value.items()
            }
        return [self.replace(each, place) for each in value] if isinstance(value, list | tuple) else value

    def _replace_text(self, text: str, place: Place | None) -> str:
        if self._needles and len(text) >= _MIN_LENGTH:
            if self._pattern is None:
                self._pattern = _alternatives(self._needles)
            text = self._pattern.sub(lambda found: self._placeholder(found[0], place), text)
        if self._home is not None and "/" in text:
            text = self._home.sub(self._shown_home, text)
        return text

    def _placeholder(self, needle: str, place: Place | None) -> str:
        before, value, after = self._needles[needle]
        secret = self._secrets[value]
        if not secret.placeholder:
            self._replaced.append(secret)
            secret.placeholder = f"[secret {len(self._replaced)}: {secret.kind}]"
        if place is not None:
            secret.places[place] = None
        return f"{before}{secret.placeholder}{after}"

    # ------------------------------------------------------------------------------------------------------- report

    def report(self) -> list[Json]:
        """Every replaced secret: its placeholder, its kind and its places."""
        return [
            {
                "placeholder": secret.placeholder,
                "kind": secret.kind,
                "places": [place.describe() for place in secret.places] or [_ELSEWHERE],
            }
            for secret in self._replaced
        ]

    def summary(self) -> str:
        """One sentence about everything that was replaced."""
        if not self._replaced:
            return "No secrets were recognised."
        kinds: dict[str, list[Secret]] = {}
        for secret in self._replaced:
            kinds.setdefault(secret.kind, []).append(secret)
        parts = []
        for kind, secrets in kinds.items():
            places = list(dict.fromkeys(place for one in secrets for place in one.places))
            parts.append(f"{counted(len(secrets), kind, _PLURALS.get(kind, f'{kind}s'))} in {_join(places)}")
        count = len(self._replaced)
        return f"{counted(count, 'secret')} {'was' if count == 1 else 'were'} replaced: {', '.join(parts)}."


def redact_document(document: Json, redactor: Redactor) -> Json:
    """The document of `document.py` without secrets."""
    branches = [
        {
            **branch,
            "name": redactor.replace(branch["name"]),
            "prompts": [_prompt(prompt, redactor) for prompt in branch["prompts"]],
        }
        for branch in document["branches"]
    ]
    return {**document, "session": redactor.replace(document["session"]), "branches": branches}


def _prompt(prompt: Json, redactor: Redactor) -> Json:
    number = prompt["number"]
    own = Place("prompt", number)
    items = [_item(item, number, redactor) for item in prompt["items"]]
    return {
        name: items if name == "items" else redactor.replace(value, own if name in ("text", "attached") else None)
        for name, value in prompt.items()
    }


def _item(item: Json, number: int, redactor: Redactor) -> Json:
    if item["type"] != "call":
        kinds = {"text": "answer", "thinking": "thinking", "queued": "prompt"}
        return dict(redactor.replace(item, Place(kinds.get(item["type"], ""), number)))
    title = plain_line(redactor.replace(item["title"]).removeprefix("Bash "), 60).replace("`", "'")
    call, output = (Place(kind, item["number"], title) for kind in ("call", "output"))
    return {
        name: redactor.replace(value, output if name in ("output", "summary", "images") else call)
        for name, value in item.items()
    }


# ------------------------------------------------------------------------------------------------------------- values


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= _MIN_LENGTH:
            yield value
    elif isinstance(value, dict):
        opaque = _opaque_fields(value)
        for name, each in value.items():
            if isinstance(each, str) and name not in opaque and _names_secret(name) and len(each) < 400:
                yield f'"{name}": "{each}"'  # The name tells what the value is.
            elif name not in opaque:
                yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def _opaque_fields(value: Json) -> Sequence[str]:
    """Encoded data in a block: any pattern may match some of it by chance."""
    kinds = {"base64": ("data",), "thinking": ("signature",), "redacted_thinking": ("data",)}
    return kinds.get(str(value.get("type")), ())


def _alternatives(needles: Mapping[str, object]) -> re.Pattern[str]:
    """A pattern for all needles, the longest first, at the ends of words."""
    longest_first = sorted(needles, key=len, reverse=True)
    return re.compile("|".join(_whole(needle) for needle in longest_first))


def _whole(needle: str) -> str:
    before = r"(?<![A-Za-z0-9])" if needle[0].isalnum() else ""
    return f"{before}{re.escape(needle)}{r'(?![A-Za-z0-9])' if needle[-1].isalnum() else ''}"


def _names_secret(name: str) -> bool:
    return _compiled(_SENSITIVE).search(name) is not None


def _is_strong(value: str) -> bool:
    """Whether a value is hardly a word that also has other meanings."""
    has_letter, has_digit = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    return len(value) >= 8 and len(set(value)) > 4 and ((has_letter and has_digit) or len(value) >= 24)


def _is_no_value(value: str) -> bool:
    return _compiled(_NO_VALUE).match(value) is not None or len(set(value)) < 3


def _join(places: Sequence[Place]) -> str:
    numbers = {kind: [place.number for place in places if place.kind == kind] for kind in ("prompt", "answer")}
    parts: list[str] = []
    for kind, found in numbers.items():
        if found:
            listed = _and([str(number) for number in found])
            what = "prompts" if len(found) > 1 else "prompt"
            answers = "the answers to " if len(found) > 1 else "the answer to "
            parts.append(f"{'' if kind == 'prompt' else answers}{what} {listed}")
    parts += [place.describe() for place in places if place.kind not in numbers]
    return _and(list(dict.fromkeys(parts)) or [_ELSEWHERE])


def _and(parts: Sequence[str]) -> str:
    if len(parts) > _MAX_PLACES:
        parts = [*parts[:_MAX_PLACES], counted(len(parts) - _MAX_PLACES, "more place")]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
