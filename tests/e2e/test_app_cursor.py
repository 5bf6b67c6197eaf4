"""The terminal's own cursor, which input methods and screen readers go by, stands where the visible one is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scripts import call, reply
from tests.support.terminal import TerminalProgram, app_with

pytestmark = pytest.mark.anyio


async def stands_at(app: TerminalProgram, column: int, text: str) -> None:
    """Wait until the terminal's cursor is in this column of the last row with a text."""

    def is_there() -> bool:
        rows = [number for number, row in enumerate(app.screen) if text in row]
        return rows[-1:] == [app.emulator.cursor.y] and app.emulator.cursor.x == column

    await app.wait_for(is_there)


async def test_the_cursor_follows_resizes_sent_prompts_the_search_and_dialogs(tmp_path: Path) -> None:
    async with app_with(tmp_path, reply("the answer"), reply(call("Bash", command="touch it"))) as (app, _server):
        await app.ready()
        await app.type("one two three")
        for columns, rows, place in ((60, 20, 15), (100, 30, 15), (80, 24, 15)):
            app.resize(columns, rows)
            await stands_at(app, place, "❯ one two three")
        await app.press("ctrl+j")
        await app.type("and more")
        await stands_at(app, 10, "  and more")
        await app.press("enter")
        await app.wait_for("◆ the answer")
        await stands_at(app, 2, "❯ Ask anything")
        await app.press("ctrl+f")
        await stands_at(app, 6, "Find Search")
        await app.type("ans")
        await stands_at(app, 9, "Find ans")
        await app.press("escape")
        await stands_at(app, 2, "❯ Ask anything")
        await app.submit("go")
        await app.wait_for("Run this command?")
        await stands_at(app, 1, "❯ 1 Allow once")
        await app.answer("down", "down")
        await stands_at(app, 1, "❯ 3 Deny")
        await app.press("w")
        await stands_at(app, 3, "empty: deny without a reason")
        await app.type("no")
        await stands_at(app, 5, "   no")
        await app.press("escape", "escape")
        await app.wait_for("Interrupted")
        await stands_at(app, 2, "❯ Ask anything")
        await app.submit("/help")
        await app.wait_for("type to search")
        await stands_at(app, 3, "⌕ type to search")
        app.resize(100, 30)
        await stands_at(app, 3, "⌕ type to search")
        await app.press("escape")
        await stands_at(app, 2, "❯ Ask anything")
