"""A frozen class behaves like the frozen, slotted dataclass that it replaces."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace
from typing import Any

import pytest

from agentcli.core.frozen import frozen, slotted
from agentcli.core.frozen import replace as quick_replace


@frozen
class Point:
    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.x + self.y


@frozen(kw_only=True)
class Base:
    agent: str = ""


@frozen(kw_only=True)
class Derived(Base):
    """Says what it is."""

    name: str
    secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Standard:
    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list)


def test_fields_are_set_by_position_and_by_name_and_have_their_defaults() -> None:
    assert (Point(1).x, Point(1).y, Point(1).tags) == (1, 2, [])
    assert Point(1, y=5).total == 6
    assert Point(tags=["a"], x=1).tags == ["a"]


def test_nothing_can_be_changed_removed_or_added() -> None:
    point = Point(1)
    with pytest.raises(FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del point.x
    with pytest.raises(FrozenInstanceError):
        point.other = 1  # type: ignore[attr-defined]
    assert not hasattr(point, "__dict__")


def test_values_are_equal_when_class_and_fields_are() -> None:
    assert Point(1) == Point(1, 2)
    assert Point(1) != Point(2)
    assert Point(1) != Standard(1)  # type: ignore[comparison-overlap]
    assert len({Derived(name="a"), Derived(name="a"), Derived(name="b")}) == 2
    not_a_number = float("nan")
    assert Derived(name="a", agent=not_a_number) == Derived(name="a", agent=not_a_number)  # type: ignore[arg-type]


def test_it_shows_its_fields_but_not_the_secret_ones() -> None:
    assert repr(Point(1)) == "Point(x=1, y=2, tags=[])"
    assert repr(Derived(name="a", secret="s")) == "Derived(agent='', name='a')"


def test_dataclass_functions_accept_it() -> None:
    assert [spec.name for spec in fields(Derived)] == ["agent", "name", "secret"]
    assert replace(Point(1), y=7) == Point(1, 7)
    assert is_dataclass(Point)
    assert inspect.signature(Point).parameters.keys() == inspect.signature(Standard).parameters.keys()


def test_the_quick_replace_does_what_the_standard_one_does() -> None:
    point = Point(1, tags=["a"])
    assert quick_replace(point, y=5) == replace(point, y=5) == Point(1, 5, ["a"])
    assert quick_replace(point).tags is point.tags
    assert quick_replace(Base(), agent="b") == Base(agent="b")
    with pytest.raises(TypeError):
        quick_replace(point, z=1)  # type: ignore[call-arg]


def test_it_matches_by_position_and_by_name() -> None:
    found: Any = Point(1, 9)
    match found:
        case Point(x, y, tags=[]):
            assert (x, y) == (1, 9)
        case _:
            pytest.fail("it did not match")
    assert Point.__match_args__ == Standard.__match_args__
    assert Derived.__match_args__ == ()


def test_it_survives_copying_and_pickling() -> None:
    point = Point(1, 3, ["a"])
    assert pickle.loads(pickle.dumps(point)) == point
    assert copy.copy(point) == point
    deep = copy.deepcopy(point)
    assert deep == point
    assert deep.tags is not point.tags


def test_a_method_defined_by_the_class_is_kept() -> None:
    @frozen
    class Loud:
        text: str

        def __repr__(self) -> str:
            return self.text.upper()

        def __post_init__(self) -> None:
            if not self.text:
                raise ValueError("empty")

    assert repr(Loud("a")) == "A"
    with pytest.raises(ValueError, match="empty"):
        Loud("")


def test_the_first_instances_and_the_later_ones_are_made_alike() -> None:
    @frozen(kw_only=True)
    class Named:
        name: str
        size: int = field(default=3, repr=False)

    @frozen
    class Made(Named):
        parts: list[str] = field(default_factory=list, kw_only=True)
        count: int = 0

    assert len({repr(Made(1, name="a")) for _each in range(10)}) == 1
    assert all(Made(name="a", size=1, count=2) == Made(2, name="a", size=1) for _each in range(10))
    assert Made.__match_args__ == ("count",)


@pytest.mark.parametrize("made_before", [0, 10])
def test_wrong_arguments_are_refused_by_the_first_and_by_later_instances(made_before: int) -> None:
    @frozen
    class Pair:
        left: int
        right: int

    for _each in range(made_before):
        Pair(1, 2)
    wrong: list[Any] = [lambda: Pair(1), lambda: Pair(1, 2, 3), lambda: Pair(1, left=1), lambda: Pair(1, 2, other=3)]  # type: ignore[call-arg,misc]
    for make in wrong:
        with pytest.raises(TypeError, match=r"Pair.__init__\(\)"):
            make()


def test_a_slotted_class_can_be_changed_and_is_compared_by_its_fields() -> None:
    @slotted
    class Draft:
        text: str
        tags: list[str] = field(default_factory=list)

    draft = Draft("a")
    draft.text = "b"
    draft.tags.append("c")
    assert draft == Draft("b", ["c"])
    assert repr(draft).endswith("Draft(text='b', tags=['c'])")
    assert replace(draft, text="d") == Draft("d", ["c"])
    assert copy.deepcopy(draft) == draft
    with pytest.raises(AttributeError):
        draft.other = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="unhashable"):
        hash(draft)
    del draft.text
    assert not hasattr(draft, "text")
