"""Read JSON files and dicts printed by Python: an object per line, a list of objects, or an object of arrays."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.errors import InputError, Place
from dynid.base.files import Budget
from dynid.log.readers.arrays import (
    LEAST_ROWS,
    MAX_FIELDS,
    SHOWN,
    ArrayTable,
    StoredArray,
    are_episodes,
    arrays_of,
    arrays_of_episodes,
    fields_of,
    reading,
)

# Convert dicts and lists printed by Python to JSON: {'q': array([0.1, 0.2]), 'mode': None}.

_ARRAY = re.compile(
    r"\b(?:np\.|numpy\.|torch\.)?(?:array|tensor)\(\s*(\[[^()]*?\])\s*(?:,\s*(?:dtype|device)=[^()]*)?\)"
)
# A number in a list as NumPy 2 prints it: np.float64(0.1)
_NUMBER = re.compile(r"\b(?:np|numpy)\.\w+\(\s*([-+.\w]*)\s*\)")
_LAST_COMMA = re.compile(r",\s*([\])}])")
_POINT = re.compile(r"(?<=\d)\.(?![\d\w])")  # NumPy prints 1., which is invalid in JSON
_WORDS = {"None": "null", "True": "true", "False": "false", "nan": "NaN", "inf": "Infinity"}
_WORD = re.compile(rf"\b({'|'.join(_WORDS)})\b")
_TO_JSON = str.maketrans({"'": '"', "(": "[", ")": "]"})


def is_python(text: str) -> bool:
    """Whether a text begins like a dict or a list of dicts printed by Python."""
    return re.match(r"\s*\[?\s*\{\s*'", text) is not None


def with_plain_numbers(text: str) -> str:
    """Replace NumPy scalars such as np.float64(0.1) by their value."""
    return _NUMBER.sub(r"\1", text) if "(" in text else text


def as_json(text: str) -> str:
    """Convert the words, quotes, tuples and arrays of Python syntax to JSON."""
    plain = with_plain_numbers(_ARRAY.sub(r"\1", text)).translate(_TO_JSON)
    plain = _WORD.sub(lambda match: _WORDS[match[1]], _POINT.sub(".0", plain))
    return _LAST_COMMA.sub(r"\1", plain)


_TIMES_TEXT = 8  # ratio of the memory of the Python objects to the size of the text
_MAX_DEPTH = 8  # maximum nesting of objects


class JsonReader:
    """Opens JSON files; arrays are named by their path, for example "state.q"."""

    name = "JSON"
    suffixes = (".json", ".jsonl", ".ndjson", ".txt", ".log")

    def can_read(self, head: bytes) -> bool:
        """Whether the bytes `head` begin an object, a list of objects, or a dict printed by Python."""
        text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        return (
            text.startswith(b'{"')
            or (text[:1] in (b"{", b"[") and text[1:].lstrip()[:1] in (b'"', b"{", b"["))
            or is_python(text[:64].decode("utf-8", "replace"))
        )

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> ArrayTable:
        """Open a file; raise InputError if it is damaged, RefusedError if it is too large."""
        budget = Budget(path)
        budget.spend(_TIMES_TEXT * budget.size, "objects")
        with reading(path, "a JSON file"):
            text = path.read_text("utf-8-sig")
            text = as_json(text) if is_python(text) else text
            try:
                tree = json.loads(text)
            except json.JSONDecodeError as error:
                tree = _lines(path, text, error)
            return array_table(path, tree)


def _lines(path: Path, text: str, error: json.JSONDecodeError) -> list[Any]:
    """Parse an object from each line; a truncated last line is ignored."""
    lines = text.splitlines()
    objects = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            objects.append(json.loads(line))
        except json.JSONDecodeError as wrong:
            if number == len(lines) and objects:
                break
            at, cause = (number, wrong) if objects else (error.lineno, error)
            place = Place(file=str(path), line=at)
            raise InputError(
                "json",
                found=f"invalid JSON: {cause.msg} in column {cause.colno}",
                expected="JSON",
                place=place,
            ) from None
    return objects


def array_table(path: Path, tree: Any) -> ArrayTable:
    """Make a table from the arrays in a tree, or from a list of records.

    Parameters
    ----------
    path : Path
        Path of the file.
    tree : object
        Parsed content of the file.

    """
    if _are_records(tree):
        return ArrayTable(path, *(arrays_of_episodes(tree) if are_episodes(tree) else arrays_of(tree)))
    arrays: list[StoredArray] = []
    left_out: list[str] = []
    motions: list[str] = []
    _collect("", tree if isinstance(tree, Mapping) else {"column": tree}, arrays, left_out, motions, 0)
    arrays, settings = _without_settings(arrays)
    motion = motions[0] if len(motions) == 1 else None
    return ArrayTable(path, arrays[:MAX_FIELDS], [*settings, *left_out], motion)


def _are_records(tree: Any) -> bool:
    return isinstance(tree, list) and bool(tree) and all(isinstance(item, Mapping) for item in tree)


def _without_settings(arrays: Sequence[StoredArray]) -> tuple[list[StoredArray], list[str]]:
    """Separate signals from short lists of numbers (for example, joint limits), which are returned as text."""
    long = any(max(array.shape, default=0) >= LEAST_ROWS for array in arrays)
    short = [array for array in arrays if long and len(array.shape) == 1 and 1 < array.shape[0] < LEAST_ROWS]
    short = [array for array in short if array.dtype.kind in "fiu"]
    texts = [
        f"{array.name} = {', '.join(map(str, array.read(0, array.shape[0], 0)))}"[:SHOWN] for array in short
    ]
    return [array for array in arrays if array not in short], texts


def _collect(
    path: str,
    tree: Mapping[str, Any],
    arrays: list[StoredArray],
    left_out: list[str],
    motions: list[str],
    depth: int,
) -> None:
    """Collect the arrays of a tree, texts about other entries, and names of arrays with the episode of each row."""
    for key, value in tree.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping) and depth < _MAX_DEPTH:
            _collect(f"{name}.", value, arrays, left_out, motions, depth + 1)
        elif _are_records(value) and are_episodes(value):
            new_arrays, others, motion = arrays_of_episodes(value)
            arrays += new_arrays
            left_out += others
            motions.append(motion)
        elif _are_records(value):
            new_arrays, others = arrays_of(value)
            arrays += new_arrays
            left_out += others
        else:
            try:
                values = np.array(
                    [np.nan if cell is None else cell for cell in value] if isinstance(value, list) else value
                )
            except ValueError:  # rows of different lengths
                left_out.append(f"{name}: lists of different lengths")
                continue
            arrays += fields_of(name, values)
