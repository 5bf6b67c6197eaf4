"""What an approved command may do beyond the limits of its sandbox, derived from the rules, the mode and its words.

Never more than was approved: a path named in the permission question, hosts named by a rule, variables that a rule
passes to exactly this program.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.core.permission import Grant, NetworkAccess, PermissionMode
from agentcli.core.text.patterns import lazy_pattern
from agentcli.permissions.rules import Rule
from agentcli.shell.git_config import subcommand_index

if TYPE_CHECKING:
    from agentcli.shell.commands.command_parts import CommandPart

NETWORK = "Network"
"""Tool name of host rules. `Network(registry.npmjs.org)`: sandboxed commands without network may reach this host."""
CREDENTIALS = "Env"
"""Tool name of credential rules. `Env(gh:GH_TOKEN)`: the command `gh` gets this variable."""

USER_ONLY = frozenset({NETWORK, CREDENTIALS})
"""Tool names of rules that open secrets or hosts: they apply from the user's own settings and answers, and never from a
file in a repository, whoever put it there."""

USER_ONLY_ADVICE = "Rules for hosts and credentials apply only from your own settings."


def fits_project(rule: Rule) -> bool:
    """Whether a rule applies from a file of the project, too: not if it opens hosts, secret variables or an entry that
    begins with a dot elsewhere, where credentials may be."""
    hidden = (rule.spec or "").startswith(("//", "~/")) and "/." in (rule.spec or "")
    return rule.tool not in USER_ONLY and not hidden


CREDENTIAL_VARIABLES: dict[str, tuple[str, ...]] = {
    "gh": ("GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN"),
    "glab": ("GITLAB_TOKEN",),
    "hub": ("GITHUB_TOKEN",),
    "npm": ("NPM_TOKEN", "NODE_AUTH_TOKEN"),
    "pnpm": ("NPM_TOKEN", "NODE_AUTH_TOKEN"),
    "yarn": ("NPM_TOKEN", "NODE_AUTH_TOKEN", "YARN_NPM_AUTH_TOKEN"),
    "twine": ("TWINE_USERNAME", "TWINE_PASSWORD"),
    "uv": ("UV_PUBLISH_TOKEN",),
    "poetry": ("POETRY_PYPI_TOKEN_PYPI",),
    "cargo": ("CARGO_REGISTRY_TOKEN",),
    "docker": ("DOCKER_AUTH_CONFIG", "DOCKER_PASSWORD"),
    "aws": ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    "gcloud": ("GOOGLE_APPLICATION_CREDENTIALS",),
    "az": ("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"),
    "terraform": ("TF_TOKEN_app_terraform_io",),
    "vercel": ("VERCEL_TOKEN",),
    "netlify": ("NETLIFY_AUTH_TOKEN",),
    "flyctl": ("FLY_API_TOKEN",),
    "fly": ("FLY_API_TOKEN",),
    "heroku": ("HEROKU_API_KEY",),
    "wrangler": ("CLOUDFLARE_API_TOKEN",),
    "sentry-cli": ("SENTRY_AUTH_TOKEN",),
    "huggingface-cli": ("HF_TOKEN",),
}
"""Variables that a program signs in with. Offered in the permission question, never passed without an answer."""
_CHANGES_REPOSITORY = lazy_pattern(
    r"add|am|apply|branch|checkout|cherry-pick|clean|clone|commit|config|fetch|gc|init|merge|mv|notes|pull|push|rebase"
    r"|remote|reset|restore|revert|rm|stash|submodule|switch|tag|update-index|worktree"
)
_GIT_OPTIONS = lazy_pattern(r"(?:(?:--no-pager|-P|--no-optional-locks|-C \S+|-c user\.(?:name|email)=[^ ]*) ?)*")
_RUNS_PROGRAM = lazy_pattern(r"-[A-Za-z]*[ux]|--ex|--upl|--rece|foreach")
"""Git accepts the beginning of a long option."""
_CHANGES_SETTINGS = frozenset({"config", "remote", "submodule"})
_SETTING_VERBS = {
    "remote": ("add", "set-url", "rename", "remove", "rm", "set-head", "set-branches"),
    "submodule": ("add", "init", "update", "sync", "set-url", "set-branch", "deinit"),
}
_WRITERS = frozenset(
    {"cp", "mv", "ln", "install", "mkdir", "rmdir", "touch", "tee", "rm", "sed", "truncate", "rsync", "chmod"}
)
_WRITES_LAST_OPERAND = frozenset({"cp", "ln", "install", "rsync"})
"""Programs that only read all operands but the last one."""
_CHANGES_ENTRIES = frozenset({"mv", "ln", "install", "mkdir", "rmdir", "rm", "sed", "rsync"})
"""Programs that create, replace or remove directory entries, so the folder must be writable, not only the file."""
_SHOWS_NETWORK = frozenset({"ss", "netstat", "lsof"})
"""Read-only programs that show nothing in a network of their own."""
_REMOVING = frozenset({"rm", "rmdir", "mv"})


GrantRules = tuple[Sequence[Rule], Sequence[Rule]]
"""Allow rules and deny rules."""


def grant_for(
    parts: Sequence[CommandPart], mode: PermissionMode, rules: GrantRules, *, approved: bool, only_reads: bool
) -> Grant:
    """Build the grant. `approved`: by a rule or an answer, not by the mode alone. No parts: parsing failed."""
    allow, deny = rules
    hosts = tuple(rule.spec for rule in allow if rule.tool == NETWORK and rule.spec)
    hosts += tuple(f"!{rule.spec}" for rule in deny if rule.tool == NETWORK and rule.spec) if hosts else ()
    network: NetworkAccess = "hosts" if mode is PermissionMode.AUTO else "default"
    if only_reads and not any(part.inner[0] in _SHOWS_NETWORK for part in parts):
        network = "none"
    opened = (path for part in parts for path in _list_opened(part)) if approved else ()
    return Grant(
        network=network,
        hosts=hosts,
        write=tuple(dict.fromkeys(opened)),
        # A rule that passes credentials to a program is itself an approval.
        variables=_variables(parts, allow),
        guards_obeyed_names=mode is PermissionMode.AUTO and not only_reads,
        reads_only=only_reads,
        keeps_repository=not approved and not (parts and all(part.only_reads or _is_plain_git(part) for part in parts)),
        git_settings=approved and _only_changes_settings(parts),
    )


def _is_plain_git(part: CommandPart) -> bool:
    """Whether a part is git alone, without a setting, variable or sub-command that makes it run other programs."""
    words = part.inner
    if words[:1] != ("git",) or part.extended or part.command.assignments:
        return False
    command = subcommand_index(words)
    options, rest = " ".join(words[1:command]), words[command + 1 :]
    if not _CHANGES_REPOSITORY.fullmatch("".join(words[command : command + 1])):
        return False
    return bool(_GIT_OPTIONS.fullmatch(options)) and not any(map(_RUNS_PROGRAM.match, rest))


def _only_changes_settings(parts: Sequence[CommandPart]) -> bool:
    """Whether some parts change git's settings and all others are read-only, so that nothing else uses the grant."""
    changing = [part for part in parts if _changes_settings(part.inner)]
    return bool(changing) and all(part in changing or part.only_reads for part in parts)


