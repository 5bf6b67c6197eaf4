"""A provider: a model that repeats the prompt. `"provider": "echo"` in the settings selects it."""

from collections.abc import AsyncGenerator
from typing import Any

from agentcli import Plugin

plugin = Plugin()


class Echo:
    name = "echo"

    async def events(
        self, body: dict[str, Any], betas: tuple[str, ...], signal: Any
    ) -> AsyncGenerator[dict[str, Any], None]:
        last = body["messages"][-1]["content"]
        text = last if isinstance(last, str) else " ".join(part.get("text", "") for part in last)
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "msg_1", "role": "assistant", "model": body["model"], "content": [], "usage": usage}
        yield {"type": "message_start", "message": message}
        yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f"You said: {text}"}}
        yield {"type": "content_block_stop", "index": 0}
        yield {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
        yield {"type": "message_stop"}

    async def renew(self) -> bool:
        return False

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...


@plugin.provider("echo")
def echo() -> Echo:
    return Echo()
