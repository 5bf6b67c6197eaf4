"""The same project as for tests of the policy."""

from __future__ import annotations

from tests.permissions.conftest import shared_tree, tree

__all__ = ["shared_tree", "tree"]
