"""An OpenTelemetry collector as a process of its own: it takes what the official protocol allows, and refuses the rest.

python -m tests.support.collector FOLDER    writes its port to FOLDER/port and each request to FOLDER/requests
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any


def parse_request(text: bytes | str) -> Any:
    """An `ExportTraceServiceRequest`. Raises an exception for anything else."""
    made = json.loads(text)
    for span in (span for one in made["resourceSpans"] for scope in one["scopeSpans"] for span in scope["spans"]):
        for name in {"traceId", "spanId", "parentSpanId"} & span.keys():
            # OTLP has ids in hexadecimal digits, the JSON of protobuf in base64. All else is the same.
            span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    service = import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    return import_module("google.protobuf.json_format").Parse(json.dumps(made), service.ExportTraceServiceRequest())


class Collector:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{(self._folder / 'port').read_text()}"

    @property
    def requests(self) -> list[dict[str, Any]]:
        """Path, headers and names of the spans of each request."""
        log = self._folder / "requests"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def forget(self) -> None:
        (self._folder / "requests").unlink(missing_ok=True)


@contextmanager
def running_collector(folder: Path) -> Iterator[Collector]:
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.collector", str(folder)], cwd=Path(__file__).parents[2]
    )
    try:
        until = time.monotonic() + 60
        while not (folder / "port").exists():
            assert process.poll() is None, "the collector did not start"
            assert time.monotonic() < until
            time.sleep(0.01)
        yield Collector(folder)
    finally:
        process.terminate()
        process.wait()


def main(folder: Path) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["content-length"]))
            try:
                spans = [
                    span
                    for one in parse_request(content).resource_spans
                    for scope in one.scope_spans
                    for span in scope.spans
                ]
                status = 200 if self.path == "/v1/traces" and all(len(span.span_id) == 8 for span in spans) else 404
            except Exception as error:
                status, spans = 400, []
                sys.stderr.write(f"{error!r}\n")
            entry = {"path": self.path, "headers": dict(self.headers), "status": status, "text": content.decode()}
            with (folder / "requests").open("a") as log:
                log.write(json.dumps({**entry, "spans": [span.name for span in spans]}) + "\n")
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_arguments: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    (folder / "port.new").write_text(str(server.server_port))
    (folder / "port.new").rename(folder / "port")
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
