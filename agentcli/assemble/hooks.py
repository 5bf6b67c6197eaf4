"""The hooks of a session: of the settings, of `.claude` settings, and of the caller.

A project's hooks run only while its files are unchanged since the user trusted them: before each run its settings and
hook scripts are compared with the trusted content, at the cost of one `stat` per file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.agent.ports import HookChain, Hooks
from agentcli.assemble.environment import Environment
from agentcli.assemble.rights import STRUCTURED_OUTPUT, command_environment
from agentcli.config.files import SIZE_LIMIT, parse_document
from agentcli.config.paths import PROJECT_FOLDER, project_folder
from agentcli.config.trust import content_digest, trust_root
from agentcli.config.trust_effects import named_paths
from agentcli.core.errors import UsageError
from agentcli.core.files.access import Unread, read_bounded

if TYPE_CHECKING:
    from agentcli.hooks.rules import HookRule

_SETTINGS = ("settings.json", "settings.local.json")
UNTRUSTED = "this folder is not trusted; /trust reviews it"


def hooks_for(env: Environment, rules: Sequence[HookRule]) -> HookChain:
    """Hooks that run these rules, and that require structured output if the caller wants it."""
    sources: list[Hooks] = []
    if rules:
        from agentcli.agent.configured_hooks import ConfiguredHooks
        from agentcli.core.processes.own_programs import user_environment
        from agentcli.hooks.runner import HookPlace, HookRunner

        place = HookPlace(trust_root(env.cwd), user_environment(command_environment(env)[1], env.writable_dirs))
        runner = HookRunner(rules, place, env.options.ids, env.options.clock, TrustWatch(env).problem)
        sources.append(ConfiguredHooks(runner))
    if env.options.json_schema is not None:
        from agentcli.agent.configured_hooks import RequireOutput

        sources.append(RequireOutput(STRUCTURED_OUTPUT))
    return HookChain(sources)


def hook_rules(env: Environment) -> list[HookRule]:
    """The configured hooks that may run, in the order in which their contexts are added: the caller's, then by layer,
    the strongest first."""
    rules = _check(env.options.hooks)
    for value, source in env.settings.each("hooks"):
        rules += _parse(env, value, source.label, source.layer.in_repository)
    if env.settings.boolean("claudeHooks"):
        for path, layer in _claude_files(env):
            if env.options.setting_sources is not None and layer not in env.options.setting_sources:
                continue
            in_repository = layer != "user"
            raw = read_bounded(path, SIZE_LIMIT)
            # Most such files have no hooks and need not be parsed.
            if isinstance(raw, Unread) or b'"hooks"' not in raw:
                continue
            document = parse_document(raw, str(path))
            value = (document.values or {}).get("hooks")
            if document.values is None:
                env.warn(f"{document.problems[0].text} Its hooks are not used.", "hooks")
            elif not isinstance(value, dict):
                continue
            elif in_repository and not _is_trusted(env, path, raw):
                env.warn(f"{path}: its hooks are off, because this folder is not trusted. /trust reviews it.", "hooks")
            else:
                rules += _parse(env, value, str(path), in_repository)
    return rules


def inactive_hooks(env: Environment, active: Sequence[HookRule]) -> Iterator[tuple[HookRule, str]]:
    """Hooks that are configured but do not run, each with the reason. `active`: those that do. Blocking."""
    from agentcli.hooks.rules import parse_hooks

    folder = project_folder(env.cwd)
    own = [(folder / "settings.local.json", "local", ""), (folder / "settings.json", "project", "")]
    off = "" if env.settings.boolean("claudeHooks") else "the setting claudeHooks is off"
    foreign = [(path, layer, off) for path, layer in _claude_files(env)]
    used = {rule.source for rule in active}
    sources = env.options.setting_sources
    for path, layer, problem in (*own, *foreign):
        raw, shown = read_bounded(path, SIZE_LIMIT), env.show_path(str(path))
        if isinstance(raw, Unread) or b'"hooks"' not in raw or shown in used:
            continue
        if sources is not None and layer not in sources:
            problem = "--setting-sources leaves this file out"
        elif not problem and layer != "user" and not _is_trusted(env, path, raw):
            problem = "changed since you trusted it; /trust reviews it" if env.trust_state.known else UNTRUSTED
        value = (parse_document(raw, shown).values or {}).get("hooks")
        if problem and isinstance(value, dict):
            for rule in parse_hooks(value, shown, in_repository=layer != "user")[0]:
                yield rule, problem


def _check(rules: tuple[HookRule, ...]) -> list[HookRule]:
    if rules:
        from agentcli.hooks.rules import problem_of

        for rule in rules:
            if problem := problem_of(rule):
                raise UsageError(f"Options.hooks: {problem}")
    return list(rules)


def _parse(env: Environment, value: dict[str, object], label: str, in_repository: bool) -> list[HookRule]:
    from agentcli.hooks.rules import parse_hooks

    shown = env.show_path(label)
    rules, problems = parse_hooks(value, shown, in_repository=in_repository)
    for problem in problems:
        env.warn(problem, "hooks")
    return rules


def _claude_files(env: Environment) -> list[tuple[Path, str]]:
    """The settings files of the common ecosystem with their layers. The user's own counts as nothing else."""
    folder = trust_root(env.cwd) / ".claude"
    layers = {folder / "settings.local.json": "local", folder / "settings.json": "project"}
    if env.home is not None:
        layers[env.home / ".claude" / "settings.json"] = "user"
    return list(layers.items())


