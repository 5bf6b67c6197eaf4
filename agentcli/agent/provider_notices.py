"""Convert a provider's other reports to events: retries, silence, fallbacks, dropped features."""

from __future__ import annotations

from collections.abc import Iterator

from agentcli.core import events as ev
from agentcli.providers import base as model


def announced(item: model.ModelEvent) -> Iterator[ev.Event]:
    match item:
        case model.Waiting(attempt, most, seconds, failure):
            yield ev.RetryScheduled(
                attempt=attempt,
                max_attempts=most,
                wait_seconds=seconds,
                kind=failure.kind.value,
                text=failure.message,
                status=failure.status,
            )
        case model.Quiet(seconds):
            yield ev.StreamWentQuiet(seconds=seconds)
        case model.FellBack(old, new, reason):
            yield ev.ModelFellBack(from_model=old, to_model=new, reason=reason)
        case model.Dropped(feature, message, name, requested):
            yield ev.FeatureDropped(feature=feature, text=message, model=name, requested=requested)
        case model.Raw(data):
            yield ev.RawStreamed(data=data)
