"""The page of permission rules: by scope, searchable, and closing with the line that makes a change."""

from __future__ import annotations

from agentcli.agent.live_permissions import RuleEntry
from agentcli.tui.screens.permission_rules import PermissionsPage
from tests.tui.screen_host import OPEN, after_each, answer, look, play, through_all_sizes

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


def test_searching_finds_a_rule() -> None:
    text = look(page(), "/", "e", "n", "v")
    assert "Read(.env)" in text
    assert "Bash(make *)" not in text


def test_a_rule_is_removed_after_a_second_press() -> None:
    once, elsewhere, back, twice = after_each(page(), ("d",), ("down", "d"), ("up", "d"), ("d",))
    assert once[0] is elsewhere[0] is back[0] == OPEN
    assert twice[0] == "remove allow 'Bash(make *)' --scope session"


def test_a_rule_from_a_flag_cannot_be_changed_here() -> None:
    changed, removed = after_each(page(), ("end", "enter"), ("d",))
    assert "change it there" in changed[1]
    assert "remove it there" in removed[1]


def test_a_rule_is_edited_in_place() -> None:
    keys = ("enter", "|", "|", "backspace", "backspace", "x", ")", "|", "enter")
    assert answer(page(), *keys) == "edit allow 'Bash(make *)' 'Bash(make x)' --scope session"


def test_a_new_rule_is_added_with_behaviour_and_scope() -> None:
    invalid, before, added = after_each(
        page(), ("a", "|", "=Bash(", "|", "enter"), ("=ls)", "|"), ("enter",)
    )  # fmt: skip
    assert invalid[0] == OPEN
    assert "Allow Bash(ls)" in before[1]
    assert "covers exactly this command" in before[1]
    assert added[0] == "add allow 'Bash(ls)' --scope session"
    keys = ("a", "|", "=Bash(ls)", "|", "tab", "down", "down", "enter")
    assert answer(page(), *keys) == "add deny 'Bash(ls)' --scope local"


def test_a_rule_that_allows_anything_needs_a_second_enter() -> None:
    typed = ("a", "|", "=Bash", "|", "enter")
    once, twice = after_each(page(), typed, ("|", "enter"))
    assert once[0] == OPEN
    assert "Press Enter again" in once[1]
    assert twice[0] == "add allow Bash --scope session --yes"


def test_it_fits_every_size() -> None:
    play(page(), through_all_sizes)
