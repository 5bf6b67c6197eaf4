"""Environment of child processes: variables known to be harmless, and those named in the settings.

All others are left out, whatever their name: a secret can have any name. A listed variable that contains a credential
anyway (a token in a proxy's URL, a key under a tool's prefix) is left out or cleaned.

| named by                              | passes                                                  |
|---------------------------------------|---------------------------------------------------------|
| the tables below                      | unless its name or its value looks like a secret        |
| a pattern in `sandbox.env`, or `env`  | the same; `env` also serves agentcli's own requests     |
| its full name in `sandbox.env`        | always, except `_NEVER`                                 |
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping

from agentcli.core.frozen import frozen
from agentcli.core.text.secret_text import (
    assigns_secret,
    holds_secret,
    is_random,
    is_secret_name,
    proxy_without_credentials,
    without_url_credentials,
)

_ESSENTIAL = frozenset(
    {"PATH", "HOME", "PWD", "OLDPWD", "USER", "LOGNAME", "SHELL", "SHLVL"}
    | {"TMPDIR", "TMP", "TEMP", "LANG", "TZ", "TERM"}
)
"""Passed without checks: nothing works without them, and a folder name may look like a secret."""

_SYSTEM = """
    LANGUAGE TZDIR TERMINFO TERMINFO_DIRS TERM_PROGRAM TERM_PROGRAM_VERSION COLORTERM COLORFGBG NO_COLOR FORCE_COLOR
    CLICOLOR CLICOLOR_FORCE LS_COLORS LSCOLORS MANPATH INFOPATH HOSTTYPE OSTYPE MACHTYPE MAIL NAME HISTCONTROL
    SYSTEMROOT COMSPEC PATHEXT WSL_DISTRO_NAME WSLENV SUDO_USER SHLVL HOSTNAME container
    XDG_CACHE_HOME XDG_CONFIG_DIRS XDG_CONFIG_HOME XDG_CURRENT_DESKTOP XDG_DATA_DIRS XDG_DATA_HOME XDG_RUNTIME_DIR
    XDG_SESSION_TYPE XDG_STATE_HOME XDG_BIN_HOME
    DISPLAY WAYLAND_DISPLAY XAUTHORITY DBUS_SESSION_BUS_ADDRESS SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO GPG_TTY
    GNUPGHOME DOCKER_HOST DOCKER_CONTEXT DOCKER_CONFIG DOCKER_BUILDKIT COMPOSE_FILE COMPOSE_PROJECT_NAME
    BUILDKIT_PROGRESS CONTAINER_HOST KUBECONFIG TMUX STY
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO AWS_CA_BUNDLE
    PIP_CERT CARGO_HTTP_CAINFO NIX_SSL_CERT_FILE DENO_CERT DENO_TLS_CA_STORE
    HTTPLIB2_CA_CERTS GRPC_DEFAULT_SSL_ROOTS_FILE_PATH CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE TF_CLI_CONFIG_FILE
    NIX_PATH NIX_PROFILES NIX_REMOTE NIX_STORE LOCALE_ARCHIVE IN_NIX_SHELL FONTCONFIG_FILE FONTCONFIG_PATH
    HOMEBREW_PREFIX HOMEBREW_CELLAR HOMEBREW_REPOSITORY GUIX_PROFILE SOURCE_DATE_EPOCH
    CUDA_HOME CUDA_PATH CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES ROCM_PATH HIP_VISIBLE_DEVICES
"""
_CONTINUOUS_INTEGRATION = """
    CI BUILD_ID BUILD_NUMBER BUILD_URL CONTINUOUS_INTEGRATION GITHUB_ACTIONS GITHUB_WORKSPACE GITHUB_REF GITHUB_REF_NAME
    GITHUB_SHA GITHUB_REPOSITORY GITHUB_EVENT_NAME GITHUB_RUN_ID GITHUB_RUN_NUMBER GITHUB_JOB GITHUB_HEAD_REF
    GITHUB_BASE_REF RUNNER_OS RUNNER_ARCH RUNNER_TEMP RUNNER_TOOL_CACHE GITLAB_CI CI_COMMIT_SHA CI_COMMIT_BRANCH
    CI_COMMIT_REF_NAME CI_PROJECT_DIR CI_PROJECT_PATH CI_PIPELINE_ID CI_JOB_ID CIRCLECI CIRCLE_SHA1 CIRCLE_BRANCH TRAVIS
    BUILDKITE JENKINS_URL TF_BUILD TEAMCITY_VERSION DEBIAN_FRONTEND GITPOD_WORKSPACE_ID CODESPACES CODESPACE_NAME
