"""The single likely cause of bodies that are not physically consistent, on arms that pinocchio simulates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from dynid.base import Diagnostics, Float
from dynid.choose import cause_text
from dynid.choose.consistency_cause import Candidate, CauseFound, single_cause
from dynid.estimate import LIKELY_CAUSE
from dynid.identification import Settings, identify
from dynid.log import Log
from dynid.robot import load_robot
from dynid.run import Identification, blocks, next_steps
from dynid.terms import Coulomb, Offset, RigidBody, RotorInertia, Terms, Viscous
from tests.estimate.test_partial_prior import arm

RATE, SECONDS = 100.0, 24.0
WITH = RigidBody() + RotorInertia() + Viscous() + Coulomb(width=0.05) + Offset()


def recorded(folder: Path, terms: Terms, rotor: Float, gain: tuple[int, float] = (0, 1.0)) -> Identification:
    """Of an arm whose description is right.    rotor: (n,) kg m^2.    gain: of the torque of a joint."""
    path = folder / "arm.urdf"
    path.write_text(arm())
    robot, rng = load_robot(path, diagnostics=Diagnostics()), np.random.default_rng(1)
    t = np.arange(round(SECONDS * RATE)) / RATE
    speed = 2 * np.pi * rng.uniform(0.1, 0.5, (robot.n, 3))
    size, phase = rng.uniform(0.2, 0.5, (robot.n, 3)), rng.uniform(0, 6, (robot.n, 3))
    angle = t[:, None, None] * speed + phase
    q, dq = (size * np.sin(angle)).sum(-1), (size * speed * np.cos(angle)).sum(-1)
    ddq = -(size * speed**2 * np.sin(angle)).sum(-1)
    model = pin.buildModelFromXML(arm())
    data = model.createData()
    tau = np.array([pin.rnea(model, data, *motion) for motion in zip(q, dq, ddq, strict=True)])
    tau += rotor * ddq + 0.1 * np.sqrt((tau**2).mean(axis=0)) * (0.2 * dq + np.tanh(dq / 0.05))
    tau[:, gain[0]] *= gain[1]
    tau += 0.003 * np.sqrt((tau**2).mean(axis=0)) * rng.normal(size=tau.shape)
    log = Log.from_arrays(robot, t, q, dq=dq, tau=tau)
    return identify(robot, log, Settings(terms=terms), threads=1)


def said(one: Identification) -> str:
    return " ".join(d.text for d in one.diagnostics.warnings if d.identifier == LIKELY_CAUSE)


ROTOR = np.array([0.3, 0.2, 1e-3, 1e-4])


@pytest.mark.parametrize("room", [20e6, 2e5], ids=["all samples", "a share of every block"])
def test_a_wrong_gain_is_named_first_with_its_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: float
) -> None:
    monkeypatch.setattr(blocks, "TRIAL_BYTES", room)
    # Half the torque on one joint, or twice on the one before it, is nearly the same to the bodies behind both.
    one = recorded(tmp_path, WITH, ROTOR, gain=(1, 0.5))
    text = said(one)
    assert "the drive gain of 'j1'" in text
    assert text.index("'j1'") < text.find("'j0'") or "'j0'" not in text
    assert "times as far off as without constraints" in text
    titles = [finding.title for finding in one.verdict.findings]
    assert "Likely cause of physically inconsistent links" in titles
    assert not any("check for a missing rotor" in d.text for d in one.diagnostics.warnings)
    # What is to be mended is said among the first things to do, where a single cause stands out.
    asked = [step.text for step in next_steps(one) if step.text == text]
    assert asked == ([text] if text.startswith("Likely cause") else [])


def test_nothing_is_blamed_where_bodies_are_consistent(tmp_path: Path) -> None:
    assert said(recorded(tmp_path, WITH, ROTOR)) == ""


@pytest.mark.parametrize(
    ("errors", "single"),
    [
        ((1.0, 1.4), True),
        ((0.3, 1.2), True),  # better than without constraints: it was lacking there as well
        ((1.0, 1.1), False),  # another is nearly as good
        ((1.4, 1.45), False),  # most of the difference stays
    ],
)
def test_a_single_cause_removes_most_and_stands_out(errors: tuple[float, float], single: bool) -> None:
    causes = [CauseFound(Candidate(name), error, 1.5) for name, error in zip("ab", errors, strict=True)]
    text = cause_text(causes)
    assert text.startswith("Likely cause: a." if single else "No single cause stands out.")
    assert "1.5 times" in text
    assert f"{errors[0]:.3g}" in text
    assert f"{errors[1]:.3g}" in text
    assert cause_text(()) == ""


@pytest.mark.parametrize(
    ("extra", "single"),
    [
        ((0.4, 0.5, 0.6, 0.5, 0.5), True),  # more in each fold
        ((2.0, -0.5, 1.0, -0.5, 0.5), False),  # as much on the whole, and less in some
    ],
)
def test_a_cause_stands_out_by_the_folds(extra: tuple[float, ...], single: bool) -> None:
    missed = (2.0, 2.1, 1.9, 2.0, 2.0)
    other = CauseFound(Candidate("b"), 1.07, 1.2, tuple(np.add(missed, extra)))
    found = single_cause([CauseFound(Candidate("a"), 1.02, 1.2, missed), other])
    assert (found is not None and found.candidate.text == "a") is single


def test_a_part_of_a_cause_is_it_where_it_leaves_no_more() -> None:
    whole, part = Candidate("all", frozenset("abc")), Candidate("one", frozenset("a"))
    rest = (3.0, 3.1, 2.9)
    alike = [CauseFound(whole, 1.0, 1.5, (1.0, 1.1, 0.9)), CauseFound(part, 1.01, 1.5, (1.1, 1.0, 0.9))]
    less = [CauseFound(whole, 1.0, 1.5, (1.0, 1.1, 0.9)), CauseFound(part, 1.2, 1.5, (1.9, 2.0, 1.8))]
    for causes, named in ((alike, "one"), (less, "all")):
        found = single_cause([*causes, CauseFound(Candidate("else"), 1.4, 1.5, rest)])
        assert found is not None
        assert found.candidate.text == named
