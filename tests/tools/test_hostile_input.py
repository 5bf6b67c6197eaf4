"""Any tool with hostile input: the event loop keeps running, and an abort ends the call."""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import struct
import time
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from agentcli.core.aio import AbortController, AbortReason
from agentcli.core.messages import Json
from agentcli.tools.base import Output, Tool, ToolContext, check_input
from agentcli.tools.registry import BUILTIN_NAMES, builtin_tools
from tests.tools.running import context_in, run

pytestmark = pytest.mark.anyio

MAX_STALL = 2.0
"""Seconds of processor time without a beat of the loop. What is guarded against takes minutes or never ends."""
MAX_WAIT = 30.0
"""Seconds without a beat in which the loop waits for something else, or for a processor on a busy machine."""
BEFORE_ABORT = 0.15
AFTER_ABORT = 10.0
FROZEN = 120
"""Seconds after which the process ends with all its stacks: a frozen interpreter cannot fail its own test."""

_LONG = "a" * 100_000
_STARS = "*a" * 60 + "b"

Case = tuple[str, str, Json]

_QUESTION = {"question": _LONG, "header": _LONG, "options": [{"label": f"{n}", "description": _LONG} for n in range(4)]}
_TODO = {"content": "x", "status": "pending", "activeForm": "x"}
_ODD = (
    "fifo",
    "zero",
    "loop",
    "folder",
    "sparse",
    "deep.ipynb",
    "bomb.png",
    "wide.png",
    "endless.pdf",
    "cells.ipynb",
)


def _edit(old: str, new: str, **more: object) -> Json:
    return {"file_path": "blanks.txt", "old_string": old, "new_string": new, **more}


CASES: list[Case] = [
    *(("Read", what, {"file_path": f"odd/{what}"}) for what in _ODD),
    ("Read", "a long name", {"file_path": _LONG}),
    ("Read", "a deep name", {"file_path": "a/" * 50_000}),
    ("Read", "far into endless zeros", {"file_path": "odd/sparse", "offset": 10**15, "limit": 10**15}),
    *(("Write", what, {"file_path": f"odd/{what}", "content": "x"}) for what in ("fifo", "zero", "loop", "folder")),
    ("Write", "much text", {"file_path": "new.txt", "content": "a b\n" * 300_000}),
    *(("Edit", what, {**_edit("a", "b"), "file_path": f"odd/{what}"}) for what in ("fifo", "zero", "sparse")),
    ("Edit", "blanks", _edit("a " * 1_000 + "b", "c")),
    ("Edit", "a near miss", _edit("a\n" * 5_000 + "b", "c")),
    ("Edit", "everywhere", _edit("a", "bb", replace_all=True)),
    ("Edit", "gigabytes", _edit(" ", "b" * 200_000, replace_all=True)),
    *(
        ("MultiEdit", what, {"file_path": "blanks.txt", "edits": edits})
        for what, edits in (
            ("doubling", [{"old_string": "a", "new_string": "aa", "replace_all": True}] * 30),
            ("many edits", [{"old_string": f"x{n}", "new_string": "y"} for n in range(2_000)]),
        )
    ),
    ("NotebookEdit", "deep", {"notebook_path": "odd/deep.ipynb", "new_source": "x", "cell_id": "cell-0"}),
    ("NotebookEdit", "a FIFO", {"notebook_path": "odd/fifo", "new_source": "x", "cell_id": "cell-0"}),
    ("Bash", "a flood", {"command": "yes"}),
    ("Bash", "a flood without line breaks", {"command": "cat /dev/zero"}),
    ("Bash", "a very long command", {"command": "true " + "$(( " * 20_000}),
    ("Bash", "ignores signals", {"command": "trap '' TERM INT; tail -f /dev/null"}),
    ("Glob", "stars", {"pattern": _STARS}),
    ("Glob", "folders", {"pattern": "**/*a*a*a*a*a*/" * 100 + "b"}),
    ("Glob", "braces", {"pattern": "{a,b}" * 500}),
    ("Glob", "open braces", {"pattern": "{," * 50_000}),
    ("Glob", "a FIFO", {"pattern": "*", "path": "odd/fifo"}),
    ("Grep", "stars", {"pattern": "x", "glob": _STARS}),
    ("Grep", "backtracking", {"pattern": "(a+)+$"}),
    ("Grep", "a large repetition", {"pattern": "((a{1,1000}){1,1000}){1,1000}"}),
    ("Grep", "a FIFO", {"pattern": "x", "path": "odd/fifo"}),
    ("Grep", "zeros", {"pattern": "x", "path": "odd/zero"}),
    ("BashOutput", "a long id", {"bash_id": _LONG}),
    ("KillShell", "a long id", {"shell_id": _LONG}),
    ("WebFetch", "a long host", {"url": f"https://{'a.' * 50_000}example.invalid/", "prompt": _LONG}),
    ("WebFetch", "no address", {"url": "https://[" + ":" * 50_000, "prompt": "x"}),
    ("Task", "a long name", {"description": _LONG, "prompt": _LONG, "subagent_type": _LONG, "model": _LONG}),
    ("WebSearch", "a long query", {"query": _LONG * 10}),
    ("TodoWrite", "many", {"todos": [_TODO] * 5_000}),
    ("AskUserQuestion", "long", {"questions": [_QUESTION]}),
    ("EnterPlanMode", "nothing", {}),
    ("ExitPlanMode", "a long plan", {"plan": _LONG * 50}),
]


