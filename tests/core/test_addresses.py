"""Which hosts count as private, in every spelling that some resolver takes; URLs that two parsers read differently."""

from __future__ import annotations

import ipaddress

from hypothesis import given
from hypothesis import strategies as st

from agentcli.core.addresses import (
    WebAddress,
    host_address,
    is_private_address,
    is_private_host,
    parse_web_address,
)
from tests.support.tables import each_row

PRIVATE = [
    *("127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "127.0.0.1."),
    *("0", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.127.255.255"),
    *("192.0.0.1", "192.0.0.192", "168.63.129.16", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "[::1]", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "fec0::1"),
    *(
        "::ffff:127.0.0.1",
        "::ffff:a00:1",
        "::127.0.0.1",
        "[::ffff:0:127.0.0.1]",
        "::ffff:168.63.129.16",
        "64:ff9b:1:808:8:800::",
        "64:ff9b::7f00:1",
        "64:ff9b:1::a00:1",
        "2002:7f00:1::",
        "2001::1",
    ),
    *("localhost", "LOCALHOST", "localhost.", "a.localhost", "printer.local", "metadata.google.internal", "nas.lan"),
    *("router", "intranet", "x.home.arpa", "api.default.svc", "１２７.0.0.1", "127。0。0。1", "⑯⑨.254.169.254"),
    *("", "1.2.3.4.5", "256.1.1.1", "08.8.8.8", "0x", "a..b", "-a.com", "a b.com", "fe80::1%eth0", "999999999999"),
]
PUBLIC = [
    *("example.com", "EXAMPLE.com.", "a.b.co.uk", "xn--bcher-kva.de", "bücher.de", "a_b.example.org", "1.example.com"),
    *(
        "8.8.8.8",
        "134744072",
        "1.1.1.1",
        "2606:4700:4700::1111",
        "::ffff:8.8.8.8",
        "::ffff:0:8.8.8.8",
        "64:ff9b::808:808",
        "2002:808:808::1",
    ),
]


@each_row("host", PRIVATE)
def test_private_and_reserved_addresses_are_recognised(host: str) -> None:
    assert is_private_host(host)


@each_row("host", PUBLIC)
def test_public_addresses_are_recognised(host: str) -> None:
    assert not is_private_host(host)


@given(st.integers(min_value=0, max_value=2**32 - 1))
def test_every_spelling_of_an_address_is_the_same_address(value: int) -> None:
    address = ipaddress.IPv4Address(value)
    parts = str(address).split(".")
    spellings = [
        str(address),
        str(value),
        hex(value),
        f"0{value:o}",
        ".".join(hex(int(part)) for part in parts),
        ".".join(f"0{int(part):o}" for part in parts),
        f"{parts[0]}.{value & 0xFFFFFF}",
        f"{parts[0]}.{parts[1]}.{value & 0xFFFF}",
    ]
    for spelling in spellings:
        assert host_address(spelling) == address, spelling
        assert is_private_host(spelling) == is_private_address(address)
    mapped = ipaddress.IPv6Address(f"::ffff:{address}")
    assert is_private_address(mapped) == is_private_address(address)


@each_row(
    ("given_text", "canonical"),
    [
        ("http://example.com", "http://example.com/"),
        ("HTTPS://Example.COM:443/A/b?c=d#e", "https://example.com/A/b?c=d"),
        ("example.com/x", "https://example.com/x"),
        ("https://example.com:8443", "https://example.com:8443/"),
        ("http://2130706433:8000/x", "http://127.0.0.1:8000/x"),
        ("https://[0:0::1]/", "https://[::1]/"),
        ("https://bücher.de/ü?q=ü", "https://xn--bcher-kva.de/%C3%BC?q=%C3%BC"),
        ("https://example.com/%41?x=%2F", "https://example.com/%41?x=%2F"),
    ],
)
def test_a_url_has_one_form(given_text: str, canonical: str) -> None:
    address = parse_web_address(given_text)
    assert isinstance(address, WebAddress)
    assert address.text == canonical
    assert parse_web_address(address.text) == address


@each_row(
    "text",
    [
        *("", " ", "ftp://example.com", "file:///etc/passwd", "javascript:alert(1)", "data:text/html,x", "/etc/passwd"),
        *("https://user:pass@example.com/", "https://user@example.com", "https://good.com\\@evil.com/", "https:///x"),
        *(
            "https://exa mple.com/",
            "https://example.com/\r\nHost: x",
            "https://example.com/\x00",
            "https://ex%61mple.com/",
        ),
        *("https://example.com:0/", "https://example.com:99999/", "https://[::1/", "https://" + "a" * 5000),
        "https://example.com/\ud800",
    ],
)
def test_an_ambiguous_address_or_one_with_a_password_is_refused(text: str) -> None:
    assert isinstance(parse_web_address(text), str)
