"""Host names in URLs, for permission checks. Nothing is resolved."""

from __future__ import annotations


def host_of(target: str) -> str:
    """The host of a URL; empty if there is none."""
    from urllib.parse import urlsplit

    try:
        host = urlsplit(target).hostname
    except ValueError:
        return ""
    return (host or "").rstrip(".")


def is_private_host(host: str) -> bool:
    """Whether a host name belongs to a private network, by its name alone. An empty name does not."""
    from agentcli.core import addresses

    return bool(host) and addresses.is_private_host(host)
