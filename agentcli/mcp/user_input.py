"""Input that MCP servers ask the user for: forms to fill in, and addresses to open.

A form is a flat object of texts, numbers, booleans and choices. Anything else is refused (`FormRefused`). Titles and
descriptions are as the server sent them: untrusted. A `pattern` is shown but not checked: a server's regular expression
could run for hours. Only https addresses are opened, or http on this machine.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit

from agentcli.core.addresses import host_address
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.format import plural
from agentcli.core.text.plaintext import has_key, spell_hidden

FieldKind = Literal["text", "number", "integer", "boolean", "choice", "choices"]
FieldValue = str | int | float | bool | list[str]

MAX_FIELDS = 100
MAX_OPTIONS = 10_000
MAX_TEXT = 100_000
_MAX_NUMBER = 40
_MANY_CHARACTERS = 200
"""A text that may be longer than this is edited in a multi-line field."""
_EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s.]+(?:\.[^@\s.]+)+")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FORMATS = {
    "email": "an email address",
    "uri": "an address such as https://example.com",
    "date": "a date such as 2026-01-31",
    "date-time": "a time such as 2026-01-31T12:00:00Z",
}
_NOUNS = {"text": "character", "choices": "choice"}
"""What the bounds of a field count, if they are not those of a number."""
_HOLDS = {"at least": operator.ge, "at most": operator.le, "more than": operator.gt, "less than": operator.lt}
_SECRET_NAME = re.compile(r"passw|passphrase|secret|token|api.?key|credential|private.?key", re.IGNORECASE)


class FormRefused(Exception):
    """A schema that is not a form; the text says why."""


class ValueRefused(Exception):
    """A typed text that is not a valid value of its field; the text says why."""


@frozen
class FormOption:
    value: str
    label: str


@frozen
class FormField:
    name: str
    kind: FieldKind
    title: str = ""
    description: str = ""
    required: bool = False
    default: FieldValue | None = None
    options: tuple[FormOption, ...] = ()
    format: str = ""
    pattern: str = ""
    at_least: float | None = None
    """Minimum of a number, minimum length of a text, or minimum number of choices."""
    at_most: float | None = None
    above: float | None = None
    """Exclusive minimum of a number."""
    below: float | None = None

    @property
    def label(self) -> str:
        return self.title or self.name

    @property
    def is_long(self) -> bool:
        """Whether the text may need several lines."""
        if self.kind != "text" or self.format:
            return False
        return (isinstance(self.default, str) and "\n" in self.default) or (self.at_most or 0) > _MANY_CHARACTERS

    @property
    def asks_for_secret(self) -> bool:
        """Whether the field seems to ask for a password or a key, which servers must not do with a form."""
        return self.kind == "text" and _SECRET_NAME.search(f"{self.name} {self.title}") is not None

    @property
    def hint(self) -> str:
        """A short description of valid values."""
        parts = [_FORMATS.get(self.format, self.format)] if self.format else []
        if self.kind in ("integer", "number"):
            parts.append(self._a_number)
        parts += [f"{word} {bound:,g}{unit}" for word, bound, unit in self._limits()]
        parts += [f"pattern {self.pattern}"] if self.pattern else []
        return ", ".join(parts)

    def _limits(self) -> Iterator[tuple[str, float, str]]:
        """Each bound with its wording and unit."""
        noun = _NOUNS.get(self.kind)
        bounds = (
            ("at least", self.at_least),
            ("at most", self.at_most),
            ("more than", self.above),
            ("less than", self.below),
        )
        for word, bound in bounds:
            if bound is not None:
                yield word, bound, f" {plural(int(bound), noun)}" if noun else ""

    def _bound_problem(self, value: float) -> str:
        for word, bound, unit in self._limits():
            if not _HOLDS[word](value, bound):
                return f"{word.capitalize()} {bound:,g}{unit}."
        return ""

    def problem(self, value: FieldValue | None) -> str:
        """What is wrong with a value, as a sentence; empty if it is valid. None: no value."""
        if value is None:
            return "Required." if self.required else ""
        match self.kind:
            case "boolean":
                return "" if isinstance(value, bool) else "Answer yes or no."
            case "text":
                return self._text_problem(value) if isinstance(value, str) else "Enter a text."
            case "choice":
                return "" if value in [option.value for option in self.options] else "Choose one from the list."
            case "choices":
                return self._choices_problem(value)
        wrong = f"Enter {self._a_number}."
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return wrong
        return wrong if self.kind == "integer" and isinstance(value, float) else self._bound_problem(value)

    @property
    def _a_number(self) -> str:
        return "a whole number" if self.kind == "integer" else "a number"

    def _text_problem(self, value: str) -> str:
        if self.required and not value:
            return "Required."
        if has_key(value):
            return "This contains an API key. Never send keys to a server this way."
        if len(value) > MAX_TEXT:
            return f"At most {MAX_TEXT:,} characters."
        return self._bound_problem(len(value)) or self._format_problem(value)

    def _format_problem(self, value: str) -> str:
        try:
            match self.format:
                case "email":
                    fits = _EMAIL.fullmatch(value) is not None
                case "uri":
                    parts = urlsplit(value)
                    fits = bool(parts.scheme and (parts.netloc or parts.path)) and not re.search(r"\s", value)
                case "date":
                    fits = len(value) == len("2026-01-31") and bool(date.fromisoformat(value))
                case "date-time":
                    fits = "T" in value.upper() and datetime.fromisoformat(value).tzinfo is not None
                case _:
                    fits = True
        except ValueError:
            fits = False
        return "" if fits else f"Enter {_FORMATS[self.format]}."

    def _choices_problem(self, value: FieldValue) -> str:
        known = {option.value for option in self.options}
        if not isinstance(value, list) or not all(isinstance(each, str) and each in known for each in value):
            return "Choose from the list."
        if len(set(value)) != len(value):
            return "Choose each only once."
        return self._bound_problem(len(value))

    def parse(self, text: str) -> FieldValue | None:
        """The value of a typed text or number; None if nothing was typed. Raises `ValueRefused`."""
        value: FieldValue | None = text if self.kind == "text" else text.strip()
        if self.format:
            value = text.strip()
        if not value:
            value = None
        elif self.kind in ("integer", "number"):
            value = _number(str(value), whole=self.kind == "integer")
        if problem := self.problem(value):
            raise ValueRefused(problem)
        return value


@frozen
class InputForm:
    fields: tuple[FormField, ...]

    def problems(self, content: Mapping[str, Any]) -> dict[str, str]:
        """What is wrong with an answer, by field name; empty if it matches the server's schema."""
        found = {field.name: field.problem(content.get(field.name)) for field in self.fields}
        known = {field.name for field in self.fields}
        found |= {name: "Not asked for." for name in content if name not in known}
        return {name: problem for name, problem in found.items() if problem}

    def defaults(self) -> dict[str, FieldValue]:
        """The server's default values, without those that do not match its own schema."""
        return {
            field.name: field.default
            for field in self.fields
            if field.default is not None and not field.problem(field.default)
        }


