"""What child processes see of the environment (S11): no secrets, nothing that makes other code run inside them.

A secret is known by its name: what ends in TOKEN, SECRET, PASSWORD, API_KEY and the like is left out, whatever it is
for. So a command that needs one (`gh`, `npm publish`) has to be run by the person; nothing can be let through.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_LEFT_OUT = re.compile(
    r"(?i:(?:.*_)?(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|SECRET_ACCESS_KEY|SECRET_KEY|PRIVATE_KEY))"
    r"|ANTHROPIC_CUSTOM_HEADERS|AWS_BEARER_TOKEN_BEDROCK|PGPASSWORD|MYSQL_PWD|REDISCLI_AUTH|LD_.*|DYLD_.*"
    # Code that a shell, git or rg would run or obey unasked; a proof that a command only reads would be void.
    r"|BASH_ENV|ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|GIT_ASKPASS|SSH_ASKPASS|GIT_EXTERNAL_DIFF"
    r"|CDPATH|GLOBIGNORE|TAR_OPTIONS|RIPGREP_CONFIG_PATH|GREP_OPTIONS|LESSOPEN|LESSCLOSE|COLUMNS|LINES"
)
_SET = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # An editor without a terminal waits for ever or fails in its own way; so the prepared text is taken as it is.
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "SSH_ASKPASS_REQUIRE": "never",
}


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Idempotent: what has been through here already comes out the same."""
    return quiet_environment({name: value for name, value in environ.items() if not _LEFT_OUT.fullmatch(name)})


def quiet_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """All of it, with pagers, editors and prompts turned off: there is no terminal behind a child."""
    return {**environ, **_SET}
