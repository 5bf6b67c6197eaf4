"""Guess quickly, before any heavy import, whether plain mode is chosen instead of the app. Standard library only.

True is a guess that the caller checks against the settings. False is certain, except for a file given with
`--settings`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

VARIABLE = "AGENTCLI_PLAIN"
_MANAGED = "/etc/agentcli/settings.json"
_MENTIONED = b'"plain"'


def may_choose_plain(argv: Sequence[str], environ: Mapping[str, str]) -> bool:
    if is_dumb_terminal(environ) or environ.get(VARIABLE):
        return True
    if any(word == "--plain" or '"plain"' in word for word in argv):
        return True
    return any(_mentions(path) for path in (_user_settings(environ), _MANAGED) if path)


def is_dumb_terminal(environ: Mapping[str, str]) -> bool:
    """Whether the terminal understands no escape codes."""
    return environ.get("TERM", "").lower() in ("", "dumb", "unknown")


def _user_settings(environ: Mapping[str, str]) -> str:
    """Path of the user's settings file, as in `config.paths`, which is too slow to import on every start."""
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
