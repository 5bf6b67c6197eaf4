"""Figures as text: never in a wrong unit, and never smaller for a larger figure."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.core.text.format import about_money, ago, byte_size, duration, format_elapsed, money, percent, token_count
from tests.support.tables import each_row

UNITS = {
    "k": 1e3, "M": 1e6, "B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3, "s": 1, "min": 60, "h": 3600, "": 1, "%": 1
}  # fmt: skip


def value_of(text: str) -> float:
    """The figure that a text stands for."""
    found = re.findall(r"([\d.,]+) ?([a-zA-Z%]*)", text)
    return sum(float(number.replace(",", "")) * UNITS[unit] for number, unit in found)


@each_row(
    ("text", "expected"),
    [
        (money(0), "$0.00"),
        (money(0.00001), "<$0.0001"),
        (money(0.00042), "$0.0004"),
        (money(0.0421), "$0.042"),
        (money(0.004), "$0.004"),
        (money(0.4), "$0.40"),
        (money(0.9999), "$1.00"),
        (money(12_345.5), "$12,345.50"),
        (about_money(0.03), "about $0.03"),
        (about_money(0.00001), "<$0.0001"),
        (token_count(-1), "0"),
        (token_count(999), "999"),
        (token_count(1_000), "1k"),
        (token_count(1_250), "1.2k"),
        (token_count(99_960), "100k"),
        (token_count(999_600), "1M"),
        (byte_size(0), "0 B"),
        (byte_size(1_536), "1.5 KB"),
        (byte_size(12 * 1024**2), "12 MB"),
        (byte_size(3 * 1024**3), "3 GB"),
        (duration(0.04), "0.0 s"),
        (duration(9.94), "9.9 s"),
        (duration(9.96), "10 s"),
        (duration(59.6), "1 min"),
        (duration(7_500), "2 h 5 min"),
        (format_elapsed(9.9), "9 s"),
        (format_elapsed(100), "1 min 40 s"),
        (ago(5), "just now"),
        (ago(7_200), "2 h ago"),
        (percent(0), "0%"),
        (percent(0.004), "<1%"),
        (percent(0.999), "99%"),
        (percent(1), "100%"),
        (percent(3, 2), "150%"),
        (percent(1, 0), "–"),
        (percent(0.0004, decimals=1), "<0.1%"),
        (percent(0.0342, decimals=1), "3.4%"),
        (percent(0.9999, decimals=1), "99%"),
    ],
)
def test_figures(text: str, expected: str) -> None:
    assert text == expected


@given(st.integers(0, 10**13), st.integers(0, 10**13))
def test_counts_are_close_and_in_order(one: int, other: int) -> None:
    one, other = sorted((one, other))
    for written in (token_count, byte_size):
        assert value_of(written(one)) <= value_of(written(other))
        assert value_of(written(one)) == pytest.approx(one, rel=0.06)


@given(st.floats(0, 10**6), st.floats(0, 10**6))
def test_durations_are_close_and_in_order(one: float, other: float) -> None:
    one, other = sorted((one, other))
    for written in (duration, format_elapsed):
        assert value_of(written(one)) <= value_of(written(other))
        assert abs(value_of(written(one)) - one) <= (1 if one < 3_600 else 60)


@given(st.floats(0.0001, 10**6), st.floats(0.0001, 10**6))
def test_money_is_close_and_in_order(one: float, other: float) -> None:
    one, other = sorted((one, other))
    assert value_of(money(one).replace("$", "")) <= value_of(money(other).replace("$", ""))
    assert value_of(money(one).replace("$", "")) == pytest.approx(one, rel=0.5)


@given(st.floats(0, 1, exclude_max=True), st.integers(0, 2))
def test_a_fraction_is_never_shown_as_0_or_100_percent(share: float, decimals: int) -> None:
    text = percent(share, decimals=decimals)
    assert (value_of(text) == 0) == (share == 0)
    assert value_of(text) < 100