def _is_trusted(env: Environment, path: Path, raw: bytes) -> bool:
    if env.options.trust:
        return True
    state = env.trust.state(env.cwd)
    return state.usable and state.digests().get(os.path.normpath(path)) == content_digest(raw)


class TrustWatch:
    """Checks that the files which determine a project's hooks, and those that any hook names in the project, still have
    their trusted content."""

    def __init__(self, env: Environment) -> None:
        self._store, self._cwd, self._root = env.trust, env.cwd, trust_root(env.cwd)
        self._given = env.trust_state if env.options.trust else None
        """The content that `--trust` covers: that at the start."""
        self._names: tuple[str, ...] = ()
        self._stamps: tuple[object, ...] | None = None
        self._changed: list[str] = []
        self._is_known = True

    def problem(self, rule: HookRule) -> str:
        """Why a hook is off, as a sentence for the user; "" while all of its files are trusted."""
        if self._stamps is None or self._stamps != self._stamp():
            self._look()
        changed = self._changed
        if not rule.in_repository:
            named = self._named(rule) if changed else frozenset()
            changed = [name for name in changed if name in named]
        elif not changed and not self._is_known:
            return "The project's hooks are off: this folder is not trusted any more. /trust reviews it."
        if not changed:
            return ""
        advice = "Review it and start again" if self._given is not None else "/trust reviews it and turns them on again"
        return f"The project's hooks are off: {', '.join(changed[:3])} changed. {advice}."

    def _look(self) -> None:
        state, given = self._store.state(self._cwd), self._given
        parts = [part for part in state.parts if part.named or _decides(part.name)]
        self._names = (*(part.name for part in parts), *state.named)
        self._is_known = given is not None or state.known or state.own
        trusted = given.parts if given is not None else [part for part in parts if part.name not in state.changed]
        self._changed = [part.name for part in parts if part not in trusted]
        self._stamps = self._stamp()

    def _named(self, rule: HookRule) -> frozenset[str]:
        if not isinstance(rule.action, str):
            return frozenset()
        return frozenset(named_paths([json.dumps({"command": rule.action})], self._root, self._root))

    def _stamp(self) -> tuple[object, ...]:
        """File identities and times. Includes the folders, which change when a file is added, and the file of trusted
        content."""
        names = {*self._names, *(str(Path(name).parent) for name in self._names)}
        names |= {PROJECT_FOLDER, ".claude", f"{PROJECT_FOLDER}/hooks", ".claude/hooks"}
        found: list[object] = []
        paths = [self._root / name for name in sorted(names)]
        for path in paths if self._store.path is None else (*paths, self._store.path):
            try:
                status = path.stat()
            except OSError:
                found.append(None)
            else:
                found.append((status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
        return tuple(found)


def _decides(name: str) -> bool:
    """Whether a file determines what a project's hooks run."""
    parts = Path(name).parts
    return parts[-1] in _SETTINGS or "hooks" in parts[:-1]
