"""The token estimate: by kinds of characters, close to the API's count, and closer after responses."""

from __future__ import annotations

import base64
import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.context.edits import ContextEdit
from agentcli.context.estimate import (
    IMAGE_TOKENS,
    Estimator,
    block_tokens,
    count_kinds,
    message_tokens,
    text_tokens,
    weigh,
)
from agentcli.context.view import ContextView
from agentcli.core.messages import ImageBlock, Message, Origin, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from agentcli.core.usage import Usage
from tests.context.logs import talks
from tests.support.tables import each_row

PAIRS = json.loads((Path(__file__).parent.parent / "data" / "token_counts.json").read_text())["pairs"]


def test_estimates_are_within_a_tenth_of_the_api_for_all_kinds_of_text() -> None:
    assert sum(weigh(pair["kinds"]) for pair in PAIRS) == pytest.approx(sum(pair["tokens"] for pair in PAIRS), rel=0.1)
    shares = [weigh(pair["kinds"]) / pair["tokens"] for pair in PAIRS]
    assert sum(0.85 < share < 1.15 for share in shares) >= len(shares) - 2, "foreign prose is denser"
    assert all(0.7 < share < 1.3 for share in shares)


def test_dense_text_weighs_more_than_words() -> None:
    words = text_tokens("a few plain words of prose " * 20) / 540
    assert text_tokens("漢字仮名交じり文" * 60) / 480 > 4 * words
    assert text_tokens("3.14159, 2.71828; " * 30) / 540 > 2 * words
    assert text_tokens(base64.b64encode(random.Random(1).randbytes(405)).decode()) / 540 > 2 * words
    assert text_tokens("🎉" * 100) > 200


@given(st.text())
def test_any_text_has_a_size_and_every_character_counts_once(text: str) -> None:
    counts = count_kinds(text)
    controls = len(re.findall("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", text))
    assert sum(counts.values()) == len(text) - controls
    assert text_tokens(text) >= 0


def test_the_cost_of_an_image_follows_its_pixels() -> None:
    def png(width: int, height: int) -> ImageBlock:
        head = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big")
        data = base64.b64encode(head + bytes(200)).decode()
        return ImageBlock({"type": "base64", "media_type": "image/png", "data": data})

    # A recorded request with a picture of 166 by 282 pixels and six words had 83 tokens.
    assert 83 - 25 <= block_tokens(png(166, 282)) <= 83
    assert block_tokens(png(4_000, 3_000)) <= IMAGE_TOKENS + 10
    for data in (None, "", "not base64 !", "iVBORw0KGgo=", "R0lGODlh"):
        assert block_tokens(ImageBlock({"data": data})) >= IMAGE_TOKENS


def test_calls_and_results_carry_the_framing_that_was_measured() -> None:
    """A recorded call had 65 tokens, and with its result of 13 the next request was larger by 92."""
    call = block_tokens(ToolUseBlock("toolu_1", "bash", {"command": 'python3 -c "print(2 + 2)"'}))
    result = block_tokens(ToolResultBlock("toolu_1", (TextBlock('{"output": "4\\n", "exit_code": 0}'),)))
    assert call == pytest.approx(65, rel=0.1)
    assert call + result == pytest.approx(92, rel=0.1)


# ---------------------------------------------------------------------------------------------- learning from the truth

PROSE = "It was a bright cold day in April, and the clocks were striking thirteen; nobody had wound them for years. "
CODE = "    def plan(self, shown: Sequence[Message], state: Situation) -> Plan | None:\n        return self._x[0]\n"
CJK = "会話が長くなると、古い内容は要約されます。利用者はいつでも確認できます。"
JSON_TEXT = '{"id": 17, "name": "block", "tokens": [1, 22, 333], "cached": true, "price": 0.0125}, '


def tokenizer(text: str, letters: int, density: float) -> int:
    """Another one than the estimate's: words in pieces of some letters, digits by threes, the rest one by one."""
    pieces = re.findall(rf" ?[A-Za-z]{{1,{letters}}}|\d{{1,3}}|\s+|[^\sA-Za-z\d]", text)
    return round(len(pieces) * density)


def mixed(seed: int) -> str:
    chance = random.Random(seed)
    noise = base64.b64encode(chance.randbytes(300)).decode() + "\n"
    parts = [PROSE] * 12 + [CODE] * 10 + [CJK] * 4 + [JSON_TEXT] * 6 + [noise]
    chance.shuffle(parts)
    return "".join(parts)


