"""Find the endpoint and the API key, and record their sources.

A key is never in a `repr`, a log line or a message: those name its source. A key helper is a command from the user's
settings (a repository's settings never reach this module); it runs when the first request needs it.

Order of precedence: ANTHROPIC_AUTH_TOKEN, ANTHROPIC_API_KEY, the `apiKeyHelper` setting, the key that `agentcli login`
stored for the exact address of requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from agentcli.config.credentials import StoredKey
from agentcli.core.errors import CredentialError, MissingKeyError, UsageError
from agentcli.core.frozen import frozen
from agentcli.core.processes.own_programs import run_helper
from agentcli.core.text.format import format_elapsed

PUBLIC_BASE_URL = "https://api.anthropic.com"
_RUN_IT_YOURSELF = "Run the command of the `apiKeyHelper` setting yourself to see why."
_SECRETS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
LOGIN = "agentcli login"
"""Source name of a stored key."""
_NO_KEY = (
    "No API key found. Run `agentcli login` or set ANTHROPIC_API_KEY; for a server of your own, set "
    "ANTHROPIC_BASE_URL. `agentcli demo` needs no key."
)


class KeyHelper:
    """A command that prints a key. Its output is kept in memory until the server refuses it."""

    def __init__(
        self,
        command: str,
        environ: Mapping[str, str],
        working_dirs: Sequence[Path] = (),
        timeout_seconds: float = 30.0,
    ) -> None:
        self._command = command
        self._environ = {name: value for name, value in environ.items() if name not in _SECRETS}
        self._working_dirs = working_dirs
        self._timeout = timeout_seconds
        self._key = ""
        self._running = asyncio.Lock()

    async def read(self, *, fresh: bool = False) -> str:
        """The key. Raises `CredentialError`, which never contains the command's output."""
        async with self._running:
            if fresh or not self._key:
                self._key = await self._run()
            return self._key

    async def _run(self) -> str:
        try:
            done = await run_helper(
                self._command, environ=self._environ, working_dirs=self._working_dirs, seconds=self._timeout
            )
        except TimeoutError:
            span = format_elapsed(self._timeout)
            raise CredentialError(f"The key helper printed no key within {span}. {_RUN_IT_YOURSELF}") from None
        except OSError as error:
            raise CredentialError(f"Cannot start the key helper: {error}. Check `apiKeyHelper`.") from None
        if done.code:
            raise CredentialError(f"The key helper failed (exit {done.code}). {_RUN_IT_YOURSELF}")
        key = done.output.decode("utf-8", "replace").strip()
        if not is_key(key):
            raise CredentialError("The key helper printed no key. It must print the key and nothing else.")
        return key


@frozen
class Credentials:
    base_url: str = PUBLIC_BASE_URL
    """Without a trailing slash and without `/v1`."""
    api_key: str = field(default="", repr=False)
    auth_token: str = field(default="", repr=False)
    source: str = "none"
    """Source of the key or token: `ANTHROPIC_API_KEY`, `apiKeyHelper`, `agentcli login` or `none`."""
    base_url_source: str = "default"
    kept_in: str = ""
    """Location of a stored key."""
    helper: KeyHelper | None = field(default=None, repr=False)

    @property
    def host(self) -> str:
        parts = urlsplit(self.base_url)
        return parts.netloc.rpartition("@")[2] or self.base_url

    @property
    def hint(self) -> str:
        """The last characters of the key, to recognise it; empty if the key is short or not read yet."""
        secret = self.auth_token or self.api_key
        return f"…{secret[-4:]}" if len(secret) >= 24 else ""

    async def headers(self) -> dict[str, str]:
        """The authentication headers. Raises `CredentialError` if a key helper fails."""
        if self.auth_token:
            return {"authorization": f"Bearer {self.auth_token}"}
        key = await self.helper.read() if self.helper is not None else self.api_key
        if not key:
            return {}
        # The API accepts the key as a bearer token since version 2026-10-21; older servers expect x-api-key, and those
        # in between accept either.
        headers = {"authorization": f"Bearer {key}"}
        return headers if self.base_url == PUBLIC_BASE_URL else {**headers, "x-api-key": key}

    async def renew(self) -> bool:
        """Read the key again after it was refused. True if a different one came; False also if the helper fails."""
        if self.helper is None:
            return False
        try:
            old = await self.helper.read()
            return await self.helper.read(fresh=True) != old
        except CredentialError:
            return False


