"""Frozen dataclasses, their conversion to plain data, and their display at a prompt."""

from __future__ import annotations

import dataclasses
import html
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from operator import attrgetter
from pathlib import Path
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]


# Frozen dataclasses that share the code of their methods.
#
# The standard library generates and compiles the methods of each frozen class, which takes 0.5 ms per class: a fifth of
# the processor time of a command that reads a run. These classes behave the same without compiling anything.

if TYPE_CHECKING:
    import inspect
    from dataclasses import dataclass

    Fields = tuple[dataclasses.Field[Any], ...]
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True):
        """Make a class a dataclass, as `dataclasses.dataclass` does."""

        def made(cls):
            # Fields of a base class come first; the standard library handles them.
            if frozen and not any(dataclasses.is_dataclass(base) for base in cls.__bases__):
                return _frozen(cls, eq)
            return dataclasses.dataclass(cls, frozen=frozen, eq=eq)

        return made if cls is None else made(cls)


class _Signature:
    """Signature of a class, created on first use."""

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
    # Without a docstring, the standard library would derive one from the signature, which is slow.
    cls.__doc__ = cls.__doc__ or cls.__name__
    defined = dict(vars(cls))
    dataclasses.dataclass(cls, init=False, repr=False, eq=False)
    fields = dataclasses.fields(cls)
    methods = {
        "__init__": _initialiser(cls, fields),
        "__repr__": _repr_method(fields),
        **_guards(cls, fields),
    }
    if eq:
        methods |= _equality(fields)
    for name, method in methods.items():
        if name not in defined:
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
        values = self.__dict__
        if args:
            values.update(zip(names, args, strict=False))
        if len(args) > len(names) or not known.issuperset(kwargs) or not values.keys().isdisjoint(kwargs):
            raise TypeError(_mismatch(self, names, args, kwargs))
        values.update(kwargs)
        if len(values) < len(names):
            for name in names:
                if name not in values:
                    values[name] = _default(by_name[name], dataclasses.MISSING)
                    if values[name] is dataclasses.MISSING:
                        raise TypeError(_mismatch(self, names, args, kwargs))
        for field in made:
            values[field.name] = _default(field, None)
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


def _repr_method(fields: Fields) -> Callable[[Any], str]:
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
    # attrgetter returns one value for one name, and a tuple for several.
    values: Callable[[Any], Any] = attrgetter(*names) if names else lambda _: ()

    def equal(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self is other or values(self) == values(other)

    def number(self: Any) -> int:
        return hash(values(self))

    return {"__eq__": equal, "__hash__": number}


# Values as plain JSON data, for programs that read the results of a command.


def plain(value: object) -> Any:
    """Convert a value to JSON data: dataclasses to objects, arrays to lists, nan and infinity to null.

    Parameters
    ----------
    value : object
        Numbers, text, enumerations, paths, mappings, sequences, arrays and dataclasses of these.

    Returns
    -------
    object

    Raises
    ------
    TypeError
        For a value of another type.

    """
    kind = type(value)
    if kind is float:  # first, since most values are floats
        return value if math.isfinite(value) else None  # type: ignore[arg-type]  # mypy does not narrow by `kind is`
    if kind is str or kind is int:
        return value
    if value is None or isinstance(value, bool | str):
        return str(value) if isinstance(value, Enum) else value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value) if not f.name.startswith("_")}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy, without importing it
        data = value.tolist()
        whole = getattr(getattr(value, "dtype", None), "kind", "O") in "iub"
        return data if whole else plain(data)
    raise TypeError(f"a {type(value).__name__} cannot be converted to plain data")


# Display of objects at a prompt and in a notebook: a title, facts and a small table.

# Characters per line that terminals and notebooks show without wrapping.
WIDTH = 100
# Lines per fact, characters per HTML cell and rows per table, so that the display stays small even with long names.
FACT_LINES, CELL, ROWS = 3, 300, 12
_INDENT, _NO_BREAK = 4, "\u00a0"


@dataclass(frozen=True)
class Overview:
    """Display of an object.

    Parameters
    ----------
    title : str
    facts : tuple of (str, str)
        Labels and values.
    heads : tuple of str
        Headings of a table that only HTML shows.
    rows : tuple of tuple of str
        Its rows.

    """

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()

    def text(self) -> str:
        """Text with one line or more per fact."""
        lines = [shortened(self.title, WIDTH)]
        for label, value in self.facts:
            lines += textwrap.wrap(
                f"{label}: {printable(value)}".replace(" %", f"{_NO_BREAK}%"),
                WIDTH,
                initial_indent="  ",
                subsequent_indent=" " * _INDENT,
                max_lines=FACT_LINES,
                placeholder=" ...",
            )
        return "\n".join(lines).replace(_NO_BREAK, " ")

    def html(self) -> str:
        """HTML tables; all text is escaped."""
        facts = "".join(
            f'<tr><th style="text-align:left">{_cell(label)}</th><td style="text-align:left">{_cell(value)}</td></tr>'
            for label, value in self.facts
        )
        return f"<div><p><b>{_cell(self.title)}</b></p><table>{facts}</table>{self._table()}</div>"

    def _table(self) -> str:
        if not self.rows:
            return ""
        head = "".join(f"<th>{_cell(cell)}</th>" for cell in self.heads)
        body = "".join(
            "<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in self.rows[:ROWS]
        )
        left = len(self.rows) - ROWS
        more = f'<tr><td colspan="{len(self.heads)}">and {left} more</td></tr>' if left > 0 else ""
        return f"<table><tr>{head}</tr>{body}{more}</table>"


def printable(text: str) -> str:
    """Replace characters that are not printable with question marks."""
    return "".join(character if character.isprintable() else "?" for character in text)


def shortened(text: str, length: int) -> str:
    """Shorten a text to a length with an ellipsis, and replace characters that are not printable."""
    plain = printable(text)
    return plain if len(plain) <= length else plain[: length - 4] + " ..."


def listed(names: Sequence[str], most: int = 8) -> str:
    """Join names with commas, with the number of omitted names at the end: "a, b and 3 more".

    Parameters
    ----------
    names : sequence of str
        The names.
    most : int
        How many are listed.

    Returns
    -------
    str

    """
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left} more" if left > 0 else "")


def few(names: Sequence[str], most: int) -> str:
    """Join the first names with commas, with dots for the others: "a, b, ...".

    Parameters
    ----------
    names : sequence of str
        The names.
    most : int
        How many are listed.

    Returns
    -------
    str

    """
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: "1 joint", "7 joints"."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _cell(text: str) -> str:
    return html.escape(shortened(text, CELL))
