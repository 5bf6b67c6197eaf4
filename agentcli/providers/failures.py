"""Classify errors as a `Failure` with a user message: what happened, then what to do.

The only module that reads status codes, error types and the wording of error messages. Messages never contain HTML: a
proxy's error page adds nothing to its status.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.format import format_elapsed
from agentcli.core.text.patterns import lazy_pattern
from agentcli.providers.base import Failure, FailureKind

DETAIL_LIMIT = 2000

STATUS_OF_TYPE: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "timeout_error": 408,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "overloaded_error": 529,
}


@frozen
class Endpoint:
    """What a failure message may name."""

    host: str = "the API"
    key_source: str = ""
    """Source of the key, e.g. `ANTHROPIC_API_KEY`; never the key."""
    model: str = ""


@frozen
class ErrorResponse:
    status: int
    headers: Mapping[str, str]
    body: str


_TOO_LONG = lazy_pattern(
    r"prompt is too long|exceed\w* (?:the )?(?:model'?s? )?(?:maximum |available )?context|context[_ ](?:length|limit)",
    re.IGNORECASE,
)
_THINKING = lazy_pattern(
    r"signature|redacted_thinking|thinking.{0,20}blocks?\b.{0,60}(?:cannot|must|modif|chang|remain|order)|messages\.\d+\S*thinking",
    re.IGNORECASE | re.DOTALL,
)
_PAIRING = lazy_pattern(r"tool_use|tool_result", re.IGNORECASE)
_IMAGE = lazy_pattern(r"\bimages?\b", re.IGNORECASE)
_BILLING = lazy_pattern(r"credit balance|billing|payment", re.IGNORECASE)
_MODEL = lazy_pattern(r"\bmodel\b", re.IGNORECASE)


def from_response(answer: ErrorResponse, where: Endpoint) -> Failure:
    error_type, said, request_id = _read_body(answer.body)
    headers = {name.lower(): value for name, value in answer.headers.items()}
    failure = _with_request_id(
        _classify(answer.status, error_type, said, where), headers.get("request-id") or request_id
    )
    should = headers.get("x-should-retry", "").strip().lower()
    retryable = should == "true" if should in ("true", "false") else failure.retryable
    return replace(failure, retryable=retryable, retry_after=retry_after_seconds(headers, datetime.now(UTC)))


def from_error_event(event: Json, where: Endpoint) -> Failure:
    """Classify an `error` event like the HTTP status of its type."""
    error = event.get("error")
    error = error if isinstance(error, dict) else {}
    error_type = str(error.get("type") or "api_error")
    status = STATUS_OF_TYPE.get(error_type, 500)
    failure = _classify(status, error_type, str(error.get("message") or ""), where)
    return _with_request_id(failure, str(event.get("request_id") or ""))


def _with_request_id(failure: Failure, request_id: str) -> Failure:
    is_shown = request_id and failure.kind in (FailureKind.INVALID_REQUEST, FailureKind.SERVER)
    message = f"{failure.message} (request id {request_id})" if is_shown else failure.message
    return replace(failure, request_id=request_id, message=message)


def _read_body(body: str) -> tuple[str, str, str]:
    """Error type, error text and request id, if the body is JSON of a known form."""
    try:
        data: Any = json.loads(body)
    except (ValueError, RecursionError):
        text = body.strip()
        looks_like_html = text[:200].lower().lstrip().startswith(("<", "<!doctype"))
        return "", "" if looks_like_html else text[:DETAIL_LIMIT], ""
    if not isinstance(data, dict):
        return "", str(data)[:DETAIL_LIMIT], ""
    error = data.get("error", data)
    if isinstance(error, str):
        return "", error[:DETAIL_LIMIT], ""
    if not isinstance(error, dict):
        error = data
    said = error.get("message") or data.get("message") or data.get("detail") or ""
    said = said if isinstance(said, str) else json.dumps(said)
    return str(error.get("type") or ""), said[:DETAIL_LIMIT], str(data.get("request_id") or "")


_PASSING: Mapping[int, tuple[FailureKind, str]] = {
    408: (FailureKind.TIMEOUT, "The server timed out waiting for the request (408)."),
    409: (FailureKind.CONFLICT, "The server reports a conflict with another request (409)."),
    429: (FailureKind.RATE_LIMIT, "The API's rate limit is reached (429)."),
    529: (FailureKind.OVERLOADED, "The API is overloaded (529)."),
}


def _classify(status: int, error_type: str, said: str, where: Endpoint) -> Failure:
    detail = f"{error_type}: {said}" if error_type and said else said or error_type

    def fail(kind: FailureKind, message: str, *, retryable: bool = False) -> Failure:
        return Failure(kind, message, status=status, retryable=retryable, detail=detail)

    if status in (400, 413, 422):
        return _classify_refused(status, said, detail)
    match status:
        case 401:
            return fail(FailureKind.AUTHENTICATION, _key_message(where, "did not accept the API key"))
        case 402:
            return fail(
                FailureKind.BILLING, "The account has no credit left. Check billing in the API console, then try again."
            )
        case 403:
            message = _key_message(where, "does not allow this request with the API key")
            return fail(FailureKind.PERMISSION, f"{message} {_quote(said)}".strip())
        case 404 if _MODEL.search(said) or error_type == "not_found_error":
            return fail(
                FailureKind.UNKNOWN_MODEL,
                f"{where.host} does not know the model {where.model!r}. "
                "Choose another with --model, the `model` setting or /model.",
            )
        case 404:
            return fail(
                FailureKind.INVALID_REQUEST,
                f"{where.host} has no Messages API at this address (404). Check ANTHROPIC_BASE_URL.",
            )
        case 407:
            return fail(
                FailureKind.PROXY, "The proxy asks for a user name and password (407). Add them to HTTPS_PROXY."
            )
    if 300 <= status < 400:
        what = f"{where.host} redirects to another address ({status}); the key is not sent there."
        return fail(FailureKind.INVALID_REQUEST, f"{what} Check ANTHROPIC_BASE_URL and the `baseUrl` setting.")
    if status in _PASSING:
        return fail(*_PASSING[status], retryable=True)
    if error_type == "overloaded_error":
        return fail(FailureKind.OVERLOADED, "The API is overloaded.", retryable=True)
    if status >= 500:
        return fail(FailureKind.SERVER, f"The server failed ({status}).", retryable=True)
    return fail(FailureKind.INVALID_REQUEST, f"The server answered with status {status}. {_quote(said)}".strip())


def _classify_refused(status: int, said: str, detail: str) -> Failure:
    kind, message = FailureKind.INVALID_REQUEST, f"The API refused the request ({status}). {_quote(said)}".strip()
    if status == 413 or _TOO_LONG.search(said):
        kind = FailureKind.PROMPT_TOO_LONG
        message = "The conversation is too long for the model. Use /compact, or start a new session."
    elif "cache_control" in said:
        pass  # such a text names thinking and tool blocks too, but the breakpoint on them is the problem
    elif _THINKING.search(said):
        kind = FailureKind.THINKING_REFUSED
    elif _PAIRING.search(said):
        kind = FailureKind.PAIRING
    elif _BILLING.search(said):
        kind = FailureKind.BILLING
        message = f"{_quote(said)} Check billing in the API console, then try again."
    elif _IMAGE.search(said):
        kind = FailureKind.IMAGE
        message = f"The API refused an image. {_quote(said)} Use a smaller image or another format.".replace("  ", " ")
    return Failure(kind, message, status=status, detail=detail)


def _quote(said: str) -> str:
    # The server's text is untrusted: control and bidi characters must not reach a terminal.
    text = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(said.split()))
    if not text:
        return ""
    text = text if len(text) <= 500 else text[:500] + "…"
    return text if text.endswith((".", "!", "?", "…")) else text + "."


def _key_message(where: Endpoint, what: str) -> str:
    source = f" from {where.key_source}" if where.key_source not in ("", "none") else ""
    return f"{where.host} {what}{source}. {_KEY_ADVICE.get(where.key_source, _GIVE_A_KEY)}"


_GIVE_A_KEY = "Add a key: run `agentcli login` (in the app /login), or set ANTHROPIC_API_KEY."
_KEY_ADVICE = {
    "ANTHROPIC_API_KEY": "Set it to another key, or unset it and run `agentcli login`.",
    "ANTHROPIC_AUTH_TOKEN": "Set it to another token, or unset it and run `agentcli login`.",
    "apiKeyHelper": "Run its command yourself to check it, or remove the setting and run `agentcli login`.",
    "agentcli login": "Run `agentcli login` again (in the app /login) to replace it.",
}
"""Advice by source of the key: a source with higher precedence must be removed before another key is used."""


def from_exception(error: BaseException, where: Endpoint) -> Failure:
    """Classify an exception of a connection, before or after the response began."""
    chain = list(_causes(error))
    names = {type(item).__name__ for item in chain}
    texts = " ".join(str(item) for item in chain)
    if names & {"SSLCertVerificationError", "CertificateError"} or "CERTIFICATE_VERIFY_FAILED" in texts:
        return Failure(
            FailureKind.TLS,
            f"The certificate of {where.host} cannot be verified. If your network uses its own certificate authority, "
            "point SSL_CERT_FILE to its certificate.",
            detail=_short(texts),
        )
    if "ProxyError" in names:
        asks_password = "407" in texts
        hint = "It asks for a user name and password (407): add them to" if asks_password else "Check"
        return Failure(
            FailureKind.PROXY,
            f"The proxy refused the connection. {hint} HTTPS_PROXY.",
            status=407 if asks_password else None,
            detail=_short(texts),
        )
    if "UnsupportedProtocol" in names or "InvalidURL" in names:
        return Failure(
            FailureKind.INVALID_REQUEST, "The base URL is not valid. Check ANTHROPIC_BASE_URL.", detail=_short(texts)
        )
    if names & {"gaierror"} or "getaddrinfo" in texts or "Name or service not known" in texts:
        what = f"The host {where.host} was not found. Check the network and ANTHROPIC_BASE_URL."
    elif "ConnectionRefusedError" in names or "refused" in texts.lower():
        what = f"{where.host} refuses connections. Check ANTHROPIC_BASE_URL and that the server is running."
    elif names & {"ConnectTimeout", "ConnectError", "PoolTimeout"}:
        what = f"No connection to {where.host}. Check the network."
    else:
        what = f"The connection to {where.host} was lost."
    return Failure(FailureKind.CONNECTION, what, retryable=True, detail=_short(texts))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    stack: list[BaseException | None] = [error]
    while stack:
        item = stack.pop()
        if item is None or id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        stack += [item.__cause__, item.__context__]
        if isinstance(item, BaseExceptionGroup):
            stack += item.exceptions


def _short(text: str) -> str:
    return text[:DETAIL_LIMIT]


def broken(what: str, detail: str = "") -> Failure:
    return Failure(FailureKind.BROKEN_STREAM, f"The reply broke off: {what}.", retryable=True, detail=_short(detail))


def not_a_stream(kind: str, where: Endpoint) -> Failure:
    """Failure for a 200 whose body is not an event stream; not worth a retry."""
    if "html" in kind:
        what = f"{where.host} answered with a web page instead of the Messages API. Check ANTHROPIC_BASE_URL."
    else:
        what = (
            f"The server at {where.host} answered without streaming, which agentcli needs. "
            "Check ANTHROPIC_BASE_URL, or enable streaming in that server."
        )
    return Failure(FailureKind.UNSUPPORTED, what, status=200)


def make_stalled(seconds: float) -> Failure:
    return Failure(
        FailureKind.TIMEOUT, f"No data from the API for {format_elapsed(seconds)}.", retryable=True, detail="stalled"
    )


def no_content(seconds: float) -> Failure:
    message = f"The API sent no content for {format_elapsed(seconds)}. Try again, or use another model."
    return Failure(FailureKind.TIMEOUT, message, detail="deadline")


def make_aborted() -> Failure:
    return Failure(FailureKind.ABORTED, "Stopped.")


def internal(error: BaseException) -> Failure:
    message = f"Bug in agentcli: reading a reply failed ({type(error).__name__}). Please report it."
    return Failure(FailureKind.INTERNAL, message, detail=_short(f"{type(error).__name__}: {error}"))


def is_stall(failure: Failure) -> bool:
    return failure.kind is FailureKind.TIMEOUT and failure.detail == "stalled"


def is_worth_fallback(failure: Failure) -> bool:
    """Whether to try a fallback model after the retries. A lost connection would affect all models."""
    waited_in_vain = failure.kind is FailureKind.TIMEOUT and failure.detail == "deadline"
    return waited_in_vain or (failure.retryable and failure.kind is not FailureKind.CONNECTION)


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    """The requested wait: `retry-after-ms`, or `retry-after` as seconds or as an HTTP date.

    `headers` has lower-case names. A date is compared with the server's `date` header if there is one, so that a wrong
    clock does not matter; `now` is for servers without it.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(milliseconds / 1000, 0.0)
    value = headers.get("retry-after")
    if value is None:
        return None
    seconds = _number(value)
    if seconds is not None:
        return max(seconds, 0.0)
    due = _http_date(value)
    if due is None:
        return None
    reference = _http_date(headers.get("date", "")) or now
    return max((due - reference).total_seconds(), 0.0)


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and abs(value) < 1e9 else None


def _http_date(text: str) -> datetime | None:
    if not text:
        return None
    from email.utils import parsedate_to_datetime  # imported here because it takes 10 ms and few servers send a date

    try:
        value = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
