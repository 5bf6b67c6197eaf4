"""Which sign-ins open the user's browser."""

from __future__ import annotations

import sys

import pytest

from tests.core.test_browser import opener
from tests.mcp.oauth.signing_in import SignInBench, connect, on_bench, sign_in

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="the opener has another name")


@pytest.mark.anyio
@pytest.mark.parametrize("opens_browser", [True, False])
@on_bench
async def test_only_a_sign_in_opens_the_browser_and_the_address_is_shown_first(
    bench: SignInBench, opens_browser: bool
) -> None:
    opened = opener(bench.folder / "bin")
    environ = {"PATH": f"{bench.folder / 'bin'}:/usr/bin:/bin", "DISPLAY": ":0"}
    server = bench.client(environ=environ, opens_browser=opens_browser)
    await connect(server)
    assert (server.state, opened.exists()) == ("needs-auth", False)
    address = await sign_in(server)
    assert opened.exists() == opens_browser
    if opens_browser:
        assert opened.read_text().splitlines()[0] == f"1|{address}"
