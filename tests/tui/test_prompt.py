"""The prompt box as a whole: keys, sending, queue, history, menu, and what it looks like at each size."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from agentcli.interactive.completion.sources import FileHit, FoundFiles
from agentcli.interactive.drafts.draft import Draft
from agentcli.interactive.drafts.history import History
from agentcli.tui.keys import PROMPT_KEYS, key_table
from tests.tui.prompt_host import Files, Host, paste, play, played, press, write


def history(*texts: str) -> History:
    made = History(None)
    for text in texts:
        made.add(Draft(text))
    return made


@played()
async def test_enter_sends_and_empties_the_box(pilot: Pilot[None], host: Host) -> None:
    await write(pilot, "hello there")
    await press(pilot, "enter")
    assert host.text == ""
    assert host.box.is_empty
    assert host.sent == [("hello there", False)]


@played()
async def test_all_keys_for_a_new_line(pilot: Pilot[None], host: Host) -> None:
    await write(pilot, "a")
    for key in ("shift+enter", "ctrl+j", "alt+enter"):
        await press(pilot, key)
    host.post_message(events.Key("shift+\r", "\r"))
    await write(pilot, "b\\")
    await press(pilot, "enter")
    await write(pilot, "c")
    assert host.text == "a\n\n\n\nb\nc"
    await press(pilot, "enter")
    assert host.sent == [("a\n\n\n\nb\nc", False)]


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
async def test_keys_of_the_screen_are_not_swallowed(pilot: Pilot[None], host: Host) -> None:
    await write(pilot, "text")
    await press(pilot, "escape", "ctrl+d")
    assert host.text == "text"
    assert host.said == ["interrupt", "ctrl+d"]


@played()
async def test_escape_closes_the_menu_first_and_it_stays_closed_for_that_word(pilot: Pilot[None], host: Host) -> None:
    await write(pilot, "/he")
    assert host.box._popup.is_open
    await press(pilot, "escape")
    assert not host.box._popup.is_open
    assert host.said == []
    await write(pilot, "l")
    assert not host.box._popup.is_open
    await press(pilot, "escape")
    assert host.said == ["interrupt"]
    await press(pilot, "tab")
    assert host.box._popup.is_open


@played()
async def test_a_question_mark_in_an_empty_box_asks_for_help_and_elsewhere_is_one(
    pilot: Pilot[None], host: Host
) -> None:
    await write(pilot, "?")
    assert host.text == ""
    await write(pilot, "why?")
    assert host.text == "why?"
    assert host.said == ["help"]


@played()
async def test_the_mark_shows_the_kind_of_line(pilot: Pilot[None], host: Host) -> None:
    await write(pilot, "!ls")
    assert "❯ !ls" in host.rows
    await press(pilot, "enter")
    assert "❯ Ask anything · / commands · @ files · ! shell · ? keys" in host.rows
    assert host.sent == [("!ls", False)]


@played(history=history("oldest", "middle\nrow", "newest"))
async def test_up_and_down_move_in_the_text_and_then_through_the_history(pilot: Pilot[None], host: Host) -> None:
    await write(pilot, "one\ntwo")
    await press(pilot, "up")
    assert host.text == "one\ntwo"
    assert host.editor.buffer.cursor == 3
    await press(pilot, "up")
    assert host.text == "newest"
    await press(pilot, "up")
    assert host.text == "middle\nrow"
    assert host.editor.buffer.cursor == 6
    await press(pilot, "up", "up", "up")
    assert host.text == "oldest"
    await press(pilot, "down", "down", "down", "down")
    assert host.text == "one\ntwo", "what was typed comes back at the end"


@played(history=history("first", "second"))
async def test_edits_made_while_browsing_the_history_are_kept(pilot: Pilot[None], host: Host) -> None:
    await press(pilot, "up")
    await write(pilot, " changed")
    await press(pilot, "up", "down")
    assert host.text == "second changed"
    await press(pilot, "enter", "up")
    assert host.text == "second changed"
    await press(pilot, "up")
    assert host.text == "second"


@played(history=history("@file", "/help"))
async def test_a_recalled_command_opens_no_menu_so_that_up_keeps_working(pilot: Pilot[None], host: Host) -> None:
    await press(pilot, "up")
    assert host.text == "/help"
    assert not host.box._popup.is_open
    await press(pilot, "up")
    assert host.text == "@file"


@played(history=history("old"))
async def test_up_withdraws_a_queued_prompt(pilot: Pilot[None], host: Host) -> None:
    host.box.set_queued(["later"])
    await press(pilot, "up")
    await write(pilot, "typed")
    await press(pilot, "up")
    assert host.text == "typed"
    assert host.said == ["take back", "take back"]


@played(history=history("the last one", "tests?", "other", "run the tests again"))
async def test_history_search_lists_matches_and_enter_puts_one_into_the_box(pilot: Pilot[None], host: Host) -> None:
    await write(pilot, "half a")
    await press(pilot, "ctrl+r")
    await write(pilot, "tes")
    assert host.rows[-9:] == [
        "said 11",
        "── history ─────────────────────────────────────────────────",
        "❯ run the tests again",
        "  tests?",
        "  the last one",
        "────────────────────────────────────────────────────────────",
        "search ❯ tes",
        "────────────────────────────────────────────────────────────",
        "status",
    ]
    assert host.box.draft.text == "half a", "what was typed is safe meanwhile"
    await press(pilot, "ctrl+r", "enter")
    assert host.text == "tests?"
    assert host.sent == []
    assert "❯ tests?" in host.rows


@played(history=history("one"))
async def test_escape_leaves_the_search_and_restores_the_text(pilot: Pilot[None], host: Host) -> None:
    await write(pilot, "half a")
    await press(pilot, "ctrl+r")
    await write(pilot, "zzz")
    assert "  No earlier prompt matches." in host.rows
    await press(pilot, "escape")
    assert host.text == "half a"
    assert host.said == []


@played(history=history("one"))
async def test_keys_in_a_search_that_finds_nothing_stay_in_the_search(pilot: Pilot[None], host: Host) -> None:
    await write(pilot, "typed")
    await press(pilot, "ctrl+r")
    await write(pilot, "zzz")
    await press(pilot, "up", "down")
    assert host.text == "zzz"
    await press(pilot, "ctrl+enter")
    assert host.text == "typed"
    assert host.sent == []


@played()
async def test_a_command_that_needs_no_argument_runs_from_the_menu(pilot: Pilot[None], host: Host) -> None:
    await write(pilot, "/stat")
    await press(pilot, "enter")
    assert host.sent == [("/status", False)]


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


def test_a_completely_typed_command_runs_as_typed() -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        await write(pilot, "/effort ")
        await press(pilot, "enter")
        await write(pilot, "/effort low")
        await press(pilot, "enter")
        await write(pilot, "/nonsense here")
        await press(pilot, "enter")

    host = play(script, choices=lambda name: [("lowest", ""), ("low", "")] if name == "effort" else [])
    assert [text for text, _now in host.sent] == ["/effort", "/effort low", "/nonsense here"]


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


@pytest.mark.parametrize(("typed", "mention"), [("@eng", "@src/engine.py"), ("@the", '@"docs/the english.md"')])
def test_a_range_of_lines_can_follow_a_completed_file(typed: str, mention: str) -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        await write(pilot, typed)
        await press(pilot, "tab")
        await write(pilot, ":10-20")
        assert not host.box._popup.is_open
        await press(pilot, "enter")

    host = play(script, files=Files("src/engine.py", "docs/the english.md"))
    assert [text for text, _now in host.sent] == [f"{mention}:10-20"]


@played(files=Files("src/", "src/app.py"))
async def test_a_completed_folder_keeps_the_menu_open(pilot: Pilot[None], host: Host) -> None:
    await write(pilot, "@sr")
    await press(pilot, "tab")
    await pilot.pause()
    assert host.text == "@src/"
    assert host.box._popup.is_open
    await press(pilot, "down", "enter")
    assert host.text == "@src/app.py"


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


def test_keys_can_be_bound_to_other_actions() -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        await write(pilot, "one")
        await press(pilot, "enter")
        await write(pilot, "two")
        await press(pilot, "ctrl+s")

    keymap = {"prompt.send": "ctrl+s", "prompt.newline": "enter"}
    assert play(script, keymap=keymap).sent == [("one\ntwo", False)]


@played(keymap={"screen.interrupt": "f8"})
async def test_only_the_key_of_the_keymap_interrupts(pilot: Pilot[None], host: Host) -> None:
    await press(pilot, "escape", "f8")
    assert host.said == ["interrupt"]


def test_every_key_of_the_table_does_something_and_none_does_two_things() -> None:
    names = [name for key in PROMPT_KEYS for name in key.keys.split(",")]
    assert len(names) == len(set(names))
    assert len({key.id for key in PROMPT_KEYS}) == len(PROMPT_KEYS)
    assert {"ctrl+c", "ctrl+d", "ctrl+z", "ctrl+o", "ctrl+b", "ctrl+p", "shift+tab", "pageup"}.isdisjoint(names)
    assert key_table({"prompt.undo": ""}).get("ctrl+underscore") is None


@played()
async def test_clear_and_load_can_be_undone(pilot: Pilot[None], host: Host) -> None:
    await write(pilot, "precious")
    host.box.clear()
    assert host.box.is_empty
    await press(pilot, "ctrl+underscore")
    assert host.text == "precious"
    host.box.load(Draft("other"))
    await press(pilot, "ctrl+underscore")
    assert host.text == "precious"
    await press(pilot, "alt+underscore")
    assert host.text == "other"


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
