"""YAML of numbers: lists of records, and lists by name, in blocks and in brackets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import InputError
from dynid.log import open_table

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


@pytest.mark.parametrize("half", ["- {t: 0.4, q: [1.5", "- t: 0.4\n  q: [1.5, 2", "- t: 0.4\n  q"])
def test_half_a_line_at_the_end_is_left_out(half: str, tmp_path: Path) -> None:
    path = tmp_path / "log.yaml"
    path.write_text("\n".join([*FORMS["one a line"], half]))
    batch = next(iter(open_table(path).batches(("t", "q[0]", "q[1]"), 100)))
    np.testing.assert_array_equal(np.asarray(batch["q[1]"])[:T], q[:, 1])


def test_documents_and_names_that_come_again_are_records(tmp_path: Path) -> None:
    path = tmp_path / "log.yaml"
    path.write_text("".join(f"robot_time: {t[k]}\nq: {flow(q[k])}\n---\n" for k in range(T)))
    batch = next(iter(open_table(path).batches(("robot_time", "q[0]"), 100)))
    np.testing.assert_array_equal(np.asarray(batch["q[0]"]), q[:, 0])


def test_words_and_numbers_are_those_of_other_logs(tmp_path: Path) -> None:
    path = tmp_path / "log.yaml"
    # YAML 1.1 would take these for 36000 + 20 * 60, true and text.
    path.write_text("".join(f"- {{t: {k}e-2, clock: 10:20, on: {k}, q: .nan}}\n" for k in range(T)))
    table = open_table(path)
    batch = next(iter(table.batches(("t", "on"), 100)))
    np.testing.assert_array_equal(np.asarray(batch["t"]), [float(f"{k}e-2") for k in range(T)])


def test_aliases_that_grow_are_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "log.yaml"
    levels = [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 12)]
    path.write_text("\n".join(["t: [0, 1, 2]", "a0: &a0 [1.0, 2.0]", *levels, ""]))
    with pytest.raises(InputError, match=r"plain lists and fields"):
        open_table(path)


@pytest.mark.parametrize("line", ["  q: !!python/object:os.system ls", "  q: *a", "  q: [1, {]}", "   - 3"])
def test_what_is_more_than_numbers_is_refused_with_its_line(line: str, tmp_path: Path) -> None:
    path = tmp_path / "log.yaml"
    path.write_text("\n".join([*(f"- t: {one}" for one in t), "- t: 1", line, "- t: 2", ""]))
    with pytest.raises(InputError, match=r"plain lists and fields"):
        open_table(path)
