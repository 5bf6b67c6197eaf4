"""The environment of an engine: folders, settings, environment variables, trust and start-up notices."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

from agentcli.assemble.options import Options, flag_values
from agentcli.config.files import SettingsDocument
from agentcli.config.paths import Paths
from agentcli.config.schema import BY_NAME
from agentcli.config.settings import SettingsRequest, load_settings
from agentcli.config.trust import TrustStore, trust_root
from agentcli.core import events as ev
from agentcli.core.errors import UsageError
from agentcli.core.files.access import real_path
from agentcli.core.messages import Json
from agentcli.core.processes.own_programs import folders_named
from agentcli.providers.catalog import Catalog
from agentcli.session.base import unique_project_key


class Environment:
    """Read once per engine. The builders append to `notices` and change nothing else."""

    def __init__(self, options: Options, documents: dict[Path, SettingsDocument] | None = None) -> None:
        """`documents`: as in `SettingsRequest`, of an earlier environment of the same session."""
        self.options = options
        self.documents = {} if documents is None else documents
        self.cwd = _folder(options.cwd or Path.cwd())
        given = os.environ if options.environ is None else options.environ
        self.paths = Paths.from_environ(given)
        home = given.get("HOME")
        self.home = Path(home) if home else None
        self.trust = TrustStore.of(given)
        state = self.trust_state = self.trust.state(self.cwd)
        """Trust at the time when the settings were read; `is_trusted` checks again."""
        self.settings = load_settings(
            SettingsRequest(
                paths=self.paths,
                cwd=self.cwd,
                environ=given,
                flag_text=options.settings,
                flag_values=flag_values(options),
                sources=options.setting_sources,
                trusted=options.trust or state.usable,
                trusted_digests=None if options.trust else state.digests(),
                documents=self.documents,
            )
        )
        self.environ = {**given, **self.settings.mapping("env")}
        self.catalog = Catalog(self.settings.mapping("models"))
        self.notices = [
            ev.NoticeRaised(text=p.text, level="warning" if p.level == "warning" else "info", code="settings")
            for p in self.settings.problems
        ]
        further = (*options.add_dirs, *map(Path, self.settings.texts("permissions.additionalDirectories")))
        self.working_dirs = tuple(dict.fromkeys((self.cwd, *(_folder(self.cwd / path) for path in further))))

    def is_trusted(self) -> bool:
        return self.options.trust or self.trust.state(self.cwd).trusted

    @property
    def writable_dirs(self) -> tuple[Path, ...]:
        """Folders to which tools and sandboxed commands may write. agentcli never starts programs from there."""
        return (*self.working_dirs, *folders_named(self.settings.texts("sandbox.allowWrite"), self.cwd, self.home))

    @cached_property
    def memory_dir(self) -> Path | None:
        """The folder of this project's memory notes; None if memory is off or cannot be stored or used."""
        tools = self.options.tools
        is_usable = tools is None or {"Read", "Write"} <= set(tools)
        if self.paths.state_dir is None or not is_usable or self.settings.get("systemPrompt") == "":
            return None
        return memory_folder(self.paths.state_dir, self.cwd) if self.settings.boolean("memory") else None

    def show_path(self, label: str) -> str:
        """A path relative to the project or, with `~/`, to the home folder."""
        for folder, prefix in ((trust_root(self.cwd), ""), (self.home, "~/")):
            if folder is not None and label.startswith(f"{folder}/"):
                return f"{prefix}{label.removeprefix(f'{folder}/')}"
        return label

    def warn(self, text: str, code: str) -> None:
        self.notices.append(ev.NoticeRaised(text=text, level="warning", code=code))


_RECORDED = (
    *("model", "smallModel", "fallbackModels", "effort", "thinking", "maxThinkingTokens", "fastMode", "advisorModel"),
    *("maxOutputTokens", "contextWindow", "maxTurns", "maxBudgetUsd", "executor", "maxToolConcurrency", "systemPrompt"),
    *("appendSystemPrompt", "memory", "instructionFiles", "autoCompact", "autoCompactThreshold", "reactiveCompact"),
    *("confirmCostAbove", "models"),
    *(name for name in BY_NAME if name.startswith("context.")),
)


def settings_to_record(env: Environment) -> Json:
    """What a replay needs to send the same requests: options, and the settings that differ from their defaults."""
    options, settings = env.options, env.settings
    chosen = {name: settings.get(name) for name in _RECORDED if settings.get(name) != BY_NAME[name].default}
    given = {
        "interactive": options.interactive,
        "token_budget": options.token_budget,
        "task_budget": options.task_budget,
        "json_schema": options.json_schema,
        "raw_events": options.raw_events,
    }
    return {"settings": chosen, **{name: value for name, value in given.items() if value}}


def memory_folder(state_dir: Path, cwd: Path) -> Path:
    """The memory folder of a repository, or of a folder outside any repository."""
    return Path(real_path(state_dir), "memory", unique_project_key(trust_root(cwd)))


def _folder(path: Path) -> Path:
    try:
        resolved = path.resolve(strict=True)
    except OSError as error:
        raise UsageError(f"Cannot use the folder {path}: {error.strerror}.") from error
    if not resolved.is_dir():
        raise UsageError(f"{path} is not a folder.")
    return resolved
