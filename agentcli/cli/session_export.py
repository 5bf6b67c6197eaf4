"""`agentcli sessions export`: a session as a file to read, to share or to report a bug with."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from agentcli.cli.output import confirm, echo, write_bytes
from agentcli.cli.permissions import table_option
from agentcli.cli.sessions import SessionArgument, find_session
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.text.format import byte_size
from agentcli.core.text.plaintext import show_name

_SLOW = 30 << 20
"""Bytes from which an export takes more than ten seconds."""


def export(
    session: SessionArgument,
    format: Annotated[
        str | None,
        typer.Option("--format", metavar="NAME", help="md, json, html or bundle. Default: as the file ends, else md."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="File or folder. Default: conversation-ID here; - prints it."
        ),
    ] = None,
    theme: Annotated[str | None, table_option("--theme")] = None,
    thinking: Annotated[bool, typer.Option("--thinking", help="Include the model's thinking.")] = False,
    keep_secrets: Annotated[bool, typer.Option("--keep-secrets", help="Replace no secrets and no paths.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file without asking.")] = False,
) -> None:
    """Write a session to a file: Markdown, JSON, a page for the browser that needs no network, or a bundle for a bug
    report. Recognised secrets are replaced, and listed. A bundle always has all branches and the thinking.

    agentcli sessions export parser -o talk.html    a page for the browser
    agentcli sessions export regex --format bundle  a .zip for a bug report
    agentcli sessions export parser -o -            Markdown on standard output
    """
    from agentcli.history.export import files
    from agentcli.history.export.document import read_document

    chosen = files.choose_format(output or "", format)
    if chosen == "bundle" and output == "-" and sys.stdout.isatty():
        raise UsageError("A bundle is binary: name a file with -o.")
    info = find_session(session)
    if info.size > _SLOW:
        echo(f"Reading {byte_size(info.size)}, which takes a while. Ctrl+C stops.", err=True)
    context = files.read_context(Path.cwd(), os.environ, theme, keeps_secrets=keep_secrets)
    if chosen == "bundle":
        data, redactions = files.export_bundle(info.path, context)
    else:
        data, redactions = files.export_document(read_document(info.path, thinking=thinking), chosen, context)
    if output == "-":
        write_bytes(data)
    else:
        file = Path(output or ".")
        if file.is_dir() or str(output).endswith("/"):
            file /= files.default_name(info.session_id, chosen)
        _write(file, data, force=force)
        echo(f"Wrote {byte_size(len(data))} to {show_name(str(file))}.")
    echo(f"{redactions} {files.CHECK_IT}", err=output == "-")


def _write(file: Path, data: bytes, *, force: bool) -> None:
    from agentcli.history.export.files import write_new

    try:
        write_new(file, data, replaces=force)
    except FileExistsError:
        if not sys.stdin.isatty() or not confirm(f"{show_name(str(file))} exists. Replace it?"):
            raise AgentError(f"{show_name(str(file))} exists already. To replace it, add --force.") from None
        write_new(file, data, replaces=True)
