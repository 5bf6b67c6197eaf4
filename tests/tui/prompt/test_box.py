"""The prompt box as a whole: keys, sending, queue, history, menu, and what it looks like at each size."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.pilot import Pilot

from agentcli.interactive.completion import FileHit, FoundFiles
from agentcli.interactive.drafts import Draft, History
from agentcli.tui.keys import PROMPT_KEYS, key_table
from tests.tui.prompt.host import Files, Host, act, paste, play, play_scene, played, press, write


def history(*texts: str) -> History:
    made = History(None)
    for text in texts:
        made.add(Draft(text))
    return made


def choices(name: str) -> list[tuple[str, str]]:
    return [("lowest", ""), ("low", "")] if name == "effort" else []


FILES = Files("src/", "src/app.py", "src/engine.py", "docs/the english.md")
SCENES: dict[str, tuple[str, ...]] = {
    "enter sends and empties the box": ("type hello there", "press enter", "text ", "sent hello there"),
    "keys for a new line": (
        "type a", "press shift+enter ctrl+j alt+enter", "type b\\", "press enter", "type c",
        "text a\n\n\nb\nc", "press enter", "sent a\n\n\nb\nc",
    ),
    "keys of the screen are not swallowed": (
        "type text", "press escape ctrl+d", "text text", "said interrupt, ctrl+d",
    ),
    "escape closes the menu, which stays closed for that word": (
        "type /he", "menu open", "press escape", "menu closed", "said ", "type l", "menu closed",
        "press escape", "said interrupt", "press tab", "menu open",
    ),
    "a question mark asks for help in an empty box only": ("type ?", "text ", "type why?", "text why?", "said help"),
    "up and down move in the text and then through the history": (
        "type one\ntwo", "press up", "text one\ntwo", "cursor 3", "press up", "text newest",
        "press up", "text middle\nrow", "cursor 6", "press up up up", "text oldest",
        "press down down down down", "text one\ntwo",
    ),
    "edits made while browsing the history are kept": (
        "press up", "type  changed", "press up up down down", "text newest changed",
        "press enter up", "text newest changed", "press up", "text newest",
    ),
    "a recalled command opens no menu, so that up keeps working": (
        "type /help", "press enter up", "text /help", "menu closed", "press up", "text newest",
    ),
    "up withdraws a queued prompt": (
        "queued later", "press up", "type typed", "press up", "text typed", "said take back, take back",
    ),
    "a command without arguments runs from the menu": ("type /stat", "press enter", "sent /status"),
    "a completely typed command runs as typed": (
        "type /effort ", "press enter", "type /effort low", "press enter", "type /nonsense here", "press enter",
        "sent /effort|/effort low|/nonsense here",
    ),
    "a range of lines can follow a completed file": (
        "type @eng", "press tab", "type :10-20", "menu closed", "press enter", "sent @src/engine.py:10-20",
    ),
    "a range can follow a quoted file": ("type @the", "press tab", "type :1", 'text @"docs/the english.md":1'),
    "a completed folder keeps the menu open": (
        "type @sr", "press tab", "text @src/", "menu open", "press down enter", "text @src/app.py",
    ),
}  # fmt: skip


@pytest.mark.parametrize("steps", SCENES.values(), ids=SCENES)
def test_scene(steps: tuple[str, ...]) -> None:
    play_scene(steps, history=history("oldest", "middle\nrow", "newest"), files=FILES, choices=choices)


def test_keys_can_be_bound_to_other_actions() -> None:
    keymap = {"prompt.send": "ctrl+s", "prompt.newline": "enter", "screen.interrupt": "f8"}
    steps = (
        "type one",
        "press enter",
        "type two",
        "press ctrl+s",
        "sent one\ntwo",
        "press escape f8",
        "said interrupt",
    )
    play_scene((*steps, "said interrupt"), keymap=keymap)


@played()
async def test_clear_and_load_can_be_undone(pilot: Pilot[None], host: Host) -> None:
    await write(pilot, "precious")
    host.box.clear()
    assert host.box.is_empty
    for step in ("press ctrl+underscore", "text precious"):
        await act(pilot, host, step)
    host.box.load(Draft("other"))
    for step in ("press ctrl+underscore", "text precious", "press alt+underscore", "text other"):
        await act(pilot, host, step)


@played()
async def test_blank_prompts_are_not_sent_and_blank_edges_go(pilot: Pilot[None], host: Host) -> None:
    await press(pilot, "enter")
    await write(pilot, "  \n ")
    await press(pilot, "enter")
    assert host.sent == []
    host.box.load(Draft("\n\n  kept\n \n"))
    await press(pilot, "enter")
    assert host.sent == [("  kept", False)]


@played()
async def test_a_second_enter_on_an_empty_box_sends_queued_prompts_now(pilot: Pilot[None], host: Host) -> None:
    host.box.set_queued(["later"])
    await press(pilot, "enter")
    assert host.sent == [("", True)]


@played()
async def test_the_mark_shows_the_kind_of_line(pilot: Pilot[None], host: Host) -> None:
    await write(pilot, "!ls")
    assert "❯ !ls" in host.rows
    await press(pilot, "enter")
    assert "❯ Ask anything · / commands · @ files · ! shell · ? keys" in host.rows
    assert host.sent == [("!ls", False)]


def test_tab_completes_a_command_and_shows_help_for_its_argument() -> None:
    levels = {"effort": [("low", "quick"), ("high", "slow")]}

    async def script(pilot: Pilot[None], host: Host) -> None:
        await write(pilot, "/eff")
        await press(pilot, "tab")
        assert host.text == "/effort "
        assert host.rows[-8:-3] == [
            "────────────────────────────────────────────────────────────",
            "  /effort [level [now]]   Show or change the effort level",
            "  low    quick",
            "  high   slow",
            "────────────────────────────────────────────────────────────",
        ]
        await write(pilot, "hi")
        await press(pilot, "enter")

    host = play(script, choices=lambda name: levels.get(name, []))
    assert host.sent == [("/effort high", False)]


def test_arguments_that_take_a_moment_to_complete_are_added_and_old_answers_are_dropped() -> None:
    asked: list[str] = []
    release = asyncio.Event()

    async def late(command: str, typed: str) -> list[tuple[str, str]]:
        asked.append(f"{command} {typed}")
        if typed == "h":
            await release.wait()
        return [(f"{typed}igh", "slow")]

    async def script(pilot: Pilot[None], host: Host) -> None:
        await write(pilot, "/effort h")
        assert not any("high" in row for row in host.rows)
        await write(pilot, "!")
        release.set()
        await pilot.pause()
        assert any("h!igh" in row for row in host.rows)
        assert not any("high" in row for row in host.rows)
        await press(pilot, "enter")

    assert play(script, late_choices=late).sent == [("/effort h!igh", False)]
    assert {"effort h", "effort h!"} <= set(asked)


@played(files=Files("src/engine.py", "docs/the english.md", "README"))
async def test_a_file_is_found_and_inserted_while_typing(pilot: Pilot[None], host: Host) -> None:
    await write(pilot, "see @eng")
    assert host.rows[-7:-3] == [
        "── files ───────────────────────────────────────────────────",
        "❯ src/engine.py",
        "  docs/the english.md",
        "────────────────────────────────────────────────────────────",
    ]
    await press(pilot, "enter")
    assert host.text == "see @src/engine.py"
    assert host.sent == []
    await write(pilot, " @engl")
    await press(pilot, "tab")
    assert host.text == 'see @src/engine.py @"docs/the english.md"'


def test_typing_never_waits_for_files_and_late_answers_are_dropped() -> None:
    files = Files("alpha", "beta")

    async def script(pilot: Pilot[None], host: Host) -> None:
        files.hold = asyncio.Event()
        await write(pilot, "@a")
        await write(pilot, "lp")
        assert host.text == "@alp"
        assert not host.box._popup.is_open
        await press(pilot, "escape", "backspace", "backspace", "backspace", "backspace")
        await write(pilot, "plain words")
        files.hold.set()
        await pilot.pause()
        assert not host.box._popup.is_open
        assert host.text == "plain words"
        assert files.asked == ["a"], "one search at a time, and none for what nobody wants any more"

    play(script, files=files)


class FilesBeingListed:
    """Gives the answers that a test puts into it, one a question."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[FoundFiles] = asyncio.Queue()
        self.asked: list[str] = []

    def begin(self) -> None:
        pass

    async def files(self, query: str, limit: int) -> FoundFiles:
        self.asked.append(query)
        return await self.answers.get()

    def answer(self, *paths: str, note: str = "") -> None:
        self.answers.put_nowait(FoundFiles([FileHit(path) for path in paths], not note, note))


