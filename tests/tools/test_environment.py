from __future__ import annotations

import pytest

from agentcli.tools.environment import child_environment


@pytest.mark.parametrize(
    "name",
    [
        *("GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "NPM_TOKEN", "PYPI_TOKEN", "TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        *(
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AZURE_CLIENT_SECRET",
            "DB_PASSWORD",
            "db_password",
            "PGPASSWORD",
        ),
        *(
            "OPENAI_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "X_APIKEY",
            "DEPLOY_PRIVATE_KEY",
            "SMTP_PASSWD",
            "STRIPE_SECRET_KEY",
        ),
        *("AWS_BEARER_TOKEN_BEDROCK", "LD_PRELOAD", "BASH_ENV"),
    ],
)
def test_a_secret_is_not_inherited(name: str) -> None:
    assert name not in child_environment({name: "x"})


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "HOME",
        "AWS_ACCESS_KEY_ID",
        "MAX_THINKING_TOKENS",
        "TOKENIZERS_PARALLELISM",
        "KEY",
        "MONKEY",
        "PASSWORD_STORE_DIR",
    ],
)
def test_what_is_no_secret_is_inherited(name: str) -> None:
    assert child_environment({name: "x"})[name] == "x"
