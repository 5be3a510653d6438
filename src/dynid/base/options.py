"""Options: fields of frozen dataclasses with a meaning, unit and range.

They define the checks in Python and of TOML files, command-line options, tables of the documentation and a JSON schema.
A field without `option` is also an option, with any value of its type.
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
# Field with the name of a kind, which is not an option.
_NAME = "name"
# Greatest number of the fast checks. Larger numbers go to the full checks, since integers may overflow a float.
_LARGEST = 1e300


@dataclass(frozen=True)
class Option:
    """Meaning and range of one field.

    Parameters
    ----------
    doc : str
        Its meaning in one sentence.
    unit : str
        Unit of its numbers.
    above, below : float, optional
        Exclusive bounds.
    least, most : float, optional
        Inclusive bounds.
    kind : str
        Words for its values, instead of those derived from its type.
    choices : tuple of str
        Allowed texts.

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
        """Whether a number is within the bounds; without bounds, nan and infinity are also allowed."""
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
        """The bounds as text: "from 1 to 8", "> 0", "at least 0"; "" without bounds."""
        low = f"> {_number_text(self.above)}" if self.above is not None else ""
        if self.least is not None:
            low = f"at least {_number_text(self.least)}"
        high = f"< {_number_text(self.below)}" if self.below is not None else ""
        if self.most is not None:
            high = f"at most {_number_text(self.most)}"
        if self.least is not None and self.most is not None:
            return f"from {_number_text(self.least)} to {_number_text(self.most)}"
        return " and ".join(part for part in (low, high) if part)


def _number_text(number: float) -> str:
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
    """Return a dataclass field with an `Option`.

    Parameters
    ----------
    default : object
        Default value; none makes the option required.
    doc : str
        Its meaning in one sentence.
    factory : callable, optional
        Makes the default, for values that can change.
    unit, above, below, least, most, kind, choices
        As for `Option`.

    Returns
    -------
    dataclasses.Field

    """
    metadata = {_KEY: Option(doc, unit, above, below, least, most, kind, choices)}
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Described:
    """An option with its name, type and default; required: it has no default."""

    name: str
    hint: Any
    option: Option
    default: Any
    required: bool

    @property
    def words(self) -> str:
        """Allowed values as text."""
        return self.option.kind or words(self.hint, self.option)


def options_of(kind: Any) -> Mapping[str, Described]:
    """Options of a dataclass by name, in order, without its field `name`.

    Parameters
    ----------
    kind : type
        The dataclass.

    Returns
    -------
    mapping of str to Described

    """
    return _options_of(kind)


@cache
def _options_of(kind: Hashable) -> Mapping[str, Described]:
    dataclass_kind: Any = kind
    hints = get_type_hints(dataclass_kind)
    known = (entry for entry in fields(dataclass_kind) if entry.name != _NAME and entry.init)
    return {entry.name: _described(entry, hints[entry.name]) for entry in known}


def _described(entry: Field[Any], hint: Any) -> Described:
    default: Any = None
    if entry.default is not MISSING:
        default = entry.default
    elif entry.default_factory is not MISSING:
        default = entry.default_factory()
    required = entry.default is MISSING and entry.default_factory is MISSING
    return Described(entry.name, hint, entry.metadata.get(_KEY, Option()), default, required)


def set_options(instance: Any, kind: Any = None) -> dict[str, Any]:
    """Values of the options of a dataclass, or of one of its bases, that are not None: as a file writes them."""
    values = {name: getattr(instance, name) for name in options_of(kind or type(instance))}
    return {name: value for name, value in values.items() if value is not None}


def check_options(instance: Any, section: str = "", code: str = "option-range") -> None:
    """Check the range of all options of a dataclass instance; types are not checked.

    Parameters
    ----------
    instance : object
        Instance of a dataclass.
    section : str
        Prefix of option names in the message.
    code : str
        Code of the error.

    Raises
    ------
    UsageError
        For the first option out of range.

    """
    for name, described in options_of(type(instance)).items():
        value = getattr(instance, name)
        if not _in_range(value, described):
            raise UsageError(
                code,
                found=f"{section + '.' if section else ''}{name} = {value!r}",
                expected=described.words,
            )


def _in_range(value: Any, described: Described) -> bool:
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, str):
        choices = described.option.choices or literals(described.hint)
        return value in choices if choices else True
    if isinstance(value, int | float):
        return described.option.allows(value)
    if isinstance(value, AbstractSequence):
        return all(_in_range(part, described) for part in value)
    return True


def literals(hint: Any) -> tuple[str, ...]:
    """Texts that a type allows; () if it allows any text or none."""
    if get_origin(hint) is Literal:
        return tuple(choice for choice in get_args(hint) if isinstance(choice, str))
    if _is_union(hint) or get_origin(hint) is Annotated:
        parts = get_args(hint)
        return () if str in parts else tuple(text for part in parts for text in literals(part))
    return ()


