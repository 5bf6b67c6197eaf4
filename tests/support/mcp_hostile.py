"""MCP servers that misbehave, over stdin and stdout, on the standard library alone.

    python mcp_hostile.py MODE

Each mode is a function or a stage at which the server dies or hangs; the tests in tests/mcp/ name them.
"""

from __future__ import annotations

import json
import os
import sys
import time

TYPE_CHECKING = False
"""As in `typing`, whose import would be a fifth of a start; modules that one mode needs are imported there."""
if TYPE_CHECKING:
    from typing import Any, NoReturn

ESCAPES = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202e"
calls = 0


def write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def send(message: dict[str, Any]) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}))


def complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def die(code: int = 3) -> NoReturn:
    complain("the disk is full")
    os._exit(code)


def hang() -> NoReturn:
    while True:
        time.sleep(3600)


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


def tool(name: Any = "work", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"The tool {name}", "inputSchema": {"type": "object"}, **more}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"inner": schema}}
    return schema


def lying_tools() -> list[Any]:
    return [
        tool("good"),
        tool("text", inputSchema={"type": "string"}),
        tool("list", inputSchema=[1]),
        tool("invalid", inputSchema={"type": "object", "properties": {"a": {"type": "nonsense"}}}),
        tool("remote", inputSchema={"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}}),
        tool("parameter", inputSchema={"type": "object", "properties": {"not allowed": {}}}),
        tool("deep", inputSchema=nested(60)),
        tool("good", description="The second of this name"),
        tool("x" * 129),
        tool(""),
        tool("bell\x07"),
        tool("wide", inputSchema={"type": "object", "required": ["a"] * 3000}),
        "no object",
        tool("untyped", inputSchema={"properties": {"a": {"type": "string"}}}),
        tool("last", description=17, title=["x"], annotations="none", _meta=3),
    ]


def huge_tools() -> list[Any]:
    fields = {f"field_{number}": {"type": "string", "description": "some text"} for number in range(40_000)}
    return [tool("huge", inputSchema={"type": "object", "properties": fields}), tool("small")]


def tools() -> list[Any]:
    match MODE:
        case "lying":
            return lying_tools()
        case "huge-schema":
            return huge_tools()
        case "escapes":
            schema = {"type": "object", "properties": {"a": {"type": "string", "description": ESCAPES}}}
            return [tool("work", description=ESCAPES, title=ESCAPES, inputSchema=schema), tool(ESCAPES)]
        case "shifting":
            return [tool(f"work_{calls}"), tool()]
    return [tool()]


def call(request: Any, params: dict[str, Any]) -> None:  # noqa: C901
    global calls
    calls += 1
    token = params["_meta"]["progressToken"]
    result: dict[str, Any] = text("done")
    match MODE:
        case "die-in-call":
            die()
        case "hang-in-call":
            return
        case "killed":
            complain("serving")
            import signal

            os.kill(os.getpid(), signal.SIGKILL)
        case "closes-output":
            os.close(1)
            hang()
        case "deaf":
            hang()
        case "die-after-call":
            send({"id": request, "result": result})
            die()
        case "wrong-ids":
            for other in (request + 1000, str(request) + "x", None, True, [request], {"a": 1}):
                send({"id": other, "result": text("for somebody else")})
        case "twice":
            send({"id": request, "result": text("first")})
            result = text("second")
        case "malformed-answer":
            send({"id": request, "result": "no object"})
            return
        case "malformed-content":
            parts: list[Any] = [17, {"type": "text"}, {"type": "image", "data": "no base64!"}, {"type": "hologram"}]
            result = {"content": [*parts, {"type": "resource", "resource": 3}, {"type": "text", "text": "good"}]}
        case "escapes":
            link = {"type": "resource_link", "uri": "x://" + ESCAPES, "name": ESCAPES, "description": ESCAPES}
            result = {"content": [{"type": "text", "text": ESCAPES}, link], "structuredContent": {ESCAPES: ESCAPES}}
            complain(ESCAPES)
            send({"method": "notifications/message", "params": {"level": "info", "data": ESCAPES}})
        case "escaped-error":
            send({"id": request, "error": {"code": 1, "message": f"{ESCAPES} did not work"}})
            return
        case "shifting":
            send({"method": "notifications/tools/list_changed"})
        case "big-result" | "fairly-big-result":
            size = 8_000_000 if MODE == "big-result" else 800_000
            result = {"content": [{"type": "image", "data": "A" * size, "mimeType": "image/png"}] * 2}
        case "progress-flood":
            for number in range(500):
                params = {"progressToken": token, "progress": number, "message": f"{ESCAPES}step {number}"}
                send({"method": "notifications/progress", "params": params})
        case "log-flood":
            for number in range(2000):
                send({"method": "notifications/message", "params": {"level": "info", "data": f"line {number}"}})
        case "requests":
            send({"id": 1, "method": "ping"})
            send({"id": 1, "method": "no/such/method", "params": {}})
            send({"id": 2, "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}})
            send({"id": 3, "method": "elicitation/create", "params": {"message": 3}})
            result = text(json.dumps([json.loads(sys.stdin.readline()) for _ in range(4)]))
    send({"id": request, "result": result})


def lists(request: Any, method: str, params: dict[str, Any]) -> None:
    if MODE == "die-in-list":
        die()
    if MODE == "hang-in-list":
        return
    if MODE == "no-relist" and calls:
        send({"id": request, "error": {"code": 1, "message": "not again"}})
        return
    result: dict[str, Any] = {"tools": tools()}
    if MODE == "endless-pages":
        number = int(params.get("cursor", 0))
        result = {"tools": [tool(f"tool_{number}")], "nextCursor": str(number + 1)}
    send({"id": request, "result": result})


def initialize(request: Any, params: dict[str, Any]) -> None:
    match MODE:
        case "die-at-start":
            die()
        case "hang-at-start":
            return
        case "malformed":
            write("{")
            write('{"jsonrpc": "2.0"}')
            write("[" * 10_000)
            write("\U0001f44b hello, I am a log line")
    result = {
        "protocolVersion": "1999-01-01" if MODE == "unknown-version" else params["protocolVersion"],
        "capabilities": {"tools": {"listChanged": True}, "logging": {}},
        "serverInfo": {"name": ESCAPES if MODE == "escapes" else "hostile", "version": "1"},
        "instructions": (ESCAPES + "x" * 10_000) if MODE == "escapes" else "",
    }
    send({"id": request, "result": result})
    if MODE == "die-after-start":
        die()
    if MODE == "four-changes":
        for _ in range(4):
            send({"method": "notifications/tools/list_changed"})


def main() -> None:  # noqa: C901
    match MODE:
        case "flood-line":
            while True:
                sys.stdout.write("x" * 65536)
        case "flood-garbage":
            while True:
                sys.stdout.write("this is not JSON\n" * 1000)
        case "flood-stderr":
            for _ in range(40):
                sys.stderr.write("complaint\n" * 5000)
            sys.stderr.write("y" * 1_000_000 + "\n")
        case "stubborn":
            import signal

            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case "ignores-eof":
            import signal

            signal.signal(signal.SIGTERM, lambda *_: die(7))
        case "grandchild" | "grandchild-dies":
            import subprocess

            child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(3600)"])
            complain(f"grandchild {child.pid}")
    for line in sys.stdin:
        message = json.loads(line)
        method, params = message.get("method"), message.get("params") or {}
        if method == "notifications/cancelled":
            complain("cancelled")
        elif method == "initialize":
            initialize(message["id"], params)
        elif method == "tools/list":
            lists(message["id"], method, params)
        elif method == "tools/call" and MODE == "grandchild-dies":
            die()
        elif method == "tools/call":
            call(message["id"], params)
        elif method == "logging/setLevel":
            send({"id": message["id"], "result": {}})
        elif "id" in message and method is not None:
            complain(f"unknown method {method}")
            send({"id": message["id"], "error": {"code": -32601, "message": "unknown method"}})
    if MODE in ("stubborn", "ignores-eof"):
        hang()


if __name__ == "__main__":
    MODE = sys.argv[1]
    main()
