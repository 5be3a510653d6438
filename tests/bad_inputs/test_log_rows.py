"""The bad-input catalogue: rows that stop the work, exit code 4, rows that are doubted, and what is mended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from dynid.base import CLAIMS, Diagnostics, Float, Place, UnfitDataError
from dynid.estimate import Origin
from dynid.identification import Experiment, Settings, identify, open_log
from dynid.log import LogSummary, Selection, check_log, read_log
from dynid.robot import RobotModel
from dynid.run import validate
from dynid.signals import Preparation
from dynid.signals.prepare import prepare
from dynid.simulation import rigid_torque
from tests.bad_inputs.clean_logs import (
    MAPPING,
    NAMES,
    ROWS,
    Columns,
    by_pipeline,
    caught,
    expect,
    write_csv,
    write_parquet,
)


def at(columns: Columns, names: str, rows: slice | list[int], value: float) -> Columns:
    out = {name: np.array(values) for name, values in columns.items()}
    for name in names.split():
        out[name][rows] = value
    return out


def scaled(columns: Columns, prefix: str, factor: float) -> Columns:
    return {
        name: values * (factor if name.startswith(prefix + "_") else 1.0) for name, values in columns.items()
    }


def exchanged(columns: Columns, a: str, b: str) -> Columns:
    swap = {a: b, b: a}
    return {name: columns[swap.get(name, name)] for name in columns}


def rows(columns: Columns, index: object) -> Columns:
    return {name: values[index] for name, values in columns.items()}


def without(columns: Columns, prefix: str) -> Columns:
    return {name: values for name, values in columns.items() if not name.startswith(prefix + "_")}


def with_time(columns: Columns, t: Float) -> Columns:
    return {**columns, "t": t}


def weightless(columns: Columns, robot: RobotModel, share: float = 1.0) -> Columns:
    q = np.column_stack([columns[f"q_{name}"] for name in NAMES])
    g = share * rigid_torque(robot, robot.inertia_prior, q, 0 * q, 0 * q)
    return {**columns, **{f"tau_{name}": columns[f"tau_{name}"] - g[:, j] for j, name in enumerate(NAMES)}}


def still(columns: Columns) -> Columns:
    out = dict(columns)
    for j, name in enumerate(NAMES):
        out[f"q_{name}"] = 0.1 * j + 1e-4 * np.random.default_rng(j).uniform(size=ROWS)
        out[f"dq_{name}"] = 1e-4 * np.random.default_rng(j).normal(size=ROWS)
    return out


def backwards(columns: Columns, rows: list[int], by: float) -> Columns:
    t = columns["t"].copy()
    t[rows] -= by
    return with_time(columns, t)


@dataclass(frozen=True)
class RowCase:
    """A fault of the rows; priors: whether the robot's inertias are known."""

    number: int
    name: str
    fault: Callable[[Columns, RobotModel], Columns]
    identifier: str
    says: tuple[str, ...]
    priors: bool = False
    piped: str | None = None


def every(n: int) -> list[int]:
    return list(range(5, ROWS, n))


def wide(share: float) -> list[int]:
    """Rows of holes that are gaps, in so many of the rows."""
    return [row for row in range(5, ROWS) if row % 100 < 100 * share]


