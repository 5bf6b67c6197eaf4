"""Skills on the assembled engine: listed, loaded, changed while the session runs, resumed, compacted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcli.agent.attachments.skills import LISTING_CHARACTERS, MAX_ALL_LISTED
from agentcli.commands.line import run_command
from agentcli.core import events as ev
from agentcli.core.messages import SKILLS, Json
from agentcli.core.permission import Answer
from agentcli.interactive.wording import message_line
from tests.support.assembled import Assembled
from tests.support.fakes import only, result_of
from tests.support.scripts import call, reply

pytestmark = pytest.mark.anyio


def skill(folder: Path, name: str, header: str = "", body: str = "Do $ARGUMENTS well.") -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name}\ndescription: Use for {name}\n{header}---\n{body}\n")
    return path


@pytest.fixture
def home_skills(tmp_path: Path) -> Path:
    return tmp_path / "home/.claude/skills"


def tools(request: Json) -> list[str]:
    return [tool["name"] for tool in request["tools"]]


def texts_of(request: Json) -> list[str]:
    """Texts of the messages, which cache marks do not change."""
    return [part.get("text", "") for message in request["messages"] for part in message["content"]]


def listings(a: Assembled) -> list[str]:
    return [message.text for message in a.log if SKILLS in message.meta]


async def test_without_skills_there_is_no_tool_and_no_text(project: Path, home_skills: Path) -> None:
    skill(home_skills, "mine", "disable-model-invocation: true\n")
    async with Assembled(project, ["Hello."]) as a:
        await a.run()
        assert "Skill" not in tools(a.requests[0])
        assert "kills" not in str(a.requests[0]["messages"])


async def test_arguments_that_a_skill_has_no_place_for_are_named(project: Path, home_skills: Path) -> None:
    skill(home_skills, "release", body="Tag it.")
    async with Assembled(project, [reply(call("Skill", skill="release", args="1.2")), "Done."]) as a:
        await a.run()
        assert a.results[0].endswith("Tag it.\n\nArguments: 1.2")


async def test_skills_are_listed_once_and_loaded_with_their_folder(project: Path, home_skills: Path) -> None:
    path = skill(home_skills, "pdf")
    (path.parent / "more.md").write_text("further help")
    replies = [
        reply(call("Skill", skill="pdf", args="forms")),
        reply(call("Read", file_path=str(path.parent / "more.md"))),
        "Done.",
        "Again.",
    ]
    async with Assembled(project, replies) as a:
        await a.run()
        await a.run()
        assert not a.asked, "the files of a skill are readable"
        (listing,) = listings(a)
        assert listing.splitlines()[1] == "- pdf: Use for pdf"
        assert "Do forms well." in a.results[0]
        assert str(path.parent) in a.results[0]
        assert "further help" in a.results[1]
        assert tools(a.requests[0])[-1] == "Skill"
        for before, after in zip(a.requests, a.requests[1:], strict=False):
            assert (before["system"], before["tools"]) == (after["system"], after["tools"])
        items = {item.category for item in a.engine.context.items()}
        assert "skills" in items
        text = result_of(await a.follow(run_command(a.engine, "skills", "pdf"))).text
        assert "  pdf  (user, " in text
        assert "used 1 prompt ago" in text


async def test_writing_a_users_skill_still_needs_approval(project: Path, home_skills: Path) -> None:
    path = skill(home_skills, "pdf")
    async with Assembled(
        project, [reply(call("Write", file_path=str(path.parent / "new.md"), content="x")), "Done."]
    ) as a:
        await a.run()
        assert len(a.asked) == 1


async def test_new_changed_and_removed_skills_reach_a_running_session(project: Path) -> None:
    folder = project / ".agentcli/skills"
    path = skill(folder, "one")
    async with Assembled(project, ["1", "2", "3", "4"]) as a:
        await a.run()
        skill(folder, "two")
        await a.run()
        skill(folder, "two", body="Other text, which nobody has loaded.")
        await a.run()
        path.unlink()
        await a.run()
        assert [text.splitlines()[1:] for text in listings(a)[:2]] == [["- one: Use for one"], ["- two: Use for two"]]
        assert listings(a)[2:] == ["[Skills that are gone: one]"]
        first, last = a.requests[0], a.requests[-1]
        assert first["tools"] == last["tools"]


async def test_a_first_skill_in_a_running_session_is_read_as_a_file(project: Path) -> None:
    async with Assembled(project, ["1", "2"]) as a:
        await a.run()
        path = skill(project / ".agentcli/skills", "late")
        await a.run()
        (listing,) = listings(a)
        assert f"- late ({path}): Use for late" in listing
        assert "Read tool" in listing
        assert a.requests[0]["tools"] == a.requests[1]["tools"]


async def test_a_resumed_session_sends_the_same_prefix(project: Path) -> None:
    folder = project / ".agentcli/skills"
    path = skill(folder, "one")
    async with Assembled(project, ["1"]) as a:
        await a.run()
        session = a.engine.session_id
    skill(folder, "two")
    path.unlink()
    async with Assembled(project, ["2"], options={"resume": session}) as b:
        await b.run()
    before, after = a.requests[0], b.requests[0]
    assert (before["system"], before["tools"]) == (after["system"], after["tools"])
    known = len(before["messages"])
    assert [m["content"] for m in before["messages"]][:-1] == [m["content"] for m in after["messages"][: known - 1]]
    assert "- one: Use for one" in str(after["messages"])
    assert "- two: Use for two" in str(after["messages"])


async def test_an_unknown_skill_is_answered_with_near_names(project: Path, home_skills: Path) -> None:
    skill(home_skills, "release")
    async with Assembled(project, [reply(call("Skill", skill="relaese")), "Done."]) as a:
        await a.run()
        assert "The skills are: release." in a.results[0]


@pytest.mark.parametrize(("kind", "asked", "loaded"), [("deny", 0, False), ("ask", 1, True), ("allow", 0, True)])
async def test_rules_decide_about_single_skills(
    project: Path, home_skills: Path, kind: str, asked: int, loaded: bool
) -> None:
    skill(home_skills, "pdf")
    skill(home_skills, "other")
    settings = json.dumps({"sandbox": {"mode": "off"}, "permissions": {kind: ["Skill(pdf)"]}})
    options = {"settings": settings}
    async with Assembled(project, [reply(call("Skill", skill="pdf")), "Done."], options=options) as a:
        await a.run()
        assert len(a.asked) == asked
        assert ("The skill pdf is loaded. Its folder: " in a.results[0]) is loaded
        assert ("- pdf" in listings(a)[0]) is loaded, "what is denied is not offered"


async def test_its_allowed_tools_apply_until_the_next_prompt(project: Path) -> None:
    skill(project / ".agentcli/skills", "toucher", "allowed-tools: Bash(touch *)\n")
    replies = [
        reply(call("Skill", skill="toucher")),
        reply(call("Bash", command="touch a")),
        "Done.",
        reply(call("Bash", command="touch b")),
        "Done.",
    ]
    async with Assembled(project, replies) as a:
        await a.run()
        assert not a.asked
        await a.run()
        assert len(a.asked) == 1


async def test_a_prompt_that_joins_the_work_ends_its_allowed_tools(project: Path) -> None:
    skill(project / ".agentcli/skills", "toucher", "allowed-tools: Bash(touch *)\n")
    replies = [reply(call("Skill", skill="toucher")), reply(call("Bash", command="touch a")), "Done."]
    async with Assembled(project, replies) as a:
        work = a.engine.submit("go")
        events: list[ev.Event] = []
        async for event in work:
            events.append(event)
            if isinstance(event, ev.ToolFinished) and event.name == "Skill":
                a.engine.enqueue("and something else")
            if isinstance(event, ev.PermissionRequested):
                a.asked.append(event)
                a.engine.answer(event.request_id, Answer("deny"))
        assert len(a.asked) == 1


async def test_the_user_starts_one_with_its_name(project: Path) -> None:
    path = skill(project / ".agentcli/skills", "one", "disable-model-invocation: true\n")
    async with Assembled(project, ["Done."]) as a:
        await a.engine.live_files.refresh()
        await a.follow(run_command(a.engine, "one", "this"))
        prompt = a.log[0]
        assert prompt.typed == "/one this"
        assert "Do this well." in prompt.text
        assert str(path.parent) in prompt.text


async def test_a_long_list_stays_within_its_budget(project: Path, home_skills: Path) -> None:
    for number in range(MAX_ALL_LISTED):
        path = skill(home_skills, f"skill-{number:03}")
        path.write_text(f"---\ndescription: {'long words ' * 60}\n---\nx")
    async with Assembled(project, ["Done."]) as a:
        await a.run()
        (listing,) = listings(a)
        assert LISTING_CHARACTERS / 2 < len(listing) < LISTING_CHARACTERS + 500
        assert listing.count("\n- skill-") == MAX_ALL_LISTED


async def test_of_many_skills_those_are_listed_that_fit_the_prompt_and_the_rest_is_found(
    project: Path, home_skills: Path
) -> None:
    for number in range(60):
        skill(home_skills, f"other-{number:02}")
    skill(home_skills, "invoices", body="Add the tax.")
    skill(home_skills, "charts")
    skill(home_skills, "spreadsheets-xlsx")
    replies = [
        reply(call("Read", file_path="numbers.xlsx")),
        reply(call("Skill", skill="search: charts")),
        "Done.",
        "Done.",
        "Done.",
    ]
    async with Assembled(project, replies) as a:
        await a.run("Write invoices")
        first, by_file = listings(a)
        assert "- invoices: Use for invoices" in first.splitlines()
        assert "other-" not in first
        assert first.splitlines()[-1].startswith("- and 62 more. To find one, call Skill with `search:`")
        assert by_file.splitlines()[:2] == [
            "[More skills that may fit:]",
            "- spreadsheets-xlsx: Use for spreadsheets-xlsx",
        ]
        assert a.results[1] == "- charts: Use for charts"
        skill(home_skills, "zebra")
        await a.run("Hello")
        assert "- zebra: Use for zebra" in listings(a)[2].splitlines(), "a new one is listed in any case"
        assert "other-" not in listings(a)[2]
        await a.run("Write invoices")
        assert len(listings(a)) == 3, "each is listed once"
        shown = [message_line(message) for message in a.log if SKILLS in message.meta]
        assert shown == ["", "", "The model was notified of changed skills: +zebra"]
        fronts = [json.dumps((body["system"], body["tools"])) for body in a.requests]
        assert len(set(fronts)) == 1
        for before, after in zip(a.requests, a.requests[1:], strict=False):
            assert texts_of(after)[: len(texts_of(before))] == texts_of(before), "the prefix stays"


async def test_loaded_skills_survive_a_compaction(project: Path, home_skills: Path) -> None:
    skill(home_skills, "pdf", body="The secret step.")
    filler = [reply("word " * 4_000) for _ in range(3)]
    compacted = [*filler, "A summary.", "Next."]
    async with Assembled(project, [reply(call("Skill", skill="pdf")), "Done.", *compacted, *compacted]) as a:
        await a.run("a prompt")
        for _ in range(2):
            for _ in filler:
                await a.run("a prompt")
            events = await a.follow(a.engine.compact())
            assert only(events, ev.ContextCompacted)
            await a.run("and now")
            sent = str(a.requests[-1]["messages"])
            assert sent.count("The secret step.") == 1
            assert "- pdf: Use for pdf" in sent, "the list is told again"


async def test_a_skill_of_the_project_that_leads_out_of_it_is_not_read(project: Path) -> None:
    skill(project / ".agents/skills", "one")
    private = skill(project.parent / "elsewhere", "private", body="PRIVATE")
    async with Assembled(project, ["Hello.", reply(call("Skill", skill="private")), "Done."]) as a:
        await a.run()
        (project / ".agents/skills/two").mkdir()
        (project / ".agents/skills/two/SKILL.md").symlink_to(private)
        (project / ".agents/skills/three").symlink_to(private.parent)
        await a.run()
        assert "PRIVATE" not in str(a.requests)
        assert sum("link to a file outside the project" in notice for notice in a.notices) == 2