async def shown(pilot: Pilot[None], host: Host, text: str) -> None:
    async with asyncio.timeout(10):
        while not any(text in row for row in host.rows):
            await pilot.pause(0.005)


def test_the_menu_grows_while_files_are_listed_and_keeps_what_was_chosen() -> None:
    files = FilesBeingListed()

    async def script(pilot: Pilot[None], host: Host) -> None:
        await write(pilot, "@")
        files.answer(note="listing, 0 so far")
        await shown(pilot, host, "  listing, 0 so far")
        files.answer("beta", "gamma", note="listing, 2 so far")
        await shown(pilot, host, "files · listing, 2 so far")
        await press(pilot, "down")
        files.answer("alpha", "beta", "gamma")
        await shown(pilot, host, "alpha")
        assert any(row.startswith("❯ gamma") for row in host.rows)
        assert not any("so far" in row for row in host.rows)
        await press(pilot, "enter")
        assert host.text == "@gamma"
        assert files.asked == ["", "", ""], "nothing is asked again once the answer is complete"

    play(script, files=files)


def test_a_key_does_not_wait_for_the_answers_to_an_older_query() -> None:
    files = FilesBeingListed()

    async def script(pilot: Pilot[None], host: Host) -> None:
        await write(pilot, "@a")
        files.answer("alpha", note="listing, 1 so far")
        await shown(pilot, host, "alpha")
        await write(pilot, "b")
        # The first one may still be for the older query.
        files.answer("abba", note="listing, 2 so far")
        files.answer("abba")
        await shown(pilot, host, "abba")
        assert files.asked[-1] == "ab"

    play(script, files=files)


