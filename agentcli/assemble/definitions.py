"""Definitions (commands, skills, agents, styles) of the user and, if trusted, of the project."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from agentcli.agent.attachments.skills import had_skill_tool
from agentcli.agent.costs.cache_watch import Front
from agentcli.assemble.environment import Environment
from agentcli.config.trust import trust_root
from agentcli.core.files.access import real_path
from agentcli.core.messages import Message
from agentcli.definitions.library import DefinitionPlaces, Library
from agentcli.sandbox.secrets import EMPTY, list_closed_at_home
from agentcli.tools.skill import NAME as SKILL


def definitions_for(env: Environment) -> Library:
    """The library of definitions, not read yet: `refresh` reads it, after the first paint."""
    return Library(definition_places(env))


class SessionSkills:
    """Skills as the assembly of a session needs them: whether there is a tool for them, and their folders."""

    def __init__(self, library: Library, log: Sequence[Message], front: Front | None = None) -> None:
        """`log` and `front` are those of a resumed session, which keeps the tools it began with."""
        self.library = library
        self._known: tuple[int, tuple[Path, ...]] = (-1, ())
        if any(folder.path.is_dir() for folder in library.places.folders("skills")):
            library.refresh()
        exist = any(skill.for_model for skill in library.skills.values())
        # A session whose skills are all denied has the tool, but no list of them in its log.
        sent = front is not None and any(name == SKILL for name, _digest in front.tools)
        self.has_tool = sent or had_skill_tool(log) if log else exist

    def folders(self) -> tuple[Path, ...]:
        """Resolved folders of all skills, without project skills whose link leads out of the project."""
        if self._known[0] != self.library.version:
            self._known = (self.library.version, tuple(self._find_folders()))
        return self._known[1]

    def roots(self) -> tuple[Path, ...]:
        """The user's folders of skills that exist, for the sandbox. Commands can read those of a project anyway, unless
        they are links, and those are not followed."""
        folders = self.library.places.folders("skills")
        return tuple(one.path for one in folders if one.scope != "project" and one.path.is_dir())

    def _find_folders(self) -> Iterator[Path]:
        root = real_path(trust_root(self.library.places.cwd))
        for skill in self.library.skills.values():
            folder = Path(real_path(skill.folder))
            if skill.origin.scope != "project" or folder.is_relative_to(root):
                yield folder


def definition_places(env: Environment) -> DefinitionPlaces:
    options, sources = env.options, env.options.setting_sources
    state = env.trust_state
    home = None if env.home is None else real_path(env.home)
    uses_user = sources is None or "user" in sources
    uses_project = sources is None or "project" in sources
    return DefinitionPlaces(
        cwd=env.cwd,
        config_dir=env.paths.config_dir if uses_user else None,
        home=env.home if uses_user else None,
        trusted=uses_project and (options.trust or state.usable),
        trusted_digests=None if options.trust else state.digests(),
        masked=()
        if home is None
        else (*list_closed_at_home(home, env.working_dirs), *(f"{home}/{name}" for name in EMPTY)),
    )
