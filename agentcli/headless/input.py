"""Standard input: piped text that is added to the prompt, or JSON lines with prompts and control requests.

Reads and parses lines; `run.py` acts on them. Reading never blocks the event loop.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncGenerator
from typing import Any

from agentcli.core.errors import UsageError
from agentcli.core.files.access import JsonLimitError, parse_json
from agentcli.core.frozen import frozen
from agentcli.core.messages import Block, Json, TextBlock, ToolResultBlock, ToolUseBlock, block_from_wire, clean_text

TEXT_LIMIT = 10 * 1024 * 1024
LINE_LIMIT = 64 * 1024 * 1024
"""Bytes. A line may contain images; a longer one is a mistake and would fill the memory."""
FIRST_BYTE_SECONDS = 3.0
"""Seconds that a prompt waits for the first byte of an inherited pipe that is never written or closed."""
_CHUNK = 1 << 16

Prompt = str | tuple[Block, ...]


async def chunks(descriptor: int) -> AsyncGenerator[bytes, None]:
    """Data as it arrives, until the end. A descriptor that is no longer readable counts as ended."""
    waits = not stat.S_ISREG(os.fstat(descriptor).st_mode)
    while True:
        if waits:
            waits = await _readable(descriptor)
        try:
            # A regular file, or a device that cannot be polled such as /dev/null, can be read immediately.
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            continue
        except OSError:
            return
        if not data:
            return
        yield data
        if not waits:
            await asyncio.sleep(0)


async def _readable(descriptor: int) -> bool:
    """Wait until there is data; False if this kind of descriptor cannot be polled."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:
        return False
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
    return True


async def read_pipe(descriptor: int, wait_seconds: float | None) -> str | None:
    """All of a pipe as text; None without a first byte in `wait_seconds`. Raises `UsageError` if too long."""
    source = chunks(descriptor)
    try:
        try:
            first = await asyncio.wait_for(anext(source, b""), wait_seconds)
        except TimeoutError:
            return None
        parts, size = [first], len(first)
        async for data in source:
            size += len(data)
            if size > TEXT_LIMIT:
                raise UsageError(
                    "Standard input is longer than 10 MiB. Save it to a file and name the file in the prompt."
                )
            parts.append(data)
    finally:
        await source.aclose()
    return b"".join(parts).decode("utf-8-sig", errors="replace")


async def lines(descriptor: int) -> AsyncGenerator[bytes | None, None]:
    """Lines without their line ending, including a last one without it. None stands for a line that is too long."""
    pending: list[bytes] = []
    size, skipping = 0, False
    source = chunks(descriptor)
    try:
        async for data in source:
            *whole, rest = data.split(b"\n")
            for piece in whole:
                line = b"".join([*pending, piece])
                pending, size = [], 0
                if skipping:
                    skipping = False
                else:
                    yield line
            if skipping or not rest:
                continue
            pending.append(rest)
            size += len(rest)
            if size > LINE_LIMIT:
                pending, size, skipping = [], 0, True
                yield None
        if pending:
            yield b"".join(pending)
    finally:
        await source.aclose()


@frozen
class UserLine:
    prompt: Prompt
    verbatim: bool = False
    """Whether the client composed the whole prompt, which is not parsed for slash commands and file mentions."""


@frozen
class ControlLine:
    request_id: str
    subtype: str


@frozen
class BadLine:
    message: str


Line = UserLine | ControlLine | BadLine


def parse_line(raw: bytes | None) -> Line | None:
    """Parse one line. None: ignored on purpose, because it is empty or of an unknown type. Never
    raises."""
    if raw is None:
        return BadLine(f"A line of standard input is longer than {LINE_LIMIT >> 20} MiB and was skipped.")
    text = raw.decode("utf-8-sig", errors="replace").strip()
    if not text:
        return None
    try:
        data: Any = parse_json(text)
    except JsonLimitError as error:
        return BadLine(f"A line of standard input was skipped: it {error}: {text[:80]}")
    except ValueError as error:
        return BadLine(f"A line of standard input is not JSON and was skipped ({error}): {text[:80]}")
    if not isinstance(data, dict):
        return BadLine(f"A line of standard input is not a JSON object and was skipped: {text[:80]}")
    if data.get("type") == "user":
        return _user_line(data)
    if data.get("type") == "control_request":
        request = data.get("request")
        subtype = request.get("subtype") if isinstance(request, dict) else None
        return ControlLine(str(data.get("request_id", "")), str(subtype or ""))
    return None


def _user_line(data: Json) -> Line:
    message = data.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    verbatim = data.get("client_composed") is True
    if isinstance(content, str) and content.strip():
        return UserLine(clean_text(content), verbatim)
    if isinstance(content, list) and content and all(isinstance(part, dict) for part in content):
        blocks = tuple(_clean(block_from_wire(part)) for part in content)
        blocks = tuple(block for block in blocks if not isinstance(block, TextBlock) or block.text.strip())
        if blocks and not any(isinstance(block, ToolUseBlock | ToolResultBlock) for block in blocks):
            return UserLine(blocks, verbatim)
    return BadLine('A user line without a prompt was skipped. Expected: {"type":"user","message":{"content":"text"}}.')


def _clean(block: Block) -> Block:
    return TextBlock(clean_text(block.text), block.citations) if isinstance(block, TextBlock) else block
