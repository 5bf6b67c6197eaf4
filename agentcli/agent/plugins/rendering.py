"""Renderers of plugins: their lines become the display of a tool's result, as plain data, never as markup or terminal
control sequences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from agentcli.agent.plugins.session_plugins import SessionPlugins
from agentcli.core.aio import in_thread
from agentcli.core.messages import Json, TextBlock
from agentcli.core.text.plaintext import plain_text
from agentcli.plugins.bounded_call import call_bounded
from agentcli.plugins.plugin import STYLES, Renderer, ToolCall
from agentcli.tools.base import Output

KIND = "lines"
"""The `kind` of the display."""
_MOST_LINES = 500
_LONGEST_LINE = 2_000
_SECONDS = 2.0


class PluginRenderers:
    def __init__(self, plugins: SessionPlugins) -> None:
        self._plugins = plugins

    async def render(self, name: str, input: Json, output: Output) -> Output:
        """The output with the lines of the tool's renderer as its display; unchanged without one, or if it fails."""
        owned = self._plugins.active.renderers.get(name)
        if owned is None:
            return output
        content = output.content
        text = content if isinstance(content, str) else "\n".join(b.text for b in content if isinstance(b, TextBlock))
        call = ToolCall(name, dict(input), text, output.is_error, output.structured)
        try:
            render = partial(_display, owned.part.function, call)
            display = await in_thread(call_bounded, render, _SECONDS, f"renderer of {name}")
        except Exception as error:  # noqa: BLE001 - the usual display is shown instead
            self._plugins.fail(owned.source, f"the renderer of {name}", error)
            return output
        return replace(output, display=display)


def _display(function: Renderer, call: ToolCall) -> Json:
    returned: Any = function(call)
    lines = returned.split("\n") if isinstance(returned, str) else returned
    spans = [_spans(line) for line in islice(lines, _MOST_LINES)]
    return {"kind": KIND, "lines": spans, "text": "\n".join("".join(text for text, _style in line) for line in spans)}


def _spans(line: object) -> list[list[str]]:
    if isinstance(line, str):
        return [[_clean(line), "text"]]
    if not isinstance(line, Iterable):
        raise TypeError(f"a line is {type(line).__name__}; expected a text or a list of spans")
    found = []
    for span in line:
        text, style = (span, "text") if isinstance(span, str) else span
        if style not in STYLES:
            raise ValueError(f"there is no style {style!r}. There are {', '.join(STYLES)}")
        found.append([_clean(str(text)), style])
    return found


def _clean(text: str) -> str:
    return plain_text(text).replace("\n", " ")[:_LONGEST_LINE]
