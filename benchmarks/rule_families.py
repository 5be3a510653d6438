"""The families of rules that a default identification has, and how each is switched off.

A rule that is added to the default identification belongs to a family here, so that `benchmarks/ablation.py` shows what
it is good for. A family has one or more rules; each rule names what is put in place of functions, methods or constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from dynid.terms import Selection


class Stage(IntEnum):
    """The first stage of an identification that a family changes; results of earlier stages are used again.

    READ: from the log to samples.    FIT: the choice of the model and its fit.    PRIOR: the fit of links that can
    exist, with the model as it was chosen.    JUDGE: what is said of residuals.    NONE: nothing is done again.
    """

    READ = 0
    FIT = 1
    PRIOR = 2
    JUDGE = 3
    NONE = 4


Patches = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Family:
    """Rules that answer one question.

    stage: the first that it changes.    does: in one sentence.
    rules: by name, what is put in place of what: "module:attribute" or "module:Class.attribute".
    files: that go with it, below src/dynid: "path", or "path:name" of a function, class or constant.
    """

    name: str
    stage: Stage
    does: str
    rules: Mapping[str, Patches]
    files: tuple[str, ...]

    @property
    def patches(self) -> dict[str, Any]:
        """Those of all its rules."""
        return {target: value for rule in self.rules.values() for target, value in rule.items()}


def _giving(value: Any) -> Any:
    return lambda *_, **__: value


_nothing, _no_items, _false = _giving(None), _giving(()), _giving(False)
_endless_move, _full_size = _giving(float("inf")), _giving(1.0)
NOT_PROPOSED = Selection()


def _first(value: Any, *_: Any, **__: Any) -> Any:
    return value


def _no_findings(*_: Any, **__: Any) -> list[Any]:
    return []


def _no_joints(robot: Any, *_: Any, **__: Any) -> Any:
    return np.zeros(robot.n, dtype=np.bool_)


def _common_state_cutoffs(parts: Any, rate: float, common: float, settings: Any, names: Any) -> Any:
    from dynid.signals.state_cutoff import StateCutoffs

    n = len(names)
    return StateCutoffs(names, common, np.full(n, common), np.zeros(n), np.zeros(n))


def _velocity_as_logged(parts: Any, rate: float, cutoff: float, order: int, names: Any) -> Any:
    from dynid.signals.state_cutoff import VelocityEvidence

    if all(part.dq is None for part in parts):
        return None
    nothing = np.zeros(len(names))
    return VelocityEvidence(names, nothing, nothing, nothing, nothing, rate)


def _no_time_base(*_: Any, **__: Any) -> Any:
    from dynid.signals.time_base import TimeBase

    return TimeBase()


def _no_repetitions(*_: Any, **__: Any) -> dict[str, Any]:
    return {}


def _unchanged_model(robot: Any, nonlinear: Any, fitted: Any, *_: Any, **__: Any) -> Any:
    return nonlinear, fitted


def _given_forms(comparison: Any, base: Any, forms: Any, search: Any = None) -> Any:
    return forms


def _beside_all_faults(comparison: Any, base: Any, search: Any) -> Any:
    from dynid.choose import choose_model

    return base, choose_model._friction_by_joint(comparison, base, search)


def _without_loads(terms: Any, robot: Any, fit: Any) -> Any:
    from dynid.terms import Terms

    return Terms(tuple(term for term in terms if not term.needs_bodies))


def _plain_estimate(fitted: Any, *_: Any, **__: Any) -> Any:
    return fitted.estimate, ()


def _priors_as_given(robot: Any, columns: Any, spread: Any) -> Any:
    return np.array([column.prior for column in columns])


def _no_efforts_at_rest(robot: Any, *_: Any, **__: Any) -> Any:
    from dynid.signals.effort_at_rest import EffortsAtRest

    return EffortsAtRest((), np.full(robot.n, np.nan))


# fmt: off
FAMILIES: tuple[Family, ...] = (
    Family("times left out", Stage.READ,
           "Leaves contact, missing torque and torque at its peak out of the fit and of the scores.",
           {"contact and missing torque": {"dynid.diagnosis.masking:spoilt_times": _no_items},
            "effort at its peak": {"dynid.run.validation:_without_clipped": _first}},
           ("diagnosis/masking.py", "run/validation.py:_without_clipped")),
    Family("joints held at rest", Stage.READ,
           "Leaves out equations of joints that a brake or friction holds, and counts stands that nothing holds.",
           {"whole trajectories": {"dynid.signals.effort_at_rest:unexplained_joints": _no_joints},
            "stands": {"dynid.signals.effort_at_rest:efforts_at_rest": _no_efforts_at_rest}},
           ("run/validation.py", "signals/effort_at_rest.py")),
    Family("efforts of joints at rest", Stage.READ,
           "Holds joints, or drops efforts, whose effort at rest or in a hand is not the torque of their links.",
           {"at rest": {"dynid.signals.effort_at_rest:unexplained_at_rest": _no_items},
            "hands": {"dynid.signals.effort_at_rest:unexplained_hands": _no_items}},
           ("signals/effort_at_rest.py",)),
    Family("cut-off by coherence", Stage.READ,
           "Lowers the cut-off frequency to where torque follows the motion, and raises it for short moves.",
           {"coherence": {"dynid.signals.coherence:torque_coherence": _nothing},
            "short moves": {"dynid.signals.samples:move_seconds": _endless_move}},
           ("signals/coherence.py", "signals/samples.py:move_seconds")),
    Family("cut-offs of positions", Stage.READ,
           "Gives positions cut-off frequencies of their own, joint by joint.",
           {"lowered": {"dynid.signals.state_cutoff:choose_state_cutoffs": _common_state_cutoffs},
            "raised": {"dynid.signals.state_cutoff:raised_beside_torque": _first}},
           ("signals/state_cutoff.py",)),
    Family("velocity by its noise", Stage.READ,
           "Takes the logged velocity, the derivative of the position, or both with a crossover frequency.",
           {"velocity": {"dynid.signals.state_cutoff:compare_velocities": _velocity_as_logged}},
           ("signals/state_cutoff.py",)),
    Family("time base", Stage.READ,
           "Drops held rows and sets rows at even times or at those of their messages.",
           {"time base": {"dynid.signals.time_base:find_time_base": _no_time_base}},
           ("signals/time_base.py",)),
    Family("slow robots", Stage.READ,
           "Scales rest and the width of friction's sign for robots slower than others at rest.",
           {"slow robots": {"dynid.signals.prepare:_slowness": _full_size}},
           ("signals/prepare.py:_slowness",)),
    Family("repeated motion", Stage.READ,
           "Finds repetitions of a motion, and holds the same parts of all of them out together.",
           {"repetitions": {"dynid.signals.repetition:repetitions": _no_repetitions}},
           ("signals/repetition.py",)),
    Family("prior check", Stage.READ,
           "Compares torque with that of the prior: mounting, exchanged joints, signs, missing gravity, size.",
           {"whole": {"dynid.log.prior_check:check_against_prior": _nothing},
            "mounting": {"dynid.log.prior_check:PriorTorque.mounting": _nothing},
            "exchanged joints": {"dynid.log.prior_check:_exchanges": _no_items}},
           ("log/prior_check.py",)),
    Family("recording faults", Stage.READ,
           "Finds frozen torque, lost rows, lost signs and coarse steps while the log is read.",
           {"recording faults": {
                "dynid.log.recording_faults:RecordingWatch.see": _nothing,
                "dynid.log.recording_faults:RecordingWatch.finish": _nothing,
            }},
           ("log/recording_faults.py",)),
    Family("ranges and units", Stage.READ,
           "Compares positions, velocities and efforts with limits, and velocities with the change of position.",
           {"joint limits": {"dynid.log.joints:check_limits": _nothing},
            "units by limits": {"dynid.log.checks:LogWatch._units": _false},
            "velocities": {"dynid.log.checks:LogWatch._velocity": _nothing}},
           ("log/joints.py", "log/checks.py:LogWatch._units", "log/checks.py:LogWatch._velocity")),
    Family("friction over position", Stage.FIT,
           "Finds dry friction that varies with position, and offers it as a form of friction.",
           {"waves": {"dynid.choose.friction_forms:Left.wave": _nothing}},
           ("choose/friction_forms.py", "terms/friction_shapes.py:PositionFriction")),
    Family("springs and their shield", Stage.FIT,
           "Offers a spring on each joint, beside functions of position that nothing else may stand for.",
           {"springs": {"dynid.terms.spring:TorsionSpring.selection": NOT_PROPOSED},
            "shield": {"dynid.terms.position_waves:PositionWaves.selection": NOT_PROPOSED}},
           ("terms/position_waves.py", "terms/spring.py:_spring_proposals")),
    Family("coupled joints", Stage.FIT,
           "Offers motors that turn with a neighbouring joint.",
           {"couplings": {"dynid.terms.transmission:JointCoupling.selection": NOT_PROPOSED}},
           ("terms/transmission.py:_coupling_proposals",)),
    Family("elasticity", Stage.FIT,
           "Offers elastic joints, linearised about a nominal model.",
           {"compliance": {"dynid.terms.elastic:Compliance.selection": NOT_PROPOSED}},
           ("terms/elastic.py",)),
    Family("tilt in the choice", Stage.FIT,
           "Offers a tilt of the base.",
           {"tilt": {"dynid.terms.gravity_tilt:GravityTilt.selection": NOT_PROPOSED}},
           ("terms/gravity_tilt.py:_tilt_proposals",)),
    Family("delay in the choice", Stage.FIT,
           "Offers late torque, and compares forms of friction with and without it.",
           {"delay": {"dynid.terms.torque_delay:TorqueDelay.selection": NOT_PROPOSED},
            "friction without it": {"dynid.choose.choose_model:_friction_beside_faults": _beside_all_faults}},
           ("terms/torque_delay.py:_delay_proposals", "choose/choose_model.py:_friction_beside_faults")),
    Family("gains in the choice", Stage.FIT,
           "Offers gains of single drives.",
           {"gains": {"dynid.terms.gain:GainError.selection": NOT_PROPOSED}},
           ("terms/gain.py:_gain_proposals",)),
    Family("zeros and drift in the choice", Stage.FIT,
           "Offers encoder zeros that are off and offsets that drift.",
           {"zeros": {"dynid.terms.zero_offset:ZeroOffset.selection": NOT_PROPOSED},
            "drift": {"dynid.terms.drift:Drift.selection": NOT_PROPOSED}},
           ("terms/zero_offset.py:_zero_proposals", "terms/drift.py:Drift")),
    Family("friction at the motors", Stage.FIT,
           "Offers rotors and friction of motors that move several joints.",
           {"rotors": {"dynid.terms.transmission:MotorInertia.selection": NOT_PROPOSED},
            "friction": {"dynid.terms.transmission:OnMotor.selection": NOT_PROPOSED}},
           ("terms/transmission.py:_rotor_proposals", "terms/transmission.py:_friction_proposals")),
    Family("friction by load", Stage.FIT,
           "Offers friction that grows with the load, and fits links together with what they load.",
           {"in the choice": {"dynid.terms.friction_curves:LoadFriction.selection": NOT_PROPOSED},
            "links as load": {"dynid.choose.fit_nonlinear:with_loads": _without_loads}},
           ("choose/fit_nonlinear.py", "terms/friction_curves.py:LoadFriction")),
    Family("friction over speed", Stage.FIT,
           "Offers friction that is not linear in speed: cubic, Stribeck, saturating.",
           {"cubic": {"dynid.terms.friction_curves:PolynomialFriction.selection": NOT_PROPOSED},
            "Stribeck": {"dynid.terms.friction_shapes:Stribeck.selection": NOT_PROPOSED},
            "saturating": {"dynid.terms.friction_curves:SaturatingViscous.selection": NOT_PROPOSED}},
           ("terms/friction_curves.py:PolynomialFriction", "terms/friction_shapes.py:Stribeck",
            "terms/friction_curves.py")),
    Family("friction at reversals", Stage.FIT,
           "Offers smooth signs of velocity and friction that builds up with the distance from a reversal.",
           {"smooth sign": {"dynid.terms.friction_shapes:SmoothCoulomb.selection": NOT_PROPOSED},
            "presliding": {"dynid.terms.friction_shapes:Presliding.selection": NOT_PROPOSED}},
           ("terms/friction_shapes.py:SmoothCoulomb", "terms/friction_shapes.py:Presliding")),
    Family("friction by side", Stage.FIT,
           "Offers Coulomb friction of another size in each direction.",
           {"sides": {"dynid.terms.friction_curves:AsymmetricCoulomb.selection": NOT_PROPOSED}},
           ("terms/friction_curves.py:AsymmetricCoulomb",)),
    Family("forms of most joints", Stage.FIT,
           "Gives forms of friction that most joints have to the others, and drops negligible ones.",
           {"shared": {"dynid.choose.choose_model:_shared": _given_forms},
            "worthwhile": {"dynid.choose.choose_model:_worthwhile": _given_forms}},
           ("choose/choose_model.py:_shared", "choose/choose_model.py:_worthwhile")),
    Family("several forms on a joint", Stage.FIT,
           "Lets a joint have up to three forms of friction.",
           {"several": {"dynid.choose.choose_model:FORMS_A_JOINT": 1}},
           ("choose/choose_model.py:_without_one",)),
    Family("second look at faults", Stage.FIT,
           "Linearises faults of the log anew about a model that has them, and chooses again.",
           {"choice": {"dynid.choose.choose_model:CHOOSE_MODEL_ROUNDS": 0},
            "fit": {"dynid.choose.choose_model:relinearised": _unchanged_model}},
           ("choose/choose_model.py",)),
    Family("unsure effects of the log", Stage.FIT,
           "Estimates what the log adds with intervals, and leaves out what the final fit is not sure of.",
           {"unsure": {"dynid.choose.choose_model:Chosen.without_unsure": _nothing}},
           ("choose/choose_model.py", "choose/choose_model.py:Chosen.without_unsure")),
    Family("intervals of shapes", Stage.PRIOR,
           "Adds the uncertainty of the shapes of friction to all intervals.",
           {"intervals": {"dynid.choose.shape_intervals:with_shape_uncertainty": _plain_estimate}},
           ("choose/shape_intervals.py",)),
    Family("estimate without constraints", Stage.PRIOR,
           "Keeps an estimate without constraints where consistent links predict much worse.",
           {"kept": {"dynid.estimate.physical:MUCH_WORSE": np.inf}},
           ("estimate/physical.py",)),
    Family("likely links", Stage.FIT,
           "Takes rods of typical mass for links without a prior.",
           {"rods": {"dynid.estimate.prior:guessed_links": _priors_as_given}},
           ("estimate/prior.py:guessed_links",)),
    Family("bounds of links", Stage.PRIOR,
           "Bounds densities.",
           {"density": {"dynid.feasible.bodies:UNLIMITED": 0.0}},
           ("feasible/bodies.py",)),
    Family("tests of residuals", Stage.JUDGE,
           "Looks for gear ripple, saturation, resonance and bursts in residuals.",
           {"ripple": {"dynid.diagnosis.resonance:GearRipple.look": _no_findings},
            "saturation": {"dynid.diagnosis.masking:Saturation.look": _no_findings},
            "resonance": {"dynid.diagnosis.resonance:Resonance.look": _no_findings},
            "bursts": {"dynid.diagnosis.masking:Bursts.look": _no_findings},
            "effects": {"dynid.diagnosis.proof:EffectTest.look": _no_findings}},
           ("diagnosis/resonance.py", "diagnosis/masking.py", "diagnosis/proof.py")),
    Family("changes within the log", Stage.JUDGE,
           "Looks for loads at times, another robot in part of the log, a moving base and friction that drifts.",
           {"load at times": {"dynid.diagnosis.load_times:find_load_times": _nothing},
            "another robot": {"dynid.diagnosis.changes:find_change": _nothing},
            "moving base": {"dynid.diagnosis.changes:check_base": _nothing},
            "friction drift": {"dynid.diagnosis.changes:find_friction_drift": _nothing}},
           ("diagnosis/load_times.py", "diagnosis/changes.py")),
    Family("readings of the log", Stage.JUDGE,
           "Doubts wiring, signs, guidance, link lengths, effects and priors that residuals contradict.",
           {"wiring": {"dynid.diagnosis.wiring_checks:check_wiring": _false},
            "shared gears": {"dynid.diagnosis.wiring_checks:_coupled": _nothing},
            "guidance": {"dynid.diagnosis.input_checks:check_guidance": _false},
            "negative friction": {"dynid.diagnosis.input_checks:check_negative_friction": _nothing},
            "modelled effort": {"dynid.diagnosis.input_checks:check_measured": _nothing},
            "link lengths": {"dynid.diagnosis.input_checks:check_link_lengths": _nothing},
            "missing effects": {"dynid.diagnosis.diagnosis:report_missing_effects": _nothing},
            "sizes of effects": {"dynid.diagnosis.diagnosis:report_held_effects": _nothing},
            "against the prior": {"dynid.diagnosis.diagnosis:compare_with_description": _nothing},
            "proof of a load": {"dynid.diagnosis.load_times:prove_load": _nothing}},
           ("diagnosis/wiring_checks.py", "diagnosis/input_checks.py", "diagnosis/diagnosis.py",
            "diagnosis/load_times.py")),
)
# fmt: on
