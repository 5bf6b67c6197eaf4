"""A server's configuration as text for the user. Possible secrets are masked, variables are not filled in."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from agentcli.core.text.secret_text import (
    assigns_secret,
    holds_secret,
    is_random,
    is_secret_name,
    without_url_credentials,
)
from agentcli.mcp.server_config import ServerConfig

MASK = "…"
_ONLY_VARIABLES = re.compile(r"(?:(?:Bearer|Basic|Token)\s+)?(?:\$\{[^}]*\})+", re.IGNORECASE)
_QUERY = re.compile(r"([?&][^=&#]+=)[^&#]+")


def shown_target(config: ServerConfig) -> str:
    """The command line or the URL."""
    if config.kind != "stdio":
        return _shown_url(str(config.entry.get("url", config.url)))
    command, args = config.entry.get("command", config.command), config.entry.get("args", config.args)
    words = [str(command), *_shown_arguments(args if isinstance(args, list | tuple) else ())]
    return " ".join(word if word == MASK else shlex.quote(word) for word in words)


def shown_fields(config: ServerConfig) -> Iterator[tuple[str, str]]:
    """All settings of the configuration, as names and texts."""
    yield ("command" if config.kind == "stdio" else "url"), shown_target(config)
    for name, value in _pairs(config.entry.get("env", config.env)):
        yield f"env {name}", _shown_value(value)
    for name, value in _pairs(config.entry.get("headers", config.headers)):
        yield f"header {name}", _shown_value(value)
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


def _shown_value(value: str) -> str:
    """The value if it is only a reference to variables without secret defaults."""
    is_reference = _ONLY_VARIABLES.fullmatch(value) and ":-" not in value
    return value if is_reference else MASK


def _shown_arguments(args: Sequence[object]) -> Iterator[str]:
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


def _shown_url(url: str) -> str:
    cleaned = without_url_credentials(url)
    if cleaned is None:
        return MASK
    cleaned = _QUERY.sub(lambda found: f"{found[1]}{MASK}", cleaned)
    return "/".join(MASK if holds_secret(part) or is_random(part) else part for part in cleaned.split("/"))
