"""Esc, Ctrl+C and Ctrl+D do the same over every dialog, picker and page, in the whole app."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from agentcli import tui
from agentcli.config.trust import TrustedContent, TrustState
from agentcli.core.permission import Answer
from agentcli.interactive.drafts import Draft
from agentcli.interactive.login.welcome import Welcome
from agentcli.interactive.questions.kinds import ask_for_trust
from agentcli.tui.app import AgentApp
from agentcli.tui.chat import TWICE_SECONDS
from agentcli.tui.screens.dialog import Dialog
from agentcli.tui.screens.edited_text import EditableDialog
from agentcli.tui.screens.hunks import HunkReview
from agentcli.tui.screens.page import Page
from agentcli.tui.screens.permission_rules import RuleEditor
from agentcli.tui.screens.picker import ListSheet, Picker
from agentcli.tui.screens.question import QuestionDialog
from agentcli.tui.screens.settings import SettingsPage, ValuePicker
from agentcli.tui.screens.sheet import Sheet
from agentcli.tui.screens.welcome import WelcomeDialog
from tests.tui.screen_host import asked
from tests.tui.screens.test_compact_preview import PROPOSED
from tests.tui.screens.test_welcome_dialog import PUBLIC
from tests.tui.test_app import EDIT, Desk, shown, until

QUESTION = {"question": "Which?", "header": "Way", "options": [{"label": "Left"}, {"label": "Right"}]}
BASES: set[type] = {Dialog, Sheet, ListSheet, EditableDialog}
"""Nobody sees these by themselves."""

Opens = Callable[[AgentApp], None]


def question(name: str, input: dict[str, Any], display: dict[str, Any]) -> Opens:
    return lambda app: app.chat.ask(asked(name, input, display=display), 0)


def command(text: str) -> Opens:
    return lambda app: app.chat.send(Draft(text))


def pushed(make: Callable[[AgentApp], Any]) -> Opens:
    def opens(app: AgentApp) -> None:
        app.push_screen(make(app), app.left_with.append)  # type: ignore[attr-defined]

    return opens


async def nothing(_welcome: Welcome) -> Welcome:
    raise AssertionError("nothing was chosen")


async def no_servers() -> tuple[Any, ...]:
    return ()


def hunks(app: AgentApp) -> HunkReview:
    event = asked("Edit", EDIT, display={"kind": "diff", "diff": "@@ -1 +1 @@\n-a\n+b", "path": "parser.py"})
    return HunkReview(event, cwd=app.preferences.cwd)


DIALOGS: dict[str, Opens] = {
    "PermissionDialog": question("Bash", {"command": "make"}, {"kind": "command"}),
    "QuestionsDialog": question("AskUserQuestion", {"questions": [QUESTION]}, {"kind": "questions"}),
    "PlanDialog": question("ExitPlanMode", {"plan": "# Plan"}, {"kind": "plan", "plan": "# Plan"}),
    "ConfirmDialog": question("agentcli", {}, {"kind": "confirm", "yes": "Yes", "no": "No"}),
    "CompactPreview": lambda app: app.chat.ask(PROPOSED, 0),
    "HunkReview": pushed(hunks),
    "TrustDialog": pushed(
        lambda app: QuestionDialog(
            ask_for_trust(TrustState(Path("/srv/app"), False, (TrustedContent("a", "b", "{}"),), ("a",)), can_exit=True)
        )
    ),
    "WelcomeDialog": pushed(lambda app: WelcomeDialog(Welcome(address=PUBLIC, public=PUBLIC), no_servers, nothing)),
}
LINES = {
    "/model": "claude-haiku-5-5",
    "/effort": "xhigh",
    "/mode": "edits",
    "/permissions": "mode default",
    "/context": "system prompt",
    "/cost": "Cost",
    "/help": "/undo",
    "/theme": "gruvbox-dark",
    "/config": "sandbox.mode",
    "/resume": "Resume",
    "/tasks": "background",
}
"""Words in the picker or page that a line opens."""


def test_every_dialog_is_closed_by_the_same_keys_without_a_trace(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await until(pilot, lambda: "Esc interrupts" in shown(app) and "sonnet" in shown(app))
        before = shown(app)
        await pilot.press("?")
        await until(pilot, lambda: "shift+tab" in shown(app).lower())
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        assert shown(app) == before
        for line, words in LINES.items():
            await is_closed_by_the_same_keys(pilot, app, line, command(line), words)
            assert shown(app) == before, line
        for name, opens in DIALOGS.items():
            await is_closed_by_the_same_keys(pilot, app, name, opens)

    Desk(tmp_path).play(script, (60, 16))
    assert not (tmp_path / ".config").exists()


async def is_closed_by_the_same_keys(
    pilot: Pilot[int], app: AgentApp, name: str, opens: Opens, words: str = ""
) -> None:
    leaves: list[int] = []
    answers: list[Answer | None] = []
    app.left_with = []  # type: ignore[attr-defined]
    app.leave = lambda code=0: leaves.append(code)  # type: ignore[method-assign,misc]
    app.chat.session.answer = lambda _id, answer: answers.append(answer)  # type: ignore[method-assign]

    async def opened() -> None:
        app.chat._pressed, app.chat._closed_dialog_at = ("", 0.0), -TWICE_SECONDS
        leaves.clear()
        opens(app)
        await until(pilot, lambda: isinstance(app.screen, Sheet))
        if isinstance(app.screen, Dialog):
            app.screen.guard._open = True

    async def closed() -> None:
        await until(pilot, lambda: app.screen is app.chat)

    await opened()
    await until(pilot, lambda: words.lower() in shown(app).lower())
    await pilot.press("ctrl+d")
    assert isinstance(app.screen, Sheet), "once does nothing but tell"
    assert "Ctrl+D again quits" in screen_text(app)
    assert not leaves
    await pilot.press("ctrl+d")
    assert leaves == [0]
    await pilot.press("escape")
    await closed()
    assert leaves == [0], "escape closes the dialog and nothing else"
    await opened()
    app.chat.prompt.clear()
    app.chat.prompt.insert("a draft")
    await pilot.press("ctrl+c")
    await closed()
    assert not leaves
    await pilot.press("ctrl+c")
    assert leaves == [0]
    assert app.chat.prompt.draft.text == "a draft", "it is kept for the next start"
    app.chat.prompt.clear()
    await pilot.pause()
    assert all(answer is None or answer.behavior == "deny" for answer in answers), answers
    assert name in ("WelcomeDialog", "TrustDialog") or all(value is None for value in app.left_with)  # type: ignore[attr-defined]


def screen_text(app: AgentApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def test_ctrl_c_closes_one_sheet_and_counts_twice_only_without_anything_between(tmp_path: Path) -> None:
    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        leaves: list[int] = []
        app.leave = lambda code=0: leaves.append(code)  # type: ignore[method-assign,misc]
        app.chat.session.interrupt = lambda: True  # type: ignore[method-assign]
        app.chat.send(Draft("/config"))
        await until(pilot, lambda: isinstance(app.screen, SettingsPage))
        await pilot.press("down", "down", "down", "down", "enter")
        await until(pilot, lambda: not isinstance(app.screen, SettingsPage))
        await pilot.press("ctrl+c")
        await until(pilot, lambda: isinstance(app.screen, SettingsPage))
        assert not leaves
        await pilot.press("ctrl+c")
        assert leaves == [0], "twice"
        app.chat._pressed = ("", 0.0)
        await pilot.press("escape", "ctrl+c")
        await until(pilot, lambda: app.screen is app.chat)
        leaves.clear()
        await pilot.press("x", "ctrl+c")
        assert not leaves, "something was typed between"
        await pilot.press("ctrl+c")
        assert leaves == [0]

    Desk(tmp_path).play(script, (100, 30))


def test_no_kind_of_dialog_defines_its_own_closing_keys() -> None:
    """A new dialog inherits the rule and may close only with a refusal."""
    for module in pkgutil.walk_packages(tui.__path__, f"{tui.__name__}."):
        importlib.import_module(module.name)
    kinds = {kind for base in (Dialog, Sheet) for kind in descendants(base)} - BASES
    assert {RuleEditor, ValuePicker, Picker, Page, HunkReview} <= kinds
    for kind in kinds:
        assert "on_key" not in vars(kind), kind
        assert "show_notice" not in vars(kind), kind


def descendants(kind: type) -> set[type]:
    return {
        one for child in kind.__subclasses__() for one in {child, *descendants(child)} if "agentcli." in one.__module__
    }