def _changes_settings(words: Sequence[str]) -> bool:
    if words[:1] != ("git",) or len(words) < 3:
        return False
    command, rest = words[1], words[2:]
    if command == "config":
        return not rest[0].startswith(("--get", "--list", "-l", "--show")) and rest[0] not in ("get", "list")
    return rest[0] in _SETTING_VERBS.get(command, ())


def names_git_settings(rule: Rule) -> bool:
    """Whether a rule explicitly allows changing git's settings: `Bash(git config *)`, not `Bash(git *)`."""
    words = (rule.spec or "").replace(":", " ").split()
    return words[:1] == ["git"] and len(words) > 1 and words[1] in _CHANGES_SETTINGS


def list_known_credentials(environ: Iterable[str]) -> frozenset[str]:
    return frozenset(name for names in CREDENTIAL_VARIABLES.values() for name in names).intersection(environ)


def credential_variables(parts: Sequence[CommandPart], environ: Iterable[str]) -> tuple[str, ...]:
    """The set variables that the command's single program could sign in with.

    A command of several parts gets none, because the other parts would see them, too.
    """
    known = set(environ)
    return tuple(name for name in CREDENTIAL_VARIABLES.get(_only_program(parts), ()) if name in known)


def _only_program(parts: Sequence[CommandPart]) -> str:
    return "" if len(parts) != 1 or parts[0].extended else parts[0].inner[0].rpartition("/")[2]


def _variables(parts: Sequence[CommandPart], allow: Iterable[Rule]) -> tuple[str, ...]:
    program = _only_program(parts)
    specs = (rule.spec.partition(":") for rule in allow if rule.tool == CREDENTIALS and rule.spec)
    return tuple(name for named, _colon, name in specs if program and named == program and name)


def written_paths(part: CommandPart) -> Iterable[Path]:
    """The files and folders that a part creates, changes or removes, as far as its words show."""
    for folder in part.folders:
        for redirection in part.command.redirections:
            if redirection.kind == "write":
                yield _join(folder, redirection.target)
        for name in _operands(part.inner):
            yield _join(folder, name)


def _list_opened(part: CommandPart) -> Iterable[Path]:
    """Paths that the sandbox must make writable: the file if the program writes into it, otherwise its folder."""
    recursive = any(re.fullmatch(r"-[a-zA-Z]*[rRa][a-zA-Z]*|--recursive|--archive", word) for word in part.inner[1:])
    needs_folder = bool(part.inner) and (part.inner[0] in _CHANGES_ENTRIES or recursive)
    for folder in part.folders:
        for redirection in part.command.redirections:
            if redirection.kind == "write":
                yield _join(folder, redirection.target)
        for name in _operands(part.inner):
            path = _join(folder, name)
            if path.is_dir() and part.inner[0] not in _REMOVING:
                yield path
            else:
                yield next((each for each in path.parents if each.is_dir()), path.parent) if needs_folder else path


def _operands(words: Sequence[str]) -> tuple[str, ...]:
    """The operands that a common file program writes; empty for other programs."""
    if not words or words[0] not in _WRITERS:
        return ()
    operands = tuple(word for word in words[1:] if word and not word.startswith("-"))
    if words[0] == "sed":
        edits = any(word.startswith(("-i", "--in-place")) for word in words)
        return operands[1:] if edits else ()
    if words[0] in _WRITES_LAST_OPERAND:
        return operands[-1:] if len(operands) > 1 else ()
    return operands


def _join(folder: str, name: str) -> Path:
    return Path(os.path.normpath(os.path.join(folder, name)))  # noqa: PTH118
