"""Try the sandbox out once per process instead of once per engine: trying starts bubblewrap four times.

The product remembers the outcome in the user's cache folder, which is a new one in most tests.
"""

from __future__ import annotations

import functools
import shutil

from agentcli.sandbox.linux import probe

_try_out = probe.try_out
_try_once = functools.cache(_try_out)
_OWN = shutil.which("bwrap")


def _tried(program: str) -> probe.Ability:
    """Tests of trying put another program in its place."""
    return _try_once(program) if program == _OWN else _try_out(program)


def install() -> None:
    probe.try_out = _tried
