"""Settings of a git configuration that make git run programs, with git itself as the parser.

Only git knows what a configuration file means, so git parses it: the bytes go to `git config --file -` on standard
input, with no repository, no includes and an empty environment. Keys are compared with a list of harmless ones; any
other key counts as dangerous, because git gains new keys with every release.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from agentcli.core.git.run import GIT_ENVIRON, OWN_SETTINGS, git_program, run_git

_SECONDS = 1.0

_PLAIN: dict[str, str] = {
    "core": (
        "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol "
        "safecrlf quotepath abbrev compression loosecompression bigfilethreshold untrackedcache trustctime checkstat "
        "splitindex commentchar whitespace protecthfs protectntfs packedgitlimit packedgitwindowsize preloadindex "
        "deltabasecachelimit longpaths sharedrepository warnambiguousrefs fscache hidedotfiles sparsecheckout "
        "sparsecheckoutcone multipackindex commitgraph maxtreedepth fsync fsyncmethod fsyncobjectfiles"
    ),
    "user": "name email signingkey useconfigonly",
    "author": "name email",
    "committer": "name email",
    "commit": "verbose status cleanup gpgsign",
    "tag": "sort gpgsign forcesignannotated",
    "gc": (
        "auto autopacklimit autodetach pruneexpire reflogexpire reflogexpireunreachable writecommitgraph packrefs "
        "aggressivewindow aggressivedepth bigpackthreshold rerereresolved rerereunresolved worktreepruneexpire "
        "cruftpacks"
    ),
    "pull": "rebase ff",
    "push": "default followtags autosetupremote recursesubmodules",
    "fetch": "prune prunetags parallel recursesubmodules fsckobjects output writecommitgraph unpacklimit all",
    "merge": "ff conflictstyle log stat renames renamelimit directoryrenames verbosity branchdesc defaulttoupstream",
    "diff": (
        "renames renamelimit algorithm mnemonicprefix noprefix colormoved context interhunkcontext submodule "
        "suppressblankempty wserrorhighlight indentheuristic ignoresubmodules relative statgraphwidth statnamewidth "
        "dirstat wordregex autorefreshindex"
    ),
    "status": "short branch showstash showuntrackedfiles submodulesummary aheadbehind relativepaths renames",
    "log": "date decorate abbrevcommit follow showroot mailmap graphcolors",
    "color": "ui diff status branch interactive grep showbranch decorate advice push transport remote",
    "column": "ui branch clean status tag",
    "branch": "autosetupmerge autosetuprebase sort",
    "remote": "pushdefault",
    "rebase": "autosquash autostash stat updaterefs missingcommitscheck abbreviatecommands",
    "rerere": "enabled autoupdate",
    "stash": "showpatch showstat showincludeuntracked",
    "index": "version threads sparse",
    "pack": "window depth windowmemory threads indexversion packsizelimit compression writebitmaps usesparse",
    "init": "defaultbranch",
    "i18n": "commitencoding logoutputencoding",
    "apply": "whitespace ignorewhitespace",
    "extensions": "worktreeconfig objectformat compatobjectformat refstorage noop preciousobjects",
    "receive": "denycurrentbranch denynonfastforwards denydeletes fsckobjects advertisepushoptions",
    "transfer": "fsckobjects unpacklimit hiderefs",
    "submodule": "active recurse fetchjobs propagatebranches",
    "http": "postbuffer version lowspeedlimit lowspeedtime",
    "lfs": "repositoryformatversion",
    "gui": "geometry wmstate",
    "maintenance": "auto strategy",
    "feature": "manyfiles experimental",
    "checkout": "defaultremote guess workers",
    "worktree": "guessremote",
}
_NAMED: dict[str, str] = {
    "branch": "merge rebase description vscode-merge-base gh-merge-base github-pr-owner-number base",
    "remote": "fetch push tagopt prune prunetags skipdefaultupdate skipfetchall mirror gh-resolved",
    "submodule": "active branch path ignore fetchrecursesubmodules",
    "color": "*",
    "diff": "binary funcname xfuncname wordregex",
    "gitflow": "*",
    "lfs": "access locksverify",
}
"""Harmless keys with a subsection in between: `branch.main.merge`."""
_ADDRESSES = frozenset(
    {("remote", "url"), ("remote", "pushurl"), ("submodule", "url"), ("branch", "remote"), ("branch", "pushremote")}
)
_ORDINARY_ADDRESS = re.compile(
    r"(?:https?|ssh|git|file|git\+ssh|ssh\+git)://[^-\s]\S*|(?!-)[\w.~+-]*@?[\w.-]*\w:(?!:)\S*|[./~][^:\n]*|\w[^:\n]*"
)
"""An ordinary remote URL: not `ext::sh -c …` and the like, which name a program, and nothing that looks like an
option."""
_BOOLEANS = frozenset({"", "true", "false", "yes", "no", "on", "off", "0", "1"})

Setting = tuple[str, str]


def harmless(key: str, value: str) -> bool:
    """Whether a setting, as git lists it, makes git run no program and read no configuration from elsewhere."""
    section, _dot, rest = key.partition(".")
    subsection, dot, name = rest.rpartition(".")
    if key == "core.fsmonitor":
        return value.strip().lower() in _BOOLEANS
    if section == "advice":
        return True
    if not dot:
        return name in _PLAIN.get(section, "").split()
    if (section, name) in _ADDRESSES:
        return _ORDINARY_ADDRESS.fullmatch(value) is not None
    if (section, name) == ("submodule", "update"):
        return value in ("checkout", "rebase", "merge", "none")
    allowed = _NAMED.get(section, "").split()
    return bool(subsection) and (name in allowed or allowed == ["*"])


def list_settings(data: bytes, program: str | None) -> tuple[Setting, ...] | None:
    """The settings in a configuration file's bytes, as git parses them; None if git refuses the file."""
    try:
        return None if program is None else _list_with_git(data, program)
    except OSError:
        return None


