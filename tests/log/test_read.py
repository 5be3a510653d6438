"""What a log is does not depend on its format, on how it is cut into files, or on how it is streamed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dynid.base import Float, InputError, UsageError
from dynid.log import (
    READERS,
    Channel,
    ChannelMap,
    Selection,
    Text,
    canonical_columns,
    open_table,
    read_log,
    write_log,
)
from dynid.recording import RawChunk
from dynid.robot import Drive, RobotModel
from tests.log import formats
from tests.log.bags import states, storage, write_bag

T = 600
t = 3.0 + np.arange(T) / 200.0
rng = np.random.default_rng(2)
q, dq, tau = rng.normal(size=(3, T, 2))
NAMES = ("shoulder", "elbow")
COLUMNS = canonical_columns(NAMES, q, dq, tau)


def equal(a: RawChunk, b: RawChunk) -> bool:
    for one in fields(RawChunk):
        x, y = getattr(a, one.name), getattr(b, one.name)
        if isinstance(x, np.ndarray) and not np.array_equal(x, y, equal_nan=True):
            return False
        if isinstance(x, Mapping) and not all(np.array_equal(x[k], y[k], equal_nan=True) for k in x | y):
            return False
    return True


def mapped(side: str = "link", **groups: Mapping[str, Channel]) -> ChannelMap:
    """The canonical mapping with some channels declared otherwise."""
    plain = {
        key: {name: Channel(f"{prefix}_{name}", unit, 1.0) for name in NAMES}
        for key, prefix, unit in (
            ("position", "q", "rad"),
            ("velocity", "dq", "rad/s"),
            ("effort", "tau", "N m"),
        )
    }
    return ChannelMap(time=Channel("t", "s", 1.0), effort_side=side, **(plain | groups))


def test_status_words_are_text(tmp_path: Path) -> None:
    """A column that begins with hexadecimal digits is no number, of which Arrow makes one in some rows."""
    path = tmp_path / "log.csv"
    path.write_text("t,status\n0.0,0x0627\n0.1,0x0637\n")
    table = open_table(path)
    (batch,) = table.batches(("t", "status"), 10)
    assert isinstance(batch["status"], Text)
    assert [batch["status"].names[k] for k in batch["status"].codes] == ["0x0627", "0x0637"]


@pytest.mark.parametrize("name", ["log.parquet", "log.csv"])
@pytest.mark.parametrize("rows", [1, 7, 199, 65536])
def test_every_reader_keeps_the_contract(name: str, rows: int, tmp_path: Path) -> None:
    path = write_log(tmp_path / name, t, COLUMNS, ["a"] * 250 + ["b"] * 350)
    table = open_table(path)
    assert table.path == path
    assert table.column_names == ("t", "traj", *COLUMNS)
    assert table.row_count in (None, T)
    for start, stop in ((0, None), (0, 0), (5, 6), (190, 411), (599, 700), (700, 800)):
        batches = list(table.batches(("q_elbow", "traj", "t"), rows, start, stop))
        assert all(tuple(batch) == ("q_elbow", "traj", "t") for batch in batches)
        assert all(0 < len(batch["t"]) <= rows for batch in batches if isinstance(batch["t"], np.ndarray))
        found = np.concatenate([np.zeros(0), *(batch["q_elbow"] for batch in batches)])
        np.testing.assert_array_equal(found, q[start:stop, 1])
        names: list[str] = []
        for batch in batches:
            text = batch["traj"]
            assert isinstance(text, Text)
            names += [text.names[code] for code in text.codes]
        assert names == (["a"] * 250 + ["b"] * 350)[start:stop]


MESSAGE = b"""header:
  seq: 7
  stamp:
    secs: 12
    nsecs: 500