def converted(hint: Any, option: Option, value: Any) -> Any:
    """Convert a plain JSON value to a type, such as an integer to float or a list to a tuple.

    Parameters
    ----------
    hint : type
        Type of the field.
    option : Option
        Its range.
    value : object
        Plain value.

    Returns
    -------
    object
        MISSING for a value that is not allowed, and for types other than numbers, texts and tuples.

    """
    origin, parts = get_origin(hint), get_args(hint)
    if _is_union(hint):
        matches = [read for part in parts if (read := converted(part, option, value)) is not MISSING]
        return matches[0] if len(matches) == 1 else MISSING
    if origin is tuple and isinstance(value, list | tuple):
        each = parts[:1] * len(value) if parts[-1] is Ellipsis else parts
        read = [converted(part, option, item) for part, item in zip(each, value, strict=False)]
        return tuple(read) if len(each) == len(value) and MISSING not in read else MISSING
    kind = type(value)
    fits = (
        (hint is float and _is_sure(value, (float, int)) and option.allows(value))
        or (hint is int and _is_sure(value, (int,)) and option.allows(value))
        or (hint is str and kind is str and value.isascii() and value in (option.choices or (value,)))
        or (origin is Literal and kind is str and value in parts)
        or (hint in (bool, type(None)) and kind is hint)
    )
    if not fits:
        return MISSING
    return float(value) if hint is float else value


def _is_sure(value: Any, kinds: tuple[type, ...]) -> bool:
    return type(value) in kinds and -_LARGEST <= value <= _LARGEST


def constrained(hint: Any, option: Option) -> Any:
    """Return a type for pydantic with the option's range on numbers and its choices instead of text."""
    from pydantic import Field as Limit

    if hint in (float, int):
        limits = {"gt": option.above, "ge": option.least, "lt": option.below, "le": option.most}
        given: dict[str, Any] = {name: _whole(value) for name, value in limits.items() if value is not None}
        if hint is float:
            given["allow_inf_nan"] = False
        return Annotated[hint, Limit(**given)]
    if hint is str and option.choices:
        return Literal[option.choices]
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal or not parts:
        return hint
    if _is_union(hint):
        return Union[tuple(constrained(part, option) for part in parts)]  # noqa: UP007 made at run time
    if origin is Annotated:
        return Annotated[(constrained(parts[0], option), *parts[1:])]
    inner = tuple(part if part is Ellipsis else constrained(part, option) for part in parts)
    return cast(Any, origin)[inner]


def _whole(value: float) -> float | int:
    return int(value) if float(value).is_integer() else value


def words(hint: Any, option: Option = Option()) -> str:
    """Return the values of a type as text: "a number > 0 (Hz) or 'auto'"."""
    alternatives = list(dict.fromkeys(_alternatives(hint, option)))
    return " or ".join(filter(None, (", ".join(alternatives[:-1]), alternatives[-1])))


def _alternatives(hint: Any, option: Option) -> list[str]:
    origin, parts = get_origin(hint), get_args(hint)
    unit = f" ({option.unit})" if option.unit else ""
    if origin is Annotated:
        return _alternatives(parts[0], with_limits(option, parts[1:]))
    if _is_union(hint):
        return [text for part in parts if part is not type(None) for text in _alternatives(part, option)]
    if origin is Literal:
        return [repr(part) for part in parts]
    if hint is bool:
        return ["true or false"]
    if hint is int:
        return [" ".join(filter(None, ("a whole number", option.range))) + unit]
    if hint is float:
        return [
            " ".join(filter(None, ("a finite number" if not option.range else "a number", option.range)))
            + unit
        ]
    if hint is str:
        return [repr(choice) for choice in option.choices] or ["text"]
    if origin is tuple and Ellipsis not in parts:
        return [f"{len(parts)} {_plural(parts[0], option)}"]
    if origin in (list, tuple, AbstractSequence):
        return [f"a list of {_plural(parts[0], option)}"]
    return ["a table"]


def _plural(hint: Any, option: Option) -> str:
    if get_origin(hint) is Annotated:
        return _plural(get_args(hint)[0], with_limits(option, get_args(hint)[1:]))
    if hint is str and option.choices:
        return " or ".join(repr(str(choice)) for choice in option.choices)
    plain = {float: "numbers", int: "whole numbers", str: "texts"}.get(hint)
    unit = f" ({option.unit})" if option.unit else ""
    if plain is None:
        inner = words(hint, option)
        for single, several in (("a list of", "lists of"), ("text", "texts"), ("a table", "tables")):
            inner = inner.replace(single, several)
        return inner
    return " ".join(filter(None, (plain, option.range))) + unit


def with_limits(option: Option, metadata: AbstractSequence[Any]) -> Option:
    """Add pydantic's bounds to an option: objects with gt, ge, lt or le, or fields with lists of them."""
    for entry in metadata:
        for bound in getattr(entry, "metadata", None) or (entry,):
            for name, ours in (("gt", "above"), ("ge", "least"), ("lt", "below"), ("le", "most")):
                value = getattr(bound, name, None)
                if value is not None:
                    changed: dict[str, Any] = {ours: float(value)}
                    option = replace(option, **changed)
    return option


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)