"""
_BUILDS = """
    CC CXX CPP FC F77 LD AR AS NM RANLIB STRIP OBJCOPY OBJC CFLAGS CXXFLAGS CPPFLAGS FFLAGS LDFLAGS LDLIBS LIBS ARFLAGS
    ARCHFLAGS CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH SDKROOT DEVELOPER_DIR MACOSX_DEPLOYMENT_TARGET
    PKG_CONFIG PKG_CONFIG_PATH PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR ACLOCAL_PATH MAKEFLAGS MAKELEVEL MFLAGS
    DESTDIR PREFIX CROSS_COMPILE ARCH CMAKE_PREFIX_PATH CMAKE_GENERATOR CMAKE_BUILD_TYPE CMAKE_BUILD_PARALLEL_LEVEL
    CMAKE_C_COMPILER CMAKE_CXX_COMPILER CMAKE_TOOLCHAIN_FILE CTEST_OUTPUT_ON_FAILURE CTEST_PARALLEL_LEVEL
    NINJA_STATUS MESON_ARGS VCPKG_ROOT CONAN_HOME CONAN_USER_HOME BAZELISK_HOME USE_BAZEL_VERSION
    CCACHE_DIR CCACHE_BASEDIR CCACHE_MAXSIZE CCACHE_COMPILERCHECK SCCACHE_DIR SCCACHE_CACHE_SIZE DISTCC_DIR
    VERBOSE DEBUG V LOG_LEVEL LOGLEVEL ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS LSAN_OPTIONS MSAN_OPTIONS
    OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS NUMEXPR_NUM_THREADS TOKENIZERS_PARALLELISM
    PLAYWRIGHT_BROWSERS_PATH PUPPETEER_EXECUTABLE_PATH PUPPETEER_CACHE_DIR CHROME_BIN CHROME_PATH CYPRESS_CACHE_FOLDER
    HF_HOME TORCH_HOME ANDROID_HOME ANDROID_SDK_ROOT ANDROID_NDK_HOME ANDROID_NDK_ROOT ANDROID_USER_HOME
