"""Delay of the torque relative to the motion: a second clock, or a filter in a drive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Finding, Level
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import Kind, LogFacts, Question, Reads, Role
from dynid.terms.nominal import NominalTerm, slope
from dynid.terms.residual_tests import (
    FRICTION_FORM,
    AlikeTest,
    Declared,
    Feature,
    FeatureGroup,
    FitAnalysis,
    FittedEffect,
    Hypothesis,
    Remains,
    Rival,
    TermWords,
    Words,
)
from dynid.terms.term import (
    Column,
    Of,
    Proposal,
    Selection,
    Symbol,
    Term,
    joint_indices,
    named_joints,
    proposal_by_joint,
    proposal_of_robot,
)

# Samples: shortest delay over which a secant is accurate; the derivative is used below.
LEAST_STEPS = 1e-3
# Samples of the log: a lag above the first is reported, since clocks of one bus agree to one sample; above the second
# the model is doubted, since all parameters are biased.
WARN_SAMPLES, DOUBT_SAMPLES = 1.0, 5.0
# Search for long lags: largest shift in s, number of shifts in each direction, relative error of the plain model above
# which it is made, and factor by which the mean square error has to fall.
LONGEST, SHIFTS, POOR, DECISIVE = 0.5, 60, 0.05, 2.0
# Share of a long lag by which the lags of single joints may differ from it.
LIKE = 0.1
LATE_TORQUE = FeatureGroup(
    "late-torque",
    "residual against the torque's change in time",
    imitated_by=FRICTION_FORM,
    alike=True,
)


def _late_torque(remains: Remains, joint: int) -> tuple[Feature, ...]:
    """Torque that is late by d leaves the residual -d dtau/dt.

    At reversals, friction that builds up over a distance leaves a similar residual; away from them only a delay does.
    """
    column, x = -remains.slope[:, [joint]], remains.slope[:, joint]
    title = f"change of the predicted torque, {remains.unit(joint)}/s"
    delay = (
        'a filter or clock of its drive: align its channels, or add { term = "torque_delay", each = true }'
    )
    friction = 'friction that builds up over a distance: try { term = "friction" }'

    def words(seconds: Float, std: Float, reversals: bool = False) -> Words:
        lag = float(seconds[0])
        timing, order = ("late", "after") if lag > 0 else ("early", "before")
        return Words(
            f"torque reverses {order} velocity" if reversals else f"torque is {timing}",
            f"By {1e3 * abs(lag):.2g} +- {2e3 * float(std[0]):.1g} ms relative to the motion. This explains "
            "{figures}.",
            f"Possible causes: {friction}; or {delay}." if reversals else f"Possible cause: {delay}.",
            f"{timing} torque",
            f"another friction that builds up over a distance; or {delay}." if reversals else "",
        )

    away = np.where(remains.reverses[:, [joint]], 0.0, column)
    clear = Feature(away, words, x, title)
    return (Feature(column, partial(words, reversals=True), x, title, clear=clear),)


def _lag_notices(fit: FitAnalysis) -> Iterator[Hypothesis]:
    """Notice about a lag above one sample of the log; above five, 95 % interval included, a doubt."""
    # Residuals show a lag to first order only, so long lags are searched by shifting the torque.
    long = find_long_lag(fit)
    if abs(long) * fit.source_rate > DOUBT_SAMPLES:
        yield _lag_notice(long, 0.5 / fit.rate, fit.source_rate, " on every joint")
        return
    delay = proven_delay(fit)
    if delay is None or abs(delay.factor) * fit.source_rate <= WARN_SAMPLES:
        return
    yield _lag_notice(delay.factor, 2.0 * delay.std, fit.source_rate, " on every joint")


def _delay_notices(term: TorqueDelay, effect: FittedEffect) -> Iterator[Finding | Hypothesis]:
    """Notices about delays above one sample of the log, 95 % interval included; of all joints above five, a doubt.

    Joints with about the same delay are named together.
    """
    late: list[_Late] = []
    for column in term.columns(effect.robot):
        value, half = effect.sizes.get(column.name, (0.0, 0.0))
        if (abs(value) - half) * effect.rate <= WARN_SAMPLES:
            continue
        # Soft friction delays only reversals; a lag also exists between them.
        joints = range(effect.robot.n) if column.of is Of.ROBOT else (column.owner,)
        if not effect.shows_later(value, joints):
            continue
        if column.of is Of.ROBOT:
            yield _lag_notice(value, half, effect.rate, "; the model contains it")
            continue
        late.append(_Late(effect.robot.joint_names[column.owner], value, half))
    for group in _alike(late, WARN_SAMPLES / effect.rate):
        yield _joints_notice(group, effect)


def _delay_proposals(_: type[Term], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """One delay of all joints, and one delay per joint.

    With a common clock the delays of all joints are about equal; missing friction looks like unequal delays.
    """
    together = log.found.get("delay", 0.0)
    alone = {f"delay{j + 1}": together + log.found.get(f"delay{j + 1}", 0.0) for j in range(robot.n)}
    whole, each = TorqueDelay(log.inertia, log.drives), TorqueDelay(log.inertia, log.drives, each=True)
    return (
        proposal_of_robot(
            robot,
            whole.near(robot, log.found),
            "delay",
            "delayed",
            build=lambda places: whole,
            measured=True,
            alike="lag",
        ),
        proposal_by_joint(
            robot,
            each.near(robot, alone),
            "lag",
            "delayed on {joints}",
            build=lambda places: replace(each, joints=named_joints(robot, places)),
            measured=True,
            instead_of=("delay",),
            moving=True,
        ),
    )


@dataclass(frozen=True)
class TorqueDelay(NominalTerm):
    """Torque that is logged late by `delay` seconds: tau(t - delay) = tau - delay dtau/dt, with tau of a nominal model.

    This is valid for delays that are short compared with the motion, or near an approximately known delay a, with the
    secant tau(t - delay) = tau + delay (tau(t - a) - tau) / a.

    Attributes
    ----------
    inertia, drives : tuple of float
        Nominal model, see `Nominal`.
    each : bool
        Whether every joint has its own delay.
    joints : tuple of str
        Joints with delayed torque; () = all.
    about : tuple of float, s
        a of every parameter; () = 0.

    """

    inertia: tuple[float, ...] = ()
    drives: tuple[float, ...] = ()
    each: bool = False
    joints: tuple[str, ...] = ()
    about: tuple[float, ...] = ()
    name: str = "torque_delay"
    traits = replace(NominalTerm.traits, kind=Kind.LOG, reads=Reads.RATE, hides_wiring=True)
    selection = Selection(Role.LOG, Question("time", "in step", "torque"), _delay_proposals)
    words = TermWords(
        symbols=(Symbol("delay", "Δt", "", "delay of the torque behind the motion"),),
        group=LATE_TORQUE,
        features=_late_torque,
        lacking=_lag_notices,
        notices=_delay_notices,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not np.isfinite(self.about).all():
            raise UsageError("delay-about", found=f"about = {list(self.about)}", expected="finite times in s")

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """The delay, or one per joint."""
        if self.each:
            acting = joint_indices(robot, self.joints)
            return tuple(Column(f"delay{j + 1}", "s", self.name, j, prior=0.0) for j in acting)
        return (Column("delay", "s", self.name, 0, prior=0.0, of=Of.ROBOT),)

    def lines(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """Change of the nominal torque per second of delay: minus its derivative, or a secant."""
        torque = self.nominal.torque(robot, samples)
        acting = joint_indices(robot, self.joints)
        groups = [(j,) for j in acting] if self.each else [acting]
        if len(self.about) not in (0, len(groups)):
            raise UsageError(
                "delay-about",
                found=f"{len(self.about)} delays in about",
                expected=f"{len(groups)} or none",
            )
        lines = []
        for group, about in zip(groups, self.about or (0.0,) * len(groups), strict=True):
            delayed = torque * np.isin(np.arange(robot.n), group)
            steps = about * samples.rate
            if abs(steps) < LEAST_STEPS:
                lines.append(-slope(delayed, samples.rate))
            else:
                lines.append((shifted(delayed, steps) - delayed) / about)
        return tuple(lines)


@dataclass(frozen=True)
class _Late:
    """A joint's delay with its 95 % half width, s."""

    joint: str
    value: float
    half: float


