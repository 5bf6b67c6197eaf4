"""Edit: replace an exact piece of a file by another. Line ends are matched whichever kind the file has.

A miss is answered with what the file really says near there, because that is what the next try needs.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import AsyncGenerator

from agentcli.core.abort import AbortSignal
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.core.plaintext import visible_text
from agentcli.tools.base import Output, Progress, ToolContext
from agentcli.tools.builtin import BuiltinTool, absolute_path, failure, object_schema, path_problem
from agentcli.tools.change import Change, Present, change_file

_MOST_LISTED = 20
_MOST_SEARCHED = 20_000
_MOST_COMPARED = 400
"""Lines that are compared letter by letter when looking for the nearest one; the rest is filtered by cheaper means."""


class Edit(BuiltinTool):
    name = "Edit"
    subject = "file_path"
    input_schema = object_schema(
        ["file_path", "old_string", "new_string"],
        {
            "file_path": {"type": "string", "description": "The file, absolute or relative to the working directory"},
            "old_string": {"type": "string", "description": "The exact text to replace"},
            "new_string": {"type": "string", "description": "What to put in its place"},
            "replace_all": {"type": "boolean", "description": "Replace every occurrence, not just a unique one"},
        },
    )

    def is_safe(self, input: Json) -> bool:
        return False

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return (Need("write", absolute_path(input.get("file_path"), context)),)

    def check(self, input: Json, context: ToolContext) -> str | None:
        if not input["old_string"]:
            return "old_string is empty. Give the text to replace, or use Write for a new file."
        if input["old_string"] == input["new_string"]:
            return "old_string and new_string are equal: there is nothing to change."
        return path_problem(input["file_path"])

    async def run(
        self, input: Json, context: ToolContext, signal: AbortSignal
    ) -> AsyncGenerator[Progress | Output, None]:
        old, new = (str(input[key]).replace("\r\n", "\n") for key in ("old_string", "new_string"))
        every = bool(input.get("replace_all"))

        def plan(present: Present) -> Change | Output:
            return _edited(present, old, new, every=every)

        yield await change_file(input["file_path"], context, plan, whole=False, create=False)


def _edited(present: Present, old: str, new: str, *, every: bool) -> Change | Output:
    assert present.decoded is not None
    text = present.text
    matches = list(re.finditer(r"\r?\n".join(re.escape(line) for line in old.split("\n")), text))
    if not matches:
        return failure(_miss(present.shown, text, old), summary="no match")
    if len(matches) > 1 and not every:
        numbers = [text.count("\n", 0, match.start()) + 1 for match in matches[:_MOST_LISTED]]
        more = " and more" if len(matches) > _MOST_LISTED else ""
        where = f"lines {', '.join(map(str, numbers))}{more}"
        advice = "Add surrounding lines to old_string to make it unique, or set replace_all."
        return failure(
            f"old_string occurs {len(matches)} times in {present.shown}: {where}. {advice}", summary="ambiguous"
        )
    usual = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    pieces: list[str] = []
    position = 0
    for match in matches:
        # In a file with mixed line ends the place itself says which kind belongs there.
        found = match.group()
        newline = "\r\n" if "\r\n" in found else ("\n" if "\n" in found else usual)
        pieces += [text[position : match.start()], new.replace("\n", newline)]
        position = match.end()
    changed = "".join([*pieces, text[position:]])
    data = present.decoded.encode(changed)
    if data is None:
        encoding = present.decoded.encoding
        return failure(
            f"{present.shown} is {encoding}, which lacks some characters of new_string. Write them otherwise."
        )
    times = (
        f" in {len(matches)} places"
        if len(matches) > 1
        else f" at line {text.count(chr(10), 0, matches[0].start()) + 1}"
    )
    return Change(data, changed, f"Edited {present.shown}{times}.")


def _miss(shown: str, text: str, old: str) -> str:
    lines = text.replace("\r\n", "\n").split("\n")
    wanted = old.split("\n")
    message = f"old_string was not found in {shown}."
    if all(re.match(r"\s*\d+\t", line) for line in wanted if line):
        return f"{message} It begins with line numbers as Read shows them; leave them and the tab after them out."
    if len(lines) > _MOST_SEARCHED:
        return f"{message} Read the place again and copy the text exactly."
    start = _nearest(lines, wanted)
    if start is None:
        return f"{message} Nothing in the file is like it. Read it again and copy the text exactly."
    first, last = max(0, start - 1), min(len(lines), start + len(wanted) + 1)
    region = lines[first : min(last, first + 40)]
    hint = ""
    if " ".join("".join(f"{line}\n" for line in lines[start : start + len(wanted)]).split()) == " ".join(old.split()):
        hint = " They differ only in white space."
    shown_lines = "\n".join(f"{first + index + 1}\t{visible_text(line[:500])}" for index, line in enumerate(region))
    return f"{message} The nearest lines are:{hint}\n{shown_lines}"


def _nearest(lines: list[str], wanted: list[str]) -> int | None:
    """The line at which the wanted text would begin if it were there; None if nothing is alike."""
    stripped = [line.strip() for line in lines]
    keys = [line.strip() for line in wanted]
    # Lines that are there exactly, and rarely, say best where the rest should be.
    anchors = [(stripped.count(key), index, key) for index, key in enumerate(keys) if key]
    present = [anchor for anchor in anchors if anchor[0]]
    if present:
        _count, index, key = min(present)
        return max(0, stripped.index(key) - index)
    if not anchors:
        return None
    index, key = max(((index, key) for _count, index, key in anchors), key=lambda anchor: len(anchor[1]))
    letters = set(key)
    ranked = sorted(
        range(len(stripped)), key=lambda at: -len(letters & set(stripped[at])) + abs(len(stripped[at]) - len(key))
    )
    best, score = None, 0.5
    for at in ranked[:_MOST_COMPARED]:
        ratio = difflib.SequenceMatcher(None, key[:500], stripped[at][:500]).ratio()
        if ratio > score:
            best, score = at, ratio
    return None if best is None else max(0, best - index)
