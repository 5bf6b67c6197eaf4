"""Save permission rules, MCP servers and single settings in a file, leaving the rest of it unchanged.

The file is edited only if it is valid and unambiguous; a broken one is never overwritten.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentcli.config.files import InvalidValue, parse_value, read_document, replace_file
from agentcli.config.paths import PROJECT_FOLDER
from agentcli.config.schema import BY_NAME
from agentcli.config.trust import TrustStore, content_digest, is_empty_json, trust_root
from agentcli.core.errors import AgentError
from agentcli.core.frozen import frozen
from agentcli.core.git.repository import repository_root
from agentcli.core.text.patterns import lazy_pattern

_INDENT = lazy_pattern(r"^\{\s*?\n([ \t]+)\"", re.MULTILINE)
_IGNORED = "settings.local.json\n.gitignore\n"
"""Content of the `.gitignore` in `PROJECT_FOLDER`: files for one user alone, including itself, so that `git status`
does not change. The shared `settings.json` can be committed like any file."""


@frozen
class SettingsKeeper:
    """Changes settings files of the user and of a project. A trusted folder stays trusted, because the user made the
    change."""

    paths: Mapping[str, Path]
    """Files by scope: local, user, project."""
    trust: TrustStore
    cwd: Path

    def _change(self, scope: str, what: str, edit: Callable[[Path, dict[str, Any]], bool], mode: int = 0o600) -> str:
        """Edit the values of a file; returns its path. `edit` returns whether it changed something. Raises `AgentError`
        without changing anything."""
        path = self.paths.get(scope)
        if path is None:
            raise AgentError(f"There is no {scope} settings file for {what}: no home folder is known.")
        if scope != "user":
            # The `.agentcli` of a repository may be a link to the user's own settings: a rule for this project would
            # then apply to all projects.
            _refuse_link_outside(path, self.cwd, self.paths.get("user"), what.capitalize())
        before = self.trust.state(self.cwd)
        try:
            _make_folder(path.parent)
            values, indent, raw = _read(path)
            if not edit(path, values):
                return str(path)
            data = _write(path, values, indent, mode)
        except OSError as error:
            raise AgentError(f"{what.capitalize()} could not be saved in {path}: {error.strerror}.") from error
        if scope != "user":
            old = None if raw is None or is_empty_json(raw.decode("utf-8", "replace")) else content_digest(raw)
            self.trust.trust_own_change(before, path, old, content_digest(data))
        return str(path)


class RuleKeeper(SettingsKeeper):
    """Changes the rules in settings files."""

    def change(self, scope: str, behavior: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> str:
        """Remove rules from `permissions.<behavior>` and add missing ones at the position of the first removed one;
        returns the file's path. Raises `AgentError` without changing anything."""

        def edit(path: Path, values: dict[str, Any]) -> bool:
            permissions = values.setdefault("permissions", {})
            if not isinstance(permissions, dict) or not isinstance(permissions.get(behavior, []), list):
                raise AgentError(f"{path}: its permissions are not a list of rules. Nothing was saved.")
            rules, gone = permissions.get(behavior, []), set(map(_canonical, remove))
            places = [at for at, rule in enumerate(rules) if isinstance(rule, str) and _canonical(rule) in gone]
            missing = gone - {_canonical(rules[at]) for at in places}
            if missing:
                raise AgentError(f"{path} has no {behavior} rule {min(missing)}. Nothing was changed.")
            kept = [rule for at, rule in enumerate(rules) if at not in places]
            place = places[0] if places else len(kept)
            kept[place:place] = [rule for rule in dict.fromkeys(add) if rule not in kept]
            permissions[behavior] = kept
            return bool(kept != rules)

        return self._change(scope, "the rule", edit)


