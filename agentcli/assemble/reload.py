"""The configuration files of an open session: whether they have changed, and what follows from their content now.

Rights never grow silently: what a repository's files set counts only while their content is trusted, rules of the
user's own files are announced, and a file that cannot be parsed keeps its last valid content. Which settings take
effect in an open session is in the table of `config/schema.py`.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.agent.live_files import Inactive, Reloaded
from agentcli.assemble.definitions import definition_places
from agentcli.assemble.environment import Environment, settings_to_record
from agentcli.assemble.hooks import UNTRUSTED, hook_rules, hooks_for, inactive_hooks
from agentcli.assemble.mcp import change_notice, describe_unapproved, find_servers, server_tool_limits, servers_for
from agentcli.assemble.model import ModelBuilder
from agentcli.assemble.rights import RightsBuilder, command_environment
from agentcli.config.files import read_document
from agentcli.config.paths import project_folder
from agentcli.config.schema import BY_NAME, HOLD_WITHOUT_TRUST, SECTIONS, Applies
from agentcli.config.trust import trust_root
from agentcli.core.aio import in_thread
from agentcli.core.events import NoticeRaised
from agentcli.core.text.plaintext import plain_line
from agentcli.definitions.library import Library
from agentcli.permissions.policy import Policy
from agentcli.tools.registry import Registry

if TYPE_CHECKING:
    from agentcli.agent.mcp.server_tools import ServerToolLimits
    from agentcli.hooks.rules import HookRule
    from agentcli.mcp.servers import McpServers

CODE = "settings"
_OTHER_NOTICES = frozenset(
    ("hooks", "claudeHooks", "mcpServers", "permissions.allow", "permissions.ask", "permissions.deny")
)
"""Settings whose changes have notices of their own."""
_WHEN: dict[Applies, str] = {
    "session": "in the next session, for example after /clear",
    "restart": "after a restart of agentcli",
}
_MAX_NAMED = 8


class SessionConfiguration:
    """Implements `Configuration` of `agent/live_files.py`."""

    def __init__(self, env: Environment, definitions: Library, registry: Registry) -> None:
        """`env`: the environment that the session began with."""
        self._env = self._first = env
        self._definitions = definitions
        self._registry = registry
        self._files = tuple(_files(env))
        self._seen = self._signature()
        self._rules = hook_rules(env)
        self.hooks = hooks_for(env, self._rules)
        """The hooks to begin with."""

    def paths(self) -> Sequence[str]:
        return self._files

    def is_stale(self) -> bool:
        return self._signature() != self._seen

    def _signature(self) -> tuple[object, ...]:
        return tuple(map(_stamp, self._files))

    def environment(self) -> Environment:
        """The session's environment with all files read again. Raises `UsageError` for invalid flags."""
        return Environment(replace(self._first.options, cwd=self._first.cwd), self._first.documents)

    def policy(self) -> Policy:
        """The rules of the files as they are now."""
        return RightsBuilder(self.environment()).policy(self._registry)

    def read(self) -> Reloaded:
        # Taken before reading, so that a change in between is found the next time.
        self._seen = self._signature()
        before, env = self._env, self.environment()
        rules, places, policy = hook_rules(env), definition_places(env), RightsBuilder(env).policy(self._registry)
        same_commands = command_environment(env) == command_environment(before)
        # Rules of the project are bound to the trust in which they were read.
        keeps_hooks = rules == self._rules and same_commands and env.trust_state.usable == before.trust_state.usable
        models, changed = ModelBuilder(env), env.settings.changed_since(before.settings)
        notices = [NoticeRaised(text=text, code=CODE) for text in self._news(env, rules, changed)]
        known = {notice.text for notice in before.notices}
        needs_trust = env.trust_state.needs_answer and not env.options.trust
        if needs_trust and env.trust_state != before.trust_state:
            notices.append(NoticeRaised(text=_describe_untrusted(env), level="warning", code=CODE))
        # Notes about trust are replaced by the one above.
        new = [notice for notice in env.notices if notice.text not in known]
        notices += [notice for notice in new if not (needs_trust and notice.level == "info")]
        if places != self._definitions.places:
            self._definitions.move(places)
            self._definitions.refresh()
        self._env, self._rules = env, rules
        passed, environ = command_environment(env)
        return Reloaded(
            hooks=None if keeps_hooks else hooks_for(env, rules),
            policy=policy,
            tuning=models.tuning(),
            max_turns=env.settings.integer("maxTurns"),
            passed=passed,
            environ=environ,
            recorded=recorded if (recorded := settings_to_record(env)) != settings_to_record(before) else {},
            changed=frozenset(changed),
            notices=tuple(notices),
        )

    def _news(self, env: Environment, rules: Sequence[HookRule], changed: Iterable[str]) -> list[str]:
        news = [f"Hooks reloaded: {text}."] if (text := _hook_changes(self._rules, rules)) else []
        by_time: dict[Applies, list[str]] = {}
        for name in changed:
            if name not in _OTHER_NOTICES:
                by_time.setdefault(BY_NAME[name].applies, []).append(name)
        if now := by_time.pop("now", []):
            news.append(f"Settings reloaded: {_join_names(now)}.")
        for when, names in by_time.items():
            news.append(f"Changed settings that apply {_WHEN[when]}: {_join_names(names)}.")
        return news

    async def update_servers(self, servers: McpServers | None) -> tuple[McpServers | None, list[str]]:
        env = self._env
        found = await in_thread(find_servers, env)
        before = () if servers is None else tuple(servers)
        waiting = frozenset(server.name for server in before if server.state == "unapproved")
        news = [*found.problems] if servers is not None or found.configs else []
        if text := change_notice({server.name: server.config for server in before}, found):
            news.append(text)
        if found.unapproved - waiting:
            news.append(describe_unapproved(found.unapproved))
        if servers is None:
            return (servers_for(env) if found.configs else None), news
        await servers.replace(found.configs, disabled=found.disabled, unapproved=found.unapproved)
        return servers, news

    def server_limits(self) -> ServerToolLimits:
        return server_tool_limits(self._env)

    def inactive(self) -> list[Inactive]:
        env = self.environment()
        found = [
            Inactive("hook", rule.event, rule.title, rule.source, reason, matcher=rule.matcher)
            for rule, reason in inactive_hooks(env, self._rules)
        ]
        for name in env.settings.changed_since(self._first.settings):
            if (applies := BY_NAME[name].applies) != "now":
                shown, source = _show(name, env.settings.get(name)), env.show_path(env.settings.where(name).label)
                found.append(Inactive("setting", name, shown, source, f"applies {_WHEN[applies]}", is_due=True))
        return [*found, *_list_untrusted(env)]


