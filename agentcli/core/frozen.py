"""`@frozen` and `@slotted`: like `@dataclass(slots=True)` with and without `frozen=True`, but faster to define.

The standard decorator compiles six methods for each class at import; for all values of this package that took 80 ms, a
quarter of the time to the first request. Here the methods that are the same for all classes are shared. `__init__` is
compiled when a class is used more than a few times, and the standard description of the fields is made when it is first
read: most classes need neither in most runs. The result is a dataclass: `fields`, `replace` and `match` work, type
checkers know it.

Never here: anything a dataclass does not do. Not supported, because it is not needed: `init=False`, `compare=False` and
`hash=` of a field, `KW_ONLY`, `InitVar`, and a base class that is a dataclass of the standard decorator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform, overload

T = TypeVar("T")
_UNCOMPILED = 4
"""Number of instances before the `__init__` of a class is compiled, which takes as long as making fifty."""
_Specs = dict[str, tuple[Any, Any, bool]]
"""Annotation, default (a `Field`, a value or MISSING) and keyword-only flag of each field."""


@overload
def frozen(cls: type[T], /) -> type[T]: ...
@overload
def frozen(*, kw_only: bool = False, weakref_slot: bool = False) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T] | None = None, /, *, kw_only: bool = False, weakref_slot: bool = False) -> Any:
    def define(cls: type[T]) -> type[T]:
        return _define(cls, _FROZEN, kw_only=kw_only, weakref_slot=weakref_slot)

    return define if cls is None else define(cls)


@dataclass_transform(field_specifiers=(field,))
def slotted(cls: type[T], /) -> type[T]:
    return _define(cls, _CHANGEABLE, kw_only=False, weakref_slot=False)


def _define(cls: type[T], shared: Sequence[tuple[str, Any]], *, kw_only: bool, weakref_slot: bool) -> type[T]:
    members = dict(cls.__dict__)
    members["__doc__"] = cls.__dict__.get("__doc__") or cls.__name__
    for name in ("__dict__", "__weakref__"):
        members.pop(name, None)
    specs: _Specs = {}
    for base in cls.__mro__[-2:0:-1]:
        specs |= base.__dict__.get("__frozen_fields__", ())
    slots = [*_take_own_fields(members, specs, kw_only), *(["__weakref__"] if weakref_slot else [])]
    for name, method in shared:
        members.setdefault(name, method)
    members |= {
        "__slots__": tuple(slots),
        "__qualname__": cls.__qualname__,
        "__match_args__": tuple(name for name, (_type, _default, by_name) in specs.items() if not by_name),
        "__frozen_fields__": specs,
        "__dataclass_params__": _PARAMETERS,
    }
    members["__init__"], members["__dataclass_fields__"] = late = _LateInit(), _LateFields()
    # A class gets its slots when it is created, so this new class replaces the decorated one.
    kind: Any = type(cls)
    made: type[T] = kind(cls.__name__, cls.__bases__, members)
    late[0].owner = late[1].owner = made
    return made


def _take_own_fields(members: dict[str, Any], specs: _Specs, kw_only: bool) -> list[str]:
    """Move the fields that a class body defines from `members` to `specs`. Returns those that need a slot."""
    added: list[str] = []
    for name, annotation in members.get("__annotations__", {}).items():
        if str(annotation).startswith(("ClassVar", "typing.ClassVar")):
            continue
        default = members.pop(name, MISSING)
        if default.__class__.__hash__ is None:
            raise ValueError(f"mutable default {type(default)} for field {name} is not allowed: use default_factory")
        by_name = kw_only
        if isinstance(default, Field) and default.kw_only is not MISSING:
            by_name = bool(default.kw_only)
        if name not in specs:
            added.append(name)
        specs[name] = (annotation, default, by_name)
    return added


class _LateInit:
    """Placeholder for `__init__` until it is compiled."""

    owner: type[Any]

    def __init__(self) -> None:
        self._made = 0

    def __get__(self, instance: Any, _owner: type[Any]) -> Any:
        self._made += 1
        if instance is None or self._made > _UNCOMPILED:
            return self._compile(instance)

        def init(*args: Any, **named: Any) -> None:
            if not _set_fields(self.owner, instance, args, named):
                self._compile(instance)(*args, **named)

        return init

    def _compile(self, instance: Any) -> Any:
        init = _init_of(self.owner)
        setattr(self.owner, "__init__", init)  # noqa: B010 - a plain assignment is none to type checkers
        return init if instance is None else init.__get__(instance)


def _set_fields(cls: type[Any], instance: Any, args: Sequence[Any], named: dict[str, Any]) -> bool:
    """Do the work of `__init__`. Returns False, and does nothing, if the arguments are wrong."""
    if len(args) > len(cls.__match_args__):
        return False
    specs: _Specs = cls.__dict__["__frozen_fields__"]
    given = dict(zip(cls.__match_args__, args, strict=False))
    if len(given) + len(named) != len(given | named) or not specs.keys() >= named.keys():
        return False
    given |= named
    for name, (_annotation, default, _by_name) in specs.items():
        if name not in given:
            if isinstance(default, Field):
                made = default.default_factory
                default = default.default if made is MISSING else made()
            if default is MISSING:
                return False
            given[name] = default
    for name in specs:
        getattr(cls, name).__set__(instance, given[name])
    if hasattr(cls, "__post_init__"):
        instance.__post_init__()
    return True


class _LateFields:
    """Placeholder for `__dataclass_fields__` until it is first read."""

    owner: type[Any]

    def __get__(self, _instance: object, _owner: type[Any]) -> dict[str, Field[Any]]:
        specs: _Specs = self.owner.__dict__["__frozen_fields__"]
        members: dict[str, Any] = {"__doc__": self.owner.__doc__, "__module__": self.owner.__module__}
        members["__annotations__"] = {name: annotation for name, (annotation, _default, _by_name) in specs.items()}
        for name, (_annotation, default, by_name) in specs.items():
            if isinstance(default, Field):
                default.kw_only = by_name
                members[name] = default
            else:
                members[name] = field(default=default, kw_only=by_name)
        standard: Any = dataclass(init=False, repr=False, eq=False)(type(self.owner.__name__, (), members))
        made: dict[str, Field[Any]] = standard.__dataclass_fields__
        setattr(self.owner, "__dataclass_fields__", made)  # noqa: B010 - as above
        return made


class _Shared:
    __frozen_fields__: ClassVar[_Specs]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        get, _places = _shape_of(type(self))
        return bool(get(self) == get(other))

    def __hash__(self) -> int:
        return hash(_shape_of(type(self))[0](self))

    def __repr__(self) -> str:
        shown = [
            f"{name}={getattr(self, name)!r}"
            for name, (_annotation, default, _by_name) in self.__frozen_fields__.items()
            if not isinstance(default, Field) or default.repr
        ]
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __setattr__(self, name: str, item: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __getstate__(self) -> list[Any]:
        return list(_shape_of(type(self))[0](self)[1:])

    def __setstate__(self, state: list[Any]) -> None:
        for name, item in zip(self.__frozen_fields__, state, strict=True):
            object.__setattr__(self, name, item)


_Shape = tuple[Callable[[Any], tuple[Any, ...]], dict[str, int] | None]
"""A getter for the class and all values of an instance (a getter for one value would return no tuple), and the position
of each field among the arguments; None if some are keyword-only."""
_shapes: dict[type[Any], _Shape] = {}


def _shape_of(cls: type[Any]) -> _Shape:
    known = _shapes.get(cls)
    if known is None:
        names = cls.__frozen_fields__
        places = {name: place for place, name in enumerate(names)}
        known = attrgetter("__class__", *names), places if len(cls.__match_args__) == len(places) else None
        _shapes[cls] = known
    return known


if TYPE_CHECKING:
    from dataclasses import replace as replace
else:

    def replace(value, /, **changes):
        """Like `dataclasses.replace`, for the classes defined here, in a fraction of its time: a turn makes dozens."""
        get, places = _shape_of(type(value))
        kind, *values = get(value)
        if places is None:
            return kind(**{**dict(zip(kind.__frozen_fields__, values, strict=True)), **changes})
        for name, item in changes.items():
            if name not in places:
                raise TypeError(f"{kind.__name__} has no field {name!r}")
            values[places[name]] = item
        return kind(*values)


_FROZEN = tuple((name, method) for name, method in vars(_Shared).items() if callable(method))
_UNCHANGING = ("__setattr__", "__delattr__", "__getstate__", "__setstate__", "__hash__")
_CHANGEABLE = (*((name, method) for name, method in _FROZEN if name not in _UNCHANGING), ("__hash__", None))
# Without a docstring `dataclass` would compute a signature, which is slow.
_PARAMETERS: Any = dataclass(init=False, repr=False, eq=False)(type("_Standard", (), {"__doc__": "-"})).__dict__[
    "__dataclass_params__"
]


def _init_of(cls: type[Any]) -> Callable[..., None]:
    """Compile `__init__`. It sets the slots directly, because `__setattr__` refuses."""
    positional: list[str] = ["self"]
    keyword: list[str] = []
    body: list[str] = []
    names: dict[str, Any] = {"MISSING": MISSING, "__name__": cls.__module__}
    specs: _Specs = cls.__dict__["__frozen_fields__"]
    for name, (_annotation, given, by_name) in specs.items():
        default, factory = (given.default, given.default_factory) if isinstance(given, Field) else (given, MISSING)
        parameter, item = name, name
        if default is not MISSING:
            names[f"default_{name}"] = default
            parameter = f"{name}=default_{name}"
        elif factory is not MISSING:
            names[f"make_{name}"] = factory
            parameter, item = f"{name}=MISSING", f"make_{name}() if {name} is MISSING else {name}"
        names[f"set_{name}"] = getattr(cls, name).__set__
        (keyword if by_name else positional).append(parameter)
        body.append(f"set_{name}(self, {item})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = [*positional, *(["*", *keyword] if keyword else [])]
    exec(f"def __init__({', '.join(parameters)}): {'; '.join(body) or 'pass'}", names)  # noqa: S102 - as `dataclass` does
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {name: annotation for name, (annotation, _default, _by_name) in specs.items()}
    return init
