"""TOML read and checked: every mistake at its line."""

from __future__ import annotations

import tempfile
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynid.base import (
    DynidError,
    InputError,
    InputErrors,
    Lines,
    RefusedError,
    ResourceError,
    Strict,
    line_of,
    read_toml,
    validate,
)

TEXT = '''\
name = "x" # a comment with = and [brackets]
dh = [
  [0.0, 1.5, 0.1, 0.0], # row
  [0.0, 1.5, 0.1, 0.0]
]
gravity = [0, 0, 1]
text = """
a = 3
[nothing]
"""
other = \'\'\'
b = "\'\'\'
[base]
xyz = [1, 2,
  3]
[[joint]]
name = "j1"
drive.gear_ratio = 3
[joint.inertial]
mass = 1.0
[[joint]]
"na.me" = 'q'
parts = [
  { a = 1 },
  { a = 2 },
]
[[joint.part]]
x = 1
[[joint.part]]
x = 2
'''
LINES = {
    ("name",): 1, ("dh",): 2, ("dh", 0): 3, ("dh", 1): 4, ("gravity",): 6, ("text",): 7, ("other",): 11,
    ("base",): 13,
    ("base", "xyz"): 14, ("base", "xyz", 2): 15, ("joint", 0): 16, ("joint", 0, "name"): 17,
    ("joint", 0, "drive", "gear_ratio"): 18, ("joint", 0, "inertial"): 19,
    ("joint", 0, "inertial", "mass"): 20,
    ("joint", 1): 21, ("joint", 1, "na.me"): 22, ("joint", 1, "parts"): 23, ("joint", 1, "parts", 0): 24,
    ("joint", 1, "parts", 1): 25, ("joint", 1, "part", 0): 27, ("joint", 1, "part", 1, "x"): 30,
}  # fmt: skip


class Inner(Strict):
    size: float
    kind: str | list[float] = "a"


class Outer(Strict):
    inner: list[Inner] = []  # noqa: RUF012  # pydantic copies it
    name: str | None = None
    count: int = 1


def key_lines(text: str) -> Lines:
    """Lines of the keys of a file with the text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "f.toml")
        path.write_bytes(text.encode())
        return read_toml(path)[1]


def test_every_key_has_its_line() -> None:
    tomllib.loads(TEXT)
    lines = key_lines(TEXT)
    assert {key: lines.get(key) for key in LINES} == LINES
    assert ("a",) not in lines
    assert ("nothing",) not in lines
    assert line_of(("joint", 1, "parts", 1, "a"), lines) == 25
    assert line_of(("unknown",), lines) is None
    assert key_lines(TEXT.replace("\n", "\r\n")) == lines


def check(text: str) -> Outer:
    return validate(Outer, tomllib.loads(text), key_lines(text), "f.toml")


def test_good_data_is_frozen() -> None:
    good = check('name = "n"\n[[inner]]\nsize = 2\nkind = [1.0]\n')
    assert good.inner[0].size == 2.0
    with pytest.raises(ValueError, match="frozen"):
        good.count = 2  # type: ignore[misc]  # wrong on purpose


@pytest.mark.parametrize(
    ("text", "identifier", "says"),
    [
        ('nam = "n"\n', "unknown-key", ("f.toml:1:", "'nam'", "did you mean 'name'?")),
        ("float = 1\n", "unknown-key", ("f.toml:1:", "'float'")),
        ('"a[b" = 1\n', "unknown-key", ("f.toml:1:", "'a[b'")),
        ("[[inner]]\nsize = 1.0\n[[inner]]\n", "missing-key", ("f.toml:3:", "'inner.1.size'")),
        (
            '[[inner]]\nsize = "wide"\n',
            "wrong-value",
            ("f.toml:2:", "inner.0.size = 'wide'", "a finite number"),
        ),
        ("[[inner]]\nsize = nan\n", "wrong-value", ("f.toml:2:", "finite")),
        ("[[inner]]\nsize = 1\nkind = 3\n", "wrong-value", ("f.toml:3:", "inner.0.kind = 3")),
        ("\n\ncount = 1.5\n", "wrong-value", ("f.toml:3:", "count = 1.5")),
        ("count = [" + "1, " * 1000 + "]\n", "wrong-value", ("f.toml:1:", "...")),
        ("name = 5\ncount = 'x'\n[x]\n", "unknown-key", ("f.toml:1:", "f.toml:2:", "f.toml:3:")),
    ],
)
def test_every_mistake_is_reported_with_its_line(text: str, identifier: str, says: tuple[str, ...]) -> None:
    with pytest.raises(InputErrors) as caught:
        check(text)
    assert identifier in {error.identifier for error in caught.value.errors}
    for part in says:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        (b"a = 1\nb = = 2\n", InputError, "f.toml:2:5"),
        (b'a = 1\na = "\xff"', InputError, "f.toml:2: found byte 11, which is not UTF-8"),
        (b"a = " + b"1" * 5000, InputError, "toml-syntax"),
        (b"a = 1\na = 2\n", InputError, "toml-syntax"),
        (b"a = " + b"[" * 3000 + b"]" * 3000, RefusedError, "toml-depth"),
        (b"#" * 4_000_001, RefusedError, "too-large"),
        (b'a = """\n\n', InputError, "f.toml:"),
    ],
)
def test_files_that_cannot_be_read(data: bytes, error: type[DynidError], says: str, tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_bytes(data)
    with pytest.raises(error) as caught:
        read_toml(tmp_path / "f.toml")
    assert says in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path, tmp_path / "none" / "f.toml"):
        with pytest.raises(InputError, match="file-missing"):
            read_toml(path)
    with pytest.raises(ResourceError):
        read_toml(tmp_path / ("x" * 5000))


def test_a_byte_order_mark_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_bytes(b"\xef\xbb\xbfa = 1\n")
    assert read_toml(tmp_path / "f.toml") == ({"a": 1}, {("a",): 1})


keys = st.text("abc_-9", min_size=1, max_size=4)
values = st.sampled_from(
    ["1", '"]"', "'['", "[1, [2, 3]]", "[\n 1,\n [2]\n]", "{ x = 1 }", '"""\n[t]\n"""', "1979-05-27"]
)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(keys, st.dictionaries(keys, values, max_size=3), max_size=4))
def test_lines_of_any_file_are_those_of_its_keys(tables: dict[str, dict[str, str]]) -> None:
    text, truth = "", {}
    for table, entries in tables.items():
        truth[(table,)] = text.count("\n") + 1
        text += f"[{table}] # ]\n\n"
        for key, value in entries.items():
            truth[(table, key)] = text.count("\n") + 1
            text += f"{key} = {value} # = [\n"
    tomllib.loads(text)
    lines = key_lines(text)
    assert {key: lines.get(key) for key in truth} == truth
