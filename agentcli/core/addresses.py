"""Detect hosts and addresses outside the public internet: loopback, private, link-local, metadata services.

Names are judged by their form; only `system_resolve` looks them up. A name that looks public can still resolve to a
private address, so code that connects must check the address with `is_private_address`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import quote, urlsplit

from agentcli.core.frozen import frozen

_NUMERIC = re.compile(r"(?:0x[0-9a-f]*|\d+)(?:\.(?:0x[0-9a-f]*|\d+)){0,3}", re.IGNORECASE)
_HOST_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*")
_LOCAL_ENDINGS = (
    *(".localhost", ".localdomain", ".local", ".internal", ".intranet", ".corp", ".home", ".lan", ".private"),
    *(".home.arpa", ".in-addr.arpa", ".ip6.arpa", ".test", ".svc"),
)
_EMBEDDING = tuple(ipaddress.IPv6Network(text) for text in ("64:ff9b::/96", "::ffff:0:0:0/96", "::/96"))
"""Networks whose last four bytes are an IPv4 address that the packet may reach."""
_ALSO_PRIVATE = tuple(ipaddress.ip_network(text) for text in ("168.63.129.16/32", "192.0.0.0/24", "64:ff9b:1::/48"))
"""Global by number or in some Python versions: cloud metadata services, and translation to local IPv4 addresses."""
_MAX_URL = 4000
_DEFAULT_PORTS = {"http": 80, "https": 443}

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[IPAddress]]]
"""Resolves a host to its addresses; raises OSError."""


@frozen
class WebAddress:
    """A URL parsed once, so that the approved and the fetched address are the same."""

    scheme: str
    host: str
    """Lower case, in ASCII; an IPv4 address in its usual form, an IPv6 address without brackets."""
    port: int
    target: str
    """Path and query, never empty, without a fragment."""

    @property
    def text(self) -> str:
        port = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.shown_host}{port}{self.target}"

    @property
    def shown_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def is_private(self) -> bool:
        return is_private_host(self.host)


def parse_web_address(text: str) -> WebAddress | str:
    """The address, or a message with the problem. URLs that two parsers could read differently are refused."""
    text = text.strip()
    if not text or len(text) > _MAX_URL:
        return "The URL is empty." if not text else f"The URL has more than {_MAX_URL:,} characters."
    if re.search(r"[\x00-\x20\x7f-\xa0\\\ud800-\udfff\u2028\u2029]", text):
        return "The URL contains blanks, backslashes or control characters. Write them as %XX."
    if "://" not in text and re.match(r"[A-Za-z0-9.-]+\.[A-Za-z]{2,}(?:[:/?#]|$)", text):
        text = f"https://{text}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return "That is not a URL."
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORTS:
        return f"Only http and https can be fetched, not {scheme or 'a path'}."
    if "@" in parts.netloc:
        return "The URL contains a user name or password, which is not sent. Leave it out."
    host = _canonical_host(parts.hostname or "")
    if host is None:
        return "The URL has no valid host name."
    if port == 0:
        return "The URL has no valid port."
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=-._~")
    query = quote(parts.query, safe="/%:@!$&'()*+,;=-._~?")
    return WebAddress(scheme, host, port or _DEFAULT_PORTS[scheme], path + (f"?{query}" if query else ""))


def host_address(host: str) -> IPAddress | None:
    """The IP address that a host literally is, in any spelling that a resolver accepts (decimal, octal, hex, short)."""
    bare = host.strip("[]").rstrip(".")
    if ":" in bare:
        try:
            return ipaddress.IPv6Address(bare)
        except ValueError:
            return None
    if not _NUMERIC.fullmatch(bare):
        return None
    numbers = [_number(part) for part in bare.split(".")]
    last = numbers.pop()
    if any(number > 255 for number in numbers) or last >= 256 ** (4 - len(numbers)):
        return None
    value = sum(number << (8 * (3 - place)) for place, number in enumerate(numbers)) + last
    return ipaddress.IPv4Address(value)


async def system_resolve(host: str, port: int) -> Sequence[IPAddress]:
    """Resolve a host with the system's resolver; see `Resolve`."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ipaddress.ip_address(str(item[4][0]).partition("%")[0]) for item in found]


def is_private_host(host: str) -> bool:
    """Whether a host name does not look public. Unusual names count as private."""
    canonical = _canonical_host(host)
    if canonical is None:
        return True
    address = host_address(canonical)
    if address is not None:
        return is_private_address(address)
    # A resolver completes a name without a dot with the local domain.
    return "." not in canonical or f".{canonical}".endswith(_LOCAL_ENDINGS)


def is_private_address(address: IPAddress) -> bool:
    """Anything but a global unicast address, also if it is embedded in an IPv6 address."""
    if any(address in network for network in _ALSO_PRIVATE):
        return True
    if isinstance(address, ipaddress.IPv4Address):
        return not address.is_global or address.is_multicast
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and any(address in network for network in _EMBEDDING):
        inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    if inner is not None:
        return is_private_address(inner)
    return not address.is_global or address.is_multicast or address.is_site_local or address.teredo is not None


def _canonical_host(host: str) -> str | None:
    host = unicodedata.normalize("NFKC", host.strip("[]")).replace("\u3002", ".").lower().rstrip(".")
    if not host or "%" in host:
        return None
    if ":" in host:
        address = host_address(host)
        return None if address is None else str(address)
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            return None
    if _NUMERIC.fullmatch(host) or re.search(r"(?:^|\.)(?:0x[0-9a-f]*|\d+)$", host):
        address = host_address(host)
        return None if address is None else str(address)
    return host if len(host) <= 253 and _HOST_NAME.fullmatch(host) else None


def _number(text: str) -> int:
    if text[:2] in ("0x", "0X"):
        return int(text[2:] or "0", 16)
    if text.startswith("0") and len(text) > 1:
        # Some resolvers read an invalid octal number as decimal; it must not pass as public either way.
        return int(text, 8) if set(text) <= set("01234567") else 256**4
    return int(text)
