"""Parse each stylesheet, and find the rules of each kind of widget, once per process instead of once per app.

Textual keeps parsed rules for one app, and every test of the app opens a new one with the same stylesheets. Rules are
not changed once they are parsed: all widgets of an app share them. Which of a thousand rules apply to a widget depends
on its class, its names and its state, and on those of the widgets around it.
"""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.css.model import RuleSet
from textual.css.styles import RulesMap
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.widget import Widget

_parse_rules = Stylesheet._parse_rules
_apply = Stylesheet.apply
_replace_rules = Stylesheet.replace_rules
_rules: dict[tuple[Any, ...], list[RuleSet]] = {}
_found: dict[tuple[RuleSet, ...], dict[tuple[Any, ...], tuple[RulesMap, tuple[bool, ...]]]] = {}
"""By all rules of an app, and by the place of a widget: its rules, and what it has to be styled again for."""
_FLAGS = ("_has_hover_style", "_has_focus_within", "_has_order_style", "_has_odd_or_even")


def _parse_once(self: Stylesheet, *arguments: Any, **options: Any) -> list[RuleSet]:
    variables, items = getattr(self, "_seen_variables", (None, None))
    if variables is not self._variables:
        items = frozenset(self._variables.items())
        self._seen_variables = self._variables, items  # type: ignore[attr-defined]
    key = (items, arguments, frozenset(options.items()))
    if (rules := _rules.get(key)) is None:
        rules = _rules[key] = _parse_rules(self, *arguments, **options)
    return rules


def _apply_found(self: Stylesheet, node: DOMNode, *, animate: bool = False, cache: Any = None) -> None:
    rules, found = getattr(self, "_seen_rules", (None, {}))
    if rules is not self.rules:
        rules = self.rules
        found = _found.setdefault(tuple(rules), {})
        self._seen_rules = rules, found  # type: ignore[attr-defined]
    place = _place(node)
    if place not in found:
        # Textual keeps what it finds for widgets of the same parent, unless it depends on their order.
        kept: dict[tuple[Any, ...], RulesMap] = {}
        _apply(self, node, animate=animate, cache=kept)
        for rules_of_node in kept.values():
            found[place] = rules_of_node, tuple(getattr(node, flag) for flag in _FLAGS)
        return
    rules_of_node, flags = found[place]
    for flag, value in zip(_FLAGS, flags, strict=True):
        setattr(node, flag, value)
    self.replace_rules(node, rules_of_node, animate=animate)
    self._process_component_classes(node)


def _place(node: Any) -> tuple[Any, ...]:
    """All that decides which rules apply to a widget, apart from the order of widgets."""
    place: list[Any] = []
    while isinstance(node, DOMNode):
        state: object = None
        if isinstance(node, Widget):
            state = node.mouse_hover, node.has_focus, node.disabled, node.allow_focus()
        elif isinstance(node, App):
            state = node.pseudo_classes
        place += type(node), node._id, node.classes, state
        node = node._parent
    return tuple(place)


def _replace_changed(node: Any, rules: RulesMap, animate: bool = False) -> None:
    """Replacing rules by the same ones only makes a widget forget what it has computed from them."""
    styles = node.styles.base
    if not animate and getattr(node, "_replaced", None) == (rules, styles._rules):
        node.notify_style_update()
    else:
        _replace_rules(node, rules, animate)
        node._replaced = None if animate else (rules, styles._rules.copy())


def install() -> None:
    Stylesheet._parse_rules = _parse_once  # type: ignore[method-assign]
    Stylesheet.apply = _apply_found  # type: ignore[method-assign]
    Stylesheet.replace_rules = staticmethod(_replace_changed)  # type: ignore[assignment]
    # The same identity without a call into Python: applying a stylesheet hashes all of its rules for every widget.
    RuleSet.__hash__ = object.__hash__  # type: ignore[method-assign]
