"""The editor: whole characters, chips, cutting and yanking, undo, pastes, and the cursor's place."""

from __future__ import annotations

import base64
import struct
import time
import zlib
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from textual.pilot import Pilot

from agentcli.core.messages import ImageBlock, TextBlock
from agentcli.interactive.drafts import Draft, ImagePiece, PastedPiece
from agentcli.tui.glyphs import boundary_after, boundary_before, boundary_near, clusters_width, row_starts
from agentcli.tui.prompt.buffer import PromptBuffer
from agentcli.tui.prompt.external_input import picture_paths, read_clipboard
from tests.tui.prompt.host import Host, paste, play, play_scene, played, press, write

FAMILY = "👨‍👩‍👧"
CLUSTERS = ["a", "é", "e\u0301", "漢", FAMILY, "👍🏽", "🇩🇪", "❤️", "ש\u05b8", "👩🏽‍💻", "각", "\u1112\u1161\u11ab"]


def png(width: int = 2, height: int = 2) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\0\0\0" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


# ------------------------------------------------------------------------------------------------------- characters


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_one_step_passes_one_character_however_many_code_points_it_has(cluster: str) -> None:
    text = f"x{cluster}y"
    assert boundary_after(text, 1) == 1 + len(cluster)
    assert boundary_before(text, 1 + len(cluster)) == 1
    for inside in range(2, 1 + len(cluster)):
        assert boundary_near(text, inside) == 1


def test_endless_clusters_are_not_scanned_completely() -> None:
    text = "a" + "\u0301" * 100_000
    began = time.process_time()
    boundary_after(text, 0), boundary_before(text, len(text)), boundary_near(text, 50_000)
    assert time.process_time() - began < 0.1


@pytest.mark.parametrize(
    ("text", "cell"),
    [("ab", 2), ("漢字", 4), (FAMILY, 2), ("e\u0301", 1), ("שלום", 4), ("❤️", 2), ("a\tb", 9)],
)
def test_the_cursor_is_painted_after_the_typed_text(text: str, cell: int) -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        host.box.insert(text)
        await pilot.pause()
        assert host.cursor_cells() == (0, cell)
        assert host.editor.cursor_screen_offset.x == 2 + cell

    play(script)


@played()
async def test_the_cursor_covers_the_whole_character(pilot: Pilot[None], host: Host) -> None:
    host.box.insert(f"a{FAMILY}b")
    await press(pilot, "left", "left")
    await pilot.pause()
    reversed_ = [s.text for s in host.editor.render_line(0) if s.style and s.style.reverse]
    assert reversed_ == [FAMILY]


@played(size=(30, 20))
async def test_tab_widths_agree_with_the_cursor_even_where_a_line_wraps(pilot: Pilot[None], host: Host) -> None:
    await paste(pilot, "one\ttwo\t" + "word " * 8 + "\tend")
    for column in range(len(host.text), 0, -1):
        host.editor.buffer.move(column)
        y, x = host.cursor_cells()
        assert (x, y) == host.editor.cursor_offset


@given(
    st.lists(st.sampled_from(["a", " ", "word ", "\t", "❤\ufe0f", "1\ufe0f⃣", "👍🏽", "漢", "🇩🇪", FAMILY]), max_size=40),
    st.integers(9, 20),
)
@example(["\t", " ", "\t", "\t"], 9)
@example(["a", "a", "❤\ufe0f", "❤\ufe0f", "❤\ufe0f", "\t"], 9)
def test_rows_fit_the_width_and_begin_with_whole_characters(parts: list[str], width: int) -> None:
    line = "".join(parts)
    starts = row_starts(line, width)
    rows = [line[start:end] for start, end in pairwise([*starts, len(line)])]
    assert all(clusters_width(row) <= width for row in rows)
    assert all(boundary_near(line, start) == start for start in starts)
    assert len(row_starts(line, width - 1)) >= len(starts), "else a scrollbar would come and go for ever"


@given(st.data())
def test_any_edits_keep_the_cursor_between_characters_and_can_be_undone(data: st.DataObject) -> None:
    buffer = PromptBuffer()
    buffer.insert_pasted("x\n" * 30)
    buffer.reset()
    texts = [buffer.text]
    for _step in range(data.draw(st.integers(1, 12))):
        act = data.draw(st.sampled_from(["insert", "paste", "delete", "cut", "yank", "move"]))
        places = [buffer.left, buffer.right, buffer.word_left, buffer.word_right, buffer.line_start, buffer.line_end]
        place = data.draw(st.sampled_from([*places, 3, 7]))
        match act:
            case "insert":
                buffer.insert(data.draw(st.sampled_from(["a", "b c", "\n", "e\u0301", FAMILY, "漢"])))
            case "paste":
                buffer.insert_pasted("x\n" * 30)
            case "delete":
                buffer.delete(place)
            case "cut":
                buffer.cut(place)
            case "yank":
                buffer.yank()
            case "move":
                buffer.move(place, select=data.draw(st.booleans()))
        texts.append(buffer.text)
        assert 0 <= buffer.cursor <= len(buffer.text)
        assert boundary_near(buffer.text, buffer.cursor) == buffer.cursor
        assert not any(start < buffer.cursor < end for start, end in buffer.chips())
        assert buffer.draft.text == buffer.text
    for _step in texts:
        buffer.undo()
    assert buffer.text == texts[0]
    for _step in texts:
        buffer.redo()
    assert buffer.text == texts[-1]