def _files(env: Environment) -> Iterable[str]:
    """All files that determine settings, hooks, MCP servers and trust."""
    folder, root, options = project_folder(env.cwd), trust_root(env.cwd), env.options
    paths = [env.paths.managed_settings, folder / "settings.local.json", folder / "settings.json"]
    paths += [root / name for name in (".mcp.json", ".claude/settings.json", ".claude/settings.local.json")]
    if env.paths.user_settings is not None:
        paths.append(env.paths.user_settings)
    if env.home is not None:
        paths.append(env.home / ".claude" / "settings.json")
    if env.trust.path is not None:
        paths.append(env.trust.path)
    # A changed script is as good as a changed command: hooks and servers of the project wait for trust again.
    paths += [root / part.name for part in env.trust_state.parts if part.named]
    flags = [text for text in (options.settings, *options.mcp_config) if text and not text.lstrip().startswith("{")]
    paths += [env.cwd / text for text in flags]
    return map(str, paths)


def _stamp(path: str) -> object:
    try:
        status = os.stat(path)  # noqa: PTH116 -- before every prompt
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _hook_changes(before: Sequence[HookRule], after: Sequence[HookRule]) -> str:
    """`+1 PreToolUse, −1 Stop`; "" if the same hooks are active."""
    counts: Counter[str] = Counter()
    counts.update(f"+ {rule.event}" for rule in after if rule not in before)
    counts.update(f"− {rule.event}" for rule in before if rule not in after)
    return ", ".join(f"{name[0]}{count} {name[2:]}" for name, count in sorted(counts.items()))


def _join_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f"{', '.join(names[:_MAX_NAMED])}{more}"


def _describe_untrusted(env: Environment) -> str:
    state = env.trust_state
    names = _join_names([plain_line(env.show_path(str(state.root / name)), 80) for name in state.changed])
    consequence = "only the deny and ask rules of this project apply, its hooks and MCP servers are off"
    return f"Not trusted: {names}. Until you have reviewed it with /trust or `agentcli trust`, {consequence}."


def _list_untrusted(env: Environment) -> Iterable[Inactive]:
    """What files of an untrusted project would set. Blocking."""
    if env.options.trust or not env.trust_state.needs_answer:
        return
    folder = project_folder(env.cwd)
    for path in (folder / "settings.local.json", folder / "settings.json"):
        document = read_document(path)
        for name, value in _flat(document.values or {} if document is not None else {}):
            if name in (*HOLD_WITHOUT_TRUST, "hooks", "mcpServers") or name not in BY_NAME:
                continue
            source = env.show_path(str(path))
            if name == "permissions.allow" and isinstance(value, list):
                yield from (Inactive("rule", name, plain_line(str(text), 120), source, UNTRUSTED) for text in value)
            else:
                yield Inactive("setting", name, _show(name, value), source, UNTRUSTED)


def _show(name: str, value: object) -> str:
    """A setting's value without secrets."""
    if BY_NAME[name].kind in ("text map", "object"):
        return "…"
    return plain_line(value if isinstance(value, str) else json.dumps(value, default=str), 120)


def _flat(values: dict[str, object]) -> Iterable[tuple[str, object]]:
    for name, value in values.items():
        if name in SECTIONS and isinstance(value, dict):
            yield from ((f"{name}.{inner}", item) for inner, item in value.items())
        else:
            yield name, value
