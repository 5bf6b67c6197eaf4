from __future__ import annotations

from agentcli.core.usage import Usage
from agentcli.providers.catalog import DEFAULT_MODEL, SMALL_MODEL, Catalog, nearest_effort
from tests.support.tables import each_row


@each_row(
    ("name", "id"),
    [
        *(("default", DEFAULT_MODEL), ("opus", "claude-opus-5-5"), ("Sonnet", "claude-sonnet-5-5")),
        *(("haiku", SMALL_MODEL), ("fable", "claude-fable-5-2"), ("sonnet[1m]", "claude-sonnet-5-5")),
        *((" Opus[1M] ", "claude-opus-5-5"), ("claude-sonnet-4-6[1m]", "claude-sonnet-4-6")),
        # Ids of cloud platforms and snapshots are sent as they are.
        ("us.anthropic.claude-opus-5-v1:0[1m]", "us.anthropic.claude-opus-5-v1:0"),
        *(
            (id, id)
            for id in ("us.anthropic.claude-opus-5-5-v1:0", "claude-opus-5-5-20261001", "claude-opus-5-5@20261001")
        ),
    ],
)
def test_names_lead_to_models_with_a_long_context(name: str, id: str) -> None:
    catalog = Catalog()
    assert (catalog.resolve(name), catalog.get(name), catalog.refusal(name)) == (id, catalog.get(id), "")
    info = catalog.get(name)
    assert (info.known, info.context_window) == (True, 1_000_000)
    if "opus-5-5" in id:
        assert info.price == catalog.get("opus").price


def test_an_unknown_model_has_conservative_limits_and_no_price() -> None:
    info = Catalog().get("qwen-coder")
    assert (info.known, info.context_window, info.max_output, info.price) == (False, 200_000, 32_000, None)
    assert (info.efforts, info.thinking) == ((), ())


def test_settings_override_the_table_and_invalid_ones_are_ignored() -> None:
    price = {"input": 1, "output": 2, "cacheRead": 0.5}
    catalog = Catalog(
        {
            "qwen": {"contextWindow": 32768, "maxOutput": 4096, "price": price},
            "claude-opus-5-5": {"contextWindow": -1, "maxOutput": True, "price": {"input": 3}},
            "claude-haiku-4-5": {"contextWindow": 1_000_000},
            "my-model[1m]": {"contextWindow": 500_000},
        }
    )
    info = catalog.get("qwen")
    assert (info.context_window, info.max_output) == (32768, 4096)
    assert info.price is not None
    assert info.price.cache_read == 0.5
    assert catalog.get("opus") == Catalog().get("opus")
    assert catalog.refusal("claude-haiku-4-5[1m]") == catalog.refusal("my-model[1m]") == ""
    assert catalog.get("my-model[1m]").id == "my-model[1m]"


def test_the_price_of_haiku_depends_on_the_length_of_the_prompt() -> None:
    price = Catalog().get("haiku").price
    assert price is not None
    assert price.cost(Usage(100_000, 0)) == 0.01
    assert price.cost(Usage(100_001, 0)) > 0.05


@each_row(
    ("model", "wanted", "level"),
    [("opus", "xhigh", "xhigh"), ("claude-opus-4-6", "xhigh", "high"), ("claude-haiku-4-5", "low", None)],
)
def test_an_unsupported_effort_becomes_the_nearest_with_an_explanation(model: str, wanted: str, level: str) -> None:
    found, told = nearest_effort(Catalog().get(model), wanted)  # type: ignore[arg-type]
    assert found == level
    assert (told is None) == (wanted == level)
    assert told is None or repr(wanted) in told


@each_row(
    ("name", "said"),
    [
        ("claude-haiku-4-5[1m]", "claude-haiku-4-5 has a context window of 200k tokens, not 1M. Use opus or sonnet"),
        ("my-model[1m]", "Use my-model without [1m]"),
    ],
)
def test_a_long_context_that_a_model_lacks_is_refused_with_an_alternative(name: str, said: str) -> None:
    assert said in Catalog().refusal(name)
    assert Catalog().get(name).id == name.removesuffix("[1m]"), "it is never sent"
