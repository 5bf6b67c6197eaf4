from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentcli.core.append_only import AppendOnly, RunningValue, latest


@given(st.lists(st.integers(-9, 9)), st.lists(st.integers(-9, 9)), st.integers(-12, 12), st.integers(-12, 12))
def test_a_growing_sequence_is_like_a_tuple(first: list[int], more: list[int], start: int, stop: int) -> None:
    made, like = AppendOnly(first).adding(*more), (*first, *more)
    assert made == like
    assert like == made
    assert (len(made), tuple(made), tuple(reversed(made))) == (len(like), like, like[::-1])
    assert made[start:stop] == like[start:stop]
    assert made[start:stop:-2] == like[start:stop:-2]
    assert [made[place] for place in range(-len(like), len(like))] == [*like, *like]


def test_two_that_grow_from_one_do_not_disturb_each_other() -> None:
    base = AppendOnly("ab")
    one, other = base.adding("c"), base.adding("x", "y")
    assert (one, other) == (("a", "b", "c"), ("a", "b", "x", "y"))
    assert one.shared_with(other) == 2
    assert base.begins(one)
    assert base.begins(other)
    assert not one.begins(other)


def test_each_item_is_read_once_and_all_again_in_another_sequence() -> None:
    read: list[str] = []

    def add(before: str, item: str) -> str:
        read.append(item)
        return before + item

    gathered = RunningValue(str, add)
    log = AppendOnly("ab")
    assert gathered.of(log) == "ab"
    assert gathered.of(log.adding("c")) == "abc"
    assert read == ["a", "b", "c"]
    assert gathered.of(AppendOnly("xb")) == "xb"
    assert gathered.of(AppendOnly("x")) == "x"


def test_the_latest_of_a_kind_is_kept() -> None:
    found = latest(lambda text: text if text.isupper() else None)
    log = AppendOnly(["a", "B", "c"])
    assert found.of(log) == "B"
    assert found.of(log.adding("d", "E")) == "E"
    assert found.of(AppendOnly(["a"])) is None