ROW_CASES = (
    RowCase(
        49,
        "30 % nan",
        lambda c, r: at(c, "q_j2", wide(0.3), np.nan),
        "missing-values",
        ("joint 'j2'", "30 %", "position", "20 %"),
    ),
    RowCase(
        49,
        "30 % inf",
        lambda c, r: at(c, "tau_j3", wide(0.3), np.inf),
        "missing-values",
        ("joint 'j3'", "30 %", "effort"),
    ),
    RowCase(
        49,
        "30 % of velocity",
        lambda c, r: at(c, "dq_j1", wide(0.3), np.nan),
        "missing-values",
        ("joint 'j1'", "velocity"),
    ),
    RowCase(
        49,
        "a whole joint",
        lambda c, r: at(c, "q_j3", slice(None), np.nan),
        "joint-missing",
        ("joint 'j3'", "no position in any row"),
    ),
    RowCase(
        49,
        "2 % without time",
        lambda c, r: at(c, "t", every(50), np.nan),
        "time-missing",
        ("row 5", "99 % of the rows"),
    ),
    RowCase(
        50,
        "steps back",
        lambda c, r: backwards(c, every(50), 0.5),
        "time-backwards",
        ("row 5 (t = -0.45 s)", "by 0.49 s", "sort = true"),
    ),
    RowCase(
        50,
        "set back",
        lambda c, r: with_time(c, c["t"] - np.where(np.arange(len(c["t"])) < 1000, 0.0, 5.0)),
        "time-backwards",
        ("row 1000 (t = 5 s)", "by 4.99 s"),
    ),
    RowCase(
        51,
        "coarse clock",
        lambda c, r: with_time(c, np.round(c["t"], 1)),
        "duplicate-time",
        ("row 7 ", "longer than a gap", "1/RATE s"),
    ),
    RowCase(
        51,
        "6 % twice",
        lambda c, r: rows(c, np.sort(np.r_[np.arange(ROWS), every(16)])),
        "duplicate-rows",
        ("125 of 2125 rows", "5 %"),
    ),
    RowCase(
        53,
        "degrees",
        lambda c, r: scaled(c, "q", 180 / np.pi),
        "unit-suspicion",
        ("joint 'j1'", "the joint's limits", "degrees"),
    ),
    RowCase(
        53,
        "velocity in degrees",
        lambda c, r: scaled(c, "dq", 180 / np.pi),
        "unit-suspicion",
        ("joint 'j1'", "velocity 57.", "times the change of position", "57.3 = degrees"),
    ),
    RowCase(
        53,
        "mN m",
        lambda c, r: scaled(c, "tau", 1000.0),
        "unit-suspicion",
        ("joint 'j1'", "times the joint's limit", "mA"),
    ),
    RowCase(
        53,
        "motor side",
        lambda c, r: scaled(c, "tau", 0.01),
        "unit-suspicion",
        ("joint 'j2'", "torque 0.0", "times that of the prior", "side"),
        priors=True,
    ),
    RowCase(
        54,
        "gravity compensated",
        weightless,
        "gravity-compensated",
        ("j2, j3", "without gravity"),
        priors=True,
    ),
    RowCase(
        54,
        "gravity compensated too strongly",
        lambda c, r: weightless(c, r, 1.05),
        "gravity-compensated",
        ("j2, j3", "without gravity"),
        priors=True,
    ),
    RowCase(
        54,
        "gravity compensated too weakly",
        lambda c, r: weightless(c, r, 0.95),
        "gravity-compensated",
        ("j2, j3", "without gravity"),
        priors=True,
    ),
    RowCase(
        54,
        "no torque at all",
        lambda c, r: scaled(c, "tau", 0.0),
        "constant-effort",
        ("j2", "a constant effort of 0"),
    ),
    RowCase(
        55,
        "velocity",
        lambda c, r: {**c, "dq_j2": -c["dq_j2"]},
        "velocity-sign",
        ("joint 'j2'", "correlation -", "sign"),
    ),
    RowCase(
        55,
        "torque",
        lambda c, r: {**c, "tau_j3": -c["tau_j3"]},
        "torque-sign",
        ("joint 'j3'", "opposite sign to that of the prior", "effort.sign"),
        priors=True,
    ),
    RowCase(
        56,
        "velocities",
        lambda c, r: exchanged(c, "dq_j1", "dq_j3"),
        "joint-order",
        ("j1 follows the column of j3", "j3 follows the column of j1"),
    ),
    RowCase(
        56,
        "torques",
        lambda c, r: exchanged(c, "tau_j1", "tau_j2"),
        "joint-order",
        ("the torque of 'j1' in the column of 'j2'", "the torque of 'j2' in the column of 'j1'"),
        priors=True,
    ),
    RowCase(
        53,
        "slow clock",
        lambda c, r: with_time(c, 20.0 * c["t"]),
        "time-base",
        ("velocities 20", "on every joint", "20 times too slowly", "log.time"),
    ),
    *(
        RowCase(
            53,
            f"clock in {unit}, velocity {velocity}",
            lambda c, r, size=size, velocity=velocity: with_time(
                c if velocity else without(c, "dq"), size * c["t"]
            ),
            "rows-too-slow",
            (f"time step {0.01 * size:.6g} s", "at least 2", f'{{ column = "t", unit = "{unit}" }}'),
        )
        for unit, size in (("ms", 1e3), ("us", 1e6), ("ns", 1e9))
        for velocity in (True, False)
    ),
    RowCase(
        53,
        "a pose a row, seconds apart",
        lambda c, r: with_time(
            {name: np.random.default_rng(1).permutation(one) for name, one in without(c, "dq").items()},
            600.0 * c["t"],
        ),
        "rows-too-slow",
        ("time step 6 s", "static poses", "dynid statics --table"),
    ),
    RowCase(
        53,
        "clock a fifth off",
        lambda c, r: with_time(c, 1.2 * c["t"]),
        "wrong-clock",
        ("velocities 1.2", "on every joint", "1.2 times too slowly"),
    ),
    RowCase(
        55,
        "unsigned torque",
        lambda c, r: {**c, "tau_j3": np.abs(c["tau_j3"])},
        "unsigned-effort",
        ("joint 'j3'", "absolute value"),
    ),
    RowCase(
        57,
        "frozen torque",
        lambda c, r: at(c, "tau_j2", slice(600, 800), float(c["tau_j2"][600])),
        "constant-effort",
        ("joint 'j2'", "1.99 s", "t = 6 s", "frozen"),
    ),
    RowCase(
        57,
        "rows lost",
        lambda c, r: with_time(rows(c, np.r_[0:700, 730:ROWS]), c["t"][: ROWS - 30]),
        "rows-lost",
        ("1 jump", "t = 6.99 s", "rows were lost"),
    ),
    RowCase(
        58, "standstill", lambda c, r: still(c), "standstill", ("no joint that moves", "exciting motion")
    ),
    RowCase(
        60,
        "30 rows",
        lambda c, r: rows(c, slice(30)),
        "too-few-rows",
        ("30 rows", "at least 50"),
        piped="too-short",
    ),
    RowCase(
        60,
        "one row",
        lambda c, r: rows(c, slice(1)),
        "too-few-rows",
        ("1 rows", "at least 50"),
        piped="time-stands",
    ),
)


