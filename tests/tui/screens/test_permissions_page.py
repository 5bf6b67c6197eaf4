"""The page of permission rules: by scope, searchable, and closing with the line that makes a change."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from agentcli.agent.live_permissions import RuleEntry
from agentcli.tui.screens.permission_rules import PermissionsPage
from tests.tui.screen_host import OPEN, Host, look, play, press, through_all_sizes

USER = "/home/me/.config/agentcli/settings.json"
ENTRIES = [
    RuleEntry("deny", "Read(.env)", USER, "user"),
    RuleEntry("allow", "Bash(make *)", "this session", "session", 3, 0.0),
    RuleEntry("ask", "Bash(git push *)", "--settings", "flags"),
]


def page() -> PermissionsPage:
    return PermissionsPage(ENTRIES, "default")


def test_rules_are_grouped_by_scope_with_coverage_and_last_use() -> None:
    text = look(page())
    assert text.index("This session") < text.index("All your projects") < text.index("Command line")
    assert "Allow: make with any arguments" in text
    assert "this session · 3 times, last at " in text
    assert "mode default" in text


@pytest.mark.parametrize(
    "steps",
    [
        [("/ =env", "Read(.env)", "¬Bash(make *)")],
        [("d", OPEN), ("down d", OPEN), ("up d", OPEN), ("d", "remove allow 'Bash(make *)' --scope session")],
        [("end enter", "change it there", OPEN), ("d", "remove it there", OPEN)],
        [
            ("enter | |", OPEN),
            ("backspace backspace x ) | enter", "edit allow 'Bash(make *)' 'Bash(make x)' --scope session"),
        ],
        [
            ("a | =Bash( | enter", OPEN),
            ("=ls) |", "Allow Bash(ls)", "covers exactly this command"),
            ("enter", "add allow 'Bash(ls)' --scope session"),
        ],
        [("a | =Bash(ls) | tab down down enter", "add deny 'Bash(ls)' --scope local")],
        [("a | =Bash | enter", OPEN, "Press Enter again"), ("| enter", "add allow Bash --scope session --yes")],
    ],
    ids=["search", "remove", "not from a flag", "edit", "add", "add elsewhere", "risky"],
)
def test_keys_find_and_change_rules(steps: list[tuple[str, ...]]) -> None:
    made: list[Any] = []

    async def script(pilot: Pilot[None], host: Host) -> None:
        for keys, *expected in steps:
            await press(pilot, keys)
            made.append(host.answers[0] if host.answers else OPEN)
            for one in expected:
                text = one.removeprefix("¬")
                is_there = made[-1] == one or text in " ".join(host.shown.split())
                assert is_there is not one.startswith("¬"), f"{keys}: {one}"

    play(page(), script)


def test_it_fits_every_size() -> None:
    play(page(), through_all_sizes)