@played()
async def test_up_and_clicks_find_the_character_in_that_cell(pilot: Pilot[None], host: Host) -> None:
    host.box.insert(f"{FAMILY}漢ab\nxxxxx")
    await press(pilot, "up")
    assert host.editor.buffer.cursor == len(FAMILY) + 2, "five cells: a family, a sign and one letter"
    await pilot.click("#prompt-editor", offset=(3, 0))
    assert host.editor.buffer.cursor == len(FAMILY)


@played()
async def test_selected_text_is_painted_and_replaced(pilot: Pilot[None], host: Host) -> None:
    host.box.insert("one\n\ntwo")
    host.editor.buffer.select(1, 6)
    await pilot.pause()
    look = host.editor._look("selection")
    assert next(s.text for s in host.editor.render_line(0) if s.style and s.style.bgcolor == look.bgcolor) == "ne"
    assert host.editor.buffer.selected_text == "ne\n\nt"
    await write(pilot, "-")
    assert host.text == "o-wo"


# --------------------------------------------------------------------------------------------------- readline's keys


# ------------------------------------------------------------------------------------------------------------ chips


LONG, LINES = "y" * 3_000, "x\n" * 30
SCENES: dict[str, tuple[str, ...]] = {
    "cuts in a row come back together": (
        "type one two three", "press ctrl+w ctrl+w ctrl+a ctrl+y", "text two threeone ", "press ctrl+u", "text one ",
        "press ctrl+e ctrl+y", "text one two three", "press ctrl+a alt+d ctrl+k", "text ",
        "press ctrl+y", "text one two three",
    ),
    "home and end go to the ends of the line also where it wraps": (
        f"insert first\n{'word ' * 20}", "press home", "cursor 6", "press end", "cursor 106",
        "press ctrl+a ctrl+u", f"text first{'word ' * 20}",
    ),
    "undo and redo go by words and never lose a chip": (
        "type see", f"paste {LINES}", "text see [Pasted #1: 30 lines] ", "press backspace backspace", "text see ",
        "press ctrl+underscore", "text see [Pasted #1: 30 lines]", "press alt+underscore", "text see ",
    ),
    "a chip is one thing for the cursor": (
        f"paste {LONG}", "text [Pasted #1: 3,000 characters] ", "press left", "cursor 29", "press left", "cursor 0",
        "press right", "cursor 29", "press ctrl+left", "cursor 0", "press delete", "text  ",
    ),
    "cutting into a chip takes all of it": (
        f"paste {LINES}", "press ctrl+w", "text ", "press ctrl+y", "text [Pasted #1: 30 lines] ",
    ),
    "typed text that looks like a chip is text": (
        "type [Pasted #1: 9 lines]", "press backspace enter", "sent [Pasted #1: 9 lines",
    ),
    "a small paste goes in as it is": ("paste rm -rf /\r\nsecond\rthird\n", "text rm -rf /\nsecond\nthird\n"),
}  # fmt: skip


@pytest.mark.parametrize("steps", SCENES.values(), ids=SCENES)
def test_scene(steps: tuple[str, ...]) -> None:
    play_scene(steps, size=(30, 20))


@played()
async def test_a_place_inside_a_chip_is_the_nearer_end_and_its_content_is_kept(pilot: Pilot[None], host: Host) -> None:
    await paste(pilot, LONG)
    host.editor.buffer.move(5)
    assert host.editor.buffer.cursor == 0
    assert host.box.draft.expanded() == f"{LONG} "
    assert host.sent == []


def test_chips_of_another_draft_get_new_numbers() -> None:
    label = "[Pasted #1: 20 lines]"

    async def script(pilot: Pilot[None], host: Host) -> None:
        await paste(pilot, "mine\n" * 20)
        host.box.insert_draft(Draft(f"and {label}", {label: PastedPiece("theirs\n" * 20)}))
        assert host.text == f"{label} and [Pasted #2: 20 lines]"
        expanded = host.box.draft.expanded()
        assert expanded.count("mine") == 20
        assert expanded.count("theirs") == 20

    play(script)


# ----------------------------------------------------------------------------------------------------------- pastes


def test_five_megabytes_become_a_chip_quickly_and_expand_completely() -> None:
    text = "some text of a log file, 42 characters long\n" * 120_000

    async def script(pilot: Pilot[None], host: Host) -> None:
        began = time.process_time()
        await paste(pilot, text)
        await write(pilot, "and a question")
        await press(pilot, "enter")
        assert time.process_time() - began < 1.0

    host = play(script)
    assert host.sent == [("[Pasted #1: 120,000 lines] and a question", False)]
    assert host.drafts[0].content() == text + " and a question"


