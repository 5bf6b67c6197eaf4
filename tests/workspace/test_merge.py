"""Merging by lines."""

from __future__ import annotations

import random

import pytest

from agentcli.workspace.merge import is_text, merge
from tests.support.examples import EXAMPLES
from tests.support.tables import each_row


@each_row(
    ("base", "mine", "other", "merged"),
    [
        (b"a\nB\nc\n", b"a\nB\nmine\n", b"a\nb\nc\n", b"a\nb\nmine\n"),  # neighbouring lines
        (b"a\nb\nnew\n", b"a\nb\nnew\nmine\n", b"a\nb\n", b"a\nb\nmine\n"),  # after lines that go
        (b"a\nc\n", b"a\nmine\nc\n", b"a\nb\nc\n", b"a\nmine\nb\nc\n"),  # two insertions at one place
        (b"a\nB\nc\n", b"c\n", b"a\nb\nc\n", None),
        (b"a\nB", b"a\nB\nmine\n", b"a\nb", None),
        (b"", b"mine\n", b"b\n", b"mine\nb\n"),
        (b"a\r\nB\r\n", b"mine\r\nB\r\n", b"a\r\nb\r\n", b"mine\r\nb\r\n"),
    ],
)
def test_changes_to_different_lines_are_both_kept(base: bytes, mine: bytes, other: bytes, merged: bytes | None) -> None:
    found = merge(base, mine, other)
    assert bool(found.clashes) is (merged is None)
    if merged is not None:
        assert found.content == merged


def test_lines_changed_on_both_sides_come_from_the_favoured_side() -> None:
    base, mine, other = b"1\nX\n3\nY\n5\n", b"1\nmine\n3\nY\nfive\n", b"1\n2\n3\n4\n5\n"
    kept = merge(base, mine, other)
    assert kept.content == b"1\nmine\n3\n4\nfive\n"
    assert merge(base, mine, other, "other").content == b"1\n2\n3\n4\nfive\n"
    (clash,) = kept.clashes
    assert (clash.line, clash.mine, clash.other) == (2, b"mine\n", b"2\n")


@pytest.mark.parametrize(("content", "expected"), [(b"", True), (b"a\n", True), (b"a\0b", False)])
def test_a_file_with_a_zero_byte_is_not_text(content: bytes, expected: bool) -> None:
    assert is_text(content) is expected


@pytest.mark.parametrize("largest_block", [4, 250_000])
def test_random_changes_to_distinct_lines_never_clash(largest_block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentcli.workspace.merge._MAX_BLOCK_SIZE", largest_block)
    for seed in range(5 * EXAMPLES):
        rng = random.Random(seed)
        lines = [f"line {number}\n" for number in range(rng.randrange(1, 30))]
        owners = [rng.choice(("mine", "other", "")) for _line in lines]
        versions = {}
        for who in ("mine", "other", "both"):
            made: list[str] = []
            for number, (text, owner) in enumerate(zip(lines, owners, strict=True)):
                acts = owner in (who, "") or who == "both"
                act = random.Random(seed * 1000 + number).randrange(3) if owner and acts else 0
                made += [text] if act == 0 else [f"{owner} {number}\n"] if act == 1 else []
            versions[who] = "".join(made).encode()
        found = merge("".join(lines).encode(), versions["mine"], versions["other"])
        assert (found.clashes, found.content) == ((), versions["both"]), seed
