"""The steps of the tour: each only while it makes sense."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from agentcli.agent.loop.wording import INTERRUPTED
from agentcli.demo import words
from agentcli.demo.tour import LEAVE, Tour


class Project:
    fixed = False


def ended_with(text: str) -> Any:
    return cast(Any, SimpleNamespace(messages=[SimpleNamespace(text=text)]))


def lines(tour: Tour, project: Project) -> list[str]:
    """What Enter sends, one after the other, where everything works."""
    sent = []
    while (stop := tour.next()) is not LEAVE and len(sent) < 20:
        sent.append(stop.line)
        tour.sent(stop.line)
        project.fixed = {"fix": True, "undo": False, "redo": True}.get(stop.name, project.fixed)
        tour.look(ended_with(INTERRUPTED if stop.name == "talk" else "fine"))
    return sent


def test_all_steps_come_in_order() -> None:
    project = Project()
    tour = Tour(lambda: project.fixed)
    commands = ["/effort high", "/compact", "/undo", "/redo"]
    assert lines(tour, project) == [words.FIX, words.TALK, words.STEER, *commands, words.GOODBYE]
    assert tour.next().line == "/exit"


def test_after_a_finished_answer_no_steering_is_suggested() -> None:
    tour = Tour(lambda: True)
    tour.sent(words.TALK)
    tour.look(ended_with("the end of a long answer"))
    assert tour.next().line == "/effort high"


def test_any_prompt_after_an_interruption_is_the_steering() -> None:
    tour = Tour(lambda: True)
    tour.sent(words.TALK)
    tour.look(ended_with(INTERRUPTED))
    assert tour.next().line == words.STEER
    tour.sent("shorter!")
    tour.look(ended_with("fine"))
    assert tour.next().line == "/effort high"


def test_a_fix_refused_twice_is_not_offered_again_and_there_is_nothing_to_undo() -> None:
    project = Project()
    tour = Tour(lambda: project.fixed)
    for line in (words.FIX, words.FIX_AGAIN):
        assert tour.next().line == line
        tour.sent(line)
    left = []
    while (stop := tour.next()) is not LEAVE:
        left.append(stop.line)
        tour.sent(stop.line)
    assert left == [words.TALK, "/effort high", "/compact", words.GOODBYE]


def test_completed_steps_are_skipped_and_other_lines_change_nothing() -> None:
    tour = Tour(lambda: True)
    for line in ("/effort low", "hello", "!ls", "/help", "/compact the tests", words.TALK):
        tour.sent(line)
    assert tour.next().line == "/undo"


def test_commands_without_anything_to_act_on_do_not_count() -> None:
    project = Project()
    tour = Tour(lambda: project.fixed)
    for line in ("/undo", "/redo", "/compact"):
        tour.sent(line)
    assert tour.next().line == words.FIX
    assert lines(tour, project)[4:7] == ["/compact", "/undo", "/redo"]


def test_when_redo_does_not_help_the_fix_is_made_again() -> None:
    project = Project()
    project.fixed = True
    tour = Tour(lambda: project.fixed)
    for line in (words.FIX, words.TALK, "/effort high", "/compact", "/undo"):
        tour.sent(line)
    project.fixed = False
    assert tour.next().line == "/redo"
    tour.sent("/redo")
    assert tour.next().line == words.FIX_AGAIN
    project.fixed = True
    assert tour.next().line == words.GOODBYE