"""
_LANGUAGES = """
    VIRTUAL_ENV VIRTUAL_ENV_PROMPT PYENV_ROOT PYENV_VERSION PYENV_SHELL PIPX_HOME PIPX_BIN_DIR PIPENV_PIPFILE
    WORKON_HOME
    PYTHONPATH PYTHONHOME PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONIOENCODING PYTHONUTF8 PYTHONHASHSEED
    PYTHONWARNINGS PYTHONFAULTHANDLER PYTHONNOUSERSITE PYTHONUSERBASE PYTHONOPTIMIZE PYTHONPYCACHEPREFIX PYTHONDEVMODE
    PYTHONASYNCIODEBUG PYTHONTRACEMALLOC PYTHONMALLOC PYTHONSAFEPATH PYTHONCOERCECLOCALE PYTHON_GIL
    DJANGO_SETTINGS_MODULE FLASK_APP FLASK_ENV FLASK_DEBUG TOX_WORK_DIR NOX_DEFAULT_VENV_BACKEND
    NODE_ENV NODE_PATH NODE_OPTIONS NODE_NO_WARNINGS NODE_VERSION NODE_DEBUG NVM_DIR NVM_BIN NVM_INC FNM_DIR
    FNM_MULTISHELL_PATH N_PREFIX VOLTA_HOME COREPACK_HOME PNPM_HOME BUN_INSTALL BUN_INSTALL_CACHE_DIR DENO_DIR
    DENO_INSTALL YARN_CACHE_FOLDER YARN_GLOBAL_FOLDER NX_DAEMON TURBO_TELEMETRY_DISABLED NEXT_TELEMETRY_DISABLED
    GOPATH GOROOT GOBIN GOCACHE GOMODCACHE GOFLAGS GOOS GOARCH GOARM GOAMD64 GOPROXY GONOPROXY GOSUMDB GONOSUMDB
    GOPRIVATE GOINSECURE GOTOOLCHAIN GOWORK GOENV GOEXPERIMENT GODEBUG GOMAXPROCS GOGC GOMEMLIMIT GO111MODULE GOTMPDIR
    CGO_ENABLED CGO_CFLAGS CGO_CXXFLAGS CGO_LDFLAGS
    CARGO RUSTUP_HOME RUSTUP_TOOLCHAIN RUSTUP_DIST_SERVER RUSTFLAGS RUSTDOCFLAGS RUSTC RUSTC_WRAPPER RUST_BACKTRACE
    RUST_LOG RUST_MIN_STACK RUST_TEST_THREADS
    JAVA_HOME JDK_HOME JRE_HOME JAVA_OPTS JDK_JAVA_OPTIONS CLASSPATH MAVEN_HOME M2_HOME MAVEN_OPTS MAVEN_ARGS ANT_HOME
    ANT_OPTS GRADLE_HOME GRADLE_USER_HOME GRADLE_OPTS KOTLIN_HOME SCALA_HOME SBT_OPTS SBT_HOME COURSIER_CACHE
    LEIN_HOME GROOVY_HOME SDKMAN_DIR
    GEM_HOME GEM_PATH RUBY_ROOT RUBY_ENGINE RUBY_VERSION RUBYLIB RBENV_ROOT RBENV_VERSION RBENV_SHELL rvm_path
    rvm_prefix
    rvm_bin_path rvm_version BUNDLE_PATH BUNDLE_GEMFILE BUNDLE_JOBS BUNDLE_WITHOUT BUNDLE_FROZEN RAILS_ENV RACK_ENV
    PERL5LIB PERL_LOCAL_LIB_ROOT PERL_MB_OPT PERL_MM_OPT COMPOSER_HOME COMPOSER_CACHE_DIR COMPOSER_ALLOW_SUPERUSER
    PHP_INI_SCAN_DIR PHPRC APP_ENV
    DOTNET_ROOT DOTNET_CLI_HOME DOTNET_CLI_TELEMETRY_OPTOUT DOTNET_NOLOGO DOTNET_ROLL_FORWARD NUGET_PACKAGES MSBUILD
    ASPNETCORE_ENVIRONMENT DOTNET_ENVIRONMENT
    MIX_ENV MIX_HOME HEX_HOME ERL_LIBS ERL_AFLAGS ELIXIR_ERL_OPTIONS KERL_BASE_DIR STACK_ROOT GHCUP_INSTALL_BASE_PREFIX
    CABAL_DIR OPAMROOT OPAMSWITCH OPAM_SWITCH_PREFIX OCAML_TOPLEVEL_PATH CAML_LD_LIBRARY_PATH OCAMLPATH R_HOME R_LIBS
    R_LIBS_USER JULIA_DEPOT_PATH JULIA_PROJECT JULIA_NUM_THREADS LUA_PATH LUA_CPATH ZIG_GLOBAL_CACHE_DIR
    ZIG_LOCAL_CACHE_DIR SWIFTLY_HOME_DIR FLUTTER_ROOT PUB_CACHE DART_SDK EMSDK EMSDK_NODE WASMTIME_HOME
    ASDF_DIR ASDF_DATA_DIR MISE_DATA_DIR MISE_CONFIG_DIR MISE_SHELL PROTO_HOME DIRENV_DIR PRE_COMMIT_HOME
    PRE_COMMIT_COLOR
"""
_SERVICES = """
    AWS_PROFILE AWS_REGION AWS_DEFAULT_REGION AWS_DEFAULT_PROFILE AWS_CONFIG_FILE AWS_SDK_LOAD_CONFIG AWS_PAGER
    CLOUDSDK_CONFIG CLOUDSDK_CORE_PROJECT GOOGLE_CLOUD_PROJECT GCLOUD_PROJECT AZURE_CONFIG_DIR TF_PLUGIN_CACHE_DIR
    TF_DATA_DIR TF_LOG TF_IN_AUTOMATION TF_INPUT HELM_HOME
    PGHOST PGPORT PGUSER PGDATABASE PGDATA MYSQL_HOST MYSQL_TCP_PORT REDIS_HOST REDIS_PORT
    GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE
    GIT_CEILING_DIRECTORIES GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_NOSYSTEM GIT_DISCOVERY_ACROSS_FILESYSTEM
    GIT_DEFAULT_HASH GIT_LFS_SKIP_SMUDGE GIT_MERGE_AUTOEDIT GIT_TRACE
    EMAIL DEBEMAIL DEBFULLNAME
    PORT HOST no_proxy NO_PROXY
