"""The parser for large messages gives what the standard library gives."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.mcp.large_json import dump_large_json, parse_large_json, take_apart
from tests.support.tables import each_row

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES, st.booleans())
def test_any_value_is_read_as_it_was_written(value: object, is_ascii: bool) -> None:
    data = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass" if is_ascii else "replace")
    assert parse_large_json(data) == json.loads(data)


@given(VALUES)
def test_any_value_is_written_as_the_standard_library_writes_it(value: object) -> None:
    assert dump_large_json(value) == json.dumps(value, ensure_ascii=False)


def test_wide_and_long_values_are_written_in_parts() -> None:
    for value in (
        {"a": {"b": {"c": list(range(300))}}},
        {str(key): [key] for key in range(300)},
        'say "x" ä\n' * 20_000,
    ):
        assert dump_large_json([value]) == json.dumps([value], ensure_ascii=False)


@pytest.mark.parametrize("unit", ["x", "a\n", 'say "x" ', "\\", "ä", "👋", "\u0001", "a\\u00e4"])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_long_strings_are_read_in_pieces(unit: str, is_ascii: bool) -> None:
    for extra in range(4):
        text = "-" * extra + unit * 70_000
        data = json.dumps({"text": text, "more": [text[:10]]}, ensure_ascii=is_ascii).encode()
        assert parse_large_json(data) == {"text": text, "more": [text[:10]]}


@each_row(
    "data",
    [
        b'{"a": "' + b"x" * 100_000,
        b'{"a": "' + b"x" * 100_000 + b'\\u12"}',
        b'["' + b"\\",
        b"[" * 100_000,
        b"[" * 301 + b"]" * 301,
        b"\xff",
        b"NaN",
        b"1" * 400,
    ],
)
def test_what_is_not_json_or_beyond_a_limit_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        parse_large_json(data)


def test_a_value_is_taken_apart_down_to_its_leaves() -> None:
    deep: list[object] = [{"a": [1, 2, {"b": []}]}] * 3
    inner = [deep, {"x": deep}]
    rows = [{"n": number, "of": [number]} for number in range(2_500)]
    first_row, value = rows[0], {"inner": inner, "rows": rows, "text": "words"}
    take_apart(value)
    assert value == {}
    assert (inner, rows, deep, first_row) == ([], [], [], {})
