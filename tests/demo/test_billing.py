"""The usage that the demo reports: sizes that fit the request, and a cache that works like the real one."""

from __future__ import annotations

from typing import Any

from agentcli.demo.director import Billing

Json = dict[str, Any]
MARK = {"type": "ephemeral"}


def body(*texts: str, effort: str = "high") -> Json:
    blocks = [{"role": "user", "content": [{"type": "text", "text": text}]} for text in texts]
    blocks[-1]["content"][-1]["cache_control"] = MARK  # type: ignore[index]
    system = [{"type": "text", "text": "s" * 8_000, "cache_control": MARK}]
    return {"model": "m", "output_config": {"effort": effort}, "system": system, "messages": blocks}


def parts(usage: Json) -> tuple[int, int, int]:
    return usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"], usage["input_tokens"]


def test_repeated_content_is_read_from_the_cache_and_only_the_rest_is_new() -> None:
    billing = Billing()
    read, new, fresh = parts(billing.usage(body("a" * 4_000), 5))
    assert read == 0
    assert 3_000 <= new + fresh <= 3_100
    again = parts(billing.usage(body("a" * 4_000, "b" * 400), 5))
    assert again[0] == new
    assert 100 <= again[1] <= 130
    assert again[2] == 0


def test_another_effort_misses_the_cache() -> None:
    billing = Billing()
    billing.usage(body("a"), 5)
    assert parts(billing.usage(body("a"), 5))[0] > 0
    assert parts(billing.usage(body("a", effort="low"), 5))[0] == 0


def test_a_changed_prefix_is_cached_only_up_to_the_change() -> None:
    billing = Billing()
    billing.usage(body("a" * 9_000), 5)
    assert 2_000 <= parts(billing.usage(body("b" * 9_000), 5))[0] <= 2_050


def test_a_small_request_is_not_cached() -> None:
    billing = Billing()
    small = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    assert parts(billing.usage(small, 7)) == parts(billing.usage(small, 7))
    assert billing.usage(small, 7)["output_tokens"] == 7
    assert parts(billing.usage(small, 7))[:2] == (0, 0)
