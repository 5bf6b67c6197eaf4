"""The director as a function: the next reply fits any user action, and the API would accept every request."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.loop.wording import INTERRUPTED, INTERRUPTED_TOOLS
from agentcli.context.compact import INSTRUCTION, LEAD
from agentcli.demo import words
from agentcli.demo.director import World, reply_to, situation_of
from agentcli.demo.project import FIXED
from agentcli.demo.tour import LEAVE, Tour
from tests.support.validate import problems

Json = dict[str, Any]
TOOLS = [{"name": name, "description": name, "input_schema": {"type": "object"}} for name in ("Read", "Edit", "Bash")]
NO = "The user said no to this call."
MAX_TURNS = 12


class Person:
    """Talks to the director as the loop does: keeps the messages, runs the calls, may say no or stop at any time."""

    def __init__(self) -> None:
        self.messages: list[Json] = []
        self.fixed = False
        self.limited = self.just_limited = False
        self.replies: list[str] = []
        """What was said, reply by reply."""
        self.calls: list[str] = []
        self.tour = Tour(lambda: self.fixed)
        self.number = 0

    def says(self, text: str, answers: str = "", stop_at: int = 0, aside: str = "") -> str:
        """Send a prompt and see it through. `answers`: y or n for each call that asks, y where it is too short;
        `stop_at`: Esc in the reply or the calls of this turn; `aside`: said while the first calls run."""
        self.tour.sent(text)
        self.put("user", {"type": "text", "text": text})
        wishes = list(answers)
        for turn in range(1, MAX_TURNS):
            content = self.ask()
            calls = [block for block in content if block["type"] == "tool_use"]
            if turn == stop_at and not calls:
                cut = next(block for block in content if block["type"] == "text")
                self.put("assistant", {"type": "text", "text": cut["text"][:10].rstrip()})
                self.put("user", {"type": "text", "text": INTERRUPTED})
                return ""
            self.put("assistant", *content)
            if not calls:
                return self.replies[-1]
            if turn == stop_at:
                stopped = [result(call, "The user interrupted before this call was done.", True) for call in calls]
                self.put("user", *stopped, {"type": "text", "text": INTERRUPTED_TOOLS})
                return ""
            results = [self.run(call, wishes) for call in calls]
            self.put("user", *results, *([{"type": "text", "text": aside}] if aside and turn == 1 else []))
        raise AssertionError(f"no end after {MAX_TURNS} turns: {self.calls}")

    def ask(self) -> list[Json]:
        for _attempt in range(3):
            body = {"model": "m", "max_tokens": 100, "tools": TOOLS, "messages": self.messages}
            assert problems(body) == []
            world = World(self.fixed, self.limited, self.just_limited, self.tour.next().line)
            reply = reply_to(body, world)
            self.just_limited = reply.error is not None
            if reply.error is None:
                return self.content(reply.steps)
            assert not self.limited, "a second rate limit"
            assert reply.error["status"] == 429
            self.limited = True
        raise AssertionError("nothing but errors")

    def content(self, steps: Any) -> list[Json]:
        made: list[Json] = []
        for step in steps:
            if "thinking" in step:
                made.append({"type": "thinking", "thinking": step["thinking"], "signature": step["signature"]})
            elif "text" in step:
                made.append({"type": "text", "text": step["text"]})
            elif "tool" in step:
                self.number += 1
                call = {"type": "tool_use", "id": f"t{self.number}", "name": step["tool"], "input": step["input"]}
                made.append(call)
                self.calls.append(step["tool"])
        self.replies.append("".join(block["text"] for block in made if block["type"] == "text"))
        assert made
        return made

    def run(self, call: Json, wishes: list[str]) -> Json:
        if call["name"] == "Read":
            return result(call, "1\tcode")
        if wishes and wishes.pop(0) == "n":
            return result(call, NO, True)
        if call["name"] == "Edit":
            self.fixed = call["input"]["new_string"] == FIXED
            return result(call, "Edited.")
        return result(call, "OK") if self.fixed else result(call, "AssertionError: 999 != 1000\nFAILED", True)

    def compacts(self) -> str:
        if not self.messages:
            return ""
        self.put("user", {"type": "text", "text": INSTRUCTION})
        summary = self.content(reply_to({"messages": self.messages, "tools": TOOLS}, World(self.fixed, True)).steps)
        self.messages = [{"role": "user", "content": [{"type": "text", "text": LEAD + summary[-1]["text"]}]}]
        self.put("assistant", {"type": "text", "text": "so far"})
        return str(summary[-1]["text"])

    def put(self, role: str, *blocks: Json) -> None:
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1] = {"role": role, "content": [*self.messages[-1]["content"], *blocks]}
        else:
            self.messages.append({"role": role, "content": list(blocks)})


def result(call: Json, text: str, failed: bool = False) -> Json:
    made: Json = {"type": "tool_result", "tool_use_id": call["id"], "content": [{"type": "text", "text": text}]}
    return {**made, "is_error": True} if failed else made


@pytest.mark.parametrize(
    ("answers", "fixed", "said"),
    [
        ("n", True, "Fixed, and proven"),
        ("yn", False, "stays as it is"),
        ("nn", False, "stays as it is"),
        ("yyn", True, "but not tested"),
        ("nyn", True, "but not tested"),
    ],
)
def test_a_denial_at_any_question_is_respected_and_mentioned(answers: str, fixed: bool, said: str) -> None:
    person = Person()
    assert said in person.says(words.FIX, answers)
    assert person.fixed is fixed


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("The user said no to this call.", ""),
        ("<tool_use_error>use fractions, *please*</tool_use_error>", "> use fractions,  please\n"),
        ("Plan mode is active, and this call may change something.", "Shift+Tab"),
    ],
)
def test_text_given_with_a_denial_is_repeated_as_plain_text(text: str, shown: str) -> None:
    use = {"type": "tool_use", "id": "t1", "name": "Edit", "input": {}}
    messages: list[Json] = [
        {"role": "user", "content": [{"type": "text", "text": words.FIX}]},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result(use, text, True)]},
    ]
    said = reply_to({"messages": messages, "tools": TOOLS}, World(fixed=False, limited=True)).steps[-1]["text"]
    assert "stays as it is" in said
    assert shown in said
    assert (">" in said) is bool(shown)
    assert "tool_use_error" not in said


def test_other_free_text_gets_an_answer_that_says_how_to_continue() -> None:
    person = Person()
    said = person.says("what is the capital of France?")
    assert "I am a script, not a model" in said
    assert "capital of France" in said
    assert f"`{words.FIX}`" in said


def test_a_prompt_during_calls_does_not_stop_them() -> None:
    person = Person()
    assert "Fixed, and proven" in person.says(words.FIX, aside="hurry up")
    assert any("hurry up" in said for said in person.replies)


def test_the_prompt_after_an_interruption_is_taken_as_steering() -> None:
    person = Person()
    person.says(words.TALK, stop_at=1)
    assert "You stopped me and said “be brief”" in person.says("be brief")
    assert "I am a script, not a model" in person.says("and now?")


def test_a_stale_edit_is_retried_after_a_new_read_a_limited_number_of_times() -> None:
    messages: list[Json] = [{"role": "user", "content": [{"type": "text", "text": words.FIX}]}]
    made = []
    for number in range(20):
        reply = reply_to({"messages": messages, "tools": TOOLS}, World(fixed=False, limited=True))
        calls = [step for step in reply.steps if "tool" in step]
        if not calls:
            break
        made += [step["tool"] for step in calls]
        uses = [
            {"type": "tool_use", "id": f"t{number}_{place}", "name": step["tool"], "input": step["input"]}
            for place, step in enumerate(calls)
        ]
        stale = "tab/money.py has changed since it was read, by the user, another program or a command."
        results = [result(use, stale if use["name"] == "Edit" else "fine", use["name"] == "Edit") for use in uses]
        messages += [{"role": "assistant", "content": uses}, {"role": "user", "content": results}]
    assert made[-5:] == ["Edit", "Read", "Edit", "Read", "Edit"]
    assert "did not work" in reply.steps[-1]["text"]


def test_a_summary_describes_the_state_of_the_project() -> None:
    person = Person()
    person.says(words.FIX, "yn")
    assert "not fixed" in person.compacts()
    person.says(words.FIX_AGAIN)
    assert "(fixed)" in person.compacts()


def test_attachments_are_not_mistaken_for_user_text() -> None:
    attached = [
        {"type": "text", "text": "[The user undid the changes.]"},
        {"type": "text", "text": "hello"},
        {"type": "text", "text": "[Plan mode is on.]"},
    ]
    assert situation_of([{"role": "user", "content": attached}]).asked == "hello"


def test_user_text_cannot_become_markup_in_the_answer() -> None:
    said = Person().says("`rm` **bold** [link](http://x) <b> | \x1b[31mred")
    quoted = said.split("“")[1].split("”")[0]
    assert not set(quoted) & set("`*[]<>|\x1b")


ACTIONS = st.one_of(
    st.tuples(
        st.just("say"),
        st.one_of(
            st.sampled_from([words.FIX, words.FIX_AGAIN, words.TALK, words.STEER, words.GOODBYE, "fix it", "[x", "hm"]),
            st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1).filter(str.strip),
        ),
        st.text("yn", max_size=4),
        st.integers(0, 4),
        st.sampled_from(["", "wait", "fix"]),
    ),
    st.tuples(st.sampled_from(["compact", "undo", "redo", "next"])),
)


@given(st.lists(ACTIONS, max_size=8))
def test_the_tour_ends_for_any_order_of_user_actions(actions: list[Any]) -> None:
    person = Person()
    for action in actions:
        match action:
            case ("say", text, answers, stop_at, aside):
                person.says(text, answers, stop_at, aside)
            case ("compact",):
                person.tour.sent("/compact")
                person.compacts()
            case ("undo" | "redo" as name,):
                person.tour.sent(f"/{name}")
                person.fixed = name == "redo"
            case _:
                follow(person)
    for _step in range(15):
        if person.tour.next() is LEAVE:
            return
        follow(person)
    raise AssertionError(f"the tour did not end; next is {person.tour.next()}")


def follow(person: Person) -> None:
    """Press Enter."""
    line = person.tour.next().line
    if not line.startswith("/"):
        assert person.says(line).strip()
        return
    person.tour.sent(line)
    if line == "/compact":
        person.compacts()
    elif line == "/undo":
        person.fixed = False
    elif line == "/redo":
        person.fixed = True
