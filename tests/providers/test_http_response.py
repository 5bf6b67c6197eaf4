"""The parser of HTTP/1.1 responses: framing, limits, and what is refused."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.providers.http_response import MAX_HEAD_BYTES, BrokenResponse, ResponseHead, ResponseParser

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
RESPONSES = [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", True),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"", True),
    (b"HTTP/1.1 204\r\nX: 1\r\n\r\n", b"", True),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\nConnection: Close\r\n\r\nhello", b"hello", False),
    (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", False),
    (b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", b"hello", True),
    (b"HTTP/1.1 200 OK\r\n\r\nall until the end", b"all until the end", False),
    (CHUNKED + b"5\r\nhello\r\n6; name=value\r\n world\r\n0\r\n\r\n", b"hello world", True),
    (CHUNKED + b"00A\r\n0123456789\r\n0\r\nX-Trailer: 1\r\n\r\n", b"0123456789", True),
    (b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED + b"1\r\nx\r\n0\r\n\r\n", b"x", True),
]


def parsed(pieces: list[bytes]) -> tuple[ResponseHead, bytes, bool]:
    """`pieces` as they arrive, after which the connection ends."""
    parser, arriving = ResponseParser(), iter([*pieces, b""])
    while (head := parser.head()) is None:
        parser.feed(next(arriving))
    body = b""
    while (data := parser.body()) != b"":
        if data is None:
            parser.feed(next(arriving))
        else:
            body += data
    return head, body, parser.can_continue


@pytest.mark.parametrize(("response", "body", "can_continue"), RESPONSES)
def test_a_response_is_the_same_however_it_is_split(response: bytes, body: bytes, can_continue: bool) -> None:
    for size in (1, 2, 3, 7, len(response)):
        pieces = [response[at : at + size] for at in range(0, len(response), size)]
        _head, found, continues = parsed(pieces)
        assert (found, continues) == (body, can_continue)


def test_the_head_has_its_status_and_headers() -> None:
    head, _body, _continues = parsed(
        [b"HTTP/1.1 429 Slow down\r\nRetry-After:3\r\nX-A: a \r\nx-a:\tb\r\nEmpty:\r\n\r\n"]
    )
    assert head == ResponseHead(429, {"retry-after": "3", "x-a": "a, b", "empty": ""})


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nBad name: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nFolded: 1\r\n 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        CHUNKED + b"5\r\nhello\r\n",
        CHUNKED + b"5\r\nhello, world\r\n0\r\n\r\n",
        CHUNKED + b"x\r\nhello\r\n",
        CHUNKED + b"-5\r\nhello\r\n",
        CHUNKED + b"1" * 16 + b"\r\n",
        CHUNKED + b"1;" + b"x" * 10_000,
        CHUNKED + b"0\r\n" + b"X: 1\r\n" * 20_000,
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * MAX_HEAD_BYTES,
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * MAX_HEAD_BYTES + b"\r\n\r\n",
    ],
)
def test_an_invalid_or_incomplete_response_is_refused(response: bytes) -> None:
    for size in (1000, len(response) or 1):
        with pytest.raises(BrokenResponse):
            parsed([response[at : at + size] for at in range(0, len(response), size)])


def test_data_after_the_response_ends_the_use_of_the_connection() -> None:
    *_found, continues = parsed([b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 408 Timeout\r\n\r\n"])
    assert not continues


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), st.booleans())
def test_it_reads_what_h11_writes(chunks: list[bytes], is_chunked: bool) -> None:
    server = h11.Connection(h11.SERVER)
    server.receive_data(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert [type(server.next_event()) for _event in range(2)] == [h11.Request, h11.EndOfMessage]
    length = str(sum(map(len, chunks)))
    headers = [("Transfer-Encoding", "chunked")] if is_chunked else [("Content-Length", length)]
    sent = [server.send(h11.Response(status_code=200, headers=headers))]
    sent += [server.send(h11.Data(chunk)) for chunk in chunks]
    sent.append(server.send(h11.EndOfMessage()))
    head, body, continues = parsed([piece for piece in sent if piece])
    assert (head.status, body, continues) == (200, b"".join(chunks), True)
