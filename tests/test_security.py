"""SECURITY.md names tests and checks that exist, and every row of the doctor's sandbox trial."""

from __future__ import annotations

import re
from pathlib import Path

from agentcli.doctor.sandbox_trial import _LinuxTrial

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / ".github" / "SECURITY.md").read_text(encoding="utf-8")


def test_every_test_and_module_that_it_names_exists() -> None:
    named = set(re.findall(r"`((?:tests|permissions)/[\w./]*)`", TEXT))
    assert len(named) > 8
    assert [name for name in sorted(named) if not ((ROOT / name).exists() or (ROOT / "agentcli" / name).exists())] == []


def test_each_row_of_the_sandbox_names_a_topic_of_the_doctor_and_none_is_missing() -> None:
    section = TEXT.partition("### Sandbox (Linux)")[2].partition("### ")[0]
    rows = [line.rstrip(" |").rpartition("| ")[2] for line in section.splitlines() if line.startswith("| ")][1:]
    topics = {name for name, _topic in _LinuxTrial.topics(_LinuxTrial.__new__(_LinuxTrial))}
    assert set(rows) == topics


def test_the_readme_links_to_it() -> None:
    assert "(.github/SECURITY.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
