"""Another session in the same place: /clear and /resume."""

from __future__ import annotations

from agentcli.assemble.options import Options, another_session


def test_how_this_session_was_found_does_not_count_for_the_next() -> None:
    options = Options(continue_latest=True, fork_session=True, session_id="x", name="mine", model="opus")
    other = another_session(options, "id")
    assert (other.continue_latest, other.fork_session, other.session_id, other.name) == (False, False, None, None)
    assert (other.resume, other.model) == ("id", "opus")


def test_who_wanted_nothing_written_gets_nothing_written_after_a_clear() -> None:
    assert not another_session(Options(persist=False), None).persist
