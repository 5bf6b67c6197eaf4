"""Replace the secrets of an exported session, and list what was replaced and where.

First everything that is exported is searched, then all of it is replaced: a value that is recognised in one place, such
as a password in `.env`, is replaced in all others too, always by the same placeholder.

A heuristic that can be wrong in both directions: users should look at the list before they share a file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import Any

from agentcli.core.frozen import slotted
from agentcli.core.messages import Json
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.secret_text import is_secret_name, map_texts, token_matches

_UNKNOWN, _IN_URL = "suspected password", "URL password"
_MAX_PLACES = 4
_MIN_LENGTH, _MAX_LENGTH = 6, 400

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
_PLACEHOLDER = re.compile(r"\[secret \d+: [^]]*\]")
_EDGE = r"(?:(?<![A-Za-z0-9])|(?![A-Za-z0-9]))"
"""Not inside a word."""

_compiled = cache(re.compile)


@slotted
class Secret:
    kind: str
    placeholder: str = ""
    """"" until it is replaced for the first time."""
    places: dict[str, None] = field(default_factory=dict)


class Redactor:
    def __init__(self, known: Mapping[str, str] | None = None, home: str = "", shown_home: str = "~") -> None:
        """`known`: variables of the environment, whose secrets are recognised too. `home`: the home folder, shown as
        `shown_home`."""
        self._secrets: dict[str, Secret] = {}
        """By value."""
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

    def search(self, value: Any) -> None:
        """Find the secrets in all texts of a JSON value."""
        map_texts(value, self._search_text)
        self._pattern = None

    def _search_text(self, text: str, name: str) -> str:
        if len(text) >= _MIN_LENGTH:
            for kind, written, found in token_matches(text):
                self._add(kind, found)
                self._needles.setdefault(written, ("", found, ""))
            for known, kind in self._known.items():
                if known in text:
                    self._add(kind, known)
            self._search_assignments(text)
            if len(text) < _MAX_LENGTH and _names_secret(name):
                self._search_assignments(f'"{name}": "{text}"')
        return text

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

    def replace(self, value: Any, place: str) -> Any:
        """A JSON value without the secrets found so far, and with `~` for the home folder. `place`: where it stands,
        for the list; "": listed elsewhere."""
        return map_texts(value, lambda text, name: self._replace_text(text, name, place))

    def _replace_text(self, text: str, name: str, place: str) -> str:
        if _is_password_field(name, text):
            return self._placeholder(self._secrets.setdefault(text, Secret(_UNKNOWN)), place)
        if self._needles and len(text) >= _MIN_LENGTH:
            if self._pattern is None:
                self._pattern = re.compile(f"{_EDGE}(?:{_share_starts(list(self._needles))}){_EDGE}")
            text = self._pattern.sub(lambda found: self._replace_needle(found[0], place), text)
        if self._home is not None and "/" in text:
            text = self._home.sub(self._shown_home, text)
        return text

    def _replace_needle(self, needle: str, place: str) -> str:
        before, value, after = self._needles[needle]
        return f"{before}{self._placeholder(self._secrets[value], place)}{after}"

    def _placeholder(self, secret: Secret, place: str) -> str:
        if not secret.placeholder:
            self._replaced.append(secret)
            secret.placeholder = f"[secret {len(self._replaced)}: {secret.kind}]"
        if place:
            secret.places[place] = None
        return secret.placeholder

    def report(self) -> list[Json]:
        """Every replaced secret: its placeholder, its kind and its places."""
        return [
            {"placeholder": secret.placeholder, "kind": secret.kind, "places": list(secret.places)}
            for secret in self._replaced
        ]

    def summary(self) -> str:
        """One sentence about everything that was replaced."""
        if not self._replaced:
            return "No secrets were recognised."
        kinds: dict[str, list[Secret]] = {}
        for secret in self._replaced:
            kinds.setdefault(secret.kind, []).append(secret)
        parts = [f"{counted(len(found), kind)} in {_join_places(found)}" for kind, found in kinds.items()]
        count = len(self._replaced)
        return f"{counted(count, 'secret')} {'was' if count == 1 else 'were'} replaced: {', '.join(parts)}."


def redact_document(document: Json, redactor: Redactor) -> Json:
    """The document of `document.py` without secrets."""
    redactor.search(document)
    session = redactor.replace(document["session"], "the title")
    return {**document, "session": session, "prompts": [_redact_prompt(one, redactor) for one in document["prompts"]]}


def _redact_prompt(prompt: Json, redactor: Redactor) -> Json:
    place, items = f"prompt {prompt['number']}", []
    redacted = redactor.replace({**prompt, "items": []}, place)
    for item in prompt["items"]:
        own = place
        if item["type"] == "call":
            title = _PLACEHOLDER.sub("…", redactor.replace(item["title"], "")).replace("`", "'")
            own = f"call {item['number']} `{plain_line(title, 60)}`"
        items.append(redactor.replace(item, own))
    return {**redacted, "items": items}


def _share_starts(texts: Sequence[str], depth: int = 20) -> str:
    """A pattern for these texts, the longest first. Equal beginnings are shared, so that thousands stay fast."""
    if len(texts) == 1 or not depth:
        return "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))
    first, last = min(texts), max(texts)
    start = first[: next((at for at, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), None)]
    rests: dict[str, list[str]] = {}
    for text in sorted(texts, reverse=True):
        rests.setdefault(text[len(start) :][:1], []).append(text[len(start) :])
    return f"{re.escape(start)}(?:{'|'.join(_share_starts(same, depth - 1) for same in rests.values())})"


def _names_secret(name: str) -> bool:
    return _compiled(_SENSITIVE).search(name) is not None


def _is_password_field(name: str, text: str) -> bool:
    """Whether the name of a field says that its text is a password, however simple."""
    if not name or not _MIN_LENGTH <= len(text) < _MAX_LENGTH:
        return False
    return _names_secret(name) and bool(_compiled(_OFTEN_WORDS).search(name)) and not _is_no_value(text)


def _is_strong(value: str) -> bool:
    """Whether a value is hardly a word that also has other meanings."""
    has_letter, has_digit = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    return len(value) >= 8 and len(set(value)) > 4 and ((has_letter and has_digit) or len(value) >= 24)


def _is_no_value(value: str) -> bool:
    return _compiled(_NO_VALUE).match(value) is not None or len(set(value)) < 3


def _join_places(secrets: Sequence[Secret]) -> str:
    places = list(dict.fromkeys(place for secret in secrets for place in secret.places))
    if len(places) > _MAX_PLACES:
        places = [*places[:_MAX_PLACES], counted(len(places) - _MAX_PLACES, "more place")]
    return f"{', '.join(places[:-1])} and {places[-1]}" if len(places) > 1 else "".join(places)
