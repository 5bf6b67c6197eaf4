"""Tools, permission rules and the sandbox of a session."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.agent.attachments.skills import ModelSkills
from agentcli.assemble.definitions import SessionSkills
from agentcli.assemble.environment import Environment
from agentcli.assemble.model import key_store
from agentcli.assemble.plugins import may_have_plugins
from agentcli.assemble.worktrees import current_worktree, move_rule, project_worktrees_folder
from agentcli.config.paths import find_linked_parts, find_own_parts, project_folder
from agentcli.config.save import RuleKeeper
from agentcli.config.settings import Layer
from agentcli.core.errors import UsageError
from agentcli.core.files.access import is_below, real_path
from agentcli.core.frozen import frozen
from agentcli.core.permission import PermissionMode
from agentcli.core.processes.installation import installation_paths
from agentcli.core.processes.launch import Launcher
from agentcli.permissions.command_grant import USER_ONLY, USER_ONLY_ADVICE, list_known_credentials
from agentcli.permissions.policy import Policy
from agentcli.permissions.rules import READING_TOOLS, SPECIFIED_TOOLS, Rule, RuleScope, parse_rule, parse_rules
from agentcli.sandbox.secrets import EMPTY, list_closed_at_home
from agentcli.tools.base import ToolContext
from agentcli.tools.registry import BUILTIN_NAMES, Registry, builtin_tools
from agentcli.tools.shell.environment import PassedVariables, child_environment
from agentcli.tools.skill import NAME as SKILL
from agentcli.tools.skill import Skill
from agentcli.workspace.worktrees import Worktree

if TYPE_CHECKING:
    from agentcli.sandbox.limits import ResourceLimits
    from agentcli.sandbox.plan import SandboxRules
    from agentcli.shell.restricted_files import DeniedFiles

STRUCTURED_OUTPUT = "StructuredOutput"
_OF_SERVERS = frozenset({"ToolSearch", "ListMcpResourcesTool", "ReadMcpResourceTool"})
_OTHERS = _OF_SERVERS | {"Task", "Agent", "Skill", STRUCTURED_OUTPUT} | USER_ONLY
"""Names that rules may use although the session may have no such tool."""
_SCOPES: Mapping[Layer, RuleScope] = {
    Layer.MANAGED: "managed",
    Layer.FLAGS: "flags",
    Layer.ENVIRONMENT: "flags",
    Layer.LOCAL: "local",
    Layer.PROJECT: "project",
    Layer.USER: "user",
    Layer.DEFAULT: "agentcli",
}


@frozen
class Rights:
    """Permission policy, tools and tool context: the same for the engine, `agentcli permissions` and `doctor`."""

    policy: Policy
    registry: Registry
    """Tools without those that a deny rule removes."""
    context: ToolContext
    notices: tuple[str, ...] = ()
    sandbox_problems: tuple[str, ...] = ()
    """Why the sandbox protects less than requested."""


class RightsBuilder:
    def __init__(self, env: Environment, deny: Iterable[Rule] = ()) -> None:
        """`deny`: further deny rules besides those of the settings."""
        self._env = env
        self._deny = tuple(deny)
        self._uncertain = env.settings.rights_uncertain
        """Whether a settings file that may contain deny rules could not be read. Then every tool needs approval."""
        self._installation = installation_paths(env.working_dirs, env.home)
        state = env.trust_state
        self._named = (
            *(Path(real_path(state.root / part.name)) for part in state.parts if part.named),
            *find_linked_parts(env.paths.config_dir, env.home, env.working_dirs),
        )
        """Files of the project that hooks and servers run outside of the sandbox, or that the user's own settings are
        links to."""
        self._sandbox_problems: list[str] = []
        self.check_plugin_tools: Callable[[Iterable[str]], Iterable[str]] = lambda _names: ()
        """Takes the names of the plugins' tools and returns warnings about rules that match no tool; set by
        `policy`."""

    def build(
        self,
        results_dir: Path | None = None,
        results_elsewhere: tuple[Path, ...] = (),
        skills: SessionSkills | None = None,
    ) -> Rights:
        """Build policy, tools, sandbox and folders. `results_elsewhere`: other folders with stored tool results."""
        registry = self._registry(skills)
        policy = self.policy(registry)
        registry = registry.without(tool.name for tool in registry if policy.refuses_always(tool.name))
        notes = [folder for folder in policy.memory if folder.is_dir()]
        worktrees = project_worktrees_folder(self._env)
        readable = (*((results_dir,) if results_dir else ()), *results_elsewhere, *notes, *worktrees)
        denied = self._find_denied_files(policy)
        skill_folders = skills.folders if skills is not None else tuple
        skill_roots = skills.roots() if skills is not None else ()
        sandbox_rules = self._sandbox_rules(policy, (*readable, *skill_roots), denied)
        launcher = self._launcher(sandbox_rules)
        policy = replace(
            policy,
            mode=self._usable_mode(policy.mode, launcher),
            readable=readable,
            skill_folders=skill_folders,
            scratch=() if launcher.temp_folder is None else (launcher.temp_folder,),
            locate=lambda command, path: path if launcher.runs_bare(command) else launcher.outside(path),
            temp=launcher.temp_folder or policy.temp,
            writable=self._env.writable_dirs[len(self._env.working_dirs) :],
            hidden_from_commands=partial(_hides_from, launcher, denied),
            contains=lambda command: not launcher.uncontained and not launcher.runs_bare(command),
            commands_can_read=partial(_commands_can_read, sandbox_rules),
        )
        passed, environ = command_environment(self._env)
        context = ToolContext(
            cwd=self._env.cwd,
            working_dirs=self._env.working_dirs,
            results_dir=results_dir,
            environ=environ,
            passed=passed,
            proxies={name: value for name, value in self._env.environ.items() if name.lower().endswith("_proxy")},
            hides=self._hides(policy),
            launcher=launcher,
            credentials={name: self._env.environ[name] for name in policy.credentials},
            also_writable=self._env.writable_dirs[len(self._env.working_dirs) :],
        )
        notices = tuple(notice.text for notice in self._env.notices)
        return Rights(policy, registry, context, notices, tuple(self._sandbox_problems))

    def _registry(self, skills: SessionSkills | None) -> Registry:
        options = self._env.options
        registry = Registry(builtin_tools(_runs_beside_others))
        loads_skills = skills is not None and skills.has_tool
        if options.tools is not None:
            registry = registry.select(name for name in options.tools if name != SKILL and not _is_of_servers(name))
            loads_skills = loads_skills and SKILL in options.tools
        if skills is not None and loads_skills:
            registry = registry.adding([Skill(ModelSkills(skills.library))])
        if not self._env.options.interactive:
            # Tools that only ask the user are not offered in non-interactive runs.
            registry = registry.without(tool.name for tool in registry if hasattr(tool, "unanswered"))
        extra = list(options.extra_tools)
        if options.json_schema is not None:
            from agentcli.tools.structured import StructuredOutput

            extra.append(StructuredOutput(options.json_schema))
        return registry.adding(extra)

    def policy(self, registry: Registry) -> Policy:
        """Rules and mode of the current settings, without the values that only a running session has."""
        options, settings = self._env.options, self._env.settings
        mode = options.permission_mode or PermissionMode(settings.text("permissions.defaultMode") or "default")
        policy = Policy(
            mode=mode,
            allow=(*parse_rules(options.allowed_tools, "--allowedTools", "flags"), *self._rules("allow")),
            ask=self._rules("ask"),
            deny=tuple(
                dict.fromkeys(
                    (
                        *parse_rules(options.disallowed_tools, "--disallowedTools", "flags"),
                        *self._rules("deny"),
                        *self._deny,
                    )
                )
            ),
            home=self._env.home,
            search_path=self._env.environ.get("PATH", ""),
            temp=self._temp_root() if self._sandbox_mode() != "off" or self._env.environ.get("TMPDIR") else None,
            credentials=list_known_credentials(self._env.environ),
            trusted=self._env.is_trusted(),
            private=self._private_files(),
            secrets=self._secrets(),
            installation=self._installation,
            own_folders=(*(real_path(folder) for folder in self._list_own_folders()), *map(str, self._named)),
            memory=() if self._env.memory_dir is None else (self._env.memory_dir,),
        )
        rules = (*policy.allow, *policy.ask, *policy.deny)
        problems = list(report_unknown_tools(rules, registry.names))
        if problems and may_have_plugins(self._env):
            # The tools of plugins are known only after loading.
            self.check_plugin_tools = lambda names: report_unknown_tools(rules, (*registry.names, *names))
        else:
            for problem in problems:
                self._env.warn(problem, "rules")
        if options.json_schema is not None:
            policy = policy.with_allowed([STRUCTURED_OUTPUT], "--json-schema")
        if self._uncertain:
            # A settings file that may contain deny rules could not be read. Skipping it must not widen rights.
            source = "settings that could not be read"
            policy = policy.with_rules(ask=parse_rules(registry.names, source))
        return policy

    def mode_before_plan(self, launcher: Launcher) -> PermissionMode:
        """The mode that the plan of a session started in plan mode returns to: that of the settings."""
        mode = PermissionMode(self._env.settings.text("permissions.defaultMode") or "default")
        unusable = mode is PermissionMode.PLAN or (mode is PermissionMode.AUTO and launcher.uncontained)
        return PermissionMode.DEFAULT if unusable else mode

    def _usable_mode(self, mode: PermissionMode, launcher: Launcher) -> PermissionMode:
        """The mode, or the default mode if auto mode needs a sandbox that does not work here. Raises `UsageError` if
        the command line chose auto mode."""
        if mode is not PermissionMode.AUTO or not launcher.uncontained:
            return mode
        problem = f"Auto mode is not available: {launcher.uncontained}"
        if self._env.options.permission_mode is PermissionMode.AUTO:
            raise UsageError(problem)
        self._warn_about_sandbox(problem)
        return PermissionMode.DEFAULT

    def _private_files(self) -> tuple[str, ...]:
        keys = key_store(self._env).path
        return () if keys is None else (real_path(keys),)

    def _secrets(self) -> tuple[str, ...]:
        if self._env.home is None:
            return ()
        home = real_path(self._env.home)
        opened = {str(path) for path in self._sandbox_paths("allowRead")}
        found = (*list_closed_at_home(home, self._env.working_dirs), *(f"{home}/{name}" for name in EMPTY))
        return tuple(path for path in found if path not in opened)

    def _sandbox_paths(self, name: str) -> tuple[Path, ...]:
        home = Path(real_path(self._env.home)) if self._env.home else None
        given = self._env.settings.texts(f"sandbox.{name}")
        return tuple(Path(os.path.normpath(self._env.cwd / _at_home(text, home))) for text in given)

    def _program_folders(self) -> tuple[Path, ...]:
        """Folders of PATH inside closed entries of the home folder, such as `~/.fly/bin`."""
        home, path = self._env.home, self._env.environ.get("PATH", "")
        entries = path.split(os.pathsep) if home is not None else []
        return tuple(Path(entry) for entry in entries if entry.startswith(f"{home}/.") and entry.endswith("/bin"))

    def _list_own_folders(self) -> tuple[Path, ...]:
        paths = self._env.paths
        folders = (paths.config_dir, paths.state_dir, paths.index_dir)
        return tuple(part for folder in folders if folder for part in find_own_parts(folder, self._env.working_dirs))

    def rule_keeper(self) -> RuleKeeper:
        folder = project_folder(self._env.cwd)
        paths = {"local": folder / "settings.local.json", "project": folder / "settings.json"}
        if self._env.paths.user_settings is not None:
            paths["user"] = self._env.paths.user_settings
        return RuleKeeper(paths, self._env.trust, self._env.cwd)

    def _launcher(self, rules: SandboxRules) -> Launcher:
        """The launcher of commands. Warns if the settings require a sandbox and none works."""
        mode = self._sandbox_mode()
        from agentcli.sandbox.session_folder import UnsandboxedLauncher, remove_leftovers

        if mode == "off":
            remove_leftovers(self._temp_root())
            return UnsandboxedLauncher(self._temp_root())
        from agentcli.sandbox.choose import SandboxEnvironment, choose

        cache_dir = self._env.paths.cache_dir
        around = SandboxEnvironment(
            environ=self._env.environ,
            temp_root=self._temp_root(),
            cache_dir=cache_dir,
            quarantine=self._env.paths.quarantine_dir,
        )
        chosen = choose(mode, rules, around)
        if chosen.problem:
            self._warn_about_sandbox(chosen.problem, chosen.advice)
        return chosen.launcher

    def _warn_about_sandbox(self, problem: str, advice: str = "") -> None:
        self._sandbox_problems.append(problem)
        self._env.warn(f"{problem} {advice}".rstrip(), "sandbox")

    def _sandbox_mode(self) -> str:
        return self._env.settings.text("sandbox.mode") or "on"

    def _temp_root(self) -> Path:
        named = self._env.environ.get("TMPDIR")
        return Path(named) if named and Path(named).is_dir() else Path(tempfile.gettempdir())

    def _find_denied_files(self, policy: Policy) -> DeniedFiles | None:
        """The files that the sandbox hides from commands; None if there is neither a rule nor a key file."""
        from agentcli.shell.restricted_files import DeniedFiles

        if not policy.hides_anything and not policy.private:
            return None
        home = Path(real_path(policy.home)) if policy.home else None
        specs = [rule.spec for rule in policy.deny if rule.spec is not None and rule.tool in READING_TOOLS]
        hides = partial(policy.hides, cwd=self._env.cwd, working_dirs=self._env.working_dirs)
        # Only rules need a walk through the folders.
        folders = self._env.working_dirs if specs else ()
        return DeniedFiles(hides, specs, folders, home, single=map(Path, policy.private))

    def _sandbox_rules(self, policy: Policy, readable: tuple[Path, ...], denied: DeniedFiles | None) -> SandboxRules:
        """The sandbox's rules. `readable`: folders with tool output, which commands may read although they are in
        agentcli's own folders."""
        from agentcli.sandbox.plan import SandboxRules, Upstream

        home = Path(real_path(policy.home)) if policy.home else None

        return SandboxRules(
            working_dirs=self._env.working_dirs,
            home=home,
            network=self._env.settings.boolean("sandbox.network"),
            allow_write=self._sandbox_paths("allowWrite"),
            allow_read=(*self._sandbox_paths("allowRead"), *self._program_folders()),
            deny_read=self._sandbox_paths("denyRead"),
            own_folders=self._list_own_folders(),
            readable=readable,
            denied_files=denied if denied is not None else lambda: (),
            excluded_commands=self._env.settings.texts("sandbox.excludedCommands"),
            limits=self._limits(),
            can_ask=self._env.options.interactive,
            upstream=Upstream.from_environ(self._env.environ),
            cache_dir=self._env.paths.cache_dir / "sandbox" if self._env.paths.cache_dir else None,
            installation=(*self._installation, *self._named),
        )

    def _limits(self) -> ResourceLimits:
        from agentcli.sandbox.limits import ResourceLimits, default_memory

        settings = self._env.settings
        memory = settings.integer("sandbox.maxMemoryMb")
        return ResourceLimits(
            memory=default_memory() if memory is None else memory * 2**20 or None,
            processes=settings.integer("sandbox.maxProcesses") or None,
            cpu_seconds=settings.integer("sandbox.maxCpuSeconds") or None,
        )

    def _hides(self, policy: Policy) -> Callable[[str], bool] | None:
        """Predicate for paths that file searches must leave out; None if there are none."""
        if policy.hides_anything:
            return partial(policy.hides, cwd=self._env.cwd, working_dirs=self._env.working_dirs)
        if any(is_below(path, map(str, self._env.working_dirs)) for path in policy.secrets):
            return lambda path: policy.find_concealed(real_path(path)) is not None
        if not policy.private:
            return None
        names = tuple(os.path.basename(path) for path in policy.private)  # noqa: PTH119
        # Compare names first: resolving links is slow and most files do not match.
        return lambda path: path.endswith(names) and policy.private_file(real_path(path)) is not None

    def _rules(self, behavior: str) -> tuple[Rule, ...]:
        """The rules of the settings files. An invalid rule is reported; if it is an ask or deny rule, every tool needs
        approval."""
        rules = []
        for texts, source in self._env.settings.each(f"permissions.{behavior}"):
            root = Path(source.label).parent if source.layer not in (Layer.FLAGS, Layer.ENVIRONMENT) else self._env.cwd
            if source.layer.in_repository:
                root = root.parent
            for text in texts:
                try:
                    rule = parse_rule(text, source.label, root, _SCOPES[source.layer])
                    if behavior == "allow" and source.layer.in_repository and rule.tool in USER_ONLY:
                        self._env.warn(f"{source.label}: {rule.text} is ignored. {USER_ONLY_ADVICE}", "settings")
                    else:
                        rules.append(rule)
                except UsageError as error:
                    self._env.warn(str(error), "settings")
                    self._uncertain = self._uncertain or behavior != "allow"
        if behavior != "allow" and (worktree := current_worktree(self._env)) is not None:
            rules += self._repository_rules(behavior, worktree)
        return tuple(rules)

    def _repository_rules(self, behavior: str, worktree: Worktree) -> list[Rule]:
        """Deny or ask rules of the repository's local settings, which a worktree lacks because they are not
        committed."""
        there = worktree.repository / self._env.cwd.relative_to(worktree.path)
        folder = there if there.is_dir() else worktree.repository
        if not folder.is_dir():
            return []
        original = RightsBuilder(Environment(replace(self._env.options, cwd=folder)))
        rules = [rule for rule in original._rules(behavior) if rule.scope == "local"]
        self._uncertain = self._uncertain or original._uncertain
        return [move_rule(rule, worktree, self._env.home) for rule in rules]


