"""Configuration of MCP servers: parse `{"mcpServers": {"name": {…}}}`, and show an entry without its secrets.

Reads no file and starts nothing. A server with an invalid entry is left out and reported; the others are used.
Variables (`${NAME}`, `${NAME:-default}`) are filled in from the environment; `ServerConfig.entry` keeps the text that
the user approved.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from agentcli.config.files import MAX_PROBLEMS, short
from agentcli.config.trust_effects import VARIABLE, variables_in
from agentcli.core.frozen import frozen
from agentcli.core.text.format import counted
from agentcli.core.text.secret_text import (
    assigns_secret,
    holds_secret,
    is_random,
    is_secret_name,
    without_url_credentials,
)

TransportKind = Literal["stdio", "http", "sse"]
ServerSource = Literal["caller", "flag", "local", "project", "user"]
"""Where a server is configured, highest precedence first: a program that uses agentcli, `--mcp-config`, the user's own
servers for one project, the project's `.mcp.json`, the user's servers for all projects."""


@frozen
class OAuthConfig:
    """Settings for signing in. Empty ones are discovered."""

    client_id: str = ""
    """Id of a client that was registered beforehand."""
    client_secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = ()
    callback_port: int = 0
    """Port of the redirect listener on this machine; 0: any."""
    metadata_url: str = ""
    """URL of the authorization server's metadata; empty: discovered."""
    client_metadata_url: str = ""
    """URL of a client ID metadata document, which serves as the client id where servers accept that."""


@frozen
class ServerConfig:
    """One server, with variables filled in."""

    name: str
    kind: TransportKind
    source: ServerSource = "user"
    origin: str = ""
    """The configuration file, for display."""
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    headers_helper: str = ""
    """A shell command that prints additional headers as a JSON object."""
    timeout: float | None = None
    """Seconds for one call; None: the session's default."""
    always_load: bool = False
    """Whether its tools are never deferred."""
    oauth: OAuthConfig = OAuthConfig()
    disabled: bool = False
    """Whether it is not started unless the user enables it."""
    entry: Mapping[str, object] = field(default_factory=dict)
    """The entry as written, before variables were filled in, to show it without secrets. Empty for a caller's
    server."""
    variables: tuple[str, ...] = ()
    """Names of the environment variables that the entry refers to."""


@frozen
class ServerSurroundings:
    """The parts of the session that servers use."""

    cwd: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    """The user's environment; a server gets a safe part of it."""
    working_dirs: tuple[Path, ...] = ()
    state_dir: Path | None = None
    """Folder for tokens and logs; None: nothing is stored."""
    opens_browser: bool = False
    """Whether the session is interactive, so that the user can sign in."""


MAX_SERVERS = 200
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RESERVED = ("agentcli", "ide", "sdk")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\0-\x08\x0a-\x1f\x7f]")
_KINDS: Mapping[str, TransportKind] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
_STDIO_KEYS = ("command", "args", "env")
_HTTP_KEYS = ("url", "headers", "headersHelper", "oauth")
_COMMON_KEYS = ("type", "timeout", "alwaysLoad", "disabled")
_OAUTH_KEYS = ("clientId", "clientSecret", "scopes", "callbackPort", "authServerMetadataUrl", "clientMetadataUrl")


@frozen
class ServerProblem:
    """A problem in a configuration, as one or two sentences for the user."""

    text: str
    server: str = ""
    """Name of the server that is left out; empty if none is."""
    unsupported: bool = False
    """Whether the entry is valid elsewhere, but not supported here."""
    reason: str = ""
    """Why the server is left out; `text` adds that it is."""


@frozen
class ParsedServers:
    configs: tuple[ServerConfig, ...] = ()
    problems: tuple[ServerProblem, ...] = ()


class _Invalid(Exception):
    """The entry is not usable; `str(error)` is the reason, without a full stop."""

    def __init__(self, reason: str, *, unsupported: bool = False) -> None:
        super().__init__(reason)
        self.unsupported = unsupported


