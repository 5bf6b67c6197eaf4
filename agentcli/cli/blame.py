"""`agentcli blame`: show which call of a session wrote each line of a file."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from agentcli.cli.help import terminal_style
from agentcli.cli.output import echo_json, echo_styled
from agentcli.cli.permissions import AsJson
from agentcli.cli.sessions import state_folder


def blame(
    place: Annotated[str, typer.Argument(metavar="FILE[:LINES]", help="A file; LINES: 12 or 10-20.")],
    as_json: AsJson = False,
) -> None:
    """Show for each line of a file the prompt and the call that wrote it, with model, time and cost, or that it is
    yours. It reads the snapshots of all sessions; commits, undo and lines that move do not matter.

    agentcli blame src/parser.py        all lines
    agentcli blame src/parser.py:10-20  these lines
    """
    from agentcli.history.blame_text import read_blame

    text = asyncio.run(read_blame(place, Path.cwd(), state_folder()))
    if as_json:
        echo_json(text.record())
        return
    width, styled = terminal_style()
    for line in text.format(width if sys.stdout.isatty() else None, styled=styled):
        echo_styled(line)
