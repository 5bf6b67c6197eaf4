"""The folders of the user's and the project's definitions, as trust allows them."""

from __future__ import annotations

from agentcli.assemble.environment import Environment
from agentcli.definitions.folders import DefinitionPlaces
from agentcli.definitions.library import Library


def definitions_for(env: Environment) -> Library:
    """Not read yet: `refresh` does that, after the first paint."""
    return Library(definition_places(env))


def definition_places(env: Environment) -> DefinitionPlaces:
    options, sources = env.options, env.options.setting_sources
    state = env.trust.state(env.cwd)
    uses_user = sources is None or "user" in sources
    uses_project = sources is None or "project" in sources
    return DefinitionPlaces(
        cwd=env.cwd,
        config_dir=env.paths.config_dir if uses_user else None,
        home=env.home if uses_user else None,
        trusted=uses_project and (options.trust or state.usable),
        trusted_digests=None if options.trust else state.digests(),
    )
