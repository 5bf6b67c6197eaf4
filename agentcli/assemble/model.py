"""Who answers, how hard it works and within which bounds, and the way to it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from agentcli.agent.profile import Bounds, Profile, Tuning
from agentcli.agent.toolcalls.executor import BatchExecutor, Executor
from agentcli.assemble.ground import Ground
from agentcli.core.errors import CredentialError, UsageError
from agentcli.providers.base import Effort, Provider, Thinking, ThinkingMode
from agentcli.providers.catalog import DEFAULT_MODEL, SMALL_MODEL, ModelInfo, nearest_effort

if TYPE_CHECKING:
    from agentcli.assemble.options import Options
    from agentcli.config.credentials import KeyStore
    from agentcli.providers.connection import Connection
    from agentcli.providers.credentials import Credentials
    from agentcli.providers.sdk import Platform
    from agentcli.providers.transport import Transport
    from agentcli.providers.windows import Windows

SCRIPT_VARIABLE = "AGENTCLI_SCRIPT"
"""The file that the scripted provider plays."""


class ModelParts:
    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    def profile(self, last_model: str) -> Profile:
        """`last_model`: the one that a resumed session was held with; it goes on unless another is asked for."""
        options, settings = self._ground.options, self._ground.settings
        info = self._ground.catalog.get(settings.text("model") or last_model or DEFAULT_MODEL)
        effort = self._effort(settings.text("effort"), info.id)
        mode = cast(ThinkingMode, settings.text("thinking") or "adaptive")
        budget = settings.integer("maxThinkingTokens")
        if budget == 0:
            mode = "disabled"
        elif budget is not None and settings.text("thinking") is None:
            mode = "enabled"
        self._say_what_the_model_ignores(info, mode, budget)
        return Profile(
            model=info.id,
            small_model=self._ground.catalog.resolve(settings.text("smallModel") or small_model_beside(info)),
            fallback_models=tuple(self._ground.catalog.resolve(name) for name in settings.texts("fallbackModels")),
            effort=effort,
            thinking=Thinking(mode, budget or None),
            output_cap=settings.integer("maxOutputTokens") or 8_192,
            context_window=settings.integer("contextWindow"),
            task_budget=options.task_budget,
            raw_events=options.raw_events,
        )

    def _say_what_the_model_ignores(self, info: ModelInfo, mode: ThinkingMode, budget: int | None) -> None:
        if self._ground.options.task_budget is not None and not info.task_budget:
            self._ground.warn(f"{info.id} takes no task budget; it is left out.", "model")
        if self._ground.settings.text("thinking") is None and budget is None:
            return
        if info.thinking and mode not in info.thinking:
            instead = "always thinks as it sees fit" if info.always_thinks else f"knows {' and '.join(info.thinking)}"
            self._ground.warn(f"{info.id} does not know thinking {mode!r}; it {instead}.", "model")

    def _effort(self, wanted: str | None, model: str) -> Effort | None:
        if wanted is None or wanted == "auto":
            return None
        effort, message = nearest_effort(self._ground.catalog.get(model), cast(Effort, wanted))
        if message is not None:
            self._ground.warn(message, "effort")
        return effort

    def bounds(self, profile: Profile) -> Bounds:
        budget = self._ground.settings.number("maxBudgetUsd")
        if budget is not None:
            for model in (profile.model, *profile.fallback_models):
                if self._ground.catalog.get(model).price is None:
                    raise UsageError(
                        f"The price of {model} is not known, so a budget cannot be kept. Set it in the settings, "
                        f'{{"models": {{"{model}": {{"price": {{"input": 1, "output": 5}}}}}}}} (dollars per million '
                        "tokens), or leave --max-budget-usd out."
                    )
        return Bounds(self._ground.settings.integer("maxTurns"), budget, self._ground.options.token_budget)

    def tuning(self) -> Tuning:
        settings = self._ground.settings
        return Tuning(
            executor=BatchExecutor if settings.text("executor") == "batch" else Executor,
            concurrency=settings.integer("maxToolConcurrency") or 10,
            tool_summaries=settings.boolean("toolSummaries"),
            auto_compact=settings.boolean("autoCompact"),
            auto_threshold=settings.number("autoCompactThreshold") or 0.9,
            reactive_compact=settings.boolean("reactiveCompact"),
            compact_preview=settings.boolean("compactPreview"),
            confirm_cost_above=settings.number("confirmCostAbove") or 0.0,
        )

    def provider(self) -> tuple[Provider, str]:
        """The provider and where its key came from."""
        provider, key_source, problem = self._provider()
        connection = self._ground.options.connection
        if connection is None:
            return provider, key_source
        connection.use(provider, key_source, problem)
        return connection, key_source

    def _provider(self) -> tuple[Provider, str, str]:
        """Also why there is none that could answer, if so."""
        if self._ground.options.provider is not None:
            return self._ground.options.provider, "caller", ""
        from agentcli.providers.provider import MessagesProvider
        from agentcli.providers.retry import Patience, RetryPolicy

        problem = ""
        try:
            transport, key_source, credentials = self._transport()
        except CredentialError as error:
            if self._ground.options.key_needed:
                raise
            from agentcli.providers.transport import NoTransport

            problem = str(error)
            transport, key_source, credentials = NoTransport(problem), "none", None
        settings = self._ground.settings
        policy, patience = RetryPolicy(), Patience()
        if (retries := settings.integer("maxRetries")) is not None:
            policy = replace(policy, max_retries=retries)
        if (idle := settings.number("streamIdleTimeout")) is not None:
            patience = replace(patience, idle_timeout=idle, quiet_after=min(patience.quiet_after, idle / 2))
        if (deadline := settings.number("requestDeadline")) is not None:
            patience = replace(patience, content_deadline=deadline)
        ids, windows = self._ground.options.ids, self._windows(credentials)
        provider = MessagesProvider(transport, self._ground.catalog, policy, patience, ids, windows=windows)
        return provider, key_source, problem

    def _windows(self, credentials: Credentials | None) -> Windows | None:
        """Where windows can be asked for, unless the person has set one for all models."""
        if credentials is None or self._ground.settings.integer("contextWindow") is not None:
            return None
        from agentcli.providers.windows import Windows, listing_at

        return Windows(self._ground.catalog, listing_at(credentials))

    @property
    def needs_no_key(self) -> str:
        """Why no key of ours is needed, in words; empty when one is."""
        settings = self._ground.settings
        if self._is_scripted:
            return "the scripted model answers"
        platform = settings.text("platform") or "anthropic"
        return f"{platform} has credentials of its own" if platform != "anthropic" else ""

    def credentials(self) -> Credentials:
        """Where requests go and with which key. Raises `CredentialError`, `UsageError`; asks nobody."""
        from agentcli.providers.credentials import normal_base_url, resolve_credentials, with_kept_key

        settings, chosen = self._ground.settings, self._ground.options.base_url
        kept = key_store(self._ground).find
        if chosen is not None:
            return with_kept_key(normal_base_url(chosen), "chosen for this session", kept)
        helper, base_url = settings.text("apiKeyHelper"), settings.text("baseUrl")
        return resolve_credentials(self._ground.environ, helper, base_url, kept, self._ground.writable_dirs)

    def base_url(self) -> tuple[str, str]:
        """Where requests would go, with a key or without one, and what says so."""
        from agentcli.providers.credentials import resolve_credentials

        # With any key at all, only the address is worked out.
        environ = {**self._ground.environ, "ANTHROPIC_AUTH_TOKEN": "any"}
        found = resolve_credentials(environ, None, self._ground.settings.text("baseUrl"))
        return found.base_url, found.base_url_source

    @property
    def _is_scripted(self) -> bool:
        kind = self._ground.settings.text("provider") or "auto"
        return kind == "scripted" or (kind == "auto" and bool(self._ground.environ.get(SCRIPT_VARIABLE)))

    def _transport(self) -> tuple[Transport, str, Credentials | None]:
        """Also where its key comes from, and the address and key that are ours to use."""
        settings = self._ground.settings
        kind = settings.text("provider") or "auto"
        platform = cast("Platform", settings.text("platform") or "anthropic")
        if self._is_scripted:
            return self._scripted(), "none", None
        if platform != "anthropic":
            from agentcli.providers.credentials import Credentials
            from agentcli.providers.sdk import SdkTransport

            return SdkTransport(Credentials(""), platform), platform, None
        credentials = self.credentials()
        if kind == "sdk" or (kind == "auto" and self._ground.options.interactive):
            from agentcli.providers.sdk import SdkTransport

            return SdkTransport(credentials), credentials.source, credentials
        from agentcli.providers.wire import WireTransport

        return WireTransport(credentials), credentials.source, credentials

    def _scripted(self) -> Transport:
        from agentcli.providers.script import Script
        from agentcli.providers.scripted import ScriptedTransport

        name = self._ground.environ.get(SCRIPT_VARIABLE)
        if not name:
            raise UsageError(f"The scripted provider needs a script. Set {SCRIPT_VARIABLE} to its file.")
        return ScriptedTransport(Script.load(self._ground.cwd / name))


def key_store(ground: Ground) -> KeyStore:
    """The keys that `agentcli login` keeps."""
    from agentcli.config.credentials import KeyStore

    return KeyStore(ground.paths.state_dir)


def small_model_beside(info: ModelInfo) -> str:
    """A model that is not in the list runs on a server of one's own, which has none of ours for side jobs."""
    return SMALL_MODEL if info.known else info.id


def reconnect(options: Options, connection: Connection) -> None:
    """Find credentials and the way to the model anew, as an engine with these options would. Raises `AgentError`, and
    nothing has changed then."""
    ModelParts(Ground(replace(options, connection=connection))).provider()
