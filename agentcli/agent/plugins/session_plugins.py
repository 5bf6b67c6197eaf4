"""The plugins of a session: loaded before the first request, reloaded when a file changes, reported to the user.

Loading happens in a thread. The active parts are replaced as a whole between two events of the loop; tools change only
when a submission begins (`ConversationState.use_plugins`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentcli.agent.plugins.active_parts import ActiveParts, combine
from agentcli.core.aio import in_thread
from agentcli.core.events import NoticeRaised
from agentcli.core.text.plaintext import plain_line
from agentcli.plugins.collection import LoadedPlugin, PluginCollection
from agentcli.plugins.loader import PluginProblem, problem_of
from agentcli.plugins.places import PluginSource

CODE = "plugins"
"""The `code` of its notices."""


class SessionPlugins:
    def __init__(
        self,
        collection: PluginCollection,
        reserved: Collection[str] = (),
        check_tools: Callable[[Iterable[str]], Iterable[str]] = lambda _names: (),
    ) -> None:
        """`reserved`: names of the tools that do not come from plugins. `check_tools`: returns warnings about the rest
        of the setup, given the names of the plugins' tools; called once, after the first load."""
        self.collection = collection
        self.active = ActiveParts()
        self.on_change: Callable[[], None] = lambda: None
        """Called after each `refresh`; a front end sets it to use themes of plugins."""
        self.is_answering: Callable[[], bool] = lambda: False
        """Whether a prompt is answered, with the tools and hooks that it began with."""
        self._reserved = reserved
        self._check_tools = check_tools
        self._notices: list[NoticeRaised] = []
        self._reported: set[str] = set()
        self._news = asyncio.Event()

    @property
    def loaded(self) -> bool:
        return self.collection.loaded

    @property
    def plugins(self) -> tuple[LoadedPlugin, ...]:
        return self.collection.plugins

    def themes(self) -> dict[str, Mapping[str, Any] | Path]:
        """Themes of plugins by name: their values, or their files."""
        parts = {name: owned.part for name, owned in self.active.themes.items()}
        return {name: part.path if part.path is not None else part.values for name, part in parts.items()}

    def is_stale(self) -> bool:
        """Whether `refresh` has something to load. Costs a stat per file."""
        return self.collection.is_stale()

    async def refresh(self) -> list[LoadedPlugin]:
        """Load what is new or changed, in a thread; returns the plugins that changed."""
        try:
            return await in_thread(self._load)
        finally:
            # Also when cancelled: the thread has ended by then, and what it loaded is active.
            self._news.set()
            self.on_change()

    def _load(self) -> list[LoadedPlugin]:
        first = not self.loaded
        changed, problems = self.collection.refresh()
        self.active = combine(self.plugins, self._reserved)
        for problem in (*problems, *self.active.conflicts):
            self._report(f"Plugin problem: {problem}", CODE)
        for plugin in () if first else changed:
            self._notices.append(NoticeRaised(text=self._change_text(plugin), code=CODE))
        for text in self._check_tools([tool.name for tool in self.active.tools]) if first else ():
            self._report(text, "rules")
        return changed

    def _change_text(self, plugin: LoadedPlugin) -> str:
        name = plain_line(plugin.source.name, 60)
        later = ""
        if self.is_answering():
            later = " The running prompt continues with the earlier version; the next one uses the new version."
        if plugin not in self.plugins or plugin.plugin is None:
            return f"Plugin {name} was removed.{later and ' The running prompt still uses it, the next one does not.'}"
        parts = ", ".join(plugin.plugin.parts.summary()) or "it adds nothing"
        return plain_line(f"Plugin {name} loaded: {parts}.", 300) + later

    def fail(self, source: PluginSource, what: str, error: BaseException) -> None:
        """Report that a plugin's function failed while it was used; once for each place and error."""
        self.collection.loading.log.add(f"{source.label}: {what}", error)
        problem = problem_of(source, error)
        located = PluginProblem(problem.label, problem.line, f"{what} failed: {problem.text}")
        self._report(f"Plugin problem: {located}", CODE)
        self._news.set()

    def _report(self, text: str, code: str) -> None:
        """Warn the user, once for each text."""
        if text not in self._reported:
            self._reported.add(text)
            self._notices.append(NoticeRaised(text=text, level="warning", code=code))

    def take_notices(self) -> list[NoticeRaised]:
        """Notices for the user, each once."""
        notices, self._notices = self._notices, []
        return notices

    async def wait_for_notices(self) -> Sequence[NoticeRaised]:
        """Wait for notices, for interactive sessions; cancel it."""
        while not (notices := self.take_notices()):
            self._news.clear()
            await self._news.wait()
        return notices
