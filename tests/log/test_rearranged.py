"""Text logs with a row for each joint, lists in cells, or times in words hold the same log as a plain table."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dynid.base import InputError
from dynid.log import Text, open_table, read_log, seconds_of
from dynid.robot import RobotModel, load_robot

T, JOINTS = 400, ("base", "elbow", "wrist")
rng = np.random.default_rng(3)
t = np.arange(T) / 100.0
q, tau = (np.round(one, 6) for one in rng.normal(size=(2, T, 3)))
EPOCH = datetime(2024, 2, 28, 23, 59, 58)


def read(path: Path, names: tuple[str, ...], rows: int = 37) -> np.ndarray:
    table = open_table(path)
    parts = [
        np.stack([np.asarray(batch[name]) for name in names], axis=1) for batch in table.batches(names, rows)
    ]
    return np.concatenate(parts)


def rows_of_joints(
    keys: tuple[object, ...], at: Callable[[int, int], str], head: str = "stamp,joint,q,tau"
) -> str:
    lines = [f"{at(k, j)},{keys[j]},{q[k, j]},{tau[k, j]}" for k in range(T) for j in range(3)]
    return head + "\n" + "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("keys", "shown"),
    [(JOINTS, JOINTS), ((1, 2, 3), "123"), ((0, 1, 2), "012"), ((11, 12, 17), "123")],
)
@pytest.mark.parametrize("apart", [0.0, 0.001])
def test_rows_of_single_joints_are_put_side_by_side(
    keys: tuple[object, ...], shown: str, apart: float, tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(rows_of_joints(keys, lambda k, j: f"{t[k] + apart * j:.4f}"))
    assert open_table(path).column_names[0] == "stamp"
    names = ("stamp", *(f"{field}[{one}]" for field in ("q", "tau") for one in shown))
    np.testing.assert_allclose(read(path, names), np.column_stack([t, q, tau]), rtol=0, atol=1e-9)
    table = open_table(path)
    (part,) = table.batches(names, 1000, 50, 60)
    np.testing.assert_array_equal(part[names[2]], q[50:60, 1])
    assert [one.identifier for one in getattr(table, "remarks", ())].count("joints-in-rows") == 1


@pytest.mark.parametrize("dictionary", [False, True])
def test_rows_of_single_joints_in_parquet(dictionary: bool, tmp_path: Path) -> None:
    keys = pa.array(JOINTS * T)
    table = pa.table(
        {
            "stamp": np.repeat(t, 3),
            "joint": keys.dictionary_encode() if dictionary else keys,
            "q": q.ravel(),
            "tau": tau.ravel(),
        }
    )
    pq.write_table(table, tmp_path / "log.parquet")
    names = ("stamp", *(f"{field}[{one}]" for field in ("q", "tau") for one in JOINTS))
    np.testing.assert_array_equal(read(tmp_path / "log.parquet", names), np.column_stack([t, q, tau]))


def test_a_joint_that_a_moment_lacks_is_missing(tmp_path: Path) -> None:
    lines = rows_of_joints(JOINTS, lambda k, j: f"{t[k]}").splitlines()
    del lines[1 + 3 * 200 + 1], lines[1 + 3 * 100]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    found = read(tmp_path / "log.csv", ("stamp", *(f"q[{one}]" for one in JOINTS)))
    wanted = np.column_stack([t, q])
    wanted[100, 1] = wanted[200, 2] = np.nan
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "text",
    [
        "t,name,q\n" + "".join(f"{k / 100},slow,{k % 7}\n" for k in range(90)),
        "t,name,q\n" + "".join(f"{k / 100},{'slow' if k < 50 else 'fast'},{k % 7}\n" for k in range(90)),
        "id,q1,q2\n" + "".join(f"{k},{k % 7},{k % 5}\n" for k in range(90)),
    ],
)
def test_names_of_motions_and_counts_are_no_joints(text: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(text)
    assert open_table(tmp_path / "log.csv").column_names == tuple(text.split("\n", 1)[0].split(","))


def numpy_cell(row: np.ndarray) -> str:
    return "[" + "\n ".join(f"{one:.6f}" for one in row) + "]"


@pytest.mark.parametrize(
    "cell",
    [
        lambda row: str([float(one) for one in row]),
        lambda row: str(tuple(float(one) for one in row)),
        lambda row: f"array('d', {[float(one) for one in row]})",
        lambda row: f"array({[float(one) for one in row]}, dtype=float32)",
        lambda row: "[" + "  ".join(f"{one:.6f}" for one in row) + "]",
        numpy_cell,
        lambda row: " ".join(f"{one:.6f}" for one in row),
    ],
)
@pytest.mark.parametrize("named", [False, True])
def test_lists_in_cells_become_columns(
    cell: Callable[[np.ndarray], str], named: bool, tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    head = "time,position,effort" + (",name" if named else "")
    names = f',"{list(JOINTS)}"' if named else ""
    path.write_text(
        head + "\n" + "".join(f'{t[k]},"{cell(q[k])}","{cell(tau[k])}"{names}\n' for k in range(T))
    )
    shown = JOINTS if named else (0, 1, 2)
    wanted = ("time", *(f"{field}[{one}]" for field in ("position", "effort") for one in shown))
    np.testing.assert_allclose(read(path, wanted), np.column_stack([t, q, tau]), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("cell", "names"),
    [("[1, 2]", "['a', 'b', 'c']"), ("[1, x, 3]", "['a', 'b', 'c']"), ("[1, 2, 3]", "['b', 'a', 'c']")],
)
def test_a_list_that_is_not_as_before_is_refused(cell: str, names: str, tmp_path: Path) -> None:
    rows = ["0.1,\"[1, 2, 3]\",\"['a', 'b', 'c']\"\n"] * 30
    rows[20] = f'0.1,"{cell}","{names}"\n'
    (tmp_path / "log.csv").write_text("t,q,name\n" + "".join(rows))
    with pytest.raises(InputError, match=r"list-cell.*row 20"):
        read(tmp_path / "log.csv", ("t", "q[a]"))


def stamped(form: str) -> Callable[[int], str]:
    return lambda k: (EPOCH + timedelta(seconds=k / 100)).strftime(form)


@pytest.mark.parametrize(
    "at",
    [
        stamped("%Y-%m-%d %H:%M:%S.%f"),
        stamped("%Y-%m-%dT%H:%M:%S.%fZ"),
        stamped("%Y-%m-%dT%H:%M:%S.%f+02:00"),
        stamped("%d/%m/%Y %H:%M:%S.%f"),
        stamped("%d.%m.%Y %H:%M:%S.%f"),
        stamped("%m/%d/%Y %I:%M:%S.%f %p"),
        lambda k: f"00:00:{k / 100:05.2f}",
        lambda k: f"{10 * k}ms" if k < 100 else f"{k / 100:.2f} sec",
    ],
)
def test_times_in_words_are_seconds(at: Callable[[int], str], tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("time,q\n" + "".join(f"{at(k)},{q[k, 0]}\n" for k in range(T)))
    found = read(tmp_path / "log.csv", ("time, time in s", "q"))
    np.testing.assert_allclose(found[:, 0] - found[0, 0], t, atol=1e-6)


def test_what_is_no_time() -> None:
    for text in ("run 1", "1.2.3", "2024-13-01 10:00:00", "10:00", "", "5 m"):
        assert seconds_of(text) is None
    assert seconds_of("1970-01-02 00:00:01,5") == 86401.5
    assert seconds_of("02-Jan-1970 00:00:01.5") == seconds_of("2 Jan 1970 00:00:01.5") == 86401.5
    assert seconds_of("05-Mär-2024 14:59:50") == seconds_of("2024-03-05 14:59:50")
    assert seconds_of("05-Abc-2024 14:59:50") is seconds_of("05-Mar 14:59:50") is None
    assert seconds_of("00:01:02:250") == 62.25
    assert seconds_of("19700102_000001_5") == seconds_of("19700102-000001.500") == 86401.5
    assert seconds_of("19701302_000001") is None
    assert seconds_of("1970-01-01T02:00:00+02:00") == 0.0
    assert seconds_of("12:00:00 AM") == 0.0


def test_a_word_among_times_is_missing(tmp_path: Path) -> None:
    rows = [f"00:00:{k % 60:02d},{k}\n" for k in range(50)]
    rows[30] = "lost,30\n"
    (tmp_path / "log.csv").write_text("time,q\n" + "".join(rows))
    found = read(tmp_path / "log.csv", ("time, time in s",))[:, 0]
    assert np.flatnonzero(np.isnan(found)).tolist() == [30]
    assert isinstance(next(iter(open_table(tmp_path / "log.csv").batches(("time",), 9)))["time"], Text)


CLOCKS: dict[str, tuple[float, Callable[[float], object]]] = {
    "dates": (1.0, lambda s: (EPOCH + timedelta(seconds=float(s))).isoformat(timespec="microseconds")),
    "seconds": (1.0, lambda s: f"{s:.4f}"),
    "stamps": (1e-3, lambda s: EPOCH + timedelta(seconds=float(s))),
}


def clocked(folder: Path, kind: str, first: int) -> Path:
    """A log of one joint with rows from `first` on, whose clock is of a kind."""
    stamps = [CLOCKS[kind][1](one) for one in t[first : first + 100]]
    rows, path = slice(first, first + 100), folder / f"{kind}.csv"
    if kind == "stamps":
        columns = {"time": pa.array(stamps, pa.timestamp("ms")), "q": q[rows, 0], "tau": tau[rows, 0]}
        path = path.with_suffix(".parquet")
        pq.write_table(pa.table(columns), path)
    else:
        lines = [f"{stamp},{q[first + k, 0]},{tau[first + k, 0]}" for k, stamp in enumerate(stamps)]
        path.write_text("time,q,tau\n" + "\n".join(lines) + "\n")
    return path


def clock_mapping(kind: str) -> dict[str, object]:
    """What a run of a log with a clock of this kind keeps."""
    column, unit = {"dates": ("time, time in s", "s"), "seconds": ("time", "s"), "stamps": ("time", "ms")}[
        kind
    ]
    return {
        "time": {"column": column, "unit": unit},
        "position": {"columns": {"slide": "q"}, "unit": "m"},
        "effort": {"columns": {"slide": "tau"}, "unit": "N"},
    }


def one_slide(folder: Path) -> RobotModel:
    link = '<link name="{}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
    links = "".join(link.format(name) + "</inertial></link>" for name in "ab")
    joint = '<joint name="slide" type="prismatic"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/>'
    text = (
        f'<robot name="r">{links}{joint}<limit lower="-9" upper="9" velocity="9" effort="9"/></joint></robot>'
    )
    path = folder / "r.urdf"
    path.write_text(text)
    return load_robot(path)


@pytest.mark.parametrize("logged", [("dates",), ("seconds",), ("seconds", "dates"), ("dates", "seconds")])
def test_a_mapping_of_dates_reads_numbers(logged: tuple[str, ...], tmp_path: Path) -> None:
    files = [clocked(tmp_path, kind, 100 * k) for k, kind in enumerate(logged)]
    log = read_log(files, one_slide(tmp_path), clock_mapping("dates"))
    for k, one in enumerate(log.trajectories):
        chunk = log.read(one)
        np.testing.assert_allclose(np.diff(chunk.t), 0.01, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(chunk.q[:, 0], q[100 * k : 100 * k + 100, 0])
    assert [one.identifier for one in log.remarks].count("time-in-numbers") == logged.count("seconds")


def test_a_mapping_of_dates_reads_stamps_of_parquet(tmp_path: Path) -> None:
    log = read_log(clocked(tmp_path, "stamps", 0), one_slide(tmp_path), clock_mapping("dates"))
    np.testing.assert_allclose(np.diff(log.read(log.trajectories[0]).t), 0.01, rtol=0, atol=1e-6)


def test_words_are_no_numbers(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="text-cell"):
        read_log(clocked(tmp_path, "dates", 0), one_slide(tmp_path), clock_mapping("seconds"))


def signals(folder: Path, write: Callable[[Path, np.ndarray], None], timed: bool) -> Path:
    folder.mkdir()
    for name, values in (("q", q), ("tau", tau)):
        write(folder / name, np.column_stack([t, values]) if timed else values)
    if not timed:
        write(folder / "t", t[:, None])
    return folder


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("kind", ["csv", "npy", "named"])
def test_a_file_for_each_signal(kind: str, timed: bool, tmp_path: Path) -> None:
    def write(path: Path, values: np.ndarray) -> None:
        head = (
            ",".join([*(["time"] if timed else []), *JOINTS]) if kind == "named" and path.name != "t" else ""
        )
        if kind == "npy":
            np.save(path.with_suffix(".npy"), values)
        else:
            np.savetxt(path.with_suffix(".csv"), values, delimiter=",", header=head, comments="")

    path = signals(tmp_path / "log", write, timed)
    if kind == "named":
        names = ("time" if timed else "t", *(f"{one}/{joint}" for one in ("q", "tau") for joint in JOINTS))
    else:
        names = ("time" if timed else "t", *(f"{one}[{j}]" for one in ("q", "tau") for j in range(3)))
    np.testing.assert_array_equal(read(path, names), np.column_stack([t, q, tau]))
    (part,) = open_table(path).batches(names, 1000, 30, 70)
    np.testing.assert_array_equal(part[names[1]], q[30:70, 0])


def test_what_lies_beside_the_signals_is_left_out(tmp_path: Path) -> None:
    path = signals(tmp_path / "log", lambda file, values: np.savetxt(file.with_suffix(".csv"), values), True)
    np.savetxt(path / "parameters.csv", np.ones((10, 10)))
    np.savetxt(path / "wrench.csv", np.ones((T - 5, 6)))
    (path / "notes.txt").write_text("recorded on Monday\nby hand\n")
    np.testing.assert_array_equal(read(path, ("time", "q[1]")), np.column_stack([t, q[:, 1]]))
    (remark,) = (one for one in open_table(path).remarks if one.identifier == "other-files")  # type: ignore[attr-defined]
    for name in ("parameters.csv (10 rows)", f"wrench.csv ({T - 5} rows)", "notes.txt"):
        assert name in remark.text
    np.savetxt(path / "second_q.csv", np.ones((T - 5, 3)))
    with pytest.raises(InputError, match=r"different-lengths.*separate folder"):
        open_table(path)


def test_logs_in_a_folder_are_no_signals(tmp_path: Path) -> None:
    for name, count in (("train", T), ("validate", T - 50)):
        np.savetxt(
            tmp_path / f"{name}.csv",
            np.column_stack([t, q])[:count],
            delimiter=",",
            header="t,a,b,c",
            comments="",
        )
    with pytest.raises(
        InputError, match=r"different-lengths.*train.csv \(400 rows\), validate.csv \(350 rows\).*\*\.csv"
    ):
        open_table(tmp_path)


def advised(folder: Path) -> list[Path]:
    """The files that the message for a folder says to give."""
    with pytest.raises(InputError) as caught:
        open_table(folder)
    said = str(caught.value)
    pattern = next((word for word in re.split(r"[\s;]+", said) if "*" in word), None)
    if pattern is not None:
        return sorted(folder.glob(Path(pattern).name))
    return [Path(word) for word in re.split(r"[\s;]+", said) if word.startswith(f"{folder}/")]


@pytest.mark.parametrize(
    ("others", "logs"),
    [
        ((), ("a", "b", "c")),
        (("notes.md",), ("a", "b", "c")),
        # Another table of nearly as many rows is no part of the log.
        (("other.csv", "another.csv"), ("a", "b", "c")),
    ],
)
def test_the_advice_on_a_folder_of_logs_reads_them(
    others: tuple[str, ...], logs: tuple[str, ...], tmp_path: Path
) -> None:
    for k, name in enumerate(logs):
        # One part has a column more.
        extra = [np.full((T - 9 * k, 1), 20.0)] if k == 1 else []
        table = np.hstack([t[: T - 9 * k, None], q[: T - 9 * k, :1], tau[: T - 9 * k, :1], *extra])
        head = "time,q,tau,temperature" if extra else "time,q,tau"
        np.savetxt(tmp_path / f"{name}.csv", table, delimiter=",", header=head, comments="")
    for name in others:
        np.savetxt(tmp_path / name, np.ones((T - 20, 5)), delimiter=",", header="u,v,w,x,y", comments="")
    found = advised(tmp_path)
    assert [one.stem for one in found] == list(logs)
    log = read_log(found, one_slide(tmp_path), clock_mapping("seconds"))
    assert [one.row_count for one in log.trajectories] == [T, T - 9, T - 18]


def test_a_folder_of_notes_is_no_recording(tmp_path: Path) -> None:
    for name in ("monday", "tuesday"):
        (tmp_path / f"{name}.txt").write_text("recorded on Monday\nby hand\n")
    with pytest.raises(InputError, match="different-lengths"):
        open_table(tmp_path)


def test_the_advice_on_a_folder_of_one_log_reads_it(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "a.csv", np.column_stack([t, q]), delimiter=",", header="t,a,b,c", comments="")
    found = advised(tmp_path)
    assert found == [tmp_path / "a.csv"]
    assert open_table(found[0]).column_names == ("t", "a", "b", "c")


@pytest.mark.parametrize(
    ("begin", "what", "do"),
    [
        (b"\x1f\x8b\x08", "gzip", "gunzip"),
        (b"\xd0\xcf\x11\xe0", "workbook in the old format", "CSV"),
        (b"\x80\x04\x95", "pickled", "savez"),
        (b"MDF     4.10", "MDF", "CSV"),
        (b"(1436509052.249713) can0 141#0011FFEE", "candump", "DBC"),
    ],
)
def test_what_is_no_log_is_named(begin: bytes, what: str, do: str, tmp_path: Path) -> None:
    (tmp_path / "log.bin").write_bytes(begin + bytes(60))
    with pytest.raises(InputError, match=rf"log-format.*{what}.*{do}"):
        open_table(tmp_path / "log.bin")
