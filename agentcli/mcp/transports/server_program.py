"""The program of a stdio server, and its environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from agentcli.core.processes.orphan_processes import SESSION_VARIABLE
from agentcli.core.processes.programs import clean_search_path, find_program
from agentcli.core.text.secret_text import is_secret_name, proxy_without_credentials, without_url_credentials

_PASSED = re.compile(
    r"HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_.*|TZ|TZDIR|TMPDIR|TMP|TEMP|NO_COLOR|XDG_[A-Z]+_(?:HOME|DIRS?)"
    r"|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NODE_EXTRA_CA_CERTS|NIX_SSL_CERT_FILE|NIX_PATH"
    r"|NVM_DIR|NVM_BIN|FNM_DIR|FNM_MULTISHELL_PATH|VOLTA_HOME|PNPM_HOME|BUN_INSTALL|DENO_DIR|npm_config_.*|NPM_CONFIG_.*"
    r"|UV_.*|PIPX_HOME|PIPX_BIN_DIR|PYENV_ROOT|RBENV_ROOT|ASDF_.*|MISE_.*|CONDA_.*|CARGO_HOME|RUSTUP_HOME|GOPATH|GOROOT"
    r"|JAVA_HOME|DOTNET_ROOT|DOCKER_HOST|DOCKER_CONTEXT|DOCKER_CONFIG|KUBECONFIG|SSH_AUTH_SOCK"
    r"|DISPLAY|WAYLAND_DISPLAY|XAUTHORITY|DBUS_SESSION_BUS_ADDRESS|WSL_DISTRO_NAME|no_proxy|NO_PROXY"
)
_PROXY = re.compile(r"(?:http|https|all)_proxy", re.IGNORECASE)


def server_environment(
    environ: Mapping[str, str], given: Mapping[str, str], working_dirs: Iterable[Path]
) -> dict[str, str]:
    """The environment of a server: variables that programs need to run, without secrets, and the configuration's own.

    PATH contains no folder of the working directories: a sandboxed command could put a `node` there for a server to
    run.
    """
    kept: dict[str, str] = {}
    for name, value in environ.items():
        if _PROXY.fullmatch(name):
            kept[name] = proxy_without_credentials(value)
        elif _PASSED.fullmatch(name) and not is_secret_name(name):
            cleaned = without_url_credentials(value)
            if cleaned is not None:
                kept[name] = cleaned
    if SESSION_VARIABLE in environ:
        # An agent that started this one finds the server by its own mark.
        kept[SESSION_VARIABLE] = environ[SESSION_VARIABLE]
    return {**kept, "PATH": clean_search_path(environ.get("PATH"), working_dirs), "TERM": "dumb", **given}


def server_command(
    command: str,
    args: Iterable[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    given: Mapping[str, str],
    working_dirs: Iterable[Path],
) -> list[str]:
    """The command with an absolute path. Raises `FileNotFoundError`, whose text says what to do.

    A name is searched in PATH, but never in a working directory; a path was approved with the configuration.
    """
    if "/" not in command:
        found = find_program(command, given.get("PATH", environ.get("PATH")), working_dirs)
        if found is None:
            raise FileNotFoundError(f"{command}: no such program in PATH. Install it, or give its full path.")
        return [found, *args]
    home = environ.get("HOME", "")
    path = Path(home, command[2:]) if command.startswith("~/") and home else cwd / command
    if not os.access(path, os.X_OK) or path.is_dir():
        raise FileNotFoundError(f"{path}: no such program, or it is not executable.")
    return [os.path.abspath(path), *args]  # noqa: PTH100  links stay as they are: a virtual environment's python is one
