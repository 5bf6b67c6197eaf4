"""Checks of the active sandbox and its promises."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from agentcli.assemble import sandbox_for
from agentcli.doctor.check_context import CheckContext
from agentcli.doctor.finding import Finding
from agentcli.doctor.sandbox_trial import Proof, prove

_BROKEN = "Do not rely on the sandbox on this machine. Report this as described in .github/SECURITY.md."
_SEATBELT = (
    "macOS: quarantine, limits on memory and processes, network through allowed hosts only, and a private /tmp. "
    "agentcli does not support them there."
)


def sandbox(context: CheckContext) -> Iterator[Finding]:
    launcher, problem = sandbox_for(context.options)
    if launcher.name == "none":
        if not problem:
            yield Finding("warn", "sandbox", "off: approved commands can do anything you can", "Use --sandbox on.")
        else:
            advice = "Until then an approved command can do anything you can, and auto mode is not available."
            yield Finding("warn", "sandbox", problem, advice)
        return
    text = f"{launcher.level}. Results of testing each promise:"
    yield Finding("warn" if problem else "ok", "sandbox", text, problem)
    root = context.paths.cache_dir or Path(tempfile.gettempdir())
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    for proofs in prove(launcher, context.environ, root):
        yield from _findings(proofs)
    if launcher.name == "seatbelt":
        yield Finding("ok", "not proven", _SEATBELT)


def _findings(proofs: list[Proof]) -> Iterator[Finding]:
    """One finding for all promises that hold, and one for each that is broken or could not be tested."""
    kept = [proof for proof in proofs if proof.outcome == "holds"]
    if kept:
        text = "; ".join(proof.promise for proof in kept)
        yield Finding("ok", kept[0].topic, text)
    for proof in proofs:
        if proof.outcome == "broken":
            yield Finding("fail", proof.topic, f"does not hold: {proof.promise}", _BROKEN)
        elif proof.outcome == "untried":
            yield Finding("warn", proof.topic, f"not tried: {proof.promise} ({proof.reason})")
