"""Joints without an effort in the log, or with a brake's: motion counts, equations do not; plants by pinocchio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dynid.base import Diagnostics, Float, UsageError
from dynid.estimate import OE, WLS
from dynid.identification import Settings, identify
from dynid.lab import replay_torque
from dynid.log import Log
from dynid.rows import EnergyRows
from dynid.run import Identification, validate
from dynid.signals import unexplained_hands
from dynid.testing import Plant, Recorded, Unmodelled, plant, record
from dynid.verbs import score_lines
from dynid.verbs.summary import link_lines

SILENT = 1  # of the finger's three joints: it carries one and is carried by one
BESIDE = Unmodelled(cable=0.005, torque_step=0.002)
# What a joint's equation is worth does not depend on what is chosen of its friction, nor on consistent bodies.
PLAIN = Settings(automatic=False, estimator=WLS())


@cache
def finger() -> tuple[Plant, Recorded, Recorded]:
    one = plant("finger", np.random.default_rng(3))
    first, second = (
        record(one, np.random.default_rng(seed), BESIDE, machine=np.random.default_rng(9)) for seed in (1, 2)
    )
    return one, first, second


def logged(one: Plant, made: Recorded, effort: float | None = None) -> Log:
    """The log; effort: what stands in the column of the silent joint, None = what was measured."""
    tau = np.array(made.tau)
    if effort is not None:
        tau[:, SILENT] = effort
    return Log.from_arrays(one.described, made.t, made.q, tau, made.dq)


@cache
def identified(effort: float | None) -> Identification:
    one, first, _ = finger()
    log = logged(one, first, effort)
    return identify(one.described, log, PLAIN, threads=1, diagnostics=Diagnostics())


def others(values: Float) -> Float:
    return np.delete(values, SILENT)


def test_an_effort_without_numbers_or_of_one_value_is_as_one_of_zeros() -> None:
    """The same bytes, and one warning."""
    zero, found = identified(0.0), identified(np.nan)
    np.testing.assert_array_equal(found.estimate.parameters, zero.estimate.parameters)
    np.testing.assert_array_equal(identified(0.3).estimate.parameters, zero.estimate.parameters)
    (warning,) = [one for one in found.diagnostics.warnings if one.identifier == "joint-unmeasured"]
    assert f"'{finger()[0].described.joint_names[SILENT]}'" in warning.text
    assert not found.diagnostics.doubts


def test_the_other_joints_are_predicted_as_if_all_had_been_measured() -> None:
    one, _, unseen = finger()
    scores = {
        name: validate(run, logged(one, unseen), Diagnostics(), threads=1).scores
        for name, run in {"all": identified(None), "silent": identified(0.0)}.items()
    }
    assert (others(scores["silent"].relative) <= 1.1 * others(scores["all"].relative)).all()
    # What is not known of the silent joint is its own friction and rotor, and not what its bodies do to it.
    own, known = identified(0.0), {column.name for column in identified(0.0).estimate.columns}
    gaps: Mapping[str, float] = dict(zip(one.described.joint_names, own.training.scores.count, strict=True))
    assert [name for name, count in gaps.items() if not count] == [one.described.joint_names[SILENT]]
    assert {"Ia2", "fv2"} <= known
    named = {own.estimate.columns[k].name for k in own.estimate.base.independent}
    assert not named & {"Ia2", "fv2", "fc2", "fo2"}

    # Zeros would read as what was found.
    joint = one.described.joint_names[SILENT]
    (line,) = [text for text in link_lines(own) if text.startswith(f"  {joint} ")]
    assert line.split() == [joint, "effort", "not", "measured"]


@pytest.mark.parametrize("settings", [Settings(estimator=OE()), Settings(rows=EnergyRows())])
def test_what_needs_every_torque_is_refused(settings: Settings) -> None:
    one, first, _ = finger()
    with pytest.raises(UsageError, match="no-effort"):
        identify(one.described, logged(one, first, 0.0), settings, threads=1, diagnostics=Diagnostics())


def braked(one: Plant, made: Recorded, held: Recorded, motor: float | None) -> Log:
    """Two motions, in the second of which the joint stands.    motor: what its effort is there, None = the load."""
    tau = np.array(held.tau)
    if motor is not None:
        noise = np.random.default_rng(5).normal(size=len(tau))
        tau[:, SILENT] = one.scale[SILENT] * (motor + 0.005 * noise)
    names = ["moving"] * len(made.t) + ["held"] * len(held.t)
    columns = [np.concatenate(pair) for pair in ((made.t, held.t), (made.q, held.q), (made.tau, tau))]
    return Log.from_arrays(one.described, *columns, trajectory=names)


@cache
def held_still() -> Recorded:
    """A motion in which the joint stands, in the middle of its range."""
    one, _, _ = finger()
    limits = one.described.limits
    lower, upper = np.array(limits.lower), np.array(limits.upper)
    lower[SILENT] = upper[SILENT] = 0.5 * (lower[SILENT] + upper[SILENT])
    described = replace(one.described, limits=replace(limits, lower=lower, upper=upper))
    return record(
        replace(one, described=described),
        np.random.default_rng(4),
        BESIDE,
        machine=np.random.default_rng(9),
    )


@pytest.mark.parametrize("motor", [0.0, 0.4])
def test_a_brake_that_is_on_in_one_trajectory_spoils_no_joint(motor: float) -> None:
    """Whatever its motor gives: all joints are predicted as if the trajectory had not been recorded, or better."""
    one, first, unseen = finger()
    log = braked(one, first, held_still(), motor)
    found = identify(one.described, log, PLAIN, threads=1, diagnostics=Diagnostics())
    (warning,) = [item for item in found.diagnostics.warnings if item.identifier == "held-in-part"]
    assert "is at rest in 'held'" in warning.text
    errors = [
        validate(run, logged(one, unseen), Diagnostics(), threads=1).scores.relative
        for run in (found, identified(None))
    ]
    assert (errors[0] <= 1.1 * errors[1]).all()
    assert found.training.scores.count[SILENT] < found.training.scores.count[0]


def test_a_joint_that_its_servo_holds_keeps_its_equation() -> None:
    one, first, _ = finger()
    log = braked(one, first, held_still(), None)
    found = identify(one.described, log, PLAIN, threads=1, diagnostics=Diagnostics())
    assert not [item for item in found.diagnostics if item.identifier == "held-in-part"]
    assert found.training.scores.count[SILENT] == found.training.scores.count[0]


@cache
def with_hand(name: str) -> tuple[Plant, Recorded]:
    one = plant(name, np.random.default_rng(2))
    return one, record(one, np.random.default_rng(1), BESIDE)


def gripping(one: Plant, made: Recorded, how: str) -> Log:
    """The log with an effort of the gripper, its last joint, that is not the torque of its motion."""
    tau, rng, t = np.array(made.tau), np.random.default_rng(6), made.t
    tau[:, -1] = one.scale[-1] * {
        "two forces": np.where(t % 5.0 < 2.0, 0.3, -0.3),
        "noise": 0.01 * rng.normal(size=len(t)),
        "grips at times": 0.01 * rng.normal(size=len(t)) + 0.5 * (t % 4.0 < 1.5),
    }.get(how, tau[:, -1] / one.scale[-1])
    return Log.from_arrays(one.described, made.t, made.q, tau, made.dq)


@pytest.mark.parametrize("name", ["so101", "talos_left_arm"])
@pytest.mark.parametrize("how", ["two forces", "noise", "grips at times", "torque"])
def test_a_gripper_is_found_whose_effort_is_not_the_torque_of_its_motion(name: str, how: str) -> None:
    one, made = with_hand(name)
    expected = () if how == "torque" else one.described.joint_names[-1:]
    assert unexplained_hands(gripping(one, made, how)) == expected


def test_a_gripper_that_grips_spoils_no_arm() -> None:
    """One warning, and every other joint is predicted as well as with the gripper's true torque."""
    one, made = with_hand("so101")
    runs = {
        how: identify(one.described, gripping(one, made, how), PLAIN, threads=1, diagnostics=Diagnostics())
        for how in ("torque", "two forces")
    }
    said = [item.text for item in runs["two forces"].diagnostics if item.identifier == "joint-unmeasured"]
    assert len(said) == 1
    assert "for example when it grips" in said[0]
    # On another motion: of this one, parts that five folds leave out are further away without the hand's equations.
    other = record(one, np.random.default_rng(2), BESIDE)
    scores = {
        how: validate(run, gripping(one, other, how), Diagnostics(), threads=1).scores
        for how, run in runs.items()
    }
    assert (scores["two forces"].relative[:-1] <= 1.1 * scores["torque"].relative[:-1]).all()
    assert scores["two forces"].count[-1] == runs["two forces"].validations[0].scores.count[-1] == 0


