"""Whether lines may be wanted instead of the app, found out before anything is drawn. Standard library only.

A yes is only a guess and is checked against the settings. A no is certain, but for a setting that `--settings` reads
from a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

VARIABLE = "AGENTCLI_PLAIN"
_MANAGED = "/etc/agentcli/settings.json"
_MENTIONED = b'"plain"'


def may_be_wanted(argv: Sequence[str], environ: Mapping[str, str]) -> bool:
    if is_bare(environ) or environ.get(VARIABLE) or any(word == "--plain" or '"plain"' in word for word in argv):
        return True
    return any(_mentions(path) for path in (_user_settings(environ), _MANAGED) if path)


def is_bare(environ: Mapping[str, str]) -> bool:
    """Whether the terminal obeys nothing: it gets text and no escape codes, and edits its lines itself."""
    return environ.get("TERM", "").lower() in ("", "dumb", "unknown")


def _user_settings(environ: Mapping[str, str]) -> str:
    """The file that `config.paths` names too, which is not asked because every start passes here."""
    own = environ.get("AGENTCLI_CONFIG_DIR", "")
    if own.startswith("/"):
        return f"{own}/settings.json"
    base, home = environ.get("XDG_CONFIG_HOME", ""), environ.get("HOME", "")
    if not base.startswith("/"):
        base = f"{home}/.config" if home.startswith("/") else ""
    return f"{base}/agentcli/settings.json" if base else ""


def _mentions(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 -- pathlib would have to be imported
            return _MENTIONED in file.read()
    except OSError:
        return False
