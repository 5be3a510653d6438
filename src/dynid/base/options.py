"""Options: fields of frozen dataclasses that carry their meaning, unit and range.

From them come the checks in Python, those of TOML files, command-line options, tables of the documentation and a JSON
schema. A field without `option` is an option all the same, of any value that its type allows.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Hashable, Mapping
from collections.abc import Sequence as AbstractSequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from dynid.base.errors import UsageError

_KEY = "option"
# What an option is not: the name of a kind, which no one chooses.
_NAME = "name"
# Numbers beyond it are left to the checks that say what is wrong: whole ones may be too large for a float.
_LARGEST = 1e300


@dataclass(frozen=True)
class Option:
    """What is said of one field.

    doc: one sentence.    unit: of its numbers.    above, below: bounds that are not reached; least, most: that are.
    kind: words for its values in place of those made from its type.    choices: the values of a text.
    """

    doc: str = ""
    unit: str = ""
    above: float | None = None
    below: float | None = None
    least: float | None = None
    most: float | None = None
    kind: str = ""
    choices: tuple[str, ...] = ()

    def allows(self, number: float) -> bool:
        """Whether a number lies within the bounds; without any it may be nan or infinite, too."""
        if not self.range:
            return True
        return (
            math.isfinite(number)
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
            and (self.least is None or number >= self.least)
            and (self.most is None or number <= self.most)
        )

    @property
    def range(self) -> str:
        """The bounds in words: "from 1 to 8", "> 0", "at least 0"; "" without any."""
        low = f"> {_text(self.above)}" if self.above is not None else ""
        if self.least is not None:
            low = f"at least {_text(self.least)}"
        high = f"< {_text(self.below)}" if self.below is not None else ""
        if self.most is not None:
            high = f"at most {_text(self.most)}"
        if self.least is not None and self.most is not None:
            return f"from {_text(self.least)} to {_text(self.most)}"
        return " and ".join(part for part in (low, high) if part)


def _text(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else f"{number:g}"


def option(
    default: Any = MISSING,
    doc: str = "",
    *,
    factory: Callable[[], Any] | None = None,
    unit: str = "",
    above: float | None = None,
    below: float | None = None,
    least: float | None = None,
    most: float | None = None,
    kind: str = "",
    choices: tuple[str, ...] = (),
) -> Any:
    """A dataclass field that carries an `Option`."""
    metadata = {_KEY: Option(doc, unit, above, below, least, most, kind, choices)}
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Described:
    """An option with its name, type and default; required: it has none."""

    name: str
    hint: Any
    option: Option
    default: Any
    required: bool

    @property
    def words(self) -> str:
        """What values it takes, in words."""
        return self.option.kind or words(self.hint, self.option)


def options_of(kind: Any) -> Mapping[str, Described]:
    """The options of a dataclass by name, in order; its `name` is none of them."""
    return _options_of(kind)


@cache
def _options_of(kind: Hashable) -> Mapping[str, Described]:
    dataclass_kind: Any = kind
    hints = get_type_hints(dataclass_kind)
    known = (one for one in fields(dataclass_kind) if one.name != _NAME and one.init)
    return {one.name: _described(one, hints[one.name]) for one in known}


def _described(one: Field[Any], hint: Any) -> Described:
    default: Any = None
    if one.default is not MISSING:
        default = one.default
    elif one.default_factory is not MISSING:
        default = one.default_factory()
    required = one.default is MISSING and one.default_factory is MISSING
    return Described(one.name, hint, one.metadata.get(_KEY, Option()), default, required)


def set_options(instance: Any, kind: Any = None) -> dict[str, Any]:
    """Values of the options of a dataclass, or of one of its bases, that are not None: as a file writes them."""
    values = {name: getattr(instance, name) for name in options_of(kind or type(instance))}
    return {name: value for name, value in values.items() if value is not None}


def check_options(instance: Any, section: str = "", code: str = "option-range") -> None:
    """Raises UsageError for a field of a dataclass whose numbers or text lie out of range; types are not looked at."""
    for name, one in options_of(type(instance)).items():
        value = getattr(instance, name)
        if not _in_range(value, one):
            raise UsageError(
                code,
                found=f"{section + '.' if section else ''}{name} = {value!r}",
                expected=one.words,
            )


def _in_range(value: Any, one: Described) -> bool:
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, str):
        choices = one.option.choices or literals(one.hint)
        return value in choices if choices else True
    if isinstance(value, int | float):
        return one.option.allows(value)
    if isinstance(value, AbstractSequence):
        return all(_in_range(part, one) for part in value)
    return True


def literals(hint: Any) -> tuple[str, ...]:
    """The texts that a type allows; () where it allows any."""
    if get_origin(hint) is Literal:
        return tuple(one for one in get_args(hint) if isinstance(one, str))
    if _is_union(hint) or get_origin(hint) is Annotated:
        parts = get_args(hint)
        return () if str in parts else tuple(text for part in parts for text in literals(part))
    return ()


def taken(hint: Any, one: Option, value: Any) -> Any:
    """A plain value, as JSON has it, as a field of this type holds it: a whole number as float, a list as tuple.

    MISSING for one that it does not take, and for a type that is not made of numbers, texts and tuples alone.
    """
    origin, parts = get_origin(hint), get_args(hint)
    if _is_union(hint):
        found = [read for part in parts if (read := taken(part, one, value)) is not MISSING]
        return found[0] if len(found) == 1 else MISSING
    if origin is tuple and isinstance(value, list | tuple):
        each = parts[:1] * len(value) if parts[-1] is Ellipsis else parts
        read = [taken(part, one, item) for part, item in zip(each, value, strict=False)]
        return tuple(read) if len(each) == len(value) and MISSING not in read else MISSING
    kind = type(value)
    fits = (
        (hint is float and _is_sure(value, (float, int)) and one.allows(value))
        or (hint is int and _is_sure(value, (int,)) and one.allows(value))
        or (hint is str and kind is str and value.isascii() and value in (one.choices or (value,)))
        or (origin is Literal and kind is str and value in parts)
        or (hint in (bool, type(None)) and kind is hint)
    )
    if not fits:
        return MISSING
    return float(value) if hint is float else value


def _is_sure(value: Any, kinds: tuple[type, ...]) -> bool:
    return type(value) in kinds and -_LARGEST <= value <= _LARGEST


def constrained(hint: Any, one: Option) -> Any:
    """The type with the option's range on its numbers and its choices in place of text, for pydantic."""
    from pydantic import Field as Limit

    if hint in (float, int):
        limits = {"gt": one.above, "ge": one.least, "lt": one.below, "le": one.most}
        given: dict[str, Any] = {name: _whole(value) for name, value in limits.items() if value is not None}
        if hint is float:
            given["allow_inf_nan"] = False
        return Annotated[hint, Limit(**given)]
    if hint is str and one.choices:
        return Literal[one.choices]
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal or not parts:
        return hint
    if _is_union(hint):
        return Union[tuple(constrained(part, one) for part in parts)]  # noqa: UP007 made at run time
    if origin is Annotated:
        return Annotated[(constrained(parts[0], one), *parts[1:])]
    inner = tuple(part if part is Ellipsis else constrained(part, one) for part in parts)
    return cast(Any, origin)[inner]


