"""Numbers agree with their nouns, in one place for everything that is shown."""

from __future__ import annotations

import re
from pathlib import Path

import agentcli
from agentcli.core.text.format import counted, plural
from tests.support.tables import each_row

NAIVE = re.compile(r"""\(e?s\)["' .:,]|'e?s' if |"e?s" if |else 'e?s'|else "e?s\"""")


@each_row(
    ("number", "shown"), [(0, "0 lines"), (1, "1 line"), (2, "2 lines"), (1_200, "1,200 lines"), (-1, "-1 lines")]
)
def test_a_number_has_the_noun_that_fits_it(number: int, shown: str) -> None:
    assert counted(number, "line") == shown


def test_irregular_nouns_and_verbs_are_given() -> None:
    assert counted(2, "reply", "replies") == "2 replies"
    assert [plural(number, "is", "are") for number in (1, 3)] == ["is", "are"]


def test_no_other_module_builds_plurals() -> None:
    root = Path(agentcli.__file__).parent
    found = [
        f"{path.relative_to(root)}:{number}: {line.strip()}"
        for path in root.rglob("*.py")
        if path.name != "plural.py" and NAIVE.search(text := path.read_text())
        for number, line in enumerate(text.split("\n"), 1)
        if NAIVE.search(line)
    ]
    assert not found, found
