"""The Linux sandbox: runs every command in its own namespaces with bubblewrap.

Starts commands, watches what they create and cleans up after them; `mounts` decides what they see and may write.

Limits of the protection: with a shared network, commands reach sockets without a file (the abstract ones of X11) and
servers on this machine; protected names in sub-folders, and links in place of protected paths, are left to the
permission pipeline; disk space is not limited; another program may obey a protected name after a command created it and
before it is quarantined.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.core.files.file_notices import NoticePool
from agentcli.core.git.run import git_program
from agentcli.core.permission import ORDINARY, Grant
from agentcli.core.processes.launch import Launch, Launcher, SandboxFinding
from agentcli.sandbox import session_folder
from agentcli.sandbox.caches import CacheFolders
from agentcli.sandbox.limits import CPU_SIGNAL, LimitWatch, ResourceLimits, with_kernel_limits
from agentcli.sandbox.linux.mounts import Mounts, SessionFiles, WritablePaths, shown_folders
from agentcli.sandbox.linux.probe import Ability
from agentcli.sandbox.linux.processes import SandboxProcesses
from agentcli.sandbox.linux.seccomp import seccomp_filter
from agentcli.sandbox.plan import SandboxRules, TrialFolders, find_masks
from agentcli.sandbox.quarantine.guard import MAX_FINDINGS, MAX_SECONDS, Guard, LateSearch, Watched, inner_folders
from agentcli.sandbox.quarantine.inventory import Inventory, change_time
from agentcli.sandbox.quarantine.protected import Protection, protection, uses_git
from agentcli.sandbox.session_folder import TempFolder
from agentcli.shell.git_config import read_regular

if TYPE_CHECKING:
    from agentcli.sandbox.host_proxy import HostProxy

_SOCKET_REFUSED = re.compile(r"Address family not supported|EAFNOSUPPORT|\[Errno 97\]|os error 97\b")
_CLOSE_SECONDS = 5.0
"""Time that `close` waits for an unfinished search."""
_PLAIN_COMMAND = re.compile(r"[^;&|<>$`(){}\n\r\\]*")


class BubblewrapLauncher(Launcher):
    """Starts the commands of a session in bubblewrap. Its files are removed on `close` or when agentcli ends."""

    name = "bubblewrap"

    def __init__(self, rules: SandboxRules, ability: Ability, temp_root: Path, quarantine: Path | None = None) -> None:
        """`temp_root` is the parent of the session's private folder. Planted files are moved to `quarantine`, by
        default a folder that is deleted with the session."""
        super().__init__(f"{self.name}, {rules.level}")
        self.copies = rules.copies
        self.rules = rules
        self.ability = ability
        self._temp_root = temp_root
        self._temp = TempFolder(temp_root)
        self._quarantine = quarantine
        excluded = (*rules.own_folders, *((quarantine,) if quarantine else ()))
        self._inventory = Inventory(rules.working_dirs, excluded)
        self._notices = NoticePool()
        self._inventory_thread: threading.Thread | None = None
        self._guards: list[Guard] = []
        self._late_search = LateSearch(self._inventory, self._guards)
        self._files: SessionFiles | None = None
        self.limits = LimitWatch(rules.limits)
        self._lock = threading.Lock()
        self._running: list[Protection] = []
        """Protection of each running command."""

    def for_trial(self, folders: TrialFolders, limits: ResourceLimits | None = None) -> BubblewrapLauncher:
        """A copy of this sandbox for scratch folders, with other `limits`."""
        rules = self.rules.for_trial(folders, limits)
        return BubblewrapLauncher(rules, self.ability, self._temp_root, folders.quarantine)

    def for_copies(self, copies: Mapping[Path, Path], kept: Iterable[Path]) -> BubblewrapLauncher:
        """A sandbox in which commands see copies in place of the working directories; see `SandboxRules.copies`."""
        return BubblewrapLauncher(self.rules.for_copies(copies, kept), self.ability, self._temp_root)

    def close(self) -> None:
        """Remove the session's private folder now, not when the program ends. Nothing may run in it any more.

        Blocks for up to `_CLOSE_SECONDS` while a search for planted repositories is unfinished."""
        self._late_search.close(_CLOSE_SECONDS)
        with self._lock:
            self._temp.close()
            self._files = None

    def launch(
        self, arguments: Sequence[str], cwd: Path, environ: Mapping[str, str], grant: Grant = ORDINARY
    ) -> Launch:
        """See `Launcher.launch`. Raises OSError if the session's private folder cannot be created.

        The caller must start it in a new session without a terminal, on which a command could type. Doing that in here
        would cost 1.5 ms.
        """
        if self._is_excluded(arguments):
            return Launch(tuple(arguments), environ)
        with ExitStack() as resources:
            return self._launch(arguments, cwd, environ, grant, resources)

    def _launch(
        self, arguments: Sequence[str], cwd: Path, environ: Mapping[str, str], grant: Grant, resources: ExitStack
    ) -> Launch:
        """Like `launch`. `resources`: is closed if this fails, else when the command has ended."""
        rules, files, began = self.rules, self._session_files(), change_time()
        protected, guard = Protection(), None
        # A read-only command can change nothing that would have to be checked, nor can one that gets copies.
        if not grant.reads_only and not rules.copies:
            protected = self._protection(arguments, grant)
            guard = self._guard(protected, files.folder, arguments, began, grant)
            resources.callback(guard.close)
        processes = SandboxProcesses()
        resources.callback(processes.close)
        # New files in /tmp go to the session's own folder.
        written = (path for path in grant.write if self.outside(str(path)) == str(path))
        masks, caches = find_masks(rules), CacheFolders.find(rules)
        never_opened = (*rules.working_dirs, *rules.own_folders, *rules.installation, *masks.all)
        granted = WritablePaths(written, never_opened, rules.home)
        resources.callback(granted.close)
        network = self.shares_network(grant)
        # A program that only reads needs none of the system calls that strict mode refuses.
        strict = rules.strict or grant.reads_only
        mounts = Mounts(
            rules=rules,
            masks=masks,
            files=files,
            caches=caches,
            shown=shown_folders(rules, environ.get("PATH", "")),
            neighbours=session_folder.neighbours(rules.working_dirs, "".join(arguments[-1:])),
            is_git=uses_git(arguments),
            reads_only=grant.reads_only,
            hides_sockets=not network and not (strict and self.ability.seccomp),
        )
        protected = replace(protected, writable=self._not_replaceable(protected.writable))
        filter = self._system_call_filter(network, strict, resources)
        variables = session_folder.command_variables(environ, files.temp, self.name) | caches.environment(environ)
        limited = with_kernel_limits(tuple(arguments), rules.limits)
        proxy = self._start_proxy(grant, files.folder)
        if proxy is not None:
            from agentcli.sandbox.host_proxy import forwarded, proxy_variables

            resources.callback(proxy.close)
            variables, limited = proxy_variables(variables), forwarded(limited)
        command = (
            self.ability.program,
            *self._namespaces(network),
            *mounts.list_dropped_capabilities(),
            *mounts.arguments(protected, granted.paths),
            *(() if proxy is None else proxy.mounts),
            *("--chdir", str(cwd)),
            *(word for descriptor in filter for word in ("--seccomp", str(descriptor))),
            *("--info-fd", str(processes.descriptor), "--"),
            *limited,
        )
        cleanup = _Cleanup(self, processes, guard, protected, resources.pop_all())
        if not rules.copies:
            self._start_inventory(began)
        return Launch(
            command,
            variables,
            cleanup.close,
            pass_descriptors=(processes.descriptor, *filter),
            watch_limits=lambda: self.limits.add(cleanup, processes.first_process),
            stopped_for=lambda: cleanup.stopped_for,
            terminate=processes.terminate,
            watch=-1 if guard is None else guard.descriptor,
            look=lambda: guard is not None and guard.look() > (0 if rules.strict else MAX_FINDINGS),
            refused_hosts=lambda: () if proxy is None else proxy.refused,
            private_hosts=lambda: () if proxy is None else proxy.private,
        )

    def _start_proxy(self, grant: Grant, session: Path) -> HostProxy | None:
        """The way to allowed hosts; none in strict mode, which blocks the Unix socket of the proxy. Raises OSError."""
        asked = grant.network == "hosts" or (grant.network == "default" and grant.hosts and not self.rules.network)
        if not asked or self.rules.strict:
            return None
        from agentcli.sandbox.host_proxy import HostProxy

        return HostProxy(session / f"proxy-{os.urandom(6).hex()}", grant.hosts, self.rules.upstream)

    def _protection(self, arguments: Sequence[str], grant: Grant) -> Protection:
        """What a command must not change, without the names that its grant opens."""
        rules = self.rules
        named = () if grant.keeps_repository else arguments
        protected = protection(rules.working_dirs, rules.home, named, rules.installation)
        protected = protected.open_for(grant.opened_names)
        if not grant.guards_obeyed_names:
            return protected
        return protected.with_obeyed_names(rules.working_dirs, grant.uncovered)

    def _guard(self, protected: Protection, session: Path, arguments: Sequence[str], began: int, grant: Grant) -> Guard:
        from agentcli.sandbox.quarantine.store import Quarantine

        contents = {path: data for path in protected.contents if (data := read_regular(path)) is not None}
        watched = Watched(
            missing=protected.missing,
            contents=contents,
            own=protected.repositories,
            read_only=protected.read_only,
            makes_repository=protected.makes_repository,
            inside=(*self.rules.working_dirs, session / "tmp", Path("/tmp")),  # noqa: S108 - its name in the sandbox
            program=git_program(tuple(map(str, self.rules.working_dirs))),
            began=began,
            inner=inner_folders(protected.repositories),
            settings_approved=grant.git_settings,
            steps_approved=not grant.guards_obeyed_names,
        )
        quarantine = Quarantine(self._quarantine or session / "quarantine")
        command = arguments[-1] if arguments else ""
        return Guard(watched, quarantine, self._inventory, self._notices, command)

    def _start_inventory(self, began: int) -> None:
        """Start the inventory of repositories beside the first command; it skips changes since `began`."""
        with self._lock:
            if self._inventory_thread is None:
                self._inventory_thread = threading.Thread(target=self._begin_inventory, args=(began,), daemon=True)
                self._inventory_thread.start()

    def _begin_inventory(self, began: int) -> None:
        self._inventory.begin(began)
        if not self._inventory.complete:
            self._late_search.begin(began)

    @property
    def uncontained(self) -> str:
        return "" if self.ability.network else "bubblewrap cannot block the network here."

    def shares_network(self, grant: Grant) -> bool:
        if self.rules.strict:
            return False
        if grant.reads_only and not self.ability.network:
            return True
        return grant.network == "all" or (grant.network == "default" and self.rules.network)

    def lacked_network(self, code: int, output: str, grant: Grant) -> bool:
        from agentcli.sandbox.explain import names_missing_network

        return code != 0 and not self.shares_network(grant) and names_missing_network(output)

    def explain(self, code: int, output: str, grant: Grant = ORDINARY) -> str | None:
        from agentcli.sandbox.explain import Refusals, explain, explain_missing, names_missing_file, worth_explaining

        rules = self.rules
        if rules.limits.cpu_seconds is not None and code == 128 + CPU_SIGNAL:
            return (
                f"Sandbox: a process used more than its limit of {rules.limits.cpu_seconds:,} s of processor time and "
                "was stopped. The setting sandbox.maxCpuSeconds raises the limit."
            )
        is_clear = worth_explaining(code, output)
        if not is_clear and not names_missing_file(output):
            return None
        if is_clear and rules.strict and _SOCKET_REFUSED.search(output[-20_000:]):
            return (
                "Sandbox: commands cannot use Unix sockets in strict mode: services behind them act outside of the "
                "sandbox. Start with --sandbox on to allow them."
            )
        temporary = None if self._files is None else self._files.temp
        masked, network = find_masks(rules).all, self.shares_network(grant)
        refusals = Refusals(rules, masked, network, temporary, grant.keeps_repository, grant.uncovered)
        return (explain if is_clear else explain_missing)(output, refusals)

    @property
    def temp_folder(self) -> Path | None:
        return self._session_files().temp

    def outside(self, path: str) -> str:
        if (moved := super().outside(path)) != path:
            return moved
        if not path.startswith(session_folder.SYSTEM_TEMP):
            return path
        try:
            return session_folder.outside(path, self._session_files().temp, self._visible_folders(path))
        except OSError:
            return path

    def _visible_folders(self, path: str) -> Iterator[Path]:
        """Folders that commands see as they are and that may hold `path`. Neighbours last: they are read from the disk,
        and the temp folder itself is in none of them."""
        yield from self.rules.working_dirs
        yield from self.rules.allow_write
        yield from self.rules.readable
        home = self.rules.home
        if home is not None and str(home).startswith(f"{session_folder.SYSTEM_TEMP}/"):
            yield home
        if path != session_folder.SYSTEM_TEMP:
            yield from session_folder.neighbours(self.rules.working_dirs, path)

    def inside(self, path: str) -> str:
        path = super().inside(path)
        return path if self._files is None else session_folder.inside(path, self._files.temp)

    def permit(self, path: str) -> None:
        with self._lock:
            guards = list(self._guards)
        for guard in guards:
            guard.permit(Path(os.path.realpath(path)))

    def _not_replaceable(self, folders: Iterable[Path]) -> tuple[Path, ...]:
        """The folders that no running command could replace by a link before they are mounted writable."""
        with self._lock:
            return tuple(
                folder
                for folder in folders
                if all(running.fixes(folder) for running in self._running)
                or not any(folder.is_relative_to(root) for root in self.rules.working_dirs)
            )

    def started(self, protected: Protection, guard: Guard) -> None:
        """Register a launched command; called by `_Cleanup`."""
        with self._lock:
            self._running.append(protected)
            self._guards.append(guard)

    def ended(self, protected: Protection, guard: Guard) -> tuple[SandboxFinding, ...]:
        """Check what an ended command left behind; called by `_Cleanup`. Blocking."""
        try:
            if self._inventory_thread is not None:
                self._inventory_thread.join()
            with self._lock:
                # Otherwise a file that a parallel command planted would count as existing before.
                guard.widen(min(other.began for other in self._guards))
            findings = guard.finish()
            if guard.is_cut:
                self._late_search.add(guard)
                if self.rules.strict:
                    self._late_search.wait(MAX_SECONDS)
                    findings += tuple(iter(self._late_search.take_finding, None))
            return findings
        finally:
            with self._lock:
                self._running.remove(protected)
                self._guards.remove(guard)

    def take_notice(self) -> str | None:
        finding = self._late_search.take_finding()
        return None if finding is None else finding.text

    def _system_call_filter(self, network: bool, strict: bool, resources: ExitStack) -> tuple[int, ...]:
        """A descriptor to read the seccomp filter from, none without seccomp. A new pipe, with its own offset."""
        if not self.ability.seccomp:
            return ()
        reading, writing = os.pipe()
        resources.callback(os.close, reading)
        os.write(writing, seccomp_filter(network=network, strict=strict))
        os.close(writing)
        return (reading,)

    # ------------------------------------------------------------------------------------------------- arguments

    def _namespaces(self, network: bool) -> tuple[str, ...]:
        rules, ability = self.rules, self.ability
        return (
            *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent"),
            *ability.privileges,
            *(() if network else ("--unshare-net",)),
            *(ability.lockdown if rules.strict else ()),
        )

    # --------------------------------------------------------------------------------------------------- folders

    def _session_files(self) -> SessionFiles:
        with self._lock:
            if self._files is None:
                self._files = SessionFiles(self._temp.path.parent)
            return self._files

    def runs_bare(self, command: str) -> bool:
        return self._is_excluded([command])

    def _is_excluded(self, arguments: Sequence[str]) -> bool:
        """Whether a command runs without a sandbox: only a plain one, as operators could run other programs."""
        text = arguments[-1].strip() if arguments else ""
        if not self.rules.excluded_commands or not _PLAIN_COMMAND.fullmatch(text):
            return False
        words = text.split()
        beginnings = (beginning.removesuffix("*").split() for beginning in self.rules.excluded_commands)
        return any(beginning and words[: len(beginning)] == beginning for beginning in beginnings)


class _Cleanup:
    """Cleans up once after a command has ended, and checks what it left behind."""

    def __init__(
        self,
        launcher: BubblewrapLauncher,
        processes: SandboxProcesses,
        guard: Guard | None,
        protected: Protection,
        resources: ExitStack,
    ) -> None:
        self._launcher = launcher
        """Also keeps the session's folder, which is deleted with the launcher."""
        self._processes = processes
        self._guard = guard
        self._protected = protected
        self._resources = resources
        self.stopped_for = ""
        self._findings: tuple[SandboxFinding, ...] | None = None
        if guard is not None:
            launcher.started(protected, guard)

    def close(self) -> tuple[SandboxFinding, ...]:
        if self._findings is None:
            self._findings = ()
            # Before the first process is gone and its number may be reused.
            self.stopped_for = self._launcher.limits.remove(self)
            self._processes.wait_until_gone()
            self._resources.close()
            if self._guard is not None:
                self._findings = self._launcher.ended(self._protected, self._guard)
        return self._findings