def _alike(late: Sequence[_Late], width: float) -> list[list[_Late]]:
    """Group joints whose delays, s, are within a width."""
    groups: list[list[_Late]] = []
    for lag in sorted(late, key=lambda lag: lag.value):
        if groups and lag.value - groups[-1][0].value <= width:
            groups[-1].append(lag)
        else:
            groups.append([lag])
    return groups


def _joints_notice(group: Sequence[_Late], effect: FittedEffect) -> Finding:
    # A common clock delays all joints, but soft friction may hide it on some: a majority is enough.
    names = [name for name in effect.robot.joint_names if any(name == lag.joint for lag in group)]
    value, half = float(np.mean([lag.value for lag in group])), max(lag.half for lag in group)
    where = f"{lag_in_words(value, half, effect.rate)} on {', '.join(map(repr, names))}"
    if len(group) == 1:
        do = "align this joint's effort in time (its drive's filter, another bus)"
    elif 2 * len(group) > effect.robot.n:
        do = "align the effort channel in time (receive time versus header time, filter of the drives)"
    else:
        do = "align their efforts in time (filters of their drives, another bus)"
    return Finding(Level.WARNING, "torque-lag", f"{where}; the model contains it: {do}")


def shifted(values: Float, samples: float) -> Float:
    """Values (T, n) delayed by some samples, by cubic splines; constant beyond the ends."""
    from scipy.interpolate import CubicSpline

    if len(values) < 2:
        return values
    at = np.arange(len(values), dtype=np.float64)
    return np.asarray(CubicSpline(at, values)(np.clip(at - samples, 0.0, at[-1])))


