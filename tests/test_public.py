"""What `import dynid` shows: the names, verbs on arrays and frames, and results that show themselves."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from dataclasses import fields, replace
from inspect import isclass, isroutine
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dynid
from dynid.base import (
    Finding,
    InputError,
    RefusedError,
    ResourceError,
    UnfitDataError,
    UsageError,
    read_table,
    tables,
)
from dynid.exporters import ExportModel
from dynid.identification import pipeline
from dynid.kernel import inverse_dynamics
from dynid.log import Log
from dynid.robot import RobotModel
from dynid.run import Identification
from dynid.terms import Compliance, RigidBody, TorqueDelay, Viscous
from dynid.trajectories import joints_of

NAMES = [
    "DynidError",
    "Log",
    "Result",
    "Settings",
    "__version__",
    "excite",
    "export",
    "identify",
    "load",
    "load_robot",
    "payload",
    "payload_from_wrench",
    "read_log",
    "regressor",
    "save",
    "simulate",
    "terms",
    "validate",
]
SMALL_HTML = 20_000


@pytest.fixture(scope="module")
def robot(robot_file: Path) -> RobotModel:
    return dynid.load_robot(robot_file)


@pytest.fixture(scope="module")
def result(robot: RobotModel, train_log: Path, other_log: Path) -> dynid.Result:
    return dynid.identify(
        robot, dynid.read_log(train_log, robot), validation=dynid.read_log(other_log, robot), threads=1
    )


def test_the_package_shows_its_names_and_nothing_else() -> None:
    assert dir(dynid) == sorted(dynid.__all__) == NAMES
    for name in NAMES:
        assert getattr(dynid, name).__doc__, name
    with pytest.raises(AttributeError, match="module 'dynid' has no attribute 'identfy'"):
        dynid.identfy  # noqa: B018  # asking is the test


def test_no_verb_shadows_a_room() -> None:
    rooms = {path.parent.name for path in Path(dynid.__file__).parent.glob("*/__init__.py")}
    assert rooms & set(NAMES) == {"terms"}


def test_importing_the_package_loads_no_numbers() -> None:
    code = (
        "import sys, dynid; dir(dynid); print({'numpy', 'pyarrow', 'pydantic', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_frame_is_identified_like_its_file(
    robot: RobotModel, train_log: Path, other_log: Path, result: dynid.Result
) -> None:
    found = dynid.identify(robot, pq.read_table(train_log), validation=pq.read_table(other_log), threads=1)
    np.testing.assert_array_equal(found.estimate.parameters, result.estimate.parameters)
    assert found.verdict.headline == result.verdict.headline
    again = dynid.validate(found, pq.read_table(other_log), threads=1)
    np.testing.assert_array_equal(again.scores.rms, result.validations[0].scores.rms)


def test_results_are_identifications_with_methods(
    robot: RobotModel, train_log: Path, other_log: Path, result: dynid.Result, tmp_path: Path
) -> None:
    plain = pipeline.identify(
        robot, dynid.read_log(train_log, robot), validation=dynid.read_log(other_log, robot), threads=1
    )
    assert type(plain) is Identification
    assert len(repr(plain)) < 300
    assert isinstance(result, Identification)
    for one in fields(Identification):
        assert getattr(dynid.Result.of(plain), one.name) is getattr(plain, one.name)
    dynid.save(result, tmp_path / "run")
    again = dynid.load(tmp_path / "run")
    assert type(again) is dynid.Result
    assert repr(again) == repr(result)
    assert type(replace(again, truth=None)) is dynid.Result


def test_parameters_are_the_table_of_the_run_folder(result: dynid.Result, tmp_path: Path) -> None:
    dynid.save(result, tmp_path / "run")
    stored, shown = read_table(tmp_path / "run" / "parameters.parquet"), result.parameters
    assert list(shown.columns if not isinstance(shown, pa.Table) else shown.column_names) == list(stored)
    assert [float(one) for one in shown["value"].to_numpy()] == stored["value"].tolist()


def test_scores_have_a_row_for_every_set_and_joint(result: dynid.Result) -> None:
    scores = result.scores
    expected = np.concatenate([result.training.scores.rms, result.validations[0].scores.rms])
    np.testing.assert_array_equal(scores["rms"].to_numpy(), expected)
    assert [str(one) for one in scores["data"].to_numpy()] == ["training"] * 2 + ["held-out log"] * 2


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_frames_are_of_the_library_that_is_loaded(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip(library)
    monkeypatch.delitem(sys.modules, "pandas" if library == "polars" else "polars", raising=False)
    frame = tables.data_frame({"a": [1, 2], "b": ["x", "y"]})
    assert isinstance(frame, module.DataFrame)
    assert [list(row) for row in zip(frame["a"], frame["b"], strict=True)] == [[1, "x"], [2, "y"]]


def test_frames_are_of_arrow_where_nothing_else_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("polars", "pandas"):
        monkeypatch.delitem(sys.modules, library, raising=False)
    monkeypatch.setattr(tables, "find_spec", lambda _: None)
    assert tables.data_frame({"a": [1, 2]}).equals(pa.table({"a": [1, 2]}))


@pytest.mark.filterwarnings("ignore:this motion is not like the recorded one")
def test_predictions_are_those_of_the_exported_model(result: dynid.Result) -> None:
    q, dq, ddq = np.random.default_rng(0).normal(size=(3, 30, 2))
    found = result.predict(q, dq, ddq)
    np.testing.assert_allclose(found, ExportModel.of_run(result).torque(q, dq, ddq), rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.predict(q[4], dq[4], ddq[4]), found[4], rtol=1e-12)
    Y = dynid.regressor(result.robot, q, dq, ddq, terms=result.terms).Y
    np.testing.assert_allclose(Y @ result.estimate.parameters, found, rtol=0, atol=1e-12)


@pytest.fixture(scope="module")
def along_time(robot: RobotModel, train_log: Path) -> dynid.Result:
    """Of a model with a delay and elastic joints, which read the torque's change along time."""
    bodies = tuple(robot.inertia_prior.ravel())
    terms = RigidBody() + Viscous() + Compliance(bodies) + TorqueDelay(bodies, about=(0.02,))
    settings = dynid.Settings(terms=terms)
    return dynid.identify(robot, dynid.read_log(train_log, robot), settings, threads=1)


