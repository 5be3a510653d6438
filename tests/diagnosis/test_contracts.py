"""The contract suite on every diagnosis that ships with dynid."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.signal import lfilter

from dynid.base import Float
from dynid.diagnosis import Diagnosis, every_diagnosis
from dynid.diagnosis.masking import Bursts, Saturation
from dynid.diagnosis.proof import EffectTest
from dynid.diagnosis.resonance import GearRipple, Resonance
from dynid.robot import RobotModel
from dynid.terms import FRICTION_FORM, LATE_TORQUE, Drift, FeatureGroup, Nominal, PositionWaves, Term
from dynid.terms.zero_offset import ZeroOffset
from dynid.testing import DiagnosisContract, TrueMotion, analysis_of, small_arm
from dynid.testing.lab import RATE
from tests.selection.arm import arm


def group_of(kind: type[Term]) -> FeatureGroup:
    """Of the features of a kind of term."""
    group = kind.words.group
    assert group is not None
    return group


def on(motion: TrueMotion, joint: int, torque: Float) -> Float:
    """A torque relative to the joint's own, on that joint alone."""
    added = np.zeros_like(motion.tau)
    added[:, joint] = motion.size[joint] * torque
    return added


class TestLowSpeedFriction(DiagnosisContract):
    speed = 0.5

    def diagnosis(self) -> Diagnosis:
        return EffectTest(FRICTION_FORM)

    def effect(self, motion: TrueMotion, rng: np.random.Generator) -> Float:
        dq = motion.dq[:, 1]
        return on(motion, 1, 0.12 * np.tanh(dq / 0.01) * np.exp(-((dq / 0.1) ** 2)))


class TestFollowsPosition(DiagnosisContract):
    joint = "column"

    def diagnosis(self) -> Diagnosis:
        return EffectTest(group_of(PositionWaves))

    def effect(self, motion: TrueMotion, rng: np.random.Generator) -> Float:
        return on(motion, 0, 0.06 * np.sin(2 * motion.q[:, 0]))


class TestZeroOffset(DiagnosisContract):
    joint = "joint4"

    def diagnosis(self) -> Diagnosis:
        return EffectTest(group_of(ZeroOffset))

    def robot(self) -> RobotModel:
        with TemporaryDirectory() as folder:
            return arm(Path(folder))

    def effect(self, motion: TrueMotion, rng: np.random.Generator) -> Float:
        robot, zeros = self.robot(), np.radians([0.0, 0.0, 0.0, 3.0, 0.0, 0.0])
        bodies = Nominal(tuple(robot.inertia_prior.ravel().tolist()))
        further = motion.dq, np.gradient(motion.dq, 1.0 / RATE, axis=0)
        return bodies.rigid(robot, motion.q + zeros, *further) - bodies.rigid(robot, motion.q, *further)


class TestGearRipple(DiagnosisContract):
    speed = 0.6

    def diagnosis(self) -> Diagnosis:
        return GearRipple()

    def effect(self, motion: TrueMotion, rng: np.random.Generator) -> Float:
        return on(motion, 1, 0.05 * np.sin(25 * motion.q[:, 1] + 1.0))


class TestLateTorque(DiagnosisContract):
    def diagnosis(self) -> Diagnosis:
        return EffectTest(LATE_TORQUE)

    def effect(self, motion: TrueMotion, rng: np.random.Generator) -> Float:
        torque = motion.tau[:, 1]
        return on(motion, 1, (np.interp(motion.t - 0.012, motion.t, torque) - torque) / motion.size[1])


class TestDriftOfOffset(DiagnosisContract):
    joint = "elbow"

    def diagnosis(self) -> Diagnosis:
        return EffectTest(group_of(Drift))

    def effect(self, motion: TrueMotion, rng: np.random.Generator) -> Float:
        return on(motion, 2, 0.1 * motion.t / motion.t[-1])


class TestWarmingUp(DiagnosisContract):
    joint = "column"

    def diagnosis(self) -> Diagnosis:
        return EffectTest(group_of(Drift))

    def effect(self, motion: TrueMotion, rng: np.random.Generator) -> Float:
        return on(motion, 0, -0.15 * motion.t / motion.t[-1] * np.tanh(motion.dq[:, 0] / 0.02))


class TestSaturation(DiagnosisContract):
    def diagnosis(self) -> Diagnosis:
        return Saturation()

    def effect(self, motion: TrueMotion, rng: np.random.Generator) -> Float:
        torque = motion.tau[:, 1]
        limit = np.quantile(np.abs(torque), 0.9)
        return on(motion, 1, (np.clip(torque, -limit, limit) - torque) / motion.size[1])

    def test_torque_that_rises_on_at_its_peaks_is_no_limit(self) -> None:
        """As of friction, a lag or a transmission that the model lacks: less than predicted, and no flat top."""

        def bent(motion: TrueMotion, rng: np.random.Generator) -> Float:
            torque, limit = motion.tau[:, 1], np.quantile(np.abs(motion.tau[:, 1]), 0.9)
            return on(motion, 1, 0.5 * (np.clip(torque, -limit, limit) - torque) / motion.size[1])

        for seed in self.seeds:
            assert not self.look(analysis_of(self.robot(), bent, seed))


class TestResonance(DiagnosisContract):
    joint = "elbow"

    def diagnosis(self) -> Diagnosis:
        return Resonance()

    def effect(self, motion: TrueMotion, rng: np.random.Generator) -> Float:
        w, decay = 2 * np.pi * 5.0 / RATE, 0.99
        ringing = lfilter([1.0], [1.0, -2 * decay * np.cos(w), decay**2], rng.normal(size=len(motion.t)))
        return on(motion, 2, 0.04 * ringing / ringing.std())


class TestBursts(DiagnosisContract):
    joint = ""

    def diagnosis(self) -> Diagnosis:
        return Bursts()

    def effect(self, motion: TrueMotion, rng: np.random.Generator) -> Float:
        # Where the joint is fastest, since reversals are left out.
        inner = slice(len(motion.t) // 5, -len(motion.t) // 5)
        at = motion.t[inner][np.argmax(np.abs(motion.dq[inner, 1]))]
        return motion.size * 0.5 * np.exp(-(((motion.t - at) / 0.05) ** 2))[:, None]


class TestOnASlide(TestGearRipple):
    """The same wave along a joint that slides."""

    def robot(self) -> RobotModel:
        arm = small_arm()
        kinds = (arm.joint_types[0], type(arm.joint_types[0]).PRISMATIC, arm.joint_types[2])
        limits = replace(arm.limits, lower=np.array([-2.2, 0.0, -2.2]), upper=np.array([2.2, 0.8, 2.2]))
        return replace(arm, joint_types=kinds, limits=limits)

    def effect(self, motion: TrueMotion, rng: np.random.Generator) -> Float:
        return on(motion, 1, 0.05 * np.sin(2 * np.pi * motion.q[:, 1] / 0.08))


def test_every_diagnosis_has_a_suite() -> None:
    suites = [
        one for one in globals().values() if isinstance(one, type) and issubclass(one, DiagnosisContract)
    ]
    tested = {suite().diagnosis().identifier for suite in suites if suite is not DiagnosisContract}
    assert tested == {one.identifier for one in every_diagnosis()}
    assert len({one.identifier for one in every_diagnosis()}) == len(every_diagnosis())
