"""`agentcli trust`: show everything that a folder could make agentcli run or allow, and record the answer.

The recorded state is exactly the shown state: files are read once, and content that cannot be shown is not trusted.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from agentcli.cli.output import confirm, echo
from agentcli.config.trust import UNREADABLE, TrustedContent, TrustState, TrustStore
from agentcli.config.trust_effects import effects_of
from agentcli.core.errors import UsageError
from agentcli.core.processes.shell import shown_command, shown_name
from agentcli.core.text.plaintext import terminal_line


def list_trusted() -> None:
    for root in TrustStore.of(os.environ).roots():
        echo(shown_name(str(root)))


def distrust(folder: Path) -> None:
    trust = TrustStore.of(os.environ)
    root = trust.state(folder).root
    known = trust.distrust(root)
    echo(f"{shown_name(str(root))} is no longer trusted." if known else "It was not trusted.")


def trust_folder(folder: Path, *, yes: bool) -> None:
    if not folder.is_dir():
        raise UsageError(f"{terminal_line(str(folder))} is not a folder.")
    trust = TrustStore.of(os.environ)
    state = trust.state_for_review(folder)
    root = shown_name(str(state.root))
    if state.trusted:
        echo(f"{root} is trusted, and nothing in it has changed since.")
        return
    echo(shown(state))
    if not state.unshowable and not yes:
        if not sys.stdin.isatty():
            raise UsageError("No terminal to ask for confirmation. Read the list above, then use --yes.")
        if not confirm("Trust this folder with exactly this content?"):
            echo("Nothing was changed.")
            return
    trust.trust(state)
    echo(f"{root} is trusted. agentcli asks again if these files change.")


def shown(state: TrustState) -> str:
    """All content that would take effect, in full, with invisible characters spelled out."""
    lines = [f"Folder: {shown_name(str(state.root))}"]
    if not state.parts:
        lines.append("It has no settings, servers, hooks, skills or commands.")
    for part in state.parts:
        mark = "changed or new" if part.name in state.changed else "as trusted before"
        lines += ["", f"{shown_name(part.name)} ({mark}):", *_content(part)]
    for title, rows in effects_of(state).titled():
        lines += ["", title] if rows else []
        lines += [f"  | {shown_name(text)}  (from {shown_name(name)})" for text, name in rows]
    return "\n".join(lines)


def _content(part: TrustedContent) -> list[str]:
    if part.digest == UNREADABLE:
        return ["    Cannot be shown: not a regular file inside the folder, or too large. It is never trusted."]
    rows = part.text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    # With a prefix: a line that the terminal wraps has none, so a long line cannot imitate the next heading.
    return [f"  | {shown_command(row)}" for row in rows] if part.text else ["    (empty)"]