def parse_form(schema: Json) -> InputForm:
    """The fields of a requested schema. Raises `FormRefused`."""
    properties = schema.get("properties")
    if schema.get("type", "object") != "object" or not isinstance(properties, Mapping):
        raise FormRefused("the schema is not an object with properties")
    if len(properties) > MAX_FIELDS:
        raise FormRefused(f"the form has {len(properties):,} fields, and at most {MAX_FIELDS} are shown")
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise FormRefused("its list of required fields is not a list of names")
    if missing := [name for name in required if name not in properties]:
        raise FormRefused(f"it requires the field {missing[0]!r}, which it does not describe")
    wanted = frozenset(required)
    return InputForm(tuple(_field(str(name), each, str(name) in wanted) for name, each in properties.items()))


def _field(name: str, described: Any, required: bool) -> FormField:
    schema = _without_null(described) if isinstance(described, Mapping) else None
    if schema is None or not name:
        raise FormRefused(f"the field {name!r} has no description that a form can show")
    kind, options = _kind(name, schema)
    keys = {"text": ("minLength", "maxLength"), "choices": ("minItems", "maxItems")}.get(kind, ("minimum", "maximum"))
    low, high, above, below = (_bound(name, schema, key) for key in (*keys, "exclusiveMinimum", "exclusiveMaximum"))
    return FormField(
        name=name,
        kind=kind,
        title=_text(schema, "title"),
        description=_text(schema, "description"),
        required=required,
        default=_default(kind, schema.get("default")),
        options=options,
        format=_text(schema, "format") if kind == "text" else "",
        pattern=_text(schema, "pattern") if kind == "text" else "",
        at_least=low,
        at_most=high,
        above=above if kind in ("integer", "number") else None,
        below=below if kind in ("integer", "number") else None,
    )


