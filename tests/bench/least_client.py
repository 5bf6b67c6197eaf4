"""The least that can be called a client: httpx2, server-sent events, and a tool that reads a file. For comparison.

    python least_client.py URL

No retries, no session file, no permissions, no abort: what agentcli costs beyond this is what those cost.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import httpx2

Json = dict[str, Any]
_TOOL = {
    "name": "Read",
    "description": "Read a file",
    "input_schema": {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]},
}


def main(url: str) -> None:
    messages: list[Json] = [{"role": "user", "content": "hi"}]
    with httpx2.Client(timeout=None, verify=False) as client:  # nothing but loopback is ever asked
        while True:
            blocks = _reply(client, url, messages)
            messages.append({"role": "assistant", "content": blocks})
            results = [_result(block) for block in blocks if block["type"] == "tool_use"]
            if not results:
                break
            messages.append({"role": "user", "content": results})
    sys.stdout.write("".join(block.get("text", "") for block in blocks) + "\n")


def _reply(client: httpx2.Client, url: str, messages: list[Json]) -> list[Json]:
    body = {"model": "m", "max_tokens": 8192, "stream": True, "tools": [_TOOL], "messages": messages}
    blocks: list[Json] = []
    with client.stream("POST", f"{url}/v1/messages", json=body) as response:
        for line in response.iter_lines():
            if line.startswith("data: "):
                _take(json.loads(line[6:]), blocks)
    for block in blocks:
        if "partial" in block:
            block["input"] = json.loads(block.pop("partial") or "{}")
    return blocks


def _take(event: Json, blocks: list[Json]) -> None:
    if event["type"] == "content_block_start":
        blocks.append(event["content_block"])
    elif event["type"] == "content_block_delta":
        delta, block = event["delta"], blocks[-1]
        if delta["type"] == "text_delta":
            block["text"] += delta["text"]
        elif delta["type"] == "input_json_delta":
            block["partial"] = block.get("partial", "") + delta["partial_json"]


def _result(call: Json) -> Json:
    text = Path(call["input"]["file_path"]).read_text() if call["name"] == "Read" else ""
    return {"type": "tool_result", "tool_use_id": call["id"], "content": text}


if __name__ == "__main__":
    main(sys.argv[1])
