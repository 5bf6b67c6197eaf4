"""URLs that MCP servers ask the user to open: which may be opened, and warnings to show about them."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import spell_hidden

LONGEST_ADDRESS = 8_000
_UNFIT = re.compile(r"[\x00-\x20\x7f-\xa0\\<>\"`{}|^]")
"""Characters that are invalid in a URL, or that browsers interpret differently from how it is shown."""


class AddressRefused(Exception):
    """A URL that is never opened; the text says why."""


@frozen
class VisitAddress:
    text: str
    """The complete URL, exactly as it is opened."""
    host_start: int
    host_end: int
    """`text[host_start:host_end]` is the host."""
    warnings: tuple[str, ...] = ()

    @property
    def host(self) -> str:
        return self.text[self.host_start : self.host_end]


def parse_address(text: str) -> VisitAddress:
    """Parse a URL. Raises `AddressRefused` for anything but https, or http to this machine."""
    if len(text) > LONGEST_ADDRESS:
        raise AddressRefused(f"the address is longer than {LONGEST_ADDRESS:,} characters")
    if _UNFIT.search(text) or spell_hidden(text) != text:
        raise AddressRefused("the address contains characters that an address cannot have")
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        raise AddressRefused("the address is not valid") from None
    if parts.scheme not in ("http", "https") or not host:
        raise AddressRefused("only https addresses are opened")
    if parts.scheme == "http" and not _is_loopback(host):
        raise AddressRefused("the address is not encrypted; only https addresses are opened")
    start = _host_start(parts)
    return VisitAddress(text, start, start + len(_shown_host(parts)), tuple(_warnings(parts, host)))


def _host_start(parts: SplitResult) -> int:
    userinfo, at, _rest = parts.netloc.rpartition("@")
    return len(f"{parts.scheme}://{userinfo}{at}")


def _shown_host(parts: SplitResult) -> str:
    host = parts.netloc.rpartition("@")[2]
    return host[: host.index("]") + 1] if host.startswith("[") else host.partition(":")[0]


def _warnings(parts: SplitResult, host: str) -> list[str]:
    found = []
    if "@" in parts.netloc:
        found.append(f"The part before @ is a user name. The site is {host}.")
    if not host.isascii():
        found.append(f"The host has letters beyond a to z: it is {_encoded(host)}.")
    elif "xn--" in host:
        found.append(f"The host is an encoded name that browsers may show as {_readable(host)}.")
    return found


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _encoded(host: str) -> str:
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        return ascii(host)


def _readable(host: str) -> str:
    try:
        return spell_hidden(host.encode("ascii").decode("idna"))
    except UnicodeError:
        return host
