"""A command swaps what the next sandbox mounts for a link: the link is never followed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.core.permission import Grant
from agentcli.tools.base import ToolContext
from tests.sandbox.box import Box

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


async def test_a_working_directory_below_another_writable_folder_cannot_be_swapped(box: Box) -> None:
    project = box.home / "code" / "group" / "project"
    project.mkdir(parents=True)
    below = box.with_rules(working_dirs=(project,), allow_write=(box.home / "code",))
    context = replace(below.context(), cwd=project, working_dirs=(project,))
    await _swap_and_write(below, context, project)


async def test_a_writable_folder_below_another_one_cannot_be_swapped(box: Box) -> None:
    inner = box.home / "code" / "group" / "project"
    inner.mkdir(parents=True)
    nested = box.with_rules(allow_write=(box.home / "code", inner))
    await _swap_and_write(nested, nested.context(), inner)


async def _swap_and_write(box: Box, context: ToolContext, folder: Path) -> None:
    group = folder.parent
    await box.run(f"mv {group} {group}2; mkdir {group}; ln -s ../../other {folder}", context=context)
    await box.run(f"echo evil > {folder}/evil", context=context)
    assert not (box.outside / "evil").exists()
    assert (folder / "evil").exists()


async def test_a_link_in_place_of_the_proxys_socket_makes_no_file_elsewhere(box: Box) -> None:
    context = box.context()
    with_hosts = replace(context, grant=Grant(network="hosts", hosts=("example.org",)))
    for name in ("/tmp/.agentcli-proxy", "/dev/agentcli-proxy"):
        await box.run(f"ln -s /oldroot{box.outside}/made {name}", context=context)
        await box.run(f"rm -f {name}; ln -s /oldroot{box.outside}/made {name}", context=with_hosts)
        assert "fine" in str((await box.run("echo fine", context=with_hosts)).content)
    assert not (box.outside / "made").exists()
