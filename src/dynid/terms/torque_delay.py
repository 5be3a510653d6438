"""Torque that comes late: a second clock, a filter in a drive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    Held,
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

# Secants over less of a sample are rounding.
LEAST_STEPS = 1e-3
# Samples of a log by which torque may be late: clocks of one bus agree to one, and five bend every parameter.
WARN_SAMPLES, DOUBT_SAMPLES = 1.0, 5.0
# Long lags are searched up to so many seconds either way, in so many steps, where the plain model misses more than this
# share of the torque; where the mean square error falls by this factor it is worth a proof. Joints' own lags may differ
# by this share of the lag.
LONGEST, SHIFTS, POOR, DECISIVE, LIKE = 0.5, 60, 0.05, 2.0, 0.1
LATE_TORQUE = FeatureGroup(
    "late-torque",
    "residual against the torque's change in time",
    imitated_by=FRICTION_FORM,
    alike=True,
)


def _late_torque(remains: Remains, joint: int) -> tuple[Feature, ...]:
    """Torque that is late by d leaves -d dtau/dt.

    At reversals friction that builds up on the way does, too; away from them only torque that is late itself.
    """
    column, x = -remains.slope[:, [joint]], remains.slope[:, joint]
    title = f"change of the predicted torque, {remains.unit(joint)}/s"
    delay = (
        'a filter or a clock of its drive: align its channels, or add { term = "torque_delay", each = true }'
    )

    def words(seconds: Float, std: Float, turns: bool = False) -> Words:
        late = float(seconds[0])
        way, order = ("late", "after") if late > 0 else ("early", "before")
        return Words(
            f"torque reverses {order} velocity" if turns else f"torque is {way}",
            f"By {1e3 * abs(late):.2g} +- {2e3 * float(std[0]):.1g} ms relative to the motion. This explains "
            "{figures}.",
            f'Friction that builds up on the way: try {{ term = "friction" }}; or {delay}.'
            if turns
            else f"{delay[0].upper()}{delay[1:]}.",
            f"torque that is {way}",
            f"other friction that builds up on the way; or {delay}." if turns else "",
        )

    away = np.where(remains.reverses[:, [joint]], 0.0, column)
    clear = Feature(away, words, x, title)
    return (Feature(column, partial(words, turns=True), x, title, clear=clear),)


def _lag_notices(fit: FitAnalysis) -> Iterator[Finding | Hypothesis]:
    """Over one sample of the log, over five 95 % interval included it is doubted."""
    # A long lag is no small change of the torque, which is all that the residuals of a fit can show.
    long = find_long_lag(fit)
    if abs(long) * fit.source_rate > DOUBT_SAMPLES:
        yield lag_notice(long, 0.5 / fit.rate, fit.source_rate, " on every joint")
        return
    delay = proven_delay(fit)
    if delay is None or abs(delay.factor) * fit.source_rate <= WARN_SAMPLES:
        return
    yield lag_notice(delay.factor, 2.0 * delay.std, fit.source_rate, " on every joint")


def _delay_notices(term: TorqueDelay, held: Held) -> Iterator[Finding | Hypothesis]:
    """Over one sample of the log, 95 % interval included; of all joints together over five it is doubted.

    Joints that are late alike are named together.
    """
    late: list[_Late] = []
    for column in term.columns(held.robot):
        value, half = held.sizes.get(column.name, (0.0, 0.0))
        if (abs(value) - half) * held.rate <= WARN_SAMPLES:
            continue
        # Soft friction delays the reversals alone; a lag is there between them, too.
        joints = range(held.robot.n) if column.of is Of.ROBOT else (column.owner,)
        if not held.shows_later(value, joints):
            continue
        if column.of is Of.ROBOT:
            yield lag_notice(value, half, held.rate, "; the model contains it")
            continue
        late.append(_Late(held.robot.joint_names[column.owner], value, half))
    for group in _alike(late, WARN_SAMPLES / held.rate):
        yield _joints_notice(group, held)


def _delay_proposals(_: type[Term], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """One delay of all joints, and one of each joint by itself.

    Joints that are late together are so by about the same time; friction that is missing looks late by any time.
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
    """Torque that is logged late by `delay` seconds: tau(t - delay) = tau - delay dtau/dt, tau of a nominal model.

    Holds while the delay is short against the motion, or near a delay a that is known roughly, with the secant
    tau(t - delay) = tau + delay (tau(t - a) - tau) / a.
    inertia, drives: the nominal model, see Nominal.    each: whether every joint has a delay of its own.
    joints: names of the joints that are late; empty = all.    about: s, a of every parameter; empty = 0.
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
            raise UsageError("delay-about", found=f"about = {list(self.about)}", expected="finite seconds")

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """The delay, or one a joint."""
        if self.each:
            late = joint_indices(robot, self.joints)
            return tuple(Column(f"delay{j + 1}", "s", self.name, j, prior=0.0) for j in late)
        return (Column("delay", "s", self.name, 0, prior=0.0, of=Of.ROBOT),)

    def near(self, robot: RobotModel, found: Mapping[str, float]) -> TorqueDelay:
        """The same about delays by name, s; 0 for those that are not named."""
        return replace(self, about=tuple(found.get(column.name, 0.0) for column in self.columns(robot)))

    def lines(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """What a second of delay changes of the nominal torque: minus its slope, or a secant."""
        torque = self.nominal.torque(robot, samples)
        acting = joint_indices(robot, self.joints)
        groups = [(j,) for j in acting] if self.each else [acting]
        if len(self.about) not in (0, len(groups)):
            raise UsageError(
                "delay-about",
                found=f"{len(self.about)} delays to be about",
                expected=f"{len(groups)} or none",
            )
        found = []
        for group, about in zip(groups, self.about or (0.0,) * len(groups), strict=True):
            own = torque * np.isin(np.arange(robot.n), group)
            steps = about * samples.rate
            if abs(steps) < LEAST_STEPS:
                found.append(-slope(own, samples.rate))
            else:
                found.append((earlier(own, steps) - own) / about)
        return tuple(found)


@dataclass(frozen=True)
class _Late:
    """A joint's delay with its 95 % half width, s."""

    joint: str
    value: float
    half: float


