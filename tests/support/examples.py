"""Number of examples that a property test tries. Few are enough here, because every run tries new ones; CI tries the
same ones every time. `PROPERTY_EXAMPLES=3000` looks harder."""

from __future__ import annotations

import os

EXAMPLES = int(os.environ.get("PROPERTY_EXAMPLES", "30" if os.environ.get("CI") else "10"))
