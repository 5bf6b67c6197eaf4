"""`@tool`: turns a typed function into a tool. Its annotations are the schema, its docstring the description.

    @tool(safe=True)
    async def weather(city: str, days: int = 1) -> str:
        "The weather forecast for a city."

A function that is not `safe` needs approval like any other tool that changes something.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import types
import typing
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin, overload

from agentcli.core.aio import Aborted, AbortSignal, in_thread
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import Output, ToolContext, ToolRun, find_problems

Function = Callable[..., Any]
_SIMPLE: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


class FunctionTool:
    """A function as a `Tool`; still callable as a function."""

    def __init__(self, function: Function, name: str, description: str, *, safe: bool) -> None:
        self._function = function
        self._safe = self.explores = safe
        self._hints = _hints(function)
        self.name = name
        self.description = description
        self.input_schema = _function_schema(function, self._hints)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def title(self, input: Json) -> str:
        return plain_line(f"{self.name} {', '.join(f'{key}={value}' for key, value in input.items())}".strip())

    def is_safe(self, input: Json) -> bool:
        return self._safe

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return (Need("none" if self._safe else "other", self.name),)

    def check(self, input: Json, context: ToolContext) -> str | None:
        return None

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        yield await self._call(input, signal)

    async def _call(self, input: Json, signal: AbortSignal) -> Output:
        try:
            values = {name: _build(self._hints.get(name, Any), value) for name, value in input.items()}
            if inspect.iscoroutinefunction(self._function):
                result = await signal.run(self._function(**values))
            else:
                # A thread cannot be stopped: an abort waits for it, so that nothing continues unseen.
                result = await in_thread(self._function, **values)
                if inspect.isawaitable(result):
                    result = await signal.run(result)
        except Aborted:
            return Output(f"{self.name} was stopped before it ended.", is_error=True, summary="stopped")
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except Exception as error:  # noqa: BLE001  whatever a caller's function raises is a result for the model
            text = str(error) or "no message"
            return Output(f"{self.name} failed with {type(error).__name__}: {text}", is_error=True, summary="failed")
        return _as_output(result)


@overload
def tool(function: Function, /) -> FunctionTool: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, safe: bool = False
) -> Callable[[Function], FunctionTool]: ...
def tool(
    function: Function | None = None, /, *, name: str | None = None, description: str | None = None, safe: bool = False
) -> FunctionTool | Callable[[Function], FunctionTool]:
    """Turn a function into a tool.

    `safe`: it is read-only, so it may run in parallel and without approval. Raises TypeError for an annotation that has
    no JSON form.
    """

    def decorate(target: Function) -> FunctionTool:
        text = description or inspect.getdoc(target) or ""
        return FunctionTool(target, name or target.__name__, text, safe=safe)

    return decorate if function is None else decorate(function)


def _as_output(result: Any) -> Output:
    if isinstance(result, Output):
        return result
    if isinstance(result, str):
        return Output(result or "(no output)")
    if result is None:
        return Output("Done.")
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        result = dataclasses.asdict(result)
    try:
        return Output(json.dumps(result, ensure_ascii=False), structured=result)
    except (TypeError, ValueError):
        return Output(str(result))


def _hints(function: Function) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        # Annotations are strings here, and can only name things defined in the function's module.
        raise TypeError(
            f"an annotation of {function.__name__} cannot be resolved: {error}; define it in the module"
        ) from None


def _function_schema(function: Function, hints: dict[str, Any]) -> Json:
    properties: Json = {}
    required: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{function.__name__}: parameter {parameter.name} must be usable as a keyword argument")
        schema = _schema(hints.get(parameter.name, str))
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        elif parameter.default is None or isinstance(parameter.default, str | int | float | bool):
            schema = {**schema, "default": parameter.default}
        properties[parameter.name] = schema
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _schema(hint: Any) -> Json:
    if hint in _SIMPLE:
        return {"type": _SIMPLE[hint]}
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if origin is typing.Annotated:
        notes = [note for note in arguments[1:] if isinstance(note, str)]
        return {**_schema(arguments[0]), **({"description": notes[0]} if notes else {})}
    if origin is Literal:
        kinds = {_SIMPLE.get(type(value)) for value in arguments}
        kind = {"type": kinds.pop()} if len(kinds) == 1 and None not in kinds else {}
        return {**kind, "enum": list(arguments)}
    if origin in (types.UnionType, typing.Union):
        options = [{"type": "null"} if part is type(None) else _schema(part) for part in arguments]
        return {"anyOf": options}
    if hint in (list, tuple, set) or origin in (list, tuple, set):
        items = [argument for argument in arguments if argument is not ...]
        return {"type": "array", **({"items": _schema(items[0])} if items else {})}
    if hint is dict or origin is dict:
        return {"type": "object", **({"additionalProperties": _schema(arguments[1])} if arguments else {})}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _dataclass_schema(hint)
    raise TypeError(
        f"the annotation {hint!r} has no JSON form; use str, int, float, bool, list, dict, Literal, dataclasses"
    )


def _dataclass_schema(hint: type) -> Json:
    hints = typing.get_type_hints(hint)
    specs = [spec for spec in dataclasses.fields(hint) if spec.init]
    missing = dataclasses.MISSING
    return {
        "type": "object",
        "properties": {spec.name: _schema(hints[spec.name]) for spec in specs},
        "required": [spec.name for spec in specs if spec.default is missing and spec.default_factory is missing],
        "additionalProperties": False,
    }


def _build(hint: Any, value: Any) -> Any:
    """Convert a JSON value to the annotated type: objects to dataclasses, lists to tuples or sets."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is typing.Annotated:
        return _build(arguments[0], value)
    if origin in (types.UnionType, typing.Union):
        fitting = (part for part in arguments if part is not type(None) and _accepts(part, value))
        return _build(next(fitting, Any), value)
    if isinstance(value, list) and (hint in (list, tuple, set) or origin in (list, tuple, set)):
        items = [_build(arguments[0], item) for item in value] if arguments else value
        return (origin or hint)(items)
    if isinstance(value, dict) and origin is dict and len(arguments) == 2:
        return {key: _build(arguments[1], item) for key, item in value.items()}
    if isinstance(value, dict) and dataclasses.is_dataclass(hint) and isinstance(hint, type):
        hints = typing.get_type_hints(hint)
        return hint(**{key: _build(hints.get(key, Any), item) for key, item in value.items()})
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _accepts(hint: Any, value: Any) -> bool:
    return not find_problems(_schema(hint), value)
