"""Where requests go, with which key, and, when asked for, what answers there."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from agentcli.assemble.model import SCRIPT_VARIABLE, ModelParts
from agentcli.core.errors import AgentError
from agentcli.core.frozen import frozen
from agentcli.core.plaintext import plain_line
from agentcli.doctor.finding import Finding
from agentcli.doctor.patient import Patient
from agentcli.providers.catalog import DEFAULT_MODEL
from agentcli.providers.credentials import Credentials

_SECONDS = 8.0
_MOST_BYTES = 2_000_000
_REFUSED = (401, 403)


def key(patient: Patient) -> Iterator[Finding]:
    if (other := _needs_no_key(patient)) is not None:
        yield Finding("ok", "key", other)
        return
    try:
        found = _credentials(patient)
    except AgentError as error:
        yield Finding("fail", "key", "there is no usable key", str(error))
        return
    source = f"from {found.source}" if found.source != "none" else "none, which the server may accept"
    yield Finding("ok", "key", f"{source}; requests go to {found.base_url} ({found.base_url_source})")


def endpoint(patient: Patient) -> Iterator[Finding]:
    if (other := _needs_no_key(patient)) is not None:
        yield Finding("ok", "endpoint", f"not asked: {other}")
        return
    found = _credentials(patient)
    began = time.monotonic()
    try:
        reply = _get(f"{found.base_url}/v1/models?limit=1000", asyncio.run(found.headers()), patient.ground.environ)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        advice = "Check the network, the address (ANTHROPIC_BASE_URL, baseUrl) and the proxy (HTTPS_PROXY)."
        yield Finding("fail", "endpoint", f"{found.host} cannot be reached: {reason}", advice)
        return
    taken = f"{found.host} answers in {(time.monotonic() - began) * 1000:.0f} ms"
    if reply.status in _REFUSED:
        text = f"{taken}, but refuses the key (HTTP {reply.status}, key from {found.source})"
        yield Finding("fail", "endpoint", text, "Give it another key.")
    elif reply.status == 200 and reply.models:
        yield from _models(patient, taken, reply.models)
    elif reply.status in (200, 404, 405):
        yield Finding("ok", "endpoint", f"{taken}; it does not list its models")
    else:
        yield Finding("warn", "endpoint", f"{taken}, with HTTP {reply.status}", "Try again later.")


def _models(patient: Patient, taken: str, names: list[str]) -> Iterator[Finding]:
    wanted = patient.ground.catalog.resolve(patient.ground.settings.text("model") or DEFAULT_MODEL)
    count = f"{len(names)} model{'' if len(names) == 1 else 's'}"
    if any(name == wanted or name.startswith(f"{wanted}-") for name in names):
        yield Finding("ok", "endpoint", f"{taken}, has {count}, {wanted} among them")
        return
    shown = ", ".join(plain_line(name, 60) for name in names[:8])
    advice = f"Choose one that it has, with --model or `model` in the settings: {shown}{' …' if len(names) > 8 else ''}"
    yield Finding("warn", "endpoint", f"{taken}, has {count}, but not {wanted}", advice)


def _needs_no_key(patient: Patient) -> str | None:
    settings = patient.ground.settings
    kind = settings.text("provider") or "auto"
    if kind == "scripted" or (kind == "auto" and patient.ground.environ.get(SCRIPT_VARIABLE)):
        return "none is needed, the scripted model answers"
    platform = settings.text("platform") or "anthropic"
    return f"by {platform}'s own credentials" if platform != "anthropic" else None


def _credentials(patient: Patient) -> Credentials:
    return ModelParts(patient.ground).credentials()


@frozen
class _Reply:
    status: int
    models: list[str]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A key is for the host it was given for, and for no other that this one names."""

    def redirect_request(self, *_arguments: Any, **_named: Any) -> None:
        return None


def _get(url: str, headers: Mapping[str, str], environ: Mapping[str, str]) -> _Reply:
    """Raises OSError when nothing answers."""
    from agentcli.providers.wire import API_VERSION

    opener = urllib.request.build_opener(urllib.request.ProxyHandler(_proxies(url, environ)), _NoRedirects())
    request = urllib.request.Request(  # noqa: S310 - http and https only: `normal_base_url` has seen to it
        url, headers={**headers, "anthropic-version": API_VERSION, "user-agent": "agentcli-doctor"}
    )
    try:
        with opener.open(request, timeout=_SECONDS) as answer:
            return _Reply(answer.status, _names(answer.read(_MOST_BYTES)))
    except urllib.error.HTTPError as refused:
        with refused:
            return _Reply(refused.code, [])


def _proxies(url: str, environ: Mapping[str, str]) -> dict[str, str]:
    parts = urlsplit(url)
    scheme, host = parts.scheme, parts.hostname or ""
    named = {name.lower(): value.strip() for name, value in environ.items() if name.lower().endswith("_proxy")}
    proxy = named.get(f"{scheme}_proxy") or named.get("all_proxy") or ""
    excepted = urllib.request.proxy_bypass_environment(host, {"no": named.get("no_proxy", "")})  # type: ignore[attr-defined]
    return {scheme: proxy} if proxy and not excepted else {}


def _names(body: bytes) -> list[str]:
    try:
        rows = json.loads(body).get("data")
        return [str(row["id"]) for row in rows if isinstance(row, dict) and "id" in row]
    except (ValueError, AttributeError, TypeError):
        return []