def resolve_credentials(
    environ: Mapping[str, str],
    api_key_helper: str | None = None,
    base_url: str | None = None,
    kept: Callable[[str], StoredKey | None] | None = None,
    working_dirs: Sequence[Path] = (),
) -> Credentials:
    """Resolve credentials from the environment, the user's settings (`apiKeyHelper`, `baseUrl`) and stored keys; the
    environment takes precedence.

    A server other than the public one may need no key. Raises `CredentialError` or `UsageError`. Runs no program.
    `working_dirs`: folders in which the key helper's programs are never looked up.
    """
    from_environ = environ.get("ANTHROPIC_BASE_URL", "").strip()
    url = normal_base_url(from_environ or (base_url or "").strip() or PUBLIC_BASE_URL)
    url_source = "ANTHROPIC_BASE_URL" if from_environ else "settings" if base_url else "default"
    key, token = (environ.get(name, "").strip() for name in _SECRETS)
    for name, value in zip(_SECRETS, (key, token), strict=True):
        if value and not is_key(value):
            raise CredentialError(f"{name} contains invalid characters. Set it again without quotes and line breaks.")
    if token:
        return Credentials(url, auth_token=token, source="ANTHROPIC_AUTH_TOKEN", base_url_source=url_source)
    if key:
        return Credentials(url, api_key=key, source="ANTHROPIC_API_KEY", base_url_source=url_source)
    if api_key_helper:
        helper = KeyHelper(api_key_helper, environ, working_dirs)
        return Credentials(url, source="apiKeyHelper", base_url_source=url_source, helper=helper)
    return with_kept_key(url, url_source, kept)


def with_kept_key(url: str, url_source: str, kept: Callable[[str], StoredKey | None] | None = None) -> Credentials:
    """Credentials with the key stored for this address; a server other than the public one may need none. Raises
    `CredentialError`."""
    found = kept(bound_to(url)) if kept is not None else None
    if found is None and url == PUBLIC_BASE_URL:
        raise MissingKeyError(_NO_KEY)
    if found is None:
        return Credentials(url, base_url_source=url_source)
    if not is_key(found.key):
        raise CredentialError(f"The entry for {url} in {found.where} is not a key. Run `agentcli login` again.")
    return Credentials(url, api_key=found.key, source=LOGIN, base_url_source=url_source, kept_in=found.where)


def is_key(text: str) -> bool:
    """Whether the text can be sent as a key: a header allows only ASCII without blanks and control characters."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def bound_to(base_url: str) -> str:
    """The normalised address under which keys are stored."""
    parts = urlsplit(normal_base_url(base_url))
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    usual = {"http": 80, "https": 443}[parts.scheme]
    port = f":{parts.port}" if parts.port not in (None, usual) else ""
    return urlunsplit((parts.scheme, host + port, parts.path, "", ""))


def normal_base_url(url: str) -> str:
    """The base URL without trailing slashes and `/v1`, which some servers' instructions include."""
    try:
        parts = urlsplit(url)
        _port = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        # Never print the text if it may be a key.
        said = "looks like a key" if url.startswith("sk-") else f"{show_url(url)!r} is not a URL"
        raise UsageError(f"The base URL {said}. It must look like http://localhost:8080 or https://host.")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def show_url(url: str) -> str:
    """An address for display, without its user name and password."""
    before, slashes, rest = url.partition("//") if "//" in url else ("", "", url)
    netloc, slash, path = rest.partition("/")
    return f"{before}{slashes}…@{netloc.rpartition('@')[2]}{slash}{path}" if "@" in netloc else url
