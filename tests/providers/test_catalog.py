from __future__ import annotations

from agentcli.core.usage import Usage
from agentcli.providers.catalog import DEFAULT_MODEL, SMALL_MODEL, Catalog, nearest_effort
from tests.support.tables import each_row


def test_aliases_lead_to_the_current_models() -> None:
    catalog = Catalog()
    assert [catalog.get(name).id for name in ("default", "opus", "Sonnet", "haiku", "fable")] == [
        *("claude-opus-5-5", "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-fable-5-2"),
    ]
    assert catalog.get(DEFAULT_MODEL).known
    assert catalog.get(SMALL_MODEL).known


def test_ids_of_cloud_platforms_and_snapshots_are_recognised_and_sent_as_they_are() -> None:
    catalog = Catalog()
    for name in ("us.anthropic.claude-opus-5-5-v1:0", "claude-opus-5-5-20261001", "claude-opus-5-5@20261001"):
        assert catalog.get(name).price == catalog.get("opus").price
        assert catalog.get(name).id == name


def test_an_unknown_model_has_conservative_limits_and_no_price() -> None:
    info = Catalog().get("qwen-coder")
    assert (info.known, info.context_window, info.max_output, info.price) == (False, 200_000, 32_000, None)
    assert (info.efforts, info.thinking) == ((), ())


def test_settings_override_the_table_and_invalid_ones_are_ignored() -> None:
    catalog = Catalog(
        {
            "qwen": {"contextWindow": 32768, "maxOutput": 4096, "price": {"input": 1, "output": 2, "cacheRead": 0.5}},
            "claude-opus-5-5": {"contextWindow": -1, "maxOutput": True, "price": {"input": 3}},
        }
    )
    info = catalog.get("qwen")
    assert (info.context_window, info.max_output) == (32768, 4096)
    assert info.price is not None
    assert info.price.cache_read == 0.5
    assert catalog.get("opus") == Catalog().get("opus")


def test_the_price_of_haiku_depends_on_the_length_of_the_prompt() -> None:
    price = Catalog().get("haiku").price
    assert price is not None
    assert price.cost(Usage(100_000, 0)) == 0.01
    assert price.cost(Usage(100_001, 0)) > 0.05


def test_an_unsupported_effort_becomes_the_nearest_with_an_explanation() -> None:
    catalog = Catalog()
    assert nearest_effort(catalog.get("opus"), "xhigh") == ("xhigh", None)
    level, told = nearest_effort(catalog.get("claude-opus-4-6"), "xhigh")
    assert level == "high"
    assert told is not None
    assert "'xhigh'" in told
    assert nearest_effort(catalog.get("claude-haiku-4-5"), "low")[0] is None


@each_row(
    ("name", "id"),
    [
        ("sonnet[1m]", "claude-sonnet-5-5"),
        (" Opus[1M] ", "claude-opus-5-5"),
        ("claude-sonnet-4-6[1m]", "claude-sonnet-4-6"),
        ("us.anthropic.claude-opus-5-v1:0[1m]", "us.anthropic.claude-opus-5-v1:0"),
    ],
)
def test_a_name_that_asks_for_a_long_context_means_the_model_that_has_it(name: str, id: str) -> None:
    catalog = Catalog()
    assert (catalog.resolve(name), catalog.get(name), catalog.refusal(name)) == (id, catalog.get(id), "")
    assert catalog.get(name).context_window == 1_000_000


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


def test_settings_may_grant_a_long_context_or_define_the_name() -> None:
    catalog = Catalog({"claude-haiku-4-5": {"contextWindow": 1_000_000}, "my-model[1m]": {"contextWindow": 500_000}})
    assert catalog.refusal("claude-haiku-4-5[1m]") == catalog.refusal("my-model[1m]") == ""
    assert catalog.get("my-model[1m]").id == "my-model[1m]"
