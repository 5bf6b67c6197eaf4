"""Convert a provider's other reports to events: retries, silence, fallbacks, dropped features, consulted models."""

from __future__ import annotations

from collections.abc import Iterator

from agentcli.agent.ports import PriceOf
from agentcli.core import events as ev
from agentcli.core.usage import Usage
from agentcli.providers import base as provider


def consulted(answering: str, usage: Usage, price: PriceOf) -> Iterator[ev.UsageReported]:
    """The usage of models that the server consulted for a response of the model `answering`."""
    for name, used in usage.consulted:
        model = name or answering
        yield ev.UsageReported(model=model, usage=used, cost_usd=price(model, used), purpose="advisor")


def announced(item: provider.ModelEvent) -> Iterator[ev.Event]:
    match item:
        case provider.Waiting(attempt, most, seconds, failure):
            yield ev.RetryScheduled(
                attempt=attempt,
                max_attempts=most,
                wait_seconds=seconds,
                kind=failure.kind.value,
                text=failure.message,
                status=failure.status,
            )
        case provider.Quiet(seconds):
            yield ev.StreamWentQuiet(seconds=seconds)
        case provider.FellBack(old, new, reason):
            yield ev.ModelFellBack(from_model=old, to_model=new, reason=reason)
        case provider.Dropped(feature, message, name, requested):
            yield ev.FeatureDropped(feature=feature, text=message, model=name, requested=requested)
        case provider.Raw(data):
            yield ev.RawStreamed(data=data)