class ServerKeeper(SettingsKeeper):
    """Adds MCP servers to configuration files and removes them."""

    def change(self, scope: str, name: str, entry: Mapping[str, Any] | None) -> str:
        """Add a server, or remove it with None; returns the file's path. Raises `AgentError` without changing
        anything."""

        def edit(path: Path, values: dict[str, Any]) -> bool:
            servers = values.setdefault("mcpServers", {})
            if not isinstance(servers, dict):
                raise AgentError(f"{path}: 'mcpServers' is not an object. Nothing was changed; fix the file first.")
            if entry is None and name not in servers:
                raise AgentError(f"{path} has no MCP server {name}.")
            if entry is not None and name in servers:
                raise AgentError(f"{path} already has an MCP server {name}. Remove it first.")
            values["mcpServers"] = {key: value for key, value in servers.items() if key != name}
            if entry is not None:
                values["mcpServers"][name] = dict(entry)
            elif not values["mcpServers"]:
                del values["mcpServers"]
            return True

        return self._change(scope, "the server", edit, 0o644 if scope == "project" else 0o600)

    def scopes_of(self, name: str) -> list[str]:
        """The scopes whose files have a server of this name."""
        documents = ((scope, read_document(path)) for scope, path in self.paths.items())
        servers = {scope: (found.values or {}).get("mcpServers") for scope, found in documents if found is not None}
        return [scope for scope, names in servers.items() if isinstance(names, dict) and name in names]


def _refuse_link_outside(path: Path, cwd: Path, user: Path | None, what: str) -> None:
    root = trust_root(cwd)
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(root) or (user is not None and real == Path(os.path.realpath(user))):
        raise AgentError(
            f"{what} was not saved: {path} is a link to {real}. Remove the link, or save it in the user settings."
        )


def _canonical(rule: str) -> str:
    """Normalise a rule: without surrounding blanks and without a spec that matches everything."""
    name, opened, rest = rule.strip().partition("(")
    spec = rest.removesuffix(")").strip()
    return f"{name.strip()}({spec})" if opened and spec not in ("", "*") else name.strip()


def save_setting(path: Path, name: str, value: Any) -> None:
    """Set one key of the schema in a file; None removes it. Raises `AgentError` without changing anything."""
    key = BY_NAME[name]
    try:
        _make_folder(path.parent)
        values, indent, _raw = _read(path)
        *sections, last = key.name.split(".")
        place = values
        for section in sections:
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                raise AgentError(f"{path}: {section} is not an object. Nothing was saved; fix the file first.")
        if value is None:
            place.pop(last, None)
        else:
            place[last] = parse_value(key, value)
        _write(path, values, indent)
    except InvalidValue as error:
        raise AgentError(f"{key.name} must be {error}. Nothing was saved.") from error
    except OSError as error:
        raise AgentError(f"The setting could not be saved in {path}: {error.strerror}.") from error


def _read(path: Path) -> tuple[dict[str, Any], str | int, bytes | None]:
    """The values of a file, its indentation and its bytes (None: no file). Raises `AgentError` if it is unusable."""
    document = read_document(path)
    if document is None:
        return {}, 2, None
    if document.values is None or document.doubled:
        raise AgentError(f"{document.problems[0].text} Nothing was saved; fix the file first.")
    found = _INDENT.search(document.raw.decode("utf-8-sig"))
    return document.values, found.group(1) if found else 2, document.raw


def _write(path: Path, values: dict[str, Any], indent: str | int, mode: int = 0o600) -> bytes:
    data = (json.dumps(values, indent=indent, ensure_ascii=False) + "\n").encode()
    replace_file(path, data, mode)
    return data


def _make_folder(folder: Path) -> None:
    """Create the folder. In a project, add an ignore file that keeps the user's own settings out of commits; an
    existing one belongs to the project and is not changed."""
    is_new = not folder.is_dir()
    if is_new:
        folder.mkdir(parents=True, mode=0o700)
    if folder.name != PROJECT_FOLDER or repository_root(folder.parent) is None:
        return
    if is_new:
        folder.chmod(0o755)
    with contextlib.suppress(FileExistsError), (folder / ".gitignore").open("x", encoding="utf-8") as stream:
        stream.write(_IGNORED)
