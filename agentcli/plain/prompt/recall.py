"""Adapt the history and the completions to prompt_toolkit."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History as ToolkitHistory

from agentcli.core.processes.shell import shown_command
from agentcli.interactive.completion.server_completions import LateArguments, no_late_arguments
from agentcli.interactive.completion.sources import ArgumentSource, CommandSource, FileSource, all_files
from agentcli.interactive.completion.targets import Menu, argument_menu, command_menu, file_menu, target_at
from agentcli.interactive.drafts.draft import Draft
from agentcli.interactive.drafts.history import History

_MOST_FILES = 20
_SEARCH_SECONDS = 0.5
"""Time limit of a file search; after it the best matches so far are offered."""


class SharedHistory(ToolkitHistory):
    """The prompt history, in the same file as the app's."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    def load_history_strings(self) -> Iterable[str]:
        return [draft.expanded() for draft in reversed(self._history.entries)]

    def store_string(self, string: str) -> None:
        self._history.add(Draft(string))


class PromptCompleter(Completer):
    """Completes commands after a slash, their arguments, and files after an @."""

    def __init__(
        self,
        files: FileSource,
        commands: CommandSource,
        choices: ArgumentSource,
        late: LateArguments = no_late_arguments,
    ) -> None:
        self._files = files
        self._commands = commands
        self._choices = choices
        self._late = late

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Unused: the file search needs the event loop."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        column = document.cursor_position_col
        target = target_at(document.current_line, column, first_line=document.cursor_position_row == 0)
        menu: Menu | None = None
        if target is None:
            return
        if target.kind == "file":
            self._files.begin()
            menu = file_menu(target, await all_files(self._files, target.query, _MOST_FILES, _SEARCH_SECONDS))
        elif target.kind == "command":
            menu = command_menu(target, self._commands)
        else:
            values = await self._late(target.command, target.query)
            menu = argument_menu(target, self._commands, lambda name: [*self._choices(name), *values])
        for candidate in menu.candidates if menu is not None else ():
            yield Completion(
                candidate.insert,
                start_position=target.start - column,
                display=shown_command(f"{candidate.label} {candidate.hint}".rstrip()),
                display_meta=shown_command(candidate.detail),
            )