def _whole(value: float) -> float | int:
    return int(value) if float(value).is_integer() else value


def words(hint: Any, one: Option = Option()) -> str:
    """The values of a type in words: "a number > 0 (Hz) or 'auto'"."""
    found = list(dict.fromkeys(_alternatives(hint, one)))
    return " or ".join(filter(None, (", ".join(found[:-1]), found[-1])))


def _alternatives(hint: Any, one: Option) -> list[str]:
    origin, parts = get_origin(hint), get_args(hint)
    unit = f" ({one.unit})" if one.unit else ""
    if origin is Annotated:
        return _alternatives(parts[0], with_limits(one, parts[1:]))
    if _is_union(hint):
        return [text for part in parts if part is not type(None) for text in _alternatives(part, one)]
    if origin is Literal:
        return [repr(part) for part in parts]
    if hint is bool:
        return ["true or false"]
    if hint is int:
        return [" ".join(filter(None, ("a whole number", one.range))) + unit]
    if hint is float:
        return [
            " ".join(filter(None, ("a finite number" if not one.range else "a number", one.range))) + unit
        ]
    if hint is str:
        return [repr(choice) for choice in one.choices] or ["text"]
    if origin is tuple and Ellipsis not in parts:
        return [f"{len(parts)} {_plural(parts[0], one)}"]
    if origin in (list, tuple, AbstractSequence):
        return [f"a list of {_plural(parts[0], one)}"]
    return ["a table"]


def _plural(hint: Any, one: Option) -> str:
    if get_origin(hint) is Annotated:
        return _plural(get_args(hint)[0], with_limits(one, get_args(hint)[1:]))
    if hint is str and one.choices:
        return " or ".join(repr(str(choice)) for choice in one.choices)
    plain = {float: "numbers", int: "whole numbers", str: "texts"}.get(hint)
    unit = f" ({one.unit})" if one.unit else ""
    if plain is None:
        inner = words(hint, one)
        for single, several in (("a list of", "lists of"), ("text", "texts"), ("a table", "tables")):
            inner = inner.replace(single, several)
        return inner
    return " ".join(filter(None, (plain, one.range))) + unit


def with_limits(one: Option, metadata: AbstractSequence[Any]) -> Option:
    """The option with bounds as pydantic writes them: objects with gt, ge, lt or le, or fields with lists of such."""
    for entry in metadata:
        for bound in getattr(entry, "metadata", None) or (entry,):
            for name, ours in (("gt", "above"), ("ge", "least"), ("lt", "below"), ("le", "most")):
                value = getattr(bound, name, None)
                if value is not None:
                    changed: dict[str, Any] = {ours: float(value)}
                    one = replace(one, **changed)
    return one


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)
