"""One GET request with all its limits: addresses, redirects, size, content encoding. Failures are return values.

The name is resolved once, the addresses are checked, and the connection uses the checked address, so that a name cannot
resolve to another one in between (DNS rebinding). With a proxy the proxy resolves, and only the form of the name is
checked. Never sends cookies, credentials or netrc entries, and does not interpret pages.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from agentcli.core.addresses import (
    IPAddress,
    Resolve,
    WebAddress,
    host_address,
    is_private_address,
    parse_web_address,
    system_resolve,
)
from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import plain_line

if TYPE_CHECKING:
    import httpx2

MAX_BYTES = 5 * 1024 * 1024
MAX_REDIRECTS = 5
CONNECT_SECONDS = 10.0
READ_SECONDS = 20.0
_MAX_ADDRESSES = 4
_REDIRECTS = (301, 302, 303, 307, 308)
_HEADERS = {
    "user-agent": "agentcli",
    "accept": "text/markdown,text/html;q=0.9,text/plain;q=0.9,application/json;q=0.8,*/*;q=0.1",
    "accept-encoding": "gzip, deflate",
}


@frozen
class FetchedPage:
    """A response of any status. `body` is decoded and has at most MAX_BYTES."""

    url: str
    status: int
    reason: str
    content_type: str
    body: bytes
    complete: bool
    """Whether the whole page was read."""
    length: int | None = None
    """The length reported by the server, if any."""


@frozen
class Moved:
    """A redirect to another host, which was not approved."""

    url: str
    status: int


@frozen
class FetchProblem:
    text: str
    """For the model: what happened, then what to do."""
    summary: str
    connected: bool = True
    """False: no usable response, so another address may be tried."""


_Route = IPAddress | str
"""How to reach a host: the pinned address that replaces its name, or a proxy."""


class Fetcher:
    def __init__(
        self,
        resolve: Resolve = system_resolve,
        is_private: Callable[[IPAddress], bool] = is_private_address,
        verify: ssl.SSLContext | None = None,
    ) -> None:
        self._resolve = resolve
        self._is_private = is_private
        self._verify = verify

    async def get(
        self, address: WebAddress, environ: Mapping[str, str], reaches: Callable[[str], bool] | None = None
    ) -> FetchedPage | Moved | FetchProblem:
        """Fetch a URL, following redirects on the same host. The URL must have been approved.

        The addresses behind a public name are checked here, except for hosts that `reaches` allows. No timeout: the
        caller sets it.
        """
        for _hop in range(MAX_REDIRECTS + 1):
            answer = await self._reach(address, environ, reaches)
            if not isinstance(answer, Moved):
                return answer
            target = _resolve_redirect(address, answer.url)
            if isinstance(target, str):
                shown = plain_line(answer.url)
                return FetchProblem(
                    f"{address.text} redirects to {shown!r}, which cannot be fetched: {target}", "redirect"
                )
            if not is_same_place(address, target):
                return Moved(target.text, answer.status)
            address = target
        return FetchProblem(f"{address.host} redirects more than {MAX_REDIRECTS} times.", "too many redirects")

    async def _reach(
        self, address: WebAddress, environ: Mapping[str, str], reaches: Callable[[str], bool] | None
    ) -> FetchedPage | Moved | FetchProblem:
        proxy = proxy_for(address, environ)
        routes = [proxy] if proxy is not None else await self._addresses(address, reaches)
        if isinstance(routes, FetchProblem):
            return routes
        result: FetchedPage | Moved | FetchProblem = FetchProblem(f"{address.host} has no address.", "not found")
        for route in routes:
            result = await self._send(address, route, environ)
            if not isinstance(result, FetchProblem) or result.connected:
                break
        return result

    async def _addresses(
        self, address: WebAddress, reaches: Callable[[str], bool] | None
    ) -> Sequence[IPAddress] | FetchProblem:
        literal = host_address(address.host)
        try:
            resolved = [literal] if literal is not None else await self._resolve(address.host, address.port)
            found = list(dict.fromkeys(resolved))
        except (OSError, ValueError, UnicodeError):
            text = f"The host {address.host} was not found. Check the spelling, or whether there is a network."
            return FetchProblem(text, "host not found")
        agreed = address.is_private or (reaches is not None and reaches(address.host))
        private = [item for item in found if self._is_private(item)]
        if private and not agreed:
            return FetchProblem(
                f"{address.host} leads to the private address {private[0]}, so it is not fetched. "
                f"If the user wants that, they can allow it with the rule WebFetch(private:{address.host}).",
                "private address",
            )
        return found[:_MAX_ADDRESSES]

    async def _send(
        self, address: WebAddress, route: _Route, environ: Mapping[str, str]
    ) -> FetchedPage | Moved | FetchProblem:
        import httpx2

        try:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(
                    httpx2.AsyncClient(
                        verify=await self._context(address, route, environ),
                        proxy=route if isinstance(route, str) else None,
                        trust_env=False,
                        follow_redirects=False,
                        timeout=httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
                    )
                )
                response = await client.send(_request(client, address, route), stream=True)
                stack.push_async_callback(response.aclose)
                return await _read(address, response)
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, ImportError, ValueError) as error:
            return _describe_problem(error, address, route)

    async def _context(self, address: WebAddress, route: _Route, environ: Mapping[str, str]) -> ssl.SSLContext:
        """The TLS context. Loading certificates takes 25 ms, so only for TLS, in a thread, once."""
        if address.scheme == "http" and not (isinstance(route, str) and route.startswith("https:")):
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self._verify is None:
            self._verify = await asyncio.to_thread(_load_certificates, environ.get("SSL_CERT_FILE"))
        return self._verify


def is_same_place(before: WebAddress, after: WebAddress) -> bool:
    """Whether a redirect stays on the approved host. Never from https back to http."""
    if before.host != after.host:
        return False
    if (before.scheme, before.port) == (after.scheme, after.port):
        return True
    return (before.scheme, before.port, after.scheme, after.port) == ("http", 80, "https", 443)


def _resolve_redirect(address: WebAddress, location: str) -> WebAddress | str:
    try:
        return parse_web_address(urljoin(address.text, location))
    except ValueError:
        return "That is not a URL."


def proxy_for(address: WebAddress, environ: Mapping[str, str]) -> str | None:
    """The proxy in the environment for this address; lower-case names take precedence, as in curl."""
    names = (f"{address.scheme}_proxy", f"{address.scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
    proxy = next((environ[name].strip() for name in names if environ.get(name, "").strip()), "")
    if not proxy or _is_excepted(address, environ.get("no_proxy") or environ.get("NO_PROXY") or ""):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_excepted(address: WebAddress, exceptions: str) -> bool:
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

    literal = host_address(address.host)
    if address.host == "localhost" or (literal is not None and literal.is_loopback):
        return True
    networks = [item for item in exceptions.replace(",", " ").split() if "/" in item] if literal is not None else []
    with contextlib.suppress(ValueError):
        if any(literal in ipaddress.ip_network(network, strict=False) for network in networks):
            return True
    return bool(proxy_bypass_environment(f"{address.host}:{address.port}", {"no": exceptions}))


def _request(client: httpx2.AsyncClient, address: WebAddress, route: _Route) -> httpx2.Request:
    if isinstance(route, str):
        return client.build_request("GET", address.text, headers=_HEADERS)
    host = f"[{route}]" if route.version == 6 else str(route)
    named = address.text.removeprefix(f"{address.scheme}://").partition("/")[0]
    # The certificate must match the name, not the pinned address.
    sni = {} if host_address(address.host) is not None else {"sni_hostname": address.host}
    return client.build_request(
        "GET",
        f"{address.scheme}://{host}:{address.port}{address.target}",
        headers={"host": named, **_HEADERS},
        extensions=sni,
    )


def _load_certificates(cafile: str | None) -> ssl.SSLContext:
    import httpx2

    return ssl.create_default_context(cafile=cafile) if cafile else httpx2.create_ssl_context(trust_env=False)


async def _read(address: WebAddress, response: httpx2.Response) -> FetchedPage | Moved:
    location = response.headers.get("location")
    if response.status_code in _REDIRECTS and location:
        return Moved(location, response.status_code)
    body = bytearray()
    # Decompressed 64 KB at a time, so that even a bomb takes only some megabytes.
    async for chunk in response.aiter_bytes():
        body += chunk[: MAX_BYTES + 1]
        if len(body) > MAX_BYTES:
            break
    length = "" if "content-encoding" in response.headers else response.headers.get("content-length", "")
    return FetchedPage(
        url=address.text,
        status=response.status_code,
        reason=plain_line(response.reason_phrase),
        content_type=response.headers.get("content-type", ""),
        body=bytes(body[:MAX_BYTES]),
        complete=len(body) <= MAX_BYTES,
        length=int(length) if length.isascii() and length.isdigit() and len(length) < 16 else None,
    )


def _describe_problem(error: Exception, address: WebAddress, route: _Route) -> FetchProblem:
    import httpx2

    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and len(causes) < 10:
        causes.append(cause)  # type: ignore[arg-type]
    host = address.host
    if any(isinstance(item, ssl.SSLError) for item in causes):
        reason = next((getattr(item, "verify_message", "") for item in causes if hasattr(item, "verify_message")), "")
        text = f"The secure connection to {host} failed: {plain_line(reason) or 'TLS error'}. It was not fetched."
        return FetchProblem(text, "TLS error", connected=False)
    if isinstance(error, httpx2.ProxyError | ImportError):
        return FetchProblem(f"The proxy for {host} refused the request: {plain_line(str(error))}.", "proxy error")
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout) or (
        isinstance(error, OSError) and not isinstance(error, TimeoutError)
    ):
        # Without a password.
        proxy = plain_line(route.rpartition("@")[2].removeprefix("http://")) if isinstance(route, str) else ""
        where = f" (through the proxy {proxy})" if proxy else ""
        return FetchProblem(f"No connection to {host} on port {address.port}{where}.", "no connection", connected=False)
    if isinstance(error, httpx2.TimeoutException):
        return FetchProblem(f"{host} did not answer in time.", "timeout")
    return FetchProblem(
        f"{host} closed the connection or sent an invalid answer: {plain_line(str(error)) or type(error).__name__}.",
        "broken",
    )
