"""Which endpoint, which key, and where each came from.

A key is never in a `repr`, a log line or a message: those name its source. A key helper is a command from the
user's own settings (S3: a repository's settings never reach this module); it runs when the first request needs it.

The first of these that is there: ANTHROPIC_AUTH_TOKEN, ANTHROPIC_API_KEY, the `apiKeyHelper` setting, the key that
`agentcli login` kept for exactly the address that requests go to.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from agentcli.config.credentials import StoredKey
from agentcli.core.errors import CredentialError, MissingKeyError, UsageError
from agentcli.core.format import elapsed
from agentcli.core.frozen import frozen
from agentcli.core.own_programs import PIPE, kill_group, shell_command, start_program_async, user_environment

PUBLIC_BASE_URL = "https://api.anthropic.com"
_RUN_IT_YOURSELF = "Run the command of the `apiKeyHelper` setting yourself to see why."
_SECRETS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
LOGIN = "agentcli login"
"""The source of a kept key, in words."""
_NO_KEY = (
    "There is no API key. Run `agentcli login`, set ANTHROPIC_API_KEY, or set ANTHROPIC_BASE_URL to a server of your "
    "own that speaks the Messages API. `agentcli demo` shows agentcli without any."
)


class KeyHelper:
    """A command that prints a key. Its output is kept in memory until it is refused.

    It runs in the home folder: a relative path in it must not name a file of the project, which the agent can write.
    """

    def __init__(
        self,
        command: str,
        environ: Mapping[str, str],
        working_dirs: Sequence[Path] = (),
        timeout_seconds: float = 30.0,
    ) -> None:
        self._command = command
        known = {name: value for name, value in environ.items() if name not in _SECRETS}
        self._environ = user_environment(known, working_dirs)
        home = environ.get("HOME", "")
        self._folder = home if os.path.isabs(home) and os.path.isdir(home) else "/"  # noqa: PTH112, PTH117
        self._timeout = timeout_seconds
        self._key = ""
        self._running = asyncio.Lock()

    async def read(self, *, fresh: bool = False) -> str:
        """The key. Raises `CredentialError` with what to do; the command's output is never part of it."""
        async with self._running:
            if fresh or not self._key:
                self._key = await self._run()
            return self._key

    async def _run(self) -> str:
        try:
            process = await start_program_async(
                shell_command(self._command),
                cwd=self._folder,
                environ=self._environ,
                stdout=PIPE,
            )
        except OSError as error:
            raise CredentialError(f"The key helper cannot be started: {error}. Check `apiKeyHelper`.") from None
        output = b""
        try:
            async with asyncio.timeout(self._timeout):
                output, _nothing = await process.communicate()
        except TimeoutError:
            span = elapsed(self._timeout)
            raise CredentialError(f"The key helper gave no key within {span}. {_RUN_IT_YOURSELF}") from None
        finally:
            await _end(process)
        if process.returncode:
            raise CredentialError(f"The key helper failed (exit {process.returncode}). {_RUN_IT_YOURSELF}")
        key = output.decode("utf-8", "replace").strip()
        if not is_key(key):
            raise CredentialError("The key helper printed no key. It must print the key and nothing else.")
        return key


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        kill_group(process.pid)
        await process.wait()


