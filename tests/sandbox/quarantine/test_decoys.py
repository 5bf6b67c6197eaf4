"""A planted repository hidden among more folders than the first search covers is still found."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from agentcli.sandbox.linux.bubblewrap import BubblewrapLauncher
from agentcli.sandbox.quarantine import guard, inventory
from agentcli.sandbox.quarantine.guard import LateSearch
from agentcli.sandbox.quarantine.store import Quarantine
from tests.sandbox.box import Box

pytestmark = pytest.mark.anyio

DECOYS = "mkdir -p many/d{0..39}"
PLACE = "many/d39/zz"


def plant(ran: Path, place: str = PLACE) -> str:
    """A bare repository whose settings run a program."""
    head, config = "ref: refs/heads/m", f"[core]\\n\\tfsmonitor = touch {ran}\\n"
    return f"mkdir -p {place}/{{objects,refs}}; echo {head} > {place}/HEAD; printf '{config}' > {place}/config"


def taken(box: Box) -> set[str]:
    return {str(Path(item.path).relative_to(box.project)) for item in Quarantine(box.quarantine).items()}


def notices(launcher: BubblewrapLauncher) -> str:
    return "\n".join(iter(launcher.take_notice, None))


@pytest.fixture(autouse=True)
def few_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "MAX_FOLDERS", 20)
    monkeypatch.setattr(inventory, "MAX_SECONDS", 20.0)


@pytest.fixture
def no_late_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it were never quick enough."""
    monkeypatch.setattr(LateSearch, "_start", lambda _self: None)


async def test_a_repository_behind_decoys_is_found_in_the_background(box: Box) -> None:
    ran = box.root / "ran"
    launcher = box.launcher()
    output = await box.run(f"{DECOYS}; {plant(ran)}", context=box.context(launcher))
    assert any("Do not run git in them until the search has ended" in text for text in output.notices)
    launcher.close()
    assert {f"{PLACE}/HEAD", f"{PLACE}/config"} <= taken(box)
    subprocess.run(["git", "status"], cwd=box.project / PLACE, capture_output=True, check=False)
    assert not ran.exists()
    told = notices(launcher)
    assert f"{PLACE}/config was moved to quarantine" in told
    assert told.endswith("The search for planted repositories has finished.")


async def test_in_strict_mode_the_command_ends_with_its_search(box: Box) -> None:
    strict = box.with_rules(network=False, strict=True)
    output = await strict.run(f"{DECOYS}; {plant(box.root / 'ran')}")
    assert f"{PLACE}/config was moved to quarantine" in str(output.content)


async def test_a_repository_uncovered_by_the_next_command_is_not_mistaken_for_an_old_one(
    box: Box, no_late_search: None
) -> None:
    context = box.context()
    await box.run("true", context=context)
    await box.run(f"{DECOYS}; {plant(box.root / 'ran')}; sleep 0.02", context=context)
    assert taken(box) == set()
    await box.run("rm -rf many/d?; rm -rf many/d[12]?", context=context)
    assert f"{PLACE}/config" in taken(box)


async def test_a_changed_repository_behind_decoys_gets_its_configuration_back(box: Box, no_late_search: None) -> None:
    nested = box.project / "vendor" / "nested"
    nested.mkdir(parents=True)
    box.git("init", "-q", str(nested))
    before = (nested / ".git" / "config").read_bytes()
    context = box.context()
    await box.run("true", context=context)
    await box.run(f"{DECOYS}; echo '[core] fsmonitor = evil' >> vendor/nested/.git/config", context=context)
    assert (nested / ".git" / "config").read_bytes() != before
    await box.run("rm -rf many", context=context)
    assert (nested / ".git" / "config").read_bytes() == before


async def test_in_a_large_project_changed_folders_are_searched_first(box: Box, no_late_search: None) -> None:
    (box.project / "src").mkdir()
    for number in range(40):
        (box.project / "old" / str(number)).mkdir(parents=True)
    context = box.context()
    await box.run("true", context=context)
    await box.run(plant(box.root / "ran", "src/deep/deeper"), context=context)
    assert "src/deep/deeper/config" in taken(box)


async def test_a_large_project_is_searched_to_the_end_and_reported_once(box: Box) -> None:
    for number in range(40):
        (box.project / f"old{number}" / "deep").mkdir(parents=True)
    made = inventory.change_time()
    while inventory.change_time() == made:  # else they seem to be made by the command
        await asyncio.sleep(0.001)
    launcher = box.launcher()
    context = box.context(launcher)
    first = await box.run("true", context=context)
    assert "too large to search" in str(first.content)
    second = await box.run(plant(box.root / "ran", "old3/deep/zz"), context=context)
    assert "too large" not in str(second.content)
    launcher.close()
    assert "old3/deep/zz/config" in taken(box)


async def test_files_created_by_a_later_command_during_the_search_are_checked_with_that_command(
    box: Box, no_late_search: None
) -> None:
    launcher = box.launcher()
    await box.run(DECOYS, context=box.context(launcher))
    later = launcher.launch(["git", "init", "--bare", "made"], box.project, {})
    box.git("init", "-q", "--bare", "made")
    launcher._late_search._run()
    assert taken(box) == set()
    later.close()
    assert (box.project / "made" / "HEAD").exists()


async def test_an_unfinished_search_is_reported(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MAX_FOLDERS", 30)
    launcher = box.launcher()
    await box.run(DECOYS, context=box.context(launcher))
    launcher.close()
    assert "did not finish" in notices(launcher)
