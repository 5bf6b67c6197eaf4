"""Signing in to an MCP server with the assembled program."""

from __future__ import annotations

import json
import shlex
import sys

import pytest

from tests.e2e.program import Program
from tests.support.authorization_server import AuthorizationServer, ProtectedServer

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "darwin", reason="the program that opens addresses has another name"),
]
VISIT = "import sys, urllib.request as web; web.build_opener(web.ProxyHandler({})).open(sys.argv[1]).read()"
BROWSER = f'#!/bin/sh\nexec {shlex.join([sys.executable, "-S", "-c", VISIT])} "$1"\n'


def install_browser(program: Program) -> None:
    """A browser that visits each address and its redirects, and shows nothing."""
    folder = program.home / "bin"
    folder.mkdir()
    opener = folder / "xdg-open"
    opener.write_text(BROWSER)
    opener.chmod(0o755)
    program.environ |= {"PATH": f"{folder}:{program.environ['PATH']}", "DISPLAY": ":0"}


async def test_the_user_signs_in_in_the_browser_uses_the_server_and_signs_out(program: Program) -> None:
    install_browser(program)
    async with AuthorizationServer() as authorization, ProtectedServer(authorization) as protected:
        await program.run("mcp", "add", "files", protected.endpoint, "--scope", "user")

        async def state() -> str:
            [record] = json.loads((await program.run("mcp", "list", "--json")).out)
            return str(record["state"])

        assert await state() == "needs-auth"
        assert authorization.requests == []
        signed_in = await program.run("mcp", "login", "files")
        assert (signed_in.code, signed_in.err) == (0, "")
        assert signed_in.out.startswith("Visit this address to sign in to files:\n\n  http://127.0.0.1:")
        assert signed_in.out.endswith("Signed in to files: 2 tools.\n")
        assert await state() == "connected"

        tokens = program.home / ".local/state/agentcli/mcp-tokens.json"
        assert tokens.stat().st_mode & 0o777 == 0o600
        shown = await program.run("mcp", "get", "files")
        assert "secret" not in shown.out + shown.err + signed_in.out

        signed_out = await program.run("mcp", "logout", "files")
        assert (signed_out.code, signed_out.out) == (0, "Signed out of files.\n")
        assert authorization.access == {}
        assert await state() == "needs-auth"
