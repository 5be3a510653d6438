"""Frozen dataclasses that share their methods' code.

The standard library writes the methods of a frozen class as text and compiles them, half a millisecond a class: of a
command that reads a run that was a fifth of the processor time. Here classes behave alike and nothing is compiled.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import inspect
    from dataclasses import dataclass

    Fields = tuple[dataclasses.Field[Any], ...]
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True):
        """As `dataclasses.dataclass`."""

        def made(cls):
            # A base of its own may have fields in front.
            if frozen and not any(dataclasses.is_dataclass(base) for base in cls.__bases__):
                return _frozen(cls, eq)
            return dataclasses.dataclass(cls, frozen=frozen, eq=eq)

        return made if cls is None else made(cls)


__all__ = ["dataclass"]


class _Signature:
    """The signature of a class, put together where somebody asks for it."""

    def __get__(self, instance: object, cls: Any) -> inspect.Signature:
        import inspect

        return inspect.Signature(
            [
                inspect.Parameter(
                    field.name,
                    inspect.Parameter.POSITIONAL_OR_KEYWORD,
                    default=_default(field, inspect.Parameter.empty),
                    annotation=field.type,
                )
                for field in dataclasses.fields(cls)
                if field.init
            ],
            return_annotation=None,
        )


def _frozen(cls: Any, eq: bool) -> Any:
    # Without a docstring the standard library would make one of the signature, which takes as long as all else.
    cls.__doc__ = cls.__doc__ or cls.__name__
    own = dict(vars(cls))
    dataclasses.dataclass(cls, init=False, repr=False, eq=False)
    fields = dataclasses.fields(cls)
    methods = {"__init__": _initialiser(cls, fields), "__repr__": _text(fields), **_guards(cls, fields)}
    if eq:
        methods |= _equality(fields)
    for name, method in methods.items():
        if name not in own:
            method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
            setattr(cls, name, method)
    cls.__signature__ = _Signature()
    # Subclasses ask whether their bases are frozen.
    cls.__dataclass_params__.frozen = True
    return cls


def _initialiser(cls: Any, fields: Fields) -> Callable[..., None]:
    names = tuple(field.name for field in fields if field.init)
    known, finished = frozenset(names), hasattr(cls, "__post_init__")
    made = tuple(
        field for field in fields if not field.init and field.default_factory is not dataclasses.MISSING
    )
    by_name = {field.name: field for field in fields}

    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        own = self.__dict__
        if args:
            own.update(zip(names, args, strict=False))
        if len(args) > len(names) or not known.issuperset(kwargs) or not own.keys().isdisjoint(kwargs):
            raise TypeError(_mismatch(self, names, args, kwargs))
        own.update(kwargs)
        if len(own) < len(names):
            for name in names:
                if name not in own:
                    own[name] = _default(by_name[name], dataclasses.MISSING)
                    if own[name] is dataclasses.MISSING:
                        raise TypeError(_mismatch(self, names, args, kwargs))
        for field in made:
            own[field.name] = _default(field, None)
        if finished:
            self.__post_init__()

    return initialise


def _default(field: dataclasses.Field[Any], nothing: Any) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return nothing if field.default is dataclasses.MISSING else field.default


def _mismatch(new: Any, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    given = [f"{len(args)} in order"] * bool(args) + [f"'{name}'" for name in kwargs]
    return f"{type(new).__qualname__} takes {', '.join(names) or 'nothing'}; given: {', '.join(given) or 'nothing'}"


def _text(fields: Fields) -> Callable[[Any], str]:
    names = [field.name for field in fields if field.repr]

    def text(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return recursive_repr()(text)


def _guards(cls: Any, fields: Fields) -> dict[str, Callable[..., Any]]:
    names = {field.name for field in fields}

    def assign(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": assign, "__delattr__": delete}


def _equality(fields: Fields) -> dict[str, Callable[..., Any]]:
    names = [field.name for field in fields if field.compare]
    # One name gives its value, several a tuple of theirs.
    values: Callable[[Any], Any] = attrgetter(*names) if names else lambda _: ()

    def equal(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self is other or values(self) == values(other)

    def number(self: Any) -> int:
        return hash(values(self))

    return {"__eq__": equal, "__hash__": number}
