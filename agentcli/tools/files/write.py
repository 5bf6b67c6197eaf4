"""Write: create or replace a file. An existing file keeps its encoding, mark, line endings and mode."""

from __future__ import annotations

import re

from agentcli.core.messages import Json
from agentcli.core.text.format import counted
from agentcli.tools.base import object_schema
from agentcli.tools.files.change import ChangingTool, Intent, PlannedChange, Present
from agentcli.tools.files.edit_apply import merge_spelling
from agentcli.tools.files.encoding import Decoded

_MAX_COMPARED_SIZE = 1 << 20


class Write(ChangingTool):
    name = "Write"
    subject = "file_path"
    keeps_state = True
    input_schema = object_schema(
        ["file_path", "content"],
        {
            "file_path": {"type": "string", "description": "The file, absolute or relative to the project's root"},
            "content": {"type": "string", "description": "The whole new content"},
        },
    )

    def intent(self, input: Json) -> Intent:
        content: str = input["content"]
        return Intent(input["file_path"], lambda present: written(present, content), whole=True, create=True)


def written(present: Present, content: str) -> PlannedChange:
    old = present.decoded
    if old is None:
        return PlannedChange(_encode_utf8(content), content, f"Created {present.shown} ({_count_lines(content)}).")
    content = _keep_line_ends(old, content)
    data = old.encode(content)
    if data is not None:
        return PlannedChange(data, content, f"Replaced {present.shown} ({_count_lines(content)}).")
    name = old.unusual or "UTF-8"
    note = f"It was {name} and is UTF-8 now, because the new text has characters that {name} lacks."
    return PlannedChange(_encode_utf8(content), content, f"Replaced {present.shown} ({_count_lines(content)}). {note}")


def _keep_line_ends(old: Decoded, content: str) -> str:
    """Keep the file's line endings: Read does not show them, so the model cannot know them."""
    plain = content.replace("\r\n", "\n")
    if old.newline is not None:
        return plain.replace("\n", old.newline)
    if "\n" not in old.text:
        return content
    if max(len(old.text), len(content)) > _MAX_COMPARED_SIZE:
        return plain
    # Mixed: an unchanged line keeps its ending, a new one gets the most frequent.
    usual = "\r\n" if old.text.count("\r\n") * 2 > old.text.count("\n") else "\n"
    units = re.findall(r"\r\n|.", old.text, re.DOTALL)
    return merge_spelling(units, old.text.replace("\r\n", "\n"), plain, usual)


def _encode_utf8(text: str) -> bytes:
    # UTF-8 cannot encode a lone surrogate.
    return text.encode("utf-8", errors="replace")


def _count_lines(text: str) -> str:
    count = text.count("\n") + (1 if text and not text.endswith("\n") else 0)
    return counted(count, "line")