def parse_servers(servers: object, source: ServerSource, origin: str, environ: Mapping[str, str]) -> ParsedServers:
    """Parse servers. `servers`: the value of `mcpServers`. `origin`: the file or flag, for messages."""
    if not isinstance(servers, Mapping):
        return ParsedServers((), (ServerProblem(f"{origin}: 'mcpServers' must be an object."),))
    configs: list[ServerConfig] = []
    problems: list[ServerProblem] = []
    for name, entry in list(servers.items())[:MAX_SERVERS]:
        reading = _Entry(str(name), source, origin, environ)
        config = reading.read(entry)
        problems += reading.problems
        if config is not None:
            configs.append(config)
    if (rest := len(servers) - MAX_SERVERS) > 0:
        problems.append(ServerProblem(f"{origin}: {counted(rest, 'server')} beyond {MAX_SERVERS} are not used."))
    return ParsedServers(tuple(configs), _cut(problems, origin))


def _cut(problems: list[ServerProblem], origin: str) -> tuple[ServerProblem, ...]:
    kept = problems[:MAX_PROBLEMS]
    if rest := len(problems) - len(kept):
        kept.append(ServerProblem(f"{origin}: {counted(rest, 'more problem')} with MCP servers."))
    return tuple(kept)


def name_problem(name: str) -> str:
    """Why a server cannot have this name; empty if it can.

    Tools are called `mcp__<server>__<tool>`, so `__` inside a name would let one server look like another.
    """
    if not _NAME.fullmatch(name):
        return "a name has 1 to 64 letters, digits, '-' and '_'"
    if "__" in name or name.endswith("_"):
        return "a name cannot contain '__' or end with '_'"
    return "this name is reserved" if name.lower() in _RESERVED else ""


