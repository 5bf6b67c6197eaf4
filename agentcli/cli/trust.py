"""`agentcli trust`: shows everything a folder could make agentcli run or allow, whole, and remembers the answer.

The state that is shown is the state that is remembered: files are read once, and what cannot be shown is not trusted.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from agentcli.cli.output import confirm, echo
from agentcli.config.paths import Paths
from agentcli.config.trust import UNREADABLE, TrustedContent, TrustState, TrustStore
from agentcli.core.errors import UsageError
from agentcli.core.plaintext import terminal_line
from agentcli.core.shell import shown_command, shown_name


def store() -> TrustStore:
    home = os.environ.get("HOME")
    return TrustStore(Paths.from_environ(os.environ).state_dir, Path(home) if home else None)


def list_trusted() -> None:
    for root in store().roots():
        echo(shown_name(str(root)))


def distrust(folder: Path) -> None:
    trust = store()
    root = trust.state(folder).root
    known = trust.distrust(root)
    echo(f"{shown_name(str(root))} is not trusted any more." if known else "It was not trusted.")


def trust_folder(folder: Path, *, yes: bool) -> None:
    if not folder.is_dir():
        raise UsageError(f"{terminal_line(str(folder))} is not a folder.")
    trust = store()
    state = trust.state(folder)
    root = shown_name(str(state.root))
    if state.trusted:
        echo(f"{root} is trusted, and nothing in it has changed since.")
        return
    echo(shown(state))
    if not state.unshowable and not yes:
        if not sys.stdin.isatty():
            raise UsageError("Nobody is there to ask. Read what is above, then use --yes.")
        if not confirm("Trust this folder with exactly this content?"):
            echo("Nothing was changed.")
            return
    trust.trust(state)
    echo(f"{root} is trusted. A change of these files asks again.")


def shown(state: TrustState) -> str:
    """What would take effect, untruncated, with everything invisible made visible."""
    lines = [f"Folder: {shown_name(str(state.root))}"]
    if not state.parts:
        lines.append("It has no settings, servers, hooks, skills or commands of its own.")
    for part in state.parts:
        mark = "changed or new" if part.name in state.changed else "as trusted before"
        lines += ["", f"{shown_name(part.name)} ({mark}):", *_content(part)]
    return "\n".join(lines)


def _content(part: TrustedContent) -> list[str]:
    if part.digest == UNREADABLE:
        return ["    Cannot be shown: not a regular file inside the folder, or too large. It is never trusted."]
    rows = part.text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    # Behind a mark: a line that the terminal wraps has none, so a long line cannot imitate the next heading.
    return [f"  | {shown_command(row)}" for row in rows] if part.text else ["    (empty)"]
