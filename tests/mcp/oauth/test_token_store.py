"""Where tokens are kept: the keyring or a file, and one refresh at a time."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path

import pytest

from agentcli.config.credentials import Vault
from agentcli.mcp import authorization
from agentcli.mcp.authorization import TokenGrant, TokenStore
from tests.support.tables import each_row

pytestmark = pytest.mark.anyio

ADDRESS = "https://example.com:443/mcp"
GRANT = TokenGrant(
    name="files",
    address=ADDRESS,
    issuer="https://auth.example.com",
    client={"client_id": "id", "client_secret": "client-secret", "token_endpoint_auth_method": "client_secret_post"},
    token_endpoint="https://auth.example.com/token",
    redirect_uri="http://127.0.0.1:1/callback",
    revocation_endpoint="https://auth.example.com/revoke",
    resource="https://example.com/mcp",
    access_token="access-secret",
    refresh_token="refresh-secret",
    expires_at=12.5,
    scope="read write",
)


class MemoryVault:
    def __init__(self) -> None:
        self.entries: dict[str, str] = {}

    def read(self, name: str) -> str | None:
        return self.entries.get(name)

    def keep(self, name: str, secret: str) -> None:
        self.entries[name] = secret

    def forget(self, name: str) -> None:
        self.entries.pop(name, None)


def without_keyring() -> Vault | None:
    return None


async def test_a_grant_is_read_as_it_was_kept(tmp_path: Path) -> None:
    await TokenStore(tmp_path, without_keyring).keep(GRANT)
    assert await TokenStore(tmp_path, without_keyring).find("files", ADDRESS) == GRANT
    assert "secret" not in repr(GRANT)


async def test_with_a_keyring_the_file_has_no_token(tmp_path: Path) -> None:
    vault = MemoryVault()
    store = TokenStore(tmp_path, lambda: vault)
    await store.keep(GRANT)
    assert await store.find("files", ADDRESS) == GRANT
    assert "secret" not in (tmp_path / "mcp-tokens.json").read_text()
    await store.forget("files", ADDRESS)
    assert vault.entries == {}
    assert await store.find("files", ADDRESS) is None


async def test_an_entry_that_is_for_another_server_is_not_used(tmp_path: Path) -> None:
    store = TokenStore(tmp_path, without_keyring)
    await store.keep(GRANT)
    path = tmp_path / "mcp-tokens.json"
    path.write_text(path.read_text().replace(f"mcp files {ADDRESS}", "mcp files https://evil.example:443/"))
    assert await store.find("files", "https://evil.example:443/") is None


@each_row("text", ["", "[]", "{}", '{"client": {}}', '{"client": {"client_id": 1}}', "[" * 100_000])
def test_a_broken_entry_is_none(text: str) -> None:
    assert TokenGrant.from_text(text) is None
    assert TokenGrant.from_text(json.dumps(asdict(GRANT)).replace('"scope": "read write"', '"scope": 7')) is None


def test_unknown_fields_of_a_later_version_are_ignored() -> None:
    assert TokenGrant.from_text(json.dumps(asdict(GRANT)).replace('{"name"', '{"new": 1, "name"')) == GRANT


async def test_one_server_is_refreshed_at_a_time_and_others_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authorization, "_LOCK_POLL_SECONDS", 0.001)
    first, second = TokenStore(tmp_path), TokenStore(tmp_path)
    order: list[str] = []

    async def refresh(store: TokenStore, name: str, label: str) -> None:
        async with store.lock_refresh(name, ADDRESS):
            order.append(f"{label} in")
            await asyncio.sleep(0)
            order.append(f"{label} out")

    async with first.lock_refresh("files", ADDRESS):
        waiting = asyncio.ensure_future(refresh(second, "files", "same"))
        await refresh(second, "other", "other")
        order.append("first out")
    await waiting
    assert order == ["other in", "other out", "first out", "same in", "same out"]


async def test_a_lock_that_is_never_released_does_not_block_a_refresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authorization, "_LOCK_SECONDS", 0.0)
    async with TokenStore(tmp_path).lock_refresh("files", ADDRESS), TokenStore(tmp_path).lock_refresh("files", ADDRESS):
        assert list(tmp_path.glob("mcp-tokens.*.lock"))


async def test_a_lock_that_is_a_link_is_refused(tmp_path: Path) -> None:
    async with TokenStore(tmp_path).lock_refresh("files", ADDRESS):
        (lock,) = tmp_path.glob("mcp-tokens.*.lock")
    lock.unlink()
    lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        async with TokenStore(tmp_path).lock_refresh("files", ADDRESS):
            pass
    assert not (tmp_path / "elsewhere").exists()
