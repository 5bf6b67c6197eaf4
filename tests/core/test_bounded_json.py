from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.core.files.bounded_read import DEEPEST, JsonLimitError, is_too_deep, parse_json
from tests.support.tables import each_row


def _nested(levels: int, opening: str = "[", closing: str = "]") -> str:
    return opening * levels + closing * levels


@each_row("levels", [DEEPEST + 1, 600, 100_000])
@each_row("inside", ["lists", "objects", "both"])
def test_json_beyond_the_limit_of_depth_is_refused(levels: int, inside: str) -> None:
    match inside:
        case "lists":
            text = _nested(levels)
        case "objects":
            text = '{"a":' * levels + "1" + "}" * levels
        case _:
            text = '[{"a":' * (levels // 2 + 1) + "1" + "}]" * (levels // 2 + 1)
    with pytest.raises(JsonLimitError, match="nested more than"):
        parse_json(text)
    with pytest.raises(JsonLimitError):
        parse_json(text.encode())


def test_json_at_the_limit_of_depth_is_read() -> None:
    text = _nested(DEEPEST)
    assert json.dumps(parse_json(text)) == text


def test_brackets_in_strings_do_not_count_as_depth() -> None:
    text = json.dumps({"code": "[{" * 1_000})
    assert parse_json(text) == {"code": "[{" * 1_000}


@each_row("text", ["NaN", "-Infinity", "1e999", "-1e400", "9" * 400, "9" * 5_000])
def test_numbers_that_json_cannot_give_back_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"number"):
        parse_json(f'{{"a": {text}}}')


def test_invalid_json_is_a_decode_error() -> None:
    with pytest.raises(json.JSONDecodeError):
        parse_json("{")


_VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@given(_VALUES)
def test_ordinary_json_is_read_as_json_reads_it(value: Any) -> None:
    text = json.dumps(value)
    assert parse_json(text) == json.loads(text)
    assert not is_too_deep(value)
