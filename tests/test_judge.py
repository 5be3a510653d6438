"""The verdict in words, and friction that drives the motion."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dynid.base import Diagnostics, Evidence, Finding, Level, Place, Verdict
from dynid.diagnosis.input_checks import DrivenJoint, driven_joints
from dynid.estimate import WLS, Estimate, Origin, Regression, Residuals, Scores, Sums, unphysical
from dynid.factor import BaseMap
from dynid.log import ONE_SIDED
from dynid.robot import load_robot
from dynid.run import Validation, judge
from dynid.terms import Column, Of, TorsionSpring
from dynid.testing import factors_of, synthetic_regression
from tests.robot_files import ROBOTS

NAMES = ("fv1", "fc1", "fv2", "fc2", "Izz1")
JOINTS = ("shoulder", "elbow")


def pendulums(
    viscous: tuple[float, float], coulomb: tuple[float, float], noise: float = 0.3
) -> tuple[Estimate, Residuals]:
    """Two joints with inertia and friction, fitted; and what is left."""
    rng = np.random.default_rng(0)
    T = 2000
    dq = np.column_stack([np.sin(0.02 * np.arange(T)), 2.0 * np.cos(0.013 * np.arange(T))])
    ddq = np.gradient(dq, axis=0) / 0.01
    X, y = [], []
    for j in range(2):
        A = np.zeros((T, 5))
        A[:, 2 * j], A[:, 2 * j + 1] = dq[:, j], np.sign(dq[:, j])
        if j == 0:
            A[:, 4] = ddq[:, 0]
        X.append(A)
        y.append(A @ [viscous[0], coulomb[0], viscous[1], coulomb[1], 1.5] + noise * rng.normal(0, 1, T))
    own = [np.array([0, 1, 4]), np.array([2, 3])]
    columns = tuple(Column(name, "1", "friction", 0) for name in NAMES)
    base = BaseMap(NAMES, np.arange(5), np.eye(5), np.ones(5), np.inf, np.ones(5))
    regression = Regression(columns, base, factors_of(X, y, own, 5, 20), np.ones(5))
    estimate = WLS().fit(regression)
    predicted = np.column_stack([A @ estimate.value for A in X])
    residuals = Residuals(
        trajectories=("a",),
        joint_names=JOINTS,
        t=np.arange(T) * 0.01,
        trajectory=np.zeros(T, dtype=np.int64),
        segment=np.zeros(T, dtype=np.int64),
        measured=np.column_stack(y),
        predicted=predicted,
        q=dq,
        dq=dq,
        rate=100.0,
    )
    return estimate, residuals


def driven(case: tuple[Estimate, Residuals]) -> list[DrivenJoint]:
    estimate, residuals = case
    names = [estimate.columns[i].name for i in estimate.base.independent]
    power = np.zeros((2, len(names)))
    for j in range(2):
        speed = residuals.dq[:, j]
        power[j, names.index(f"fv{j + 1}")] = np.mean(speed**2)
        power[j, names.index(f"fc{j + 1}")] = np.mean(np.abs(speed))
    return list(driven_joints(estimate, residuals, power))


def test_friction_that_resists_passes() -> None:
    assert not driven(pendulums((0.5, 0.2), (1.0, 0.0)))
    assert not driven(pendulums((0.0, 0.0), (0.0, 0.0)))


@pytest.mark.parametrize(("viscous", "coulomb"), [((0.5, -0.8), (1.0, 0.0)), ((0.5, 0.1), (1.0, -2.0))])
def test_friction_that_drives_the_motion_is_found(
    viscous: tuple[float, float], coulomb: tuple[float, float]
) -> None:
    estimate, residuals = pendulums(viscous, coulomb)
    (found,) = driven((estimate, residuals))
    assert JOINTS[found.joint] == "elbow"
    speed = residuals.dq[:, 1]
    power = viscous[1] * np.mean(speed**2) + coulomb[1] * np.mean(np.abs(speed))
    assert abs(found.power - power) < 4 * found.std < 0.2 * abs(power)


def test_one_negative_coefficient_is_fine_when_the_sum_resists() -> None:
    assert not driven(pendulums((-0.2, 0.0), (2.0, 0.0)))


def test_doubtful_negative_friction_passes() -> None:
    assert not driven(pendulums((-0.01, -0.01), (0.0, 0.0), noise=5.0))


# The verdict


def scored(origin: Origin, *noise: float) -> Validation:
    rng = np.random.default_rng(1)
    measured = rng.normal(0, 1, (4000, len(noise)))
    predicted = measured + np.array(noise) * rng.normal(0, 1, measured.shape)
    return Validation(Sums.of_arrays(measured, predicted).scores(origin, JOINTS[: len(noise)], ["a"]))


def reported(*validations: Validation, diagnostics: Diagnostics | None = None, **options: Any) -> Verdict:
    case = synthetic_regression(1)
    estimate = WLS().fit(case.regression)
    training = scored(Origin.TRAINING, 0.1, 0.1)
    return judge(
        estimate, case.regression.base, training, validations, diagnostics or Diagnostics(), **options
    )


@pytest.mark.parametrize(
    ("noise", "level", "start"),
    [
        ((0.1, 0.1), "good", "This model can be trusted"),
        ((0.1, 0.3), "usable", "This model is usable"),
        ((0.1, 0.6), "poor", "Do not use this model yet"),
    ],
)
def test_levels_follow_the_worst_joint_on_unseen_data(
    noise: tuple[float, ...], level: str, start: str
) -> None:
    verdict = reported(scored(Origin.HELD_OUT_LOG, *noise))
    assert verdict.level == level
    assert verdict.headline.startswith(start)
    assert "Torque error on" in verdict.headline
    named = [f for f in verdict.findings if f.title.startswith("elbow")]
    assert bool(named) == (level != "good")
    assert all(f.advice for f in named)


def test_the_worst_of_several_validations_counts() -> None:
    good, poor = scored(Origin.HELD_OUT_LOG, 0.1, 0.1), scored(Origin.HELD_OUT_BLOCKS, 0.1, 0.6)
    assert reported(good, poor).level == reported(poor, good).level == "poor"


def test_nothing_held_out_is_never_good() -> None:
    for validations in ((), (scored(Origin.TRAINING, 0.01, 0.01),)):
        verdict = reported(*validations)
        assert verdict.level == "usable"
        assert "error on other motions is unknown" in verdict.headline
        assert any(f.title == "Not validated" for f in verdict.findings)


def test_much_worse_than_training_is_said() -> None:
    verdict = reported(scored(Origin.HELD_OUT_LOG, 0.2, 0.2))
    assert any("in training" in f.title for f in verdict.findings)
    assert verdict.level == "usable"


def test_a_joint_without_torque_is_not_scored() -> None:
    rng = np.random.default_rng(0)
    measured = np.column_stack([rng.normal(0, 1, 100), np.zeros(100)])
    scores: Scores = Sums.of_arrays(measured, 0.99 * measured).scores(Origin.HELD_OUT_LOG, JOINTS, ["a"])
    verdict = reported(Validation(scores))
    assert verdict.level == "good"
    assert any(f.title == "elbow: no torque variation" for f in verdict.findings)


def test_what_was_not_excited_is_named() -> None:
    case = synthetic_regression(1)
    base = case.regression.base
    fewer = replace(base, independent=base.independent[:4], B=base.B[:4])
    part = replace(case.regression, base=fewer, factors=case.regression.factors.select(fewer.mask))
    verdict = judge(
        WLS().fit(part),
        base,
        scored(Origin.TRAINING, 0.1),
        (scored(Origin.HELD_OUT_LOG, 0.1),),
        Diagnostics(),
    )
    finding = next(f for f in verdict.findings if "not excited" in f.title)
    assert finding.title.startswith("1 of 5")
    assert "a5" in finding.text
    assert any(f.level == "good" for f in reported().findings)


def test_a_high_condition_number_and_failed_iterations_are_reported() -> None:
    case = synthetic_regression(1)
    base = replace(case.regression.base, singular_values=np.array([1000.0, 500.0, 10.0, 2.0, 1.0]))
    regression = replace(case.regression, base=base)
    estimate = WLS(rounds=1, tolerance=1e-15).fit(regression)
    verdict = judge(
        estimate,
        base,
        scored(Origin.TRAINING, 0.1, 0.1),
        (scored(Origin.HELD_OUT_LOG, 0.1, 0.1),),
        Diagnostics(),
    )
    titles = [f.title for f in verdict.findings]
    assert "Condition number 1e+03" in titles
    assert "The fit did not converge" in titles
    assert verdict.level == "usable"


def test_warnings_of_the_log_become_findings() -> None:
    diagnostics = Diagnostics()
    diagnostics.warn("saturated", "joint 'elbow' saturates")
    diagnostics.note("cutoff", "5 Hz")
    verdict = reported(scored(Origin.HELD_OUT_LOG, 0.1, 0.1), diagnostics=diagnostics)
    log = [f for f in verdict.findings if f.title.startswith("Log:")]
    assert [(f.title, f.text) for f in log] == [("Log: saturated", "joint 'elbow' saturates")]


def two_joints(size: float, share: float = 0.7) -> Validation:
    """Joints of torque 1 and `size`, of which the second misses `share` of its own."""
    rng = np.random.default_rng(1)
    measured = rng.normal(0, 1, (4000, 2)) * [1.0, size]
    predicted = measured + np.array([0.01, share * size]) * rng.normal(0, 1, measured.shape)
    return Validation(Sums.of_arrays(measured, predicted).scores(Origin.HELD_OUT_LOG, JOINTS, ["a"]))


@pytest.mark.parametrize(
    ("size", "limit", "little"),
    [
        (1e-2, np.inf, True),  # 0.7 % of the largest torque
        (0.1, np.inf, False),
        (0.1, 10.0, True),  # 0.7 % of its effort limit
        (0.1, 5.0, False),
        (1e-2, 0.1, False),  # 7 % of it
    ],
)
def test_errors_count_by_what_the_joint_can_give(size: float, limit: float, little: bool) -> None:
    verdict = reported(two_joints(size), effort_limit=np.array([np.inf, limit]))
    codes = {finding.code for finding in verdict.findings}
    assert ("small-error" in codes) == little
    assert ("poor-joint" in codes) != little
    assert verdict.level == ("good" if little else "poor")
    (advice,) = [finding.advice for finding in verdict.findings if finding.code == "poor-joint"] or [""]
    assert ("add that limit to the robot file" in advice) == (not little and np.isinf(limit))


# An effect in the residuals of the whole robot: a cause of a large error.
RIPPLE = Finding(
    Level.WARNING, "gear-ripple", "a ripple explains 20 % of the residual", title="torque ripple"
)


def test_a_large_error_is_usable_only_where_most_of_it_has_a_cause() -> None:
    """The first joint carries nearly all of the squared error."""
    misses = scored(Origin.HELD_OUT_LOG, 0.15, 0.01)
    cases = (("", "usable"), (JOINTS[0], "usable"), (JOINTS[1], "poor"))
    for joint, level in cases:
        effect = replace(RIPPLE, place=Place(joint=joint or None))
        assert reported(misses, residual_findings=(effect,)).level == level
    for code, level in (("large-misfit", "poor"), ("saturated", "usable"), ("urdf-gravity", "poor")):
        diagnostics = Diagnostics()
        diagnostics.warn(code, "text")
        assert reported(misses, diagnostics=diagnostics).level == level
    verdict = reported(misses)
    (large,) = [finding for finding in verdict.findings if finding.code == "large-error"]
    assert (verdict.level, large.level) == ("poor", Level.PROBLEM)
    assert "No finding names the cause" in large.text


def test_an_effort_limit_far_above_all_torque_is_a_placeholder() -> None:
    for limit, little in ((10.0, True), (1000.0, True), (5.0, False)):
        codes = {f.code for f in reported(two_joints(0.1), effort_limit=np.array([limit, limit])).findings}
        assert ("small-error" in codes) == little
    # 10 % of the torque of the strongest joint is missed: no sensor is that inexact.
    codes = {f.code for f in reported(two_joints(0.5), effort_limit=np.array([1000.0, 1000.0])).findings}
    assert "poor-joint" in codes


@pytest.mark.parametrize(("share", "level"), [(0.05, "good"), (0.15, "usable"), (0.3, "poor")])
def test_the_share_of_all_torque_that_is_missed_limits_the_verdict(share: float, level: str) -> None:
    verdict = reported(scored(Origin.HELD_OUT_LOG, share, share), residual_findings=(RIPPLE,))
    assert verdict.level == level
    levels = {"usable": "warning", "poor": "problem"}
    said = [finding.level for finding in verdict.findings if finding.code == "large-error"]
    assert said == ([levels[level]] if level in levels else [])


def test_uses_agree_with_the_findings() -> None:
    good = scored(Origin.HELD_OUT_LOG, 0.05, 0.05)
    far = Finding(Level.WARNING, "mass-not-said", "upper arm 14 kg (robot file: 4)")
    contradicted = Finding(Level.WARNING, "description-contradicted", "link 'arm'")
    for validation, masses, faults, determined, expected in (
        (good, (contradicted,), (), (2, 2), ("yes", "yes", "with limits")),
        (good, (), (), (2, 2), ("yes", "yes", "yes")),
        (good, (), (), (1, 2), ("yes", "yes", "with limits")),
        (good, (), (), (0, 2), ("yes", "yes", "no")),
        (good, (far,), (), (2, 2), ("yes", "yes", "with limits")),
        (good, (), ("link 'a'",), (2, 2), ("yes", "with limits", "yes")),
        (good, (), (), None, ("yes",)),
        (scored(Origin.HELD_OUT_LOG, 0.15, 0.15), (), (), (2, 2), ("no",) * 3),
        (scored(Origin.HELD_OUT_LOG, 0.3, 0.3), (), (), (2, 2), ("no",) * 3),
    ):
        verdict = reported(validation, masses=masses, faults=faults, masses_determined=determined)
        assert tuple(use.answer for use in verdict.uses) == expected
        codes = {finding.code for finding in verdict.findings}
        for use in verdict.uses[:2]:
            assert (use.reason == "") == (use.answer == "yes")
            assert set(use.reason.split(", ")) - {""} <= codes
        assert verdict.level != "good" or {use.answer for use in verdict.uses[:2]} == {"yes"}


def test_a_poor_joint_whose_effort_may_be_a_supply_current_is_told_so() -> None:
    diagnostics = Diagnostics()
    diagnostics.note(ONE_SIDED, "an effort of one sign", Place(joint=JOINTS[1]))
    poor = reported(scored(Origin.HELD_OUT_LOG, 0.1, 0.6), diagnostics=diagnostics)
    (said,) = [one for one in poor.findings if one.code == "poor-joint"]
    assert "an effort of one sign: a supply current" in said.advice
    good = reported(scored(Origin.HELD_OUT_LOG, 0.1, 0.1), diagnostics=diagnostics)
    assert not any("supply current" in one.advice + one.text for one in good.findings)


def test_warnings_name_their_joint_and_doubts_about_the_model_lower_the_verdict() -> None:
    for identifier, level in (
        ("saturated", "good"),
        ("large-misfit", "usable"),
        ("undeclared-coupling", "usable"),
        ("zero-offset", "usable"),
        ("constraints-cost", "usable"),
    ):
        diagnostics = Diagnostics()
        diagnostics.warn(identifier, "5 % of the effort lies at its end", Place(joint="elbow"))
        verdict = reported(scored(Origin.HELD_OUT_LOG, 0.1, 0.1), diagnostics=diagnostics)
        assert verdict.level == level
        assert verdict.findings[-1].text == "joint 'elbow': 5 % of the effort lies at its end"


def test_a_poor_models_headline_names_a_cause_that_is_known() -> None:
    diagnostics = Diagnostics()
    diagnostics.warn("undeclared-coupling", "two motors of a differential; declare it")
    (poor, good) = (
        reported(scored(Origin.HELD_OUT_LOG, 0.1, one), diagnostics=diagnostics) for one in (3.0, 0.1)
    )
    assert poor.level == "poor"
    assert poor.headline.startswith(
        "Do not use this model yet. undeclared-coupling: two motors of a differential; declare it. Torque error on "
    )
    assert good.level == "usable"
    assert "undeclared" not in good.headline


@pytest.mark.parametrize(
    ("noise", "level", "start"),
    [
        (
            (0.1, 0.1),
            "doubtful",
            "A doubt could invalidate this model. torque-sign: joint 'elbow': turned; mend it",
        ),
        (
            (0.1, 0.3),
            "doubtful",
            "A doubt could invalidate this model. torque-sign: joint 'elbow': turned; mend it",
        ),
        ((0.1, 0.6), "poor", "Do not use this model yet. torque-sign: joint 'elbow': turned; mend it"),
    ],
)
def test_a_doubt_caps_the_verdict_and_is_named_first(
    noise: tuple[float, ...], level: str, start: str
) -> None:
    for accepted in (False, True):
        diagnostics = Diagnostics()
        if accepted:
            diagnostics.accept("torque-sign")
        diagnostics.claim("torque-sign", found="turned", do="mend it", place=Place(joint="elbow"))
        verdict = reported(scored(Origin.HELD_OUT_LOG, *noise), diagnostics=diagnostics)
        plain = reported(scored(Origin.HELD_OUT_LOG, *noise))
        if accepted:
            # The cap is lifted, and nothing else.
            assert (verdict.level, verdict.headline) == (plain.level, plain.headline)
            assert verdict.word == f"{plain.level.upper()} (accepted by you: torque-sign)"
        else:
            assert verdict.level == level
            assert verdict.headline.startswith(start)
            assert "or accept it: --accept torque-sign" in verdict.headline
            assert verdict.word == level.upper()
            assert [f.title for f in verdict.findings if f.level == "doubt"] == ["Doubt: torque-sign"]


def test_further_doubts_are_listed_behind_the_first() -> None:
    diagnostics = Diagnostics()
    for code in ("joint-order", "torque-sign", "joint-order"):
        diagnostics.claim(code, found="something")  # type: ignore[arg-type]  # a code in a variable
    verdict = reported(scored(Origin.HELD_OUT_LOG, 0.1, 0.1), diagnostics=diagnostics)
    assert "joint-order: something" in verdict.headline
    assert "Further doubts: torque-sign." in verdict.headline


def test_what_cannot_be_exported_is_never_good() -> None:
    case = synthetic_regression(1)
    training, held_out = scored(Origin.TRAINING, 0.1, 0.1), scored(Origin.HELD_OUT_LOG, 0.1, 0.1)
    faults = tuple(f"body 'b{i}': mass -1 kg" for i in range(5))
    verdict = judge(
        WLS().fit(case.regression), case.regression.base, training, (held_out,), Diagnostics(), faults=faults
    )
    assert verdict.level == "usable"
    (finding,) = [f for f in verdict.findings if f.title.startswith("Not physically consistent")]
    assert "body 'b0'" in finding.text
    assert "2 more" in finding.text
    assert finding.advice
    columns = tuple(replace(column, of=Of.BODY) for column in case.regression.columns)
    sound = replace(WLS().fit(case.regression), columns=columns)
    fine = judge(sound, case.regression.base, training, (held_out,), Diagnostics())
    (fits,) = [f for f in fine.findings if f.title == "Can be exported"]
    assert "springs" not in fits.text
    spring = TorsionSpring(("j1",), "j1").columns(load_robot(ROBOTS / "puma560.toml"))
    sprung = replace(sound, columns=(*spring, *columns[2:]), parameters=np.ones(len(columns)))
    held = judge(sprung, case.regression.base, training, (held_out,), Diagnostics())
    (fits,) = [f for f in held.findings if f.title == "Can be exported"]
    assert "written to MJCF, SDF and C, but not to URDF" in fits.text


def test_a_spring_that_pulls_on_is_no_robots() -> None:
    robot = load_robot(ROBOTS / "puma560.toml")
    spring = TorsionSpring(("j2",), "j2").columns(robot)
    case = synthetic_regression(1)
    found = WLS().fit(case.regression)
    parameters = np.zeros(len(found.parameters))
    parameters[:2] = -3.0, -1.0
    columns = (*spring, *(replace(column, of=Of.JOINT) for column in found.columns[2:]))
    faults = unphysical(robot, replace(found, columns=columns, parameters=parameters))
    assert faults == ("joint 'j2': stiffness -3",)


def test_what_hangs_on_the_description_is_not_said_to_be_informed_by_the_motion() -> None:
    held_out = scored(Origin.HELD_OUT_LOG, 0.1, 0.1)
    for prior, informed in ((0.0, True), (0.2, False)):
        (finding,) = [f for f in thin(100.0, 50.0, prior, held_out).findings if "are excited" in f.title]
        assert ("information on each" in finding.text) == informed
        assert ("1 of them is set mainly by the prior" in finding.text) != informed


# Effects that the residuals show


def finding(**changed: Any) -> Finding:
    figures = {name: changed.pop(name) for name in ("share", "masked") if name in changed}
    plain = Finding(
        "warning",
        "drift",
        "By 1.",
        Place(joint=changed.pop("joint", "elbow")),
        title="elbow: friction changes with time",
        advice="Warm up.",
        evidence=Evidence(**{"share": 0.9, "p_value": 1e-9} | figures),
    )
    return replace(plain, **changed)


@pytest.mark.parametrize(
    ("one", "missed", "level"),
    [
        (finding(), 0.04, "usable"),
        (finding(), 0.015, "good"),
        (finding(share=0.3), 0.04, "good"),
        (finding(masked=True), 0.04, "good"),
        (finding(level="note"), 0.04, "good"),
        (finding(joint="shoulder"), 0.04, "good"),
        (finding(joint=""), 0.04, "usable"),
        (finding(code="friction-form"), 0.08, "good"),
        (finding(code="friction-form"), 0.12, "usable"),
    ],
)
def test_an_effect_that_makes_up_the_misfit_lowers_the_verdict(
    one: Finding, missed: float, level: str
) -> None:
    case = synthetic_regression(1)
    estimate = WLS().fit(case.regression)
    training = scored(Origin.TRAINING, 0.005, missed)
    held_out = scored(Origin.HELD_OUT_LOG, 0.005, missed)
    verdict = judge(
        estimate, case.regression.base, training, (held_out,), Diagnostics(), residual_findings=(one,)
    )
    assert verdict.level == level
    assert any(f.title == one.title for f in verdict.findings) == (one.level == "warning")


# Logs that say little


def thin(
    values: float | None, condition: float, prior: float, *validations: Validation, **options: Any
) -> Verdict:
    """Verdict with so many independent torques a parameter, a condition number, and a share from the prior."""
    case = synthetic_regression(1)
    rank = case.regression.base.rank
    base = replace(case.regression.base, singular_values=np.geomspace(condition, 1.0, rank))
    estimate = WLS().fit(case.regression)
    borrowed = np.where(np.arange(rank) < prior * rank, 0.9, 0.1)
    estimate = replace(estimate, base=base, prior_share=borrowed)
    training = scored(Origin.TRAINING, 0.1, 0.1)
    if values is not None:
        # Two joints, two values a period of 10 Hz.
        training = replace(training, residuals=stretch(values * rank / 40.0))
    return judge(estimate, base, training, validations, Diagnostics(), bandwidth=10.0, **options)


def stretch(seconds: float) -> Residuals:
    T = round(seconds * 100.0)
    zero, count = np.zeros((T, 2)), np.zeros(T, dtype=np.int64)
    return Residuals(("a",), JOINTS, np.arange(T) * 0.01, count, count, zero, zero, zero, zero, 100.0)


@pytest.mark.parametrize(
    ("values", "condition", "prior", "says"),
    [
        (100.0, 50.0, 0.0, ""),
        (None, 500.0, 0.2, ""),
        (100.0, 2.8e5, 0.0, "Ill-conditioned"),
        (100.0, 50.0, 0.6, "base parameters are set mainly by the prior"),
        (4.8, 50.0, 0.0, "Little data"),
        (5.2, 50.0, 0.0, ""),
    ],
)
def test_a_log_that_says_little_is_not_trusted(
    values: float | None, condition: float, prior: float, says: str
) -> None:
    held_out = scored(Origin.HELD_OUT_LOG, 0.1, 0.1)
    alone, checked = thin(values, condition, prior), thin(values, condition, prior, held_out)
    assert alone.level == ("poor" if says else "usable")
    assert checked.level == ("usable" if says else "good")
    assert alone.headline.startswith("Do not use") == bool(says)
    titles = [f.title for f in checked.findings]
    assert any(says in title for title in titles)
    assert ("All 5 base parameters are excited" in titles) == (condition < 1e4)


@pytest.mark.parametrize(
    ("values", "condition", "prior", "code", "torque"),
    [
        (100.0, 2.8e5, 0.0, "ill-conditioned", "yes"),
        (100.0, 50.0, 0.6, "from-description", "yes"),
        (4.8, 50.0, 0.0, "little-data", "with limits"),
    ],
)
def test_findings_about_parameters_limit_the_masses_alone(
    values: float, condition: float, prior: float, code: str, torque: str
) -> None:
    """What held-out torque contradicts is no limit of the torque; few values prove no torque either."""
    held_out = scored(Origin.HELD_OUT_LOG, 0.01, 0.01)
    of_torque, simulation, masses = thin(values, condition, prior, held_out, masses_determined=(2, 2)).uses
    assert of_torque.answer == simulation.answer == torque
    assert of_torque.reason == simulation.reason == ("" if torque == "yes" else code)
    assert masses.answer == "with limits"
    assert (code in masses.reason) == (torque == "yes")


def test_only_findings_that_limit_a_use_are_named_as_its_limits() -> None:
    diagnostics = Diagnostics()
    diagnostics.warn("saturated", "5 % of the effort lies at its end")
    diagnostics.warn("large-misfit", "the fit misses 40 %")
    (use,) = reported(scored(Origin.HELD_OUT_LOG, 0.05, 0.05), diagnostics=diagnostics).uses
    assert use.reason == "large-misfit"
