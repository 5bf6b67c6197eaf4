"""Definitions of commands, skills, agents and output styles: where they come from, which wins, and trust."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentcli.config.trust import TrustStore
from agentcli.definitions.library import MAX_FILE_BYTES, MAX_FILES, DefinitionPlaces, Library


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def library(project: Path, *, trusted: bool = True, digests: dict[str, str] | None = None) -> Library:
    home = project.parent
    found = Library(DefinitionPlaces(project, home / ".config/agentcli", home, trusted, digests))
    found.refresh()
    return found


def test_commands_are_found_in_every_location_with_folders_as_namespaces(project: Path) -> None:
    write(project / ".agentcli/commands/review.md", "Review it.")
    write(project / ".claude/commands/web/page.md", "---\ndescription: A page\n---\nMake a page.")
    write(project.parent / ".config/agentcli/commands/mine.md", "# Mine\nDo it.")
    write(project.parent / ".claude/commands/theirs.md", "Do that.")
    found = library(project)
    assert list(found.commands) == ["mine", "review", "theirs", "web:page"]
    assert found.commands["web:page"].description == "A page"
    assert found.commands["mine"].description == "Mine"
    assert found.commands["mine"].origin.label == "~/.config/agentcli/commands/mine.md"
    assert found.problems == ()


def test_the_project_wins_over_the_user_and_our_folder_over_a_foreign_one(project: Path) -> None:
    for place in (".agentcli", ".claude"):
        write(project / place / "commands/x.md", place)
    write(project.parent / ".config/agentcli/commands/x.md", "user")
    assert library(project).commands["x"].body == ".agentcli"
    (project / ".agentcli/commands/x.md").unlink()
    assert library(project).commands["x"].body == ".claude"
    assert library(project, trusted=False).commands["x"].body == "user"


def test_skills_of_all_three_conventions_are_found(project: Path) -> None:
    for place in (".agentcli", ".claude", ".agents"):
        write(project / place / "skills" / place[1:] / "SKILL.md", "---\ndescription: Use it\n---\nBody")
    write(project / ".claude/skills/README.md", "no skill")
    assert list(library(project).skills) == ["agentcli", "agents", "claude"]


def test_a_skill_declares_who_may_start_it_and_its_tools(project: Path) -> None:
    text = "---\nname: Deploy\ndescription: d\nallowed-tools: Bash(make:*), Read\ndisable-model-invocation: true\n---\n"
    write(project / ".claude/skills/ship/SKILL.md", text)
    skill = library(project).skills["deploy"]
    assert (skill.for_model, skill.for_user, skill.allowed_tools) == (False, True, ("Bash(make:*)", "Read"))
    assert skill.folder == project / ".claude/skills/ship"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("skills/x/SKILL.md", "Body", "description"),
        ("agents/x.md", "Body", "description"),
        ("agents/x.md", "---\ndescription: d\n---\n", "system prompt"),
        ("agents/x.md", "---\ndescription: d\nmax-turns: many\n---\nx", "max-turns"),
        ("output-styles/x.md", "---\ndescription: d\n---\n", "text"),
        ("commands/bad name!.md", "x", "cannot be used"),
        ("commands/large.md", "x" * (MAX_FILE_BYTES + 1), "too large"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_line(project: Path, name: str, text: str, problem: str) -> None:
    write(project / ".agentcli" / name, text)
    found = library(project)
    assert not any((found.commands, found.skills, found.agents, found.styles))
    [one] = found.problems
    assert str(one).startswith(f".agentcli/{name}:1: ")
    assert problem in one.text


def test_a_fifo_and_circular_links_do_not_block_loading(project: Path) -> None:
    folder = project / ".agentcli/commands"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "pipe.md")
    (folder / "loop").symlink_to(folder)
    (folder / "dead.md").symlink_to("nowhere")
    found = library(project)
    assert not found.commands
    assert [problem.text for problem in found.problems] == ["Not read: not a regular file."]


def test_too_many_files_are_cut_off(project: Path) -> None:
    for number in range(MAX_FILES + 2):
        write(project / f".agentcli/commands/c{number}.md", "x")
    found = library(project)
    assert len(found.commands) == MAX_FILES
    assert "More than" in found.problems[0].text


def test_a_refresh_reports_only_real_changes(project: Path) -> None:
    path = write(project / ".agentcli/commands/x.md", "one")
    found = library(project)
    assert not found.refresh()
    write(path, "two!")
    assert found.refresh()
    assert found.commands["x"].body == "two!"
    path.unlink()
    assert found.refresh()
    assert not found.commands


def test_rights_of_a_changed_file_do_not_count_until_it_is_trusted_again(project: Path) -> None:
    path = write(project / ".claude/commands/x.md", "---\nallowed-tools: Bash(make)\n---\none")
    write(project.parent / ".claude/commands/mine.md", "mine")
    store = TrustStore(project.parent / "state")
    store.trust(store.state(project))
    found = library(project, digests=store.state(project).digests())
    assert found.commands["x"].origin.approved
    write(path, "---\nallowed-tools: Bash(rm:*)\n---\ntwo")
    found.refresh()
    assert not found.commands["x"].origin.approved
    assert found.commands["mine"].origin.approved


def test_a_file_of_the_user_that_is_a_link_into_the_project_allows_nothing(project: Path) -> None:
    text = "---\nallowed-tools: Bash\n---\nmine"
    mine = project.parent / ".claude/commands"
    for name, target in (("inside", project / "x.md"), ("outside", project.parent / "dotfiles/x.md")):
        write(target, text)
        mine.mkdir(parents=True, exist_ok=True)
        (mine / f"{name}.md").symlink_to(target)
    approved = {name: each.origin.approved for name, each in library(project).commands.items()}
    assert approved == {"inside": False, "outside": True}


@pytest.mark.parametrize("swapped", ["x.md", ".agentcli/commands"])
def test_a_file_that_becomes_a_link_after_the_check_is_not_read(
    project: Path, swapped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = write(project.parent / "keys/x.md", "the key itself")
    write(project / "x.md", "harmless")
    (project / ".agentcli/commands").mkdir(parents=True)
    (project / ".agentcli/commands/x.md").symlink_to(project / "x.md")
    if swapped != "x.md":
        (project / ".agentcli/commands/x.md").unlink()
        write(project / ".agentcli/commands/x.md", "harmless")
    check = Library._is_inside

    def swapping(self: Library, real: str) -> bool:
        found = check(self, real)
        place = project / swapped
        place.rename(project / "aside")
        place.symlink_to(secret if swapped == "x.md" else secret.parent)
        return found

    monkeypatch.setattr(Library, "_is_inside", swapping)
    found = library(project)
    assert not found.commands
    assert found.problems