@frozen
class Credentials:
    base_url: str = PUBLIC_BASE_URL
    """Without a trailing slash and without `/v1`."""
    api_key: str = field(default="", repr=False)
    auth_token: str = field(default="", repr=False)
    source: str = "none"
    """Where the key or token came from, for people: `ANTHROPIC_API_KEY`, `apiKeyHelper`, `agentcli login` or `none`."""
    base_url_source: str = "default"
    kept_in: str = ""
    """Where a kept key is kept."""
    helper: KeyHelper | None = field(default=None, repr=False)

    @property
    def host(self) -> str:
        parts = urlsplit(self.base_url)
        return parts.netloc.rpartition("@")[2] or self.base_url

    @property
    def hint(self) -> str:
        """The end of the key, by which its owner knows which it is; empty for one that is short or not known yet."""
        secret = self.auth_token or self.api_key
        return f"…{secret[-4:]}" if len(secret) >= 24 else ""

    async def headers(self) -> dict[str, str]:
        """Raises `CredentialError` if a key helper fails."""
        if self.auth_token:
            return {"authorization": f"Bearer {self.auth_token}"}
        key = await self.helper.read() if self.helper is not None else self.api_key
        if not key:
            return {}
        # The API takes the key as a bearer token since its version 2026-10-21; servers that speak an older one
        # look for x-api-key, and those in between for either.
        headers = {"authorization": f"Bearer {key}"}
        return headers if self.base_url == PUBLIC_BASE_URL else {**headers, "x-api-key": key}

    async def renew(self) -> bool:
        """The key was refused: read it anew. True if another one came; a helper that fails brings none."""
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
    """From the environment, the user's settings (`apiKeyHelper`, `baseUrl`) and what was kept; the environment wins.

    A server other than the public one may need no key. Raises `CredentialError` or `UsageError`. Runs nothing.
    `working_dirs`: where the key helper's programs are never looked for.
    """
    from_environ = environ.get("ANTHROPIC_BASE_URL", "").strip()
    url = normal_base_url(from_environ or (base_url or "").strip() or PUBLIC_BASE_URL)
    url_source = "ANTHROPIC_BASE_URL" if from_environ else "settings" if base_url else "default"
    key, token = (environ.get(name, "").strip() for name in _SECRETS)
    for name, value in zip(_SECRETS, (key, token), strict=True):
        if value and not is_key(value):
            raise CredentialError(f"{name} has characters that no key has. Set it again, without quotes and line ends.")
    if token:
        return Credentials(url, auth_token=token, source="ANTHROPIC_AUTH_TOKEN", base_url_source=url_source)
    if key:
        return Credentials(url, api_key=key, source="ANTHROPIC_API_KEY", base_url_source=url_source)
    if api_key_helper:
        helper = KeyHelper(api_key_helper, environ, working_dirs)
        return Credentials(url, source="apiKeyHelper", base_url_source=url_source, helper=helper)
    return with_kept_key(url, url_source, kept)


def with_kept_key(url: str, url_source: str, kept: Callable[[str], StoredKey | None] | None = None) -> Credentials:
    """Nothing but the key that was kept for this address; a server of one's own may need none. Raises
    `CredentialError`."""
    found = kept(bound_to(url)) if kept is not None else None
    if found is None and url == PUBLIC_BASE_URL:
        raise MissingKeyError(_NO_KEY)
    if found is None:
        return Credentials(url, base_url_source=url_source)
    if not is_key(found.key):
        raise CredentialError(f"What is kept in {found.where} for {url} is no key. Run `agentcli login` again.")
    return Credentials(url, api_key=found.key, source=LOGIN, base_url_source=url_source, kept_in=found.where)


def is_key(text: str) -> bool:
    """Whether it can be sent as a key: a header takes no blanks, no control characters and nothing but ASCII."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def bound_to(base_url: str) -> str:
    """An address as keys are kept for it: spelled in one way, so that the same server is the same text."""
    parts = urlsplit(normal_base_url(base_url))
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    usual = {"http": 80, "https": 443}[parts.scheme]
    port = f":{parts.port}" if parts.port not in (None, usual) else ""
    return urlunsplit((parts.scheme, host + port, parts.path, "", ""))


def normal_base_url(url: str) -> str:
    """The base without trailing slashes and without `/v1`, which some servers' instructions include."""
    try:
        parts = urlsplit(url)
        _port = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        # Somebody may have set the key in the address's place.
        said = "looks like a key" if url.startswith("sk-") else f"{shown_url(url)!r} is not one"
        raise UsageError(f"The base URL {said}. It must look like http://localhost:8080 or https://host.")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def shown_url(url: str) -> str:
    """An address for people: without the user name and password that may stand in it."""
    before, slashes, rest = url.partition("//") if "//" in url else ("", "", url)
    netloc, slash, path = rest.partition("/")
    return f"{before}{slashes}…@{netloc.rpartition('@')[2]}{slash}{path}" if "@" in netloc else url
