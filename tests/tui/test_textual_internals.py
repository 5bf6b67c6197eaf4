"""Private names of Textual may change with every release: each use is in one module, or is named there."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

from agentcli import tui
from agentcli.tui import textual_internals

INHERITED: Mapping[str, Mapping[str, str]] = {
    "app": {
        "_display": "the driver writes only what the terminal does not show yet",
        "_handle_exception _fatal_error": "an error is raised again after the terminal is restored",
    },
    "terminal.input": {
        "XTermParser _sequence_to_key_events": "the names of keys are those of Textual's parser",
    },
    "transcript.widget": {
        "_size_updated": "rows are placed before the screen is painted",
    },
}
"""By module of `agentcli.tui`: private names that a subclass calls or overrides, and why."""

MAX_NAMES = 15
OF_OTHERS = {"_exit", "_replace", "_tokens"}
"""Private names of other libraries."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def modules() -> list[ModuleType]:
    root = Path(tui.__path__[0])
    names = [".".join(path.relative_to(root).with_suffix("").parts) for path in sorted(root.rglob("*.py"))]
    return [importlib.import_module(f"{tui.__name__}.{name}") for name in names if "__init__" not in name]


@functools.cache
def private_names(base: type) -> set[str]:
    """Private names that a class of Textual defines, or assigns to `self`; finding its source parses a whole module."""
    if base.__module__.partition(".")[0] != "textual":
        return set()
    defined = {name for name in (*vars(base), *getattr(base, "__annotations__", ())) if is_private(name)}
    return defined | set(re.findall(r"self\.(_[a-z]\w*)(?:: [^=\n]+)? = ", inspect.getsource(base)))


def uses_in(module: ModuleType) -> Iterator[str]:
    """Private names that a module imports from Textual, takes from foreign objects, or inherits and uses."""
    tree = ast.parse(inspect.getsource(module))
    own = {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self"
    }
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("textual"):
            private = any(map(is_private, (node.module or "").split(".")))
            yield from (alias.name for alias in node.names if private or is_private(alias.name))
        elif isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own | OF_OTHERS:
            yield node.attr
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == module.__name__]
    for kind in kinds:
        inherited = set().union(*map(private_names, kind.__mro__))
        yield from inherited and inherited & names_in(tree, kind.__qualname__)


def names_in(tree: ast.Module, name: str) -> set[str]:
    """Names of methods of a class, and of what it takes from itself."""
    body = next((node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and name.endswith(node.name)), None)
    nodes = list(ast.walk(body)) if body is not None else []
    taken = [node for node in nodes if isinstance(node, ast.Attribute)]
    own = {node.attr for node in taken if ast.unparse(node.value) in ("self", "super()")}
    return own | {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_private_names_of_textual_are_few_and_used_where_they_are_explained() -> None:
    found = {module.__name__.removeprefix("agentcli.tui."): set(uses_in(module)) for module in modules()}
    inside = found.pop("textual_internals")
    named = {name: set(" ".join(reasons).split()) for name, reasons in INHERITED.items()}
    assert {name: uses for name, uses in found.items() if uses} == named
    assert len(inside.union(*named.values())) <= MAX_NAMES


def test_every_private_name_has_a_reason() -> None:
    assert all(reason for reasons in INHERITED.values() for reason in reasons.values())
    for node in ast.parse(inspect.getsource(textual_internals)).body:
        if isinstance(node, ast.FunctionDef) and not is_private(node.name):
            assert ast.get_docstring(node), node.name