@functools.lru_cache(maxsize=64)
def _list_with_git(data: bytes, program: str) -> tuple[Setting, ...] | None:
    """List settings, cached. Raises OSError, which is not cached: a busy machine may succeed the next time."""
    arguments = ("config", "--file", "-", "--no-includes", "-z", "--list")
    # Without a repository nothing else is read.
    environ = {**GIT_ENVIRON, "GIT_DIR": os.devnull}
    done = run_git(program, arguments, "/", _SECONDS, input=data, environ=environ)
    return parse_settings(done.output) if done.code == 0 else None


def parse_settings(listed: bytes) -> tuple[Setting, ...]:
    """The settings in the output of `git config -z --list`."""
    found = []
    for entry in listed.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        key, _newline, value = entry.partition("\n")
        found.append((key, value))
    return tuple(found)


def first_dangerous(data: bytes, program: str | None, accepted: Iterable[Setting] = ()) -> str | None:
    """The first key in a configuration that is not harmless and not among `accepted`; None if there is none."""
    settings = list_settings(data, program)
    if settings is None:
        return "a line that git cannot read"
    known = set(accepted)
    return next((key for key, value in settings if not harmless(key, value) and (key, value) not in known), None)


def git_programs(root: Path) -> Iterator[str]:
    """Settings and hooks by which git runs programs in the repository of a folder, as lines for the user. Blocking."""
    if not os.path.lexists(root / ".git"):
        return
    program = git_program((str(root),))
    try:
        if program is None:
            raise FileNotFoundError("git")
        listed = run_git(program, ("config", "-z", "--list"), root, _SECONDS)
        found = run_git(program, ("rev-parse", "--git-common-dir"), root, _SECONDS)
        if listed.code != 0 or found.code != 0:
            raise OSError("git refuses the repository")
        hooks = root / os.fsdecode(found.output.removesuffix(b"\n")) / "hooks"
        names = sorted(path.name for path in hooks.iterdir()) if hooks.is_dir() else []
    except OSError:
        yield "a repository that git cannot read"
        return
    for key, value in parse_settings(listed.output):
        if not harmless(key, value) and f"{key}={value}" not in OWN_SETTINGS:
            yield f"{key} = {value}"
    yield from (f"hooks/{name}" for name in names if not name.endswith(".sample") and os.access(hooks / name, os.X_OK))