@played(files=Files("first", "second", "third"))
async def test_a_click_in_the_menu_selects_the_entry(pilot: Pilot[None], host: Host) -> None:
    await write(pilot, "@")
    await pilot.pause()
    await pilot.click("#prompt-popup", offset=(5, 2))
    await pilot.pause()
    assert host.text == "@second"


@played(files=Files("a\x1b]0;title\x07", "b\u202eexe.txt", "[red]c"))
async def test_hostile_file_names_are_shown_with_everything_visible(pilot: Pilot[None], host: Host) -> None:
    await write(pilot, "@")
    await pilot.pause()
    shown = "\n".join(host.rows)
    assert "a␛]0;title␇" in shown
    assert "b\ufffdexe.txt" in shown
    assert "[red]c" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


@played()
async def test_queued_prompts_are_above_the_box_and_the_rest_is_counted(pilot: Pilot[None], host: Host) -> None:
    host.box.set_queued(["first\x1b[2J one\nwith two lines"])
    await pilot.pause()
    assert host.rows[-5:-3] == [
        "  ⋯ queued: first one with two lines",
        "────────────────────────────────────────────────────────────",
    ]
    host.box.set_queued([f"prompt {number}" for number in range(5)])
    await pilot.pause()
    assert host.rows[-7:-4] == [
        "  ⋯ queued: prompt 0",
        "  ⋯ queued: prompt 1",
        "  … 3 more, Up edits them",
    ]
    host.box.set_queued([])
    await pilot.pause()
    assert host.rows[-5] == "said 15"


