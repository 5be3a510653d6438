"""Frozen dataclasses of dynid behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import pytest

from dynid.base import records


def made(dataclass: Callable[..., Any], **options: Any) -> Any:
    """The same class by either decorator."""

    @dataclass(frozen=True, **options)
    class Thing:
        """A thing."""

        kind: ClassVar[str] = "thing"
        a: int
        b: float = 2.0
        c: list[int] = dataclasses.field(default_factory=list)
        d: int = dataclasses.field(default=4, compare=False, repr=False)
        e: int = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "e", 10 * self.a)

        @cached_property
        def twice(self) -> int:
            return 2 * self.a

    return Thing


OURS, THEIRS = made(records.dataclass), made(dataclasses.dataclass)
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, 3.0), {}),
    ((1,), {"d": 5}),
    ((), {"a": 1, "c": [2]}),
    ((1, 2.0, [3], 4), {}),
]
WRONG: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((), {"b": 1.0}),
    ((1,), {"a": 1}),
    ((1,), {"z": 1}),
    ((1, 2, 3, 4, 5), {}),
    ((1,), {"e": 1}),
]


@pytest.mark.parametrize(("args", "kwargs"), CALLS)
def test_same_values_and_words(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Fields, representation, dictionary and copies are those of the standard library."""
    ours, theirs = OURS(*args, **kwargs), THEIRS(*args, **kwargs)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert repr(ours) == repr(theirs)
    assert dataclasses.replace(ours, a=7).e == dataclasses.replace(theirs, a=7).e == 70
    assert copy.deepcopy(ours) == ours
    assert ours.twice == theirs.twice


@pytest.mark.parametrize(("args", "kwargs"), WRONG)
def test_wrong_arguments_raise(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """What the standard library refuses is refused, with the fields named."""
    with pytest.raises(TypeError):
        THEIRS(*args, **kwargs)
    with pytest.raises(TypeError, match="takes a, b, c, d"):
        OURS(*args, **kwargs)


def test_equality_and_hash() -> None:
    """Fields that are not compared do not count; another class is never equal."""
    Plain = made(records.dataclass, eq=False)
    assert OURS(1) == OURS(1, d=9)
    assert OURS(1) != OURS(2)
    assert OURS(1) != THEIRS(1)
    assert Plain(1) != Plain(1)
    assert len({Plain(1), Plain(1)}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(OURS(1))  # it holds a list, as with the standard library
    with pytest.raises(TypeError, match="unhashable"):
        hash(THEIRS(1))


def test_nothing_can_be_assigned() -> None:
    """Fields and other names alike, and nothing can be deleted."""
    one = OURS(1)
    for name in ("a", "twice", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, name, 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.a


def test_signature_and_fields() -> None:
    """What tools ask of a class is the same; a default that is made anew stands as one of its kind."""
    ours, theirs = inspect.signature(OURS).parameters, inspect.signature(THEIRS).parameters
    assert list(ours) == list(theirs)
    assert ours["a"] == theirs["a"]
    assert ours["b"] == theirs["b"]
    assert ours["c"].default == []
    assert [f.name for f in dataclasses.fields(OURS)] == [f.name for f in dataclasses.fields(THEIRS)]
    assert OURS.__match_args__ == THEIRS.__match_args__


@pytest.mark.parametrize("dataclass", [records.dataclass, dataclasses.dataclass])
def test_subclasses_by_either_decorator(dataclass: Callable[..., Any]) -> None:
    """Plug-ins derive from dynid's classes by the standard library's decorator."""

    @dataclass(frozen=True)
    class More(OURS):  # type: ignore[misc]
        """More."""

        f: int = 6

    one = More(1, f=8)
    assert (one.a, one.b, one.e, one.f) == (1, 2.0, 10, 8)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.f = 3
    with pytest.raises(TypeError, match="non-frozen"):
        dataclasses.dataclass(type("Loose", (OURS,), {"__annotations__": {"g": int}, "g": 1}))
