from __future__ import annotations

import re

import pytest

from agentcli.core.globs import escape_glob, glob_regex


@pytest.mark.parametrize(
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
        ("a.b", "axb", False),
        ("\\*", "*", True),
        ("\\*", "x", False),
    ],
)
def test_globs_match_whole_paths(pattern: str, path: str, matches: bool) -> None:
    assert bool(re.fullmatch(glob_regex(pattern), path)) is matches


def test_an_escaped_name_matches_only_itself() -> None:
    name = "we[i]rd*{a}?.py"
    assert re.fullmatch(glob_regex(escape_glob(name)), name)
    assert not re.fullmatch(glob_regex(escape_glob(name)), "weirdXa1.py")
