"""A small MCP server over stdin and stdout, on the standard library alone: it starts in 30 ms.

    python mcp_server.py [--tools N]

Tools: echo, add (read-only, structured), fail, image, slow (progress, then waits), ask (elicitation), think (sampling),
roots, grow (adds a tool, or with `bend` changes add), env. Resources: note://one, note://bytes, template note://{name}.
Prompts: greet (name, mood), plain.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
"""As in `typing`, whose import would be a fifth of a start."""
if TYPE_CHECKING:
    from typing import Any

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_next = 1000
extra_tools: list[str] = []
removed_tools: set[str] = set()
alternatives: list[dict[str, Any]] = []
"""At the top of the schema of add, where the API refuses them."""


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """A request to the client; other requests that come meanwhile are answered."""
    global _next
    _next += 1
    send({"id": _next, "method": method, "params": params})
    while True:
        message = receive()
        if message.get("id") == _next and "method" not in message:
            return message.get("result") or {"error": message.get("error")}
        answer(message)


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


def schema(**fields: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": kind} for name, kind in fields.items()}}


def tools(count: int) -> list[dict[str, Any]]:
    named: list[dict[str, Any]] = [
        {
            "name": "echo",
            "description": "Say a text again",
            "inputSchema": {**schema(text="string"), "required": ["text"]},
        },
        {
            "name": "add",
            "description": "Add two numbers",
            "inputSchema": schema(a="number", b="number") | ({"anyOf": alternatives} if alternatives else {}),
            "outputSchema": schema(sum="number"),
            "annotations": {"readOnlyHint": True},
        },
        {"name": "fail", "description": "Always fails", "inputSchema": schema()},
        {"name": "image", "description": "A picture of one pixel", "inputSchema": schema()},
        {"name": "slow", "description": "Reports progress and does not end", "inputSchema": schema(steps="integer")},
        {"name": "ask", "description": "Asks the user", "inputSchema": schema()},
        {"name": "think", "description": "Asks the model", "inputSchema": schema()},
        {"name": "roots", "description": "The client's folders", "inputSchema": schema()},
        {"name": "grow", "description": "Adds a tool", "inputSchema": schema()},
        {"name": "env", "description": "The names of its variables", "inputSchema": schema()},
    ]
    more = [{"name": name, "description": f"The tool {name}", "inputSchema": schema()} for name in extra_tools]
    many = [
        {"name": f"tool_{number}", "description": f"Does thing number {number}", "inputSchema": schema(value="string")}
        for number in range(count)
    ]
    return [tool for tool in (*named, *more, *many) if tool["name"] not in removed_tools]


def call(name: str, given: dict[str, Any], token: Any) -> dict[str, Any]:
    match name:
        case "echo":
            return text(given["text"])
        case "add":
            return {
                **text(json.dumps({"sum": given["a"] + given["b"]})),
                "structuredContent": {"sum": given["a"] + given["b"]},
            }
        case "fail":
            return {**text("It does not work."), "isError": True}
        case "image":
            return {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]}
        case "slow":
            for step in range(given.get("steps", 2)):
                params = {"progressToken": token, "progress": step + 1, "total": 10, "message": f"step {step + 1}"}
                send({"method": "notifications/progress", "params": params})
            return wait_for_cancel()
        case "ask":
            wanted = {**schema(name="string", age="integer"), "required": ["name"]}
            return text(json.dumps(ask("elicitation/create", {"message": "Who are you?", "requestedSchema": wanted})))
        case "think":
            messages = [{"role": "user", "content": {"type": "text", "text": "Say hello"}}]
            return text(json.dumps(ask("sampling/createMessage", {"messages": messages, "maxTokens": 50})))
        case "roots":
            return text(json.dumps(ask("roots/list", {})))
        case "grow" if given.get("bend"):
            alternatives.append({"required": ["a"]})
            send({"method": "notifications/tools/list_changed"})
            return text("done")
        case "grow" if "without" in given:
            removed_tools.add(given["without"])
            send({"method": "notifications/tools/list_changed"})
            return text("done")
        case "grow":
            extra_tools.append(f"new_{len(extra_tools) + 1}")
            send({"method": "notifications/tools/list_changed"})
            return text("done")
        case "env":
            return text(" ".join(sorted(os.environ)))
    return text("called")


def wait_for_cancel() -> dict[str, Any]:
    while True:
        message = receive()
        if message.get("method") == "notifications/cancelled":
            print("cancelled", file=sys.stderr, flush=True)
            return {}
        answer(message)


def answer(message: dict[str, Any]) -> None:
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message:
        return
    result: dict[str, Any] = {}
    match method:
        case "initialize":
            result = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {
                    "tools": {"listChanged": True},
                    "resources": {},
                    "prompts": {},
                    "completions": {},
                    "logging": {},
                },
                "serverInfo": {"name": "small", "version": "1.0"},
                "instructions": "Use echo to say things again.",
            }
        case "tools/list":
            result = {"tools": tools(COUNT)}
        case "tools/call":
            token = (params.get("_meta") or {}).get("progressToken")
            result = call(params["name"], params.get("arguments") or {}, token)
            if not result:
                return
        case "resources/list":
            result = {
                "resources": [
                    {"uri": "note://one", "name": "one", "description": "The first note", "mimeType": "text/plain"},
                    {"uri": "note://bytes", "name": "bytes", "mimeType": "application/octet-stream"},
                ]
            }
        case "resources/templates/list":
            result = {"resourceTemplates": [{"uriTemplate": "note://{name}", "name": "any note"}]}
        case "resources/read":
            uri = params["uri"]
            body = {"blob": "AAEC"} if uri == "note://bytes" else {"text": f"This is the note {uri}."}
            result = {"contents": [{"uri": uri, "mimeType": "text/plain", **body}]}
        case "prompts/list":
            greet = [{"name": "name", "required": True}, {"name": "mood"}]
            result = {
                "prompts": [
                    {"name": "greet", "description": "Greet somebody", "arguments": greet},
                    {"name": "plain", "description": "No arguments"},
                ]
            }
        case "prompts/get":
            said = f"Greet {(params.get('arguments') or {}).get('name', 'nobody')}."
            result = {"messages": [{"role": "user", "content": {"type": "text", "text": said}}]}
        case "completion/complete":
            start = params["argument"]["value"]
            values = [value for value in ("Ada", "Alan", "Barbara") if value.startswith(start)]
            result = {"completion": {"values": values}}
        case "ping" | "logging/setLevel":
            result = {}
        case _:
            send({"id": message["id"], "error": {"code": -32601, "message": f"unknown method {method}"}})
            return
    send({"id": message["id"], "result": result})


if __name__ == "__main__":
    COUNT = int(sys.argv[sys.argv.index("--tools") + 1]) if "--tools" in sys.argv else 0
    print("small server started", file=sys.stderr, flush=True)
    while True:
        answer(receive())
