"""What the agent may do: its tools, the rules that decide about them, and how commands are started."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.assemble.ground import Ground
from agentcli.assemble.model import key_store
from agentcli.config.paths import project_folder
from agentcli.config.save import RuleKeeper
from agentcli.config.settings import Layer
from agentcli.core.errors import UsageError
from agentcli.core.frozen import frozen
from agentcli.core.launch import BareLauncher, Launcher
from agentcli.core.permission import PermissionMode
from agentcli.permissions.commands import runs_beside_others
from agentcli.permissions.policy import Policy
from agentcli.permissions.rules import READING_TOOLS, Rule, parse_rule, parse_rules
from agentcli.tools.base import ToolContext
from agentcli.tools.registry import Registry, builtin_tools

if TYPE_CHECKING:
    from agentcli.permissions.sandbox.plan import SandboxRules

STRUCTURED_OUTPUT = "StructuredOutput"


@frozen
class Rights:
    """What decides about calls, without a model and a session."""

    policy: Policy
    registry: Registry
    context: ToolContext
    notices: tuple[str, ...] = ()


class RightsParts:
    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._uncertain = ground.settings.rights_uncertain
        """A file that may forbid something could not be used: then everything asks."""

    def registry(self) -> Registry:
        options = self._ground.options
        registry = Registry(builtin_tools(runs_beside_others))
        if options.tools is not None:
            registry = registry.selected(options.tools)
        extra = list(options.extra_tools)
        if options.json_schema is not None:
            from agentcli.tools.structured import StructuredOutput

            extra.append(StructuredOutput(options.json_schema))
        return registry.adding(extra)

    def policy(self, registry: Registry) -> Policy:
        options, settings = self._ground.options, self._ground.settings
        mode = options.permission_mode or PermissionMode(settings.text("permissions.defaultMode") or "default")
        policy = Policy(
            mode=mode,
            allow=(*parse_rules(options.allowed_tools, "--allowedTools"), *self._rules("allow")),
            ask=self._rules("ask"),
            deny=(*parse_rules(options.disallowed_tools, "--disallowedTools"), *self._rules("deny")),
            home=self._ground.home,
            search_path=self._ground.environ.get("PATH", ""),
            temp=self._temp_root() if self._sandbox_mode() != "off" or self._ground.environ.get("TMPDIR") else None,
            trusted=self._ground.is_trusted(),
        )
        if options.json_schema is not None:
            policy = policy.with_allowed([STRUCTURED_OUTPUT], "--json-schema")
        if self._uncertain:
            # A file that may forbid something could not be used; its absence must not widen rights.
            source = "settings that could not be read"
            policy = policy.with_rules(ask=parse_rules(registry.names, source))
        return policy

    @property
    def keys_file(self) -> Path | None:
        return key_store(self._ground).path

    def keeping_keys(self, policy: Policy) -> Policy:
        """With the file of kept keys denied to the agent in every mode. Commands in a sandbox do not see it anyway."""
        if self.keys_file is None:
            return policy
        rules = [f"{tool}(/{Path(os.path.realpath(self.keys_file))})" for tool in ("Read", "Edit")]
        return policy.with_rules(deny=parse_rules(rules, "agentcli itself"))

    def rule_keeper(self) -> RuleKeeper:
        folder = project_folder(self._ground.cwd)
        paths = {"local": folder / "settings.local.json", "project": folder / "settings.json"}
        if self._ground.paths.user_settings is not None:
            paths["user"] = self._ground.paths.user_settings
        return RuleKeeper(paths, self._ground.trust, self._ground.cwd)

    def launcher(self, policy: Policy, readable: tuple[Path, ...] = ()) -> Launcher:
        """How commands are started; says so where no sandbox holds though one was wanted. `readable`: folders with
        tool output, which commands may read though they are among our own."""
        mode = self._sandbox_mode()
        if mode == "off":
            return BareLauncher()
        from agentcli.permissions.sandbox.choose import Surroundings, choose

        cache_dir = self._ground.paths.cache_dir
        around = Surroundings(environ=self._ground.environ, temp_root=self._temp_root(), cache_dir=cache_dir)
        chosen = choose(mode, self._sandbox_rules(policy, readable), around)
        if chosen.warning:
            self._ground.warn(chosen.warning, "sandbox")
        return chosen.launcher

    def _sandbox_mode(self) -> str:
        return self._ground.settings.text("sandbox.mode") or "on"

    def _temp_root(self) -> Path:
        return Path(self._ground.environ.get("TMPDIR") or tempfile.gettempdir())

    def _sandbox_rules(self, policy: Policy, readable: tuple[Path, ...]) -> SandboxRules:
        from agentcli.permissions.sandbox.denied import DeniedFiles
        from agentcli.permissions.sandbox.plan import SandboxRules

        home = Path(os.path.realpath(policy.home)) if policy.home else None
        hides = self._hidden_by_rules(policy)
        specs = [rule.spec for rule in policy.deny if rule.spec is not None and rule.tool in READING_TOOLS]

        def paths(name: str) -> tuple[Path, ...]:
            given = self._ground.settings.texts(f"sandbox.{name}")
            return tuple(Path(os.path.normpath(self._ground.cwd / _at_home(text, home))) for text in given)

        return SandboxRules(
            working_dirs=self._ground.working_dirs,
            home=home,
            network=self._ground.settings.boolean("sandbox.network"),
            allow_write=paths("allowWrite"),
            allow_read=paths("allowRead"),
            deny_read=paths("denyRead"),
            own_folders=tuple(
                folder for folder in (self._ground.paths.config_dir, self._ground.paths.state_dir) if folder
            ),
            readable=readable,
            denied_files=DeniedFiles(hides, specs, self._ground.working_dirs, home) if hides else lambda: (),
            excluded_commands=self._ground.settings.texts("sandbox.excludedCommands"),
            cache_dir=self._ground.paths.cache_dir / "sandbox" if self._ground.paths.cache_dir else None,
        )

    def hides(self, policy: Policy) -> Callable[[str], bool] | None:
        """What searches must not bring out, wherever they look; None when there is nothing."""
        by_rules = self._hidden_by_rules(policy)
        if by_rules is not None or self.keys_file is None:
            return by_rules
        name, keys = self.keys_file.name, os.path.realpath(self.keys_file)
        # By its name first: most files are asked about only to hear no, and links are slow to follow.
        return lambda path: path.endswith(name) and os.path.realpath(path) == keys

    def _hidden_by_rules(self, policy: Policy) -> Callable[[str], bool] | None:
        """None when no rule hides anything, and no key lies where a command in a sandbox would see it."""
        beside = self.keys_file is not None and any(map(self.keys_file.is_relative_to, self._ground.working_dirs))
        if not beside and not policy.hides_anything:
            return None
        return partial(self.keeping_keys(policy).hides, cwd=self._ground.cwd, working_dirs=self._ground.working_dirs)

    def _rules(self, behavior: str) -> tuple[Rule, ...]:
        """The rules of the settings files. A text that is no rule is reported; if it was to restrict, all asks."""
        rules = []
        for texts, source in self._ground.settings.each(f"permissions.{behavior}"):
            root = (
                Path(source.label).parent if source.layer not in (Layer.FLAGS, Layer.ENVIRONMENT) else self._ground.cwd
            )
            if source.layer.in_repository:
                root = root.parent
            for text in texts:
                try:
                    rules.append(parse_rule(text, source.label, root))
                except UsageError as error:
                    self._ground.warn(str(error), "settings")
                    self._uncertain = self._uncertain or behavior != "allow"
        return tuple(rules)


def _at_home(text: str, home: Path | None) -> Path:
    return home / text[2:] if home is not None and text.startswith("~/") else Path(text)
