"""JSON in its usual forms and printed messages hold the same log as arrays."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynid.base import InputError
from dynid.log import contents, open_table

T, JOINTS = 60, ("base", "elbow", "wrist")
rng = np.random.default_rng(4)
t = np.round(np.arange(T) / 100.0, 6)
q, tau = (np.round(one, 6) for one in rng.normal(size=(2, T, 3)))
EPOCH = 1_700_000_000


def read(path: Path, names: tuple[str, ...]) -> np.ndarray:
    parts = [
        np.stack([np.asarray(one[name]) for name in names], axis=1)
        for one in open_table(path).batches(names, 17)
    ]
    return np.concatenate(parts)


def record(k: int) -> dict[str, Any]:
    return {"t": t[k], "state": {"q": q[k].tolist(), "tau": tau[k].tolist()}, "mode": "run"}


FORMS: dict[str, Callable[[], str]] = {
    "an object a line": lambda: "\n".join(json.dumps(record(k)) for k in range(T)),
    "the last line cut off": lambda: "\n".join(json.dumps(record(k)) for k in range(T)) + '\n{"t": 0.6, "sta',
    "a list of objects": lambda: json.dumps([record(k) for k in range(T)], indent=1),
    "a list of objects in an object": lambda: json.dumps(
        {"robot": "x", "rows": [record(k) for k in range(T)]}
    ),
    "an object of arrays": lambda: json.dumps(
        {"t": t.tolist(), "state": {"q": q.tolist(), "tau": tau.tolist()}}
    ),
    "arrays of joints": lambda: json.dumps(
        {"t": t.tolist(), "state": {"q": q.T.tolist(), "tau": tau.T.tolist()}}
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".txt"])
def test_json_in_its_usual_forms(form: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"log{suffix}"
    path.write_text(FORMS[form]())
    names = ("t", *(f"state.{field}[{j}]" for field in ("q", "tau") for j in range(3)))
    np.testing.assert_array_equal(read(path, names), np.column_stack([t, q, tau]))


@pytest.mark.parametrize(
    "tree",
    [
        lambda k: {"t": t[k], "name": list(JOINTS), "q": q[k].tolist()},
        lambda k: {"t": t[k], "q": dict(zip(JOINTS, q[k].tolist(), strict=True))},
        lambda k: {
            "t": t[k],
            "arm": [{"name": one, "q": v} for one, v in zip(JOINTS, q[k].tolist(), strict=True)],
        },
    ],
)
def test_names_of_joints_in_records(tree: Callable[[int], Mapping[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps([tree(k) for k in range(T)]))
    columns = [next(c for c in open_table(path).column_names if one in c) for one in JOINTS]
    np.testing.assert_array_equal(read(path, tuple(columns)), q)


def test_names_beside_arrays_are_their_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", q=q, tau=tau.T, joint_names=np.array(JOINTS))
    np.testing.assert_array_equal(
        read(tmp_path / "log.npz", ("q[wrist]", "tau[base]")), np.stack([q[:, 2], tau[:, 0]], 1)
    )


def test_what_a_record_lacks_is_missing(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [record(k) for k in range(T)]
    rows[3].pop("t")
    rows[4]["state"]["q"] = []
    rows[5]["state"]["q"] = [1.0, None, 2.0]
    (tmp_path / "log.json").write_text(json.dumps(rows))
    found = read(tmp_path / "log.json", ("t", "state.q[0]", "state.q[1]"))
    assert np.argwhere(np.isnan(found)).tolist() == [[3, 0], [4, 1], [4, 2], [5, 2]]
    rows[6]["state"]["q"] = [1.0]
    (tmp_path / "log.json").write_text(json.dumps(rows))
    assert any(one.startswith("state.q: neither") for one in contents(tmp_path / "log.json").left_out)


@pytest.mark.parametrize(
    ("text", "line"), [('{"t": 1}\n{"t": }\n{"t": 3}', 2), ('[{"t": 1},\n {"t": }]', 2), ('{"t": [1, 2}', 1)]
)
def test_damaged_json_is_placed(text: str, line: int, tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text(text)
    with pytest.raises(InputError, match=rf"json.*log.json:{line}"):
        open_table(tmp_path / "log.json")


def printed(version: int, order: tuple[int, ...] = (0, 1, 2)) -> str:
    lines = []
    for k in range(T):
        seconds, rest = EPOCH + int(t[k]), round(1e9 * (t[k] % 1))
        first, second = ("secs", "nsecs") if version == 1 else ("sec", "nanosec")
        lines += ["header: ", f"  seq: {k}"] if version == 1 else ["header:"]
        lines += ["  stamp: ", f"    {first}: {seconds}", f"    {second}: {rest:>9d}", "  frame_id: ''"]
        for name, values in (("name", JOINTS), ("position", q[k]), ("velocity", ()), ("effort", tau[k])):
            cells = [str(values[j]) for j in order] if len(values) else []
            if version == 1 or not cells:
                lines.append(f"{name}: [{', '.join(cells)}]")
            else:
                lines += [f"{name}:", *(f"- {one}" for one in cells)]
        lines.append("---")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("suffix", [".yaml", ".txt"])
def test_printed_joint_states(version: int, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"log{suffix}"
    path.write_text(printed(version, (2, 0, 1)))
    stamp = ("secs", "nsecs") if version == 1 else ("sec", "nanosec")
    names = (
        f"header.stamp.{stamp[0]} + header.stamp.{stamp[1]}",
        *(f"{field}[{one}]" for field in ("position", "effort") for one in JOINTS),
    )
    found = read(path, names)
    np.testing.assert_allclose(found[:, 0] - EPOCH, t, atol=3e-7)
    np.testing.assert_array_equal(found[:, 1:], np.column_stack([q, tau]))
    cut = printed(version)
    path.write_text(cut[: cut.rindex("position")])
    assert open_table(path).row_count == T - 1


def test_other_lines_among_messages_are_placed(tmp_path: Path) -> None:
    lines = printed(2).splitlines()
    lines[40] = "WARNING: topic [/joint_states] is late: wait, or stop"
    lines[41] = "?!"
    (tmp_path / "log.yaml").write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"echo.*log.yaml:42"):
        open_table(tmp_path / "log.yaml")
