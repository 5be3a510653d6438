"""JSON, or what Python prints of the same: one object a line, a list of objects, or an object of arrays."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.errors import InputError, Place
from dynid.log.readers.arrays import (
    LEAST_ROWS,
    MAX_FIELDS,
    SHOWN,
    ArrayTable,
    Budget,
    StoredArray,
    are_episodes,
    arrays_of,
    arrays_of_episodes,
    fields_of,
    reading,
)

# What Python prints of dicts and lists, as JSON: {'q': array([0.1, 0.2]), 'mode': None}.

_ARRAY = re.compile(
    r"\b(?:np\.|numpy\.|torch\.)?(?:array|tensor)\(\s*(\[[^()]*?\])\s*(?:,\s*(?:dtype|device)=[^()]*)?\)"
)
# What NumPy 2 prints of a number in a list: np.float64(0.1)
_NUMBER = re.compile(r"\b(?:np|numpy)\.\w+\(\s*([-+.\w]*)\s*\)")
_LAST_COMMA = re.compile(r",\s*([\])}])")
_POINT = re.compile(r"(?<=\d)\.(?![\d\w])")  # NumPy's 1. is no number of JSON
_WORDS = {"None": "null", "True": "true", "False": "false", "nan": "NaN", "inf": "Infinity"}
_WORD = re.compile(rf"\b({'|'.join(_WORDS)})\b")
_TO_JSON = str.maketrans({"'": '"', "(": "[", ")": "]"})


def is_python(text: str) -> bool:
    """Whether a text begins as a dict that Python printed, or a list of such."""
    return re.match(r"\s*\[?\s*\{\s*'", text) is not None


def with_plain_numbers(text: str) -> str:
    """The text with NumPy's numbers as other ones are written."""
    return _NUMBER.sub(r"\1", text) if "(" in text else text


def as_json(text: str) -> str:
    """The text with Python's words, quotes, tuples and arrays as JSON has them."""
    plain = with_plain_numbers(_ARRAY.sub(r"\1", text)).translate(_TO_JSON)
    plain = _WORD.sub(lambda found: _WORDS[found[1]], _POINT.sub(".0", plain))
    return _LAST_COMMA.sub(r"\1", plain)


# Python's objects take so many times the bytes of the text.
_TIMES_TEXT = 8
_MAX_DEPTH = 8


class JsonReader:
    """Opens JSON files; arrays are called by their path, "state.q"."""

    name = "JSON"
    suffixes = (".json", ".jsonl", ".ndjson", ".txt", ".log")

    def can_read(self, head: bytes) -> bool:
        """Whether the first bytes are those of an object, or of a list of objects or numbers."""
        text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        return (
            text.startswith(b'{"')
            or (text[:1] in (b"{", b"[") and text[1:].lstrip()[:1] in (b'"', b"{", b"["))
            or is_python(text[:64].decode("utf-8", "replace"))
        )

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> ArrayTable:
        """Opens a file; raises InputError for a damaged one, RefusedError for one that is too large."""
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
    """Objects, one a line; the last line may be cut off."""
    lines = text.splitlines()
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError as wrong:
            if number == len(lines) and found:
                break
            at, what = (number, wrong) if found else (error.lineno, error)
            place = Place(file=str(path), line=at)
            raise InputError(
                "json", found=f"{what.msg} in column {what.colno}", expected="JSON", place=place
            ) from None
    return found


def array_table(path: Path, tree: Any) -> ArrayTable:
    """The arrays of a tree, or of a list of records, as columns."""
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
    return isinstance(tree, list) and bool(tree) and all(isinstance(one, Mapping) for one in tree)


def _without_settings(arrays: Sequence[StoredArray]) -> tuple[list[StoredArray], list[str]]:
    """The arrays but short lists of numbers beside long ones, such as limits of a joint, and these in words."""
    long = any(max(one.shape, default=0) >= LEAST_ROWS for one in arrays)
    short = [one for one in arrays if long and len(one.shape) == 1 and 1 < one.shape[0] < LEAST_ROWS]
    short = [one for one in short if one.dtype.kind in "fiu"]
    told = [f"{one.name} = {', '.join(map(str, one.read(0, one.shape[0], 0)))}"[:SHOWN] for one in short]
    return [one for one in arrays if one not in short], told


def _collect(
    path: str,
    tree: Mapping[str, Any],
    arrays: list[StoredArray],
    left_out: list[str],
    motions: list[str],
    depth: int,
) -> None:
    """Adds to arrays, to what is none and to the arrays that name the episode of each row."""
    for key, value in tree.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping) and depth < _MAX_DEPTH:
            _collect(f"{name}.", value, arrays, left_out, motions, depth + 1)
        elif _are_records(value) and are_episodes(value):
            found, others, motion = arrays_of_episodes(value)
            arrays += found
            left_out += others
            motions.append(motion)
        elif _are_records(value):
            found, others = arrays_of(value)
            arrays += found
            left_out += others
        else:
            try:
                values = np.array(
                    [np.nan if one is None else one for one in value] if isinstance(value, list) else value
                )
            except ValueError:  # rows of different lengths
                left_out.append(f"{name}: lists of different lengths")
                continue
            arrays += fields_of(name, values)
