"""Files changed by others: reported once, as capped diffs, never for our own writes; Edit stays strict."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.agent.file_changes import (
    CHANGED_FILES,
    MAX_SHOWN,
    MAX_TOLD,
    ChangedFiles,
    describe_changes,
    wait_for_changes,
)
from agentcli.agent.loop_state import LoopState
from agentcli.core.aio import AbortController
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Json, Message
from agentcli.tools.base import Output, ToolContext
from agentcli.tools.documents.read import Read
from agentcli.tools.files.edit import Edit
from agentcli.tools.files.write import Write
from tests.support.examples import UNHURRIED_IN_ONE_FOLDER
from tests.support.fakes import bench
from tests.support.scripts import call, reply

pytestmark = pytest.mark.anyio


def without_marks(messages: list[Json]) -> list[Json]:
    """Without the marks that say up to where the cache goes: they move on."""

    def bare(block: Json) -> Json:
        return {key: value for key, value in block.items() if key != "cache_control"}

    return [{**message, "content": [bare(block) for block in message["content"]]} for message in messages]


class Desk:
    """A folder, the tools, and the messages for the model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.context = ToolContext(cwd=folder, working_dirs=(folder,))
        self.changed = ChangedFiles(SequentialIds())
        self.log: tuple[Message, ...] = ()

    def put(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    async def use(self, tool: Read | Edit | Write, **input: object) -> Output:
        signal = AbortController().signal
        found = [part async for part in tool.run(dict(input), self.context, signal) if isinstance(part, Output)]
        return found[0]

    async def read(self, name: str, text: str | bytes | None = None, **rest: object) -> None:
        if text is not None:
            self.put(name, text)
        assert not (await self.use(Read(), file_path=str(self.folder / name), **rest)).is_error

    async def edit(self, name: str, old: str, new: str) -> Output:
        return await self.use(Edit(), file_path=str(self.folder / name), old_string=old, new_string=new)

    async def told(self, *, lost: bool = False) -> str:
        messages = tuple(await self.changed.collect(LoopState(self.log, self.context)))
        if not lost:
            self.log += messages
        assert len(messages) <= 1
        return messages[0].text if messages else ""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_a_change_by_others_is_reported_once_as_a_diff(desk: Desk) -> None:
    await desk.read("a.py", "one\ntwo\nthree\n")
    assert await desk.told() == ""
    desk.put("a.py", "one\n2\nthree\n")
    told = await desk.told()
    assert "\n\na.py:\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three]" in told
    assert desk.log[-1].meta[CHANGED_FILES] == [str(desk.folder / "a.py")]
    assert await desk.told() == ""
    desk.put("a.py", "one\nII\nthree\n")
    assert "-2\n+II" in await desk.told()


async def test_our_own_writes_are_not_reported(desk: Desk) -> None:
    await desk.read("a.py", "one\n")
    await desk.edit("a.py", "one", "two")
    await desk.use(Write(), file_path=str(desk.folder / "b.py"), content="new\n")
    assert await desk.told() == ""
    os.utime(desk.folder / "a.py", ns=(1, 1))
    assert await desk.told() == ""


async def test_after_a_truncated_diff_the_file_must_be_read_again(desk: Desk) -> None:
    await desk.read("a.py", "".join(f"line {n}\n" for n in range(3_000)))
    desk.put("a.py", "".join(f"LINE {n}\n" for n in range(3_000)))
    told = await desk.told()
    assert "the rest is left out; read the file before changing it" in told
    assert len(told) < 5_000
    assert await desk.told() == ""
    assert (await desk.edit("a.py", "LINE 7\n", "x\n")).is_error
    await desk.read("a.py")
    assert await desk.told() == ""
    assert not (await desk.edit("a.py", "LINE 7\n", "x\n")).is_error


async def test_a_change_whose_message_never_reached_the_log_is_reported_again(desk: Desk) -> None:
    await desk.read("a.py", "one\n")
    await desk.read("b.bin", "plain\n")
    desk.put("a.py", "two\n")
    desk.put("b.bin", b"\x00\x01")
    lost = await desk.told(lost=True)
    assert "-one\n+two" in lost
    assert await desk.told() == lost
    assert await desk.told() == ""


async def test_an_edit_of_a_file_whose_change_was_not_reported_is_still_refused(desk: Desk) -> None:
    await desk.read("a.py", "one\n")
    desk.put("a.py", "two\n")
    await desk.told(lost=True)
    desk.put("a.py", "one\n")
    assert await desk.told() == ""
    desk.put("a.py", "two\n")
    assert (await desk.edit("a.py", "two", "three")).is_error


async def test_gone_binary_large_and_odd_files_are_named_only(desk: Desk) -> None:
    for name in ("gone", "binary", "pipe", "folder", "ends"):
        await desk.read(name, "text\nmore\n")
    await desk.read("large", "x\n" * 200_000, limit=1)
    (desk.folder / "gone").unlink()
    desk.put("binary", b"\x00\x01\x02")
    for name in ("pipe", "folder"):
        (desk.folder / name).unlink()
    os.mkfifo(desk.folder / "pipe")
    (desk.folder / "folder").mkdir()
    desk.put("ends", b"\xef\xbb\xbftext\nmore\n")
    desk.put("large", "y\n" * 200_000)
    told = await desk.told()
    assert told.rpartition("\n\n")[2].rstrip("]").splitlines() == [
        "large changed; what has changed cannot be shown, so read it again before relying on it",
        "ends changed only in its line ends, its encoding or the like",
        "folder is gone",
        "pipe is gone",
        "binary changed, and is binary or in an unknown encoding",
        "gone is gone",
    ]
    assert await desk.told() == ""


async def test_many_changes_are_one_message_with_a_cap(desk: Desk) -> None:
    for number in range(80):
        await desk.read(f"{number}.py", f"one {number}\n" * 100)
        desk.put(f"{number}.py", f"two {number}\n" * 100)
    told = await desk.told()
    assert told.count("@@ ") <= MAX_SHOWN
    assert " changed\n" in told
    assert "more files]" in told
    assert len(told) < MAX_TOLD + 5_000
    assert await desk.told() == ""


async def test_control_sequences_in_a_diff_are_shown_as_symbols(desk: Desk) -> None:
    await desk.read("a.py", "one\n")
    desk.put("a.py", "\x1b]0;x\x07\u202eone\n")
    told = await desk.told()
    assert "\x1b" not in told
    assert "\u202e" not in told


async def test_files_hidden_by_a_rule_or_reported_elsewhere_are_left_out(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.context = ToolContext(cwd=tmp_path, working_dirs=(tmp_path,), hides=lambda path: path.endswith(".env"))
    desk.changed = ChangedFiles(SequentialIds(), lambda path: path.endswith("AGENTS.md"))
    for name in (".env", "AGENTS.md"):
        await desk.read(name, "one\n")
        desk.put(name, "two\n")
    assert await desk.told() == ""


async def test_a_change_within_the_resolution_of_time_is_seen(desk: Desk) -> None:
    await desk.read("a.py", "one\n")
    assert await desk.told() == ""
    before = (desk.folder / "a.py").stat()
    desk.put("a.py", "two\n")
    os.utime(desk.folder / "a.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "+two" in await desk.told()


@settings(suppress_health_check=UNHURRIED_IN_ONE_FOLDER)
@given(st.lists(st.sampled_from(["other", "edit", "told", "lost", "read", "gone"]), max_size=12), st.integers(0, 9))
async def test_the_model_never_edits_content_it_has_not_seen(tmp_path: Path, acts: list[str], seed: int) -> None:
    """In any order of events an edit works only on content that the model has seen or written."""
    desk, chance = Desk(tmp_path), random.Random(seed)
    content = known = "".join(f"{n}\n" for n in range(8))
    await desk.read("a", content)
    for act in acts:
        path = desk.folder / "a"
        match act:
            case "other":
                content = content.replace(str(chance.randrange(8)), chance.choice("abcd"), 1) or "x\n"
                desk.put("a", content)
            case "gone":
                path.unlink(missing_ok=True)
            case "read" if path.exists():
                await desk.read("a")
                known = content
            case "told":
                if await desk.told() and path.exists():
                    known = content
            case "lost":
                await desk.told(lost=True)
                await desk.told()
                known = content if path.exists() else known
            case "edit" if path.exists():
                first = content.splitlines()[0] + "\n"
                done = await desk.edit("a", content, first)
                if not done.is_error:
                    assert known == content
                    content = known = first
                elif "What changed since" in str(done.content):
                    known = content
                desk.put("a", content)


async def test_in_the_loop_a_change_while_it_works_is_in_the_next_request(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("one\n")

    class Meddling(Read):
        """The user saves the file right after it was read."""

        async def run(self, input: Json, context: ToolContext, signal: object):  # type: ignore[no-untyped-def]
            async for part in super().run(input, context, signal):  # type: ignore[arg-type]
                yield part
            path.write_text("two\n")

    watched = ChangedFiles(SequentialIds(5))
    table = bench(reply(call("Read", file_path=str(path))), "done", "again", tools=[Meddling()], attachments=watched)
    await table.run()
    content = table.requests[1]["messages"][-1]["content"]
    assert [block["type"] for block in content] == ["tool_result", "text"]
    assert "-one\n+two" in content[1]["text"]
    await table.run()
    sent, later = (without_marks(request["messages"]) for request in table.requests[1:3])
    assert later[: len(sent)] == sent
    assert "[Files that" not in str(later[len(sent) :])
    await table.engine.aclose()


# -------------------------------------------------------------------------------------------------------- watching


async def test_the_watch_detects_changes_made_before_it_started(desk: Desk) -> None:
    await desk.read("a.py", "one\n")
    path = str(desk.put("a.py", "two\n"))
    assert await wait_for_changes(desk.changed, desk.context) == [path]
    assert describe_changes([path], desk.context).startswith("Changed since the model saw it: a.py. ")
    assert "+two" in await desk.told()


async def test_the_watch_detects_changes_while_the_session_is_idle(desk: Desk) -> None:
    looked = asyncio.Event()

    class Looking(ChangedFiles):
        async def peek(self, context: ToolContext) -> list[str]:
            found = await super().peek(context)
            looked.set()
            return found

    await desk.read("a.py", "one\n")
    waiting = asyncio.ensure_future(wait_for_changes(Looking(SequentialIds()), desk.context))
    await looked.wait()
    async with asyncio.timeout(20):
        while not waiting.done():
            # Repeated, because the watch starts in a thread at an unknown moment.
            desk.put("other.py", "x")
            desk.put("a.py", "two\n")
            await asyncio.wait({waiting}, timeout=1)
    assert waiting.result() == [str(desk.folder / "a.py")]


async def test_a_watch_that_has_nothing_to_watch_waits_until_it_is_cancelled(desk: Desk) -> None:
    for prepare in (False, True):
        if prepare:
            await desk.read("a.py", "one\n")
        waiting = asyncio.ensure_future(wait_for_changes(desk.changed, desk.context))
        done, _pending = await asyncio.wait({waiting}, timeout=0.3)
        assert not done
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


# ------------------------------------------------------------------------------------------------ in another process


class Notebook(Desk):
    """Writes down what was seen, as a session file does."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lines: list[tuple[str, Json]] = []
        self.changed = ChangedFiles(SequentialIds(), remember=self.remember)

    def remember(self, files: Json) -> None:
        self.lines.append((self.log[-1].id if self.log else "", files))

    def another_process(self) -> None:
        self.context = ToolContext(cwd=self.folder, working_dirs=(self.folder,))
        self.changed = ChangedFiles(SequentialIds(500), remember=self.remember)
        self.changed.recall(self.log, self.lines, self.context)


@pytest.mark.parametrize("lost", [False, True])
async def test_after_a_resume_a_change_is_reported_again_only_if_its_message_was_lost(
    tmp_path: Path, lost: bool
) -> None:
    notebook = Notebook(tmp_path)
    await notebook.read("a.py", "one\n")
    assert await notebook.told() == ""
    notebook.put("a.py", "two, and more\n")
    assert await notebook.told(lost=lost) != ""
    notebook.another_process()
    assert bool(await notebook.told()) is lost
    assert await notebook.told() == ""


async def test_after_a_resume_known_files_can_be_edited_without_a_new_read(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path)
    await notebook.read("a.py", "one\n")
    await notebook.read("b.py", "one\n")
    await notebook.told()
    notebook.another_process()
    notebook.put("b.py", "changed by somebody\n")
    assert not (await notebook.edit("a.py", "one", "two")).is_error
    assert (await notebook.edit("b.py", "changed", "x")).is_error


async def test_an_invalid_record_is_skipped(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path)
    notebook.lines = [("", {"/a": 3, "/b": {"digest": 4}, "/c": {"digest": "x"}})]
    notebook.another_process()
    assert notebook.context.read_cache.paths() == ["/c"]
    assert "/c is gone" in await notebook.told()
