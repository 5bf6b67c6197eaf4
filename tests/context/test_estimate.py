"""The token estimate: by kinds of characters, close to the API's count."""

from __future__ import annotations

import base64
import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.context.estimate import (
    Estimator,
    block_tokens,
    count_kinds,
    message_tokens,
    text_tokens,
    weigh,
)
from agentcli.core.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock
from tests.context.logs import talks

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


def test_calls_and_results_carry_the_framing_that_was_measured() -> None:
    """A recorded call had 65 tokens, and with its result of 13 the next request was larger by 92."""
    call = block_tokens(ToolUseBlock("toolu_1", "bash", {"command": 'python3 -c "print(2 + 2)"'}))
    result = block_tokens(ToolResultBlock("toolu_1", (TextBlock('{"output": "4\\n", "exit_code": 0}'),)))
    assert call == pytest.approx(65, rel=0.1)
    assert call + result == pytest.approx(92, rel=0.1)


@given(talks(), st.integers(0, 10_000))
def test_the_estimate_is_the_last_usage_plus_later_content(log: list[Message], overhead: int) -> None:
    assert Estimator().context(log, overhead) >= 0
    untold = [message for message in log if message.usage is None]
    assert Estimator().context(untold, overhead) == overhead + sum(map(message_tokens, untold))
    estimator = Estimator()
    assert [estimator.message(message) for message in log] == [message_tokens(message) for message in log]
