from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.headless.encode import LINE_LIMIT, encode_line

BIG = "x" * (3 * 1024 * 1024)


def test_a_line_is_readable_text_and_ends_once() -> None:
    assert encode_line({"a": "grüß\n"}) == '{"a":"grüß\\n"}\n'.encode()


def test_line_breaks_and_control_characters_are_escaped() -> None:
    line = encode_line({"a": "\x1b]0;t\x07 \x9b31m \x7f \u2028\u2029\x85"})
    assert all(byte >= 0x20 for byte in line[:-1])
    assert not any(mark in line.decode() for mark in "\x9b\x7f\u2028\u2029\x85")
    assert json.loads(line)["a"] == "\x1b]0;t\x07 \x9b31m \x7f \u2028\u2029\x85"


def test_a_lone_surrogate_is_replaced() -> None:
    assert json.loads(encode_line({"a": "x\ud800y"})) == {"a": "x\ufffdy"}


def test_a_long_tool_result_loses_its_copy_for_programs_first() -> None:
    text = "y" * 700_000
    frame = {"type": "user", "message": {"content": [{"content": text}]}, "tool_use_result": {"stdout": text}}
    line = encode_line(frame)
    assert len(line) <= LINE_LIMIT
    assert json.loads(line)["message"]["content"][0]["content"] == text
    assert json.loads(line)["tool_use_result"]["truncated"] is True


def test_a_long_text_is_cut_with_a_note() -> None:
    line = encode_line({"type": "user", "message": {"content": [{"type": "text", "text": BIG}]}})
    assert len(line) <= LINE_LIMIT
    found = json.loads(line)
    assert "characters left out" in found["message"]["content"][0]["text"]
    assert found["truncated"] is True


def test_a_large_image_becomes_a_note() -> None:
    frame = {"content": [{"type": "image", "source": {"data": BIG}}, {"type": "text", "text": "kept"}]}
    content = json.loads(encode_line(frame))["content"]
    assert [part["type"] for part in content] == ["text", "text"]
    assert content[1]["text"] == "kept"


def test_even_many_short_strings_fit() -> None:
    line = encode_line({"type": "result", "uuid": "u", "errors": [["é" * 60] * 60] * 160})
    assert len(line) <= LINE_LIMIT
    assert json.loads(line)["uuid"] == "u"


words = st.text(st.sampled_from('a"\\\n\r\x00\x1b\x7f\x85\x9b\u2028\u2029\ud800\udfffé\U0001f600'), max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(words, json_values, max_size=4))
def test_any_frame_is_one_line_of_json_in_utf8(frame: dict[str, object]) -> None:
    line = encode_line(frame)
    assert line.count(b"\n") == 1
    assert len(line.decode().splitlines()) == 1
    assert isinstance(json.loads(line), dict)
