"""Write: a file with exactly this content. An existing file keeps its encoding, mark, line ends and mode."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentcli.core.abort import AbortSignal
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.tools.base import Output, Progress, ToolContext
from agentcli.tools.builtin import BuiltinTool, absolute_path, object_schema
from agentcli.tools.change import Change, Present, change_file


class Write(BuiltinTool):
    name = "Write"
    subject = "file_path"
    input_schema = object_schema(
        ["file_path", "content"],
        {
            "file_path": {"type": "string", "description": "The file, absolute or relative to the working directory"},
            "content": {"type": "string", "description": "The whole new content"},
        },
    )

    def is_safe(self, input: Json) -> bool:
        return False

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return (Need("write", absolute_path(input.get("file_path"), context)),)

    async def run(
        self, input: Json, context: ToolContext, signal: AbortSignal
    ) -> AsyncGenerator[Progress | Output, None]:
        content: str = input["content"]

        def plan(present: Present) -> Change:
            return _written(present, content)

        yield await change_file(input["file_path"], context, plan, whole=True, create=True)


def _written(present: Present, content: str) -> Change:
    old = present.decoded
    if old is None:
        return Change(_utf8(content), content, f"Created {present.shown} ({_lines(content)}).")
    if old.newline is not None:
        content = content.replace("\r\n", "\n").replace("\n", old.newline)
    data = old.encode(content)
    if data is not None:
        return Change(data, content, f"Replaced {present.shown} ({_lines(content)}).")
    note = f"It was {old.encoding} and is UTF-8 now, because the new text has characters that {old.encoding} lacks."
    return Change(_utf8(content), content, f"Replaced {present.shown} ({_lines(content)}). {note}")


def _utf8(text: str) -> bytes:
    # A lone surrogate is the one thing that UTF-8 cannot hold.
    return text.encode("utf-8", errors="replace")


def _lines(text: str) -> str:
    count = text.count("\n") + (1 if text and not text.endswith("\n") else 0)
    return f"{count:,} line{'s' if count != 1 else ''}"
