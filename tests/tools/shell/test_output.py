"""Output of commands as it is collected, piece by piece."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from agentcli.core.text.plaintext import continue_output, plain_text
from agentcli.core.text.terminal_colours import ColourSpan
from agentcli.tools.shell import output as output_module
from agentcli.tools.shell.output import MAX_BYTES, CollectedOutput, OutputColours

pytestmark = pytest.mark.anyio

PARTS = (
    b"words and more words\n",
    b"\x1b[32mok\x1b[0m",
    "größe 漢字 \u0085\u009b31m".encode(),
    b"\tx\n",
    b"\xff\xc2",
    b"\x1b]0;t\x07",
)


async def collected(pieces: list[bytes], folder: Path | None = None) -> CollectedOutput:
    output = CollectedOutput(folder, "output.txt")
    for piece in pieces:
        await output.add(piece)
    await output.finish()
    return output


@pytest.mark.parametrize("seed", range(8))
async def test_output_is_the_same_however_it_is_cut_into_pieces(seed: int) -> None:
    source = random.Random(seed)
    whole = b"".join(source.choice(PARTS) for _part in range(300))
    pieces = []
    at = 0
    while at < len(whole):
        size = source.choice((1, 2, 7, 300))
        pieces.append(whole[at : at + size])
        at += size
    assert (await collected(pieces)).text() == plain_text(whole.decode(errors="replace"))


@pytest.mark.parametrize("line", [b"\x1b[1mbold\x1b[0m\n", "ä漢\n".encode(), b"no line break "])
async def test_output_beyond_the_limit_of_the_file_is_kept_in_part(
    line: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_module, "FILE_LIMIT", 1_000_000)
    piece = line * (65_536 // len(line))
    output = await collected([piece] * 60 + [b"\nthe last line\n"], tmp_path)
    text = output.text()
    shown = plain_text(line.decode())
    assert text.startswith(shown * 20)
    assert text.endswith("\nthe last line\n")
    assert "left out; see " in text
    assert "\x1b" not in text
    assert "\ufffd" not in text
    assert len(text) < 31_000
    assert (tmp_path / "output.txt").stat().st_size == 1_000_000
    assert output.bytes == len(piece) * 60 + 15


async def test_what_was_not_read_yet_has_a_head_and_a_tail_of_its_own() -> None:
    output = CollectedOutput(None, "")
    flood = b"flood\n" * 10_000
    for _piece in range(10):
        await output.add(flood)
    assert output.unread >= output.characters == 600_000
    first = await output.take_unread()
    assert first.startswith("flood\nflood\n")
    assert output.unread == 0
    await output.add(b"now\n")
    assert await output.take_unread() == "now\n"
    for _piece in range(10):
        await output.add(b"second " + flood)
    second = await output.take_unread()
    assert second.startswith("second flood\n")
    assert second.endswith("flood\nflood\n")


async def test_the_newest_text_for_the_screen_is_whole_characters_without_control_sequences() -> None:
    output = CollectedOutput(None, "")
    await output.add("ä".encode() * 40_000)
    assert set(output.fresh()) == {"ä"}
    await output.add(b"a\x1b[3")
    await output.add(b"1mb\xc3")
    assert output.fresh() == "ab"
    await output.add(b"\xa4")
    assert output.fresh() == "ä"
    assert output.fresh() == ""


PROGRESS = (
    b"10%\r",
    b"\r100% done",
    b"\x1b[2K\r",
    b"a\x08\x08",
    b"\r\n",
    b"\n",
    "\rgröße ".encode(),
    b"\x1b[32mok\x1b[0m",
)


@pytest.mark.parametrize("seed", range(12))
async def test_what_the_screen_shows_while_a_command_runs_is_what_its_end_shows(seed: int) -> None:
    source = random.Random(seed)
    whole = b"".join(source.choice(PROGRESS) for _part in range(200))
    output, shown, at = CollectedOutput(None, ""), "", 0
    while at < len(whole):
        size = source.choice((1, 2, 7, 60))
        await output.add(whole[at : at + size])
        if source.random() < 0.7:
            shown = continue_output(shown, output.fresh())
        at += size
    shown = continue_output(shown, output.fresh())
    await output.finish()
    assert shown.rstrip("\n") == output.text().rstrip("\n")
    assert "\r" not in shown


def looks(text: str, spans: list[ColourSpan]) -> list[tuple[str, str]]:
    return [(text[start:end], look) for start, end, look in spans]


async def test_colours_are_kept_beside_the_text_at_both_ends_of_long_output() -> None:
    output = CollectedOutput(None, "")
    await output.add(b"\x1b[31mfirst\x1b[0m\n")
    for _piece in range(40):
        await output.add(b"\x1b[34m" + b"x" * 999 + b"\x1b[0m\n")
    await output.add("grün: \x1b[1;32mlast\x1b[0m \x1b]0;title\x07\x1b[2Jend".encode())
    await output.finish()
    text = output.text()
    found = looks(text, output.colours())
    assert found[0] == ("first", "red")
    assert found[-1] == ("last", "bold green")
    assert {part.strip("x") for part, look in found if look == "blue"} == {""}
    assert text.endswith("grün: last end")
    assert "\x1b" not in text


async def test_a_flood_of_colour_sequences_takes_bounded_memory_and_no_time_of_the_event_loop() -> None:
    output, colours = CollectedOutput(None, ""), OutputColours(15_000)
    piece = b"\x1b[31m\x1b[32m" * 800 + b"x\n"
    for _piece in range(200):
        await output.add(piece)
        colours.add(piece, "x\n")
    assert sum(len(raw) for _start, raw, _plain in (*colours._head, *colours._pieces)) <= 2 * MAX_BYTES
    threads: list[threading.Thread] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OutputColours, "spans", lambda _self: threads.append(threading.current_thread()) or [])
        await output.finish()
        output.colours()
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


async def test_live_output_has_its_colours_also_where_a_row_is_written_again() -> None:
    output = CollectedOutput(None, "")

    async def fresh(data: bytes) -> tuple[str, list[tuple[str, str]]]:
        await output.add(data)
        text = output.fresh()
        return text, looks(text.removeprefix("\r"), output.fresh_colours)

    assert await fresh(b"\x1b[32mok\x1b[0m one\n\x1b[33m") == ("ok one\n", [("ok", "green")])
    assert await fresh(b"10%") == ("10%", [("10%", "yellow")])
    assert await fresh(b"\r\x1b[33m20%\x1b[0m") == ("\r20%", [("20%", "yellow")])
    assert await fresh(b" of it\n") == (" of it\n", [])
    assert await fresh(b"plain\n") == ("plain\n", [])


async def test_a_progress_bar_replaces_its_row_and_an_erased_one_goes() -> None:
    output = CollectedOutput(None, "")

    async def fresh(data: bytes) -> str:
        await output.add(data)
        return output.fresh()

    assert await fresh(b"begun\nfetch 1%\r") == "begun\nfetch 1%"
    assert await fresh(b"fetch 2%\rfetch 3%\r") == "\rfetch 3%"
    assert await fresh(b"fetch 3%\r") == ""
    assert await fresh(b"\x1b[K") == "\r"
    assert await fresh(b"done\n") == "done\n"
    assert await fresh(b"typed") == "typed"
    assert await fresh(b"\x08\x08") == "\rtype"  # as at the end: one character for a row of backspaces


async def test_the_row_before_output_that_was_left_out_is_replaced_and_all_line_breaks_are_counted() -> None:
    output = CollectedOutput(None, "")
    await output.add(b"half a row")
    assert output.fresh() == "half a row"
    for _piece in range(4):
        await output.add(b"\x1b[32mone more line\x1b[0m\n" * 3_000)
    shown = output.fresh()
    assert shown.startswith("\rone more line\none more line\n")
    assert len(shown) <= 4_001
    assert output.line_breaks == 12_000
    assert output.fresh() == ""
