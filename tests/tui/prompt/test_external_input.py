"""Writing in the user's own editor, and a long random walk over all keys."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from agentcli.interactive.drafts import Draft, History, PastedPiece
from agentcli.tui.glyphs import boundary_near
from agentcli.tui.keys import key_table
from tests.tui.prompt.host import Files, Host, paste, play, press, write


def editor(folder: Path, body: str) -> dict[str, str]:
    file = folder / "editor"
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return {"VISUAL": str(file), "PATH": "/usr/bin:/bin"}


def work(folder: Path) -> Path:
    """A project beside the editor: one that lies in the project is refused."""
    (folder / "work").mkdir()
    return folder / "work"


def suspended() -> AbstractContextManager[None]:
    return nullcontext()


async def edit_outside(pilot: Pilot[None], host: Host) -> None:
    host.suspend = suspended  # type: ignore[method-assign]
    await press(pilot, "ctrl+g")
    await host.workers.wait_for_complete()
    await pilot.pause()


def told(host: Host) -> list[str]:
    return [note.message for note in host._notifications]


def test_the_editor_gets_a_private_file_and_its_text_is_in_the_box(tmp_path: Path) -> None:
    look = 'ls -ld "$1" "$(dirname "$1")" | cut -c1-10; echo "$1"'
    body = f'({look}) > {tmp_path}/seen; printf "%s" " more" >> "$1"'

    async def script(pilot: Pilot[None], host: Host) -> None:
        await write(pilot, "some")
        await edit_outside(pilot, host)
        assert host.text == "some more"
        await press(pilot, "ctrl+underscore")
        assert host.text == "some", "as any other change it can be undone"

    assert told(play(script, environ=editor(tmp_path, body), cwd=work(tmp_path))) == []
    folder_mode, file_mode, path = (tmp_path / "seen").read_text().split()
    assert (file_mode, folder_mode) == ("-rw-------", "drwx------")
    assert not Path(path).parent.exists()


def test_chips_and_control_characters_in_edited_text_are_handled(tmp_path: Path) -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        await paste(pilot, "line\n" * 20)
        await edit_outside(pilot, host)
        assert host.text == "[Pasted #1: 20 lines] red"
        assert host.box.draft.expanded() == "line\n" * 20 + " red"

    play(script, environ=editor(tmp_path, r"""printf '\033[31mred\r\n' >> "$1" """), cwd=work(tmp_path))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("exit 3", "editor ended with code 3; the text is unchanged."),
        ('rm "$1"', "The editor could not be used: No such file or directory."),
        (
            'dd if=/dev/zero of="$1" bs=1048576 count=11 2>/dev/null',
            "The text from editor is too large for a prompt (11,534,336 bytes).",
        ),
    ],
)
def test_a_failing_editor_is_reported_and_the_text_stays(tmp_path: Path, body: str, reason: str) -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        await write(pilot, "precious")
        await edit_outside(pilot, host)
        assert host.text == "precious"
        assert told(host) == [reason]

    play(script, environ=editor(tmp_path, body), cwd=work(tmp_path))


def test_a_terminal_that_cannot_be_handed_over_is_reported(tmp_path: Path) -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "ctrl+g")
        await host.workers.wait_for_complete()
        await pilot.pause()
        assert told(host) == ["This terminal cannot be used by another program."]

    play(script, environ=editor(tmp_path, "true"), cwd=work(tmp_path))


# -------------------------------------------------------------------------------------------------- the random walk

TYPED = [*"ab @/!?\\[]#\"'漢e", "\u0301", "👨", "\u200d", "👩", "🇩", "🇪", "\ufe0f", "ש", "🏽"]
PASTED = ["x\n" * 20, "y" * 2_500, "tab\tbed\n", "\x1b[31mred", "漢字" * 30, "[Pasted #1: 20 lines]", "👩🏽‍💻" * 40]
LABEL = "[Pasted #1: 3 lines]"


def check(host: Host) -> None:
    """What holds whatever was pressed."""
    box = host.editor
    cursor = box.buffer.cursor
    assert boundary_near(box.text, cursor) == cursor, "inside of a character"
    assert not any(start < cursor < end for start, end in box.buffer.chips()), "inside of a chip"
    host.box.draft.expanded()
    for y in range(box.size.height):
        strip = box.render_line(y)
        assert strip.cell_length == box.scrollable_content_region.width
        assert not any(ord(character) < 32 for character in strip.text)


@pytest.mark.parametrize("seed", range(2))
def test_any_order_of_keys_is_handled(seed: int) -> None:
    chance = random.Random(seed)
    table = key_table()
    outside = ("external_editor", "paste_clipboard", "copy", "cut")
    keys = [name for name, key in table.items() if key.action not in outside]

    async def script(pilot: Pilot[None], host: Host) -> None:
        for step in range(200):
            kind = chance.random()
            if kind < 0.5:
                character = chance.choice(TYPED)
                host.post_message(events.Key("space" if character == " " else character, character))
            elif kind < 0.9:
                host.post_message(events.Key(chance.choice(keys), None))
            elif kind < 0.96:
                host.post_message(events.Paste(chance.choice(PASTED)))
            elif kind < 0.98:
                host.box.load(Draft(f"{LABEL} loaded", {LABEL: PastedPiece(f"{chance.random()}\n\n")}))
            else:
                host.box.set_queued(["waits"] * chance.randrange(5))
            if step % 10 == 9:
                await pilot.pause()
                check(host)

    files = Files("a", "src/", "src/b c.py", "漢/x")
    play(script, files=files, history=History(None), choices=lambda _name: [("low", ""), ("high", "")])
