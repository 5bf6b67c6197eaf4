"""Drafts that survive a crash, and their file format."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path

import pytest
from textual.pilot import Pilot

from agentcli.interactive.drafts import (
    Draft,
    DraftStore,
    ImagePiece,
    PastedPiece,
    drafts_folder,
    format_paste_chip,
    image_chip,
)
from tests.support.fork_server import forked_with_streams
from tests.tui.prompt.host import Host, paste, play, press, write

pytestmark = pytest.mark.anyio

CHIP = "[Pasted #1: 20 lines]"
FULL = Draft(f"look: {CHIP}", {CHIP: PastedPiece("line\n" * 20)})


def files(folder: Path) -> list[str]:
    return sorted(file.suffix for file in folder.iterdir()) if folder.exists() else []


def crashed(folder: Path, text: str) -> None:
    """A process that wrote a draft and was killed."""
    code = (
        "import asyncio, os, sys, pathlib\n"
        "from agentcli.interactive.drafts import Draft, DraftStore\n"
        "async def main():\n"
        "    store = DraftStore(pathlib.Path(sys.argv[1]))\n"
        "    store.changed(lambda: Draft(sys.argv[2]))\n"
        "    store.flush()\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    with Path(os.devnull).open("r+b") as nothing:
        forked_with_streams(["-c", code, str(folder), text], Path.cwd(), os.environ, [nothing.fileno()] * 3).wait()


def test_a_draft_has_a_form_that_json_can_hold_and_comes_back_whole() -> None:
    image = "[Image #2: a.png]"
    draft = Draft(f"{CHIP} {image}", {CHIP: PastedPiece("x"), image: ImagePiece("", "AAAA", "image/png")})
    assert Draft.from_dict(json.loads(json.dumps(draft.to_dict()))) == draft
    assert Draft("plain").to_dict() == {"text": "plain"}


@pytest.mark.parametrize("data", [{}, {"text": 1}, {"text": "x", "pieces": []}, {"pieces": {}}])
def test_an_invalid_draft_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not a draft"):
        Draft.from_dict(data)


def test_chips_show_the_size_of_their_content() -> None:
    assert format_paste_chip(1, "a\n" * 120) == "[Pasted #1: 120 lines]"
    assert format_paste_chip(2, "a\n" * 1_000 + "b") == "[Pasted #2: 1,001 lines]"
    assert format_paste_chip(3, "x" * 2_500) == "[Pasted #3: 2,500 characters]"
    assert image_chip(1, "a\x1b[31m\n[b].png") == "[Image #1: a _b_.png]"
    assert image_chip(1, "Screenshot 2026-01-01 at 10.00.00 of everything.png") == (
        "[Image #1: Screenshot 2026-01-01 at… everything.png]"
    )


def test_a_found_draft_is_kept_even_if_not_used(tmp_path: Path) -> None:
    crashed(tmp_path / "d", "precious")

    async def script(pilot: Pilot[None], host: Host) -> None:
        assert host.box._drafts.load() == Draft("precious")
        await write(pilot, "something else")
        host.box._drafts.flush()
        await press(pilot, "enter")

    play(script, drafts=DraftStore(tmp_path / "d"))
    assert DraftStore(tmp_path / "d").load() == Draft("precious")


def test_a_found_draft_is_removed_when_sent(tmp_path: Path) -> None:
    crashed(tmp_path / "d", "precious")

    async def script(pilot: Pilot[None], host: Host) -> None:
        host.box.load(host.box._drafts.load() or Draft())
        await write(pilot, "!")
        await press(pilot, "enter")

    assert play(script, drafts=DraftStore(tmp_path / "d")).sent == [("precious!", False)]
    assert DraftStore(tmp_path / "d").load() is None
    assert files(tmp_path / "d") == []


async def test_the_newest_of_several_drafts_is_offered_first_and_old_ones_stay(tmp_path: Path) -> None:
    for number, text in enumerate(("old", "new", "ancient")):
        crashed(tmp_path, text)
        file = next(file for file in tmp_path.glob("*.json") if text in file.read_text())
        when = file.stat().st_mtime - (100, 50, 10_000_000)[number]
        os.utime(file, (when, when))

    store = DraftStore(tmp_path)
    assert store.load() == Draft("new")
    assert store.load() == Draft("new"), "asked again, the same"
    store.discard(Draft("new and more"))
    assert store.load() == Draft("old")
    await store.aclose()
    assert files(tmp_path) == [".json"], "what is older than a month is not kept"


async def test_the_draft_of_a_running_process_is_left_alone(tmp_path: Path) -> None:
    first, second = DraftStore(tmp_path), DraftStore(tmp_path)
    first.changed(lambda: Draft("mine"))
    first.flush()
    assert second.load() is None
    await first.aclose()
    assert second.load() == Draft("mine"), "left in the box at the end"
    await second.aclose()


def test_it_is_written_a_moment_after_the_last_change_and_not_on_the_loop(tmp_path: Path) -> None:
    async def main() -> None:
        store = DraftStore(tmp_path / "d", quiet_seconds=0.02)
        asked = 0

        def current() -> Draft:
            nonlocal asked
            asked += 1
            return FULL

        for _key in range(20):
            store.changed(current)
        assert asked == 0, "a key costs nothing"
        while not (store._writing and store._writing.done()):
            await asyncio.sleep(0.005)
        assert asked == 1
        (file,) = (tmp_path / "d").glob("*.json")
        assert file.stat().st_mode & 0o777 == 0o600
        data = json.loads(file.read_text())
        assert Draft.from_dict(data["draft"]) == FULL
        assert data["pid"] == os.getpid()
        store.discard()
        assert list((tmp_path / "d").glob("*.json")) == []
        await store.aclose()

    asyncio.run(main())


def test_lost_focus_and_the_external_editor_write_the_draft_but_not_on_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    write_draft = DraftStore._write

    def record(store: DraftStore, version: int, draft: Draft) -> None:
        threads.append(threading.get_ident())
        write_draft(store, version, draft)

    monkeypatch.setattr(DraftStore, "_write", record)

    async def script(pilot: Pilot[None], host: Host) -> None:
        monkeypatch.setattr(host.box._external, "edit", lambda _load: None)
        store = host.box._drafts
        for number, leave in enumerate((lambda: host.box.act("external_editor"), store.flush_in_thread)):
            await write(pilot, "x")
            leave()
            assert store._writing is not None
            await store._writing
            assert DraftStore(tmp_path / "d").load() is None, "it belongs to this process"
            (file,) = (tmp_path / "d").glob("*.json")
            assert json.loads(file.read_text())["draft"] == {"text": "x" * (number + 1)}
            store.flush_in_thread()
            assert len(threads) == number + 1, "nothing changed since"
        assert threading.get_ident() not in threads

    play(script, drafts=DraftStore(tmp_path / "d", quiet_seconds=60))


async def test_a_late_write_does_not_restore_a_sent_prompt(tmp_path: Path) -> None:
    store = DraftStore(tmp_path)
    store.changed(lambda: FULL)
    version = store._version
    store.discard()
    store._write(version, FULL)
    assert list(tmp_path.glob("*.json")) == []
    await store.aclose()


async def test_a_key_that_was_pasted_into_the_box_is_not_written(tmp_path: Path) -> None:
    store = DraftStore(tmp_path)
    store.changed(lambda: Draft("first"))
    store.flush()
    store.changed(lambda: Draft(" sk-ant-api03-0123456789-abcdefghij\n"))
    store.flush()
    assert ".json" not in files(tmp_path)
    store.changed(lambda: Draft("/login sk-ant-api03-0123456789-abcdefghij"))
    store.flush()
    assert ".json" not in files(tmp_path)
    store.changed(lambda: Draft("what does sk-ant- mean?"))
    await store.aclose()
    assert ".json" in files(tmp_path)


def test_an_emptied_box_leaves_no_draft(tmp_path: Path) -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        await write(pilot, "x")
        host.box._drafts.flush()
        assert files(tmp_path / "d") == [".json"]
        await press(pilot, "backspace")

    play(script, drafts=DraftStore(tmp_path / "d"))
    assert files(tmp_path / "d") == []


def test_text_in_the_box_at_exit_is_kept_with_its_chips(tmp_path: Path) -> None:
    async def script(pilot: Pilot[None], host: Host) -> None:
        await paste(pilot, "line\n" * 20)

    play(script, drafts=DraftStore(tmp_path / "d"))
    found = DraftStore(tmp_path / "d").load()
    assert found is not None
    assert found.expanded() == "line\n" * 20 + " "


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"draft": 1}', b'{"draft": {"text": 1}}', b"\xff\x00" * 99])
def test_junk_in_the_folder_is_removed_without_a_notice(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "0-ab.json").write_bytes(content)
    assert DraftStore(tmp_path).load() is None
    assert files(tmp_path) == []


async def test_a_disk_failure_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    store = DraftStore(tmp_path / "file" / "below")
    assert store.load() is None
    store.changed(lambda: FULL)
    store.flush()
    store.discard(FULL)
    await store.aclose()
    assert drafts_folder(None, tmp_path) is None
