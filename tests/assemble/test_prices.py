"""What a conversation costs at the prices of the table, on the assembled engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.assemble import Options, build_engine
from agentcli.context.report import ExpectedCache, price_of_change
from agentcli.core.usage import CacheLosses, Usage
from agentcli.providers.catalog import Catalog
from tests.support.fakes import collect, result_of
from tests.support.scripts import provider_for, reply

pytestmark = pytest.mark.anyio


async def spent(folder: Path, model: str, **usage: int) -> tuple[float, bool]:
    options = Options(
        cwd=folder,
        environ={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
        model=model,
        persist=False,
        sandbox="off",
        provider=provider_for(reply("Done.", usage=usage)),
    )
    async with build_engine(options) as engine:
        result = result_of(await collect(engine.submit("go")))
    return result.total_cost_usd, result.fully_priced


@pytest.mark.parametrize(
    ("model", "usd"),
    [
        ("claude-opus-5", 30.0),
        ("claude-opus-4-8", 30.0),
        ("claude-opus-4-7", 30.0),
        ("claude-opus-4-6", 30.0),
        ("claude-opus-4-5", 30.0),
        ("claude-sonnet-4-6", 18.0),
        ("claude-sonnet-4-5-20250929", 18.0),
        ("claude-fable-5", 60.0),
        ("claude-mythos-5", 60.0),
    ],
)
async def test_older_models_have_their_price(tmp_path: Path, model: str, usd: float) -> None:
    cost, priced = await spent(tmp_path, model, input_tokens=1_000_000, output_tokens=1_000_000)
    assert priced
    assert cost == pytest.approx(usd)


async def test_a_model_without_a_known_price_is_reported_as_such(tmp_path: Path) -> None:
    _cost, priced = await spent(tmp_path, "claude-mythos-5-2", input_tokens=1_000_000, output_tokens=1)
    assert not priced


async def test_haiku_is_billed_by_the_size_of_the_whole_prompt(tmp_path: Path) -> None:
    """Cached tokens count for the tier, and all of a request is billed in one."""
    small = await spent(tmp_path, "haiku", input_tokens=10_000, cache_read_input_tokens=90_000, output_tokens=1_000)
    assert small[0] == pytest.approx((10_000 * 0.1 + 90_000 * 0.01 + 1_000 * 0.5) / 1e6)
    large = await spent(tmp_path, "haiku", input_tokens=10_001, cache_read_input_tokens=90_000, output_tokens=1_000)
    assert large[0] == pytest.approx((10_001 * 0.5 + 90_000 * 0.05 + 1_000 * 2.5) / 1e6)


def test_a_broken_cache_is_priced_in_the_tier_of_its_request() -> None:
    price = Catalog().get("haiku").price
    assert price is not None

    def cost(_model: str, usage: Usage) -> float:
        return price.cost(usage)

    lost = CacheLosses().adding("haiku", 50_000, long_lived=False, broken=True, prompt=150_000)
    assert lost.cost_usd(cost) == pytest.approx(50_000 * (0.625 - 0.05) / 1e6)
    lost = CacheLosses().adding("haiku", 50_000, long_lived=False, broken=True, prompt=60_000)
    assert lost.cost_usd(cost) == pytest.approx(50_000 * (0.125 - 0.01) / 1e6)
    change = price_of_change(ExpectedCache(50_000), ExpectedCache(0), price, 150_000)
    assert change.usd == pytest.approx(50_000 * 0.625 / 1e6)