def _lag_notice(seconds: float, half: float, rate: float, suffix: str) -> Hypothesis:
    """Notice about a lag of all joints; above five samples of the log, 95 % interval included, it is a doubt.

    `seconds`, `half` in s: lag and half width of its 95 % interval; `rate` in Hz: sampling rate of the log; `suffix`:
    text after the size.
    """
    doubted = (abs(seconds) - half) * rate > DOUBT_SAMPLES
    return Hypothesis(
        Finding(
            Level.DOUBT if doubted else Level.WARNING,
            "torque-lag",
            lag_in_words(seconds, half, rate) + suffix,
            advice="align the effort channel in time (receive time versus header time, filter of the drive)",
        ),
        "motion and torque on the same clock",
        declared=Declared(seconds=seconds) if doubted else None,
        lesser=Level.WARNING,
        rivals=(Rival.FRICTION,),
    )


def lag_in_words(seconds: float, half: float, source_rate: float) -> str:
    """Text about a lag and the half width of its 95 % interval, s, in milliseconds and samples of the log."""
    direction = "lags behind the motion" if seconds > 0 else "runs ahead of the motion"
    size = abs(seconds)
    samples = f"{1e3 * size:.2g} +- {1e3 * half:.1g} ms ({size * source_rate:.2g} samples)"
    return f"torque that {direction} by about {samples}"


def find_delay(fit: FitAnalysis) -> AlikeTest | None:
    """Estimate the delay, s, of all joints from the residuals, to first order; None if the model already contains it.

    Torque that is late by d leaves the residual -d dtau/dt. The test accounts for the part of it that friction and
    inertia explain.
    """
    return fit.test_alike(-fit.remains.slope.T)


def proven_delay(fit: FitAnalysis) -> AlikeTest | None:
    """Estimate the delay of all joints from all samples, or from those between reversals, if the latter confirm it.

    Soft friction, such as that of MuJoCo, reverses while the joint still creeps. Then torque looks early by
    milliseconds on all joints, or a delay of that size is hidden. Between reversals, a correct delay reduces the error
    of the plain model when it is fitted again, and soft friction does not. The size of a delay cannot be read from the
    residuals of a fit to all samples between reversals, since friction and inertia explain most of it.
    """
    every = range(fit.robot.n)
    whole = find_delay(fit)
    if whole is not None and whole.believable and fit.shows_later(whole.factor, every):
        return whole
    away = fit.test_alike(np.where(fit.remains.reverses, 0.0, -fit.remains.slope).T)
    return away if away is not None and away.believable and fit.shows_later(away.factor, every) else None


def find_long_lag(fit: FitAnalysis) -> float:
    """Find the shift of the torque, s, with which the plain model fits all joints much better; 0 = none.

    A common clock delays all joints equally, so most joints have to fit best with about that shift, each by itself.
    Otherwise the torque of a missing contact, shifted by about a quarter of the motion's period, could look like a lag.
    """
    # The plain model is used because delays in the fitted model may hide a longer lag.
    unshifted = fit.misfit_by_shift(np.zeros(1)) if fit.enough else None
    if unshifted is None or np.sqrt(unshifted.sum()) < POOR:
        return 0.0
    reach = round(LONGEST * fit.rate)
    shifts = np.arange(-reach, reach + 1, max(1, reach // SHIFTS)) / fit.rate
    by_joint = fit.misfit_by_shift(shifts)
    if by_joint is None:
        return 0.0
    errors = by_joint.sum(axis=1)
    best = int(np.argmin(errors))
    if not 0 < best < len(shifts) - 1 or unshifted.sum() <= DECISIVE * errors[best]:
        return 0.0
    joint_lags = shifts[by_joint[:, list(fit.joints)].argmin(axis=0)]
    near = np.abs(joint_lags - shifts[best]) <= max(1.01 * (shifts[1] - shifts[0]), LIKE * abs(shifts[best]))
    return float(shifts[best]) if near.mean() > 0.5 else 0.0
