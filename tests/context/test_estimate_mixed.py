"""The token estimate over a long mixed conversation, against servers that count differently."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable

from agentcli.context.estimate import Estimator
from agentcli.core.frozen import frozen
from agentcli.core.messages import Message, Origin, TextBlock, ToolResultBlock, ToolUseBlock, user_message
from agentcli.core.usage import Usage
from tests.support.tables import each_row

CALIBRATED_AFTER = 6
"""Replies; each kind of text has been seen once by then."""
TURNS = 60
FRAME = 900
"""Tokens of system prompt and tools, which no message shows."""

Count = Callable[[str, str], float]
"""Tokens of a text of this kind, by the server's own rule."""


def code(chance: random.Random) -> str:
    names = ["total", "value", "index", "result", "buffer"]
    lines = [
        f"    {chance.choice(names)}_{n} = compute({chance.choice(names)}, {chance.randint(0, 99)})" for n in range(60)
    ]
    return "def work(value: int) -> int:\n" + "\n".join(lines)


def prose(chance: random.Random) -> str:
    words = ["the", "river", "was", "quiet", "and", "nobody", "had", "crossed", "it", "since", "bridge", "spring"]
    return ". ".join(" ".join(chance.choices(words, k=12)).capitalize() for _sentence in range(40))


def records(chance: random.Random) -> str:
    rows = [{"id": n, "name": f"item {n}", "price": chance.randint(1, 9_999), "tags": ["a", "b"]} for n in range(40)]
    return json.dumps(rows, indent=1)


def chinese(chance: random.Random) -> str:
    return "".join(chr(chance.randint(0x4E00, 0x9FA5)) for _character in range(900))


def encoded(chance: random.Random) -> str:
    return base64.b64encode(chance.randbytes(1_500)).decode()


def difference(chance: random.Random) -> str:
    hunks = [f"@@ -{n},3 +{n},3 @@\n context line\n-old value {n}\n+new value {n}" for n in range(1, 400, 10)]
    return "--- a/file.py\n+++ b/file.py\n" + "\n".join(chance.sample(hunks, 30))


KINDS = {
    "code": code,
    "prose": prose,
    "json": records,
    "chinese": chinese,
    "base64": encoded,
    "diff": difference,
}
PER_BYTE = {"code": 0.36, "prose": 0.24, "json": 0.46, "chinese": 0.4, "base64": 0.66, "diff": 0.42}
"""Tokens per byte of UTF-8, as a tokenizer might have them that knows each kind otherwise."""


def by_table(factor: float) -> Count:
    return lambda kind, text: len(text.encode()) * PER_BYTE[kind] * factor


RULES: dict[str, Count] = {
    "characters": lambda _kind, text: len(text) / 3.1,
    "a table by kind": by_table(1.0),
    "a dense one": by_table(1.5),
    "a sparse one": by_table(0.6),
}


@frozen
class Turn:
    estimated: int
    """What the estimate grew by when a result came."""
    added: float
    """What that came to by the server's rule."""
    error: float
    """Of the whole request, as a share of it."""


def conversation(count: Count, seed: int) -> list[Turn]:
    chance, estimator = random.Random(seed), Estimator()
    log: list[Message] = [user_message("Look at all of it.", "p", Origin.PROMPT)]
    truth, turns = FRAME + 8.0, []
    order = [kind for _round in range(TURNS // len(KINDS)) for kind in chance.sample(list(KINDS), len(KINDS))]
    for number, kind in enumerate(order):
        call = ToolUseBlock(f"c{number}", "Read", {"file_path": f"file{number}"})
        usage = Usage(input_tokens=round(truth), output_tokens=60)
        log.append(Message("assistant", (call,), f"a{number}", Origin.REPLY, usage=usage))
        before = estimator.context(log, FRAME)
        text = KINDS[kind](chance)
        results = (ToolResultBlock(call.id, (TextBlock(text),)),)
        log.append(Message("user", results, f"u{number}", Origin.TOOL_RESULTS))
        added = 14 + count(kind, text)
        truth += 60 + added
        estimate = estimator.context(log, FRAME)
        turns.append(Turn(estimate - before, added, abs(estimate - truth) / truth))
    return turns


@each_row("seed", range(4))
@each_row("rule", RULES)
def test_a_mixed_conversation_is_estimated_within_a_tenth_after_learning(rule: str, seed: int) -> None:
    turns = conversation(RULES[rule], seed)[CALIBRATED_AFTER:]
    assert max(turn.error for turn in turns) <= 0.10
    # The whole begins with the last true usage, which flatters: what was truly estimated has to be right as well.
    estimated, added = sum(turn.estimated for turn in turns), sum(turn.added for turn in turns)
    assert abs(estimated - added) / added <= 0.10
