"""One MCP server's sign-in: its tokens, where they are kept, their refresh, signing in and out.

A connection never starts a sign-in: it reports that one is needed (`refusal`), and the user decides. Tokens are in the
system's keyring or in a file that only the user can read: one entry per server, keyed by its name in the configuration
and its URL. Changing either one loses the entry.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agentcli.config.credentials import KeyStore, Vault, system_vault
from agentcli.core.addresses import WebAddress, host_address, parse_web_address
from agentcli.core.aio import in_thread
from agentcli.core.errors import CredentialError
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.processes.own_programs import open_in_browser
from agentcli.core.text.plaintext import plain_line
from agentcli.mcp.configuration import ServerConfig, ServerSurroundings
from agentcli.mcp.connection import McpFailure

if TYPE_CHECKING:
    import httpx2

    from agentcli.mcp.sign_in import SignIn

FILE_NAME = "mcp-tokens.json"
_LOCK_SECONDS = 30.0
_LOCK_POLL_SECONDS = 0.05


@frozen
class AuthChallenge:
    """Contents of a server's `WWW-Authenticate` header."""

    metadata_url: str = ""
    scope: str = ""
    lacks_scope: bool = False
    """Whether the token is valid, but not for this request."""


@frozen
class TokenGrant:
    """Client and tokens of one server. Without tokens it is only a registration, kept for the next sign-in."""

    name: str
    """The server's name in the configuration."""
    address: str
    """The server's origin and path. The tokens are only for it."""
    issuer: str
    client: Json = field(repr=False)
    """The client at the authorization server, as the library describes it."""
    token_endpoint: str
    redirect_uri: str = ""
    """The redirect URI that was registered; empty: the client is not one that agentcli registered."""
    revocation_endpoint: str = ""
    resource: str = ""
    access_token: str = field(default="", repr=False)
    refresh_token: str = field(default="", repr=False)
    expires_at: float = 0
    """When to renew the access token, as a Unix time; 0: unknown."""
    scope: str = ""

    def is_expired(self, now: float) -> bool:
        return bool(self.expires_at) and now >= self.expires_at

    def without_tokens(self) -> TokenGrant:
        return replace(self, access_token="", refresh_token="", expires_at=0)

    @classmethod
    def from_text(cls, text: str) -> TokenGrant | None:
        """Parse a stored grant; None if it is invalid."""
        kinds: dict[str, Any] = dict.fromkeys((each.name for each in fields(cls)), str)
        kinds |= {"client": dict, "expires_at": (int, float)}
        try:
            values = {name: value for name, value in json.loads(text).items() if name in kinds}
            is_valid = all(isinstance(value, kinds[name]) for name, value in values.items())
            return cls(**values) if is_valid and isinstance(values["client"]["client_id"], str) else None
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            return None


def origin_of(url: str) -> str:
    """Scheme, host and port in normalised form; empty if it is not a web URL."""
    parsed = parse_web_address(url)
    return "" if isinstance(parsed, str) else f"{parsed.scheme}://{parsed.shown_host}:{parsed.port}"


def address_of(url: str) -> str:
    """Origin and path of a server, to which tokens are bound; empty if it is not a web URL."""
    origin = origin_of(url)
    return origin and origin + (urlsplit(url).path or "/")


def is_safe_for_tokens(url: str) -> bool:
    """Whether tokens may be sent there: https, or this machine."""
    address = parse_web_address(url)
    return not isinstance(address, str) and (address.scheme == "https" or is_loopback(address))


def is_loopback(address: WebAddress) -> bool:
    literal = host_address(address.host)
    is_local_name = address.host == "localhost" or address.host.endswith(".localhost")
    return is_local_name or (literal is not None and literal.is_loopback)


