"""Signs in text that stand for those of plain numbers: minus signs of typesetters, blanks that do not break, marks.

And numbers as NumPy prints them for Python, np.float64(1.5).
"""

from __future__ import annotations

import re

# U+2212 minus, U+2013 en dash and U+FF0D full-width hyphen, before a digit.
_MINUS = re.compile("[\u2212\u2013\uff0d](?=[.,]?\\d)")
# No-break space, figure space, thin space and narrow no-break space, between digits where they part thousands.
_BLANKS = "\u00a0\u2007\u2009\u202f"
_THOUSANDS = re.compile(f"(?<=\\d)[{_BLANKS}](?=\\d{{3}}(?!\\d))")
_BLANK = re.compile(f"[{_BLANKS}]")
# Byte order marks stand wherever files were put one behind the other.
_MARK = "\ufeff"
_MARKS_OF_NUMPY = (b"np.", b"numpy.")
# From its version 2 on, of single numbers.
_OF_NUMPY = re.compile(r"\b(?:np|numpy)\.(?:float|u?int)\d*\(([-+\w.]+)\)")


def with_plain_signs(text: str) -> str:
    """A text with the signs that numbers of programs have."""
    text = _OF_NUMPY.sub(r"\1", text) if "np." in text or "numpy." in text else text
    if text.isascii():
        return text
    return _BLANK.sub(" ", _THOUSANDS.sub("", _MINUS.sub("-", text.replace(_MARK, ""))))


def bytes_with_plain_signs(text: bytes) -> bytes:
    """The same of text in UTF-8."""
    if text.isascii() and not any(mark in text for mark in _MARKS_OF_NUMPY):
        return text
    return with_plain_signs(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
