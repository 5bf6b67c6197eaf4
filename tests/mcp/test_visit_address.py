"""Addresses that servers want opened: refused, or shown with what a user must notice."""

from __future__ import annotations

import pytest

from agentcli.mcp.user_input import AddressRefused, parse_address
from tests.support.tables import each_row


@each_row(
    ("text", "host"),
    [
        ("https://example.com", "example.com"),
        ("https://Example.com:8443/a?b=c#d", "Example.com"),
        ("http://localhost:3000/callback", "localhost"),
        ("http://127.0.0.1/", "127.0.0.1"),
        ("http://[::1]:80/", "[::1]"),
        ("https://user:word@evil.example/https://bank.example", "evil.example"),
    ],
)
def test_the_host_is_found_in_the_address(text: str, host: str) -> None:
    address = parse_address(text)
    assert address.host == host
    assert address.text == text


@each_row(
    "text",
    [
        "",
        "example.com",
        "http://example.com",
        "http://localhost.example.com",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "vscode://open",
        "https://",
        "https://a b.com",
        "https://bank.example\\@evil.example",
        "https://a.example/\x1b[2J",
        "https://a.example/\u202egpj.exe",
        "https://a.example:99999/",
        "https://[::1",
        "https://a.example/" + "a" * 10_000,
        "--help",
    ],
)
def test_anything_but_a_sound_https_address_is_refused(text: str) -> None:
    with pytest.raises(AddressRefused):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("https://bank.example@evil.example/", "The part before @ is a user name. The site is evil.example."),
        ("https://b\u00e4nk.example/", "The host has letters beyond a to z: it is xn--bnk-qla.example."),
        ("https://xn--bnk-qla.example/", "The host is an encoded name that browsers may show as b\u00e4nk.example."),
    ],
)
def test_what_hides_the_true_host_is_pointed_out(text: str, warning: str) -> None:
    assert warning in parse_address(text).warnings
