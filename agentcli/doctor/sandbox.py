"""Which sandbox commands run in, and whether it holds."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from agentcli.assemble import sandbox_for
from agentcli.doctor.finding import Finding
from agentcli.doctor.patient import Patient
from agentcli.doctor.sandbox_trial import prove
from agentcli.tools.environment import child_environment


def sandbox(patient: Patient) -> Iterator[Finding]:
    launcher, warning = sandbox_for(patient.options)
    if launcher.name == "none":
        advice = "Use --sandbox on." if launcher.level == "off" else ""
        yield Finding("warn", "sandbox", warning or "off: commands can do whatever you can", advice)
        return
    root = patient.paths.cache_dir or Path(tempfile.gettempdir())
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    proofs = prove(launcher, child_environment(patient.environ), root)
    for proof in proofs:
        if not proof.holds:
            yield Finding("fail", "sandbox", f"does not hold: {proof.what}", "Do not rely on it here; tell us.")
    if all(proof.holds for proof in proofs):
        tried = "; ".join(proof.what for proof in proofs)
        yield Finding("warn" if warning else "ok", "sandbox", f"{launcher.level}. Tried: {tried}.", warning)
