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

from dynid.terms.term import Selection


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

    does: in one sentence.    stage: the first that it changes.
    rules: by name, what is put in place of what: "module:attribute" or "module:Class.attribute".
    files: that go with it, below src/dynid: "path", or "path:name" of a function, class or constant.
    codes: of findings that it makes.
    """

    name: str
    does: str
    stage: Stage
    rules: Mapping[str, Patches]
    files: tuple[str, ...]
    codes: tuple[str, ...] = ()

    @property
    def patches(self) -> dict[str, Any]:
        """Those of all its rules."""
        return {target: value for rule in self.rules.values() for target, value in rule.items()}


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _no_items(*_: Any, **__: Any) -> tuple[()]:
    return ()


def _false(*_: Any, **__: Any) -> bool:
    return False


def _first(value: Any, *_: Any, **__: Any) -> Any:
    return value


def _no_findings(*_: Any, **__: Any) -> list[Any]:
    return []


NOT_PROPOSED = Selection()


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


def _endless_move(*_: Any, **__: Any) -> float:
    return float("inf")


def _full_size(*_: Any, **__: Any) -> float:
    return 1.0


def _unchanged_model(robot: Any, nonlinear: Any, fitted: Any, *_: Any, **__: Any) -> Any:
    return nonlinear, fitted


def _given_forms(comparison: Any, base: Any, forms: Any, search: Any = None) -> Any:
    return forms


def _beside_all_faults(comparison: Any, base: Any, search: Any) -> Any:
    from dynid.choose import choose_model

    return base, choose_model._friction_by_joint(comparison, base, search)


def _without_loads(terms: Any, robot: Any, fit: Any) -> Any:
    from dynid.terms.term import Terms

    return Terms(tuple(term for term in terms if not term.needs_bodies))


def _plain_estimate(fitted: Any, *_: Any, **__: Any) -> Any:
    return fitted.estimate, ()


def _same_pull(known: Any, strength: float) -> Any:
    return np.full(len(known), strength)


def _priors_as_given(robot: Any, columns: Any, spread: Any) -> Any:
    return np.array([column.prior for column in columns])


def _nothing_unmoved(self: Any, regression: Any, weights: Any, strength: Any, found: Any, among: Any) -> Any:
    return found


def _no_efforts_at_rest(robot: Any, *_: Any, **__: Any) -> Any:
    from dynid.signals.effort_at_rest import EffortsAtRest

    return EffortsAtRest((), np.full(robot.n, np.nan))


FAMILIES: tuple[Family, ...] = (
    Family(
        "times left out",
        "Leaves contact, missing torque and torque at its peak out of the fit and of the scores.",
        Stage.READ,
        {
            "contact and missing torque": {"dynid.diagnosis.masking:spoilt_times": _no_items},
            "effort at its peak": {"dynid.run.validation:_less_peaks": _first},
        },
        ("diagnosis/masking.py", "run/validation.py:_less_peaks"),
        ("masked", "not-masked"),
    ),
    Family(
        "joints held at rest",
        "Leaves out equations of joints that a brake or friction holds, and counts stands that nothing holds.",
        Stage.READ,
        {
            "whole trajectories": {"dynid.signals.effort_at_rest:unexplained_joints": _no_joints},
            "stands": {"dynid.signals.effort_at_rest:efforts_at_rest": _no_efforts_at_rest},
        },
        ("run/validation.py", "signals/effort_at_rest.py"),
        ("held-by-friction", "free-at-rest", "stopped-by-brakes", "brakes"),
    ),
    Family(
        "efforts of joints at rest",
        "Holds joints, or drops efforts, whose effort at rest or in a hand is not the torque of their links.",
        Stage.READ,
        {
            "at rest": {"dynid.signals.effort_at_rest:unexplained_at_rest": _no_items},
            "hands": {"dynid.signals.effort_at_rest:unexplained_hands": _no_items},
        },
        ("signals/effort_at_rest.py",),
        ("joint-at-rest", "joint-unmeasured"),
    ),
    Family(
        "cut-off by coherence",
        "Lowers the cut-off frequency to where torque follows the motion, and raises it for short moves.",
        Stage.READ,
        {
            "coherence": {"dynid.signals.coherence:torque_coherence": _nothing},
            "short moves": {"dynid.signals.samples:move_seconds": _endless_move},
        },
        ("signals/coherence.py", "signals/samples.py:move_seconds"),
    ),
    Family(
        "cut-offs of positions",
        "Gives positions cut-off frequencies of their own, joint by joint.",
        Stage.READ,
        {
            "lowered": {"dynid.signals.state_cutoff:choose_state_cutoffs": _common_state_cutoffs},
            "raised": {"dynid.signals.state_cutoff:raised_beside_torque": _first},
        },
        ("signals/state_cutoff.py",),
    ),
    Family(
        "velocity by its noise",
        "Takes the logged velocity, the derivative of the position, or both with a crossover frequency.",
        Stage.READ,
        {"velocity": {"dynid.signals.state_cutoff:compare_velocities": _velocity_as_logged}},
        ("signals/state_cutoff.py",),
    ),
    Family(
        "time base",
        "Drops held rows and sets rows at even times or at those of their messages.",
        Stage.READ,
        {"time base": {"dynid.signals.time_base:find_time_base": _no_time_base}},
        ("signals/time_base.py",),
    ),
    Family(
        "slow robots",
        "Scales rest and the width of friction's sign for robots slower than others at rest.",
        Stage.READ,
        {"slow robots": {"dynid.signals.prepare:_slowness": _full_size}},
        ("signals/prepare.py:_slowness",),
        ("slow-robot",),
    ),
    Family(
        "repeated motion",
        "Finds repetitions of a motion, and holds the same parts of all of them out together.",
        Stage.READ,
        {"repetitions": {"dynid.signals.repetition:repetitions": _no_repetitions}},
        ("signals/repetition.py",),
        ("motion-repeats", "parts-held-out", "same-motion"),
    ),
    Family(
        "prior check",
        "Compares torque with that of the prior: mounting, exchanged joints, signs, missing gravity, size.",
        Stage.READ,
        {
            "whole": {"dynid.log.prior_check:check_against_prior": _nothing},
            "mounting": {"dynid.log.prior_check:find_mounting": _nothing},
            "exchanged joints": {"dynid.log.prior_check:find_exchange": _nothing},
        },
        ("log/prior_check.py", "log/prior_check.py", "log/prior_check.py", "log/prior_check.py"),
        ("gravity-compensated", "torque-sign", "joint-order", "tilted-base", "unit-suspicion"),
    ),
    Family(
        "recording faults",
        "Finds frozen torque, lost rows, lost signs and coarse steps while the log is read.",
        Stage.READ,
        {
            "recording faults": {
                "dynid.log.recording_faults:RecordingWatch.see": _nothing,
                "dynid.log.recording_faults:RecordingWatch.finish": _nothing,
            }
        },
        ("log/recording_faults.py",),
        ("constant-effort", "rows-lost", "unsigned-effort", "quantised-effort"),
    ),
    Family(
        "ranges and units",
        "Compares positions, velocities and efforts with limits, and velocities with the change of position.",
        Stage.READ,
        {
            "joint limits": {"dynid.log.joints:check_limits": _nothing},
            "units by limits": {"dynid.log.checks:LogWatch._units": _false},
            "velocities": {"dynid.log.checks:LogWatch._velocity": _nothing},
        },
        ("log/joints.py", "log/checks.py:LogWatch._units", "log/checks.py:LogWatch._velocity"),
        ("outside-limits", "unit-suspicion", "joint-order", "velocity-sign", "wrong-clock", "time-base"),
    ),
    Family(
        "friction over position",
        "Finds dry friction that varies with position, and offers it as a form of friction.",
        Stage.FIT,
        {"waves": {"dynid.choose.friction_forms:Left.wave": _nothing}},
        ("choose/friction_forms.py", "terms/friction_shapes.py:PositionFriction"),
    ),
    Family(
        "springs and their shield",
        "Offers a spring on each joint, beside functions of position that nothing else may stand for.",
        Stage.FIT,
        {
            "springs": {"dynid.terms.spring:TorsionSpring.selection": NOT_PROPOSED},
            "shield": {"dynid.terms.position_waves:PositionWaves.selection": NOT_PROPOSED},
        },
        ("terms/position_waves.py", "terms/spring.py:_spring_proposals"),
    ),
    Family(
        "coupled joints",
        "Offers motors that turn with a neighbouring joint.",
        Stage.FIT,
        {"couplings": {"dynid.terms.transmission:JointCoupling.selection": NOT_PROPOSED}},
        ("terms/transmission.py:_coupling_proposals",),
        ("undeclared-coupling",),
    ),
    Family(
        "elasticity",
        "Offers elastic joints, linearised about a nominal model.",
        Stage.FIT,
        {"compliance": {"dynid.terms.elastic:Compliance.selection": NOT_PROPOSED}},
        ("terms/elastic.py",),
    ),
    Family(
        "tilt in the choice",
        "Offers a tilt of the base.",
        Stage.FIT,
        {"tilt": {"dynid.terms.gravity_tilt:GravityTilt.selection": NOT_PROPOSED}},
        ("terms/gravity_tilt.py:_tilt_proposals",),
        ("tilted-base",),
    ),
    Family(
        "delay in the choice",
        "Offers late torque, and compares forms of friction with and without it.",
        Stage.FIT,
        {
            "delay": {"dynid.terms.torque_delay:TorqueDelay.selection": NOT_PROPOSED},
            "friction without it": {
                "dynid.choose.choose_model:_friction_beside_faults": _beside_all_faults,
            },
        },
        ("terms/torque_delay.py:_delay_proposals", "choose/choose_model.py:_friction_beside_faults"),
        ("torque-lag",),
    ),
    Family(
        "gains in the choice",
        "Offers gains of single drives.",
        Stage.FIT,
        {"gains": {"dynid.terms.gain:GainError.selection": NOT_PROPOSED}},
        ("terms/gain.py:_gain_proposals",),
        ("drive-gain",),
    ),
    Family(
        "zeros and drift in the choice",
        "Offers encoder zeros that are off and offsets that drift.",
        Stage.FIT,
        {
            "zeros": {"dynid.terms.zero_offset:ZeroOffset.selection": NOT_PROPOSED},
            "drift": {"dynid.terms.drift:Drift.selection": NOT_PROPOSED},
        },
        ("terms/zero_offset.py:_zero_proposals", "terms/drift.py:Drift"),
        ("zero-offset", "torque-drift"),
    ),
    Family(
        "friction at the motors",
        "Offers rotors and friction of motors that move several joints.",
        Stage.FIT,
        {
            "rotors": {"dynid.terms.transmission:MotorInertia.selection": NOT_PROPOSED},
            "friction": {"dynid.terms.transmission:OnMotor.selection": NOT_PROPOSED},
        },
        ("terms/transmission.py:_rotor_proposals", "terms/transmission.py:_friction_proposals"),
    ),
    Family(
        "friction by load",
        "Offers friction that grows with the load, and fits links together with what they load.",
        Stage.FIT,
        {
            "in the choice": {"dynid.terms.friction_curves:LoadFriction.selection": NOT_PROPOSED},
            "links as load": {"dynid.choose.fit_nonlinear:with_loads": _without_loads},
        },
        ("choose/fit_nonlinear.py", "terms/friction_curves.py:LoadFriction"),
    ),
    Family(
        "friction over speed",
        "Offers friction that is not linear in speed: cubic, Stribeck, saturating.",
        Stage.FIT,
        {
            "cubic": {"dynid.terms.friction_curves:PolynomialFriction.selection": NOT_PROPOSED},
            "Stribeck": {"dynid.terms.friction_shapes:Stribeck.selection": NOT_PROPOSED},
            "saturating": {"dynid.terms.friction_curves:SaturatingViscous.selection": NOT_PROPOSED},
        },
        (
            "terms/friction_curves.py:PolynomialFriction",
            "terms/friction_shapes.py:Stribeck",
            "terms/friction_curves.py",
        ),
    ),
    Family(
        "friction at reversals",
        "Offers smooth signs of velocity and friction that builds up with the distance from a reversal.",
        Stage.FIT,
        {
            "smooth sign": {"dynid.terms.friction_shapes:SmoothCoulomb.selection": NOT_PROPOSED},
            "presliding": {"dynid.terms.friction_shapes:Presliding.selection": NOT_PROPOSED},
        },
        ("terms/friction_shapes.py:SmoothCoulomb", "terms/friction_shapes.py:Presliding"),
    ),
    Family(
        "friction by side",
        "Offers Coulomb friction of another size in each direction.",
        Stage.FIT,
        {"sides": {"dynid.terms.friction_curves:AsymmetricCoulomb.selection": NOT_PROPOSED}},
        ("terms/friction_curves.py:AsymmetricCoulomb",),
    ),
    Family(
        "forms of most joints",
        "Gives forms of friction that most joints have to the others, and drops negligible ones.",
        Stage.FIT,
        {
            "shared": {"dynid.choose.choose_model:_shared": _given_forms},
            "worthwhile": {"dynid.choose.choose_model:_worthwhile": _given_forms},
        },
        ("choose/choose_model.py:_shared", "choose/choose_model.py:_worthwhile"),
    ),
    Family(
        "several forms on a joint",
        "Lets a joint have up to three forms of friction.",
        Stage.FIT,
        {"several": {"dynid.choose.choose_model:FORMS_A_JOINT": 1}},
        ("choose/choose_model.py:_without_one",),
    ),
    Family(
        "second look at faults",
        "Linearises faults of the log anew about a model that has them, and chooses again.",
        Stage.FIT,
        {
            "choice": {"dynid.choose.choose_model:CHOOSE_MODEL_ROUNDS": 0},
            "fit": {"dynid.choose.choose_model:relinearised": _unchanged_model},
        },
        ("choose/choose_model.py",),
    ),
    Family(
        "unsure effects of the log",
        "Estimates what the log adds with intervals, and leaves out what the final fit is not sure of.",
        Stage.FIT,
        {"unsure": {"dynid.choose.choose_model:Chosen.without_unsure": _nothing}},
        ("choose/choose_model.py", "choose/choose_model.py:Chosen.without_unsure"),
        ("effects-left-out",),
    ),
    Family(
        "intervals of shapes",
        "Adds the uncertainty of the shapes of friction to all intervals.",
        Stage.PRIOR,
        {"intervals": {"dynid.choose.shape_intervals:with_shape_uncertainty": _plain_estimate}},
        ("choose/shape_intervals.py",),
    ),
    Family(
        "cause of inconsistency",
        "Names what keeps links from being physically consistent: rotors, gains, tilt, the last link.",
        Stage.PRIOR,
        {"cause": {"dynid.choose.consistency_cause:likely_causes": _no_items}},
        ("choose/consistency_cause.py", "choose/consistency_cause.py"),
        ("likely-cause",),
    ),
    Family(
        "estimate without constraints",
        "Keeps an estimate without constraints where consistent links predict much worse.",
        Stage.PRIOR,
        {"kept": {"dynid.estimate.physical:MUCH_WORSE": np.inf}},
        ("estimate/physical.py",),
        ("not-consistent", "consistency-costs", "constraints-cost"),
    ),
    Family(
        "strength of the prior",
        "Chooses the strength of the prior on a grid by held-out blocks.",
        Stage.PRIOR,
        {
            "grid": {
                "dynid.feasible.problem:GRID": (1.0,),
                "dynid.feasible.problem:held_out_strength.__defaults__": ((1.0,), 1.0),
            }
        },
        ("feasible/problem.py",),
    ),
    Family(
        "masses at their priors",
        "Holds masses at their priors as strongly as the data do not mind, guessed ones less.",
        Stage.PRIOR,
        {
            "shares": {"dynid.estimate.feasible:MASS_SHARES": ()},
            "guessed ones": {"dynid.estimate.prior:GUESSED": 1.0},
        },
        ("estimate/feasible.py:FeasibleFit._with_masses", "estimate/prior.py:mass_rows"),
    ),
    Family(
        "unknown directions",
        "Limits the pull of unknown priors, and holds directions of which the data know little.",
        Stage.PRIOR,
        {
            "faint": {"dynid.estimate.prior:prior_pull": _same_pull},
            "free share": {"dynid.estimate.prior:FREE_SHARE": 1e-9},
        },
        ("estimate/prior.py:prior_pull", "estimate/prior.py:Directions"),
    ),
    Family(
        "likely links",
        "Takes rods of typical mass for links without a prior.",
        Stage.FIT,
        {"rods": {"dynid.estimate.prior:likely_bodies": _priors_as_given}},
        ("estimate/prior.py:likely_bodies",),
    ),
    Family(
        "bounds of links",
        "Bounds densities, keeps centres of mass near the prior, and unidentified parameters at it.",
        Stage.PRIOR,
        {
            "density": {"dynid.feasible.bodies:UNLIMITED": 0.0},
            "reach": {"dynid.estimate.prior:centre_limits": _no_items},
            "unmoved": {"dynid.estimate.feasible:FeasibleFit._unmoved": _nothing_unmoved},
        },
        (
            "feasible/bodies.py",
            "estimate/prior.py",
            "estimate/feasible.py:FeasibleFit._near",
            "estimate/feasible.py:FeasibleFit._unmoved",
            "estimate/feasible.py:FeasibleFit._held",
        ),
    ),
    Family(
        "tests of residuals",
        "Looks for gear ripple, saturation, resonance and bursts in residuals.",
        Stage.JUDGE,
        {
            "ripple": {"dynid.diagnosis.resonance:GearRipple.look": _no_findings},
            "saturation": {"dynid.diagnosis.masking:Saturation.look": _no_findings},
            "resonance": {"dynid.diagnosis.resonance:Resonance.look": _no_findings},
            "bursts": {"dynid.diagnosis.masking:Bursts.look": _no_findings},
            "effects": {"dynid.diagnosis.proof:EffectTest.look": _no_findings},
        },
        (
            "diagnosis/resonance.py",
            "diagnosis/masking.py",
            "diagnosis/resonance.py",
            "diagnosis/masking.py",
            "diagnosis/resonance.py",
            "diagnosis/proof.py",
        ),
        ("ripple", "saturation", "resonance", "contact", "bursts"),
    ),
    Family(
        "changes within the log",
        "Looks for loads at times, another robot in part of the log, a moving base and friction that drifts.",
        Stage.JUDGE,
        {
            "load at times": {"dynid.diagnosis.load_times:find_load_times": _nothing},
            "another robot": {"dynid.diagnosis.changes:find_change": _nothing},
            "moving base": {"dynid.diagnosis.changes:check_base": _nothing},
            "friction drift": {"dynid.diagnosis.changes:find_friction_drift": _nothing},
        },
        ("diagnosis/load_times.py", "diagnosis/changes.py", "diagnosis/changes.py"),
        ("changed-within-log", "moving-base", "friction-drift"),
    ),
    Family(
        "readings of the log",
        "Doubts wiring, signs, guidance, link lengths, effects and priors that residuals contradict.",
        Stage.JUDGE,
        {
            "wiring": {"dynid.diagnosis.wiring_checks:check_wiring": _false},
            "shared gears": {"dynid.diagnosis.wiring_checks:shared_gears": _no_items},
            "guidance": {"dynid.diagnosis.input_checks:check_guidance": _false},
            "negative friction": {"dynid.diagnosis.input_checks:check_negative_friction": _nothing},
            "modelled effort": {"dynid.diagnosis.input_checks:check_measured": _nothing},
            "link lengths": {"dynid.diagnosis.input_checks:check_link_lengths": _nothing},
            "missing effects": {"dynid.diagnosis.diagnosis:report_missing_effects": _nothing},
            "sizes of effects": {"dynid.diagnosis.diagnosis:report_held_effects": _nothing},
            "against the prior": {"dynid.diagnosis.diagnosis:compare_with_description": _nothing},
            "proof of a load": {"dynid.diagnosis.load_times:prove_load": _nothing},
        },
        (
            "diagnosis/wiring_checks.py",
            "diagnosis/wiring_checks.py",
            "diagnosis/wiring_checks.py",
            "diagnosis/input_checks.py",
            "diagnosis/input_checks.py",
            "diagnosis/input_checks.py",
            "diagnosis/input_checks.py",
            "diagnosis/diagnosis.py",
            "diagnosis/load_times.py",
        ),
        (
            "joint-order",
            "torque-sign",
            "position-sign",
            "undeclared-coupling",
            "hand-guided",
            "negative-friction",
            "modelled-effort",
            "link-length",
            "payload",
            "torque-scale",
            "drive-gain",
            "torque-lag",
            "tilted-base",
        ),
    ),
)
