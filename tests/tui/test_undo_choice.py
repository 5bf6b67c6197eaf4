"""The question of /undo in the app: which version of some lines to keep."""

from __future__ import annotations

from agentcli.core.events import PermissionRequested
from agentcli.core.permission import Answer
from agentcli.tui.screens.dialog import Dialog
from agentcli.tui.screens.dialog_for import dialog_for
from tests.tui.screen_host import calm, look

CLASH = {"line": 2, "now": "mine\x1b[2J\n", "other": "two\nthree\n"}


def dialog(**display: object) -> Dialog[Answer | None]:
    fields = {"text": "Both you and the prompt changed these lines.", "now_label": "as it is now"}
    shown = {"kind": "undo", **fields, "other_label": "before “go”", "clashes": [CLASH], "exists": True, **display}
    event = PermissionRequested(
        request_id="q", tool_use_id="", name="agentcli", input={}, title="Undo: you changed a.txt too",
        reason="", display=shown,
    )  # fmt: skip
    return calm(dialog_for(event))


def test_both_versions_are_shown_even_with_little_room() -> None:
    for size in ((80, 24), (40, 10)):
        seen = look(dialog(), size=size)
        for text in ("you changed a.txt too", "Line 2, as it is now:", "- mine", "+ two", "❯ 1 Keep my lines"):
            assert text in seen, size
        assert "\x1b" not in seen
    assert "Before “go”:\n   (none)" in look(dialog(clashes=[{**CLASH, "other": ""}]))
    seen = look(dialog(exists=False, other_label="before “go”: the file did not exist", clashes=[]))
    assert "2 Remove the file" in seen
