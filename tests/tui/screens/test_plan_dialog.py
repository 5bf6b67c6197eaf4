"""The dialog for a plan: approved unchanged or edited, or returned with feedback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot

from agentcli.core.errors import AgentError
from agentcli.core.permission import Answer, PermissionMode
from agentcli.tui.prompt import external_input as external
from agentcli.tui.screens.dialog import Dialog
from agentcli.tui.screens.dialog_for import dialog_for
from tests.tui.screen_host import Host, asked, calm, look, play, press, replies, shown

PLAN = "# Steps\n\nFirst look, then leap.\n"


def dialog(plan: str = PLAN, returns_to: str = "default") -> Dialog[Answer | None]:
    event = asked("ExitPlanMode", {"plan": plan}, display={"kind": "plan", "plan": plan, "returns_to": returns_to})
    return calm(dialog_for(event))


def answers(*scripts: str, plan: str = PLAN) -> list[Any]:
    return replies(lambda: dialog(plan), *scripts)


def test_the_plan_and_its_choices_are_shown() -> None:
    text = look(dialog(), size=(70, 20))
    assert text.startswith("─── Go ahead with this plan? ──")
    assert "Steps" in text
    assert " First look, then leap.\n" in text
    assert text.endswith(
        " ❯ 1 Yes, and ask before each edit\n"
        "   2 Yes, and accept edits automatically\n"
        "   3 Edit the plan\n"
        "   4 No, keep planning: say what to change\n"
        " ↑↓ choose · Enter confirm · Esc stop the work"
    )


def test_names_with_underscores_stay_as_written() -> None:
    text = look(dialog("Rename _private_ and `_x_` to __name__, **now**.\n\n```\n_y_ = 1\n```\n"))
    assert " Rename _private_ and _x_ to __name__, now.\n" in text
    assert "_y_ = 1" in text
    assert "\\" not in text


def test_a_plan_is_asked_about_also_when_the_working_directory_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert "Go ahead with this plan?" in look(dialog())


def test_on_a_small_screen_all_choices_stay_visible() -> None:
    rows = look(dialog("word " * 400), size=(40, 10)).split("\n")
    assert len(rows) == 10
    assert rows[-5:] == [
        " ❯ 1 Yes, ask before each edit",
        "   2 Yes, accept edits automatically",
        "   3 Edit the plan",
        "   4 No, keep planning",
        " Enter confirm · Esc stop the work",
    ]


@pytest.mark.parametrize(
    ("before", "first", "others"),
    [
        ("default", "ask before each edit", ["accept edits automatically"]),
        ("acceptEdits", "accept edits automatically", ["ask before each edit"]),
        ("auto", "continue in auto mode", ["ask before each edit", "accept edits automatically"]),
        ("", "ask before each edit", ["accept edits automatically"]),
    ],
)
def test_the_first_choice_returns_to_the_mode_before_the_plan(before: str, first: str, others: list[str]) -> None:
    text = look(dialog(returns_to=before), size=(70, 20))
    assert [line.partition("Yes, and ")[2] for line in text.splitlines() if "Yes, and " in line] == [first, *others]


def test_an_edited_plan_is_shown_and_can_be_reverted() -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "e | down down down down | N e w | escape")
        assert shown(host)[0].endswith(" edited by you ─")
        assert any("New" in row for row in shown(host))
        await press(pilot, "u")
        assert not any("New" in row for row in shown(host))
        await press(pilot, "y")
        assert host.answer == Answer("allow")

    play(dialog(), script)


def test_the_users_editor_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    async def edit(app: App[Any], text: str, environ: Any, cwd: Path) -> str:
        seen.append(text)
        if len(seen) > 1:
            raise AgentError("No editor was found.")
        return "Better.\x1b[2J"

    monkeypatch.setattr(external, "edit_outside", edit)
    found = answers("ctrl+g | ctrl+g | 2")
    assert seen == [PLAN, "Better."]
    assert found == [Answer("allow", updated_input={"plan": "Better."}, mode=PermissionMode.ACCEPT_EDITS)]
