"""Tokens for MCP servers, in the system's keyring or in a file that only the user can read.

One entry per server, keyed by its name in the configuration and its URL; changing either one loses the entry.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from agentcli.config.credentials import KeyStore, Vault, system_vault
from agentcli.core.aio import in_thread
from agentcli.mcp.oauth.token_grant import TokenGrant

FILE_NAME = "mcp-tokens.json"
_LOCK_SECONDS = 30.0
_LOCK_POLL_SECONDS = 0.05


class TokenStore:
    """Stores grants. Methods raise `CredentialError`. Without a state folder, tokens live as long as the object."""

    def __init__(self, state_dir: Path | None, vault: Callable[[], Vault | None] = system_vault) -> None:
        self._dir = state_dir
        self._keys = KeyStore(state_dir, vault, file_name=FILE_NAME, command="agentcli mcp login")
        self._memory: dict[str, TokenGrant] = {}

    async def find(self, name: str, address: str) -> TokenGrant | None:
        key = _key(name, address)
        if self._dir is None:
            return self._memory.get(key)
        stored = await in_thread(self._keys.find, key)
        grant = TokenGrant.from_text(stored.key) if stored is not None else None
        return grant if grant is not None and (grant.name, grant.address) == (name, address) else None

    async def keep(self, grant: TokenGrant) -> None:
        key = _key(grant.name, grant.address)
        if self._dir is None:
            self._memory[key] = grant
        else:
            await in_thread(self._keys.keep, key, grant.to_text())

    async def forget(self, name: str, address: str) -> None:
        key = _key(name, address)
        if self._dir is None:
            self._memory.pop(key, None)
        else:
            await in_thread(self._keys.forget, key)

    @asynccontextmanager
    async def refreshing(self, name: str, address: str) -> AsyncIterator[None]:
        """Keep other processes from refreshing the same tokens: a refresh token is often valid only once.

        A process that holds the lock for too long is ignored.
        """
        if self._dir is None:
            yield
            return
        digest = hashlib.sha256(_key(name, address).encode()).hexdigest()[:16]
        path = self._dir / f"{FILE_NAME.removesuffix('.json')}.{digest}.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            for _attempt in range(int(_LOCK_SECONDS / _LOCK_POLL_SECONDS)):
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(_LOCK_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)


def _key(name: str, address: str) -> str:
    return f"mcp {name} {address}"
