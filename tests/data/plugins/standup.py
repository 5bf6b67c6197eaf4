"""Two commands: one shows text, one sends a prompt."""

from collections.abc import Iterator

from agentcli import Engine, Plugin

plugin = Plugin()


@plugin.command("turns", "Count the messages of this conversation")
def turns(engine: Engine, arguments: str) -> Iterator[str]:
    yield f"{len(engine.messages)} messages"


@plugin.command("standup", "Summarise the day", argument_hint="[topic]")
def standup(engine: Engine, arguments: str) -> str:
    return f"Summarise what changed today in three lines. Topic: {arguments or 'everything'}."