def _without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Simplify "this or null", which libraries write for an optional field; omitting the field means the same."""
    kind, several = schema.get("type"), schema.get("anyOf")
    if isinstance(kind, list) and len(others := [each for each in kind if each != "null"]) == 1:
        return {**schema, "type": others[0]}
    if isinstance(several, list) and all(isinstance(each, Mapping) for each in several):
        rest = [each for each in several if each.get("type") != "null"]
        if len(rest) == 1 and len(rest) < len(several):
            return {**{key: value for key, value in schema.items() if key != "anyOf"}, **rest[0]}
    return schema


def _kind(name: str, schema: Mapping[str, Any]) -> tuple[FieldKind, tuple[FormOption, ...]]:
    kind = schema.get("type", "string" if "enum" in schema or "oneOf" in schema else None)
    if kind == "string":
        options = _options(name, schema, "oneOf")
        return ("choice", options) if options else ("text", ())
    if kind in ("boolean", "integer", "number"):
        return kind, ()
    items = schema.get("items")
    if kind == "array" and isinstance(items, Mapping):
        options = _options(name, items, "anyOf") or _options(name, items, "oneOf")
        if options:
            return "choices", options
    raise FormRefused(f"the field {name!r} is not a text, a number, yes or no, or a choice")


def _options(name: str, schema: Mapping[str, Any], titled: str) -> tuple[FormOption, ...]:
    values, labels = schema.get("enum"), schema.get("enumNames")
    if values is None and isinstance(each := schema.get(titled), list):
        if not all(isinstance(one, Mapping) for one in each):
            raise FormRefused(f"the choices of {name!r} are not described")
        values = [one.get("const") for one in each]
        labels = [one.get("title") for one in each]
    if values is None:
        return ()
    if not isinstance(values, list) or not values or not all(isinstance(value, str) for value in values):
        raise FormRefused(f"the choices of {name!r} are not texts")
    if len(values) > MAX_OPTIONS:
        raise FormRefused(f"the field {name!r} has {len(values):,} choices, and at most {MAX_OPTIONS:,} are shown")
    named: Sequence[Any] = labels if isinstance(labels, list) and len(labels) == len(values) else values
    pairs = dict(zip(values, named, strict=True))
    return tuple(
        FormOption(value, label if isinstance(label, str) and label else value) for value, label in pairs.items()
    )


def _bound(name: str, schema: Mapping[str, Any], key: str) -> float | None:
    bound = schema.get(key)
    if bound is None:
        return None
    if isinstance(bound, bool) or not isinstance(bound, int | float) or not math.isfinite(bound):
        raise FormRefused(f"{key} of the field {name!r} is not a number")
    return bound


def _default(kind: FieldKind, value: Any) -> FieldValue | None:
    if kind == "choices":
        return value if isinstance(value, list) else None
    return value if isinstance(value, str | int | float | bool) else None


def _text(schema: Mapping[str, Any], key: str) -> str:
    value = schema.get(key)
    return value if isinstance(value, str) else ""


def _number(text: str, *, whole: bool) -> int | float:
    wanted = "a whole number" if whole else "a number"
    if len(text) > _MAX_NUMBER or "_" in text:
        raise ValueRefused(f"Enter {wanted}.")
    try:
        value = int(text) if _INTEGER.fullmatch(text) else float(text)
    except ValueError:
        raise ValueRefused(f"Enter {wanted}.") from None
    return value


MAX_ADDRESS = 8_000
_UNFIT = re.compile(r"[\x00-\x20\x7f-\xa0\\<>\"`{}|^]")
"""Characters that are invalid in a URL, or that browsers interpret differently from how it is shown."""


class AddressRefused(Exception):
    """A URL that is never opened; the text says why."""


@frozen
class VisitAddress:
    text: str
    """The complete URL, exactly as it is opened."""
    host_start: int
    host_end: int
    """`text[host_start:host_end]` is the host."""
    warnings: tuple[str, ...] = ()

    @property
    def host(self) -> str:
        return self.text[self.host_start : self.host_end]


def parse_address(text: str) -> VisitAddress:
    """Parse a URL. Raises `AddressRefused` for anything but https, or http to this machine."""
    if len(text) > MAX_ADDRESS:
        raise AddressRefused(f"the address is longer than {MAX_ADDRESS:,} characters")
    if _UNFIT.search(text) or spell_hidden(text) != text:
        raise AddressRefused("the address contains characters that an address cannot have")
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        raise AddressRefused("the address is not valid") from None
    if parts.scheme not in ("http", "https") or not host:
        raise AddressRefused("only https addresses are opened")
    literal = host_address(host)
    is_here = host == "localhost" or (literal is not None and literal.is_loopback)
    if parts.scheme == "http" and not is_here:
        raise AddressRefused("the address is not encrypted; only https addresses are opened")
    userinfo, at, place = parts.netloc.rpartition("@")
    start = len(f"{parts.scheme}://{userinfo}{at}")
    shown = place[: place.index("]") + 1] if place.startswith("[") else place.partition(":")[0]
    return VisitAddress(text, start, start + len(shown), tuple(_warnings(parts, host)))


def _warnings(parts: SplitResult, host: str) -> list[str]:
    found = []
    if "@" in parts.netloc:
        found.append(f"The part before @ is a user name. The site is {host}.")
    if not host.isascii():
        found.append(f"The host has letters beyond a to z: it is {_encode(host)}.")
    elif "xn--" in host:
        found.append(f"The host is an encoded name that browsers may show as {_readable(host)}.")
    return found


def _encode(host: str) -> str:
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        return ascii(host)


def _readable(host: str) -> str:
    try:
        return spell_hidden(host.encode("ascii").decode("idna"))
    except UnicodeError:
        return host
