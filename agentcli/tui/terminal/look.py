"""Where the instant prompt finds how the app looked last. Standard library only, and little of that."""

from __future__ import annotations

from collections.abc import Mapping


def look_path(environ: Mapping[str, str]) -> str:
    """In the folder that `config.paths` says too, which is not asked because every start passes here. "": nowhere."""
    own = environ.get("AGENTCLI_CACHE_DIR", "")
    if own.startswith("/"):
        return f"{own}/instant.json"
    home = environ.get("HOME", "")
    base = environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        base = f"{home}/.cache" if home.startswith("/") else ""
    return f"{base}/agentcli/instant.json" if base else ""
