"""What differentiates along time: left out of the search, known in what was recorded, checked at 1 kHz in the end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Float
from dynid.excitation import (
    Bounds,
    Checks,
    MotionLimits,
    Task,
    TorqueSpread,
    checks_of,
    design_motion,
    information_known,
    information_of,
    prior_theta,
    reserve_of,
)
from dynid.excitation import gradient as left_out
from dynid.excitation.gradient import Whole, stretches
from dynid.excitation.plan import design_terms, information_after
from dynid.excitation.sequences import stage_of
from dynid.factor import Assembly, Blocking, stack, structural_base
from dynid.robot import load_example
from dynid.rows import TorqueRows
from dynid.signals import ParallelFilter, Samples, samples_at
from dynid.terms import (
    CATALOGUE,
    Compliance,
    Coulomb,
    Offset,
    OnMotor,
    Reads,
    RigidBody,
    Term,
    Terms,
    TorqueDelay,
    Viscous,
)
from dynid.trajectories import FourierBasis, FourierTrajectory
from tests.command_line import SHORT_SEARCH, Run, planned
from tests.excite.test_slopes import KINDS

ROBOT = load_example("arm7")
DIFFERENTIATING: tuple[Term, ...] = (Compliance(), TorqueDelay(), TorqueDelay(each=True))
PLAIN = RigidBody() + Viscous() + Coulomb(0.1) + Offset()
MOTION = FourierTrajectory.random(ROBOT, 8.0, 4, 3)


def elastic_theta(terms: Terms, compliance: float) -> Float:
    """The description's parameters, and one compliance of all joints, rad/(N m)."""
    theta = prior_theta(ROBOT, terms)
    assert theta is not None
    is_compliance = [column.name.startswith("cq") for column in terms.columns(ROBOT)]
    return np.where(is_compliance, compliance, theta)


def test_every_kind_that_differentiates_along_time_is_known_here() -> None:
    # Beside them are those that read a channel of a log, which a plan has not.
    kinds = {type(term) for term in DIFFERENTIATING}
    assert {kind for kind in CATALOGUE.values() if Reads.RATE in kind.traits.reads} - kinds <= {
        kind
        for kind in CATALOGUE.values()
        if {"channel_name", "channel_names"} & set(kind.__dataclass_fields__)
    }


@pytest.mark.parametrize(
    "term", [*DIFFERENTIATING, OnMotor(Compliance()), *KINDS.values()], ids=lambda term: term.name
)
def test_torque_on_the_grid_of_a_design_is_that_of_the_motion_at_1_khz(term: Term) -> None:
    terms = design_terms(RigidBody() + term, ROBOT)
    names = [column.name for column in terms.columns(ROBOT)]
    assert names == [column.name for column in (RigidBody() + term).columns(ROBOT)]
    theta = np.random.default_rng(0).normal(size=len(names))
    rare, often = np.arange(0, 8, 0.1), np.arange(8000) / 1000
    coarse, fine = (terms.torque(ROBOT, samples_at(t, *MOTION.motion(t)), theta) for t in (rare, often))
    np.testing.assert_allclose(coarse, fine[::100], rtol=1e-9, atol=1e-9 * np.abs(fine).max())


def test_the_whole_model_has_the_torque_of_a_finer_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = design_terms(PLAIN + Compliance(), ROBOT)
    whole = Whole(terms).model
    theta = elastic_theta(terms, 1e-4)

    def sampled(rate: float) -> Float:
        batches = stretches(MOTION, rate)
        return np.concatenate([whole.torque(ROBOT, samples, theta)[own] for samples, own in batches])

    fine, usual = sampled(4000.0)[::4], sampled(1000.0)
    t = np.arange(len(fine)) / 1000
    extra = fine - terms.torque(ROBOT, samples_at(t, *MOTION.motion(t)), theta)
    assert np.abs(extra).max() > 0.1
    # The ramps end in steps of the fourth derivative, and differences are one-sided at the motion's ends.
    edges = np.array([0.0, MOTION.ramp, 8.0 - MOTION.ramp, 8.0])
    smooth = np.abs(t[:, None] - edges).min(axis=1) > 0.003
    np.testing.assert_allclose(usual[smooth], fine[smooth], atol=1e-4 * np.abs(extra).max())
    np.testing.assert_allclose(usual[2:-2], fine[2:-2], atol=1e-2 * np.abs(extra).max())
    # However it is cut into stretches.
    monkeypatch.setattr(left_out, "STRETCH", 700)
    np.testing.assert_allclose(sampled(1000.0), usual, atol=1e-9 * np.abs(usual).max())


def test_samples_of_a_motion_have_its_rate() -> None:
    t = np.linspace(2.0, 10.0, 81)
    samples = samples_at(t, *MOTION.motion(t))
    assert samples.rate == pytest.approx(10.0)
    np.testing.assert_array_equal(samples.t, t)


