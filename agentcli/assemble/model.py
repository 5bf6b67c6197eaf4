"""The model and its limits, the credentials, and the provider that reaches it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from agentcli.agent.costs.cache_watch import Front
from agentcli.agent.profile import Bounds, Profile, Tuning
from agentcli.agent.toolcalls.calls import BatchExecutor, Executor
from agentcli.assemble.environment import Environment
from agentcli.core.errors import AgentError, CredentialError, UsageError
from agentcli.providers.base import Effort, Provider, Thinking, ThinkingMode
from agentcli.providers.body import MIN_THINKING_BUDGET, thinking_budget
from agentcli.providers.catalog import DEFAULT_MODEL, SMALL_MODEL, ModelInfo, nearest_effort, no_fast_mode

if TYPE_CHECKING:
    from agentcli.agent.plugins import SessionPlugins
    from agentcli.assemble.options import Options
    from agentcli.config.credentials import KeyStore
    from agentcli.providers.base import Connection, Transport
    from agentcli.providers.credentials import Credentials
    from agentcli.providers.listing import ContextWindows
    from agentcli.providers.transports.sdk import Platform

PROVIDERS = ("auto", "sdk", "wire", "scripted")
"""Built-in values of the setting `provider`; any other value is the name of a plugin's provider."""
SCRIPT_VARIABLE = "AGENTCLI_SCRIPT"
"""Environment variable with the file that the scripted provider plays."""


