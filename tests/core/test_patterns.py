from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentcli.core.text.patterns import MAX_PATTERN, escape_glob, glob_regex, is_within_limits
from tests.support.tables import each_row


@each_row(
    ("pattern", "path", "matches"),
    [
        ("*.py", "a.py", True),
        ("*.py", "d/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "d/e/a.py", True),
        ("src/**", "src/a/b", True),
        ("src/**", "src", True),
        ("src/**", "srcx", False),
        ("src/**/t.py", "src/t.py", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("[ab].py", "a.py", True),
        ("[!ab].py", "a.py", False),
        ("[!ab].py", "c.py", True),
        ("*.{ts,tsx}", "a.tsx", True),
        ("*.{ts,tsx}", "a.js", False),
        ("a{b", "a{b", True),
        ("[z-a]", "[z-a]", True),
        ("a[+-9]b", "a/b", False),
        ("a.b", "axb", False),
        ("\\*", "*", True),
        ("\\*", "x", False),
        ("*a*a*b", "xaxaxb", True),
        ("*a*a*b", "xaxb", False),
        ("a*a", "a", False),
        ("**/a/**/a/b", "a/a/a/b", True),
        ("**/a/**/a/b", "a/b", False),
        ("**/**/b", "b", True),
    ],
)
def test_globs_match_whole_paths(pattern: str, path: str, matches: bool) -> None:
    assert bool(re.fullmatch(glob_regex(pattern), path)) is matches


def test_an_escaped_name_matches_only_itself() -> None:
    name = "we[i]rd*{a}?.py"
    assert re.fullmatch(glob_regex(escape_glob(name)), name)
    assert not re.fullmatch(glob_regex(escape_glob(name)), "weirdXa1.py")


@pytest.mark.parametrize(
    "pattern",
    [
        "*a" * 40 + "b",
        "*a" * 2_000 + "b",
        "**/a/" * 30 + "b",
        "**/" * 1_000 + "b",
        "**/*a*a*a*a*a*a*a*b/" * 100 + "b",
        "{a,*a}" * 8 + "*a" * 20 + "b",
        "{,a" * 1_000,
        "{" + "," * 4_000,
        "[" * MAX_PATTERN,
        "*a" * 20_000 + "b",
    ],
    ids=lambda pattern: f"{pattern[:12]}({len(pattern)})",
)
def test_hostile_patterns_are_matched_in_bounded_time(pattern: str) -> None:
    with at_most(10):
        expression = re.compile(glob_regex(pattern), re.DOTALL)
        for path in ("a" * 255, "a/" * 2_000 + "x", "/".join(["a" * 250] * 16), "a" * 4_096):
            assert not expression.fullmatch(path + "c")


def test_a_pattern_beyond_the_limits_is_known_as_such() -> None:
    assert is_within_limits("src/{a,b}/**/*.{ts,tsx}")
    assert not is_within_limits("{a,b}" * 20)
    assert not is_within_limits("a" * (MAX_PATTERN + 1))


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Seconds of processor time, whatever else the machine does. The regular expression engine looks for signals while
    it matches: what never ends fails here, not in CI."""

    def late(*_arguments: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