def with_values(result: dynid.Result, compliance: float, delay: float) -> dynid.Result:
    """The result with other compliances of its joints, rad/(N m), and another delay, s."""
    parameters = np.append(result.estimate.parameters[:-3], [compliance, compliance, delay])
    return replace(result, estimate=replace(result.estimate, parameters=parameters))


def nominal(result: dynid.Result, q: np.ndarray, dq: np.ndarray, ddq: np.ndarray) -> np.ndarray:
    """Torque of the described bodies, about which compliance and delay are linear."""
    return inverse_dynamics(result.robot.tree, result.robot.inertia_prior, q, dq, ddq)


@pytest.mark.filterwarnings("ignore:this motion is not like the recorded one")
def test_states_by_themselves_are_predicted_without_a_rate(along_time: dynid.Result) -> None:
    soft, stiff = with_values(along_time, 1e-4, 0.02), with_values(along_time, 0.0, 0.0)
    q, dq, ddq = np.random.default_rng(0).normal(size=(3, 30, 2))
    with pytest.warns(UserWarning, match=r"left out \(compliance, torque_delay\): pass rate=HZ") as given:
        found = soft.predict(q, dq, ddq)
    assert {Path(warning.filename) for warning in given} == {Path(__file__)}
    with pytest.warns(UserWarning, match="left out"):
        np.testing.assert_allclose(soft.predict(q[4], dq[4], ddq[4]), found[4], rtol=0, atol=1e-8)
    # The torque of the instant, of links that lag behind the motors by what it winds the joints up.
    rigid = nominal(soft, q, dq, ddq)
    bent = nominal(soft, q - 1e-4 * rigid, dq, ddq) - rigid
    np.testing.assert_allclose(
        found - stiff.predict(q, dq, ddq), bent, rtol=0, atol=1e-2 * np.abs(bent).max()
    )
    # At rest nothing changes along time, whatever the rate.
    pose, still = np.tile(q[0], (5, 1)), np.zeros((5, 2))
    with pytest.warns(UserWarning, match="left out"):
        at_rest = soft.predict(pose, still, still)
    np.testing.assert_allclose(at_rest, soft.predict(pose, still, still, rate=100.0), rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore:this motion is not like the recorded one")
def test_consecutive_states_are_predicted_with_their_delay(along_time: dynid.Result) -> None:
    late, prompt, rate = with_values(along_time, 0.0, 0.02), with_values(along_time, 0.0, 0.0), 200.0
    x = 2.0 * np.arange(0.0, 4.0, 1.0 / rate)[:, None] + [0.0, 1.0]
    motion = np.sin(x), 2.0 * np.cos(x), -4.0 * np.sin(x)
    rigid = nominal(late, *motion)
    change = late.predict(*motion, rate=rate) - prompt.predict(*motion)
    np.testing.assert_allclose(change[4:], rigid[:-4] - rigid[4:], rtol=0, atol=1e-9)


def test_predictions_ask_for_what_the_model_reads(result: dynid.Result) -> None:
    zero = np.zeros((5, 2))
    for rate in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(UsageError, match="no-rate"):
            result.predict(zero, zero, zero, rate=rate)
    with pytest.raises(UsageError, match="q of shape"):
        result.predict(zero[:, :1], zero, zero)


def test_a_result_exports_and_refuses_like_the_verb(result: dynid.Result, tmp_path: Path) -> None:
    done = result.export(str(tmp_path / "model.json"))
    assert done.files == (tmp_path / "model.json",)
    assert json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    with pytest.raises(RefusedError, match="exists"):
        result.export(tmp_path / "model.json")
    dynid.export(result, tmp_path / "same.json")
    assert (tmp_path / "same.json").read_bytes() == (tmp_path / "model.json").read_bytes()


def test_the_plot_shows_the_held_out_torque(result: dynid.Result) -> None:
    figure = result.plot()
    assert [trace.name for trace in figure.data] == ["measured", "predicted"] * 2
    residuals = result.validations[0].residuals
    assert residuals is not None
    assert np.isclose(np.nanmax(figure.data[0].y), residuals.measured[:, 0].max(), rtol=1e-6)
    bare = replace(result, training=replace(result.training, residuals=None), validations=())
    with pytest.raises(UnfitDataError, match="without residuals"):
        bare.plot()


def test_a_plot_without_plotly_names_the_extra(result: dynid.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(ResourceError, match=r"pip install 'dynid\[plot\]'"):
        result.plot()


def test_reprs_are_short(result: dynid.Result, robot: RobotModel, train_log: Path) -> None:
    log = dynid.read_log(train_log, robot)
    shown = repr(result)
    assert len(shown.splitlines()) <= 12
    for text in (
        "'two' (2 joints)",
        result.verdict.headline[:40],
        "held-out log",
        "shoulder",
        "rank:",
        "weak spots:",
    ):
        assert text in shown
    noted = replace(
        result.verdict,
        findings=(Finding("note", "", "", title="all is well"), Finding("warning", "", "", title="too slow")),
    )
    assert "weak spots: too slow" in " ".join(repr(replace(result, verdict=noted)).split())
    for thing in (result, robot, log, result.estimate, result.training, result.training.scores):
        lines = repr(thing).splitlines()
        assert len(lines) <= 12
        assert max(map(len, lines)) <= 100
    for thing in (result, robot, log, result.estimate, result.training.scores):
        assert len(thing._repr_html_()) < SMALL_HTML


def test_html_is_escaped_and_small_whatever_things_are_called(result: dynid.Result) -> None:
    evil = "<script>alert(1)</script>\x1b[31m" + "x" * 3000
    findings = tuple(Finding("problem", "", evil, title=evil) for _ in range(50))
    scores = replace(result.training.scores, joint_names=(evil, "b"))
    changed = replace(
        result,
        robot=replace(result.robot, name=evil),
        verdict=replace(result.verdict, headline=evil, findings=findings),
        training=replace(result.training, scores=scores),
        validations=(),
        provenance={"logs": {evil: "", "b": "", "c": ""}},
    )
    shown = changed._repr_html_()
    assert "<script" not in shown
    assert "\x1b" not in shown
    assert len(shown) < SMALL_HTML
    assert "\x1b" not in repr(changed)
    assert max(map(len, repr(changed).splitlines())) <= 100
    assert len(repr(changed).splitlines()) <= 22


def test_a_designed_motion_is_simulated_and_identified(robot: RobotModel, tmp_path: Path) -> None:
    limited = replace(
        robot,
        limits=replace(robot.limits, velocity=np.full(2, 2.0), lower=np.full(2, -2.0), upper=np.full(2, 2.0)),
    )
    plan = dynid.excite(
        limited, seconds=8.0, harmonics=2, frequency=0.25, starts=1, iterations=5, out=str(tmp_path / "plan")
    )
    assert joints_of(plan.trajectory) == 2
    assert (tmp_path / "plan" / "plan.json").is_file()
    assert len(repr(plan)) < 300
    log = dynid.simulate(robot, plan)
    assert isinstance(log, Log)
    chunk = log.read(log.trajectories[0])
    np.testing.assert_allclose(chunk.q, plan.trajectory.motion(chunk.t)[0], rtol=0, atol=1e-12)
    found = dynid.identify(robot, log, threads=1)
    assert found.training.scores.total_relative < 0.05
    predicted = found.predict(*plan.trajectory.motion(chunk.t))
    # Twice the error of the fit, whose motion and torque are filtered.
    limit = 2.0 * found.training.scores.total_relative
    assert chunk.tau is not None
    assert np.linalg.norm(predicted - chunk.tau) < limit * np.linalg.norm(chunk.tau)
    stored = dynid.simulate(robot, tmp_path / "plan")
    np.testing.assert_allclose(stored.read(stored.trajectories[0]).q, chunk.q, rtol=0, atol=1e-12)
    known = dynid.excite(limited, seconds=8.0, harmonics=2, frequency=0.25, starts=1, iterations=2, run=found)
    assert known.bounds.spread is not None


def test_sensors_and_drives_of_simulated_logs_are_declared(robot: RobotModel, tmp_path: Path) -> None:
    (tmp_path / "sensors.toml").write_text(
        'rate = 100.0\n[velocity]\n[motor_position]\n[effort]\nquantity = "current"\n[temperature]\nrise = 0.2\n'
    )
    drive = replace(robot.drive, drive_gain=np.array([2.0, 4.0]))
    driven = replace(robot, drive=drive)
    log = dynid.simulate(driven, seconds=4.0, sensors=str(tmp_path / "sensors.toml"))
    exact = dynid.simulate(driven, seconds=4.0)
    chunk, truth = (one.read(one.trajectories[0]) for one in (log, exact))
    assert log.mapping.effort_quantity == "current"
    assert chunk.tau is not None
    assert truth.tau is not None
    np.testing.assert_allclose(chunk.tau, truth.tau[::10], atol=1e-9)
    assert chunk.dq is not None
    assert chunk.theta is not None
    assert chunk.temperature is not None
    np.testing.assert_allclose(chunk.theta, chunk.q, atol=1e-9)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda robot: dynid.identify("arm.urdf", robot), "str in place of a robot.*load_robot"),
        (lambda robot: dynid.identify(robot, "motion.parquet"), "str instead of a log.*read_log"),
        (lambda robot: dynid.simulate(robot, 3), "int in place of a motion"),
        (lambda robot: dynid.simulate(robot, controller="best"), "'best'.*computed-torque"),
        (lambda robot: dynid.excite(robot, formats=["pdf"]), "formats = .*pdf.*csv"),
        (lambda robot: dynid.payload(robot, None, reference_mass=1.0), "one of reference and reference_mass"),
    ],
)
def test_wrong_things_are_named(call: object, text: str, robot: RobotModel) -> None:
    assert callable(call)
    with pytest.raises(UsageError, match=text):
        call(robot)