@pytest.mark.parametrize("term", DIFFERENTIATING, ids=["compliance", "delay", "delays"])
def test_what_was_recorded_counts_whatever_the_values_of_what_is_left_out(term: Term) -> None:
    # The information on some parameters with all others unknown is a Schur complement of that on all.
    terms = PLAIN + term
    base = structural_base(ROBOT, terms, TorqueRows(), 0)
    t = np.arange(0, 8, 0.01)
    assembly = Assembly(ROBOT, terms, TorqueRows(), base.mask, ParallelFilter(20.0, None), Blocking(1.0))
    factors = assembly.factors([Samples.from_motion(*MOTION.motion(t), rate=100.0)])
    after = information_after(ROBOT, terms, factors, np.ones(ROBOT.n))
    apart = Whole(after.terms).parameters(ROBOT)[base.independent]
    np.testing.assert_array_equal(base.independent[~apart], after.base.independent)
    assert apart.any()
    R = stack(factors.total, base.independent, np.ones(ROBOT.n))[:-1, :-1]
    M = R.T @ R
    A, B, C = M[np.ix_(~apart, ~apart)], M[np.ix_(~apart, apart)], M[np.ix_(apart, apart)]
    rest = A - B @ np.linalg.solve(C, B.T)
    assert after.recorded is not None
    size = np.sqrt(np.outer(A.diagonal(), A.diagonal()))
    np.testing.assert_allclose(after.recorded.T @ after.recorded / size, rest / size, atol=1e-9)
    known = information_known(ROBOT, terms, base, R, np.ones(ROBOT.n), 100.0)
    assert known.recorded is not None
    np.testing.assert_allclose(known.recorded.T @ known.recorded / size, rest / size, atol=1e-9)


def spread_of(terms: Terms, known: float, compliance: float) -> TorqueSpread:
    """A covariance of friction, and of compliance, rad/(N m)."""
    sizes = {"fv": known, "fc": known, "cq": compliance}
    std = [sizes.get(column.name[:2], 0.0) for column in terms.columns(ROBOT)]
    return TorqueSpread(np.diag(np.square(std)), np.full(ROBOT.n, 0.2))


def test_a_motion_after_a_run_with_compliance_keeps_torque_limits_at_1_khz() -> None:
    # Differentiated as if the grid had 1 kHz, the reserve for compliance left no motion at all.
    information = information_of(ROBOT, PLAIN + Compliance())
    spread = spread_of(information.terms, 0.05, 2e-5)
    theta = elastic_theta(information.terms, 1e-4)
    bounds = Bounds(MotionLimits.of(ROBOT), theta, 0.0, spread=spread)
    plan = design_motion(Task(FourierBasis(8.0, 3, 0.25, 1.5), information, bounds), 1, 4, candidates=8)
    assert plan.iterations <= 4
    assert plan.tightest.margin >= 0
    whole, t = Whole(information.terms).model, np.arange(8001) / 1000
    tau, sigma = spread.about(ROBOT, whole, theta, samples_at(t, *plan.trajectory.motion(t)))
    reach = (np.abs(tau) + 3.0 * sigma).max(axis=0)
    assert (reach <= bounds.limits.torque).all()
    stated = {m.where: abs(m.worst) for m in plan.margins if m.what == "torque"}
    np.testing.assert_allclose([stated[name] for name in ROBOT.joint_names], reach, rtol=1e-6)
    # The share of a limit at full speed, and what is left out, are those of the whole model.
    share = (reach / bounds.limits.torque).max()
    assert stage_of(plan, plan.trajectory, 1.0).torque_share == pytest.approx(share, rel=0.01)
    found = reserve_of(ROBOT, information.terms, bounds, plan.trajectory)
    assert found is not None
    assert found.left_out == ("compliance",)
    assert max(one.left_out for one in found.joints) > 0
    assert "omits terms that need derivatives over time: compliance" in " ".join(checks_of(plan).notes)


def test_torque_limits_do_not_count_a_delay_of_the_log() -> None:
    delayed = Whole(information_of(ROBOT, PLAIN + TorqueDelay(each=True)).terms)
    assert (delayed.names, delayed.checked, delayed.model) == (("torque_delay",), (), delayed.terms)


@pytest.mark.parametrize("term", ["compliance", "torque_delay"])
def test_the_command_goes_on_from_a_run_whose_terms_differentiate(
    term: str, run: Run, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    config = tmp_path / "experiment.toml"
    friction = '"viscous", { term = "coulomb", width = 0.02 }'
    config.write_text(f'[model]\nterms = ["rigid_body", {friction}, "{term}"]\n')
    own = ("--config", config, "--rows", "torque", "--out", tmp_path / "run")
    done = run("identify", robot_file, train_log, *own)
    assert done.code == 0, done.err
    bounded = {"limits.velocity": 2.0, "limits.lower": -1.5, "limits.upper": 1.5, "limits.torque": 60.0}
    few = planned(tmp_path, SHORT_SEARCH | bounded | {"search.iterations": 3})
    done = run("excite", robot_file, *few, "--after", tmp_path / "run", "--out", tmp_path / "next")
    assert done.code == 0, done.err
    assert f"omits terms that need derivatives over time: {term}" in done.out
    stored = json.loads((tmp_path / "next" / "plan.json").read_text())
    assert min(margin["margin"] for margin in stored["margins"]) >= 0
    reserve = stored["torque_reserve"]
    assert reserve.get("left_out", []) == (["compliance"] if term == "compliance" else [])


def test_the_first_line_is_short_however_much_is_not_checked() -> None:
    links = [f"some_robot_link_{k}" for k in range(40)]
    names = ", ".join(links)
    many = tuple(
        f"the visual shapes of {names} (no folder of the package 'meshes_{k}' above '/home')"
        for k in range(20)
    )
    plain = "surroundings (no floor, wall or obstacle is given)"
    first = Checks((plain, *many), ()).headline
    assert first.startswith(f"NOT CHECKED: {plain}; the visual shapes of ")
    assert f"{', '.join(links[:3])} and 37 more" in first
    assert "16 more" in first
    assert first.endswith("not_checked in plan.json")
    assert len(first) < 480
    assert Checks((plain,), ()).headline == f"NOT CHECKED: {plain}"