def command_environment(env: Environment) -> tuple[PassedVariables, Mapping[str, str]]:
    """The variables that commands get: the choice of the settings, and what follows from it."""
    passed = PassedVariables.from_settings(env.settings.texts("sandbox.env"), env.settings.mapping("env"))
    return passed, child_environment(env.environ, passed)


def _runs_beside_others(command: str) -> bool:
    from agentcli.shell.commands.command_parts import runs_beside_others  # not before the first request

    return runs_beside_others(command)


def _is_of_servers(name: str) -> bool:
    return name.startswith("mcp__") or name in _OF_SERVERS


def _hides_from(launcher: Launcher, denied: DeniedFiles | None, command: str) -> bool:
    """Whether this command would run in a sandbox that hides all denied and private files."""
    if launcher.name == Launcher.name:
        return False
    return not launcher.runs_bare(command) and (denied is None or denied.complete)


def _commands_can_read(rules: SandboxRules, real: str) -> bool:
    from agentcli.sandbox.plan import commands_can_read

    return commands_can_read(rules, real)


def _at_home(text: str, home: Path | None) -> Path:
    return home / text[2:] if home is not None and text.startswith("~/") else Path(text)


def report_unknown_tools(rules: Iterable[Rule], custom: Iterable[str]) -> Iterator[str]:
    """One message for each rule that matches no tool, or no use of it. `custom`: names of tools that are not built in.

    Rules for MCP tools pass: their names are unknown until the server runs."""
    known = _OTHERS.union(BUILTIN_NAMES, custom)
    for rule in dict.fromkeys(rules):
        where = f"{rule.source}: " if rule.source else ""
        if rule.tool in BUILTIN_NAMES and rule.spec is not None and rule.tool not in SPECIFIED_TOOLS:
            effect = f"{rule.tool} takes no parentheses, so the rule {rule.text} has no effect."
            yield f"{where}{effect} Use Read(…) or Edit(…) for files."
        if rule.tool.startswith("mcp__") or any(map(rule.names, known)):
            continue
        from difflib import get_close_matches  # imported only for a mistake

        folded = {name.casefold(): name for name in known}
        near = get_close_matches(rule.tool.casefold().rstrip("*"), folded, n=1, cutoff=0.6)
        hint = f" Did you mean {folded[near[0]]}?" if near else ""
        yield f"{where}There is no tool named {rule.tool}, so the rule {rule.text} has no effect.{hint}"
