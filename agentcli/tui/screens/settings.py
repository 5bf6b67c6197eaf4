"""All settings: values, sources and meanings; simple ones can be changed.

The page saves nothing itself: it returns the change to its caller.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentcli.config.files import InvalidValue, parse_text
from agentcli.config.schema import BY_NAME, Key
from agentcli.config.settings import Layer, SettingScope
from agentcli.config.settings import SettingRow as Setting
from agentcli.core.frozen import frozen
from agentcli.tui.blocks.rows import Runs
from agentcli.tui.screens.picker import ListSheet
from agentcli.tui.screens.row_list import Row
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.text import pad, safe, wrap_rows

_SCOPES: Mapping[SettingScope, str] = {"user": "all your projects", "local": "this project, for you only"}
_VALUE_WIDTH = 24
_ABOVE_FILES = (Layer.MANAGED, Layer.FLAGS, Layer.ENVIRONMENT)
"""Layers that override every settings file that can be changed here."""
_SIMPLE = ("text", "integer", "number", "boolean")
_WHO_MAY_SET: Mapping[str, str] = {
    "no": "Project settings cannot set it.",
    "stricter": "Project settings can only make it stricter.",
    "inside": "Project settings can only name paths inside the project.",
}


@frozen
class SettingChange:
    """A change that the user chose. `value` None removes the key from the file: a weaker layer applies again."""

    key: str
    value: Any
    scope: SettingScope


class SettingsPage(ListSheet[Setting, SettingChange]):
    """`rows`: from `Settings.describe`. `files`: file of each scope that can be saved to; empty: read-only."""

    share = 0.9
    verb = "change"
    placeholder = "type to search in names and values"

    def __init__(self, rows: Sequence[Setting], files: Mapping[SettingScope, str] | None = None) -> None:
        self._files = files or {}
        self.verb = "change" if self._files else "how to change it"
        super().__init__("Settings", list_setting_rows(rows), preview=self._description)

    def _description(self, row: Row[Setting]) -> list[str]:
        setting = row.value
        key = BY_NAME.get(setting.key)
        facts = {"Value": show_value(setting.value), "From": setting.source}
        if key is not None:
            facts["Kind"] = ", ".join(key.choices) if key.choices else key.kind
            facts["Default"] = show_value(key.default)
            facts["Variable"] = ", ".join(key.environment)
        lines = [setting.key, "", setting.doc, "", *(f"{name:<9} {fact}" for name, fact in facts.items() if fact)]
        who = _WHO_MAY_SET.get(key.repository) if key is not None else None
        return [*lines, "", who] if who else lines

    def about(self, row: Row[Setting] | None, width: int) -> list[Runs]:
        if row is None or self.query_one("#preview").display:
            return []
        return wrap_rows([(safe(row.value.doc), self.palette.muted)], width, 2)

    def choose(self, row: Row[Setting]) -> None:
        setting = row.value
        key = BY_NAME.get(setting.key)
        why = self._why_not(setting, key)
        if why or key is None:
            self.say(why)
        else:
            # Repository files must not set such a key, so the local file would be ignored.
            files = {scope: file for scope, file in self._files.items() if scope == "user" or key.repository != "no"}
            self.open(ValuePicker(key, setting, files), self.dismiss)

    def _why_not(self, setting: Setting, key: Key | None) -> str:
        if key is None:
            return f"{safe(setting.key)} is not a known setting."
        if setting.layer in _ABOVE_FILES:
            return f"It comes from {safe(setting.source)}, which overrides all settings files. Change it there."
        file = self._files.get("user", "the settings file")
        if not self._files:
            return "Settings cannot be changed here. Edit your settings file or the project's."
        if key.kind not in _SIMPLE:
            return f"{key.name} has several values. Edit it in {safe(file)}."
        if "user" not in self._files and key.repository == "no":
            return f"{key.name} can only be set in the user settings."
        return ""


class ValuePicker(ListSheet[Any, SettingChange]):
    """Picks a new value for one setting, from a list or typed. Tab changes the file that it is saved to."""

    verb = "save"
    unlisted_first = True
    max_query = 4000

    def __init__(self, key: Key, setting: Setting, files: Mapping[SettingScope, str]) -> None:
        self._key = key
        self._setting = setting
        self._files = files
        self._scope: SettingScope = next(iter(files))
        options: tuple[Any, ...] = (True, False) if key.kind == "boolean" else key.choices
        self.placeholder = "type to search" if options else f"type a new value ({key.kind})"
        rows = [Row(value, show_value(value), "", "●" if value == setting.value else "") for value in options]
        default = "not set" if key.default is None else show_value(key.default)
        rows.append(Row(None, "remove it from the file", f"the next file applies, or the default: {default}"))
        super().__init__(key.name, rows, start=setting.value)
        self._typed_freely = not options

    def make_unlisted(self, query: str) -> Row[Any] | None:
        if not self._typed_freely:
            return None
        label = f"{self._key.name} = {query}"
        try:
            return Row(parse_text(self._key, query), label)
        except InvalidValue as unfit:
            return Row(query, label, disabled=f"it must be {unfit}")

    def about(self, row: Row[Any] | None, width: int) -> list[Runs]:
        palette = self.palette
        turn = "  (Tab to change)" if len(self._files) > 1 else ""
        where = f"Saved for {_SCOPES[self._scope]}: {safe(self._files[self._scope])}{turn}"
        return [
            *wrap_rows([(safe(self._setting.doc), palette.muted)], width, 2),
            *wrap_rows([(where, palette.text)], width, 2),
        ]

    def press(self, key: str, character: str | None) -> bool:
        if key not in ("tab", "shift+tab"):
            return super().press(key, character)
        scopes = list(self._files)
        self._scope = scopes[(scopes.index(self._scope) + 1) % len(scopes)]
        self.settle()
        return True

    def choose(self, row: Row[Any]) -> None:
        self.dismiss(SettingChange(self._key.name, row.value, self._scope))

    def keys(self) -> Keys:
        tab = [("Tab", "where")] if len(self._files) > 1 else []
        return [("↑↓", "move"), *tab, ("Enter", self.verb), ("Esc", "back")]


def list_setting_rows(settings: Sequence[Setting]) -> list[Row[Setting]]:
    rows = []
    for setting in sorted(settings, key=lambda each: each.source == "default"):
        group = "Defaults" if setting.source == "default" else "Set"
        source = "" if group == "Defaults" else safe(setting.source)
        state = f"not active: {safe(setting.inactive)}  " if setting.inactive else ""
        detail = f"{pad(show_value(setting.value), _VALUE_WIDTH)}  {state}{source}".rstrip()
        rows.append(Row(setting, setting.key, detail, group=group))
    return rows


def show_value(value: Any) -> str:
    if value is None:
        return "–"
    return safe(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