def _alike(late: Sequence[_Late], width: float) -> list[list[_Late]]:
    """Joints in groups whose delays, s, lie within a width."""
    groups: list[list[_Late]] = []
    for one in sorted(late, key=lambda one: one.value):
        if groups and one.value - groups[-1][0].value <= width:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _joints_notice(group: Sequence[_Late], held: Held) -> Finding:
    # One clock makes most joints late alike; soft friction may hide it on the others.
    names = [one for one in held.robot.joint_names if any(one == late.joint for late in group)]
    value, half = float(np.mean([one.value for one in group])), max(one.half for one in group)
    where = f"{lag_in_words(value, half, held.rate)} on {', '.join(map(repr, names))}"
    if len(group) == 1:
        do = "align this joint's effort in time (its drive's filter, another bus)"
    elif 2 * len(group) > held.robot.n:
        do = "align the effort channel in time (receive time against header time, filter of the drives)"
    else:
        do = "align their efforts in time (filters of their drives, another bus)"
    return Finding(Level.WARNING, "torque-lag", f"{where}; the model contains it: {do}")


def earlier(values: Float, samples: float) -> Float:
    """Values (T, n) some samples before, by cubic splines; the ends stay what they are beyond them."""
    from scipy.interpolate import CubicSpline

    if len(values) < 2:
        return values
    at = np.arange(len(values), dtype=np.float64)
    return np.asarray(CubicSpline(at, values)(np.clip(at - samples, 0.0, at[-1])))


def lag_notice(seconds: float, half: float, rate: float, where: str) -> Hypothesis:
    """A lag of all joints with its 95 % half width, s; over five samples of the log, interval included, it is doubted.

    where: put behind its size.
    """
    doubted = (abs(seconds) - half) * rate > DOUBT_SAMPLES
    return Hypothesis(
        Finding(
            Level.DOUBT if doubted else Level.WARNING,
            "torque-lag",
            lag_in_words(seconds, half, rate) + where,
            advice="align the effort channel in time (receive time against header time, filter of the drive)",
        ),
        "motion and torque on one clock",
        declared=Declared(seconds=seconds) if doubted else None,
        lesser=Level.WARNING,
        rivals=(Rival.FRICTION,),
    )


def lag_in_words(seconds: float, half: float, source_rate: float) -> str:
    """A lag with its 95 % half width, s, in time and in samples of the log."""
    late = "lags behind the motion" if seconds > 0 else "runs ahead of the motion"
    size = abs(seconds)
    samples = f"{1e3 * size:.2g} +- {1e3 * half:.1g} ms ({size * source_rate:.2g} samples)"
    return f"torque that {late} by about {samples}"


def find_delay(fit: FitAnalysis) -> AlikeTest | None:
    """The delay, s, that explains most of the residuals, to first order; None where the model holds it already.

    Torque that is late by d leaves the residual -d dtau/dt; the slope of the predicted torque is tested on what the
    model leaves, since friction and inertia take up part of it.
    """
    return fit.test_alike(-fit.remains.slope.T)


def proven_delay(fit: FitAnalysis) -> AlikeTest | None:
    """The delay that all samples show where those between reversals do not deny it, or that these alone show.

    Friction that gives way softly, as MuJoCo's does, turns over while the joint still creeps: torque looks early by
    milliseconds on all joints alike, or hides as much of a delay. Between reversals a delay lets the plain model,
    fitted anew, miss less, and such friction does not. What a fit to all samples leaves there is no measure of a
    delay's size: friction and inertia have taken up most of it.
    """
    whole = find_delay(fit)
    if whole is not None and whole.believable and fit.shows_later(whole.factor, range(fit.robot.n)):
        return whole
    away = fit.test_alike(np.where(fit.remains.reverses, 0.0, -fit.remains.slope).T)
    if away is None or not away.believable or not fit.shows_later(away.factor, range(fit.robot.n)):
        return None
    return away


def find_long_lag(fit: FitAnalysis) -> float:
    """The shift of the torque, s, with which the plain model fits all joints decisively better; 0 for none.

    One clock makes joints late alike: most of them have to fit best, each by itself, with about that shift. Torque of a
    contact that the model lacks, shifted by some quarter of the motion's period, looks a little more like motion, too.
    """
    # What the model holds of delays may hide a lag that is longer than they can be: the plain model is asked.
    now = fit.misfit_by_shift(np.zeros(1)) if fit.enough else None
    if now is None or np.sqrt(now.sum()) < POOR:
        return 0.0
    reach = round(LONGEST * fit.rate)
    shifts = np.arange(-reach, reach + 1, max(1, reach // SHIFTS)) / fit.rate
    by_joint = fit.misfit_by_shift(shifts)
    if by_joint is None:
        return 0.0
    errors = by_joint.sum(axis=1)
    best = int(np.argmin(errors))
    if not 0 < best < len(shifts) - 1 or now.sum() <= DECISIVE * errors[best]:
        return 0.0
    own = shifts[by_joint[:, list(fit.joints)].argmin(axis=0)]
    near = np.abs(own - shifts[best]) <= max(1.01 * (shifts[1] - shifts[0]), LIKE * abs(shifts[best]))
    return float(shifts[best]) if near.mean() > 0.5 else 0.0