class ModelBuilder:
    def __init__(self, env: Environment, plugins: SessionPlugins | None = None) -> None:
        """`plugins`: those of the session; None: load them if the settings choose a plugin's provider."""
        self._env = env
        self._plugins = plugins

    def profile(self, last_model: str, last: Front | None = None) -> Profile:
        """The model and its parameters. `last_model`, `last`: of a resumed session's last request, whose model, effort,
        thinking and speed are used unless the settings say otherwise."""
        options, settings = self._env.options, self._env.settings
        info = self._env.catalog.get(self._check(settings.text("model") or last_model or DEFAULT_MODEL))
        last = last or Front("")
        effort = self._effort(settings.text("effort") or last.effort, info.id)
        return Profile(
            model=info.id,
            small_model=self._check(settings.text("smallModel") or small_model_for(info)),
            fallback_models=tuple(map(self._check, settings.texts("fallbackModels"))),
            effort=effort,
            thinking=self._choose_thinking(info, last.thinking),
            fast=self._fast(info, last.fast),
            advisor=self._advisor(info),
            output_cap=settings.integer("maxOutputTokens") or 8_192,
            context_window=settings.integer("contextWindow"),
            task_budget=options.task_budget,
            raw_events=options.raw_events,
        )

    def _check(self, model: str) -> str:
        """The id of a chosen model. Raises `UsageError`."""
        if problem := self._env.catalog.refusal(model):
            raise UsageError(problem)
        return self._env.catalog.resolve(model)

    def _choose_thinking(self, info: ModelInfo, last: Thinking) -> Thinking:
        chosen, budget = self._env.settings.text("thinking"), self._env.settings.integer("maxThinkingTokens")
        mode = cast(ThinkingMode, chosen or "adaptive")
        if budget == 0:
            mode = "disabled"
        elif budget is not None and chosen is None:
            mode = "enabled"
        self._warn_about_ignored_settings(info, mode, budget)
        return last if chosen is None and budget is None else Thinking(mode, budget or None)

    def _warn_about_ignored_settings(self, info: ModelInfo, mode: ThinkingMode, budget: int | None) -> None:
        if self._env.options.task_budget is not None and not info.task_budget:
            self._env.warn(f"{info.id} does not support a task budget; it is not sent.", "model")
        if self._env.settings.text("thinking") is None and budget is None:
            return
        if info.thinking and mode not in info.thinking:
            instead = "always thinks" if info.always_thinks else f"supports {' and '.join(info.thinking)}"
            self._env.warn(f"{info.id} does not support thinking {mode!r}; it {instead}.", "model")
        used = thinking_budget(Thinking(mode, budget), info)
        if budget and used and used != budget:
            why = f"the API accepts no less than {MIN_THINKING_BUDGET:,}"
            if used < budget:
                why = f"a reply of {info.id} has at most {info.max_output:,}, and the answer needs room"
            self._env.warn(f"The thinking budget is {used:,} tokens instead of {budget:,}: {why}.", "model")

    def _effort(self, wanted: str | None, model: str) -> Effort | None:
        if wanted is None or wanted == "auto":
            return None
        effort = cast(Effort, wanted)
        _supported, message = nearest_effort(self._env.catalog.get(model), effort)
        if message is not None:
            self._env.warn(message, "effort")
        return effort

    def _fast(self, info: ModelInfo, was_fast: bool) -> bool:
        wanted = self._env.settings.get("fastMode")
        if wanted and info.fast_price is None:
            problem = no_fast_mode(self._env.catalog, info)
            if self._env.options.fast:
                raise UsageError(f"--fast: {problem}")
            self._env.warn(f"{problem} Requests use the standard speed.", "model")
        return was_fast if wanted is None else bool(wanted)

    def _advisor(self, info: ModelInfo) -> str:
        wanted = self._env.settings.text("advisorModel")
        if not wanted:
            return ""
        advisor, platform = self._check(wanted), self._env.settings.text("platform") or "anthropic"
        if platform != "anthropic":
            self._env.warn(f"The advisor {advisor} is not used: {platform} does not have it.", "model")
            return ""
        if not info.known:
            self._env.warn(
                f"The advisor {advisor} is not offered to {info.id}, which is not in the catalogue.", "model"
            )
        return advisor

    def bounds(self, profile: Profile) -> Bounds:
        budget = self._env.settings.number("maxBudgetUsd")
        if budget is not None:
            for model in filter(None, (profile.model, *profile.fallback_models, profile.advisor)):
                if self._env.catalog.get(model).price is None:
                    raise UsageError(
                        f"Cannot apply a budget: the price of {model} is not known. Set it in the settings, "
                        f'{{"models": {{"{model}": {{"price": {{"input": 1, "output": 5}}}}}}}} (dollars per million '
                        "tokens), or omit --max-budget-usd."
                    )
        return Bounds(self._env.settings.integer("maxTurns"), budget, self._env.options.token_budget)

    def tuning(self) -> Tuning:
        settings, is_script = self._env.settings, self._is_scripted or self._env.options.provider is not None
        return Tuning(
            executor=BatchExecutor if settings.text("executor") == "batch" else Executor,
            concurrency=settings.integer("maxToolConcurrency") or 10,
            tool_summaries=settings.boolean("toolSummaries"),
            session_titles=settings.boolean("sessionTitles") and not is_script,
            otlp_endpoint=settings.text("otlpEndpoint") or "",
            session_retention_days=settings.integer("sessionRetentionDays") or 0,
            auto_compact=settings.boolean("autoCompact"),
            auto_threshold=settings.number("autoCompactThreshold") or 0.9,
            reactive_compact=settings.boolean("reactiveCompact"),
            compact_preview=settings.boolean("compactPreview"),
            wake_on_background=settings.boolean("wakeOnBackground"),
            confirm_cost_above=settings.number("confirmCostAbove") or 0.0,
        )

    def provider(self) -> tuple[Provider, str]:
        """The provider, and the source of its key."""
        provider, key_source, problem = self._provider()
        connection = self._env.options.connection
        if connection is None:
            return provider, key_source
        connection.use(provider, key_source, problem)
        return connection, key_source

    def _provider(self) -> tuple[Provider, str, str]:
        """Like `provider`; the third value explains why no model can be reached, else ""."""
        if self._env.options.provider is not None:
            return self._env.options.provider, "caller", ""
        if self._is_of_plugin:
            return self._late_provider(), "plugin", ""
        problem = ""
        try:
            transport, key_source, credentials = self._transport()
        except CredentialError as error:
            if self._env.options.key_needed:
                raise
            from agentcli.providers.base import NoTransport

            problem = str(error)
            transport, key_source, credentials = NoTransport(problem), "none", None
        return self._messages_provider(transport, credentials), key_source, problem

    def _messages_provider(self, transport: Transport, credentials: Credentials | None) -> Provider:
        from agentcli.providers.provider import MessagesProvider, RetryPolicy, Timeouts

        settings = self._env.settings
        policy, timeouts = RetryPolicy(), Timeouts()
        if (retries := settings.integer("maxRetries")) is not None:
            policy = replace(policy, max_retries=retries)
        if (idle := settings.number("streamIdleTimeout")) is not None:
            timeouts = replace(timeouts, idle_timeout=idle, quiet_after=min(timeouts.quiet_after, idle / 2))
        if (deadline := settings.number("requestDeadline")) is not None:
            timeouts = replace(timeouts, content_deadline=deadline)
        ids, windows = self._env.options.ids, self._windows(credentials)
        return MessagesProvider(transport, self._env.catalog, policy, timeouts, ids, windows=windows)

    @property
    def _is_of_plugin(self) -> bool:
        return (self._env.settings.text("provider") or "auto") not in PROVIDERS

    def _late_provider(self) -> Provider:
        """The provider that a plugin adds under the name in the settings; plugins load with the first request."""
        from agentcli.assemble.plugins import plugins_for
        from agentcli.providers.base import PluginProvider

        name = str(self._env.settings.text("provider"))
        plugins = self._plugins or plugins_for(self._env)
        unknown = f"There is no provider named {name}. Built in are {', '.join(PROVIDERS)}."
        if plugins is None:
            raise UsageError(f"{unknown} Plugins are off.")

        async def make() -> Provider:
            if not plugins.loaded:
                await plugins.refresh()
            owned = plugins.active.providers.get(name)
            if owned is None:
                raise AgentError(f"{unknown} No plugin adds it: see `agentcli plugins list`.")
            try:
                made = owned.part.factory()
            except Exception as error:
                plugins.fail(owned.source, f"the provider {name}", error)
                raise AgentError(f"The provider {name} failed: {type(error).__name__}: {error}") from error
            return made if hasattr(made, "stream") else self._messages_provider(made, None)

        return PluginProvider(name, make)

    def _windows(self, credentials: Credentials | None) -> ContextWindows | None:
        """Reader of context windows from the server; None if the `contextWindow` setting applies to all models."""
        if credentials is None or self._env.settings.integer("contextWindow") is not None:
            return None
        from agentcli.providers.listing import ContextWindows, look_up_at

        return ContextWindows(self._env.catalog, look_up_at(credentials))

    @property
    def needs_no_key(self) -> str:
        """Why no Anthropic key is needed; empty if one is."""
        settings = self._env.settings
        if self._is_scripted:
            return "the model is scripted"
        if self._is_of_plugin:
            return "a plugin reaches the model"
        platform = settings.text("platform") or "anthropic"
        return f"{platform} uses its own credentials" if platform != "anthropic" else ""

    def credentials(self) -> Credentials:
        """Address and key of requests. Raises `CredentialError` or `UsageError`; never prompts."""
        from agentcli.providers.credentials import normal_base_url, resolve_credentials, with_kept_key

        settings, chosen = self._env.settings, self._env.options.base_url
        kept = key_store(self._env).find
        if chosen is not None:
            return with_kept_key(normal_base_url(chosen), "chosen for this session", kept)
        helper, base_url = settings.text("apiKeyHelper"), settings.text("baseUrl")
        return resolve_credentials(self._env.environ, helper, base_url, kept, self._env.writable_dirs)

    def base_url(self) -> tuple[str, str]:
        """The address of requests and its source, whether or not there is a key."""
        from agentcli.providers.credentials import resolve_credentials

        # The key does not matter here: only the address is used.
        environ = {**self._env.environ, "ANTHROPIC_AUTH_TOKEN": "any"}
        found = resolve_credentials(environ, None, self._env.settings.text("baseUrl"))
        return found.base_url, found.base_url_source

    @property
    def _is_scripted(self) -> bool:
        kind = self._env.settings.text("provider") or "auto"
        return kind == "scripted" or (kind == "auto" and bool(self._env.environ.get(SCRIPT_VARIABLE)))

    def _transport(self) -> tuple[Transport, str, Credentials | None]:
        """The transport, the source of its key, and the credentials if agentcli holds them."""
        settings = self._env.settings
        platform = settings.text("platform") or "anthropic"
        if self._is_scripted:
            return self._load_script(), "none", None
        credentials = self.credentials() if platform == "anthropic" else None
        source = platform if credentials is None else credentials.source
        if credentials is None or settings.text("provider") == "sdk":
            from agentcli.providers.transports.sdk import SdkTransport

            return SdkTransport(cast("Platform", platform), credentials), source, credentials
        from agentcli.providers.transports.wire import WireTransport

        return WireTransport(credentials), source, credentials

    def _load_script(self) -> Transport:
        from agentcli.providers.script import Script, ScriptedTransport

        name = self._env.environ.get(SCRIPT_VARIABLE)
        if not name:
            raise UsageError(f"The scripted provider needs a script. Set {SCRIPT_VARIABLE} to its file.")
        return ScriptedTransport(Script.load(self._env.cwd / name))


def key_store(env: Environment) -> KeyStore:
    """The keys that `agentcli login` stores."""
    from agentcli.config.credentials import KeyStore

    return KeyStore(env.paths.state_dir)


def small_model_for(info: ModelInfo) -> str:
    """The model for side tasks. A model outside the catalog runs on another server, so it does them itself."""
    return SMALL_MODEL if info.known else info.id


def reconnect(options: Options, connection: Connection) -> None:
    """Resolve the credentials again and give `connection` a new provider. On `AgentError` nothing has changed."""
    ModelBuilder(Environment(replace(options, connection=connection))).provider()