class _Entry:
    """Reads one server's entry."""

    def __init__(self, name: str, source: ServerSource, origin: str, environ: Mapping[str, str]) -> None:
        self.problems: list[ServerProblem] = []
        self._name = name
        self._source = source
        self._origin = origin
        self._environ = environ
        self._unset: list[str] = []

    def read(self, entry: object) -> ServerConfig | None:
        try:
            if problem := name_problem(self._name):
                raise _Invalid(problem)
            if not isinstance(entry, Mapping):
                raise _Invalid("the entry must be an object")
            config = self._config(entry)
        except _Invalid as invalid:
            reason = f"{self._origin}: MCP server {short(self._name)}: {invalid}."
            text = f"{reason} The server is not used."
            self.problems = [ServerProblem(text, self._name, invalid.unsupported, reason)]
            return None
        if self._unset:
            names = ", ".join(f"${{{name}}}" for name in dict.fromkeys(self._unset))
            self._say(f"not set and without default: {names}. The text is used as it is.")
        return config

    def _config(self, entry: Mapping[str, Any]) -> ServerConfig:
        kind = self._kind(entry)
        used = _STDIO_KEYS if kind == "stdio" else _HTTP_KEYS
        for key in entry:
            if key not in (*used, *_COMMON_KEYS):
                elsewhere = key in (*_STDIO_KEYS, *_HTTP_KEYS)
                self._say(f"{short(str(key))} is {'not for' if elsewhere else 'unknown for'} a {kind} server; ignored.")
        stdio = kind == "stdio"
        return ServerConfig(
            name=self._name,
            kind=kind,
            source=self._source,
            origin=self._origin,
            command=self._command(entry) if stdio else "",
            args=self._texts(entry, "args") if stdio else (),
            env=self._env(entry) if stdio else {},
            url="" if stdio else self._url(entry),
            headers={} if stdio else self._headers(entry),
            headers_helper="" if stdio else self._text(entry, "headersHelper", "", fill=False),
            timeout=self._timeout(entry),
            always_load=self._switch(entry, "alwaysLoad"),
            oauth=OAuthConfig() if stdio else self._oauth(entry),
            disabled=self._switch(entry, "disabled"),
            entry=dict(entry),
            variables=variables_in(
                {key: entry[key] for key in (*_STDIO_KEYS, "url", "headers", "oauth") if key in entry}
            ),
        )

    def _kind(self, entry: Mapping[str, Any]) -> TransportKind:
        wanted = entry.get("type")
        if wanted == "sdk":
            raise _Invalid("type 'sdk', a server inside another program, is not supported", unsupported=True)
        if wanted is None:
            if "command" in entry:
                return "stdio"
            if "url" not in entry:
                raise _Invalid("'command' or 'url' is missing")
            self._say("'type' is missing; 'http' is assumed. Servers of the older kind need \"type\": \"sse\".")
            return "http"
        kind = _KINDS.get(wanted) if isinstance(wanted, str) else None
        if kind is None:
            raise _Invalid("'type' must be stdio, http or sse")
        return kind

    # ----------------------------------------------------------------------------------------------------- values

    def _command(self, entry: Mapping[str, Any]) -> str:
        command = self._text(entry, "command")
        if not command.strip():
            raise _Invalid("'command' is empty")
        return command

    def _url(self, entry: Mapping[str, Any]) -> str:
        url = self._text(entry, "url")
        if problem := url_problem(url):
            raise _Invalid(f"'url' {problem}")
        return url

    def _env(self, entry: Mapping[str, Any]) -> dict[str, str]:
        values = self._text_map(entry, "env")
        for name in values:
            if not name or "=" in name or "\0" in name:
                raise _Invalid(f"'env' has an invalid variable name, {short(name)}")
        return values

    def _headers(self, entry: Mapping[str, Any]) -> dict[str, str]:
        values = self._text_map(entry, "headers")
        for name, value in values.items():
            if not _HEADER_NAME.fullmatch(name):
                raise _Invalid(f"'headers' has an invalid header name, {short(name)}")
            if _CONTROL.search(value):
                raise _Invalid(f"the header {short(name)} contains control characters")
        return values

    def _text(self, entry: Mapping[str, Any], key: str, default: str | None = None, *, fill: bool = True) -> str:
        value = entry.get(key, default)
        if value is None and key not in entry:
            raise _Invalid(f"'{key}' is missing")
        if not isinstance(value, str) or "\0" in value:
            raise _Invalid(f"'{key}' must be a string")
        return self._fill(value) if fill else value

    def _texts(self, entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
        value = entry.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) and "\0" not in item for item in value):
            raise _Invalid(f"'{key}' must be a list of strings")
        return tuple(map(self._fill, value))

    def _text_map(self, entry: Mapping[str, Any], key: str) -> dict[str, str]:
        value = entry.get(key, {})
        if not isinstance(value, dict):
            raise _Invalid(f"'{key}' must be an object whose values are strings")
        for name, item in value.items():
            if not isinstance(item, str) or "\0" in item:
                raise _Invalid(f"{short(name)} in '{key}' must be a string")
        return {name: self._fill(item) for name, item in value.items()}

    def _timeout(self, entry: Mapping[str, Any]) -> float | None:
        value = entry.get("timeout")
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86_400_000:
            self._say("'timeout' must be a number of milliseconds, at most a day. It is ignored.")
            return None
        return value / 1000

    def _switch(self, entry: Mapping[str, Any], key: Literal["alwaysLoad", "disabled"]) -> bool:
        value = entry.get(key, False)
        if not isinstance(value, bool):
            raise _Invalid(f"'{key}' must be true or false")
        return value

    def _oauth(self, entry: Mapping[str, Any]) -> OAuthConfig:
        given = entry.get("oauth", {})
        if not isinstance(given, dict):
            raise _Invalid("'oauth' must be an object")
        for key in given:
            if key not in _OAUTH_KEYS:
                self._say(f"{short(key)} in 'oauth' is unknown; ignored.")
        scopes = given.get("scopes", [])
        if isinstance(scopes, str):
            scopes = scopes.split()
        if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
            raise _Invalid("'scopes' in 'oauth' must be a list of strings")
        port = given.get("callbackPort", 0)
        if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 65536:
            raise _Invalid("'callbackPort' in 'oauth' must be a port number")
        metadata, document = self._text(given, "authServerMetadataUrl", ""), self._text(given, "clientMetadataUrl", "")
        if metadata and (problem := url_problem(metadata)):
            raise _Invalid(f"'authServerMetadataUrl' in 'oauth' {problem}")
        if document and not re.fullmatch(r"https://[^/?#]+/[^#]+", document):
            raise _Invalid("'clientMetadataUrl' in 'oauth' must be an https address with a path")
        return OAuthConfig(
            client_id=self._text(given, "clientId", ""),
            client_secret=self._text(given, "clientSecret", ""),
            scopes=tuple(scopes),
            callback_port=port,
            metadata_url=metadata,
            client_metadata_url=document,
        )

    def _fill(self, text: str) -> str:
        """The text with variables filled in; one that is unset and has no default is left unchanged."""

        def value(match: re.Match[str]) -> str:
            name, default = match.groups()
            found = self._environ.get(name, "")
            if found or (name in self._environ and default is None):
                return found
            if default is None:
                self._unset.append(name)
                return match.group()
            return str(default)

        return VARIABLE.sub(value, text)

    # --------------------------------------------------------------------------------------------------- problems

    def _say(self, text: str) -> None:
        self.problems.append(ServerProblem(f"{self._origin}: MCP server {short(self._name)}: {text}"))


