"""What many tool calls cost the app besides their frames: no layout of the screen and no messages between widgets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from agentcli.tui.app import AgentApp
from agentcli.tui.model import Activity, Add, NoticeItem, ToolItem
from tests.support.scripts import call, reply
from tests.tui.test_app import Desk, idle, rows, sends, until

CALLS = 30


def test_many_reads_need_no_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = [reply(call("Read", file_path="parser.py", limit=1_000 + number)) for number in range(CALLS)]
    desk = Desk(tmp_path, "Hello.", *reads, "All was read.")
    chat = desk.app.chat
    layouts: list[object] = []
    frames: list[object] = []

    def watch() -> None:
        lay_out, paint = chat._refresh_layout, chat.paint

        def laid_out(*arguments: Any, **options: Any) -> None:
            layouts.append(arguments)
            lay_out(*arguments, **options)

        def painted(*arguments: Any) -> None:
            frames.append(arguments)
            paint(*arguments)

        monkeypatch.setattr(chat, "_refresh_layout", laid_out)
        monkeypatch.setattr(chat, "paint", painted)

    async def script(pilot: Pilot[int], app: AgentApp) -> None:
        await sends(pilot, app, "hello")
        await idle(pilot, app)
        watch()
        await sends(pilot, app, "read it")
        await until(pilot, lambda: not chat.session.busy)
        monkeypatch.undo()
        assert sum(isinstance(item, ToolItem) for item in chat.transcript.items()) == CALLS
        assert not layouts
        assert frames
        await idle(pilot, app)
        assert "All was read." in "\n".join(rows(app))

    desk.play(script)


def test_what_comes_before_the_screen_is_there_is_kept(tmp_path: Path) -> None:
    chat = Desk(tmp_path).app.chat
    early = NoticeItem(id="early", text="early")
    chat.paint([Add(early)], Activity())
    assert chat.transcript.items() == [early]


def test_a_frame_that_cannot_be_painted_ends_the_app_in_order(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "Hello.")

    async def script(_pilot: Pilot[int], app: AgentApp) -> None:
        app.chat.paint([None], Activity(phase="no such phase"))  # type: ignore[list-item, arg-type]

    with pytest.raises(KeyError, match="no such phase"):
        desk.play(script)
