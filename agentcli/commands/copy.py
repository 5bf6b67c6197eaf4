"""/copy: put an answer or a code block of an answer on the clipboard."""

from __future__ import annotations

import re

from agentcli.agent.engine import Engine
from agentcli.commands.base import Manual
from agentcli.commands.front_end import FrontEnd
from agentcli.core.answers import answers
from agentcli.core.errors import UsageError
from agentcli.core.text.plaintext import plain_text
from agentcli.core.text.plural import counted

MANUAL = Manual(
    "Copies Markdown, without gutters and line wraps. Over ssh, the terminal sets the clipboard, if it allows that; in "
    "tmux its buffer is set too.",
    (
        ("/copy", "copy the last answer"),
        ("/copy 2", "copy the second last answer"),
        ("/copy code", "copy the last code block"),
        ("/copy code 2", "copy the second last code block"),
    ),
)

_ARGUMENTS = re.compile(r"(code)?\s*(\d{1,6})?")
_FENCE = re.compile(r"( *)(`{3,}|~{3,})(.*)")


async def run(engine: Engine | None, arguments: str, front_end: FrontEnd) -> None:
    found = _ARGUMENTS.fullmatch(arguments)
    if found is None:
        raise UsageError("/copy takes a number, code, or code and a number: /copy code 2")
    messages = await engine.all_messages() if engine is not None else ()
    pieces = [text for answer in answers(messages) if (text := plain_text(answer).strip("\n"))]
    what = "answer"
    if found[1]:
        pieces, what = [code for answer in pieces for code in code_blocks(answer)], "code block"
    place = int(found[2] or 1)
    if not pieces:
        raise UsageError(f"There is no {what} to copy yet.")
    if not 1 <= place <= len(pieces):
        raise UsageError(f"There is no {what} {place}. This session has {counted(len(pieces), what)}.")
    outcome = await front_end.copy(pieces[-place])
    front_end.hint(f"{f'Last {what}' if place == 1 else f'{what.capitalize()} {place} from the end'}: {outcome}")


def code_blocks(markdown: str) -> list[str]:
    """The content of every fenced code block. A fence may be indented, as in a list, and the last may be open."""
    blocks: list[str] = []
    fence, indent = "", 0
    for line in markdown.split("\n"):
        found = _FENCE.fullmatch(line)
        if not fence:
            if found is not None and not (found[2][0] == "`" and "`" in found[3]):
                indent, fence = len(found[1]), found[2]
                blocks.append("")
        elif found is not None and found[2].startswith(fence) and not found[3].strip(" \t" + fence[0]):
            fence = ""
        else:
            blocks[-1] += f"{line[min(indent, len(line) - len(line.lstrip(' '))) :]}\n"
    return [block.removesuffix("\n") for block in blocks]
