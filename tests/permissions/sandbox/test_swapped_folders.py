"""A command swaps what the next sandbox mounts for a link: the link is never followed."""

from __future__ import annotations

import pytest

from tests.permissions.sandbox.box import Box

pytestmark = pytest.mark.anyio


async def test_a_link_in_place_of_the_cache_folder_of_the_home_opens_nothing(box: Box) -> None:
    (box.home / ".cache").mkdir()
    context = box.context()
    for folder in ("$C/home", "$C-home"):
        swap = f'C=$(dirname "$UV_CACHE_DIR"); mv "{folder}" "{folder}.old"; ln -sT "$HOME/other" "{folder}"'
        await box.run(swap, context=context)
        await box.run("echo evil > ~/.cache/evil", context=context)
    assert not (box.outside / "evil").exists()


async def test_a_link_in_the_cache_folder_of_the_home_does_not_keep_commands_from_starting(box: Box) -> None:
    (box.home / ".cache").mkdir()
    context = box.context()
    await box.run(f"ln -s /oldroot{box.outside}/made ~/.cache/huggingface", context=context)
    (box.home / ".cache" / "huggingface").mkdir()
    assert "fine" in str((await box.run("echo fine", context=context)).content)
    assert not (box.outside / "made").exists()
