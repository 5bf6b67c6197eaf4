"""Bytes to text and back: which encoding is detected, and that nothing is lost."""

from __future__ import annotations

import codecs
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.tools.files.encoding import decode
from tests.support.tables import each_row

JAPANESE = "これは日本語のテキストです。カタカナとひらがながあります。\n"
CHINESE = "这是一个用来测试编码识别的中文文件，里面有很多常用的汉字。我们希望它能够正确显示。\n"
KOREAN = "이것은 인코딩을 확인하기 위한 한국어 파일입니다. 많은 글자가 들어 있습니다.\n"


@each_row(
    ("data", "encoding"),
    [
        (b"plain\n", "utf-8"),
        ("grün – 日本\n".encode(), "utf-8"),
        (codecs.BOM_UTF8 + b"x", "utf-8"),
        (codecs.BOM_UTF16_LE + "x€".encode("utf-16-le"), "utf-16-le"),
        (codecs.BOM_UTF16_BE + "x€".encode("utf-16-be"), "utf-16-be"),
        (codecs.BOM_UTF32_LE + "x€".encode("utf-32-le"), "utf-32-le"),
        (codecs.BOM_UTF32_BE + "x€".encode("utf-32-be"), "utf-32-be"),
        ("key = value\r\nother = Wert\r\n".encode("utf-16-le"), "utf-16-le"),
        ("key = value\nother = größer\n".encode("utf-16-be"), "utf-16-be"),
        ("café crème, déjà vu\n".encode("latin-1"), "latin-1"),
        ("it’s “quoted” – 5 €\n".encode("cp1252"), "cp1252"),
        (JAPANESE.encode("cp932"), "cp932"),
        (JAPANESE.encode("euc_jp"), "euc_jp"),
        (CHINESE.encode("gb18030"), "gb18030"),
        (KOREAN.encode("euc_kr"), "euc_kr"),
    ],
)
def test_the_encoding_is_detected(data: bytes, encoding: str) -> None:
    decoded = decode(data)
    assert decoded is not None
    assert decoded.encoding == encoding
    assert decoded.encode(decoded.text) == data


@each_row(
    "data",
    [
        b"a\x81\x00b",
        b"\x7fELF\x02\x01\x01" + bytes(9),
        bytes(range(256)),
        codecs.BOM_UTF16_LE + b"odd",
        b"".join(struct.pack("<H", number) for number in range(200)),
        b"text \xe9 and a control \x02",
        b"\x00" * 64,
        b"\x81\x8d undefined in Windows-1252 \x9d",
    ],
)
def test_binary_data_is_not_mistaken_for_text(data: bytes) -> None:
    assert decode(data) is None


@pytest.mark.parametrize("text", ["naïve façade, où êtes-vous, Größe, señor\n", "¡ÄÖÜß!\n", "Ærøskøbing på Ærø\n" * 50])
def test_western_text_is_never_mistaken_for_chinese(text: str) -> None:
    decoded = decode(text.encode("latin-1"))
    assert decoded is not None
    assert (decoded.encoding, decoded.text) == ("latin-1", text)


def test_a_few_bad_bytes_do_not_change_the_detected_encoding() -> None:
    data = "Grüße, schöne Straße, äöü\n".encode() + b"bad: \xff\xfe\n"
    decoded = decode(data)
    assert decoded is not None
    assert (decoded.encoding, decoded.invalid) == ("utf-8", 2)
    assert "not valid" in str(decoded.unusual)
    assert decoded.encode(decoded.text.replace("bad", "worse")) == data.replace(b"bad", b"worse")


def test_line_endings_are_distinguished() -> None:
    kinds = {"a\nb\n": "\n", "a\r\nb\r\n": "\r\n", "a\rb\r": "\r", "a\nb\r\n": None, "a": None}
    for text, newline in kinds.items():
        decoded = decode(text.encode())
        assert decoded is not None
        assert decoded.newline == newline, text


@given(st.binary(max_size=200))
def test_any_text_comes_back_byte_for_byte(data: bytes) -> None:
    decoded = decode(data)
    if decoded is not None:
        assert decoded.encode(decoded.text) == data


@given(
    st.text(max_size=60),
    st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "latin-1", "cp1252", "cp932", "gb18030", "euc_kr", "euc_jp"]),
)
def test_text_of_any_encoding_comes_back_byte_for_byte(text: str, encoding: str) -> None:
    data = text.encode(encoding, "ignore")
    decoded = decode(data)
    if decoded is not None:
        assert decoded.encode(decoded.text) == data
