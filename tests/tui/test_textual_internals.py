"""Private names of Textual may change with every release: each use is in one module, or is named there."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.abc import InspectLoader
from opcode import opmap
from types import CodeType, ModuleType

from agentcli import tui
from agentcli.tui import textual_internals
from agentcli.tui.textual_internals import INHERITED


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def modules() -> list[ModuleType]:
    names = [module.name for module in pkgutil.walk_packages(tui.__path__, f"{tui.__name__}.")]
    return [importlib.import_module(name) for name in names]


def is_textual(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "textual"


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[module]))


@cache
def classes_in(module: str) -> dict[str, ast.ClassDef]:
    """Every class of a module by its qualified name. `inspect.getsource` would read the module again for each."""
    found: dict[str, ast.ClassDef] = {}

    def look(parent: ast.AST, prefix: str) -> None:
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.ClassDef):
                found[prefix + node.name] = node
                look(node, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                look(node, f"{prefix}{node.name}.<locals>.")
            elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
                # No class is defined in an expression, and most nodes are parts of one.
                look(node, prefix)

    look(tree_of(module), "")
    return found


def tree_of_class(kind: type) -> ast.ClassDef:
    return classes_in(kind.__module__)[kind.__qualname__]


@cache
def bodies_in(module: str) -> dict[str, CodeType]:
    """The compiled class and function bodies of a module by their qualified names. Parsing all of Textual takes 2 s."""
    spec = sys.modules[module].__spec__
    assert spec is not None
    assert isinstance(spec.loader, InspectLoader)
    whole = spec.loader.get_code(module)
    assert whole is not None
    return {code.co_qualname: code for code in nested(whole)}


def nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def assigned(code: CodeType) -> Iterator[str]:
    """Names of the attributes that a body assigns. `dis` would word every instruction."""
    pairs = zip(code.co_code[::2], code.co_code[1::2], strict=True)
    high = 0
    for operation, low in pairs:
        argument = high << 8 | low
        high = argument if operation == opmap["EXTENDED_ARG"] else 0
        if operation == opmap["STORE_ATTR"]:
            yield code.co_names[argument]


@cache
def private_names(kind: type) -> frozenset[str]:
    """Private methods and fields of a class of Textual."""
    body = bodies_in(kind.__module__)[kind.__qualname__]
    fields = {name for code in nested(body) for name in assigned(code) if is_private(name)}
    return frozenset(fields | {name for name in vars(kind) if is_private(name)})


def names_in_class(kind: type) -> set[str]:
    """Names of the attributes and functions in a class, from its compiled body: walking its tree takes much longer."""
    codes = list(nested(bodies_in(kind.__module__)[kind.__qualname__]))
    return {name for code in codes for name in (*code.co_names, code.co_name)}


def uses_in_class(kind: type) -> Iterator[str]:
    """Private names that a class takes from Textual, or overrides."""
    taken = frozenset[str]().union(*(private_names(base) for base in kind.__mro__ if is_textual(base)))
    if taken.isdisjoint(names_in_class(kind)):
        return
    for node in ast.walk(tree_of_class(kind)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in taken:
            yield node.name
        elif isinstance(node, ast.Attribute) and node.attr in taken:
            owner = ast.unparse(node.value)
            if owner in ("self", "super()"):
                yield node.attr


@cache
def all_private_names() -> frozenset[str]:
    kinds = {
        kind
        for name, module in sorted(sys.modules.items())
        if name.partition(".")[0] == "textual"
        for kind in vars(module).values()
        if isinstance(kind, type) and is_textual(kind)
    }
    return frozenset[str]().union(*map(private_names, kinds))


def may_use_private_names(module: ModuleType) -> bool:
    """Whether its words allow for a use. Nine of ten modules need not be parsed."""
    source = inspect.getsource(module)
    own = set(re.findall(r"(?:def |self\.)(_\w+)", source))
    words = set(re.findall(r"\.(_\w+)", source)) - own
    imports = re.search(r"^from textual(\S*\._|\S* import (\([^)]*\b_|.*\b_))", source, re.MULTILINE)
    return imports is not None or not words.isdisjoint(all_private_names())


def uses_in_module(module: ModuleType) -> Iterator[str]:
    """Private names that a module imports from Textual or takes from objects of it."""
    if not may_use_private_names(module):
        return
    nodes = list(ast.walk(tree_of(module.__name__)))
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    own |= {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    foreign = all_private_names() - own
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("textual"):
            private = any(map(is_private, (node.module or "").split(".")))
            yield from (alias.name for alias in node.names if private or is_private(alias.name))
        elif isinstance(node, ast.Attribute) and node.attr in foreign:
            owner = ast.unparse(node.value)
            if owner not in ("self", "super()", "os", "sys", "lexer"):  # the last ones are of other libraries
                yield node.attr


def test_private_names_of_textual_are_used_where_they_are_explained() -> None:
    found: dict[str, set[str]] = {}
    for module in modules():
        uses = set(uses_in_module(module))
        for kind in vars(module).values():
            if isinstance(kind, type) and kind.__module__ == module.__name__:
                uses |= set(uses_in_class(kind))
        if uses and module is not textual_internals:
            found[module.__name__.removeprefix("agentcli.tui.")] = uses
    named = {name: set(" ".join(reasons).split()) for name, reasons in INHERITED.items()}
    assert found == named


def test_every_private_name_has_a_reason() -> None:
    assert all(reason for reasons in INHERITED.values() for reason in reasons.values())
    for node in ast.walk(ast.parse(inspect.getsource(textual_internals))):
        if isinstance(node, ast.FunctionDef):
            assert ast.get_docstring(node), node.name
