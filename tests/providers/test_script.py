from __future__ import annotations

import pytest

from agentcli.core.errors import UsageError
from agentcli.providers.script import Player, Script
from tests.support.tables import each_row

SIDE = {"messages": [{"role": "user", "content": "make a title please"}]}
MAIN = {"messages": [{"role": "user", "content": [{"type": "text", "text": "work"}]}], "system": "You."}


def texts(player: Player, *bodies: dict[str, object]) -> list[object]:
    return [reply.steps[0]["text"] if reply.steps else reply.error for reply in map(player.next, bodies)]


def test_matching_replies_are_for_requests_that_match_and_the_others_go_in_order() -> None:
    script = Script.parse(
        {"version": 1, "replies": ["one", {"text": "title", "match": "title", "repeat": True}, "two"]}
    )
    player = Player(script)
    assert texts(player, SIDE, MAIN, SIDE, MAIN) == ["title", "one", "title", "two"]


def test_a_reply_may_repeat_and_an_exhausted_script_is_reported() -> None:
    player = Player(Script.parse([{"text": "a", "repeat": 2}]))
    assert texts(player, MAIN, MAIN)[:2] == ["a", "a"]
    error = player.next(MAIN).error_answer()
    assert error is not None
    assert "no reply left" in error.body


def test_the_system_prompt_can_be_matched_too() -> None:
    assert texts(Player(Script.parse(["x", {"text": "y", "match": "^You"}])), MAIN) == ["y"]


@each_row(
    ("data", "told"),
    [
        ("{", "not JSON"),
        ({"version": 9}, "version 9"),
        ({"replies": 3}, "list"),
        ([{}], r"replies\[0\]"),
        ([{"steps": [{"say": "x"}]}], r"replies\[0\].steps\[0\]"),
        ([{"steps": [{"fault": "fire"}]}], "'fire'"),
        ([{"text": "x", "match": "("}], "regular expression"),
    ],
)
def test_a_mistake_in_a_script_is_named_with_its_place(data: object, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Script.parse(data)  # type: ignore[arg-type]
