"""Memory and the sandbox: commands read notes and write none; the rest of the state folder stays hidden."""

from __future__ import annotations

import pytest

from agentcli.assemble.environment import memory_folder
from tests.support.contained import Project

pytestmark = pytest.mark.anyio


async def test_commands_can_read_notes_but_not_write_them(contained: Project) -> None:
    state = contained.home / ".local" / "state" / "agentcli"
    notes, others = memory_folder(state, contained.path), state / "memory" / "another-project"
    for folder in (notes, others):
        folder.mkdir(parents=True)
        (folder / "MEMORY.md").write_text("- here\n")
    commands = (
        f"cat {notes}/MEMORY.md",
        f"python3 -c \"open('{notes}'+'/MEMORY.md', 'a').write('x')\"",
        f"python3 -c \"print(open('{others}'+'/MEMORY.md').read())\"",
    )
    async with contained.commands(*commands) as session:
        shown = await session.run()
    assert shown[0] == "- here"
    assert "here" not in shown[2]
    assert (notes / "MEMORY.md").read_text() == "- here\n"
