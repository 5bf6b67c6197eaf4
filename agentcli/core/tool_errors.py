"""How a failed tool call is reported to the model: one convention for every way to fail.

A call has failed if it did not run (unknown tool, input that is not JSON or does not fit the schema, the tool's own
validation, a hook or the permissions denied it), did not run to its end (a crash, an abort, a cancelled sibling, a
session that ended), or ran and reports a failure itself (`Output.is_error`: a missing file).

In all of these cases, and in no other:

- the `tool_result` has `is_error`, and
- its text is in `<tool_use_error>` tags, once: the first text block opens them and the last one closes them.

A command that ran to its end and exited with another code than 0 did not fail as a call: its result has `is_error`, and
its output is unchanged.

Notes that are not part of the result, such as the user's comment with an approval, follow in blocks of their own,
outside the tags. Front ends show the text without the tags (`unwrapped`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentcli.core.messages import ImageBlock, TextBlock, UnknownBlock

_OPEN, _CLOSE = "<tool_use_error>", "</tool_use_error>"
_NOTHING_SAID = "The call failed without a message."

Content = tuple[TextBlock | ImageBlock | UnknownBlock, ...]


def wrapped(text: str) -> str:
    return text if text.startswith(_OPEN) and text.endswith(_CLOSE) else f"{_OPEN}{text}{_CLOSE}"


def wrapped_content(content: Sequence[TextBlock | ImageBlock | UnknownBlock]) -> Content:
    """The content of a failed call with its text in the tags; images stay in place."""
    blocks = list(content)
    texts = [(place, block) for place, block in enumerate(blocks) if isinstance(block, TextBlock)]
    if not texts:
        return (TextBlock(wrapped(_NOTHING_SAID)), *blocks)
    (first, opening), (last, closing) = texts[0], texts[-1]
    if first == last:
        blocks[first] = replace(opening, text=wrapped(opening.text))
    else:
        blocks[first] = replace(opening, text=_OPEN + opening.text)
        blocks[last] = replace(closing, text=closing.text + _CLOSE)
    return tuple(blocks)


def unwrapped(text: str) -> str:
    """The text for the user. Also for a truncated result without its closing tag."""
    stripped = text.strip()
    return stripped.removeprefix(_OPEN).removesuffix(_CLOSE).strip() if stripped.startswith(_OPEN) else text
