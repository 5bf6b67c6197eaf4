"""The Python plugins of a session and their folders, as settings and trust allow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from agentcli.agent.plugins import SessionPlugins, check_plugin
from agentcli.assemble.environment import Environment
from agentcli.plugins.collection import PluginCollection, PluginPlaces
from agentcli.plugins.loader import Loading, TracebackLog, has_entry_points

LOG_NAME = "plugins.log"
"""Name of the log in the state folder."""


def plugins_for(
    env: Environment,
    reserved: Collection[str] = (),
    check_tools: Callable[[Iterable[str]], Iterable[str]] = lambda _names: (),
) -> SessionPlugins | None:
    """The plugins, not loaded yet: `refresh` loads them, after the first paint. None if plugins are off. `reserved`:
    names of the other tools. `check_tools`: as in `SessionPlugins`."""
    if not env.settings.boolean("plugins"):
        return None
    if env.settings.rights_uncertain:
        # The settings file that could not be read may switch plugins off, or deny their tools.
        env.warn("Plugins are off because a settings file could not be read.", "plugins")
        return None
    state_dir = env.paths.state_dir
    log = TracebackLog(state_dir / LOG_NAME if state_dir is not None and env.options.persist else None)
    loading = Loading(check_plugin, log=log)
    return SessionPlugins(PluginCollection(plugin_places(env), loading), reserved, check_tools)


def may_have_plugins(env: Environment) -> bool:
    """Whether there is a plugin to load, judging by the folders and the installed packages."""
    if not env.settings.boolean("plugins"):
        return False
    places = plugin_places(env)
    return bool(places.files()) or (places.packages and has_entry_points())


def plugin_places(env: Environment) -> PluginPlaces:
    options, sources = env.options, env.options.setting_sources
    uses_user = sources is None or "user" in sources

    def read_trusted_digests() -> Mapping[str, str] | None:
        if options.trust:
            return None
        state = env.trust.state(env.cwd)
        # Not `usable`: that includes files saved through agentcli, which are rules, never code.
        return state.digests() if state.trusted else {}

    return PluginPlaces(
        cwd=env.cwd,
        config_dir=env.paths.config_dir if uses_user else None,
        home=env.home,
        uses_project=sources is None or "project" in sources,
        trusted_digests=read_trusted_digests,
        trust_file=None if env.paths.state_dir is None else Path(env.paths.state_dir, "trust.json"),
        packages=uses_user,
    )
