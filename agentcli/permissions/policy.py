"""The policy of a session: its mode, its rules and the places that they are about.

Deciding takes two dozen modules: the shell grammar, tables of programs, the files that git obeys. The first request
needs none of them, so `call_review` is imported by the first decision, or while the first reply streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from agentcli.core.files.access import is_below
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.permission import Approval, Decision, Grant, Need, PermissionMode
from agentcli.permissions.rules import READING_TOOLS, Rule, parse_rules
from agentcli.shell.restricted_files import RestrictedFiles, TrackedFiles

if TYPE_CHECKING:
    from agentcli.permissions.call_review import CallReview
    from agentcli.permissions.suggest import Suggestions

EVALUATORS = "agentcli.permissions.call_review"
"""The module whose import loads everything that a decision needs."""


def _not_hidden(_command: str) -> bool:
    return False


def _same_place(_command: str, path: str) -> str:
    return path


@frozen
class Policy:
    """Immutable. It decides in one fixed order, see `call_review`."""

    mode: PermissionMode = PermissionMode.DEFAULT
    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    home: Path | None = None
    readable: tuple[Path, ...] = ()
    """More folders that may be read without approval, such as the session's stored results."""
    search_path: str | None = None
    """PATH of commands; None: the PATH of this process."""
    temp: Path | None = None
    """The folder that `$TMPDIR` names for commands; None if unknown."""
    scratch: tuple[Path, ...] = ()
    """The session's temp folder, readable and writable without approval."""
    memory: tuple[Path, ...] = ()
    """The project's memory folder: file tools read and write it without approval, commands only read it."""
    skill_folders: Callable[[], tuple[Path, ...]] = tuple
    """The folders of skills, readable without approval. Writing needs approval: a skill can bring permission rules."""
    locate: Callable[[str, str], str] = _same_place
    """Maps a command and a path it names to the path as other tools see it."""
    writable: tuple[Path, ...] = ()
    """More folders that sandboxed commands may write to, from the settings."""
    contains: Callable[[str], bool] = _not_hidden
    """Whether this command can run in a sandbox without network."""
    commands_can_read: Callable[[str], bool] = _not_hidden
    """Whether sandboxed commands could read this resolved path and all below it."""
    credentials: frozenset[str] = frozenset()
    """Names of the credential variables that are set."""
    trusted: bool = True
    """Whether the user trusts the folder; an untrusted repository may make git run programs."""
    private: tuple[str, ...] = ()
    """Files in which agentcli stores API keys, resolved. No tool reads or writes them in any mode."""
    secrets: tuple[str, ...] = ()
    """Known places of credentials, resolved. Reading one needs approval, also inside a working directory, and searches
    leave it out."""
    own_folders: tuple[str, ...] = ()
    """agentcli's own settings and state and the files that hooks and servers run, resolved: protected paths, since a
    write there could widen rights."""
    hidden_from_commands: Callable[[str], bool] = _not_hidden
    """Whether this command would run in a sandbox that hides private files and those of deny rules."""
    restricted_files: RestrictedFiles = field(default_factory=RestrictedFiles)
    tracked_files: TrackedFiles = field(default_factory=TrackedFiles)
    installation: tuple[Path, ...] = ()
    """Files that run agentcli (`core.processes.installation`), resolved: writing them needs approval in every mode."""

    def with_mode(self, mode: PermissionMode) -> Self:
        return replace(self, mode=mode)

    def with_rules(self, *, allow: Iterable[Rule] = (), ask: Iterable[Rule] = (), deny: Iterable[Rule] = ()) -> Self:
        deny = tuple(deny)
        changed = replace(self, allow=(*self.allow, *allow), ask=(*self.ask, *ask), deny=(*self.deny, *deny))
        # A running sandbox does not hide the files of a new deny rule.
        return replace(changed, hidden_from_commands=_not_hidden) if deny else changed

    def with_allowed(self, texts: Iterable[str], source: str) -> Self:
        """A copy with more allow rules, from the user's answer. Raises `UsageError` for invalid rules."""
        return self.with_rules(allow=parse_rules(texts, source, "flags"))

    def refuses_always(self, tool_name: str) -> bool:
        """Whether a deny rule blocks the tool entirely, so that it is not offered to the model."""
        return any(rule.spec is None and rule.names(tool_name) for rule in self.deny)

    def private_file(self, path: str) -> str | None:
        """Name of the protection of a resolved path; None if it is not one of agentcli's private files."""
        return "agentcli's own protection of API keys" if is_below(path, self.private) else None

    def find_concealed(self, path: str) -> str | None:
        """Like `private_file`, for known places of credentials too."""
        secret = self.mode is not PermissionMode.BYPASS and is_below(path, self.secrets)
        return "agentcli's own protection of credentials" if secret else self.private_file(path)

    @property
    def hides_anything(self) -> bool:
        return any(rule.spec is not None and rule.tool in READING_TOOLS for rule in self.deny)

    @property
    def accepts_edits(self) -> bool:
        return self.mode in (PermissionMode.ACCEPT_EDITS, PermissionMode.AUTO)

    # ---------------------------------------------------------------------------------------------------- single calls

    def _review(self, tool_name: str, needs: Sequence[Need], cwd: Path, working_dirs: Sequence[Path]) -> CallReview:
        from agentcli.permissions.call_review import CallReview
        from agentcli.permissions.command_verdicts import PermissionCall

        return CallReview(self, PermissionCall.of(tool_name, needs, cwd, working_dirs, self.home))

    def decide(
        self, tool_name: str, input: Json, needs: Sequence[Need], cwd: Path, working_dirs: Sequence[Path]
    ) -> Decision:
        return self._review(tool_name, needs, cwd, working_dirs).decide()

    def suggest(self, tool_name: str, needs: Sequence[Need], cwd: Path, working_dirs: Sequence[Path]) -> Suggestions:
        from agentcli.permissions.suggest import Suggestions

        return Suggestions(self._review(tool_name, needs, cwd, working_dirs), tuple(needs))

    def hides(self, path: str, cwd: Path, working_dirs: Sequence[Path]) -> bool:
        """Whether a deny rule forbids reading this file; searches of its folder must not show it either."""
        return self._review("Read", (Need("read", path),), cwd, working_dirs).hides(path)

    def grant(self, needs: Sequence[Need], cwd: Path, working_dirs: Sequence[Path], *, approved: Approval) -> Grant:
        """What an allowed call may do beyond the limits of its sandbox."""
        return self._review("Bash", needs, cwd, working_dirs).grant(approved)

    def credential_rules(self, needs: Sequence[Need], cwd: Path, working_dirs: Sequence[Path]) -> tuple[str, ...]:
        """Rules that would pass the credential variables that are set to the command's program."""
        return self._review("Bash", needs, cwd, working_dirs).credential_rules()
