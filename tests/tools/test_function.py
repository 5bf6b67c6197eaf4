from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from agentcli.core.aio import AbortController
from agentcli.tools.base import Output
from agentcli.tools.function import tool
from tests.tools.running import context_in, run, text_of

pytestmark = pytest.mark.anyio


@dataclass
class Point:
    x: int
    y: float = 0.0
    labels: list[str] = field(default_factory=list)


@tool
def describe(
    name: str,
    count: int,
    ratio: float,
    flag: bool,
    mode: Literal["a", "b"],
    points: list[Point],
    extra: dict[str, int],
    note: str | None = None,
    size: Annotated[int, "How large"] = 3,
) -> str:
    """Describes everything.

    In two paragraphs."""
    return f"{name} {count} {ratio} {flag} {mode} {points[0].x} {extra} {note} {size}"


def test_the_schema_comes_from_the_annotations() -> None:
    assert describe.name == "describe"
    assert describe.description == "Describes everything.\n\nIn two paragraphs."
    assert describe.input_schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "count": {"type": "integer"},
            "ratio": {"type": "number"},
            "flag": {"type": "boolean"},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "points": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "x": {"type": "integer"},
                        "y": {"type": "number"},
                        "labels": {"type": "array", "items": {"type": "string"}},
                    },
                    "required": ["x"],
                    "additionalProperties": False,
                },
            },
            "extra": {"type": "object", "additionalProperties": {"type": "integer"}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "size": {"type": "integer", "description": "How large", "default": 3},
        },
        "required": ["name", "count", "ratio", "flag", "mode", "points", "extra"],
        "additionalProperties": False,
    }


async def test_objects_become_dataclasses(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "name": "n",
        "count": 1,
        "ratio": 2,
        "flag": True,
        "mode": "a",
        "points": [{"x": 5}],
        "extra": {"k": 1},
    }
    assert text_of(await run(describe, context_in(tmp_path), **given)) == "n 1 2.0 True a 5 {'k': 1} None 3"


async def test_results_of_any_type_are_converted(tmp_path: Path) -> None:
    context = context_in(tmp_path)
    results: list[tuple[Any, str]] = [
        ("text", "text"),
        ({"a": [1, "ü"]}, '{"a": [1, "ü"]}'),
        (None, "Done."),
        (Point(1), '{"x": 1, "y": 0.0, "labels": []}'),
        (Output("own", summary="s"), "own"),
        (object, str(object)),
    ]
    for result, expected in results:
        function = tool(name="f")(_returning(result))
        assert text_of(await run(function, context)) == expected


def _returning(result: Any) -> Any:
    def function() -> Any:
        return result

    return function


async def test_a_plain_function_runs_in_a_thread_and_an_async_one_on_the_loop(tmp_path: Path) -> None:
    here = threading.get_ident()

    @tool
    def plain() -> bool:
        return threading.get_ident() == here

    @tool
    async def on_loop() -> bool:
        return threading.get_ident() == here

    assert text_of(await run(plain, context_in(tmp_path))) == "false"
    assert text_of(await run(on_loop, context_in(tmp_path))) == "true"


async def test_an_exception_is_an_error_result(tmp_path: Path) -> None:
    @tool
    def fails() -> str:
        raise ValueError("no good")

    output = await run(fails, context_in(tmp_path))
    assert (output.is_error, text_of(output)) == (True, "fails failed with ValueError: no good")


async def test_an_abort_ends_an_async_function(tmp_path: Path) -> None:
    controller = AbortController()
    started = asyncio.Event()

    @tool
    async def endless() -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    task = asyncio.ensure_future(run(endless, context_in(tmp_path), controller.signal))
    await started.wait()
    controller.abort()
    assert "was stopped" in text_of(await task)


def test_only_a_safe_function_runs_without_a_question(tmp_path: Path) -> None:
    context = context_in(tmp_path)
    safe = tool(safe=True, name="look")(_returning(1))
    assert safe.is_safe({})
    assert safe.needs({}, context)[0].kind == "none"
    assert not describe.is_safe({})
    assert describe.needs({}, context)[0].kind == "other"


def test_a_type_without_a_json_form_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="no JSON form"):

        @tool
        def wrong(path: Path) -> str:
            return ""

    with pytest.raises(TypeError, match="keyword argument"):

        @tool
        def variadic(*names: str) -> str:
            return ""
