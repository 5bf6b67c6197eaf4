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

from agentcli.config.files import MAX_PROBLEMS, InvalidValue, parse_value, short
from agentcli.config.schema import Key
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
_KEYS = {
    key.name: key
    for key in (
        Key("type", "text", "stdio, http or sse"),
        Key("command", "text", "program"),
        Key("args", "texts", "arguments", merge=True),
        Key("env", "text map", "environment variables"),
        Key("url", "text", "address"),
        Key("headers", "text map", "HTTP headers"),
        Key("headersHelper", "text", "command that prints headers"),
        Key("oauth", "object", "sign-in"),
        Key("timeout", "number", "milliseconds for one call", minimum=1, maximum=86_400_000),
        Key("alwaysLoad", "boolean", "never defer its tools"),
        Key("disabled", "boolean", "do not start it"),
    )
}
_OAUTH_KEYS = {
    key.name: key
    for key in (
        Key("clientId", "text", "id of a registered client"),
        Key("clientSecret", "text", "its secret"),
        Key("scopes", "texts", "scopes to request"),
        Key("callbackPort", "integer", "port of the redirect listener", minimum=0, maximum=65535),
        Key("authServerMetadataUrl", "text", "metadata of the authorization server"),
        Key("clientMetadataUrl", "text", "client ID metadata document"),
    )
}


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
        is_program = kind == "stdio"
        needed = "command" if is_program else "url"
        used, unused = (_STDIO_KEYS, _HTTP_KEYS) if is_program else (_HTTP_KEYS, _STDIO_KEYS)
        for key in entry:
            if key in unused or key not in _KEYS:
                what = "not for" if key in unused else "unknown for"
                self._say(f"{short(str(key))} is {what} a {kind} server; ignored.")
        if needed not in entry:
            raise _Invalid(f"'{needed}' is missing")
        given = {key: value for key, value in entry.items() if key in _KEYS and key not in (*unused, "type")}
        timeout = given.pop("timeout", None)
        values = self._values(given, _KEYS)
        _check(values)
        return ServerConfig(
            name=self._name,
            kind=kind,
            source=self._source,
            origin=self._origin,
            command=values.get("command", ""),
            args=values.get("args", ()),
            env=values.get("env", {}),
            url=values.get("url", ""),
            headers=values.get("headers", {}),
            headers_helper=values.get("headersHelper", ""),
            timeout=self._timeout(timeout),
            always_load=values.get("alwaysLoad", False),
            oauth=self._oauth(values.get("oauth", {})),
            disabled=values.get("disabled", False),
            entry=dict(entry),
            variables=variables_in({key: entry[key] for key in used if key in entry and key != "headersHelper"}),
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

    def _values(self, given: Mapping[str, Any], keys: Mapping[str, Key], where: str = "") -> dict[str, Any]:
        """The values with variables filled in, except in a command that fills them in itself."""
        found: dict[str, Any] = {}
        for name, value in given.items():
            try:
                parsed = parse_value(keys[name], value)
            except InvalidValue as error:
                raise _Invalid(f"'{name}'{where} must be {error}") from None
            if isinstance(parsed, str):
                found[name] = self._fill(parsed) if name != "headersHelper" else parsed
            elif isinstance(parsed, tuple):
                found[name] = tuple(map(self._fill, parsed))
            elif keys[name].kind == "text map":
                found[name] = {key: self._fill(text) for key, text in parsed.items()}
            else:
                found[name] = parsed
        return found

    def _timeout(self, value: Any) -> float | None:
        try:
            return None if value is None else float(parse_value(_KEYS["timeout"], value)) / 1000
        except InvalidValue:
            self._say("'timeout' must be a number of milliseconds, at most a day. It is ignored.")
            return None

    def _oauth(self, given: Mapping[str, Any]) -> OAuthConfig:
        for key in given:
            if key not in _OAUTH_KEYS:
                self._say(f"{short(key)} in 'oauth' is unknown; ignored.")
        known = {key: value for key, value in given.items() if key in _OAUTH_KEYS}
        values = self._values(known, _OAUTH_KEYS, " in 'oauth'")
        metadata, document = values.get("authServerMetadataUrl", ""), values.get("clientMetadataUrl", "")
        if metadata and (problem := url_problem(metadata)):
            raise _Invalid(f"'authServerMetadataUrl' in 'oauth' {problem}")
        if document and not re.fullmatch(r"https://[^/?#]+/[^#]+", document):
            raise _Invalid("'clientMetadataUrl' in 'oauth' must be an https address with a path")
        return OAuthConfig(
            client_id=values.get("clientId", ""),
            client_secret=values.get("clientSecret", ""),
            scopes=tuple(" ".join(values.get("scopes", ())).split()),
            callback_port=values.get("callbackPort", 0),
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

    def _say(self, text: str) -> None:
        self.problems.append(ServerProblem(f"{self._origin}: MCP server {short(self._name)}: {text}"))


def _check(values: Mapping[str, Any]) -> None:
    """Raise `_Invalid` for a command, an address or headers that cannot be used."""
    if not values.get("command", "x").strip():
        raise _Invalid("'command' is empty")
    if "url" in values and (problem := url_problem(values["url"])):
        raise _Invalid(f"'url' {problem}")
    for name, value in values.get("headers", {}).items():
        if not _HEADER_NAME.fullmatch(name):
            raise _Invalid(f"'headers' has an invalid header name, {short(name)}")
        if _CONTROL.search(value):
            raise _Invalid(f"the header {short(name)} contains control characters")


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


def show_target(config: ServerConfig) -> str:
    """The command line or the URL."""
    if config.kind != "stdio":
        return _show_url(str(config.entry.get("url", config.url)))
    command, args = config.entry.get("command", config.command), config.entry.get("args", config.args)
    words = [str(command), *_show_arguments(args if isinstance(args, list | tuple) else ())]
    return " ".join(word if word == MASK else shlex.quote(word) for word in words)


def show_fields(config: ServerConfig) -> Iterator[tuple[str, str]]:
    """All settings of the configuration, as names and texts."""
    yield ("command" if config.kind == "stdio" else "url"), show_target(config)
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