class TokenStore:
    """Stores grants. Methods raise `CredentialError`. Without a state folder, tokens live as long as the object."""

    def __init__(self, state_dir: Path | None, vault: Callable[[], Vault | None] = system_vault) -> None:
        self._dir = state_dir
        self._keys = KeyStore(state_dir, vault, file_name=FILE_NAME, command="agentcli mcp login")
        self._memory: dict[str, str] = {}

    async def find(self, name: str, address: str) -> TokenGrant | None:
        key = _key(name, address)
        stored = await in_thread(self._keys.find, key) if self._dir is not None else None
        grant = TokenGrant.from_text(stored.key if stored is not None else self._memory.get(key, ""))
        return grant if grant is not None and (grant.name, grant.address) == (name, address) else None

    async def keep(self, grant: TokenGrant) -> None:
        key, text = _key(grant.name, grant.address), json.dumps(asdict(grant))
        if self._dir is None:
            self._memory[key] = text
        else:
            await in_thread(self._keys.keep, key, text)

    async def forget(self, name: str, address: str) -> None:
        key = _key(name, address)
        if self._memory.pop(key, None) is None and self._dir is not None:
            await in_thread(self._keys.forget, key)

    @asynccontextmanager
    async def lock_refresh(self, name: str, address: str) -> AsyncIterator[None]:
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


