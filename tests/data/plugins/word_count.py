"""A tool: count the words of a text."""

from agentcli import Plugin

plugin = Plugin()


@plugin.tool(safe=True)
def word_count(text: str) -> int:
    "Count the words of a text."
    return len(text.split())
