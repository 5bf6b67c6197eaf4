"""Paths of the home folder that commands may read, and the user's secrets, which they must not be able to read.

Entries of the home folder that begin with a dot are closed unless they are known to hold no secrets; all others are the
user's own folders and stay open. Paths are relative to the home folder unless they begin with a slash.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

# A table is read along its rows.
# ruff: noqa: SIM905

READABLE: tuple[str, ...] = (
    # Languages and their packages
    *(
        ".pyenv .virtualenvs .venv .venvs .conda .mamba .micromamba .pixi .rye .ipython .cargo .rustup .npm "
        ".npm-global .nvm .fnm .volta .n .yarn .pnpm-store .bun .deno .node-gyp .node_modules .nodenv .corepack "
        ".rbenv .rvm .gem .bundle .cocoapods .phpenv .m2 .gradle .sdkman .jenv .jdks .konan .ivy2 .sbt .coursier "
        ".lein .nuget .dotnet .goenv .gvm .ghcup .cabal .stack .elan .opam .mix .hex .juliaup .julia .swiftpm "
        ".swiftly .pub-cache .dart-tool .flutter .zvm .luarocks .cpan .cpanm .perl5 .plenv .R .conan .conan2 "
        ".vcpkg .ccache .platformio .emscripten_cache"
    ).split(),
    # Managers of versions and programs
    *(
        ".asdf .proto .nix-profile .nix-defexpr .nix-channels .guix-profile .linuxbrew .local/bin .local/lib "
        ".local/lib64 .local/include .local/opt .local/pipx .local/share/pipx .local/share/uv .local/share/pnpm "
        ".local/share/mise .local/share/rtx .local/share/fnm .local/share/nvm .local/share/virtualenvs "
        ".local/share/pypoetry .local/share/hatch .local/share/rustup .local/share/gem .local/share/cargo "
        ".local/share/go .local/share/coursier .local/share/aquaproj-aqua .local/share/man "
        ".local/share/bash-completion .local/share/zsh .local/share/fonts .local/share/applications "
        ".local/share/icons .local/share/mime .local/share/jupyter/kernels .local/share/nix .docker/cli-plugins "
        ".terraform.d/plugins .terraform.d/plugin-cache"
    ).split(),
    # Settings without secrets
    *(
        ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin "
        ".oh-my-zsh .inputrc .hushlogin .dircolors .vimrc .vim .tmux.conf .screenrc .editorconfig .clang-format "
        ".clang-tidy .prettierrc .eslintrc.json .flake8 .pylintrc .gemrc .irbrc .ripgreprc .ignore .fdignore "
        ".gitignore .gitignore_global .gitattributes .gitmessage .config/git .config/mise .config/fish "
        ".config/nvim .config/ripgrep .config/bat .config/starship.toml .config/ruff .config/black .config/flake8 "
        ".config/pycodestyle .config/mypy .config/yamllint .config/pudb .config/matplotlib .config/fontconfig "
        ".config/nixpkgs .config/dprint .config/user-dirs.dirs .config/htop .config/go "
        ".config/pypoetry/config.toml .config/cargo-generate.toml .matplotlib .fonts .fontconfig .terminfo "
        ".tool-versions .python-version .node-version .nvmrc .ruby-version .java-version .default-python-packages "
        ".default-npm-packages .default-gems"
    ).split(),
    # Caches
    *(".cache .mypy_cache .ruff_cache .pytest_cache .eslintcache .parcel-cache .sonar/cache").split(),
    # A repository in the home folder, and what agents share
    *(".git .github .gitlab-ci.yml .gitmodules .pre-commit-config.yaml .husky .devcontainer").split(),
    # Folders of agentcli, which further rules close in part
    *(
        ".config/agentcli .local/state/agentcli .local/share/agentcli .agentcli .agents .mcp.json .claude/skills "
        ".claude/commands .claude/agents .claude/CLAUDE.md"
    ).split(),
)
"""Entries that commands may read, without `CLOSED`."""

CLOSED: tuple[str, ...] = (
    *(".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".local/share/gem/credentials"),
    *(".local/share/cargo/credentials", ".local/share/cargo/credentials.toml", ".local/share/uv/credentials"),
    *(".m2/settings-security.xml", ".hex/hex.config", ".pub-cache/credentials.json", ".ivy2/.credentials"),
    *(".sbt/.credentials", ".conan2/credentials.json", ".config/git/credentials", ".config/fish/fish_variables"),
    *(".ipython/profile_default/history.sqlite", ".ipython/profile_default/security", ".vim/.netrwhist"),
    *(".cache/huggingface/token", ".cache/huggingface/stored_tokens", "Library/Keychains", "Library/Cookies"),
    *("Library/Application Support/Google/Chrome", "Library/Application Support/Firefox"),
)
"""Secrets inside readable folders."""

EMPTY: tuple[str, ...] = (
    *(".m2/settings.xml", ".nuget/NuGet/NuGet.Config", ".config/NuGet/NuGet.Config"),
    *(".netrc", ".npmrc", ".pypirc", ".yarnrc.yml", ".docker/config.json", ".config/pip/pip.conf"),
    *(".gradle/gradle.properties", ".terraformrc", ".s3cfg", ".boto", ".databrickscfg", ".config/uv/uv.toml"),
    *(".pip/pip.conf", ".composer/auth.json", ".config/composer/auth.json", ".bundle/config", ".netrc.gpg"),
    *(".curlrc", ".wgetrc", ".condarc", ".yarnrc", ".authinfo", ".config/hub.yml"),
    *(".bunfig.toml", ".config/nix/nix.conf"),
)
"""Files with settings besides their secrets, which programs fail without. Commands see them empty, or without the
secrets if `filtered_files` knows the format."""

FILTERED_ONLY: tuple[str, ...] = (".gitconfig", ".config/git/config", ".cargo/config.toml", ".cargo/config")
"""Mostly settings, which every command may see; secrets in them are removed where the sandbox supports it."""

_NAMED = frozenset((*EMPTY, *FILTERED_ONLY))
_READABLE = frozenset(READABLE)
_PARENTS = (
    frozenset(
        "/".join(parts[:length])
        for name in (*READABLE, *_NAMED)
        for parts in (name.split("/"),)
        for length in range(1, len(parts))
    )
    - _READABLE
)
"""Folders of which only some entries are readable."""

SYSTEM: tuple[str, ...] = ("/etc/shadow", "/etc/shadow-", "/etc/ssh")
"""Readable only by root, the usual user in many containers."""

VARIABLES: tuple[str, ...] = (
    *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "XAUTHORITY", "DISPLAY"),
    *("WAYLAND_DISPLAY", "TMUX", "STY", "DOCKER_HOST", "VSCODE_IPC_HOOK_CLI"),
)
"""Variables that give access to helpers outside the sandbox, which could act for a command."""


def list_closed_at_home(home: str, working_dirs: Iterable[Path] = ()) -> Iterator[str]:
    """Existing paths in a home folder that commands cannot open, without those that contain a working directory, where
    the user chose to work. Links are not resolved."""
    worked_in = tuple(f"{folder}/" for folder in working_dirs)
    yield from (path for name in CLOSED if os.access(path := f"{home}/{name}", os.F_OK))
    pending = [""]
    while pending:
        prefix = pending.pop()
        try:
            names = os.listdir(f"{home}/{prefix}")  # noqa: PTH208 - before every command
        except OSError:
            continue
        for name in names:
            inner = f"{prefix}{name}"
            if inner in _PARENTS:
                pending.append(f"{inner}/")
            elif inner[0] == "." and inner not in _READABLE and inner not in _NAMED:
                path = f"{home}/{inner}"
                if not any(folder.startswith(f"{path}/") for folder in worked_in):
                    yield path


def holds_credentials(path: str, home: str) -> bool:
    """Whether a path, which need not exist, is closed to commands, or shown to them without secrets."""
    inner = path.removeprefix(f"{home}/")
    if inner == path:
        return False
    parts = inner.split("/")
    above = {"/".join(parts[:length]) for length in range(1, len(parts) + 1)}
    if not above.isdisjoint((*CLOSED, *EMPTY)):
        return True
    return inner[0] == "." and inner not in _PARENTS and above.isdisjoint((*_READABLE, *FILTERED_ONLY))
