"""The proxy that this machine uses to reach the internet, from its environment variables."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from agentcli.core.frozen import frozen


@frozen
class Upstream:
    """A proxy that this machine must use. Its credentials stay outside the sandbox."""

    host: str
    port: int
    authorization: str = ""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Upstream | None:
        for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy"):
            parts = urlsplit(environ.get(name, ""))
            if parts.scheme in ("http", "https") and parts.hostname:
                user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
                encoded = base64.b64encode(user.encode()).decode() if parts.username else ""
                return cls(parts.hostname, parts.port or 80, f"Basic {encoded}" if encoded else "")
        return None
