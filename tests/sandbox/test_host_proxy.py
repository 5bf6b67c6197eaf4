"""Commands without network reach allowed hosts, and nothing else, through the sandbox's proxy."""

from __future__ import annotations

import http.server
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentcli.sandbox.host_proxy import PORT, HostProxy, forwarded, host_matches, proxy_variables
from agentcli.sandbox.plan import Upstream
from tests.sandbox.box import ability_or_skip
from tests.support.tables import each_row

_FETCH = "import sys,urllib.request as u; print(u.urlopen(sys.argv[1], timeout=20).read().decode())"


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"page {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"got " + str(len(body)).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def talk(path: Path, request: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(str(path))
        client.sendall(request)
        answer = b""
        while piece := client.recv(65536):
            answer += piece
    return answer


@each_row(
    ("host", "patterns", "expected"),
    [
        ("registry.npmjs.org", ["registry.npmjs.org"], True),
        ("Registry.NPMJS.org.", ["registry.npmjs.org"], True),
        ("a.example.org", ["*.example.org"], True),
        ("a.b.example.org", ["*.example.org"], True),
        ("example.org", ["*.example.org"], False),
        (".example.org", ["*.example.org"], False),
        ("evil-example.org", ["*.example.org", "example.org"], False),
        ("example.org.evil.net", ["example.org"], False),
        ("example.org", [], False),
        ("example.org", ["*"], False),
        ("x.example.org", ["*.example.org", "!x.example.org"], False),
        ("y.example.org", ["*.example.org", "!x.example.org"], True),
        ("y.example.org", ["!x.example.org"], False),
    ],
)
def test_a_host_is_allowed_by_its_name_or_by_a_domain_above_it(host: str, patterns: list[str], expected: bool) -> None:
    assert host_matches(host, patterns) is expected


def test_an_allowed_host_is_fetched_and_a_refused_one_is_recorded(tmp_path: Path, port: int) -> None:
    with closing(HostProxy(tmp_path / "s", ["localhost"])) as proxy:
        answer = talk(tmp_path / "s", f"GET http://localhost:{port}/x?y=1 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert answer.endswith(b"page /x?y=1")
        refused = talk(tmp_path / "s", b"CONNECT registry.example.org:443 HTTP/1.1\r\n\r\n")
        assert refused.startswith(b"HTTP/1.1 403")
        assert proxy.refused == ("registry.example.org",)


def test_a_tunnel_carries_both_ways(tmp_path: Path, port: int) -> None:
    with closing(HostProxy(tmp_path / "s", ["localhost"])), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(str(tmp_path / "s"))
        client.sendall(f"CONNECT localhost:{port} HTTP/1.1\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        body = b"x" * 300_000
        client.sendall(b"POST / HTTP/1.0\r\nContent-Length: 300000\r\n\r\n" + body)
        answer = b""
        while piece := client.recv(65536):
            answer += piece
        assert answer.endswith(b"got 300000")


def test_a_public_name_that_leads_to_a_private_address_is_refused(tmp_path: Path, port: int) -> None:
    for address in ("127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1"):
        path = tmp_path / "s"
        with closing(HostProxy(path, ["rebind.example.org"], resolve=lambda _h, _p, a=address: [a])):
            answer = talk(path, f"CONNECT rebind.example.org:{port} HTTP/1.1\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 403"), address


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"CONNECT localhost/../x:80 HTTP/1.1\r\n\r\n",
        b"CONNECT user@localhost:80 HTTP/1.1\r\n\r\n",
        b"CONNECT evil.org\x00localhost:80 HTTP/1.1\r\n\r\n",
        b"GET https://localhost/ HTTP/1.1\r\n\r\n",
        b"GET ftp://localhost/ HTTP/1.1\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"X" * 100_000,
        b"",
    ],
)
def test_an_invalid_proxy_request_reaches_nothing(tmp_path: Path, request_line: bytes) -> None:
    reached: list[str] = []

    def resolve(host: str, _port: int) -> list[str]:
        reached.append(host)
        return []

    with closing(HostProxy(tmp_path / "s", ["localhost"], resolve=resolve)), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(str(tmp_path / "s"))
        try:
            client.sendall(request_line)
            client.shutdown(socket.SHUT_WR)
            answer = client.recv(1000)
        except OSError:
            answer = b""
    assert not answer.startswith(b"HTTP/1.1 200")
    assert reached == []


def test_the_machine_s_own_proxy_is_used_with_credentials_that_the_sandbox_never_sees(tmp_path: Path) -> None:
    upstream = Upstream.from_environ({"HTTPS_PROXY": "http://me:s%40crt@proxy.example.org:8080"})
    assert upstream == Upstream("proxy.example.org", 8080, "Basic bWU6c0BjcnQ=")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)
        seen: list[bytes] = []

        def serve() -> None:
            server, _address = listening.accept()
            with server:
                seen.append(server.recv(65536))
                server.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                server.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        local = Upstream("127.0.0.1", listening.getsockname()[1], "Basic bWU6c0BjcnQ=")
        with closing(HostProxy(tmp_path / "s", ["pypi.org"], local)), socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(str(tmp_path / "s"))
            client.sendall(b"CONNECT pypi.org:443 HTTP/1.1\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200")
            client.sendall(b"x")
            thread.join(20)
    assert seen[0].startswith(b"CONNECT pypi.org:443 ")
    assert b"Proxy-Authorization: Basic bWU6c0BjcnQ=" in seen[0]


def in_sandbox(tmp_path: Path, *command: str, proxied: bool = True) -> subprocess.CompletedProcess[str]:
    ability = ability_or_skip()
    arguments = forwarded(command, tmp_path / "s") if proxied else command
    words = (
        *(ability.program, *ability.privileges, "--unshare-net", "--unshare-pid", "--die-with-parent"),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--"),
        *arguments,
    )
    environ = proxy_variables({"PATH": os.environ["PATH"], "HTTP_PROXY": "http://elsewhere:1"})
    return subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60, check=False)


def test_a_command_without_network_reaches_an_allowed_host_and_no_other(tmp_path: Path, port: int) -> None:
    with closing(HostProxy(tmp_path / "s", ["machine.test"], resolve=lambda _h, _p: ["127.0.0.1"])) as proxy:
        done = in_sandbox(tmp_path, sys.executable, "-c", _FETCH, f"http://machine.test:{port}/ok")
        assert done.stdout.strip() == "page /ok", done.stderr
        other = in_sandbox(tmp_path, sys.executable, "-c", _FETCH, f"http://other.example.org:{port}/no")
        assert other.returncode != 0
        assert "403" in other.stderr
        assert proxy.refused == ("other.example.org",)
        direct = in_sandbox(
            tmp_path, sys.executable, "-c", f"import socket; socket.create_connection(('127.0.0.1', {port}))"
        )
        assert direct.returncode != 0, "the machine's own loopback was reached"


def test_exit_code_output_and_leftover_processes_are_those_of_the_command(tmp_path: Path) -> None:
    with closing(HostProxy(tmp_path / "s", [])):
        done = in_sandbox(tmp_path, "/bin/sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert str(PORT) in proxy_variables({})["HTTP_PROXY"]
