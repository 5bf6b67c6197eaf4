"""Changes of real files: stale content, links planted meanwhile, all or nothing, and the preview."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.ports import Questions
from agentcli.agent.toolcalls.calls import CallResult
from agentcli.agent.toolcalls.toolcall import ToolRunner
from agentcli.core import events as ev
from agentcli.core.aio import AbortController
from agentcli.core.messages import ToolUseBlock
from agentcli.core.permission import Answer, Need, PermissionMode
from agentcli.tools.base import Output, ToolContext
from agentcli.tools.documents.read import Read
from agentcli.tools.files import replace as files_replace
from agentcli.tools.files.edit import Edit, MultiEdit
from agentcli.tools.files.read_cache import MAX_KEPT, MAX_KEPT_SIZE, ReadCache
from agentcli.tools.files.write import Write
from tests.support.fakes import bench
from tests.tools.running import names_in, run, text_of

pytestmark = pytest.mark.anyio


async def edit(context: ToolContext, name: str, old: str, new: str, **more: Any) -> Output:
    return await run(Edit(), context, file_path=name, old_string=old, new_string=new, **more)


async def test_a_stale_edit_is_refused_with_the_diff_and_works_afterwards(context: ToolContext, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\nthree\n")
    await run(Read(), context, file_path="a.txt")
    path.write_text("one\nTWO\nthree\n")
    refused = await edit(context, "a.txt", "three", "3")
    assert refused.is_error
    assert "has changed since it was read" in text_of(refused)
    assert "-two\n+TWO" in text_of(refused)
    assert path.read_text() == "one\nTWO\nthree\n"
    whole = await run(Write(), context, file_path="a.txt", content="mine")
    assert "Only a part" in text_of(whole), "seeing a difference is not seeing the whole"
    assert not (await edit(context, "a.txt", "three", "3")).is_error
    assert path.read_text() == "one\nTWO\n3\n"
    path.write_bytes(b"one\r\nTWO\r\n3\r\n")
    assert (await edit(context, "a.txt", "one", "1")).is_error, "line ends count"


async def test_a_large_difference_is_capped(context: ToolContext, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("".join(f"old line {number}\n" for number in range(1_500)))
    await run(Read(), context, file_path="a.txt")
    path.write_text("".join(f"new line {number}\n" for number in range(1_500)))
    for _again in range(2):
        text = text_of(await edit(context, "a.txt", "new line 7\n", "x"))
        assert "Read it again" in text
        assert len(text) < 5_000


async def test_a_file_system_without_links_gets_new_files_too(
    context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_args: object, **_rest: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(files_replace.os, "link", unsupported)
    await run(Write(), context, file_path="new.txt", content="mine\n")
    assert names_in(tmp_path) == ["new.txt"]
    assert (tmp_path / "new.txt").read_text() == "mine\n"


async def test_writing_identical_content_touches_nothing(context: ToolContext, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("same\n")
    await run(Read(), context, file_path="a.txt")
    before = path.stat()
    output = await run(Write(), context, file_path="a.txt", content="same\n")
    assert output.summary == "unchanged"
    assert path.stat().st_ino == before.st_ino
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_the_file_cache_is_bounded() -> None:
    cache = ReadCache()
    size = MAX_KEPT_SIZE - 1
    for number in range(100):
        cache.note(f"/f{number}", bytes([number]) * size)
    kept = [number for number in range(100) if cache.content(f"/f{number}") is not None]
    assert sum(size for _number in kept) <= MAX_KEPT
    assert kept[-1] == 99
    assert kept[0] > 60
    cache.note("/large", b"x" * (MAX_KEPT_SIZE + 1))
    assert cache.content("/large") is None
    assert cache.seen("/large") is not None
    assert cache.seen("/f0") is not None, "that it was seen is never forgotten"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
async def test_a_failing_disk_leaves_the_original(
    code: int, context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    await run(Read(), context, file_path="a.txt")

    def failing(_descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files_replace.os, "fsync", failing)
    output = await edit(context, "a.txt", "old", "new")
    assert output.is_error
    assert os.strerror(code).lower() in text_of(output)
    assert (tmp_path / "a.txt").read_text() == "old\n"
    assert names_in(tmp_path) == ["a.txt"]


async def test_attributes_of_a_file_survive(context: ToolContext, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old\n")
    path.chmod(0o640)
    supported = False
    with contextlib.suppress(OSError, AttributeError):
        os.setxattr(path, "user.note", b"kept")
        supported = True
    if os.geteuid() == 0:
        os.chown(path, 1234, 1234)
    await run(Read(), context, file_path="a.txt")
    await edit(context, "a.txt", "old", "new")
    found = path.stat()
    assert found.st_mode & 0o7777 == 0o640
    if supported:
        assert os.getxattr(path, "user.note") == b"kept"
    if os.geteuid() == 0:
        assert (found.st_uid, found.st_gid) == (1234, 1234)


async def test_a_file_name_of_maximum_length_can_be_written(context: ToolContext, tmp_path: Path) -> None:
    name = "\N{GRINNING FACE}" * 63
    output = await run(Write(), context, file_path=name, content="x")
    assert not output.is_error, text_of(output)
    assert names_in(tmp_path) == [name]


async def test_several_edits_are_made_in_order(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\nb = 2\n")
    await run(Read(), context, file_path="a.py")
    edits = [{"old_string": "a = 1", "new_string": "c = 3"}, {"old_string": "c = 3\nb", "new_string": "c = 4\nd"}]
    output = await run(MultiEdit(), context, file_path="a.py", edits=edits)
    assert (tmp_path / "a.py").read_text() == "c = 4\nd = 2\n"
    assert text_of(output) == "Edited a.py in 2 places, by 2 edits."
    assert output.summary == "+2 −2"
    assert output.display["language"] == "python"


async def test_one_failing_edit_fails_all_and_is_named(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\nb = 2\n")
    await run(Read(), context, file_path="a.py")
    edits = [{"old_string": "a = 1", "new_string": "c = 3"}, {"old_string": "a = 1", "new_string": "x"}]
    output = await run(MultiEdit(), context, file_path="a.py", edits=edits)
    assert text_of(output).startswith("Edit 2 of 2 failed, so none was made")
    assert output.summary == "edit 2 of 2: no match"
    assert (tmp_path / "a.py").read_text() == "a = 1\nb = 2\n"
    equal = MultiEdit().check({"file_path": "a", "edits": [*edits, {"old_string": "x", "new_string": "x"}]}, context)
    assert str(equal).startswith("Edit 3 of 3")


async def test_an_empty_old_string_creates_a_file_and_overwrites_none(context: ToolContext, tmp_path: Path) -> None:
    assert not (await edit(context, "new.txt", "", "one\n")).is_error
    assert (tmp_path / "new.txt").read_text() == "one\n"
    assert "is empty, but new.txt is not" in text_of(await edit(context, "new.txt", "", "two\n"))
    (tmp_path / "blank.txt").touch()
    assert not (await edit(context, "blank.txt", "", "one\n")).is_error
    edits = [{"old_string": "", "new_string": "a\nb\n"}, {"old_string": "a", "new_string": "c"}]
    assert not (await run(MultiEdit(), context, file_path="many.txt", edits=edits)).is_error
    assert (tmp_path / "many.txt").read_text() == "c\nb\n"


async def test_parallel_edits_of_one_file_are_both_applied(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "link.txt").symlink_to("a.txt")
    await run(Read(), context, file_path="a.txt")
    outputs = await asyncio.gather(edit(context, "a.txt", "one", "1"), edit(context, "link.txt", "two", "2"))
    assert not any(output.is_error for output in outputs)
    assert (tmp_path / "a.txt").read_text() == "1\n2\n"


class Desk:
    """One call on its way through permission, with a user who does something before approving it."""

    def __init__(self, context: ToolContext, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.context, self.meanwhile = context, meanwhile
        self.events: list[ev.Event] = []
        session = bench(tools=[Edit(), Write(), Read(), MultiEdit()], mode=PermissionMode.DEFAULT).engine.session
        self.questions = Questions(interactive=True)
        self.runner = ToolRunner(session, self.questions)

    async def call(self, name: str, **input: Any) -> CallResult:
        call = ToolUseBlock("call", name, input)
        return await self.runner.run(call, self.context, AbortController().signal, self.emit, lambda: None)

    async def emit(self, event: ev.Event) -> None:
        self.events.append(event)
        if isinstance(event, ev.PermissionRequested):
            self.meanwhile()
            asyncio.get_running_loop().call_soon(self.questions.answer, event.request_id, Answer("allow"))

    @property
    def asked(self) -> list[ev.PermissionRequested]:
        return [event for event in self.events if isinstance(event, ev.PermissionRequested)]


async def test_the_question_shows_the_change_that_a_yes_makes(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    await run(Read(), context, file_path="a.py")
    desk = Desk(context)
    result = await desk.call("Edit", file_path="a.py", old_string="a = 1", new_string="a = 2")
    assert not result.block.is_error
    (asked,) = desk.asked
    assert asked.display["diff"] == "@@ -1,1 +1,1 @@\n-a = 1\n+a = 2"
    assert asked.display == result.output.display
    new = await desk.call("Write", file_path="new.py", content="b = 1\n")
    assert desk.asked[1].display == new.output.display


async def test_no_question_is_asked_about_an_edit_that_must_fail(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    desk = Desk(context)
    unread = await desk.call("Edit", file_path="a.py", old_string="a = 1", new_string="a = 2")
    assert "it was not read, or it changed since it was read" in unread.block.text
    await run(Read(), context, file_path="a.py")
    missed = await desk.call("Edit", file_path="a.py", old_string="a = 3", new_string="a = 2")
    assert "nearest text is at line 1" in missed.block.text
    assert missed.block.is_error
    assert missed.output.summary == "no match"
    assert desk.asked == []
    assert not [event for event in desk.events if isinstance(event, ev.ToolStarted)]


async def test_a_change_during_the_question_is_noticed(context: ToolContext, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("a = 1\nb = 1\n")
    await run(Read(), context, file_path="a.py")
    desk = Desk(context, lambda: path.write_text("a = 1\nb = 2\n"))
    result = await desk.call("Edit", file_path="a.py", old_string="a = 1", new_string="a = 2")
    assert "-b = 1\n+b = 2" in result.block.text
    assert path.read_text() == "a = 1\nb = 2\n"


@pytest.mark.parametrize("tool", ["Edit", "Write"])
async def test_a_link_changed_during_the_question_is_not_followed(
    tool: str, context: ToolContext, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "precious.txt"
    outside.write_text("one\n")
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    for name in (path, outside):
        context.read_cache.note(os.path.realpath(name), b"one\n")

    def swap() -> None:
        path.unlink()
        path.symlink_to(outside)

    more = {"old_string": "one", "new_string": "1"} if tool == "Edit" else {"content": "1"}
    result = await Desk(context, swap).call(tool, file_path="a.txt", **more)
    assert "when it was approved" in result.block.text
    assert outside.read_text() == "one\n"


async def test_an_approved_link_is_written_through(
    context: ToolContext, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "target.txt"
    outside.write_text("one\n")
    (tmp_path / "link.txt").symlink_to(outside)
    await run(Read(), context, file_path="link.txt")
    desk = Desk(context)
    result = await desk.call("Edit", file_path="link.txt", old_string="one", new_string="1")
    assert not result.block.is_error, result.block.text
    assert len(desk.asked) == 1
    assert outside.read_text() == "1\n"
    assert (tmp_path / "link.txt").is_symlink()
    (need,) = Edit().needs({"file_path": "link.txt"}, context)
    assert need.real == os.path.realpath(outside)


async def test_an_answer_that_changes_the_path_is_a_decision_about_that_path(
    context: ToolContext, tmp_path: Path
) -> None:
    desk = Desk(replace(context, read_cache=ReadCache()))
    changed = Answer("allow", updated_input={"file_path": "b.txt", "content": "x"})

    async def emit(event: ev.Event) -> None:
        if isinstance(event, ev.PermissionRequested):
            asyncio.get_running_loop().call_soon(desk.questions.answer, event.request_id, changed)

    call = ToolUseBlock("call", "Write", {"file_path": "a.txt", "content": "x"})
    result = await desk.runner.run(call, desk.context, AbortController().signal, emit, lambda: None)
    assert not result.block.is_error, result.block.text
    assert names_in(tmp_path) == ["b.txt"]


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
async def test_a_folder_without_write_permission_is_an_error(
    code: int, context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    await run(Read(), context, file_path="a.txt")
    real = os.open

    def refusing(path: Any, flags: int, *args: Any, **rest: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(code, os.strerror(code))
        return real(path, flags, *args, **rest)

    monkeypatch.setattr(files_replace.os, "open", refusing)
    for tool, more in ((Edit(), {"old_string": "old", "new_string": "new"}), (Write(), {"content": "new"})):
        output = await run(tool, context, file_path="a.txt", **more)
        assert f"a.txt cannot be written: {os.strerror(code).lower()}." == text_of(output)
    assert names_in(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old\n"


async def test_a_file_that_became_something_else_is_an_error(context: ToolContext, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old\n")
    await run(Read(), context, file_path="a.txt")
    path.unlink()
    assert "does not exist" in text_of(await edit(context, "a.txt", "old", "new"))
    path.mkdir()
    assert "is a directory" in text_of(await edit(context, "a.txt", "old", "new"))
    path.rmdir()
    os.mkfifo(path)
    assert "is a named pipe" in text_of(await edit(context, "a.txt", "old", "new"))
    assert "is a named pipe" in text_of(await run(Write(), context, file_path="a.txt", content="x"))


async def test_a_failure_half_way_through_a_hard_linked_file_puts_it_back(
    context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("the original\n")
    os.link(tmp_path / "a.txt", tmp_path / "b.txt")
    await run(Read(), context, file_path="a.txt")
    real, failed = files_replace._overwrite, []

    def failing(place: Any, data: bytes) -> None:
        real(place, data[: len(data) // 2] if not failed else data)
        if not failed:
            failed.append(True)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files_replace, "_overwrite", failing)
    assert (await edit(context, "a.txt", "original", "replacement")).is_error
    assert (tmp_path / "b.txt").read_text() == "the original\n"
    assert names_in(tmp_path) == ["a.txt", "b.txt"]


async def test_a_preview_is_escaped_and_marked_when_truncated(context: ToolContext, tmp_path: Path) -> None:
    content = "\x1b]0;title\x07 \u202e } \u2066\n" + "line\n" * 30_000
    output = await run(Write(), context, file_path="a.txt", content=content)
    assert "\x1b" not in output.display["diff"]
    assert "<U+202E> } <U+2066>" in output.display["diff"]
    assert output.display["truncated"]
    assert output.display["added"] == 30_001


async def test_swapping_a_folder_for_a_link_never_writes_outside(
    context: ToolContext, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The real race: with any timing a write lands inside or is refused."""
    outside = tmp_path_factory.mktemp("outside")
    folder, parked = tmp_path / "sub", tmp_path / "parked"
    folder.mkdir()
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            # A write may create the folder again while it is moved away; then this round of swapping fails half way.
            for step in (
                lambda: folder.rename(parked),
                lambda: folder.symlink_to(outside),
                lambda: folder.unlink(),
                lambda: parked.rename(folder),
                lambda: shutil.rmtree(parked),
            ):
                with contextlib.suppress(OSError):
                    step()

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for number in range(80):
            call = {"file_path": f"sub/{number}.txt", "content": "x"}
            # As the loop does: what is decided about is what was there before the tool began.
            decided = replace(context, needs=(Need("write", str(context.cwd / f"sub/{number}.txt")),))
            await run(Write(), decided, **call)
            await run(Read(), decided, file_path=f"sub/{number}.txt")
    finally:
        done.set()
        swapper.join()
    assert names_in(outside) == []