def test_a_log_without_effort_is_no_log_to_identify_from(robot: RobotModel) -> None:
    t = np.arange(0.0, 5.0, 0.01)
    log = Log.from_arrays(robot, t, np.sin(t)[:, None] * [1.0, 0.5], name="bench")
    with pytest.raises(UsageError, match=r"the log bench without effort.*from_arrays"):
        dynid.identify(robot, log)


def rooms() -> list[ModuleType]:
    """The rooms with a list of public names."""
    package = Path(dynid.__file__).parent
    found = [
        importlib.import_module(f"dynid.{path.parent.name}") for path in sorted(package.glob("*/__init__.py"))
    ]
    return [room for room in found if hasattr(room, "__all__")]


def test_every_public_name_exists_and_is_explained() -> None:
    shown = {room.__name__.removeprefix("dynid.") for room in rooms()}
    assert shown >= {"estimate", "exporters", "factor", "feasible", "kernel", "log", "robot", "rows", "terms"}
    assert shown >= {"excitation", "identification", "report", "run", "signals", "simulation", "testing"}
    for room in rooms():
        assert sorted(set(room.__all__)) == sorted(room.__all__), room.__name__
        assert set(room.__all__) <= set(dir(room)), room.__name__
        for name in room.__all__:
            kind = getattr(room, name)  # constants and aliases of types have a comment
            assert not (isclass(kind) or isroutine(kind)) or kind.__doc__, f"{room.__name__}.{name}"


def test_a_room_has_no_name_that_it_does_not_have() -> None:
    for room in rooms():
        with pytest.raises(AttributeError):
            room.no_such_name  # noqa: B018  # asking is the test
    with pytest.raises(InputError, match="no such file"):
        dynid.load("nowhere")
