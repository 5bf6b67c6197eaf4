"""A renderer: the result of `word_count` as a bar."""

from collections.abc import Iterator

from agentcli import Plugin, ToolCall
from agentcli.plugins.plugin import RenderedLine

plugin = Plugin()


@plugin.renderer("word_count")
def bar(call: ToolCall) -> Iterator[RenderedLine]:
    count = int(call.output)
    yield [("#" * min(count, 40), "success"), f" {count} words"]
