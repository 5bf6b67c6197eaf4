"""Adding permission rules and single settings to a settings file: everything else in it stays as it is.

The file is edited only when it can be read without doubt; a broken one is never overwritten.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcli.config.atomic import replace_file
from agentcli.config.files import SIZE_LIMIT, read_document
from agentcli.config.paths import PROJECT_FOLDER
from agentcli.config.schema import BY_NAME
from agentcli.config.trust import TrustStore, trust_root
from agentcli.config.values import Unfit, fit
from agentcli.core.bounded_read import read_start
from agentcli.core.errors import AgentError

_INDENT = re.compile(r"^\{\s*?\n([ \t]+)\"", re.MULTILINE)
_IGNORED = "settings.local.json\n"


@dataclass(frozen=True, slots=True)
class RuleKeeper:
    """Keeps the allow rules that come with a person's answers, in the file the answer names."""

    paths: Mapping[str, Path]
    trust: TrustStore
    cwd: Path

    def save(self, rules: Sequence[str], where: str) -> str:
        """Add rules to a file; returns its path. Raises `AgentError`, and nothing was changed then.

        A folder that was trusted stays so: what is new in its files is the person's own answer.
        """
        path = self.paths.get(where)
        if path is None:
            raise AgentError(f"There is no {where} settings file to keep a rule in.")
        if where != "user":
            self._refuse_what_leads_outside(path)
        before = self.trust.state(self.cwd)
        try:
            _make_folder(path.parent)
            add_rules(path, "allow", rules)
        except OSError as error:
            raise AgentError(f"The rule could not be saved in {path}: {error.strerror}.") from error
        if before.trusted:
            self.trust.trust(self.trust.state(self.cwd))
        return str(path)

    def _refuse_what_leads_outside(self, path: Path) -> None:
        """A repository may come with a `.agentcli` that is a link to the user's own settings: an answer for this
        project would hold in all of them."""
        root = trust_root(self.cwd)
        real = Path(os.path.realpath(path))
        user = self.paths.get("user")
        if not real.is_relative_to(root) or (user is not None and real == Path(os.path.realpath(user))):
            raise AgentError(
                f"The rule was not saved: {path} is a link that leads to {real}. Remove the link, or keep the rule in "
                "the user settings."
            )


def add_rules(path: Path, behavior: str, rules: Sequence[str]) -> None:
    """Add what is not there yet to `permissions.<behavior>`. Raises `AgentError` for an unusable file, and OSError."""
    values, indent = _read(path)
    permissions = values.setdefault("permissions", {})
    if not isinstance(permissions, dict) or not isinstance(permissions.get(behavior, []), list):
        raise AgentError(f"{path}: its permissions do not have the form of rules. Nothing was saved there.")
    kept = permissions.setdefault(behavior, [])
    new = [rule for rule in dict.fromkeys(rules) if rule not in kept]
    if not new:
        return
    kept += new
    _write(path, values, indent)


def save_setting(path: Path, name: str, value: Any) -> None:
    """Set one key of the schema in a file; None takes it out. Raises `AgentError`, and nothing was changed then."""
    key = BY_NAME[name]
    try:
        _make_folder(path.parent)
        values, indent = _read(path)
        *sections, last = key.name.split(".")
        place = values
        for section in sections:
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                raise AgentError(f"{path}: {section} is not an object. Nothing was saved there; mend the file first.")
        if value is None:
            place.pop(last, None)
        else:
            place[last] = fit(key, value)
        _write(path, values, indent)
    except Unfit as error:
        raise AgentError(f"{key.name} must be {error}. Nothing was saved.") from error
    except OSError as error:
        raise AgentError(f"The setting could not be saved in {path}: {error.strerror}.") from error


def _read(path: Path) -> tuple[dict[str, Any], str | int]:
    """What a file holds, and how it is indented. Raises `AgentError` when it cannot be read without doubt."""
    document = read_document(path)
    if document is None:
        return {}, 2
    if document.values is None or document.doubled:
        raise AgentError(f"{document.problems[0].text} Nothing was saved there; mend the file first.")
    found = _INDENT.search(read_start(path, SIZE_LIMIT).removeprefix("\ufeff"))
    return document.values, found.group(1) if found else 2


def _write(path: Path, values: dict[str, Any], indent: str | int) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=False) + "\n"
    replace_file(path, text.encode(), 0o600)


def _make_folder(folder: Path) -> None:
    """Make the folder; a new one in a repository keeps the person's own file out of commits."""
    if folder.is_dir():
        return
    folder.mkdir(parents=True, mode=0o700)
    if folder.name == PROJECT_FOLDER and (folder.parent / ".git").exists():
        folder.chmod(0o755)
        (folder / ".gitignore").write_text(_IGNORED, encoding="utf-8")
