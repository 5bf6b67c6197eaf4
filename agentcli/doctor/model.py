"""Checks of the API key and, on request, the endpoint."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence

from agentcli.assemble.model import ModelBuilder
from agentcli.core.errors import AgentError
from agentcli.core.text.format import duration
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.plural import counted
from agentcli.doctor.check_context import CheckContext
from agentcli.doctor.finding import Finding
from agentcli.providers.catalog import DEFAULT_MODEL
from agentcli.providers.credentials import shown_url
from agentcli.providers.listing import list_models

_LISTING_SECONDS = 8.0
_SHOWN_MODELS = 8


def key(context: CheckContext) -> Iterator[Finding]:
    builder = ModelBuilder(context.environment)
    if builder.needs_no_key:
        yield Finding("ok", "key", f"not needed: {builder.needs_no_key}")
        return
    try:
        found = builder.credentials()
    except AgentError as error:
        yield Finding("fail", "key", "no usable key", str(error))
        return
    kept = f", kept in {found.kept_in}" if found.kept_in else ""
    source = f"from {found.source}{kept}" if found.source != "none" else "none; the server may not need one"
    yield Finding("ok", "key", f"{source}; requests go to {shown_url(found.base_url)} ({found.base_url_source})")


def endpoint(context: CheckContext) -> Iterator[Finding]:
    builder = ModelBuilder(context.environment)
    if builder.needs_no_key:
        yield Finding("ok", "endpoint", f"not checked: {builder.needs_no_key}")
        return
    found = builder.credentials()
    began = time.monotonic()
    listing = asyncio.run(list_models(found, _LISTING_SECONDS))
    answered = f"{found.host} answers in {duration(time.monotonic() - began)}"
    if listing.problem:
        advice = "Check the network, the address (ANTHROPIC_BASE_URL, baseUrl) and the proxy (HTTPS_PROXY)."
        yield Finding("fail", "endpoint", f"{found.host} cannot be reached: {listing.problem}", advice)
    elif listing.is_refused:
        text = f"{answered}, but refuses the key (HTTP {listing.status}, key from {found.source})"
        yield Finding("fail", "endpoint", text, "Enter another key: agentcli login.")
    elif listing.models:
        yield from _models(context, answered, listing.models)
    elif listing.is_absent:
        yield Finding("ok", "endpoint", f"{answered}; it does not list its models")
    else:
        advice = "Check the address." if 300 <= listing.status < 400 else "Try again later."
        yield Finding("warn", "endpoint", f"{answered}, with HTTP {listing.status}", advice)


def _models(context: CheckContext, answered: str, names: Sequence[str]) -> Iterator[Finding]:
    """Whether the endpoint has the configured model. `answered`: the beginning of the finding's text."""
    wanted = context.environment.catalog.resolve(context.environment.settings.text("model") or DEFAULT_MODEL)
    count = counted(len(names), "model")
    if any(name == wanted or name.startswith(f"{wanted}-") for name in names):
        yield Finding("ok", "endpoint", f"{answered}, has {count}, including {wanted}")
        return
    shown = ", ".join(plain_line(name, 60) for name in names[:_SHOWN_MODELS])
    more = " …" if len(names) > _SHOWN_MODELS else ""
    advice = f"Choose one of its models with --model or the setting `model`: {shown}{more}"
    yield Finding("warn", "endpoint", f"{answered}, has {count}, but not {wanted}", advice)