class ServerAuthorization:
    """Sign-in state of one server. Methods that use the network or the store raise `McpFailure`."""

    def __init__(self, config: ServerConfig, around: ServerSurroundings) -> None:
        self.refusal = ""
        """Why the user has to sign in, as sentences; empty if no request was refused."""
        self._config = config
        self._around = around
        self._store = TokenStore(around.state_dir)
        self._key = (config.name, address_of(config.url))
        self._origin = origin_of(config.url)
        self._grant: TokenGrant | None = None
        self._is_loaded = False
        self._refreshing = asyncio.Lock()
        self._challenge: AuthChallenge | None = None
        self._missing_scope = ""
        self._reports_scope = False
        self._flow: SignIn | None = None

    def begin(self) -> httpx2.Auth:
        """Authorization for a new connection. Reads the tokens again, as another process may have changed them."""
        from agentcli.mcp.http_transport import BearerAuth

        self.refusal = ""
        self._is_loaded = False
        return BearerAuth(self)

    # -------------------------------------------------------------------------------------------- used by connections

    async def token_for(self, url: str) -> str:
        """The token for a request to this URL, renewed if it has expired; empty if there is none for it."""
        if origin_of(url) != self._origin or not is_safe_for_tokens(url):
            return ""
        grant = await self._current()
        if grant is None or not grant.access_token:
            return ""
        return await self.renewed(grant.access_token) if grant.is_expired(time.time()) else grant.access_token

    async def renewed(self, used: str) -> str:
        """The token that replaces `used`, which has expired or was refused; empty if the user has to sign in again."""
        async with self._refreshing:
            grant = await self._current()
            if grant is None or grant.access_token != used:
                return grant.access_token if grant is not None else ""
            async with self._lock_stored(), self._store.lock_refresh(*self._key):
                self._grant = grant = await self._store.find(*self._key)
                if grant is None or grant.access_token != used:
                    return grant.access_token if grant is not None else ""
                self._grant = await self._refresh(grant)
                await self._store.keep(self._grant)
                return self._grant.access_token

    def refuse(self, challenge: AuthChallenge, used: str) -> None:
        """Record that the server refuses requests without a sign-in."""
        self._challenge = challenge
        name = plain_line(self._config.name, 80)
        if not is_safe_for_tokens(self._config.url):
            self.refusal = f"{name} asks for a sign-in but its address is not encrypted (https). Change its url."
        else:
            why = "The sign-in is no longer accepted." if used or self._grant is not None else "Not signed in."
            self.refusal = f"{why} Sign in with /mcp, or run: agentcli mcp login {name}"

    def note_missing_scope(self, challenge: AuthChallenge) -> None:
        """Record that a request needs a scope that the sign-in did not grant."""
        from mcp.client.auth.utils import union_scopes

        self._challenge = challenge
        self._missing_scope = union_scopes(self._missing_scope, challenge.scope) or ""
        self._reports_scope = True

    def scope_problem(self) -> str:
        """Why the last request was refused, if for a missing scope; reported once."""
        if not self._reports_scope:
            return ""
        self._reports_scope = False
        scope = f" ({plain_line(self._missing_scope, 200)})" if self._missing_scope else ""
        name = plain_line(self._config.name, 80)
        return (
            f"This needs more rights than the sign-in gave{scope}. "
            f"Sign in again with /mcp, or run: agentcli mcp login {name}"
        )

    # ---------------------------------------------------------------------------------------------- started by the user

    async def sign_in(self, show: Callable[[str], None]) -> None:
        """Let the user sign in. `show` gets the URL, which is also opened if there is a browser."""
        if self._flow is not None:
            raise McpFailure(f"A sign-in to {self._config.name} is already waiting for the browser.")
        if not is_safe_for_tokens(self._config.url):
            raise McpFailure(f"{self._config.name} is not encrypted (https), so it gets no token. Change its url.")

        async def show_and_open(address: str) -> None:
            show(address)
            if self._around.opens_browser:
                await in_thread(open_in_browser, address, self._around.environ, self._around.working_dirs)

        await in_thread(_import_library)
        from agentcli.mcp.auth_requests import AuthRequests
        from agentcli.mcp.sign_in import SignIn

        async with self._lock_stored():
            earlier = await self._store.find(*self._key)
        async with AuthRequests(self._config.url) as requests:
            challenge = self._challenge or await requests.challenge("GET" if self._config.kind == "sse" else "POST")
            flow = SignIn(requests, self._config, challenge, earlier, self._missing_scope)
            grant = await self._complete(flow, show_and_open)
        async with self._lock_stored():
            await self._store.keep(grant)
        self._grant, self._is_loaded = grant, True
        self.refusal, self._missing_scope, self._challenge = "", "", None

    def paste(self, text: str) -> None:
        """Complete the waiting sign-in with the URL that the browser was redirected to, or the code in it."""
        if self._flow is None:
            raise McpFailure(f"No sign-in to {self._config.name} is waiting.")
        self._flow.paste(text)

    async def sign_out(self) -> str:
        """Delete the tokens here, and revoke them if the server supports it. Returns why they were not revoked, or
        ""."""
        async with self._lock_stored():
            grant = await self._store.find(*self._key)
            await self._store.forget(*self._key)
        self._grant, self._is_loaded = None, True
        if grant is None:
            return ""
        await in_thread(_import_library)
        from agentcli.mcp.auth_requests import AuthRequests, revoke

        try:
            async with AuthRequests(self._config.url) as requests:
                await revoke(requests, grant)
        except McpFailure as failure:
            return f"The tokens were deleted here but not revoked: {failure}"
        return ""

    # --------------------------------------------------------------------------------------------------------- helpers

    async def _complete(self, flow: SignIn, show: Callable[[str], Awaitable[None]]) -> TokenGrant:
        from agentcli.mcp.auth_requests import RefusedFailure

        self._flow = flow
        try:
            return await flow.run(show)
        except RefusedFailure as refused:
            if refused.code == "invalid_client":
                # The server has forgotten the registration: the next sign-in registers again.
                async with self._lock_stored():
                    await self._store.forget(*self._key)
            raise
        finally:
            self._flow = None

    async def _current(self) -> TokenGrant | None:
        if not self._is_loaded:
            async with self._lock_stored():
                self._grant = await self._store.find(*self._key)
            self._is_loaded = True
        return self._grant

    async def _refresh(self, grant: TokenGrant) -> TokenGrant:
        """The grant with new tokens; without tokens if the authorization server refuses or there is no refresh
        token."""
        from agentcli.mcp.auth_requests import AuthRequests, RefusedFailure, refresh

        if not grant.refresh_token:
            return grant.without_tokens()
        try:
            async with AuthRequests(self._config.url) as requests:
                return await refresh(requests, grant)
        except RefusedFailure:
            return grant.without_tokens()

    @asynccontextmanager
    async def _lock_stored(self) -> AsyncIterator[None]:
        try:
            yield
        except CredentialError as error:
            raise McpFailure(str(error)) from None
        except OSError as error:
            raise McpFailure(f"The tokens cannot be stored: {error.strerror}.") from None


def authorization_for(config: ServerConfig, around: ServerSurroundings) -> ServerAuthorization | None:
    """The sign-in state of a server; None without HTTP, or if its configuration has its own credentials."""
    has_own = any(name.lower() == "authorization" for name in config.headers) or config.headers_helper
    return None if config.kind == "stdio" or has_own else ServerAuthorization(config, around)


def _import_library() -> None:
    import agentcli.mcp.sign_in  # noqa: F401
