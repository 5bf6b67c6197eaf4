"""MCP servers of an assembled session."""

from __future__ import annotations

import subprocess
import sys


def test_without_a_server_the_library_is_not_imported() -> None:
    code = "import sys, agentcli.assemble, agentcli.tui.app; print([m for m in sys.modules if 'mcp' in m.split('.')])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['agentcli.assemble.mcp']"
