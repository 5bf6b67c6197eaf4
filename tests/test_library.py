"""The library surface: what programs import from `agentcli`, and that its own documentation uses nothing else."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import agentcli
from agentcli.core.events import EVENT_TYPES
from tests.support.guide import blocks
from tests.support.tables import each_row

ROOT = Path(__file__).parent.parent
_CLASS_NAME = re.compile(r"`([A-Z][a-z]+[A-Za-z]*)`")


@each_row("name", sorted(agentcli.__all__))
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(agentcli, name) is not None


def test_every_event_is_public() -> None:
    assert {*EVENT_TYPES, "Event"} <= set(agentcli.__all__)


def test_type_checkers_see_the_same_names_as_the_running_program() -> None:
    tree = ast.parse((ROOT / "agentcli" / "public.py").read_text(encoding="utf-8"))
    imported = [alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert all(alias.asname == alias.name for alias in imported), "without `as` a type checker does not see the name"
    assert {alias.name for alias in imported} | set(EVENT_TYPES) == set(agentcli.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        agentcli.Nothing  # noqa: B018


def test_importing_a_name_of_an_event_loads_no_engine() -> None:
    code = "from agentcli import Result; import sys; print('agentcli.agent.engine' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def docstrings() -> Iterator[tuple[str, str]]:
    """The docstrings of everything public, of its module and its public methods."""
    yield "agentcli", agentcli.__doc__ or ""
    for name in agentcli.__all__:
        thing = getattr(agentcli, name)
        yield name, inspect.getdoc(thing) or ""
        module = inspect.getmodule(thing)
        if name in ("query", "tool") and module is not None:
            yield module.__name__, module.__doc__ or ""
        for method, value in inspect.getmembers(thing) if inspect.isclass(thing) else ():
            if not method.startswith("_"):
                yield f"{name}.{method}", inspect.getdoc(value) or ""


def test_every_class_that_a_public_docstring_names_is_public() -> None:
    named = {found for _where, text in docstrings() for found in _CLASS_NAME.findall(text)}
    missing = {name for name in named if name not in agentcli.__all__}
    assert {"Result", "PermissionRequested", "AgentError"} <= named
    assert not missing


def test_examples_use_names_that_are_public() -> None:
    examples = blocks("python")
    examples += [text for _where, text in docstrings() if "from agentcli import" in text]
    assert len(examples) >= 4
    for example in examples:
        used = set(re.findall(r"isinstance\(\w+, (\w+)\)", example))
        for names in re.findall(r"from agentcli import (.+)", example):
            used.update(re.split(r",\s*", names.strip()))
        assert used <= set(agentcli.__all__), used
