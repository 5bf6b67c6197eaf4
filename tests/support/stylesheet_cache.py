"""Parse each stylesheet once per process instead of once per app.

Textual keeps parsed rules for one app, and every test of the app opens a new one with the same stylesheets. Rules are
not changed once they are parsed: all widgets of an app share them.
"""

from __future__ import annotations

from typing import Any

from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

_parse_rules = Stylesheet._parse_rules
_rules: dict[tuple[Any, ...], list[RuleSet]] = {}


def _parse_once(self: Stylesheet, *arguments: Any, **options: Any) -> list[RuleSet]:
    variables, items = getattr(self, "_seen_variables", (None, None))
    if variables is not self._variables:
        items = frozenset(self._variables.items())
        self._seen_variables = self._variables, items  # type: ignore[attr-defined]
    key = (items, arguments, frozenset(options.items()))
    if (rules := _rules.get(key)) is None:
        rules = _rules[key] = _parse_rules(self, *arguments, **options)
    return rules


def install() -> None:
    Stylesheet._parse_rules = _parse_once  # type: ignore[method-assign]
    # The same identity without a call into Python: applying a stylesheet hashes all of its rules for every widget.
    RuleSet.__hash__ = object.__hash__  # type: ignore[method-assign]