def url_problem(url: str) -> str:
    """Why a URL cannot be used, as the rest of a sentence; empty if it can."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _port = parts.port
    except ValueError:
        usable = False
    return "" if usable and not _CONTROL.search(url) and " " not in url else "must be an http:// or https:// address"


MASK = "…"
_ONLY_VARIABLES = re.compile(r"(?:(?:Bearer|Basic|Token)\s+)?(?:\$\{[^}]*\})+", re.IGNORECASE)
_QUERY = re.compile(r"([?&][^=&#]+=)[^&#]+")


def shown_target(config: ServerConfig) -> str:
    """The command line or the URL."""
    if config.kind != "stdio":
        return _show_url(str(config.entry.get("url", config.url)))
    command, args = config.entry.get("command", config.command), config.entry.get("args", config.args)
    words = [str(command), *_show_arguments(args if isinstance(args, list | tuple) else ())]
    return " ".join(word if word == MASK else shlex.quote(word) for word in words)


def shown_fields(config: ServerConfig) -> Iterator[tuple[str, str]]:
    """All settings of the configuration, as names and texts."""
    yield ("command" if config.kind == "stdio" else "url"), shown_target(config)
    for name, value in _pairs(config.entry.get("env", config.env)):
        yield f"env {name}", _show_value(value)
    for name, value in _pairs(config.entry.get("headers", config.headers)):
        yield f"header {name}", _show_value(value)
    if config.headers_helper:
        yield "headersHelper", config.headers_helper
    if config.oauth.client_id:
        yield "oauth clientId", config.oauth.client_id
    if config.oauth.scopes:
        yield "oauth scopes", " ".join(config.oauth.scopes)
    if config.timeout is not None:
        yield "timeout", f"{config.timeout:g} s"
    if config.always_load:
        yield "alwaysLoad", "true"
    if config.disabled:
        yield "disabled", "true"
    if config.variables:
        yield "reads", ", ".join(config.variables)


def _pairs(value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        yield from ((str(name), str(item)) for name, item in value.items())


def _show_value(value: str) -> str:
    """The value if it is only a reference to variables without secret defaults."""
    is_reference = _ONLY_VARIABLES.fullmatch(value) and ":-" not in value
    return value if is_reference else MASK


def _show_arguments(args: Sequence[object]) -> Iterator[str]:
    after_secret = False
    for arg in map(str, args):
        name, equals, _value = arg.partition("=")
        is_option = name.startswith("-")
        if after_secret and not is_option and not _ONLY_VARIABLES.fullmatch(arg):
            yield MASK
        elif equals and not _ONLY_VARIABLES.fullmatch(_value) and is_secret_name(name.lstrip("-")):
            yield f"{name}={MASK}"
        else:
            cleaned = without_url_credentials(arg)
            hides = cleaned is None or holds_secret(arg) or assigns_secret(arg) or is_random(arg)
            yield MASK if hides or cleaned is None else cleaned
        after_secret = is_option and not equals and is_secret_name(name.lstrip("-"))


def _show_url(url: str) -> str:
    cleaned = without_url_credentials(url)
    if cleaned is None:
        return MASK
    cleaned = _QUERY.sub(lambda found: f"{found[1]}{MASK}", cleaned)
    return "/".join(MASK if holds_secret(part) or is_random(part) else part for part in cleaned.split("/"))