"""
_LISTED = _ESSENTIAL | frozenset(" ".join((_SYSTEM, _CONTINUOUS_INTEGRATION, _BUILDS, _LANGUAGES, _SERVICES)).split())
_FAMILIES: tuple[str, ...] = (
    *("LC_", "AGENTCLI_", "CONDA_", "MAMBA_", "PIP_", "UV_", "POETRY_", "PDM_", "HATCH_", "PYTEST_", "COV_"),
    *("COVERAGE_", "MYPY_", "RUFF_", "BLACK_", "npm_config_", "NPM_CONFIG_", "YARN_", "PNPM_", "VITE_"),
    *("JEST_", "VITEST_", "ESLINT_", "CARGO_", "MAVEN_", "ORG_GRADLE_", "NIX_CFLAGS_", "NIX_LDFLAGS"),
    *("CMAKE_", "NINJA_", "RUSTUP_", "CCACHE_", "VCPKG_", "ASDF_", "MISE_", "HOMEBREW_NO_"),
    *("TEST_", "RSPEC_", "PHPUNIT_"),
)
"""Variable prefixes of single tools; secrets among them (`CARGO_REGISTRY_TOKEN`) are detected by name."""
_PROXIES = frozenset(
    name
    for base in ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "rsync_proxy")
    for name in (base, base.upper())
)

_NEVER = frozenset(
    {"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "PS4", "IFS", "CDPATH", "GLOBIGNORE", "EXECIGNORE"}
    | {"POSIXLY_CORRECT", "TAR_OPTIONS", "RIPGREP_CONFIG_PATH", "GREP_OPTIONS", "LESSOPEN", "LESSCLOSE", "COLUMNS"}
    | {"LINES", "LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"}
)
"""Variables with code that a shell runs automatically, or options that change how it parses the approved command."""
_FUNCTION = "BASH_FUNC_"
"""Prefix of exported shell functions, which are never passed either."""
_SET = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # An editor without a terminal hangs or fails; `true` accepts the prepared text unchanged.
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "SSH_ASKPASS_REQUIRE": "never",
}


@frozen
class PassedVariables:
    """Variables that the settings pass to commands, in addition to those listed here."""

    names: frozenset[str] = frozenset()
    """Names passed with any value."""
    patterns: tuple[str, ...] = ()
    """Name patterns, passed unless they look like a secret; `*` matches any characters."""

    @classmethod
    def from_settings(cls, named: Iterable[str], given: Iterable[str]) -> PassedVariables:
        """`named`: the setting `sandbox.env`; `given`: the variables in the setting `env`."""
        named = tuple(named)
        return cls(
            frozenset(name for name in named if "*" not in name),
            (*(name for name in named if "*" in name), *given),
        )


NO_FURTHER = PassedVariables()


def child_environment(environ: Mapping[str, str], passed: PassedVariables = NO_FURTHER) -> dict[str, str]:
    """The part of `environ` that commands get. Idempotent."""
    kept: dict[str, str] = {}
    for name, value in environ.items():
        if name in _ESSENTIAL:
            kept[name] = value
        elif name in _NEVER or name.startswith(_FUNCTION):
            continue
        elif name in passed.names:
            kept[name] = value
        elif name in _PROXIES:
            kept[name] = proxy_without_credentials(value)
        elif name not in _LISTED and (not _is_of_family(name, passed.patterns) or is_secret_name(name)):
            continue
        elif (cleaned := _without_secrets(value)) is not None:
            kept[name] = cleaned
    return quiet_environment(kept)


def quiet_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with pagers, editors and prompts turned off: a child has no terminal."""
    return {**environ, **_SET}


def _without_secrets(value: str) -> str | None:
    cleaned = without_url_credentials(value)
    if cleaned is None or holds_secret(cleaned) or assigns_secret(cleaned) or is_random(cleaned):
        return None
    return cleaned


def _is_of_family(name: str, patterns: tuple[str, ...]) -> bool:
    return name.startswith(_FAMILIES) or (bool(patterns) and _expression(patterns).fullmatch(name) is not None)


@functools.lru_cache(maxsize=8)
def _expression(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns), re.DOTALL)


_HARMLESS_GIT = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "diff.autoRefreshIndex": "false",
    "diff.submodule": "short",
    "status.submoduleSummary": "false",
    "log.showSignature": "false",
}


def harmless_git() -> dict[str, str]:
    """Variables that stop git from running hooks and helpers, and from fetching missing objects of a partial clone, for
    a read-only command, also in submodules."""
    found = {"GIT_CONFIG_COUNT": str(len(_HARMLESS_GIT)), "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}
    for number, (key, value) in enumerate(_HARMLESS_GIT.items()):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found
