"""The fuzzy matcher, compared with every possible alignment."""

from __future__ import annotations

import random
import re
from itertools import combinations

from agentcli.core.text.fuzzy import FuzzyMatch, fold_case, fuzzy_match
from tests.support.tables import each_row

LETTERS = "ab/_.Ab1"


def every_alignment(query: str, text: str) -> int | None:
    """The best score, by trying all; written from the rules and not from the matcher."""
    compared = text if query != query.lower() else text.lower()
    start = text.rstrip("/").rfind("/") + 1
    scores = []
    for places in combinations(range(len(text)), len(query)):
        if any(compared[place] != char for place, char in zip(places, query, strict=True)):
            continue
        score = 0
        for number, place in enumerate(places):
            before, here = (text[place - 1] if place else "/"), text[place]
            bonus = 10 if before == "/" else 8 if before in "_." else 0
            if not bonus and ((before.islower() and here.isupper()) or (here.isdigit() and not before.isdigit())):
                bonus = 7
            score += 16 + bonus * (1 if number else 2) + (2 if place >= start else 0)
            if number:
                gap = place - places[number - 1] - 1
                score += -(gap + 2) if gap else 8
        if places[-1] + 1 == len(text) or text[places[-1] + 1] in "/.":
            score += 4
        scores.append(score)
    return max(scores, default=None)


@each_row("seed", range(20))
def test_it_finds_the_best_of_all_alignments(seed: int) -> None:
    source = random.Random(seed)
    for _round in range(100):
        text = re.sub("/+", "/", "".join(source.choice(LETTERS) for _char in range(source.randint(1, 10))))
        query = "".join(source.choice("ab/_1A" if seed % 2 else "ab/_1") for _char in range(source.randint(1, 4)))
        found = fuzzy_match(query, text)
        assert (found.score if found else None) == every_alignment(query, text), (query, text)
        if found is not None:
            compared = text if query != query.lower() else fold_case(text)
            assert "".join(compared[place] for place in found.positions) == query
            assert list(found.positions) == sorted(set(found.positions))


@each_row(
    ("query", "better", "worse"),
    [
        ("engine", "agent/engine.py", "agent/engine_room.py"),
        ("engine", "agent/engine.py", "engine/agent.py"),
        ("eng", "a/engine.py", "a/e_n_g.py"),
        ("fi", "tools/search/file_index.py", "tools/profile.py"),
        ("cm", "context_menu.py", "command.py"),
        ("fI", "fileIndex.ts", "aFxIx.ts"),
        ("at", "agent/tools.py", "catalog/x.py"),
        ("test", "tests/", "latest/x.py"),
    ],
)
def test_likely_matches_score_higher(query: str, better: str, worse: str) -> None:
    good, bad = fuzzy_match(query, better), fuzzy_match(query, worse)
    assert good is not None
    assert bad is None or good.score > bad.score


def test_case_matters_only_when_there_is_a_capital() -> None:
    assert fuzzy_match("readme", "README.md") is not None
    assert fuzzy_match("Readme", "README.md") is None
    assert fuzzy_match("", "anything") == FuzzyMatch(0, ())


def test_folding_keeps_positions() -> None:
    assert len(fold_case("İstanbul/ẞ")) == len("İstanbul/ẞ")
    found = fuzzy_match("bul", "İstanbul")
    assert found is not None
    assert found.positions == (5, 6, 7)
