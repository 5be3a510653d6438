"""What Python prints of dicts and lists, as JSON: {'q': array([0.1, 0.2]), 'mode': None}."""

from __future__ import annotations

import re

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
