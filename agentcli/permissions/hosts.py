"""Hosts of addresses as permissions see them. Nothing is looked up."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def host_of(target: str) -> str:
    """The host of a URL; empty if there is none."""
    try:
        host = urlsplit(target).hostname
    except ValueError:
        return ""
    return (host or "").rstrip(".")


def is_private_host(host: str) -> bool:
    """Whether the name alone says that it is in one's own network."""
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal", ".lan", ".home.arpa")):
        return True
    try:
        return not ipaddress.ip_address(host.strip("[]")).is_global
    except ValueError:
        # 127.1, 0x7f000001 and the like: numbers that some programs take for addresses.
        return bool(host) and all(part.isdigit() or part.lower().startswith("0x") for part in host.split("."))
