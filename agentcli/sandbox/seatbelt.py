"""The macOS sandbox: the same rules as a Seatbelt profile for `sandbox-exec`. Text only; nothing is run here.

Later rules override earlier ones, so the order is that of the mounts on Linux: everything is readable and nothing
writable, then working directories, then protected paths in them, then secrets. There is no pid namespace: the caller
must end processes that a command leaves behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agentcli.core.permission import ORDINARY, Grant
from agentcli.core.processes.launch import Launch, Launcher
from agentcli.sandbox.caches import cache_environment
from agentcli.sandbox.explain import Refusals, explain, names_missing_network, worth_explaining
from agentcli.sandbox.plan import SandboxRules, TrialFolders, find_masks
from agentcli.sandbox.quarantine.protected import FILES, FOLDERS, HOME_FILES, uses_git
from agentcli.sandbox.secrets import CLOSED, EMPTY, list_closed_at_home
from agentcli.sandbox.session_folder import TempFolder, command_variables

PROGRAM = "/usr/bin/sandbox-exec"
_SERVICES = (
    '"com.apple.securityd"',
    '"com.apple.SecurityServer"',
    '"com.apple.coreservices.launchservicesd"',
    '"com.apple.pasteboard.1"',
)
_GIT_RISKS = ("hooks", "config", "config.worktree", "commondir")


class SeatbeltLauncher(Launcher):
    name = "seatbelt"

    def __init__(self, rules: SandboxRules, temp_root: Path) -> None:
        super().__init__(f"{self.name}, {rules.level}")
        self._rules = rules
        self._temp_root = temp_root
        self._temp = TempFolder(temp_root)

    def for_trial(self, folders: TrialFolders) -> SeatbeltLauncher:
        """The same sandbox with scratch folders."""
        return SeatbeltLauncher(self._rules.for_trial(folders), self._temp_root)

    def for_copies(self, copies: Mapping[Path, Path], _kept: Iterable[Path]) -> SeatbeltLauncher:
        """The same sandbox for commands that work in copies of the working directories, which they cannot change."""
        made = SeatbeltLauncher(replace(self._rules, working_dirs=tuple(copies.values())), self._temp_root)
        made.copies = copies
        return made

    def close(self) -> None:
        """Remove the session's private folder. Nothing may run in it any more."""
        self._temp.close()

    def launch(
        self, arguments: Sequence[str], cwd: Path, environ: Mapping[str, str], grant: Grant = ORDINARY
    ) -> Launch:
        temporary = self._temp.path
        git = uses_git(arguments) and not grant.keeps_repository
        text = profile(self._rules, temporary, git=git, reads_only=grant.reads_only, uncovered=grant.uncovered)
        variables = command_variables(environ, temporary, self.name) | cache_environment(temporary / "cache", environ)
        return Launch((PROGRAM, "-p", text, *arguments), variables)

    @property
    def uncontained(self) -> str:
        return "" if not self._rules.network else "commands have network access. Set sandbox.network to false."

    def lacked_network(self, code: int, output: str, grant: Grant) -> bool:
        return code != 0 and not self._rules.network and names_missing_network(output)

    def explain(self, code: int, output: str, grant: Grant = ORDINARY) -> str | None:
        rules = self._rules
        # Seatbelt reports a single error for all refusals.
        text = output.replace("Operation not permitted", "Read-only file system")
        if not worth_explaining(code, text):
            return None
        refusals = Refusals(rules, find_masks(rules).all, rules.network, uncovered=grant.uncovered)
        return explain(text, refusals)

    @property
    def temp_folder(self) -> Path | None:
        return self._temp.path


def profile(
    rules: SandboxRules, temporary: Path, *, git: bool = False, reads_only: bool = False, uncovered: Sequence[Path] = ()
) -> str:
    written = () if reads_only else (*rules.working_dirs, *rules.allow_write)
    lines = [
        "(version 1)",
        "(allow default)",
        "(deny file-write*)",
        '(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (regex #"^/dev/fd/"))',
        _rule("allow", "file-write*", (temporary, *written)),
    ]
    for folder in rules.working_dirs:
        names = [*FOLDERS, *FILES, *([] if git else [".git"])]
        protected = [folder / name for name in names]
        if git:
            protected += [folder / ".git" / name for name in _GIT_RISKS]
            # Renaming the folder would bypass the rules for its contents.
            lines.append(f"(deny file-write-unlink (literal {_quote(folder / '.git')}))")
        if rules.home is not None and rules.home.is_relative_to(folder):
            protected += [rules.home / name for name in HOME_FILES]
        lines.append(_rule("deny", "file-write*", protected))
    if kept := (*rules.installation, *uncovered):
        lines.append(_rule("deny", "file-write*", kept))
    secrets = [*rules.own_folders, *rules.deny_read, *rules.denied_files()]
    if rules.home is not None:
        secrets += [
            *map(Path, list_closed_at_home(str(rules.home))),
            *(rules.home / name for name in (*CLOSED, *EMPTY)),
        ]
    opened = (*rules.allow_read, *rules.readable)
    hidden = [
        path
        for path in secrets
        if not any(folder.is_relative_to(path) for folder in rules.working_dirs) and path not in rules.allow_read
    ]
    if hidden:
        lines.append(_rule("deny", "file-read* file-write*", hidden))
    if opened:
        lines.append(_rule("allow", "file-read*", opened))
    if reads_only or not rules.network:
        lines += ["(deny network*)", "(deny system-socket)"]
    lines += [
        # Services that could act outside the sandbox on behalf of a command.
        f"(deny mach-lookup {' '.join(f'(global-name {name})' for name in _SERVICES)})",
        "(deny appleevent-send)",
        "(deny process-info* (target others))",
        "(allow process-info* (target same-sandbox))",
        "(deny signal)",
        "(allow signal (target same-sandbox))",
    ]
    return "\n".join(lines) + "\n"


def _rule(verb: str, operations: str, paths: Iterable[Path]) -> str:
    return f"({verb} {operations} {' '.join(f'(subpath {_quote(path)})' for path in dict.fromkeys(paths))})"


def _quote(path: Path) -> str:
    """A string literal of the profile language, in which only these two characters are special."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'
