"""Plain data of results."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path

import numpy as np
import pytest

from dynid.base import plain


class Word(StrEnum):
    GOOD = "GOOD"


class Number(Enum):
    TWO = 2


@dataclass(frozen=True)
class Inner:
    value: np.ndarray
    path: Path
    _cache: object = None


def test_every_kind_of_value_becomes_json() -> None:
    inner = Inner(np.array([[1.0, np.nan], [np.inf, -2.5]]), Path("a") / "b", object())
    several = (Word.GOOD, Number.TWO, np.float64(0.5), np.int32(4), np.bool_(True), None)
    data = plain({"inner": inner, 3: several})
    assert data == {
        "inner": {"value": [[1.0, None], [None, -2.5]], "path": str(Path("a") / "b")},
        "3": ["GOOD", 2, 0.5, 4, True, None],
    }
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert type(data["3"][0]) is str


def test_what_has_no_data_is_refused() -> None:
    with pytest.raises(TypeError, match="a object cannot be converted"):
        plain([object()])
