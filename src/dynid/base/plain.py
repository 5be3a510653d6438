"""Values as plain JSON data, for programs that read what a command found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any


def plain(value: object) -> Any:
    """JSON data of a value: dataclasses as objects by field, arrays as lists, nan and infinities as null.

    Raises TypeError for a value that is none of these, since its text would be no data.
    """
    kind = type(value)
    if kind is float:  # most of what there is, by far
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
        return {str(key): plain(one) for key, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value) if not f.name.startswith("_")}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy, which need not be imported here
        data = value.tolist()
        whole = getattr(getattr(value, "dtype", None), "kind", "O") in "iub"
        return data if whole else plain(data)
    raise TypeError(f"no plain data of a {type(value).__name__}")