def _png(width: int, height: int, rows: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


_PDF = b"""%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[2 0 R 2 0 R 2 0 R]/Count 999999999>>endobj
trailer<</Root 1 0 R>>
%%EOF
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hostile")
    odd = root / "odd"
    odd.mkdir()
    for number in range(30):
        (root / ("a" * 240 + f"{number:02}")).write_text("a" * 60 + "!\n")
    below = root / "/".join(["a" * 50] * 30)
    below.mkdir(parents=True)
    (below / "file").write_text("x")
    os.mkfifo(odd / "fifo")
    (odd / "zero").symlink_to("/dev/zero")
    (odd / "loop").symlink_to(odd / "loop")
    (odd / "folder").mkdir()
    with (odd / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    (odd / "deep.ipynb").write_text('{"cells": ' + "[" * 600 + "]" * 600 + "}")
    cell = {"cell_type": "code", "source": ["x"], "outputs": [{"output_type": "stream", "text": ["y" * 1_000]}]}
    (odd / "cells.ipynb").write_text(json.dumps({"cells": [cell] * 5_000, "metadata": {}, "nbformat": 4}))
    (odd / "bomb.png").write_bytes(_png(60_000, 60_000, zlib.compress(bytes(1_000_000))))
    (odd / "wide.png").write_bytes(_png(4_000, 4_000, zlib.compress(bytes(4_001 * 4_000))))
    (odd / "endless.pdf").write_bytes(_PDF)
    for name in (".gitignore", ".ignore"):
        os.mkfifo(odd / "folder" / name)
    return root


@asynccontextmanager
async def heartbeat() -> AsyncIterator[Callable[[], tuple[float, float]]]:
    """The longest times between two beats of the running loop: of the processor, and of the clock."""
    loop = asyncio.get_running_loop()
    last, longest = (time.process_time(), loop.time()), (0.0, 0.0)

    def stalled() -> tuple[float, float]:
        return max(longest[0], time.process_time() - last[0]), max(longest[1], loop.time() - last[1])

    def beat() -> None:
        nonlocal last, longest, handle
        longest = stalled()
        last = time.process_time(), loop.time()
        handle = loop.call_later(0.02, beat)

    handle = loop.call_soon(beat)
    try:
        yield stalled
    finally:
        handle.cancel()


async def _called(tool: Tool, context: ToolContext, controller: AbortController, input: Json) -> Output | str:
    fitted, wrong = check_input(tool.input_schema, input)
    if wrong:
        return "; ".join(wrong)
    if (refused := tool.check(fitted, context)) is not None:
        return refused
    tool.needs(fitted, context)
    async with aclosing(tool.run(fitted, context, controller.signal)) as events:
        outputs = [event async for event in events]
    assert isinstance(outputs[-1], Output)
    return outputs[-1]


def test_every_tool_has_a_hostile_case() -> None:
    missing = set(BUILTIN_NAMES) - {name for name, _what, _input in CASES}
    assert not missing, f"add a row to CASES for {', '.join(sorted(missing))}"


@pytest.mark.parametrize(("name", "what", "input"), CASES, ids=[f"{name}-{what}" for name, what, _input in CASES])
async def test_a_tool_ends_soon_after_an_abort_and_never_stops_the_loop(
    folder: Path, name: str, what: str, input: Json
) -> None:
    await _attack(folder, name, input)


async def _attack(folder: Path, name: str, input: Json) -> None:
    tool = next(tool for tool in builtin_tools() if tool.name == name)
    context = context_in(folder)
    if input.get("file_path") == "blanks.txt":
        # Only a file that was read is edited.
        (folder / "blanks.txt").write_text("a  \n" * 25_000)
        await run(next(tool for tool in builtin_tools() if tool.name == "Read"), context, file_path="blanks.txt")
    faulthandler.dump_traceback_later(FROZEN, exit=True)
    try:
        with AbortController() as controller:
            async with heartbeat() as stalled:
                running = asyncio.ensure_future(_called(tool, context, controller, input))
                try:
                    await asyncio.wait({running}, timeout=BEFORE_ABORT)
                    controller.abort(AbortReason.USER_CANCEL)
                    await asyncio.wait({running}, timeout=AFTER_ABORT)
                    assert running.done(), "the abort did not end it"
                    working, waiting = stalled()
                    assert working < MAX_STALL
                    assert waiting < MAX_WAIT
                finally:
                    running.cancel()
                    await asyncio.wait({running})
        running.result()
    finally:
        faulthandler.cancel_dump_traceback_later()
