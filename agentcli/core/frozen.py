"""`@frozen`: like `@dataclass(frozen=True, slots=True)`, but faster to define.

The standard decorator compiles six methods for each class at import; for the values of this package together that was
80 ms, a quarter of the time to the first request. Here the methods that can be the same for all classes are shared,
and only `__init__` is compiled. The result is a dataclass: `fields`, `replace` and `match` work, type checkers know it.

Never here: anything a dataclass does not do. Not supported, because it is not needed: `init=False`, `compare=False` and
`hash=` of a field, and `InitVar`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def frozen(cls: type[T], /) -> type[T]: ...
@overload
def frozen(*, kw_only: bool = False, weakref_slot: bool = False) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T] | None = None, /, *, kw_only: bool = False, weakref_slot: bool = False) -> Any:
    def define(cls: type[T]) -> type[T]:
        if cls.__doc__ is None:
            cls.__doc__ = cls.__name__  # otherwise `dataclass` computes a signature for it, which is slow
        for name, method in _SHARED:
            if name not in cls.__dict__:
                setattr(cls, name, method)
        made = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only, weakref_slot=weakref_slot)(cls)
        setattr(made, "__init__", _init_of(made))  # noqa: B010 - a plain assignment is none to type checkers
        return made

    return define if cls is None else define(cls)


class _Shared:
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.__getstate__() == other.__getstate__()

    def __hash__(self) -> int:
        return hash(tuple(self.__getstate__()))

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name, spec in self.__dataclass_fields__.items() if spec.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __setattr__(self, name: str, item: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __getstate__(self) -> list[Any]:
        return [getattr(self, name) for name in self.__dataclass_fields__]

    def __setstate__(self, state: list[Any]) -> None:
        for name, item in zip(self.__dataclass_fields__, state, strict=True):
            object.__setattr__(self, name, item)


_SHARED = tuple((name, method) for name, method in vars(_Shared).items() if callable(method))


def _init_of(cls: type[Any]) -> Callable[..., None]:
    """Compiled for speed: it sets the slots directly, because `__setattr__` refuses."""
    positional: list[str] = ["self"]
    keyword: list[str] = []
    body: list[str] = []
    names: dict[str, Any] = {"MISSING": MISSING, "__name__": cls.__module__}
    for spec in fields(cls):
        name, default, given = spec.name, "", spec.name
        if spec.default is not MISSING:
            names[f"default_{name}"] = spec.default
            default = f"=default_{name}"
        elif spec.default_factory is not MISSING:
            names[f"make_{name}"] = spec.default_factory
            default, given = "=MISSING", f"make_{name}() if {name} is MISSING else {name}"
        names[f"set_{name}"] = getattr(cls, name).__set__
        (keyword if spec.kw_only else positional).append(name + default)
        body.append(f"set_{name}(self, {given})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = [*positional, *(["*", *keyword] if keyword else [])]
    exec(f"def __init__({', '.join(parameters)}): {'; '.join(body) or 'pass'}", names)  # noqa: S102 - as `dataclass` does
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {spec.name: spec.type for spec in fields(cls)}
    return init