async def test_the_preview_of_a_change_through_a_link_names_the_target(context: ToolContext, tmp_path: Path) -> None:
    hidden = tmp_path / "elsewhere.txt"
    hidden.write_text("a\n")
    link = context.cwd / "notes.txt"
    link.symlink_to(hidden)
    preview = Write().preview({"file_path": str(link), "content": "b\n"}, context)
    if isinstance(preview, Output):
        await run(Read(), context, file_path=str(link))
        preview = Write().preview({"file_path": str(link), "content": "b\n"}, context)
    assert isinstance(preview, dict)
    assert str(hidden) in preview["path"]


@pytest.mark.parametrize(("tool", "name"), [("Edit", "a.txt"), ("Write", "new.txt")])
async def test_a_write_of_another_program_takes_precedence(
    tool: str, name: str, context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tool == "Edit":
        (tmp_path / name).write_text("one\n")
        await run(Read(), context, file_path=name)
    real = files_replace._write_temporary

    def interfering(*args: Any) -> None:
        real(*args)
        (tmp_path / name).write_text("theirs\n")

    monkeypatch.setattr(files_replace, "_write_temporary", interfering)
    more = {"old_string": "one", "new_string": "1"} if tool == "Edit" else {"content": "mine\n"}
    output = await run(Edit() if tool == "Edit" else Write(), context, file_path=name, **more)
    assert "at this moment" in text_of(output)
    assert (tmp_path / name).read_text() == "theirs\n"
    assert names_in(tmp_path) == [name]
