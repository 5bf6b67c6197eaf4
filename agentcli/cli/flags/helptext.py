"""The text of `--help`, from the tables of flags, commands, examples and exit codes. Standard library only."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

from agentcli.cli import COMMANDS
from agentcli.cli.exits import EXIT_CODES
from agentcli.cli.flags.examples import GENERAL, OF_COMMANDS, Example
from agentcli.cli.flags.table import FLAGS, GROUPS, Flag
from agentcli.cli.output import echo_styled
from agentcli.core.frozen import frozen

HelpRow = tuple[str, str]

LEAST_WIDTH, MOST_WIDTH = 30, 100
EXAMPLES = "Examples"
_TERM_CELLS = 26
_EXAMPLE_CELLS = 44
_BESIDE = 64
"""Least width for descriptions beside their terms; in narrower terminals they are below."""

USAGE = ("agentcli [FLAGS] [PROMPT]", "agentcli [FLAGS] -p PROMPT", "agentcli COMMAND …")
ABOUT = (
    "A coding agent for the terminal and for scripts. Without -p it opens the app; PROMPT becomes the first prompt. "
    "With -p it answers one prompt; piped input is added to the prompt."
)
MORE = (
    "In the app, ? shows all keys and /help all commands. agentcli help COMMAND explains a command; agentcli doctor "
    "finds problems with this installation."
)


@frozen
class Section:
    heading: str
    rows: tuple[HelpRow, ...]


@frozen
class SubcommandHelp:
    """The help of one sub-command."""

    path: tuple[str, ...]
    usage: str
    about: str
    sections: tuple[Section, ...]


def root_help(width: int, styled: bool = False) -> str:
    sections = [
        Section(EXAMPLES, example_rows(GENERAL)),
        Section("Commands", tuple(COMMANDS.items())),
        *(Section(group, tuple(flag_row(flag) for flag in FLAGS if flag.group == group)) for group in GROUPS),
        Section("Exit codes", EXIT_CODES),
    ]
    return laid_out(USAGE, ABOUT, sections, MORE, width, styled)


def command_help(command: SubcommandHelp, width: int, styled: bool = False) -> str:
    examples = [one for one in OF_COMMANDS.get(command.path[0], ()) if _is_about(one, command.path)]
    sections = [*command.sections, Section(EXAMPLES, example_rows(examples))]
    return laid_out((command.usage,), command.about, sections, "", width, styled)


def _is_about(example: Example, path: tuple[str, ...]) -> bool:
    return f" {' '.join(path)} " in f"{example.line} "


def flag_row(flag: Flag) -> HelpRow:
    value = "" if flag.kind == "switch" else flag.metavar
    term = ", ".join(flag.names)
    if flag.kind == "equals":
        term = f"{term}[={value}]"
    elif flag.kind == "optional":
        term = f"{term} [{value}]"
    elif value:
        term = f"{term} {value}"
    text = flag.help
    if not all(choice in text for choice in flag.choices):
        text = f"{text} {'Any of' if flag.repeats else 'One of'} {', '.join(flag.choices)}."
    return term, f"{text} (with -p)" if flag.headless else text


def example_rows(examples: Iterable[Example]) -> tuple[HelpRow, ...]:
    return tuple((example.line, example.text) for example in examples)


def laid_out(usage: Sequence[str], about: str, sections: Sequence[Section], more: str, width: int, styled: bool) -> str:
    width = min(MOST_WIDTH, max(LEAST_WIDTH, width))
    lines: list[str] = []
    for line in usage:
        head = "       " if lines else "Usage: "
        lines += textwrap.wrap(line, width, initial_indent=head, subsequent_indent=" " * 11, break_on_hyphens=False)
    for paragraph in about.split("\n\n"):
        lines += ["", *textwrap.wrap(paragraph, width)] if paragraph.strip() else ()
    for section in sections:
        if not section.rows:
            continue
        heading = f"{section.heading}:"
        lines += ["", f"\x1b[1m{heading}\x1b[0m" if styled else heading]
        cells = _cells(section)
        for term, text in section.rows:
            lines += _row(term, text, cells, width)
    if more:
        lines += ["", *textwrap.wrap(more, width)]
    return "\n".join(lines)


def _cells(section: Section) -> int:
    """The width of the longest term, limited so that one long term does not indent all descriptions."""
    most = _EXAMPLE_CELLS if section.heading == EXAMPLES else _TERM_CELLS
    return min(most, max((len(term) for term, _text in section.rows), default=0))


def _row(term: str, text: str, cells: int, width: int) -> list[str]:
    if width < _BESIDE:
        terms = textwrap.wrap(
            term, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False, break_long_words=False
        )
        return [*terms, *_wrapped(text, width, 6)]
    rest = _wrapped(text, width, cells + 4)
    if len(term) > cells:
        return [f"  {term}", *rest]
    return [f"  {term:<{cells}}  {rest[0].lstrip()}" if rest else f"  {term}", *rest[1:]]


def _wrapped(text: str, width: int, indent: int) -> list[str]:
    blank = " " * indent
    return textwrap.wrap(text, width, initial_indent=blank, subsequent_indent=blank, break_on_hyphens=False)


def print_help(text: str) -> int:
    """Print the help and return the exit code."""
    echo_styled(text)
    return 0


def here() -> tuple[int, bool]:
    """The terminal's width, and whether headings may be styled."""
    kind = os.environ.get("TERM", "")
    styled = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and kind not in ("", "dumb")
    return shutil.get_terminal_size().columns, styled
