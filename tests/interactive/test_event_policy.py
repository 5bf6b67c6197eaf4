"""Every event class is treated as its policy says, by everything that reads policies."""

from __future__ import annotations

import ast
import re
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from agentcli.core import events as ev
from agentcli.core.event_base import EventPolicy
from agentcli.core.frozen import frozen
from agentcli.core.ids import SequentialIds
from agentcli.core.messages import Message, Origin, TextBlock, ToolResultBlock, user_message
from agentcli.core.usage import Usage
from agentcli.headless.notices import is_shown
from agentcli.headless.stream_json import Frames
from agentcli.interactive import wording
from agentcli.plain.printer import Printer
from agentcli.tui.presenter import Presenter
from tests.support.tables import each_row

EVENTS_IMPORTED = r"import events as ev|core.events import"
ROOT = Path(ev.__file__).parents[1]
EVERY_EVENT = each_row("name", sorted(ev.EVENT_TYPES))


def example_of(name: str) -> ev.Event:
    """An event with some value in all fields that have to be given."""
    kind = ev.EVENT_TYPES[name]
    hints = get_type_hints(kind)
    given = [spec for spec in fields(kind) if spec.default is MISSING and spec.default_factory is MISSING]
    return kind(**{spec.name: _value(spec.name, hints[spec.name]) for spec in given})


def _value(name: str, hint: Any) -> Any:
    values = {
        str: "x",
        int: 0,
        float: 0.0,
        bool: False,
        Usage: Usage(),
        Message: user_message("", "m", Origin.PROMPT),
        ToolResultBlock: ToolResultBlock("t", ()),
    }
    if name == "block":
        return TextBlock("")
    return values.get(hint, {} if getattr(hint, "__origin__", None) is dict else [])


@EVERY_EVENT
def test_an_event_has_a_line_exactly_if_its_policy_says_so(name: str) -> None:
    event = example_of(name)
    if event.policy.line:
        assert wording.event_line(event)[1] in ("info", "warning", "error")
    else:
        with pytest.raises(ValueError, match=f"no wording for {name}"):
            wording.event_line(event)


@EVERY_EVENT
def test_stream_json_has_a_frame_exactly_if_the_policy_says_so(name: str) -> None:
    mapping = Frames(SequentialIds(), True, hooks=True)
    # A frame may wait for the next event.
    frames = [*mapping.frames(example_of(name)), *mapping.frames(example_of("LoopEnded"))]
    assert bool(frames) == ev.EVENT_TYPES[name].policy.stream_json


@EVERY_EVENT
def test_standard_error_shows_only_events_with_a_line(name: str) -> None:
    event = example_of(name)
    assert is_shown(event, "verbose") == (event.policy.line and event.policy.stderr != "never")


@EVERY_EVENT
def test_every_front_end_shows_an_example_of_without_a_failure(name: str) -> None:
    Presenter().show(example_of(name), 0.0)
    Printer(lambda _name, _input: "").show(example_of(name), 0.0)


def test_an_event_without_class_arguments_is_left_out_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    @frozen(kw_only=True)
    class ThingHappened(ev.Event):
        text: str

    monkeypatch.setattr(wording, "_context_line", lambda event: (event.text, "info"))
    event = ThingHappened(text="A thing happened")
    [frame] = Frames(SequentialIds()).frames(event)
    assert (frame["subtype"], frame["text"], frame["code"]) == ("notice", event.text, "thing_happened")
    [operation] = Presenter().show(event, 0.0)
    assert event.text in str(operation)
    assert event.text in str(Printer(lambda _name, _input: "").show(event, 0.0))
    assert is_shown(event, "verbose")
    assert not is_shown(event, "terminal")
    assert event.policy == EventPolicy()
    assert (event.policy.recorded, event.policy.counted, event.policy.scope) == ("shown", True, "agent")


def test_a_policy_is_part_of_the_class_and_not_of_the_event() -> None:
    event = ev.TextStreamed(message_id="m", index=0, text="x")
    assert replace(event, text="y").policy is ev.TextStreamed.policy
    assert "policy" not in {spec.name for spec in fields(event)}
    with pytest.raises(TypeError, match="recordd"):

        class Misspelt(ev.Event, recordd="no"):
            pass


def test_no_other_module_has_a_table_of_event_types() -> None:
    """What differs between event types is a field of `EventPolicy`. A dispatch table from a type to code is none."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in ROOT.rglob("*.py")
        if path.parent.name != "core" and re.search(EVENTS_IMPORTED, text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Tuple | ast.List | ast.Set) and sum(map(_is_event_type, node.elts)) > 1
    ]
    assert not found


def _is_event_type(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in ev.EVENT_TYPES