@pytest.mark.parametrize("case", ROW_CASES, ids=lambda case: f"{case.number} {case.name}")
def test_unfit_and_doubtful_rows(
    case: RowCase, robot: RobotModel, bare: RobotModel, clean: Columns, tmp_path: Path
) -> None:
    path = write_parquet(tmp_path / "log.parquet", case.fault(clean, robot))
    log = read_log(path, robot if case.priors else bare)
    if case.identifier in CLAIMS:
        # What can be read is doubted, and stops nothing.
        sink = Diagnostics()
        check_log(log, sink)
        _, piped_sink = by_pipeline(log)
        for doubts in (sink.doubts, piped_sink.doubts):
            own = [str(one) for one in doubts if one.identifier == case.identifier]
            assert own, doubts
            assert all(any(text in one for one in own) for text in case.says), own
        return
    expect(caught(lambda: check_log(log, Diagnostics())), UnfitDataError, case.identifier, case.says)
    piped = caught(lambda: by_pipeline(log))
    expect(piped, UnfitDataError, case.piped or case.identifier, () if case.piped else case.says)


@pytest.mark.parametrize("known", [True, False], ids=["priors", "no priors"])
def test_a_clean_log_is_left_alone(
    known: bool, robot: RobotModel, bare: RobotModel, clean: Columns, tmp_path: Path
) -> None:
    for path in (write_parquet(tmp_path / "log.parquet", clean), write_csv(tmp_path / "log.csv", clean)):
        log = read_log(path, robot if known else bare)
        sink = Diagnostics()
        summary = check_log(log, sink)
        assert list(sink) == []
        assert summary.moved.all()
        assert summary.trajectories[0].rows == ROWS
        _, found = by_pipeline(log)
        assert [item.identifier for item in found] == ["cutoff"]


