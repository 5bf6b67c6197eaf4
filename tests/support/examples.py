"""Number of examples that a property test tries. Few are enough, because every run tries new ones; only CI tries the
same ones every time. `PROPERTY_EXAMPLES=3000` looks harder."""

from __future__ import annotations

import os
import random

from hypothesis import HealthCheck

EXAMPLES = int(os.environ.get("PROPERTY_EXAMPLES", "10"))
UNHURRIED = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
"""Checks that depend on how busy the machine is, or fail a test that is merely slow."""
UNHURRIED_IN_ONE_FOLDER = (*UNHURRIED, HealthCheck.function_scoped_fixture)
"""For tests whose examples may share the folder of a fixture; `settings` replaces what the profile suppresses."""
_random = random.Random(1 if os.environ.get("CI") else None)


def points(total: int) -> list[int]:
    """The first and the last of `total` points, and EXAMPLES of those between them."""
    between = range(1, total - 1)
    return sorted({0, total - 1, *_random.sample(between, min(EXAMPLES, len(between)))})
