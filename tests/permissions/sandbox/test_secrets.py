"""Each place where secrets are known to lie, looked at from inside."""

from __future__ import annotations

import pytest

from agentcli.permissions.sandbox.secrets import EMPTY, UNREADABLE
from tests.permissions.sandbox.box import SECRET, Box

pytestmark = pytest.mark.anyio

FILES = (
    *(".config/containers/auth.json", ".config/github-copilot/apps.json", ".config/Code/User/settings.json"),
    *(".m2/settings.xml", ".gradle/gradle.properties", ".cache/huggingface/token", ".local/share/opencode/auth.json"),
    *(".gemini/oauth_creds.json", ".s3cfg", ".boto", ".databrickscfg", ".kaggle/kaggle.json", ".terraformrc"),
    *(".claude.json", ".aws/credentials", ".npmrc"),
)


async def test_no_known_secret_can_be_read(box: Box) -> None:
    for name in FILES:
        path = box.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SECRET)
    (box.home / ".cache" / "huggingface" / "model").write_text("readable")
    for name in FILES:
        assert SECRET not in await box.text(f"cat {box.home}/{name} 2>&1; true"), name
    assert SECRET not in await box.text(f"grep -r . {box.home} 2>&1; true")
    assert await box.text(f"cat {box.home}/.cache/huggingface/model") == "readable"


def test_no_place_is_named_twice() -> None:
    names = (*UNREADABLE, *EMPTY)
    assert len(set(names)) == len(names)