def test_replays_leave_the_silent_joint_out_of_their_errors() -> None:
    """Its column of zeros is no torque: the others' errors are as if it had been measured."""
    one, first, _ = finger()
    run = identified(0.0)
    found = {effort: replay_torque(run, logged(one, first, effort)) for effort in (0.0, None)}
    for silent, whole in zip(found[0.0].rows, found[None].rows, strict=True):
        for name in ("torque", "motion"):
            mine, theirs = getattr(silent, name), getattr(whole, name)
            assert (mine is None) == (theirs is None)
            if mine is None:
                continue
            assert np.isnan(mine[SILENT])
            assert np.isfinite(others(mine)).all()
            if name == "torque":
                np.testing.assert_allclose(others(mine), others(theirs), rtol=1e-12)
    identified_rows = [
        row for row in found[0.0].rows if row.description == "identified" and row.motion is not None
    ]
    assert identified_rows
    for row in identified_rows:
        assert row.motion is not None
        described = next(
            r for r in found[0.0].rows if r.description == "as described" and r.program == row.program
        )
        assert described.motion is not None
        assert (others(row.motion) < others(described.motion)).all()
    text = "\n".join(found[0.0].lines())
    assert "nan" not in text
    assert None in found[0.0].plain()["rows"][0]["torque"]
    shown = "\n".join(score_lines(run.training.scores))
    assert "nan" not in shown
    assert "effort not measured" in shown


def test_what_the_silent_joint_does_not_say_stays_as_described() -> None:
    """Exactly: the description has no friction and no rotor."""
    estimate = identified(0.0).estimate
    own = {
        c.name: v
        for c, v in zip(estimate.columns, estimate.parameters, strict=True)
        if c.name in ("Ia2", "fv2")
    }
    assert own == {"Ia2": 0.0, "fv2": 0.0}
