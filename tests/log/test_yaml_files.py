"""YAML of numbers: lists of records, and lists by name, in blocks and in brackets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base.errors import InputError
from dynid.log.files import open_table

T = 40
t = np.arange(T) / 100
q = np.stack([np.sin(t), -np.cos(t)], axis=1)


def flow(values: np.ndarray) -> str:
    return "[" + ", ".join(map(str, values.tolist())) + "]"


def block(values: np.ndarray, indent: str) -> list[str]:
    return [f"{indent}- {value}" for value in values.tolist()]


FORMS = {
    "records": [line for k in range(T) for line in (f"- t: {t[k]}", f"  q: {flow(q[k])}")],
    "blocks": [line for k in range(T) for line in (f"- t: {t[k]}", "  q:", *block(q[k], "  "))],
    "one a line": [f"- {{t: {t[k]}, q: {flow(q[k])}}}" for k in range(T)],
    "repeated": [line for k in range(T) for line in (f"t: {t[k]}", f"q: {flow(q[k])}")],
    "lists": [f"t: {flow(t)}", "q:", *(f"  - {flow(row)}" for row in q)],
    "lists in blocks": ["t:", *block(t, ""), "q:", *(f"- {flow(row)}" for row in q)],
    "wrapped": [
        "# an arm",
        "---",
        "samples:",
        *(line for k in range(T) for line in (f"  - t: {t[k]}", f"    q: {flow(q[k])}")),
    ],
    "broken lines": [f"t: {flow(t)}".replace(", 0.2,", ",\n  0.2,"), "q:", *(f"- {flow(row)}" for row in q)],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("suffix", [".yaml", ".txt"])
def test_forms_hold_the_same_columns(form: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"log{suffix}"
    path.write_text("\n".join([*FORMS[form], ""]))
    batch = next(iter(open_table(path).batches(("t", "q[0]", "q[1]"), 100)))
    np.testing.assert_array_equal(
        np.stack([np.asarray(one) for one in batch.values()], axis=1), np.column_stack([t, q])
    )


@pytest.mark.parametrize("line", ["  q: !!python/object:os.system ls", "  q: *a", "  q: [1, {]}", "   - 3"])
def test_what_is_more_than_numbers_is_refused_with_its_line(line: str, tmp_path: Path) -> None:
    path = tmp_path / "log.yaml"
    path.write_text("\n".join([*(f"- t: {one}" for one in t), "- t: 1", line, "- t: 2", ""]))
    with pytest.raises(InputError, match=r"plain lists and fields"):
        open_table(path)