def test_a_coarse_effort_is_coarse_and_not_cut_off(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    step = np.ptp(clean["tau_j2"]) / 25
    coarse = {**clean, "tau_j2": np.round(clean["tau_j2"] / step) * step}
    summary, warnings, _ = mended(coarse, robot, tmp_path)
    assert "joint 'j2'" in warnings["quantised-effort"]
    assert not {"saturated", "constant-effort"} & set(warnings)
    assert not np.isfinite(summary.cut_off).any()
    # A coarse effort that is cut off is reported all the same.
    low, high = np.quantile(coarse["tau_j2"], [0.3, 0.7])
    summary, warnings, _ = mended({**coarse, "tau_j2": np.clip(coarse["tau_j2"], low, high)}, robot, tmp_path)
    assert "saturated" in warnings
    assert np.isfinite(summary.cut_off[:, 1]).all()


def mended(
    columns: Columns, robot: RobotModel, path: Path
) -> tuple[LogSummary, dict[str, str], dict[str, str]]:
    """Summary, warnings and notes of a log whose fault is no reason to stop."""
    summary, sink = by_pipeline(read_log(write_parquet(path / "log.parquet", columns), robot))
    warnings = {item.identifier: str(item) for item in sink.warnings}
    return summary, warnings, {item.identifier: str(item) for item in sink if item.identifier not in warnings}


def test_49_few_missing_values_are_masked(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    spoilt = at(at(clean, "q_j2", [100, 900], np.nan), "tau_j1", [900, 1500], -np.inf)
    summary, warnings, _ = mended(spoilt, robot, tmp_path)
    assert summary.trajectories[0].missing_rows == 0
    assert "of the position of a joint" in warnings["missing-values"]
    assert "interpolated" in warnings["missing-values"]
    assert np.isfinite(summary.trajectories[0].upper).all()


def test_49_rows_of_other_topics_are_left_out(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    times = np.sort(np.r_[clean["t"], clean["t"][::4] + 0.003])
    own = np.isin(times, clean["t"])
    spread = {name: np.full(len(times), np.nan) for name in clean}
    for name in clean:
        spread[name][own] = clean[name]
    both = {**with_time(spread, times), "pose": np.where(own, np.nan, times)}
    summary, warnings, notes = mended(both, robot, tmp_path)
    assert (summary.trajectories[0].rows, summary.trajectories[0].missing_rows) == (ROWS, 0)
    assert f"{ROWS // 4} row(s)" in notes["rows-without-values"]
    assert f"{ROWS} rows remain" in notes["rows-without-values"]
    assert not warnings
    log = read_log(tmp_path / "log.parquet", robot, select=[Selection(window=(5.0, 9.995))])
    (window,) = check_log(log, Diagnostics()).trajectories
    assert (window.rows, window.empty_rows) == (500, 125)
    nothing = {name: np.full(ROWS, np.nan) for name in clean} | {"t": clean["t"]}
    empty = read_log(write_parquet(tmp_path / "empty.parquet", nothing), robot)
    expect(caught(lambda: prepare(empty)), UnfitDataError, "no-rows", ("trajectory 'empty' without values",))


def test_50_rows_are_sorted_on_request(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    order = np.arange(ROWS)
    order[[10, 11, 1999, 0]] = order[[11, 10, 0, 1999]]
    path = write_parquet(tmp_path / "log.parquet", rows(clean, order))
    (tmp_path / "x.toml").write_text(MAPPING + "sort = true\n")
    log = open_log(Experiment.read(tmp_path / "x.toml"), [path], robot, ["*"], Diagnostics())
    assert check_log(log, Diagnostics()).trajectories[0].rows == ROWS
    chunk = log.read(log.trajectories[0])
    np.testing.assert_array_equal(chunk.t, clean["t"])
    np.testing.assert_array_equal(chunk.q[:, 1], clean["q_j2"])


def test_51_identical_rows_are_dropped(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    summary, warnings, notes = mended(
        rows(clean, np.sort(np.r_[np.arange(ROWS), 7, 8, 1999])), robot, tmp_path
    )
    assert summary.trajectories[0].duplicates == 3
    assert "3 duplicate rows are removed" in notes["duplicate-rows"]
    assert not warnings


@pytest.mark.parametrize("chunk", [7, pytest.param(100, marks=pytest.mark.slow), 32768])
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("early", "2 of 2000 rows"),
        ("late", "2 of 2000 rows"),
        ("coarse", "999 of 1999 rows"),
        ("uneven", "1199 of 1999 rows"),
    ],
)
def test_51_different_rows_of_one_stamp_are_set_evenly(
    name: str, says: str, chunk: int, robot: RobotModel, clean: Columns, tmp_path: Path
) -> None:
    t = clean["t"]
    stamps = {
        "early": at(clean, "t", [700, 1400], 0.0)["t"]
        + np.where(np.isin(np.arange(ROWS), [700, 1400]), t - 0.01, 0),
        "late": np.where(np.isin(np.arange(ROWS), [700, 1400]), t + 0.01, t),
        "coarse": 0.02 * np.floor((t + 1e-6) / 0.02),
        "uneven": 0.025 * np.floor((t + 1e-6) / 0.025),
    }[name]
    shared = with_time(clean, stamps)
    _, warnings, _ = mended(shared, robot, tmp_path)
    assert says in warnings["shared-stamps"]
    assert ("coarser than the row rate" in warnings["shared-stamps"]) == (name in ("coarse", "uneven"))
    log = read_log(tmp_path / "log.parquet", robot)
    times = np.concatenate([part.t for part in log.chunks(log.trajectories[0], chunk)])
    off = np.abs(times - t[: len(times)]).max()
    assert off < (0.006 if name == "uneven" else 1e-9)
    # What is advised where a stamp is shared for too long.
    counted = read_log(tmp_path / "log.parquet", robot, {"time": {"column": "row", "unit": "1/100 s"}})
    np.testing.assert_allclose(counted.read(counted.trajectories[0]).t, t, atol=1e-9)


def test_51_rows_at_rest_behind_a_coarse_clock(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    still_from = {n: np.where(np.arange(ROWS) < 1500, v, v[1500]) for n, v in clean.items() if n != "t"}
    _, warnings, notes = mended(
        {**still_from, "t": 0.02 * np.floor((clean["t"] + 1e-6) / 0.02)}, robot, tmp_path
    )
    assert "750 of" in warnings["shared-stamps"]
    assert "250 duplicate rows" in notes["duplicate-rows"]


def test_52_a_gap_splits_the_log(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "log.parquet", rows(clean, np.r_[0:900, 1000:ROWS]))
    log = read_log(path, robot)
    summary, sink = by_pipeline(log)
    assert summary.trajectories[0].gaps == 1
    assert [(item.identifier, item.text) for item in sink.warnings] == [
        ("gap", "trajectory 'log' has 1 gap(s), the largest 1.01 s; it is split at each gap")
    ]
    assert {samples.segment for samples in prepare(log)} == {0, 1}


def test_53_units_are_converted_where_declared(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    turned = scaled(scaled(scaled(clean, "q", 180 / np.pi), "dq", 180 / np.pi), "tau", 1000.0)
    path = write_parquet(tmp_path / "log.parquet", turned)
    text = MAPPING.replace('"rad"', '"deg"').replace('"rad/s"', '"deg/s"').replace('"N m"', '"mN m"')
    (tmp_path / "x.toml").write_text(text)
    sink = Diagnostics()
    check_log(open_log(Experiment.read(tmp_path / "x.toml"), [path], robot, ["*"], sink), sink)
    assert list(sink) == []


def test_59_a_joint_that_never_moved_is_named(bare: RobotModel, clean: Columns, tmp_path: Path) -> None:
    fixed = {**clean, "q_j1": still(clean)["q_j1"], "dq_j1": still(clean)["dq_j1"]}
    log = read_log(write_parquet(tmp_path / "log.parquet", fixed), bare)
    sink = Diagnostics()
    summary = check_log(log, sink)
    assert summary.moved.tolist() == [False, True, True]
    assert any(line.startswith("j1") and line.endswith("NO") for line in summary.lines())
    assert list(sink.warnings) == []
    result = identify(bare, log, Settings(preparation=Preparation(cutoff=8.0), automatic=False), threads=1)
    (warning,) = (item for item in result.diagnostics.warnings if item.identifier == "joint-at-rest")
    assert "'j1'" in warning.text
    assert "not identified" in warning.text


def test_saturated_effort_is_pointed_out(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    peak = 0.7 * np.abs(clean["tau_j2"]).max()
    _, warnings, _ = mended({**clean, "tau_j2": np.clip(clean["tau_j2"], -peak, peak)}, robot, tmp_path)
    assert "joint 'j2'" in warnings["saturated"]
    assert f"{peak:.3g}" in warnings["saturated"]


def test_steps_of_the_velocity_are_reported(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    coarse = {name: np.round(x / 0.02) * 0.02 if name.startswith("dq") else x for name, x in clean.items()}
    summary, warnings, notes = mended(coarse, robot, tmp_path)
    np.testing.assert_allclose(summary.velocity_step, 0.02, rtol=1e-6)
    assert "steps of up to 0.02" in notes["quantised-velocity"]
    assert not warnings


def test_velocity_that_is_noise_is_pointed_out(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    noise = np.random.default_rng(1).normal(size=ROWS)
    sink = Diagnostics()
    check_log(read_log(write_parquet(tmp_path / "log.parquet", {**clean, "dq_j2": noise}), robot), sink)
    (warning,) = sink.warnings
    assert (warning.identifier, warning.place) == ("velocity-differs", Place(joint="j2"))


# One data set twice: scored, but never called validation.


def test_68_training_data_is_not_validation(bare: RobotModel, clean: Columns, tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "log.parquet", clean)
    log = read_log(path, bare)
    settings = Settings(preparation=Preparation(cutoff=8.0), automatic=False)
    result = identify(bare, log, settings, validation=read_log(path, bare), threads=1)
    assert [one.scores.origin for one in result.validations] == [Origin.TRAINING]
    (warning,) = (item for item in result.diagnostics.warnings if item.identifier == "training-is-validation")
    assert "log was also used for fitting" in warning.text
    copied = tmp_path / "renamed.parquet"
    copied.write_bytes(path.read_bytes())
    sink = Diagnostics()
    assert validate(result, read_log(copied, bare), sink, threads=1).scores.origin is Origin.TRAINING
    assert [item.identifier for item in sink.warnings] == ["training-is-validation"]


def test_68_a_log_of_its_own_is_validation(bare: RobotModel, clean: Columns, tmp_path: Path) -> None:
    training = read_log(write_parquet(tmp_path / "a.parquet", rows(clean, slice(0, 1200))), bare)
    held_out = read_log(write_parquet(tmp_path / "b.parquet", rows(clean, slice(1200, ROWS))), bare)
    settings = Settings(preparation=Preparation(cutoff=8.0), automatic=False)
    result = identify(bare, training, settings, validation=held_out, threads=1)
    assert [one.scores.origin for one in result.validations] == [Origin.HELD_OUT_LOG]
    assert "training-is-validation" not in {item.identifier for item in result.diagnostics}
