"""Secrets in the home folder cannot be read from inside the sandbox, known to agentcli or not; toolchains can."""

# A table is read along its rows.
# ruff: noqa: SIM905

from __future__ import annotations

import pytest

from agentcli.sandbox.secrets import CLOSED, EMPTY, FILTERED_ONLY, READABLE
from tests.sandbox.box import SECRET, Box

pytestmark = pytest.mark.anyio

FILES = """
.config/containers/auth.json .config/github-copilot/apps.json .config/Code/User/settings.json .m2/settings.xml
.gradle/gradle.properties .cache/huggingface/token .local/share/opencode/auth.json .gemini/oauth_creds.json .s3cfg
.boto .databrickscfg .kaggle/kaggle.json .terraformrc .claude.json .aws/credentials .npmrc
.config/stripe/config.toml .pulumi/credentials.json .fly/config.yml .config/netlify/config.json
.local/share/com.vercel.cli/auth.json .config/hcloud/cli.toml .dbt/profiles.yml .snowflake/config.toml
.composer/auth.json .nuget/NuGet/NuGet.Config .bundle/config .config/pypoetry/auth.toml
.config/configstore/firebase-tools.json .sentryclirc .cloudflared/cert.pem .config/argocd/config .jira.d/config.yml
.circleci/cli.yml .config/ngrok/ngrok.yml .mylogin.cnf .subversion/auth/svn.simple/x
.config/filezilla/sitemanager.xml .local/share/mkcert/rootCA-key.pem .expo/state.json .lftp/bookmarks
.minikube/ca.key .bunfig.toml .config/nix/nix.conf .local/share/fish/fish_history .config/age/keys.txt
.step/secrets/key .tsh/keys/x .pypirc .gitconfig
""".split()


async def test_no_known_secret_can_be_read(box: Box) -> None:
    for name in FILES:
        path = box.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SECRET)
    (box.home / ".cache" / "huggingface" / "model").write_text("readable")
    shown = await box.text("; ".join(f"echo {name}; cat {box.home}/{name} 2>&1" for name in FILES) + "; true")
    assert SECRET not in shown
    assert all(name in shown for name in FILES)
    assert SECRET not in await box.text(f"grep -r . {box.home} 2>&1; true")
    assert await box.text(f"cat {box.home}/.cache/huggingface/model") == "readable"


UNKNOWN = """
.jupyter/jupyter_server_config.json .config/code-server/config.yaml .vnc/passwd .config/borg/keys/x
.local/share/DBeaverData/workspace6/x .android/adbkey .cursor/auth.json .bash_history .xonsh_history
.local/share/jupyter/runtime/x.json .local/state/x/token .from-next-year/token .token .claude/x
""".split()
TOOLS = """
.cargo/bin/x .pyenv/versions/x .local/bin/x .local/share/uv/python/x .bashrc .config/git/ignore
""".split()


async def test_what_is_not_known_to_be_harmless_is_closed_and_toolchains_are_open(box: Box) -> None:
    for name, text in (*((name, SECRET) for name in UNKNOWN), *((name, "tool") for name in (*TOOLS, "notes/a.txt"))):
        (box.home / name).parent.mkdir(parents=True, exist_ok=True)
        (box.home / name).write_text(text)
    (box.home / ".to-notes").symlink_to(box.home / ".cargo")
    assert SECRET not in await box.text(f"grep -rs . {box.home} 2>&1; cat {box.home}/.token 2>&1; true")
    shown = await box.text("; ".join(f"cat {box.home}/{name}; echo" for name in (*TOOLS, "notes/a.txt")))
    assert shown.split() == ["tool"] * (len(TOOLS) + 1)


def test_no_place_is_named_twice() -> None:
    names = (*READABLE, *CLOSED, *EMPTY, *FILTERED_ONLY)
    assert len(set(names)) == len(names)
