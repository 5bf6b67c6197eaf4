"""Number of examples that a property test tries. Few are enough here, because every run tries new ones; CI tries the
same ones every time. `PROPERTY_EXAMPLES=3000` looks harder."""

from __future__ import annotations

import os
import random

EXAMPLES = int(os.environ.get("PROPERTY_EXAMPLES", "30" if os.environ.get("CI") else "10"))
_random = random.Random(1 if os.environ.get("CI") else None)


def points(total: int) -> list[int]:
    """The first and the last of `total` points, and EXAMPLES of those between them."""
    between = range(1, total - 1)
    return sorted({0, total - 1, *_random.sample(between, min(EXAMPLES, len(between)))})
