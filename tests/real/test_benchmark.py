"""The benchmark on real logs: its plain least squares is right, and it goes through one log and through a refusal."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.harness import END, start_of, written

import numpy as np
import pinocchio as pin
import pytest
from dynid_bench.adapters.least_squares import equations, fit
from dynid_bench.protocol import Motion

from benchmarks import real, variants
from dynid.identification import Experiment
from dynid.log import canonical_columns, write_log
from dynid.robot import load_example
from tests.robot.texts import ARM


def simulated(arm: real.Arm, seed: int) -> Motion:
    """Six seconds of a seven-joint arm by pinocchio, with friction, rotors and offsets that the method knows."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, 6.0, 0.005)
    n, model = arm.model.nq, arm.model.copy()
    for i in range(1, n + 1):
        model.inertias[i] = pin.Inertia(3.0 / i, np.array([0.02, 0.03, 0.1]), 0.02 * np.eye(3) / i)
    phase, size = rng.uniform(0, 6, (n, 3)), rng.uniform(0.2, 0.5, (n, 3))
    w = 2 * np.pi * np.array([0.3, 0.7, 1.1])
    q, dq, ddq = (
        np.array([(size * w**k * np.sin(w * x + phase + k * np.pi / 2)).sum(axis=1) for x in t])
        for k in range(3)
    )
    data = model.createData()
    tau = np.array([pin.rnea(model, data, *one) for one in zip(q, dq, ddq, strict=True)])
    return Motion(t, q, tau + 0.7 * np.tanh(dq / 0.02) + 0.4 * dq + 0.05 * ddq + 0.1)


def test_plain_least_squares_predicts_an_arm_of_pinocchio() -> None:
    arm = real.arm_of(load_example("arm7"))
    Y, tau, moving = equations(arm, simulated(arm, 0), cutoff=20.0)
    assert moving.all()
    theta = fit([Y], [tau])
    unseen, measured, _ = equations(arm, simulated(arm, 1), cutoff=20.0)
    error = real.relative(measured - unseen @ theta, measured)
    assert (
        error < 1.0
    )  # the step of friction within a sample, and differences for derivatives, are all that is left
    # A torque of other units or of a lost joint would show.
    assert real.relative(measured - 1.05 * (unseen @ theta), measured) > 4.0


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A folder of two robots: one that cannot be read, one without a mapping."""
    t = np.linspace(0.0, 2.0, 200)
    for name in ("broken", "unmapped"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "robot.urdf").write_text(ARM.replace('value="1.5"', 'value="1,5"'))
        columns = canonical_columns(("j1",), np.sin(t)[:, None], None, np.cos(t)[:, None])
        write_log(tmp_path / name / "data.parquet", t, columns)
    (tmp_path / "broken" / "mapping.toml").write_text("[log]\n")  # columns of dynid's own names
    return tmp_path


def test_a_refusal_is_a_row(logs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert [case.name for case in real.cases(logs)] == ["broken robot.urdf mapping.toml"]
    assert real.main(["--data", str(logs), "--json", str(tmp_path / "rows.json")]) == 0
    line = capsys.readouterr().out.splitlines()[2]
    assert "no: exit 3 | refused: `number` | 3 |" in line
    (row,) = json.loads((tmp_path / "rows.json").read_text())
    assert row["exit"] == 3
    assert row["processor_s"] > 0
    assert row["plain"] == []


def test_a_page_keeps_its_text() -> None:
    start = start_of("real.py")
    page = f"# T\n{start}\nold\n{END}\nmore\n"
    assert written(page, "real.py", "| new |") == f"# T\n{start}\n\n| new |\n\n{END}\nmore\n"
    with pytest.raises(ValueError, match="no <!--"):
        written(page, "agreement.py", "| new |")


def test_goals_are_met_as_they_are_printed() -> None:
    assert real.within(4.64, "4.6")
    assert not real.within(4.66, "4.6")
    assert real.within(17.4, "17")
    assert not real.within(None, "17")
    row = real.Row("krang_lwa3 robot.toml mapping.toml", plain=[16.0, 16.0], ours=[16.9, 16.9], exit=0)
    assert real.misses(row) == ["worse than least squares"]
    assert not real.misses(real.Row("other", plain=[16.0, 16.0], ours=[16.4, 20.0], exit=0))


def test_variants_of_a_log_change_one_thing_each(data_dir: Path, tmp_path: Path) -> None:
    (case,) = (case for case in real.cases(data_dir) if case.name == "tx40_lirmm robot.toml mapping.toml")
    assert case.mapping is not None
    made = {one.name: one for one in variants.variants(case, case.mapping.read_text())}
    assert list(made) == ["exchanged", "all of it", "100 Hz", "40 Hz", "coarse", "jitter"]
    read = {}
    for name, one in made.items():
        (tmp_path / "mapping.toml").write_text(one.mapping)
        read[name] = Experiment.read(tmp_path / "mapping.toml").data
    as_is = Experiment.read(case.mapping).data
    assert read["exchanged"].train == as_is.validate_on
    assert read["exchanged"].validate_on == as_is.train
    assert not read["all of it"].validate_on
    whole, slow, coarse, jitter = (made[name].log for name in ("exchanged", "100 Hz", "coarse", "jitter"))
    assert whole is None
    assert slow is not None
    assert coarse is not None
    assert jitter is not None
    t = np.array(jitter["t"])
    assert np.median(np.diff(slow["t"])) == pytest.approx(0.01)
    # 1 mrad at a joint behind the gear of 32 that most of them have.
    steps = np.array(coarse["qm1"]) / (1e-3 * 32.0)
    assert np.abs(steps - np.round(steps)).max() < 1e-6
    assert coarse["um1"].equals(jitter["um1"])
    assert (np.diff(t) > 0).all()
    assert 0.1 < np.abs(np.diff(t) / np.median(np.diff(t)) - 1.0).max() < 0.31


def test_the_quickest_log_by_default(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real, "EXPORTS", {"C": "robot.c"})
    (case,) = (case for case in real.cases(data_dir) if case.name == "tx40_lirmm robot.toml mapping.toml")
    row = real.run(case, tmp_path, timeout=300.0)
    assert row.exit == 0
    assert row.verdict in ("GOOD", "USABLE", "DOUBTFUL", "POOR")
    assert len(row.by_joint) == 6
    assert row.exports == {"C": "yes"}
    assert 0 < row.plain[0] < 20
    assert row.memory_mb > 50
    # The scores that the run states are those of the torque that it stores, by the benchmark's own formula.
    from dynid.run import load

    residuals = load(tmp_path / "run").validations[0].residuals
    assert residuals is not None
    assert row.ours[0] == pytest.approx(real.relative(residuals.error, residuals.measured), rel=1e-9)