def turn(number: int, text: str, usage: Usage) -> list[Message]:
    call = ToolUseBlock(f"toolu_{number}", "Bash", {"command": "x"})
    result = ToolResultBlock(call.id, (TextBlock(text),))
    return [
        Message("assistant", (call,), f"a{number}", Origin.REPLY, usage=usage),
        Message("user", (result,), f"r{number}", Origin.TOOL_RESULTS),
    ]


@each_row("letters", [4, 5, 6])
@each_row("density", [0.7, 0.9, 1.0, 1.2, 1.5])
def test_after_two_reported_usages_an_addition_is_estimated_within_a_tenth(letters: int, density: float) -> None:
    first, second = mixed(1), mixed(2)
    log = [
        Message("user", (TextBlock("go"),), "p", Origin.PROMPT),
        *turn(1, first, Usage(5_000, 60)),
        *turn(2, second, Usage(5_060 + tokenizer(first, letters, density) + 14, 60)),
    ]
    added = Estimator().context(log, 0) - (log[3].usage or Usage()).context_tokens
    assert added == pytest.approx(tokenizer(second, letters, density) + 14, rel=0.1)


def test_learning_turn_by_turn_equals_learning_from_a_loaded_log() -> None:
    log = [Message("user", (TextBlock("go"),), "p", Origin.PROMPT)]
    true = 5_000
    growing = Estimator()
    for number in range(8):
        text = mixed(number)
        log += turn(number, text, Usage(true, 60))
        true += 60 + 14 + tokenizer(text, 5, 1.3)
        growing.context(log, 0)
    loaded = Estimator()
    assert loaded.context(log, 0) == growing.context(log, 0)
    assert loaded.density == growing.density > 1.1


def dense_log(density: float = 1.4) -> list[Message]:
    log = [Message("user", (TextBlock("go"),), "p", Origin.PROMPT)]
    true = 5_000
    for number in range(8):
        text = mixed(number)
        log += turn(number, text, Usage(true, 60))
        true += 60 + 14 + tokenizer(text, 5, density)
    return log


def test_content_cleared_meanwhile_does_not_distort_learning() -> None:
    log, true = dense_log(), ContextView()
    true.estimate(log, 0)
    resumed = ContextView()
    cleared = [ContextEdit(kind="replace", target=f"r{number}:0", text="[cleared]", freed=900) for number in range(4)]
    resumed.edit(cleared, after="r5")
    resumed.estimate(log, 0)
    assert resumed.estimator.density == pytest.approx(true.estimator.density, rel=0.02)


def test_nothing_is_learned_when_old_content_changed_in_between() -> None:
    from dataclasses import replace

    text = mixed(3)
    log = [
        Message("user", (TextBlock("go"),), "p", Origin.PROMPT),
        *turn(1, text, Usage(50_000, 60)),
    ]
    estimator = Estimator()
    estimator.context(log, 0)
    cleared = [replace(log[0], content=(TextBlock("shorter"),)), *log[1:], *turn(2, text, Usage(51_000, 60))]
    estimator.context(cleared, 0)
    assert estimator.density == 1.0


def test_an_impossible_usage_is_not_learned_from() -> None:
    for wrong in (Usage(1, 60), Usage(900_000, 60), Usage(0, 0)):
        log = [*turn(1, mixed(1), Usage(5_000, 60)), *turn(2, mixed(2), wrong)]
        estimator = Estimator()
        estimator.context(log, 0)
        assert estimator.density == 1.0


def test_dropped_thinking_is_not_learned_from() -> None:
    thought = Message(
        "assistant", (ThinkingBlock("hm", "s"), TextBlock("so")), "a", Origin.REPLY, usage=Usage(1_000, 900)
    )
    prompt = Message("user", (TextBlock(PROSE * 30),), "p", Origin.PROMPT)
    answer = Message("assistant", (TextBlock("yes"),), "b", Origin.REPLY, usage=Usage(1_400, 5))
    estimator = Estimator()
    estimator.context([thought, prompt, answer], 0)
    assert estimator.density == 1.0


@given(talks(), st.integers(0, 10_000))
def test_the_estimate_is_the_last_usage_plus_later_content(log: list[Message], overhead: int) -> None:
    assert Estimator().context(log, overhead) >= 0
    untold = [message for message in log if message.usage is None]
    assert Estimator().context(untold, overhead) == overhead + sum(map(message_tokens, untold))
    estimator = Estimator()
    assert [estimator.message(message) for message in log] == [message_tokens(message) for message in log]