name: [shoulder, elbow]
position: [0.1, 0.2]
---
"""


def test_readers_recognise_their_files(tmp_path: Path) -> None:
    heads = [
        write_log(tmp_path / name, t, COLUMNS).read_bytes()[:4096] for name in ("log.parquet", "log.csv")
    ]
    bags = [write_bag(tmp_path / name, states(t, NAMES, q)) for name in ("a.bag", "b_mcap", "c_db3")]
    heads[1:1] = [(storage(one) if one.is_dir() else one).read_bytes()[:4096] for one in bags]
    arrays = {"t": t, "q": q}
    heads[-1:-1] = [
        path.read_bytes()[:4096]
        for path in (
            formats.npz(tmp_path / "a.npz", arrays),
            formats.npy(tmp_path / "a.npy", arrays),
            formats.mat(tmp_path / "a.mat", arrays),
            formats.hdf5(tmp_path / "a.h5", arrays),
            formats.torch(tmp_path / "a.pt", arrays),
        )
    ] + [
        b"PK\x03\x04".ljust(26, b"\0") + b"\x13\0\0\0[Content_Types].xml",
        b'{"t": [0.0, 0.1], "q": [1.0, 2.0]}',
        MESSAGE,
        b"t: 0.1\nq: [1.0]\n",
        b'<Rob><Q A="1"/></Rob>' * 4,
        b"[key]; [value]\nVersion; 3\n0.Variable; q\n0.Data; \n; 2; 1.0\n",
        b"t=0.1 q=1.0\n" * 4,
    ]
    # The last reader takes any text: it is asked last. Folders have no first bytes.
    files = [reader for reader in READERS.values() if reader.suffixes]
    taken = np.array([[reader.can_read(head) for reader in files] for head in heads])
    np.testing.assert_array_equal(taken[:, :-1], np.eye(len(files), dtype=bool)[:, :-1])
    assert taken[-1].tolist() == [False] * (len(files) - 1) + [True]
    # Text in a file that is called a log or a text may be anybody's, and messages are printed as YAML.
    shared = (".txt", ".log", ".csv", ".yaml", ".yml")
    suffixes = [s for reader in READERS.values() for s in reader.suffixes if s not in shared]
    assert len(set(suffixes)) == len(suffixes)


def test_csv_and_parquet_are_the_same_log(robot: RobotModel, tmp_path: Path) -> None:
    names = ["first"] * 100 + ["second"] * 500
    logs = [
        read_log(write_log(tmp_path / name, t, COLUMNS, names), robot) for name in ("log.csv", "log.parquet")
    ]
    for a, b in zip(*(log.trajectories for log in logs), strict=True):
        assert replace(a, file=b.file) == b
        assert equal(logs[0].read(a), logs[1].read(b))
    assert logs[0].duration == pytest.approx((99 + 499) / 200)


@pytest.mark.parametrize("name", ["log.parquet", "log.csv"])
@pytest.mark.parametrize("rows", [1, 13, 600])
def test_streamed_chunks_join_to_the_whole(name: str, rows: int, robot: RobotModel, tmp_path: Path) -> None:
    log = read_log(
        write_log(tmp_path / name, t, COLUMNS, ["a"] * 250 + ["b"] * 350),
        robot,
        select=[Selection("b", window=(4.5, 5.5))],
    )
    (one,) = log.trajectories
    chunks = list(log.chunks(one, rows))
    assert max(len(chunk.t) for chunk in chunks) <= rows
    inside = np.flatnonzero((t >= 4.5) & (t <= 5.5))
    np.testing.assert_array_equal(np.concatenate([chunk.t for chunk in chunks]), t[inside])
    np.testing.assert_array_equal(np.concatenate([chunk.q for chunk in chunks]), q[inside])
    assert [chunk.first_row for chunk in chunks] == [
        int(np.flatnonzero(t == chunk.t[0])[0]) for chunk in chunks
    ]
    whole = log.read(one)
    assert whole.tau is not None
    np.testing.assert_array_equal(whole.tau, tau[inside])


def test_row_groups_do_not_show(robot: RobotModel, tmp_path: Path) -> None:
    table = pa.table({"t": t, **COLUMNS})
    pq.write_table(table, tmp_path / "small.parquet", row_group_size=37)
    pq.write_table(table, tmp_path / "one.parquet")
    a, b = (read_log(tmp_path / name, robot) for name in ("small.parquet", "one.parquet"))
    assert equal(a.read(a.trajectories[0]), b.read(b.trajectories[0]))


def test_trajectories_of_many_files(robot: RobotModel, tmp_path: Path) -> None:
    def part(name: str, rows: slice, names: Sequence[str] | None = None) -> Path:
        return write_log(tmp_path / name, t[rows], {k: v[rows] for k, v in COLUMNS.items()}, names)

    paths = [
        part("one.parquet", slice(0, 200), ["x"] * 100 + ["y"] * 100),
        part("two.parquet", slice(200, 400), ["x"] * 200),
        part("day1/run.csv", slice(400, 500), ["x"] * 100),
        part("day2/run.csv", slice(500, 600), ["x"] * 100),
    ]
    log = read_log(paths, robot)
    names = [one.name for one in log.trajectories]
    assert names[:3] == ["one:x", "y", "two:x"]
    assert len(set(names)) == 5
    np.testing.assert_array_equal(np.concatenate([log.read(one).q for one in log.trajectories]), q)
    assert [one.file for one in read_log(paths, robot, select=["two:*"]).trajectories] == [paths[1]]
    with pytest.raises(UsageError, match="log-twice"):
        read_log([paths[0], tmp_path / "day1" / ".." / "one.parquet"], robot)
    with pytest.raises(UsageError, match="no-log"):
        read_log([], robot)


def test_files_of_one_name_stay_apart(robot: RobotModel, tmp_path: Path) -> None:
    paths = [write_log(tmp_path / day / "run.parquet", t, COLUMNS) for day in ("mon", "tue")]
    assert [one.name for one in read_log(paths, robot).trajectories] == ["mon/run", "tue/run"]


def log_of(tmp_path: Path) -> Path:
    names = [name for name in ("id/a", "id/b", "val/a") for _ in range(200)]
    return write_log(tmp_path / "log.parquet", np.tile(t[:200], 3), COLUMNS, names)


def test_selection_by_name_glob_window_and_part(robot: RobotModel, tmp_path: Path) -> None:
    path = log_of(tmp_path)

    def rows(*select: Selection | str) -> list[tuple[str, int]]:
        log = read_log(path, robot, select=select)
        return [(one.name, len(log.read(one).t)) for one in log.trajectories]

    assert rows("*") == [("id/a", 200), ("id/b", 200), ("val/a", 200)]
    assert rows("id/*") == [("id/a", 200), ("id/b", 200)]
    assert rows("val/a", "id/a") == [("val/a", 200), ("id/a", 200)]
    assert rows(Selection("id/a", window=(3.1, 3.3))) == [("id/a", 41)]
    assert rows(Selection("id/?", part=(0.0, 0.5))) == [("id/a", 100), ("id/b", 100)]
    assert rows(Selection("id/a", part=(0.5, 1.0))) == [("id/a", 100)]
    # Both are parts of the same time; a window that reaches beyond the log ends with it.
    assert rows(Selection("id/a", window=(3.9, 99.0))) == [("id/a", 20)]
    assert read_log(path, robot, select=[Selection("id/a", window=(-9.0, 99.0))]).duration == pytest.approx(
        0.995
    )


def test_what_is_selected_twice_counts_once(robot: RobotModel, tmp_path: Path) -> None:
    log = read_log(log_of(tmp_path), robot, select=["id/a", "*"])
    assert [one.name for one in log.trajectories] == ["id/a", "id/b", "val/a"]


def test_unknown_names_and_empty_windows(robot: RobotModel, tmp_path: Path) -> None:
    path = log_of(tmp_path)
    with pytest.raises(
        InputError, match=r"unknown-trajectory.*no trajectory 'id/c'.*id/a, id/b, val/a.*did you mean 'id/"
    ):
        read_log(path, robot, select=["id/c"])
    for window in ((10.0, 20.0), (0.0, 2.0), (3.5, 3.2)):
        with pytest.raises(InputError, match=r"empty-window.*'id/a' in .*3 to 3.995 s"):
            read_log(path, robot, select=[Selection("id/a", window=window)])


def test_pieces_of_a_trajectory_must_lie_together(robot: RobotModel, tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.parquet", t, COLUMNS, ["a"] * 200 + ["b"] * 200 + ["a"] * 200)
    with pytest.raises(
        InputError, match=r"interleaved.*row 400.*'a' in several pieces \(from rows 0, 400 on\)"
    ):
        read_log(path, robot)


def test_numbered_trajectories_are_named_by_their_number(robot: RobotModel, tmp_path: Path) -> None:
    for kind, numbers in (("int", [1234567, 1234568]), ("float", [0.5, 2.0])):
        path = tmp_path / f"{kind}.parquet"
        pq.write_table(pa.table({"t": t, "traj": np.repeat(numbers, T // 2), **COLUMNS}), path)
        names = [one.name for one in read_log(path, robot).trajectories]
        assert names == {"int": ["1234567", "1234568"], "float": ["0.5", "2"]}[kind]


def test_disordered_rows_are_all_found(robot: RobotModel, tmp_path: Path) -> None:
    order = rng.permutation(T)
    path = write_log(tmp_path / "log.parquet", t[order], {k: v[order] for k, v in COLUMNS.items()})
    log = read_log(path, robot, replace(mapped(), sort=True))
    chunk = log.read(log.trajectories[0])
    np.testing.assert_array_equal(chunk.t, t)
    np.testing.assert_array_equal(chunk.q, q)
    part = read_log(path, robot, replace(mapped(), sort=True), [Selection(window=(3.5, 4.0))])
    np.testing.assert_array_equal(part.read(part.trajectories[0]).q, q[(t >= 3.5) & (t <= 4.0)])
    assert len(read_log(path, robot).read(log.trajectories[0]).t) == T


def converted(
    robot: RobotModel, mapping: ChannelMap, tmp_path: Path, columns: Mapping[str, Float] = COLUMNS
) -> RawChunk:
    log = read_log(write_log(tmp_path / "log.parquet", t, columns), robot, mapping)
    return log.read(log.trajectories[0])


def test_units_signs_and_offsets(robot: RobotModel, tmp_path: Path) -> None:
    degree = np.pi / 180
    mapping = replace(
        mapped(position={name: Channel(f"q_{name}", "deg", degree) for name in NAMES}),
        time=Channel("t", "ms", 1e-3),
        position_sign={"elbow": -1.0},
        position_offset={"shoulder": 90 * degree},
        effort_sign={"shoulder": -1.0},
    )
    chunk = converted(robot, mapping, tmp_path)
    np.testing.assert_allclose(chunk.t, t / 1000, rtol=1e-15)
    np.testing.assert_allclose(chunk.q, q * degree * [1, -1] + [np.pi / 2, 0], atol=1e-15)
    np.testing.assert_allclose(chunk.dq, dq * [1, -1], rtol=1e-15)
    np.testing.assert_allclose(chunk.tau, tau * [-1, 1], rtol=1e-15)


N = np.array([[80.0, 0.0], [-30.0, -60.0]])
NAN = np.full(2, np.nan)


def driven(robot: RobotModel, constant: Float = NAN, gain: Float = NAN) -> RobotModel:
    return replace(robot, drive=Drive(N, NAN, constant, gain))


def test_motor_side_through_a_coupled_transmission(robot: RobotModel, tmp_path: Path) -> None:
    # theta = N q, tau = N' tau_motor: power is the same on both sides.
    arm = driven(robot)
    theta, dtheta = q @ N.T, dq @ N.T
    columns = canonical_columns(NAMES, theta, dtheta, tau)
    chunk = converted(arm, replace(mapped("motor"), position_side="motor"), tmp_path, columns)
    np.testing.assert_allclose(chunk.q, q, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(chunk.dq, dq, rtol=1e-12, atol=1e-13)
    assert chunk.tau is not None
    assert chunk.dq is not None
    np.testing.assert_allclose(
        (chunk.tau * chunk.dq).sum(axis=1), (tau * dtheta).sum(axis=1), rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(chunk.tau, tau @ N, rtol=1e-13)


def test_current_becomes_torque_by_gain_or_by_constant_and_gear(robot: RobotModel, tmp_path: Path) -> None:
    current = replace(mapped("motor"), effort_quantity="current", effort_sign={"elbow": -1.0})
    constant, gain = np.array([0.1, 0.2]), np.array([12.0, 13.0])
    i = tau * [1, -1]
    np.testing.assert_allclose(
        converted(driven(robot, constant), current, tmp_path).tau, (i * constant) @ N, rtol=1e-13
    )
    for arm in (driven(robot, constant, gain), driven(robot, NAN, gain)):
        np.testing.assert_allclose(converted(arm, current, tmp_path).tau, i * gain, rtol=1e-13)
    raw = replace(current, effort_quantity="raw")
    np.testing.assert_allclose(converted(driven(robot, NAN, gain), raw, tmp_path).tau, i * gain, rtol=1e-13)
    with pytest.raises(InputError, match=r"drive-gain.*raw.*no drive_gain for shoulder, elbow"):
        converted(driven(robot, constant), raw, tmp_path)


def test_a_missing_value_spoils_only_what_depends_on_it(robot: RobotModel, tmp_path: Path) -> None:
    # Joint torque is N' tau_motor: motor 1 acts on the shoulder only, motor 2 on both.
    # In holes that are gaps: single missing values are interpolated.
    first, second, both = slice(10, 40), slice(50, 80), slice(90, 120)
    spoilt = np.array(tau)
    spoilt[first, 0], spoilt[second, 1], spoilt[both] = np.nan, np.inf, np.nan
    chunk = converted(driven(robot), mapped("motor"), tmp_path, canonical_columns(NAMES, q, dq, spoilt))
    assert chunk.tau is not None
    expected = np.zeros(tau.shape, dtype=np.bool_)
    expected[first, 0] = expected[second] = expected[both] = True
    np.testing.assert_array_equal(~np.isfinite(chunk.tau), expected)


def test_stray_spaces_and_marks_in_a_csv_header(robot: RobotModel, tmp_path: Path) -> None:
    write_log(tmp_path / "log.csv", t, COLUMNS)
    text = (tmp_path / "log.csv").read_text()
    head, _, body = text.replace('"', "").partition("\n")
    (tmp_path / "odd.csv").write_bytes(
        ("\ufeff" + head.replace(",", ", ") + "\r\n" + body.replace(",", ", ")).encode()
    )
    a, b = (read_log(tmp_path / name, robot) for name in ("log.csv", "odd.csv"))
    assert equal(a.read(a.trajectories[0]), b.read(b.trajectories[0]))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("separator", [",", ";", " "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_head_that_is_written_again_is_no_row(
    robot: RobotModel, tmp_path: Path, encoding: str, separator: str, end: str
) -> None:
    """As by a recorder that is started again and goes on in its file."""
    write_log(tmp_path / "log.csv", t, COLUMNS)
    head, *rows = (tmp_path / "log.csv").read_text().replace('"', "").replace(",", separator).splitlines()
    again = [head, *rows[:7], head, *rows[7:40], head, *rows[40:]]
    (tmp_path / "again.csv").write_bytes((end.join(again) + end).encode(encoding))
    a, b = (read_log(tmp_path / name, robot) for name in ("log.csv", "again.csv"))
    assert equal(a.read(a.trajectories[0]), b.read(b.trajectories[0]))


def test_identity_names_the_data_not_the_file(robot: RobotModel, tmp_path: Path) -> None:
    a = write_log(tmp_path / "a.parquet", t, COLUMNS)
    b = tmp_path / "b.parquet"
    b.write_bytes(a.read_bytes())
    c = write_log(tmp_path / "c.parquet", t, {**COLUMNS, "q_elbow": q[:, 1] + 1e-16 + 1e-12})

    def identity(path: Path, select: Selection = Selection()) -> list[list[object]]:  # noqa: B008  # frozen
        return read_log(path, robot, select=[select]).identity()

    assert identity(a) == identity(b) == [[hashlib.sha256(a.read_bytes()).hexdigest(), 0, t[0], t[-1]]]
    assert identity(a) != identity(c)
    assert identity(a, Selection(window=(4.0, 5.0))) == [[identity(a)[0][0], 0, 4.0, 5.0]]


def test_extra_channels_and_a_second_encoder(robot: RobotModel, tmp_path: Path) -> None:
    more = {f"theta_{name}": 100 * q[:, j] for j, name in enumerate(NAMES)} | {"spring": np.arange(T) * 1.0}
    channels = {name: Channel(f"theta_{name}", "deg", 2.0) for name in NAMES}
    mapping = mapped(motor_position=channels, extra={"spring": Channel("spring", "kN", 1e3)})
    chunk = converted(robot, mapping, tmp_path, COLUMNS | more)
    np.testing.assert_allclose(chunk.theta, 200 * q, rtol=1e-15)
    np.testing.assert_array_equal(chunk.extra["spring"], 1e3 * np.arange(T))
    assert chunk.dtheta is None
    assert chunk.temperature is None


def test_integer_and_clock_columns_of_parquet(robot: RobotModel, tmp_path: Path) -> None:
    stamps = pa.array((np.arange(T) * 5_000_000).astype("datetime64[ns]"))
    small = {name: values.astype(np.float32) for name, values in COLUMNS.items()}
    pq.write_table(pa.table({"t": stamps, **small}), tmp_path / "log.parquet")
    log = read_log(tmp_path / "log.parquet", robot, replace(mapped(), time=Channel("t", "ns", 1e-9)))
    chunk = log.read(log.trajectories[0])
    np.testing.assert_allclose(chunk.t, np.arange(T) * 5e-3, atol=1e-15)
    np.testing.assert_array_equal(chunk.q, q.astype(np.float32))
    assert chunk.q.dtype == np.float64


def test_columns_that_are_no_numbers(robot: RobotModel, tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": t, **COLUMNS, "q_elbow": [{"x": 1.0}] * T}), tmp_path / "log.parquet")
    log = read_log(tmp_path / "log.parquet", robot)
    with pytest.raises(InputError, match=r"column-type.*'q_elbow' of type struct"):
        log.read(log.trajectories[0])


def test_recordings_one_behind_the_other_are_motions(robot: RobotModel, tmp_path: Path) -> None:
    clock = np.concatenate([t[:300], t[: len(t) - 300]])
    log = read_log(write_log(tmp_path / "log.parquet", clock, COLUMNS), robot)
    assert [one.row_count for one in log.trajectories] == [300, len(t) - 300]
    assert [one.identifier for one in log.remarks] == ["motions-found"]
    # A clock that was set back in the course of a motion says nothing of where rows belong.
    set_back = np.concatenate([t[:300], t[300:] - 1.0])
    assert len(read_log(write_log(tmp_path / "log.parquet", set_back, COLUMNS), robot).trajectories) == 1
