"""Finding the processes of a sandbox from outside."""

from __future__ import annotations

import os

import pytest

from agentcli.sandbox.linux.processes import SandboxProcesses


@pytest.mark.parametrize("pieces", [(b'{\n    "child-pid": 123\n}\n',), (b'{\n    "child-pid": 12', b"3", b"\n}\n")])
def test_the_first_process_is_known_however_bubblewrap_writes_it(pieces: tuple[bytes, ...]) -> None:
    processes = SandboxProcesses()
    try:
        for piece in pieces:
            assert processes.first_process() is None
            os.write(processes.descriptor, piece)
        assert processes.first_process() == 123
    finally:
        processes.close()
