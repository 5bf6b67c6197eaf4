from __future__ import annotations

from agentcli.tools.shell.environment import PassedVariables, child_environment
from tests.support.tables import each_row

TOKEN = "ghp_" + "a1B2" * 9


LEFT_OUT = """
    GITHUB_PAT DATABASE_URL OPENAI_KEY TOKEN_GITHUB SECRET_FOO SMTP_PASS MY_PASSPHRASE ENCRYPTION_KEY NPM_AUTH
    CI_JOB_JWT
    GITHUB_TOKEN GH_TOKEN TOKEN AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_ACCESS_KEY_ID AZURE_CLIENT_SECRET
    DB_PASSWORD db_password PGPASSWORD MYSQL_PWD REDISCLI_AUTH OPENAI_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_API_KEY
    X_APIKEY DEPLOY_PRIVATE_KEY STRIPE_SECRET_KEY AWS_BEARER_TOKEN_BEDROCK ANTHROPIC_CUSTOM_HEADERS WHATEVER_ELSE
    GOOGLE_APPLICATION_CREDENTIALS SENTRY_DSN
    CARGO_REGISTRY_TOKEN CARGO_REGISTRIES_MINE_TOKEN npm_config__auth npm_config__authToken NPM_CONFIG__PASSWORD
    POETRY_PYPI_TOKEN_MINE POETRY_HTTP_BASIC_MINE_PASSWORD UV_PUBLISH_TOKEN UV_INDEX_MINE_PASSWORD YARN_NPM_AUTH_TOKEN
    VITE_API_KEY TEST_DB_PASS
    LD_PRELOAD LD_LIBRARY_PATH BASH_ENV ENV BASH_FUNC_ls%% PROMPT_COMMAND GIT_EXTERNAL_DIFF GIT_SSH_COMMAND
    GIT_CONFIG_COUNT GIT_DIR PYTHONSTARTUP PERL5OPT RUBYOPT LESSOPEN
"""


@each_row("name", LEFT_OUT.split())
def test_a_variable_that_is_not_known_to_be_harmless_is_left_out(name: str) -> None:
    assert name not in child_environment({name: "x"})


HARMLESS = """
    PATH HOME USER LOGNAME SHELL LANG LC_ALL LC_CTYPE TZ VIRTUAL_ENV CONDA_PREFIX PYTHONPATH NODE_ENV NODE_OPTIONS
    NVM_DIR GOPATH GOROOT GOFLAGS CARGO_HOME CARGO_TARGET_DIR RUSTUP_HOME JAVA_HOME MAVEN_OPTS GRADLE_USER_HOME
    ANDROID_HOME XDG_CONFIG_HOME CC CXX CFLAGS LDFLAGS PKG_CONFIG_PATH CI SSL_CERT_FILE REQUESTS_CA_BUNDLE NO_PROXY
    PIP_INDEX_URL UV_PYTHON npm_config_registry GIT_AUTHOR_NAME AWS_PROFILE TOKENIZERS_PARALLELISM SSH_AUTH_SOCK
"""


@each_row("name", HARMLESS.split())
def test_variables_needed_by_builds_and_tools_are_passed(name: str) -> None:
    assert child_environment({name: "x"})[name] == "x"


@each_row(
    "value",
    [
        TOKEN,
        "github_pat_" + "A" * 30,
        "glpat-" + "a" * 20,
        "sk-ant-api03-" + "a" * 30,
        "sk-proj-" + "b" * 30,
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-abcdef",
        "npm_" + "a" * 36,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nabc",
        "--header 'Authorization: Bearer abcdefghijkl'",
        "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3x",
        "-Xmx2g -Djavax.net.ssl.keyStorePassword=hunter2",
        "-Dpass=hunter2",
        "-Pnexus.token=hunter2",
        "--registry=x --api-key='hunter2'",
        "DB_PASSWORD=hunter2",
    ],
)
def test_a_value_that_looks_like_a_secret_never_passes_under_a_harmless_name(value: str) -> None:
    environ = child_environment({"CFLAGS": value, "MYAPP_MODE": value}, PassedVariables(patterns=("MYAPP_*",)))
    assert "CFLAGS" not in environ
    assert "MYAPP_MODE" not in environ


@each_row(
    ("name", "value", "passed"),
    [
        ("HTTPS_PROXY", "http://user:pass@proxy.example:3128", "http://proxy.example:3128"),
        ("https_proxy", "http://user:p/a@ss@proxy.example:3128/", "http://proxy.example:3128/"),
        ("ALL_PROXY", "user:pass@proxy.example:1080", "proxy.example:1080"),
        ("http_proxy", "http://proxy.example:3128", "http://proxy.example:3128"),
        ("PIP_INDEX_URL", "https://me:secret@pypi.example/simple", "https://pypi.example/simple"),
        (
            "PIP_EXTRA_INDEX_URL",
            "https://a:b@x.example/s https://c@y.example/s",
            "https://x.example/s https://y.example/s",
        ),
        ("GOPROXY", "https://tok@go.example,direct", "https://go.example,direct"),
        ("npm_config_registry", "https://npm.example/@scope/", "https://npm.example/@scope/"),
        ("CARGO_REGISTRIES_MINE_INDEX", "ssh://git@git.example/index", "ssh://git@git.example/index"),
        ("PIP_INDEX_URL", "https://me:sec/ret@pypi.example/simple", None),
    ],
)
def test_credentials_in_urls_are_removed(name: str, value: str, passed: str | None) -> None:
    assert child_environment({name: value}).get(name) == passed


@each_row(
    "value",
    [
        "-Xmx2g -XX:+UseG1GC -Dfile.encoding=UTF-8",
        "--max-tokens=4096 --compass=north --bypass=x",
        "-Dtoken=false --tokenizer=bpe",
        "-p no:cacheprovider --session-timeout=30",
        "/opt/keys/token/bin:/usr/bin",
        "rs=0:di=01;34:*.token=01;31",
    ],
)
def test_options_without_secrets_are_passed(value: str) -> None:
    assert child_environment({"MAVEN_OPTS": value})["MAVEN_OPTS"] == value


def test_a_variable_named_in_the_settings_is_passed_with_any_value() -> None:
    passed = PassedVariables.from_settings(["GH_TOKEN", "MYAPP_*"], ["FLAVOUR", "SERVICE_TOKEN"])
    environ = {
        "GH_TOKEN": TOKEN,
        "MYAPP_MODE": "fast",
        "MYAPP_SECRET": "x",
        "MYAPPLE": "x",
        "FLAVOUR": "mint",
        "FLAVOURS": "all",
        "SERVICE_TOKEN": "x",
    }
    kept = child_environment(environ, passed)
    assert {name: kept[name] for name in environ if name in kept} == {
        "GH_TOKEN": TOKEN,
        "MYAPP_MODE": "fast",
        "FLAVOUR": "mint",
    }
    assert child_environment(kept, passed) == kept


def test_variables_that_make_a_shell_run_code_are_never_passed() -> None:
    environ = {"BASH_ENV": "/x", "LD_PRELOAD": "/x.so", "LD_LIBRARY_PATH": "/opt/lib"}
    kept = child_environment(environ, PassedVariables(names=frozenset(environ)))
    assert environ.keys() & kept.keys() == {"LD_LIBRARY_PATH"}
