"""Input that servers ask for: forms, typed text and its values, addresses to open."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentcli.mcp.user_input import (
    MAX_FIELDS,
    AddressRefused,
    FormField,
    FormRefused,
    InputForm,
    ValueRefused,
    parse_address,
    parse_form,
)
from tests.support.tables import each_row

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=8)


def one(schema: dict[str, Any], required: bool = False) -> FormField:
    form = parse_form({"type": "object", "properties": {"x": schema}, "required": ["x"] if required else []})
    return form.fields[0]


def form_of(**fields: dict[str, Any]) -> InputForm:
    return parse_form({"type": "object", "properties": fields})


def test_every_kind_of_field_is_known() -> None:
    form = form_of(
        a={"type": "string", "title": "A", "description": "the first"},
        b={"type": "integer", "minimum": 1, "maximum": 5},
        c={"type": "number", "exclusiveMinimum": 0},
        d={"type": "boolean", "default": True},
        e={"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
        f={"type": "string", "oneOf": [{"const": "r", "title": "Red"}]},
        g={"type": "array", "items": {"type": "string", "enum": ["r", "g"]}, "maxItems": 1},
        h={"type": "array", "items": {"anyOf": [{"const": "r", "title": "Red"}]}},
    )
    kinds = ["text", "integer", "number", "boolean", "choice", "choice", "choices", "choices"]
    assert [field.kind for field in form.fields] == kinds
    assert [option.label for option in form.fields[4].options] == ["Red", "Green"]
    assert [option.label for option in form.fields[7].options] == ["Red"]
    assert form.fields[0].label == "A"
    assert form.fields[1].label == "b"
    assert form.fields[1].hint == "a whole number, at least 1, at most 5"
    assert form.defaults() == {"d": True}


def test_a_field_that_may_be_null_is_optional() -> None:
    assert one({"type": ["string", "null"]}).kind == "text"
    assert one({"anyOf": [{"type": "integer", "minimum": 3}, {"type": "null"}], "title": "Age"}).at_least == 3


@each_row(
    ("schema", "why"),
    [
        ({}, "not an object"),
        ({"type": "array"}, "not an object"),
        ({"type": "object", "properties": []}, "not an object"),
        ({"properties": {"x": {"type": "object", "properties": {}}}}, "not a text"),
        ({"properties": {"x": {"type": "array", "items": {"type": "object"}}}}, "not a text"),
        ({"properties": {"x": {"type": "array", "items": {"type": "string"}}}}, "not a text"),
        ({"properties": {"x": {"$ref": "#/$defs/Deep"}}}, "not a text"),
        ({"properties": {"x": True}}, "no description"),
        ({"properties": {"": {"type": "string"}}}, "no description"),
        ({"properties": {"x": {"enum": [1, 2]}}}, "not texts"),
        ({"properties": {"x": {"type": "string", "enum": []}}}, "not texts"),
        ({"properties": {"x": {"type": "string", "oneOf": ["a"]}}}, "not described"),
        ({"properties": {"x": {"type": "integer", "minimum": "many"}}}, "not a number"),
        ({"properties": {"x": {"type": "number", "maximum": float("nan")}}}, "not a number"),
        ({"properties": {}, "required": ["y"]}, "does not describe"),
        ({"properties": {}, "required": "y"}, "not a list of names"),
        ({"properties": {str(number): {"type": "string"} for number in range(10_000)}}, f"at most {MAX_FIELDS}"),
        ({"properties": {"x": {"enum": [str(number) for number in range(20_000)]}}}, "20,000 choices"),
    ],
)
def test_anything_but_a_flat_form_is_refused_with_a_reason(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(FormRefused, match=why):
        parse_form(schema)


@each_row(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, " as it is\n", " as it is\n"),
        ({"type": "string"}, "", None),
        ({"type": "string", "format": "email"}, " ada@example.com ", "ada@example.com"),
        ({"type": "string", "format": "uri"}, "https://example.com/a", "https://example.com/a"),
        ({"type": "string", "format": "date"}, "2026-02-28", "2026-02-28"),
        ({"type": "string", "format": "date-time"}, "2026-02-28T10:00:00Z", "2026-02-28T10:00:00Z"),
        ({"type": "string", "format": "colour"}, "anything", "anything"),
        ({"type": "integer"}, " 12 ", 12),
        ({"type": "integer"}, "-3", -3),
        ({"type": "number"}, "1e3", 1000.0),
        ({"type": "number"}, "7", 7),
        ({"type": "number"}, "", None),
    ],
)
def test_typed_text_becomes_a_value(schema: dict[str, Any], text: str, value: object) -> None:
    assert one(schema).parse(text) == value


@each_row(
    ("schema", "text", "problem"),
    [
        ({"type": "string", "minLength": 3}, "ab", "At least 3 characters."),
        ({"type": "string", "maxLength": 1}, "ab", "At most 1 character."),
        ({"type": "string", "format": "email"}, "ada", "Enter an email address."),
        ({"type": "string", "format": "email"}, "a@b@c.d", "Enter an email address."),
        ({"type": "string", "format": "uri"}, "http://[", "Enter an address such as https://example.com."),
        ({"type": "string", "format": "uri"}, "no scheme", "Enter an address such as https://example.com."),
        ({"type": "string", "format": "date"}, "2026-02-30", "Enter a date such as 2026-01-31."),
        (
            {"type": "string", "format": "date-time"},
            "2026-02-03T10:00:00",
            "Enter a time such as 2026-01-31T12:00:00Z.",
        ),
        ({"type": "integer"}, "1.5", "Enter a whole number."),
        ({"type": "integer"}, "1" * 5_000, "Enter a whole number."),
        ({"type": "number"}, "nan", "Enter a number."),
        ({"type": "number"}, "1_000", "Enter a number."),
        ({"type": "number"}, "much", "Enter a number."),
        ({"type": "number", "minimum": 2}, "1.5", "At least 2."),
        ({"type": "number", "maximum": 2}, "3", "At most 2."),
        ({"type": "number", "exclusiveMinimum": 2}, "2", "More than 2."),
        ({"type": "number", "exclusiveMaximum": 2}, "2", "Less than 2."),
        ({"type": "string"}, "sk-ant-" + "a" * 30, "This contains an API key. Never send keys to a server this way."),
    ],
)
def test_typed_text_that_does_not_fit_is_explained(schema: dict[str, Any], text: str, problem: str) -> None:
    with pytest.raises(ValueRefused) as refused:
        one(schema).parse(text)
    assert str(refused.value) == problem


def test_an_answer_lists_its_problems_by_field() -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "colours": {"type": "array", "items": {"enum": ["r", "g"]}, "minItems": 1},
            "sure": {"type": "boolean"},
        },
        "required": ["name"],
    }
    form = parse_form(schema)
    assert form.problems({"colours": [], "sure": "yes", "more": 1}) == {
        "name": "Required.",
        "colours": "At least 1 choice.",
        "sure": "Answer yes or no.",
        "more": "Not asked for.",
    }
    assert form.problems({"name": "", "colours": ["r", "r"]}) == {
        "name": "Required.",
        "colours": "Choose each only once.",
    }
    assert form.problems({"name": "Ada", "colours": ["r"], "sure": False}) == {}


def test_a_suggestion_that_does_not_fit_its_own_schema_is_left_out() -> None:
    form = form_of(
        a={"type": "integer", "default": "x"},
        b={"enum": ["r"], "default": "blue"},
        c={"type": "string", "default": ["x"]},
    )
    assert form.defaults() == {}


def test_a_field_that_asks_for_a_secret_is_recognised() -> None:
    assert one({"type": "string", "title": "API key"}).asks_for_secret
    assert not one({"type": "string", "title": "Name"}).asks_for_secret
    assert not one({"type": "integer", "title": "Number of tokens"}).asks_for_secret


def test_a_long_text_gets_several_lines() -> None:
    assert one({"type": "string", "maxLength": 2_000}).is_long
    assert one({"type": "string", "default": "one\ntwo"}).is_long
    assert not one({"type": "string"}).is_long
    assert not one({"type": "string", "format": "uri", "maxLength": 2_000}).is_long


# ------------------------------------------------------------------------------------------------------ properties


@st.composite
def texts(draw: st.DrawFn) -> dict[str, Any]:
    low = draw(st.integers(0, 5))
    schema: dict[str, Any] = {"type": "string", "minLength": low, "maxLength": low + draw(st.integers(0, 10))}
    return {**schema, "format": draw(st.sampled_from(["email", "uri", "date"]))} if draw(st.booleans()) else schema


@st.composite
def numbers(draw: st.DrawFn) -> dict[str, Any]:
    low = draw(st.integers(-10, 10))
    key = draw(st.sampled_from(["minimum", "exclusiveMinimum"]))
    return {"type": draw(st.sampled_from(["integer", "number"])), key: low, "maximum": low + 3}


@st.composite
def choices(draw: st.DrawFn) -> dict[str, Any]:
    values = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    one_of = [{"const": value, "title": value.upper()} for value in values]
    if draw(st.booleans()):
        return draw(st.sampled_from([{"type": "string", "enum": values}, {"type": "string", "oneOf": one_of}]))
    items = draw(st.sampled_from([{"type": "string", "enum": values}, {"anyOf": one_of}]))
    return {"type": "array", "items": items, "minItems": draw(st.integers(0, 2)), "uniqueItems": True}


SCHEMAS = st.dictionaries(NAMES, st.one_of(texts(), numbers(), choices(), st.just({"type": "boolean"})), max_size=4)
VALUES = st.one_of(st.text(max_size=12), st.integers(-20, 20), st.floats(), st.booleans(), st.lists(NAMES, max_size=3))


@given(SCHEMAS, st.data())
def test_what_the_form_accepts_fits_the_schema(properties: dict[str, Any], data: st.DataObject) -> None:
    required = [name for name in properties if data.draw(st.booleans())]
    schema = {"type": "object", "properties": properties, "required": required}
    form = parse_form(schema)
    content: dict[str, Any] = {}
    for field in form.fields:
        if field.options and data.draw(st.booleans()):
            values = [option.value for option in field.options]
            picked: Any = data.draw(st.sampled_from(values))
            content[field.name] = [picked] if field.kind == "choices" else picked
        elif field.kind in ("text", "number", "integer"):
            try:
                value = field.parse(str(data.draw(VALUES)))
            except ValueRefused:
                continue
            if value is not None:
                content[field.name] = value
        elif data.draw(st.booleans()):
            content[field.name] = data.draw(VALUES)
    assume(not form.problems(content))
    jsonschema.validate(content, schema)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["type", "properties", "required", "enum", "oneOf", "anyOf", "items", "const", "title", "x"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_whatever_a_server_sends_is_a_form_or_is_refused(schema: Any) -> None:
    try:
        form = parse_form({"properties": schema} if isinstance(schema, dict) else {"properties": {"x": schema}})
    except FormRefused:
        return
    assert form.problems(form.defaults()).keys() <= {field.name for field in form.fields if field.required}


@each_row(
    ("text", "host"),
    [
        ("https://example.com", "example.com"),
        ("https://Example.com:8443/a?b=c#d", "Example.com"),
        ("http://localhost:3000/callback", "localhost"),
        ("http://127.0.0.1/", "127.0.0.1"),
        ("http://[::1]:80/", "[::1]"),
        ("https://user:word@evil.example/https://bank.example", "evil.example"),
    ],
)
def test_the_host_is_found_in_the_address(text: str, host: str) -> None:
    address = parse_address(text)
    assert address.host == host
    assert address.text == text


@each_row(
    "text",
    [
        "",
        "example.com",
        "http://example.com",
        "http://localhost.example.com",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "vscode://open",
        "https://",
        "https://a b.com",
        "https://bank.example\\@evil.example",
        "https://a.example/\x1b[2J",
        "https://a.example/\u202egpj.exe",
        "https://a.example:99999/",
        "https://[::1",
        "https://a.example/" + "a" * 10_000,
        "--help",
    ],
)
def test_anything_but_a_sound_https_address_is_refused(text: str) -> None:
    with pytest.raises(AddressRefused):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("https://bank.example@evil.example/", "The part before @ is a user name. The site is evil.example."),
        ("https://b\u00e4nk.example/", "The host has letters beyond a to z: it is xn--bnk-qla.example."),
        ("https://xn--bnk-qla.example/", "The host is an encoded name that browsers may show as b\u00e4nk.example."),
    ],
)
def test_what_hides_the_true_host_is_pointed_out(text: str, warning: str) -> None:
    assert warning in parse_address(text).warnings
