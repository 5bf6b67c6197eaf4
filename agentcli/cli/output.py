"""The only module of the command line that writes: it makes every text safe for a terminal.

File names, settings, rules, session titles and servers' messages are untrusted, so no other module in `cli/` calls
`print`, `typer.echo` or `os.write` (a test reads the sources). Imports very little, because every error message needs
it.
"""

from __future__ import annotations

import os
import re
import sys

from agentcli.core.text.plaintext import json_for_terminal, terminal_text

_OUR_STYLES = re.compile("(\x1b\\[[0-9;]*m)")


def echo(text: str = "", *, err: bool = False, end: str = "\n") -> None:
    """Print text that may contain untrusted parts."""
    _write(terminal_text(text) + end, err)


def echo_styled(text: str) -> None:
    """Print text with our own colours; all other control sequences are escaped as usual.

    The caller has escaped the untrusted parts before adding the colours.
    """
    pieces = _OUR_STYLES.split(text)
    _write("".join(piece if number % 2 else terminal_text(piece) for number, piece in enumerate(pieces)) + "\n", False)


def echo_json(value: object) -> None:
    """Print JSON for programs, in ASCII, which is safe on a terminal."""
    import json

    _write(json_for_terminal(json.dumps(value, indent=2, default=str)) + "\n", False)


def notice(text: str) -> None:
    """Print one line about a problem on standard error."""
    from agentcli.core.text.plaintext import plain_line

    echo(f"agentcli: {plain_line(text, 600)}", err=True)


def confirm(question: str) -> bool:
    """Ask for yes or no; the default is no."""
    import typer

    return typer.confirm(terminal_text(question), default=False)


def ask_secret(prompt: str) -> str:
    """Ask without echo. Raises `EOFError` and `KeyboardInterrupt`."""
    from getpass import getpass

    return getpass(terminal_text(prompt))


def write_bytes(data: bytes, descriptor: int = 1) -> None:
    """Write already escaped data: a JSON frame, or completions for a shell. Raises `OSError`."""
    while data:
        data = data[os.write(descriptor, data) :]


def complain(message: str) -> None:
    """Print why a command ends; does nothing if standard error is closed."""
    # Indented, so that a line break in a file name does not start a line that looks like ours.
    shown = terminal_text(message).replace("\n", "\n  ")
    try:
        write_bytes(f"agentcli: {shown}\n".encode(errors="replace"), 2)
    except OSError:
        return


def _write(text: str, err: bool) -> None:
    # Not through the stream's buffer: output that a closed pipe refused would be written again at exit.
    encoding = getattr(sys.stderr if err else sys.stdout, "encoding", None) or "utf-8"
    write_bytes(text.encode(encoding, "replace"), 2 if err else 1)
