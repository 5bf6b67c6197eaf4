"""The text of `--help`: from the table of flags, and those of examples and exit codes here. Standard library only."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence

from agentcli.cli import COMMANDS
from agentcli.cli.flags import GROUPS, Flag

HelpRow = tuple[str, str]
"""A term and its description."""

MIN_WIDTH, MAX_WIDTH = 30, 100
_MIN_COLUMNS_WIDTH = 64
"""In narrower terminals descriptions are below their terms instead of in a second column."""
EXAMPLES = "Examples"
_TERM_CELLS = 26
_EXAMPLE_CELLS = 44

USAGE = ("agentcli [FLAGS] [PROMPT]", "agentcli [FLAGS] -p PROMPT", "agentcli COMMAND …")
ABOUT = (
    "A coding agent for the terminal and for scripts. Without -p it opens the app; PROMPT becomes the first prompt. "
    "With -p it answers one prompt; piped input is added to the prompt."
)
MORE = (
    "In the app, ? shows all keys and /help all commands. agentcli help COMMAND explains a command; agentcli doctor "
    "finds problems with this installation."
)
EXIT_CODES: tuple[HelpRow, ...] = (
    ("0", "success; a denied tool call is not a failure"),
    ("1", "the run failed: API error, turn or budget limit, or refusal. The output has the reason"),
    ("2", "wrong usage; no request was sent"),
    ("75", "temporary failure worth retrying: rate limit, overload or network, after all retries"),
    ("129, 130, 143", "SIGHUP, SIGINT, SIGTERM; the result is still printed"),
    ("141", "standard output was closed by its reader"),
)
GENERAL_EXAMPLES: tuple[HelpRow, ...] = (
    ("agentcli demo", "guided tour, no key needed"),
    ("agentcli", "open the app here"),
    ('agentcli "fix the failing test"', "with a first prompt"),
    ("agentcli -c", "continue the latest session"),
    ("agentcli -r", "choose a session to resume"),
    ('agentcli -p "what does this project do?"', "answer one prompt and exit"),
    ('git diff | agentcli -p "review this change"', "piped input is added"),
    ('agentcli -p "fix it" --permission-mode acceptEdits --max-turns 20', "edit without asking, at most 20 replies"),
    ('agentcli -p "list the tests" --output-format json', "print one JSON object"),
)


def root_help(width: int, styled: bool = False) -> str:
    groups = {group: [flag_row(flag) for flag in flags] for group, flags in GROUPS.items()}
    sections = {EXAMPLES: GENERAL_EXAMPLES, "Commands": [*COMMANDS.items()], **groups, "Exit codes": EXIT_CODES}
    more = "\n".join(textwrap.wrap(MORE, _fit(width)))
    return f"{lay_out(USAGE, ABOUT, sections, width, styled)}\n\n{more}"


def flag_row(flag: Flag) -> HelpRow:
    text = flag.help
    if not all(choice in text for choice in flag.choices):
        text = f"{text} {'Any of' if flag.repeats else 'One of'} {', '.join(flag.choices)}."
    return flag.usage, f"{text} (with -p)" if flag.headless else text


def lay_out(
    usage: Sequence[str], about: str, sections: Mapping[str, Sequence[HelpRow]], width: int, styled: bool
) -> str:
    width = _fit(width)
    lines: list[str] = []
    for line in usage:
        head = "       " if lines else "Usage: "
        lines += textwrap.wrap(line, width, initial_indent=head, subsequent_indent=" " * 11, break_on_hyphens=False)
    for paragraph in about.split("\n\n"):
        lines += ["", *textwrap.wrap(paragraph, width)] if paragraph.strip() else ()
    for title, rows in sections.items():
        if not rows:
            continue
        lines += ["", f"\x1b[1m{title}:\x1b[0m" if styled else f"{title}:"]
        # One long term does not indent all descriptions.
        limit = _EXAMPLE_CELLS if title == EXAMPLES else _TERM_CELLS
        cells = min(limit, max(len(term) for term, _text in rows))
        for term, text in rows:
            lines += _row(term, text, cells, width)
    return "\n".join(lines)


def _fit(width: int) -> int:
    return min(MAX_WIDTH, max(MIN_WIDTH, width))


def _row(term: str, text: str, cells: int, width: int) -> list[str]:
    if width < _MIN_COLUMNS_WIDTH:
        terms = textwrap.wrap(
            term, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False, break_long_words=False
        )
        return [*terms, *_wrap(text, width, 6)]
    rest = _wrap(text, width, cells + 4)
    if len(term) > cells:
        return [f"  {term}", *rest]
    return [f"  {term:<{cells}}  {rest[0].lstrip()}" if rest else f"  {term}", *rest[1:]]


def _wrap(text: str, width: int, indent: int) -> list[str]:
    blank = " " * indent
    return textwrap.wrap(text, width, initial_indent=blank, subsequent_indent=blank, break_on_hyphens=False)


def terminal_style() -> tuple[int, bool]:
    """The terminal's width, and whether headings may be styled."""
    kind = os.environ.get("TERM", "")
    styled = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and kind not in ("", "dumb")
    return shutil.get_terminal_size().columns, styled