@played()
async def test_label_and_hint_show_the_current_state(pilot: Pilot[None], host: Host) -> None:
    host.box.set_label("[b]plan mode", "plan")
    host.box.busy(True)
    await pilot.pause()
    assert host.rows[-4:-1] == [
        "───────────────────────────────────────────── [b]plan mode ──",
        "❯ Enter queues, Ctrl+Enter interrupts and sends",
        "────────────────────────────────────────────────────────────",
    ] or host.rows[-4:-2] == [
        "──────────────────────────────────────────── [b]plan mode ──",
        "❯ Enter queues, Ctrl+Enter interrupts and sends",
    ]


@played(size=(40, 10))
async def test_it_is_usable_at_forty_by_ten(pilot: Pilot[None], host: Host) -> None:
    host.box.set_label("accept edits", "acceptEdits")
    host.box.set_queued(["a", "b", "c", "d"])
    await write(pilot, "/")
    assert host.rows == [
        "── commands ──────────────────── 1/" + host.rows[0].split("1/")[1],
        "❯ /help [command]       List commands",
        "  /status               Show session, m…",
        "  /doctor [online]      Check this inst…",
        "  /undo [keep|replace]  Undo the latest…",
        "  /redo [keep|replace]  Redo the change…",
        "  … 4 queued, Up edits them",
        "──────────────────────── accept edits ──",
        "❯ /",
        "status",
    ]
    await press(pilot, "up")
    assert "❯ /" in host.rows[5]


@played(files=Files("x" * 300, "漢字" * 30))
async def test_any_size_and_any_text_can_be_painted(pilot: Pilot[None], host: Host) -> None:
    host.box.set_label("permission mode with a long name", "plan")
    host.box.set_queued(["漢字" * 50, "x" * 500])
    await write(pilot, "漢字かな👨‍👩‍👧e\u0301 עברית @x")
    for size in ((20, 5), (3, 3), (1, 1), (200, 60), (40, 10)):
        await pilot.resize_terminal(*size)
        await pilot.pause()
    assert host.text == "漢字かな👨‍👩‍👧e\u0301 עברית @x"


@played(size=(60, 24))
async def test_the_box_grows_with_the_text_up_to_a_third_of_the_screen(pilot: Pilot[None], host: Host) -> None:
    heights = []
    for _line in range(9):
        heights.append(host.editor.size.height)
        await press(pilot, "ctrl+j")
    assert heights == [1, 2, 3, 4, 5, 6, 7, 8, 8]
    await write(pilot, "the end")
    assert "❯" in host.rows[-10]
    assert "the end" in host.rows[-3]


@played()
async def test_continuous_typing_does_not_repeat_the_layout(pilot: Pilot[None], host: Host) -> None:
    await write(pilot, "x")
    laid_out: list[bool] = []
    refresh = host.screen._refresh_layout
    host.screen._refresh_layout = lambda *a, **k: (laid_out.append(True), refresh(*a, **k))  # type: ignore[method-assign]
    await write(pilot, "a whole row of text, typed")
    assert laid_out == []
    host.screen._refresh_layout = refresh  # type: ignore[method-assign]


def test_every_key_of_the_table_does_something_and_none_does_two_things() -> None:
    names = [name for key in PROMPT_KEYS for name in key.keys.split(",")]
    assert len(names) == len(set(names))
    assert len({key.id for key in PROMPT_KEYS}) == len(PROMPT_KEYS)
    assert {"ctrl+c", "ctrl+d", "ctrl+z", "ctrl+o", "ctrl+b", "ctrl+p", "shift+tab", "pageup"}.isdisjoint(names)
    assert key_table()["shift+\r"].action == "newline"
    assert key_table({"prompt.undo": ""}).get("ctrl+underscore") is None


def test_sent_prompts_are_in_the_history_with_their_pasted_text(tmp_path: Path) -> None:
    kept = History(tmp_path / "history.jsonl")

    async def script(pilot: Pilot[None], host: Host) -> None:
        await paste(pilot, "line\n" * 20)
        await press(pilot, "enter", "up")
        assert host.text == "[Pasted #1: 20 lines]"
        await press(pilot, "enter")

    host = play(script, history=kept)
    assert [draft.expanded() for draft in host.drafts] == ["line\n" * 20] * 2
    assert [draft.expanded() for draft in History(tmp_path / "history.jsonl").entries] == ["line\n" * 20]
