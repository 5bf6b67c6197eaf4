"""Another session in the same place: /clear and /resume."""

from __future__ import annotations

from agentcli.assemble.options import Options, another_session


def test_resume_options_do_not_carry_over_to_the_next_session() -> None:
    options = Options(continue_latest=True, fork_session=True, session_id="x", name="mine", model="opus")
    other = another_session(options, "id")
    assert (other.continue_latest, other.fork_session, other.session_id, other.name) == (False, False, None, None)
    assert (other.resume, other.model) == ("id", "opus")


def test_a_clear_keeps_session_recording_turned_off() -> None:
    assert not another_session(Options(persist=False), None).persist
