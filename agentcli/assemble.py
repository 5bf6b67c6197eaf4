"""Composition root: `Options` in, a working `Engine` out. The only module that knows every implementation."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agentcli import __version__
from agentcli.agent.attachments import BackgroundReports, Composite, PlanModeNotice, TaskListReminder
from agentcli.agent.engine import Conversation, Engine
from agentcli.agent.executor import BatchExecutor, StreamingExecutor
from agentcli.agent.permission import LivePermissions
from agentcli.agent.ports import NoWorkspace, Seams, Workspace
from agentcli.agent.profile import Bounds, Profile, Tuning
from agentcli.agent.questions import Audience
from agentcli.agent.structured import RequireOutput
from agentcli.commands.registry import names as command_names
from agentcli.config.paths import Paths, project_folder
from agentcli.config.save import RuleKeeper
from agentcli.config.settings import Layer, Settings, SettingsRequest, load_settings
from agentcli.config.trust import TrustStore
from agentcli.context.prompt import system_context, system_parts
from agentcli.context.view import View
from agentcli.core import events as ev
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.frozen import frozen
from agentcli.core.ids import Clock, Ids, RandomIds, SystemClock
from agentcli.core.launch import BareLauncher, Launcher
from agentcli.core.messages import Json, Message
from agentcli.core.permission import PermissionMode
from agentcli.permissions.commands import runs_beside_others
from agentcli.permissions.policy import Policy
from agentcli.permissions.rules import READING_TOOLS, Rule, parse_rule, parse_rules
from agentcli.providers.base import Effort, Provider, Thinking, ThinkingMode
from agentcli.providers.catalog import DEFAULT_MODEL, SMALL_MODEL, Catalog, nearest_effort
from agentcli.session.base import Store, Workplace
from agentcli.session.null import NullStore
from agentcli.tools.base import Tool, ToolContext
from agentcli.tools.environment import child_environment
from agentcli.tools.registry import Registry, builtin_tools
from agentcli.tools.shells import Shells
from agentcli.workspace.late import LateHistory

if TYPE_CHECKING:
    from agentcli.permissions.sandbox.plan import SandboxRules
    from agentcli.providers.sdk import Platform
    from agentcli.providers.transport import Transport

STRUCTURED_OUTPUT = "StructuredOutput"
SCRIPT_VARIABLE = "AGENTCLI_SCRIPT"
"""The file that the scripted provider plays."""
_SANDBOX_NOTE = (
    "Shell commands run in a sandbox ({level}): they write only in the working directories and in $TMPDIR, and cannot "
    "read credentials. /tmp is $TMPDIR to them, so other tools do not see it by that name. Empty folders named .envrc, "
    ".mcp.json, .vscode and the like, which they may see, are not really there."
)


@frozen(kw_only=True)
class Options:
    """Everything a caller can choose. None means: what the settings say, else the default."""

    cwd: Path | None = None
    environ: Mapping[str, str] | None = None
    """None: the process's own."""
    interactive: bool = False
    """Whether somebody is there to answer permission questions."""

    model: str | None = None
    fallback_models: tuple[str, ...] = ()
    effort: str | None = None
    """low, medium, high, xhigh, max or auto."""
    thinking: str | None = None
    """adaptive, enabled or disabled."""
    max_thinking_tokens: int | None = None
    max_turns: int | None = None
    max_budget_usd: float | None = None
    token_budget: int | None = None
    task_budget: int | None = None
    system_prompt: str | None = None
    """Replaces the default prompt; an empty string means none at all."""
    append_system_prompt: str | None = None
    json_schema: Json | None = None

    tools: tuple[str, ...] | None = None
    """Names of the built-in tools to offer; None for all, () for none."""
    extra_tools: tuple[Tool, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    permission_mode: PermissionMode | None = None
    trust: bool = False
    sandbox: str | None = None
    """off, on or strict."""
    add_dirs: tuple[Path, ...] = ()

    settings: str | None = None
    """A file, or a JSON object as text, laid over the settings files."""
    setting_sources: tuple[str, ...] | None = None
    """Of user, project, local; None for all."""

    continue_latest: bool = False
    resume: str | None = None
    fork_session: bool = False
    session_id: str | None = None
    name: str | None = None
    persist: bool = True

    raw_events: bool = False
    provider: Provider | None = None
    """A provider of the caller's own; None: by settings."""
    seams: Seams = field(default_factory=Seams)
    ids: Ids = field(default_factory=RandomIds)
    clock: Clock = field(default_factory=SystemClock)


def build_engine(options: Options) -> Engine:
    """Read settings, find credentials, open or resume the session, put the engine together.

    Raises `AgentError` (`UsageError`, `CredentialError`) with a sentence that says what to do. No network, and no
    process but the trial of the sandbox, once after each boot.
    """
    return _Assembly(options).engine()


def settings_for(options: Options) -> Settings:
    """The settings that an engine with these options would use; for `agentcli config`."""
    return _Assembly(options).settings


@frozen
class Rights:
    """What decides about calls, without a model and a session."""

    policy: Policy
    registry: Registry
    context: ToolContext
    notices: tuple[str, ...] = ()


def rights_for(options: Options) -> Rights:
    """The rules that an engine with these options would go by; for `agentcli permissions`."""
    return _Assembly(options).rights()


def sandbox_for(options: Options) -> tuple[Launcher, str]:
    """How commands of an engine with these options would be started, and what there is to say about it; for `agentcli
    doctor`. Raises `UsageError` as `build_engine` does."""
    return _Assembly(options).sandbox()


class _Assembly:
    """The steps of `build_engine`, sharing what each finds out."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.cwd = _folder(options.cwd or Path.cwd())
        given = os.environ if options.environ is None else options.environ
        self.paths = Paths.from_environ(given)
        home = given.get("HOME")
        self.trust = TrustStore(self.paths.state_dir, Path(home) if home else None)
        self.settings = load_settings(
            SettingsRequest(
                paths=self.paths,
                cwd=self.cwd,
                environ=given,
                flag_text=options.settings,
                flag_values=_flag_values(options),
                sources=options.setting_sources,
                trusted=options.trust or self.trust.state(self.cwd).trusted,
            )
        )
        self.environ = {**given, **self.settings.mapping("env")}
        self.catalog = Catalog(self.settings.mapping("models"))
        self.notices = [
            ev.NoticeRaised(text=p.text, level="warning" if p.level == "warning" else "info", code="settings")
            for p in self.settings.problems
        ]
        self.rights_uncertain = self.settings.rights_uncertain
        further = (*options.add_dirs, *map(Path, self.settings.texts("permissions.additionalDirectories")))
        self.working_dirs = tuple(dict.fromkeys((self.cwd, *(_folder(self.cwd / path) for path in further))))

    def engine(self) -> Engine:
        options = self.options
        registry = self._registry()
        policy = self._policy(registry)
        registry = registry.without(tool.name for tool in registry if policy.refuses_always(tool.name))
        profile = self._profile()
        bounds = self._bounds(profile)
        provider, key_source = self._provider()
        session = self._session()
        seams = options.seams
        if options.json_schema is not None:
            hooks = RequireOutput(seams.hooks, STRUCTURED_OUTPUT)
            seams = replace(seams, hooks=hooks)
        results_dir = session.store.results_dir()
        launcher = self._launcher(policy, results_dir)
        permissions = LivePermissions(
            replace(policy, readable=(results_dir,) if results_dir else ()), self._rule_keeper().save
        )
        plan_mode = PlanModeNotice(lambda: permissions.mode, options.ids)
        shells = Shells()
        reports = BackgroundReports(shells, options.ids)
        tasks = TaskListReminder(options.ids)
        seams = replace(seams, attachments=Composite(reports, plan_mode, tasks, seams.attachments))
        if isinstance(seams.workspace, NoWorkspace):
            seams = replace(seams, workspace=self._workspace(session))
        return Engine(
            Conversation(
                provider=provider,
                registry=registry,
                store=session.store,
                permissions=permissions,
                profile=replace(profile, system=self._system(session, launcher)),
                tool_context=ToolContext(
                    cwd=self.cwd,
                    working_dirs=self.working_dirs,
                    results_dir=results_dir,
                    environ=child_environment(self.environ),
                    hides=self._hides(policy),
                    reaches=permissions.reaches,
                    launcher=launcher,
                    shells=shells,
                ),
                catalog=self.catalog,
                ids=options.ids,
                clock=options.clock,
                audience=Audience.SOMEBODY if options.interactive else Audience.NOBODY,
                bounds=bounds,
                tuning=self._tuning(),
                seams=seams,
                view=session.view,
                log=tuple(session.log),
                api_key_source=key_source,
                notices=tuple(self.notices),
                wants_structured=options.json_schema is not None,
                commands=command_names(),
            )
        )

    def rights(self) -> Rights:
        registry = self._registry()
        policy = self._policy(registry)
        context = ToolContext(cwd=self.cwd, working_dirs=self.working_dirs, environ=child_environment(self.environ))
        return Rights(policy, registry, context, tuple(notice.text for notice in self.notices))

    def sandbox(self) -> tuple[Launcher, str]:
        launcher = self._launcher(self._policy(self._registry()), None)
        return launcher, " ".join(notice.text for notice in self.notices if notice.code == "sandbox")

    # ------------------------------------------------------------------------------------------ tools and permission

    def _registry(self) -> Registry:
        options = self.options
        registry = Registry(builtin_tools(runs_beside_others))
        if options.tools is not None:
            registry = registry.selected(options.tools)
        extra = list(options.extra_tools)
        if options.json_schema is not None:
            from agentcli.tools.structured import StructuredOutput

            extra.append(StructuredOutput(options.json_schema))
        return registry.adding(extra)

    def _policy(self, registry: Registry) -> Policy:
        options, settings = self.options, self.settings
        mode = options.permission_mode or PermissionMode(settings.text("permissions.defaultMode") or "default")
        home = self.environ.get("HOME")
        policy = Policy(
            mode=mode,
            allow=(*parse_rules(options.allowed_tools, "--allowedTools"), *self._rules("allow")),
            ask=self._rules("ask"),
            deny=(*parse_rules(options.disallowed_tools, "--disallowedTools"), *self._rules("deny")),
            home=Path(home) if home else None,
        )
        if options.json_schema is not None:
            policy = policy.with_allowed([STRUCTURED_OUTPUT], "--json-schema")
        if self.rights_uncertain:
            # A file that may forbid something could not be used; its absence must not widen rights.
            source = "settings that could not be read"
            policy = policy.with_rules(ask=parse_rules(registry.names, source))
        return policy

    def _workspace(self, session: _Session) -> Workspace:
        """What keeps copies of files for an undo: in the state folder, like everything else of a session."""
        if not self.settings.boolean("undo"):
            return NoWorkspace("Nothing can be undone: copies of files are switched off in the settings (undo).")
        if not self.options.persist or self.paths.state_dir is None:
            return NoWorkspace("Nothing can be undone: nothing of this session is kept, copies of files neither.")
        state_dir = Path(os.path.realpath(self.paths.state_dir))

        def may_warm() -> bool:
            return self.options.trust or self.trust.state(self.cwd).trusted

        whose = (session.store.session_id, session.forked_from)
        return LateHistory(state_dir, whose, self.environ.get("PATH"), may_warm)

    def _rule_keeper(self) -> RuleKeeper:
        folder = project_folder(self.cwd)
        paths = {"local": folder / "settings.local.json", "project": folder / "settings.json"}
        if self.paths.user_settings is not None:
            paths["user"] = self.paths.user_settings
        return RuleKeeper(paths, self.trust, self.cwd)

    def _launcher(self, policy: Policy, results_dir: Path | None) -> Launcher:
        """How commands are started; says so where no sandbox holds though one was wanted."""
        mode = self.settings.text("sandbox.mode") or "on"
        if mode == "off":
            return BareLauncher()
        from agentcli.permissions.sandbox.choose import Surroundings, choose

        cache_dir = self.paths.cache_dir
        temp_root = Path(self.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - a private folder is made in it
        around = Surroundings(environ=self.environ, temp_root=temp_root, cache_dir=cache_dir)
        chosen = choose(mode, self._sandbox_rules(policy, results_dir), around)
        if chosen.warning:
            self.notices.append(ev.NoticeRaised(text=chosen.warning, level="warning", code="sandbox"))
        return chosen.launcher

    def _sandbox_rules(self, policy: Policy, results_dir: Path | None) -> SandboxRules:
        from agentcli.permissions.sandbox.plan import SandboxRules

        home = Path(os.path.realpath(policy.home)) if policy.home else None
        hides = self._hides(policy)
        denied: Callable[[], tuple[Path, ...]] = tuple
        if hides is not None:
            from agentcli.permissions.sandbox.denied import DeniedFiles

            specs = [rule.spec for rule in policy.deny if rule.spec is not None and rule.tool in READING_TOOLS]
            denied = DeniedFiles(hides, specs, self.working_dirs, home)

        def paths(name: str) -> tuple[Path, ...]:
            given = self.settings.texts(f"sandbox.{name}")
            return tuple(Path(os.path.normpath(self.cwd / _at_home(text, home))) for text in given)

        return SandboxRules(
            working_dirs=self.working_dirs,
            home=home,
            network=self.settings.boolean("sandbox.network"),
            allow_write=paths("allowWrite"),
            allow_read=paths("allowRead"),
            deny_read=paths("denyRead"),
            own_folders=tuple(folder for folder in (self.paths.config_dir, self.paths.state_dir) if folder),
            readable=(results_dir,) if results_dir else (),
            denied_files=denied,
            excluded_commands=self.settings.texts("sandbox.excludedCommands"),
            cache_dir=self.paths.cache_dir / "sandbox" if self.paths.cache_dir else None,
        )

    def _hides(self, policy: Policy) -> Callable[[str], bool] | None:
        """What searches must not bring out; None when no rule hides anything, which is cheaper."""
        return partial(policy.hides, cwd=self.cwd, working_dirs=self.working_dirs) if policy.hides_anything else None

    def _rules(self, behavior: str) -> tuple[Rule, ...]:
        """The rules of the settings files. A text that is no rule is reported; if it was to restrict, all asks."""
        rules = []
        for texts, source in self.settings.each(f"permissions.{behavior}"):
            root = Path(source.label).parent if source.layer not in (Layer.FLAGS, Layer.ENVIRONMENT) else self.cwd
            if source.layer.in_repository:
                root = root.parent
            for text in texts:
                try:
                    rules.append(parse_rule(text, source.label, root))
                except UsageError as error:
                    self.notices.append(ev.NoticeRaised(text=str(error), level="warning", code="settings"))
                    self.rights_uncertain = self.rights_uncertain or behavior != "allow"
        return tuple(rules)

    # --------------------------------------------------------------------------------------------- model and bounds

    def _profile(self) -> Profile:
        options, settings = self.options, self.settings
        info = self.catalog.get(settings.text("model") or DEFAULT_MODEL)
        effort = self._effort(settings.text("effort"), info.id)
        mode = cast(ThinkingMode, settings.text("thinking") or "adaptive")
        budget = settings.integer("maxThinkingTokens")
        if budget == 0:
            mode = "disabled"
        elif budget is not None and settings.text("thinking") is None:
            mode = "enabled"
        return Profile(
            model=info.id,
            small_model=self.catalog.resolve(settings.text("smallModel") or SMALL_MODEL),
            fallback_models=tuple(self.catalog.resolve(name) for name in settings.texts("fallbackModels")),
            effort=effort,
            thinking=Thinking(mode, budget or None),
            output_cap=settings.integer("maxOutputTokens") or 8_192,
            context_window=settings.integer("contextWindow"),
            task_budget=options.task_budget,
            raw_events=options.raw_events,
        )

    def _effort(self, wanted: str | None, model: str) -> Effort | None:
        if wanted is None or wanted == "auto":
            return None
        effort, message = nearest_effort(self.catalog.get(model), cast(Effort, wanted))
        if message is not None:
            self.notices.append(ev.NoticeRaised(text=message, level="warning", code="effort"))
        return effort

    def _bounds(self, profile: Profile) -> Bounds:
        budget = self.settings.number("maxBudgetUsd")
        if budget is not None:
            for model in (profile.model, *profile.fallback_models):
                if self.catalog.get(model).price is None:
                    raise UsageError(
                        f"The price of {model} is not known, so a budget cannot be kept. Set it in the settings, "
                        f'{{"models": {{"{model}": {{"price": {{"input": 1, "output": 5}}}}}}}} (dollars per million '
                        "tokens), or leave --max-budget-usd out."
                    )
        return Bounds(self.settings.integer("maxTurns"), budget, self.options.token_budget)

    def _tuning(self) -> Tuning:
        settings = self.settings
        return Tuning(
            executor=BatchExecutor if settings.text("executor") == "batch" else StreamingExecutor,
            concurrency=settings.integer("maxToolConcurrency") or 10,
            tool_summaries=settings.boolean("toolSummaries"),
            auto_compact=settings.boolean("autoCompact"),
            auto_threshold=settings.number("autoCompactThreshold") or 0.9,
            reactive_compact=settings.boolean("reactiveCompact"),
        )

    def _provider(self) -> tuple[Provider, str]:
        """The provider and where its key came from."""
        if self.options.provider is not None:
            return self.options.provider, "caller"
        from agentcli.providers.provider import MessagesProvider
        from agentcli.providers.retry import Patience, RetryPolicy

        transport, key_source = self._transport()
        settings = self.settings
        policy, patience = RetryPolicy(), Patience()
        if (retries := settings.integer("maxRetries")) is not None:
            policy = replace(policy, max_retries=retries)
        if (idle := settings.number("streamIdleTimeout")) is not None:
            patience = replace(patience, idle_timeout=idle, quiet_after=min(patience.quiet_after, idle / 2))
        if (deadline := settings.number("requestDeadline")) is not None:
            patience = replace(patience, content_deadline=deadline)
        return MessagesProvider(transport, self.catalog, policy, patience, self.options.ids), key_source

    def _transport(self) -> tuple[Transport, str]:
        settings = self.settings
        kind = settings.text("provider") or "auto"
        platform = cast("Platform", settings.text("platform") or "anthropic")
        if kind == "scripted" or (kind == "auto" and self.environ.get(SCRIPT_VARIABLE)):
            return self._scripted(), "none"
        from agentcli.providers.credentials import Credentials, resolve_credentials

        if platform != "anthropic":
            from agentcli.providers.sdk import SdkTransport

            return SdkTransport(Credentials(""), platform), platform
        credentials = resolve_credentials(self.environ, settings.text("apiKeyHelper"), settings.text("baseUrl"))
        if kind == "sdk" or (kind == "auto" and self.options.interactive):
            from agentcli.providers.sdk import SdkTransport

            return SdkTransport(credentials), credentials.source
        from agentcli.providers.wire import WireTransport

        return WireTransport(credentials), credentials.source

    def _scripted(self) -> Transport:
        from agentcli.providers.script import Script
        from agentcli.providers.scripted import ScriptedTransport

        name = self.environ.get(SCRIPT_VARIABLE)
        if not name:
            raise UsageError(f"The scripted provider needs a script. Set {SCRIPT_VARIABLE} to its file.")
        return ScriptedTransport(Script.load(self.cwd / name))

    # ------------------------------------------------------------------------------------------ session and prompts

    def _session(self) -> _Session:
        options, state_dir = self.options, self.paths.state_dir
        new_id = options.session_id or options.ids.new()
        wants_old = options.resume is not None or options.continue_latest
        if not options.persist or state_dir is None:
            if wants_old and state_dir is None:
                raise UsageError("There is no folder with sessions. Set HOME or AGENTCLI_STATE_DIR.")
            if not wants_old:
                problem = None if not options.persist else "This session is not saved: there is no home folder."
                return _Session(NullStore(new_id, problem))
        assert state_dir is not None
        from agentcli.session.store import SessionStore

        workplace = Workplace(state_dir, self.cwd, options.clock, options.ids, __version__)
        if not wants_old:
            store = SessionStore.create(workplace, new_id)
            if options.name:
                store.set_title(options.name)
            return _Session(store)
        found = self._found_session(state_dir)
        try:
            return self._resumed(workplace, found, new_id)
        except OSError as error:
            raise AgentError(f"The session {found.stem} cannot be read: {error.strerror}.") from error

    def _resumed(self, workplace: Workplace, path: Path, new_id: str) -> _Session:
        from agentcli.session.load import load_session
        from agentcli.session.store import SessionStore

        options = self.options
        store: Store
        if not options.persist:
            loaded = load_session(path)
            store = NullStore(loaded.session_id)
        elif options.fork_session:
            store, loaded = SessionStore.fork(workplace, path, new_id)
        else:
            store, loaded = SessionStore.resume(workplace, path)
        if options.name:
            store.set_title(options.name)
        view = View()
        for redaction in loaded.redactions:
            view.repair(redaction.repair, redaction.through)
        forked_from = path.stem if options.persist and options.fork_session else ""
        return _Session(store, loaded.messages, view, loaded.system_context, forked_from)

    def _found_session(self, state_dir: Path) -> Path:
        from agentcli.session.find import find, latest

        if self.options.resume is None:
            newest = latest(state_dir, self.cwd)
            if newest is None:
                raise AgentError("There is no conversation to continue in this folder. Start one without --continue.")
            return newest.path
        matches = find(state_dir, self.cwd, self.options.resume)
        if not matches:
            raise AgentError(
                f"No conversation found with session ID: {self.options.resume}. See `agentcli sessions list`."
            )
        if len(matches) > 1:
            some = ", ".join(match.session_id for match in matches[:5])
            raise UsageError(f"{self.options.resume!r} fits several sessions: {some}. Give one id.")
        return matches[0].path

    def _system(self, session: _Session, launcher: Launcher) -> tuple[str, ...]:
        """A resumed session gets the system context it was recorded with: its prefix must not change."""
        context = session.system_context
        if context is None:
            uname = os.uname()
            platform = f"{uname.sysname} {uname.release} {uname.machine}"
            date = self.options.clock.timestamp()[:10]
            context = system_context(self.cwd, self.working_dirs, platform, date)
            if launcher.name != "none":
                context += f"\n{_SANDBOX_NOTE.format(level=launcher.level)}"
            session.store.set_system_context(context)
        return system_parts(self.settings.get("systemPrompt"), self.settings.get("appendSystemPrompt"), context)


@frozen
class _Session:
    store: Store
    log: Sequence[Message] = ()
    view: View = field(default_factory=View)
    system_context: str | None = None
    forked_from: str = ""


def _flag_values(options: Options) -> dict[str, tuple[str, Any]]:
    """What flags say, by setting, with the flag's name for its provenance."""
    given: dict[str, tuple[str, Any]] = {
        "model": ("--model", options.model),
        "fallbackModels": ("--fallback-model", list(options.fallback_models) or None),
        "effort": ("--effort", options.effort),
        "thinking": ("--thinking", options.thinking),
        "maxThinkingTokens": ("--max-thinking-tokens", options.max_thinking_tokens),
        "maxTurns": ("--max-turns", options.max_turns),
        "maxBudgetUsd": ("--max-budget-usd", options.max_budget_usd),
        "sandbox.mode": ("--sandbox", options.sandbox),
        "systemPrompt": ("--system-prompt", options.system_prompt),
        "appendSystemPrompt": ("--append-system-prompt", options.append_system_prompt),
    }
    return {name: value for name, value in given.items() if value[1] is not None}


def _at_home(text: str, home: Path | None) -> Path:
    return home / text[2:] if home is not None and text.startswith("~/") else Path(text)


def _folder(path: Path) -> Path:
    try:
        resolved = path.resolve(strict=True)
    except OSError as error:
        raise UsageError(f"There is no folder {path}: {error.strerror}.") from error
    if not resolved.is_dir():
        raise UsageError(f"{path} is not a folder.")
    return resolved