# --------------------------------------------------------------------------------------------------------- pictures


def test_paths_of_pictures_are_known_in_every_form_in_which_terminals_give_them(tmp_path: Path) -> None:
    plain, blank = tmp_path / "a.png", tmp_path / "my photo (1).JPG"
    for file in (plain, blank, tmp_path / "notes.txt"):
        file.write_bytes(png())
    escaped = str(blank).replace(" ", "\\ ").replace("(", "\\(").replace(")", "\\)")
    for form in (str(blank), f"'{blank}'", f'"{blank}" ', escaped, blank.as_uri(), "my photo (1).JPG"):
        assert picture_paths(form, tmp_path) == [blank], form
    assert picture_paths(f"{plain} {escaped}\n", tmp_path) == [plain, blank]
    for form in (
        "",
        str(tmp_path / "missing.png"),
        str(tmp_path / "notes.txt"),
        f"look at {plain}",
        "file://elsewhere/a.png",
        "~nobody-knows/a.png",
        "'a.png",
        "a\0.png",
        str(tmp_path),
        "x.png " * 5_000,
    ):
        assert picture_paths(form, tmp_path) == [], form


def test_a_dropped_picture_is_a_chip_and_is_sent_with_the_prompt(tmp_path: Path) -> None:
    file = tmp_path / "shot [x].png"
    file.write_bytes(png())

    async def script(pilot: Pilot[None], host: Host) -> None:
        await write(pilot, "what is")
        await paste(pilot, f"'{file}'")
        await host.workers.wait_for_complete()
        assert host.text == "what is [Image #1: shot _x_.png] "
        file.unlink()
        await write(pilot, "there?")
        await press(pilot, "enter")

    draft = play(script, cwd=tmp_path).drafts[0]
    assert draft.images == 1
    words, image, rest = draft.content()
    assert words == TextBlock("what is [Image #1: shot _x_.png]")
    assert rest == TextBlock(" there?")
    assert isinstance(image, ImageBlock)
    assert base64.b64decode(image.source["data"]) == png()


def test_the_model_gets_the_path_of_a_dropped_picture(tmp_path: Path) -> None:
    file = tmp_path / "a shot.png"
    file.write_bytes(png())
    words, _image = Draft("[Image #1: a shot.png]", {"[Image #1: a shot.png]": ImagePiece(str(file))}).content()
    assert words == TextBlock(f"[Image #1: {file}]")


def test_an_unreadable_picture_is_reported_and_becomes_text(tmp_path: Path) -> None:
    file = tmp_path / "broken.png"
    file.write_bytes(b"not a picture")

    async def script(pilot: Pilot[None], host: Host) -> None:
        await paste(pilot, str(file))
        await host.workers.wait_for_complete()
        await pilot.pause()
        [note] = host._notifications
        assert note.message.startswith("broken.png cannot be attached: it is damaged")
        await press(pilot, "enter")

    (words,) = play(script, cwd=tmp_path).drafts[0].content()
    assert isinstance(words, TextBlock)
    assert words.text.startswith("[Image #1: broken.png, not attached: it is damaged")


def program(folder: Path, name: str, body: str) -> None:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)


def test_a_picture_on_the_clipboard_is_attached(tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(png())
    program(tmp_path / "bin", "wl-paste", f'case "$*" in *image/png*) cat {tmp_path}/picture;; *) exit 1;; esac')
    environ = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "WAYLAND_DISPLAY": "wayland-0"}

    async def script(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "ctrl+v")
        await host.workers.wait_for_complete()
        assert host.text == "[Image #1: clipboard.png] "
        assert isinstance(host.editor.buffer.pieces["[Image #1: clipboard.png]"], ImagePiece)

    work = tmp_path / "work"
    work.mkdir()
    play(script, environ=environ, cwd=work)


def test_a_missing_clipboard_program_is_reported_with_advice(tmp_path: Path) -> None:
    assert "wl-paste, xclip or pngpaste is needed" in read_clipboard({"PATH": str(tmp_path)}, tmp_path).problem


def test_a_clipboard_program_in_the_project_is_never_run(tmp_path: Path) -> None:
    program(tmp_path / "bin", "wl-paste", f"touch {tmp_path}/ran; echo hi")
    environ = {"PATH": f"{tmp_path}/bin", "WAYLAND_DISPLAY": "wayland-0"}
    assert read_clipboard(environ, tmp_path).problem
    assert not (tmp_path / "ran").exists()


def test_text_on_the_clipboard_is_pasted(tmp_path: Path) -> None:
    program(tmp_path / "bin", "xclip", 'case "$*" in *UTF8*) printf "some text";; *) exit 1;; esac')
    environ = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "DISPLAY": ":0"}
    assert read_clipboard(environ, tmp_path / "work").text == "some text"
