"""Names of files and folders that other programs run or obey. The only table, for permissions and the sandbox.

| tier   | file tools and file commands | commands in the sandbox         | examples                      |
|--------|------------------------------|---------------------------------|-------------------------------|
| fixed  | ask in every mode but bypass | cannot change existing ones     | `.git`, `.vscode`, `.envrc`   |
| asking | the same                     | may: installing packages has to | `node_modules/.bin`, `.npmrc` |

A command that only names a path of the asking tier does not need approval for that: `.venv/bin/pytest` is how tests are
run. All names are lower case and compared in lower case: some file systems do not distinguish `.GIT` and `.git`.
"""

from __future__ import annotations

import itertools
import re

from agentcli.core.text.patterns import lazy_pattern

FIXED_FOLDERS: tuple[str, ...] = (".agentcli", ".claude", ".agents", ".vscode", ".idea", ".husky")
"""In addition to `.git`, whose contents the sandbox protects one by one."""
FIXED_FILES: tuple[str, ...] = (".mcp.json", ".envrc")

_FIXED_ANYWHERE = frozenset({".git", *FIXED_FOLDERS})
_FIXED_NAMES = frozenset(
    {*FIXED_FILES, ".profile", ".login", ".inputrc", ".gitconfig", ".gitmodules", "config.fish"}
    | {".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".kshrc", ".cshrc", ".tcshrc"}
    | {".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout"}
)

ASKING_FOLDERS: frozenset[str] = frozenset(
    # Editors and agents: tasks, servers to start, commands that run without approval.
    {".cursor", ".devcontainer", ".zed", ".windsurf", ".fleet", ".nova", ".continue", ".roo", ".clinerules", ".kiro"}
    | {".junie", ".trae", ".augment", ".amazonq", ".opencode", ".gemini", ".codex", ".aider", ".kilocode", ".theia"}
    | {".vs", ".mise"}
    # Hooks, CI builds, and files that package managers load.
    | {".githooks", ".git-hooks", ".lefthook", ".lefthook-local", ".circleci", ".buildkite", ".woodpecker", ".mvn"}
    | {"site-packages", "dist-packages"}
)
ASKING_PATHS: frozenset[tuple[str, str]] = frozenset(
    {("node_modules", ".bin"), (".github", "workflows"), (".github", "actions"), ("gradle", "wrapper")}
    | {(".yarn", "releases"), (".yarn", "plugins"), (".bundle", "config")}
    | {(".cargo", "config"), (".cargo", "config.toml")}
    | {(env, scripts) for env in (".venv", "venv", "env", ".env", "virtualenv") for scripts in ("bin", "scripts")}
)
"""Two consecutive path components."""
ASKING_FILES: frozenset[str] = frozenset(
    {".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "pnpmfile.js", "bunfig.toml", ".pypirc", "pip.conf"}
    | {".condarc", ".gemrc", ".bazelrc", ".curlrc", ".wgetrc", ".netrc", ".mise.toml", "mise.toml", ".direnvrc"}
    | {"pyvenv.cfg", ".pre-commit-config.yaml", ".pre-commit-config.yml", ".pre-commit-hooks.yaml", "sitecustomize.py"}
    | {"usercustomize.py", ".cursorrules", ".windsurfrules", ".clinerules", "jenkinsfile", ".gitlab-ci.yml"}
    | {".gitlab-ci.yaml", ".travis.yml", ".drone.yml", ".cirrus.yml", "azure-pipelines.yml", "bitbucket-pipelines.yml"}
    | {"appveyor.yml", ".appveyor.yml", ".woodpecker.yml", ".gdbinit", ".lldbinit", ".vimrc", ".nvimrc", ".exrc"}
    | {".nvim.lua", ".dir-locals.el", ".emacs", ".screenrc", ".tmux.conf", ".devcontainer.json"}
    | {".dir-locals-2.el", ".lvimrc", ".lazy.lua", ".ycm_extra_conf.py", "opencode.json", "opencode.jsonc"}
    | {"crush.json", ".crush.json", "mise.local.toml", ".mise.local.toml", ".overcommit.yml", "captainhook.json"}
    # Interpreters run these when they start in the folder.
    | {".rprofile", ".renviron", ".irbrc", ".pryrc", ".pdbrc", ".octaverc", ".psqlrc", ".sqliterc"}
)
_ASKING_NAMES = lazy_pattern(
    r".*\.pth|.*\.code-workspace|\.?lefthook(?:-local)?\.(?:ya?ml|toml|json)|\.huskyrc(?:\..*)?|\.aider.*"
    r"|\.?simple-git-hooks\..*|\.lintstagedrc(?:\..*)?|lint-staged\.config\..*",
    re.DOTALL,
)
_INSTALLED = frozenset({"site-packages", "dist-packages", "pyvenv.cfg", ".netrc", ".emacs", ".vimrc", ".screenrc"})
_INSTALLED_IN = frozenset({"node_modules", ".venv", "venv", "env", ".env", "virtualenv"})
OBEYED_AT_THE_TOP: tuple[str, ...] = tuple(
    sorted(
        {*((ASKING_FOLDERS | ASKING_FILES) - _INSTALLED), "lefthook.yml", ".lefthook.yml", "Jenkinsfile"}
        | {"/".join(path) for path in ASKING_PATHS if path[0] not in _INSTALLED_IN}
    )
)
"""Names of the asking tier that no command needs to write for its work: in auto mode commands cannot."""
_ACTIVATE = lazy_pattern(r"(?:activate(?:\.\w+)?|activate_this\.py)")


def is_fixed(components: list[str]) -> bool:
    """Whether a path belongs to the fixed tier. `components`: lower case, not empty."""
    return components[-1] in _FIXED_NAMES or not _FIXED_ANYWHERE.isdisjoint(components)


def needs_asking(components: list[str]) -> bool:
    """Whether a path belongs to the asking tier. `components`: lower case, not empty."""
    name = components[-1]
    if name in ASKING_FILES or not ASKING_FOLDERS.isdisjoint(components) or _ASKING_NAMES.fullmatch(name):
        return True
    if not ASKING_PATHS.isdisjoint(itertools.pairwise(components)):
        return True
    return components[-2:-1] in (["bin"], ["scripts"]) and _ACTIVATE.fullmatch(name) is not None
