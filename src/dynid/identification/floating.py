"""Identification of a robot whose base floats: the IMU moves the base, and no contact force has to be known."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatch
from typing import Any, cast

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, UnfitDataError, UsageError
from dynid.base.records import dataclass, listed
from dynid.diagnosis.floating_checks import check_contacts, check_floating
from dynid.estimate.estimator import Estimate, Regression
from dynid.estimate.physical import project_to_physical, unconstrained, unphysical
from dynid.estimate.prior import regression_of
from dynid.estimate.scores import Origin, cross_validate
from dynid.factor.assemble import Assembly
from dynid.factor.base import BaseMap, structural_base
from dynid.factor.blocking import Blocking
from dynid.factor.factor import Factors
from dynid.identification.fitting import Call
from dynid.identification.settings import Settings, needs_of, settings_to_experiment
from dynid.log.checks import LogWatch
from dynid.log.joints import STILL
from dynid.log.read import Log
from dynid.log.summary import LogSummary
from dynid.recording import IMU_CHANNELS, FloatingBase
from dynid.robot.load import with_floating_base
from dynid.robot.model import RobotModel
from dynid.robot.shapes import DescribedShape, Shape, by_link, described_shapes
from dynid.rows.floating import (
    BASE,
    CONTACT,
    FIRST,
    UP,
    Contact,
    FloatingRows,
    contact_jacobian,
    contact_sets,
    floating_samples,
    placements,
)
from dynid.rows.torque import TorqueRows
from dynid.run.blocks import LEAST_CYCLES
from dynid.run.links import mass_findings, masses_determined
from dynid.run.result import Identification, Validation, provenance
from dynid.run.scoring import score
from dynid.run.validation import note_same_motion, origin_of
from dynid.run.verdict import judge
from dynid.signals.filter import first_difference, low_passed, sensible_rate
from dynid.signals.prepare import Prepared, prepare
from dynid.signals.samples import Samples
from dynid.signals.settings import Preparation
from dynid.spatial.algebra import rotation_about
from dynid.terms.exports import Of
from dynid.terms.friction import Coulomb, Viscous
from dynid.terms.term import Terms, joints_of, on_joints

# Hz: below it the acceleration of a base that stays in place is gravity; within its period the drift of a gyroscope of
# 0.003 rad/s turns the vertical by 0.3 degrees, 0.1 mm at the lowest point of a ball of 2 cm.
VERTICAL = 0.1
# Hz: rate at which the vertical is computed; it turns with the base, which is slower than this by far.
VERTICAL_RATE = 100.0
# Hz: torques of gaits lie below it, and above it impacts, in which contacts are not rigid. Positions are filtered at
# twice this frequency, which leaves the band of the equations unchanged.
CUTOFF = 12.0
# Share of the weight that presses a foot that stands: noise of forces is below, and what a foot carries above.
LOADED = 0.05
# Of the height of the robot: feet are as low as the lowest end of a leg, to this share.
LEVEL = 0.15
# Corners of a mesh that may be a ball, and their greatest deviation from one over its radius.
FEWEST_CORNERS, ROUND = 12, 0.1
# Feet of a robot on so many legs are points: three carry it, and their legs seldom have ankles.
POINTS = 3
# Samples of a contact set, at the rate of the equations, from which its errors are known to a fifth.
FEWEST = 30
# Description of the equations in the run folder.
ROWS: dict[str, Any] = {
    "name": "floating",
    "options": {},
    "reason": "the base floats, and forces of contacts are unknown",
    "evidence": {},
}
# Rounds of weights. Errors of the rows change by a few per cent in the third.
ROUNDS = 3
# Least error of a row as a share of the median of the same kind, so that no row decides alone.
LEAST = 0.05


def floats(robot: RobotModel, log: Log) -> bool:
    """Whether the base of a log's robot floats; raises UsageError if it should and there is no IMU."""
    wanted = robot.reading.base
    if wanted == "floating" and log.channels.base is None:
        raise UsageError(
            "no-imu",
            found="a floating base and a log without IMU",
            expected="the motion of the base: angular velocity and acceleration",
            do='log the IMU and map its columns under [log.imu]; or set base = "fixed" under [robot]',
        )
    return wanted != "fixed" and log.channels.base is not None


# Contacts: where something may push.


def contacts_of(
    fixed: RobotModel, floating: RobotModel, base: FloatingBase, diagnostics: Diagnostics
) -> tuple[Contact, ...]:
    """Feet, then hooks and clamps, of a floating robot.

    The lowest point of a ball pushes, wherever it rolls. Other shapes are flat: they transfer moments, too.

    Parameters
    ----------
    fixed, floating : RobotModel
        The robot, and with a floating base.
    base : FloatingBase
        Sensors of the base.
    diagnostics : Diagnostics
        Notes where the ground pushes, and warns of feet without shape.

    Returns
    -------
    tuple of Contact

    """
    feet = base.feet or feet_of(fixed)
    try:
        shapes = by_link(described_shapes(fixed))
    except DynidError:
        shapes = {}
    contacts, without = [], []
    for foot in feet:
        body, frame = floating.link_frame(foot)
        readable = []
        for kind in ("collision", "visual"):
            for described in shapes.get(foot, ()):
                try:
                    readable += [described.read()] if described.geometry == kind else []
                except DynidError:  # a mesh that is not there
                    continue
            if readable:
                break
        ball = _lowest_ball(readable)
        if not readable:
            without.append(foot)
        flat = bool(readable) and ball is None and len(feet) < POINTS
        moment = base.moment if base.moment is not None else flat
        place = frame[:3, 3] if ball is None else ball[0]
        radius = 0.0 if ball is None or moment else ball[1]
        contacts.append(Contact(foot, body, _three(place), radius, moment))
    if without:
        diagnostics.warn(
            "foot-without-shape",
            f"no shape of {listed(without)} in the robot file: the ground is taken to push at the link's origin; "
            "give the foot a ball as collision shape",
        )
    for support in base.supports:
        body, frame = floating.link_frame(support.link)
        point = frame[:3, :3] @ np.array(support.point) + frame[:3, 3]
        contacts.append(Contact(support.link, body, _three(point), 0.0, support.moment))
    return tuple(contacts)


def _three(point: Float) -> tuple[float, float, float]:
    x, y, z = np.asarray(point).tolist()
    return x, y, z


def _lowest_ball(shapes: Sequence[Shape]) -> tuple[Float, float] | None:
    """Centre (3,) and radius of the ball that is the furthest from the joint."""
    balls = [ball for shape in shapes if (ball := _as_ball(shape)) is not None]
    return max(balls, key=lambda ball: float(np.linalg.norm(ball[0])), default=None)


def _as_ball(shape: Shape) -> tuple[Float, float] | None:
    """Centre (3,) and radius of a ball, or of a mesh whose corners lie on one."""
    if shape.kind == "sphere":
        return shape.frame[:3, 3], float(shape.size[0])
    if shape.kind != "mesh" or len(shape.vertices) < FEWEST_CORNERS:
        return None
    x = np.unique(shape.corners(), axis=0)
    middle = x.mean(axis=0)
    y = x - middle
    # |x|^2 = 2 c x + (r^2 - |c|^2)
    solution = np.linalg.lstsq(np.column_stack([2.0 * y, np.ones(len(y))]), np.sum(y**2, axis=1), rcond=None)[
        0
    ]
    centre = solution[:3]
    distance = np.linalg.norm(y - centre, axis=1)
    radius = float(distance.mean())
    return (centre + middle, radius) if distance.std() < ROUND * radius else None


def feet_of(robot: RobotModel) -> tuple[str, ...]:
    """Links at the ends of legs: of the last bodies of all branches, those that are the lowest."""
    ends = [body for body in range(robot.n_bodies) if body not in robot.parent]
    p = placements(robot.tree, robot.projection_offset[None])[1][0]
    down = robot.gravity / max(float(np.linalg.norm(robot.gravity)), 1e-9)
    shapes: dict[str, list[DescribedShape]] = {}
    with suppress(DynidError):
        shapes = by_link(described_shapes(robot))
    feet = []
    depth = p @ down
    level = depth[ends].max() - LEVEL * max(float(np.ptp(depth)), 1e-9)
    for body in (end for end in ends if depth[end] >= level):
        links = [link for link in robot.merged[body] if link in shapes] or [robot.body_names[body]]
        far = {link: float(np.linalg.norm(robot.link_frame(link)[1][:3, 3])) for link in links}
        named = [link for link in links if "foot" in link.lower() or "sole" in link.lower()]
        feet.append(max(named or links, key=far.__getitem__))
    return tuple(feet)


# Samples with the motion of the base.


@dataclass(frozen=True, eq=False)
class _Imu:
    # rotation: from its axes to those of the base link.    place: (3,) in the frame of the base link.
    rotation: Float
    place: Float

    @staticmethod
    def of(floating: RobotModel, link: str) -> _Imu:
        body, frame = floating.link_frame(link)
        if body != BASE:
            raise InputError(
                "imu-link",
                found=f"an IMU on link '{link}', which moves relative to the base link",
                expected=f"a link that is fixed to '{floating.body_names[BASE]}'",
                do="name the link that carries the IMU under [log.imu]",
            )
        return _Imu(frame[:3, :3], frame[:3, 3])

    def motion(self, values: Float, cutoff: float, order: int, rate: float) -> tuple[Float, Float, Float]:
        """Angular velocity, angular acceleration and specific force (T, 3) of the base link, from lines (6, T)."""
        smooth = low_passed(values, [cutoff] * 6, order, rate)
        omega = (self.rotation @ smooth[:3]).T
        alpha = first_difference(np.ascontiguousarray(omega.T), rate).T
        measured = (self.rotation @ smooth[3:]).T
        arm = np.broadcast_to(self.place, omega.shape)
        return omega, alpha, measured - np.cross(alpha, arm) - np.cross(omega, np.cross(omega, arm))


def vertical(t: Float, omega: Float, specific: Float) -> tuple[Float, Float]:
    """Direction against gravity in the axes of a moving base: accelerations turned by the gyroscope, then low-passed.

    Parameters
    ----------
    t : ndarray, shape (T,), s
        Times.
    omega, specific : ndarray, shape (T, 3), rad/s, m/s^2
        Angular velocity and specific force.

    Returns
    -------
    tuple of ndarray, shape (K,) and (K, 3)
        Times at VERTICAL_RATE or the rate of the log, and unit vectors.

    """
    rate = min(sensible_rate(float(np.median(np.diff(t)))), VERTICAL_RATE)
    grid = np.arange(t[0], t[-1], 1.0 / rate)
    edges = np.searchsorted(t, grid)
    count = np.diff(np.append(edges, len(t)))
    sums = [np.add.reduceat(x, np.minimum(edges, len(t) - 1), axis=0) for x in (omega, specific)]
    w, f = (x / np.maximum(count, 1)[:, None] for x in sums)
    turned = np.zeros((len(grid), 3, 3))
    R = np.eye(3)
    for k in range(len(grid)):
        turned[k] = R
        angle = float(np.linalg.norm(w[k])) / rate
        if angle > 0:
            R = R @ rotation_about(w[k] / (angle * rate), angle)
    steady = low_passed(np.einsum("tij,tj->it", turned, f), [VERTICAL] * 3, 2, rate)
    up = np.einsum("tji,jt->ti", turned, steady)
    return grid, up / np.linalg.norm(up, axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class FloatingData:
    """Samples of a floating robot from the prepared samples of its joints.

    Attributes
    ----------
    prepared : Prepared
        The log.
    robot : RobotModel
        The floating robot.
    base : FloatingBase
        Sensors of the base.
    contacts : tuple of Contact
        Feet, then supports.

    """

    prepared: Prepared
    robot: RobotModel
    base: FloatingBase
    contacts: tuple[Contact, ...]

    def samples(self, batches: Iterable[Samples]) -> list[Samples]:
        """Samples of the floating robot; those near a change of the contacts do not count."""
        imu = _Imu.of(self.robot, self.base.imu)
        settings, verticals = self.prepared.settings, self._verticals(imu)
        cutoff = max(settings.state_cutoffs(self.prepared.joints))
        made = []
        for samples in batches:
            values = np.array([samples.extra[name] for name in IMU_CHANNELS])
            omega, alpha, specific = imu.motion(values, cutoff, settings.state_order, samples.rate)
            t, up = verticals[samples.trajectory]
            up = np.array([np.interp(samples.t, t, line) for line in up.T]).T
            up /= np.linalg.norm(up, axis=1, keepdims=True)
            none = np.zeros((len(samples), len(self.contacts)), dtype=np.bool_)
            floating = floating_samples(self.robot, samples, omega, alpha, specific, up, none)
            contact = self.contact(floating)
            # The filter of the positions spreads the instant of touch-down, and what is in contact within it may push.
            reach = max(round(samples.rate / cutoff), 1)
            possible = _spread(contact, reach)
            change = np.any(possible[1:] != possible[:-1], axis=1)
            near = _spread(
                np.append(False, change)[:, None], round(0.5 * samples.rate / self.prepared.bandwidth)
            )[:, 0]
            extra = {**floating.extra, CONTACT: possible.astype(np.float64)}
            made.append(replace(floating, extra=extra, keep=samples.keep & ~near))
        return made

    def _verticals(self, imu: _Imu) -> dict[str, tuple[Float, Float]]:
        found = {}
        for trajectory in self.prepared.log.trajectories:
            chunks = list(self.prepared.log.chunks(trajectory))
            t = np.concatenate([chunk.t for chunk in chunks])
            gyro, acceleration = (
                np.concatenate([np.array([chunk.extra[name] for name in names]).T for chunk in chunks])
                for names in (IMU_CHANNELS[:3], IMU_CHANNELS[3:])
            )
            sound = np.isfinite(gyro).all(axis=1) & np.isfinite(acceleration).all(axis=1)
            found[trajectory.name] = vertical(
                t[sound], gyro[sound] @ imu.rotation.T, acceleration[sound] @ imu.rotation.T
            )
        return found

    def contact(self, samples: Samples) -> Bool:
        """Contacts (T, k) that push: as logged, else found from forces and motion; supports by trajectory."""
        feet = len(self.contacts) - len(self.base.supports)
        contact = np.zeros((len(samples), len(self.contacts)), dtype=np.bool_)
        for k, support in enumerate(self.base.supports):
            names = support.trajectories
            contact[:, feet + k] = not names or any(fnmatch(samples.trajectory, name) for name in names)
        if self.base.measured:
            logged = np.array([samples.extra[f"contact:{foot.link}"] for foot in self.contacts[:feet]]).T
            contact[:, :feet] = logged > (LOADED * self._weight() if self.base.force else 0.5)
        elif feet:
            contact[:, :feet] = self.pressed(samples, contact)
        return contact

    def pressed(self, samples: Samples, others: Bool) -> Bool:
        """Feet (T, feet) that the robot of the file presses down, by its torques and accelerations."""
        feet = len(self.contacts) - len(self.base.supports)
        force = self.normal_forces(samples, others)
        return force[:, :feet] > LOADED * self._weight()

    def normal_forces(self, samples: Samples, others: Bool) -> Float:
        """Forces (T, k) along the vertical at all contacts, of the robot of the file.

        The most probable ones of tau + J' f = Y theta; supports that are not attached have none.
        """
        robot = self.robot
        rest = prior_torque(robot, samples) - samples.tau
        up = samples.extra[UP]
        J = contact_jacobian(robot, self.contacts, samples.q, up)
        owner = np.repeat(np.arange(len(self.contacts)), [each.rows for each in self.contacts])
        first = np.searchsorted(owner, np.arange(len(self.contacts)))
        feet = np.arange(len(self.contacts)) < len(self.contacts) - len(self.base.supports)
        normal = np.zeros((len(samples), len(self.contacts)))
        world = np.einsum("ij,tj->ti", robot.T_parent_joint[0, :3, :3], up)
        sets, number = contact_sets(others | feet)
        for k, possible in enumerate(sets):
            index, rows = np.flatnonzero(number == k), possible[owner]
            f = np.zeros((len(index), len(owner)))
            f[:, rows] = np.einsum(
                "tcn,tn->tc", np.linalg.pinv(J[index][:, rows].transpose(0, 2, 1)), rest[index]
            )
            for c, at in enumerate(first):
                normal[index, c] = np.einsum("ti,ti->t", f[:, at : at + 3], world[index])
        cutoff = self.prepared.bandwidth
        return low_passed(np.ascontiguousarray(normal.T), [2.0 * cutoff] * normal.shape[1], 2, samples.rate).T

    def _weight(self) -> float:
        mass = self.robot.inertia_prior[:, 0]
        if not np.isfinite(mass).all():
            raise UnfitDataError(
                "no-contact",
                found="contacts that are not logged as flags, and links of unknown mass in the robot file",
                expected="flags, or the weight of the robot, by which a foot that stands is recognised",
                do="map flags of contact under [log.contact], or give the links their masses",
            )
        return float(mass.sum() * np.linalg.norm(self.robot.gravity))


def prior_torque(robot: RobotModel, samples: Samples) -> Float:
    """Torque (T, n) of the links and friction of the robot file; unknown ones count as zero."""
    from dynid.terms.rigid_body import RigidBody

    terms = Terms((RigidBody(), Viscous(joints=robot.driven), Coulomb(width=0.02, joints=robot.driven)))
    theta = np.array([column.prior for column in terms.columns(robot)])
    return terms.torque(robot, samples, np.nan_to_num(theta))


def _spread(flags: Bool, reach: int) -> Bool:
    """Flags (T, k) that are also set up to `reach` samples before and after."""
    window = np.ones(2 * reach + 1)
    return np.array([np.convolve(line, window, "same") > 0.5 for line in flags.T]).reshape(flags.T.shape).T


# Fit: errors of the rows by contact set, and factors with and without these weights.


def terms_of(terms: Terms, robot: RobotModel) -> Terms:
    """The terms on joints with motors: the base has no friction and no rotor."""
    return Terms(
        tuple(
            term
            if joints_of(term) or "joints" not in getattr(term, "__dataclass_fields__", {})
            else on_joints(term, robot.driven)
            for term in terms
        )
    )


@dataclass(frozen=True, eq=False)
class _Errors:
    # Sums of squares of what is left over, and of the share of the errors in it, by contact set.
    sums: dict[tuple[bool, ...], tuple[Float, Float, int]]

    def rows(self, rows: FloatingRows) -> FloatingRows:
        """Rows with the standard deviations that these residuals show."""
        square = np.sum([part[0] for part in self.sums.values()], axis=0)
        share = np.sum([part[1] for part in self.sums.values()], axis=0)
        usual = _deviation(square, share, np.ones(len(square)))
        sigma = {
            key: tuple(_deviation(sums, part, usual).tolist())
            for key, (sums, part, count) in self.sums.items()
            if count >= FEWEST
        }
        return replace(rows, sigma=sigma, usual=tuple(usual.tolist()))


def _deviation(square: Float, share: Float, usual: Float) -> Float:
    # Rows that the contacts leave nothing of keep the usual deviation.
    seen = share > 1e-6 * share.max(initial=1e-300)
    sigma = np.where(seen, np.sqrt(square / np.where(seen, share, 1.0)), usual)
    for kind in (slice(0, 3), slice(3, 6), slice(6, None)):
        sigma[kind] = np.maximum(sigma[kind], LEAST * np.median(sigma[kind]))
    return np.asarray(np.maximum(sigma, 1e-12))


def errors_of_rows(assembly: Assembly, estimate: Estimate, batches: Iterable[Samples]) -> _Errors:
    """Errors of the rows of an estimate, filtered as its equations, by contact set."""
    plain = replace(cast(FloatingRows, assembly.rows), weighted=False)
    sums: dict[tuple[bool, ...], tuple[Float, Float, int]] = {}
    for samples in batches:
        kept = assembly.parallel.kept(samples)
        if not len(kept):
            continue
        P = plain.projections(assembly.robot, samples)
        rest = samples.tau - assembly.terms.torque(assembly.robot, samples, estimate.full_vector)
        left, _ = assembly.parallel.apply(np.ascontiguousarray(np.einsum("tij,tj->it", P, rest)), samples)
        share = np.einsum("tii->ti", P[kept])
        sets, number = contact_sets(samples.extra[CONTACT][kept] > 0.5)
        for k, key in enumerate(map(tuple, sets.tolist())):
            index = number == k
            before = sums.get(key, (np.zeros(assembly.robot.n), np.zeros(assembly.robot.n), 0))
            sums[key] = (
                before[0] + np.sum(left[:, index] ** 2, axis=1),
                before[1] + share[index].sum(axis=0),
                before[2] + int(index.sum()),
            )
    return _Errors(sums)


# MB for the triangles of the blocks of the fit, and as many for those of the scores.
MOST_MEGABYTES = 150.0
# Fewest and most blocks of time of a log.
FEWEST_BLOCKS, MOST_BLOCKS = 12, 30


def _blocking(prepared: Prepared, groups: int, columns: int) -> Blocking:
    """Blocks of a thirtieth of the log, or longer where the triangles of many joints would fill memory."""
    megabytes = 8e-6 * groups * (columns + 1) ** 2
    most = float(np.clip(MOST_MEGABYTES / megabytes, FEWEST_BLOCKS, MOST_BLOCKS))
    return Blocking(max(prepared.duration / most, LEAST_CYCLES / prepared.bandwidth))


def read_floating(
    call: Call, log: Log, floating: RobotModel, preparation: Preparation
) -> tuple[FloatingData, list[Samples], LogSummary]:
    """Samples of the floating robot of a log, and its summary."""
    if preparation.cutoff == "auto":
        rate = sensible_rate(log.duration / max(sum(t.row_count for t in log.trajectories), 1))
        cutoff = min(CUTOFF, 0.1 * rate)
        state = 2.0 * cutoff if preparation.state_cutoff == "auto" else preparation.state_cutoff
        preparation = replace(preparation, cutoff=cutoff, state_cutoff=state)
    prepared = prepare(log, preparation, call.diagnostics)
    base = cast(FloatingBase, log.channels.base)
    data = FloatingData(prepared, floating, base, contacts_of(log.robot, floating, base, call.diagnostics))
    watch = LogWatch(log, call.diagnostics, np.ones(log.robot.n, dtype=np.bool_))
    processed = [prepared.process(window) for window in prepared.windows(watch)]
    return data, data.samples(processed), watch.finish()


@dataclass(frozen=True, eq=False)
class FloatingFit:
    """A fit of the weighted equations.

    Attributes
    ----------
    assembly : Assembly
        With the weighted rows.
    structural : BaseMap
    regression : Regression
    free, estimate : Estimate
        Without and with the prior.
    judged : Factors
        The same equations as torques, which are scored.

    """

    assembly: Assembly
    structural: BaseMap
    regression: Regression
    free: Estimate
    estimate: Estimate
    judged: Factors


def fit_floating(
    data: FloatingData,
    batches: list[Samples],
    terms: Terms,
    settings: Settings,
    diagnostics: Diagnostics,
    threads: int = 1,
) -> FloatingFit:
    """Fit a floating robot, with the error of each row in each contact set.

    Parameters
    ----------
    data : FloatingData
        The log.
    batches : list of Samples
        Its samples.
    terms : Terms
        The model, with friction and rotors on joints with motors only.
    settings : Settings
        Method and seed.
    diagnostics : Diagnostics
        Collects warnings.
    threads : int
        Number of threads.

    Returns
    -------
    FloatingFit

    """
    robot = data.robot
    structural = structural_base(robot, terms, TorqueRows(), settings.seed)
    moved = np.ptp(np.concatenate([samples.q for samples in batches]), axis=0) > STILL
    moved[:FIRST] = True
    wanted = structural.mask & terms.alive(robot, moved)
    rows = FloatingRows(data.contacts)
    assembly = Assembly(
        robot,
        terms,
        rows,
        wanted,
        data.prepared.parallel_filter(),
        _blocking(data.prepared, robot.n, int(wanted.sum())),
    )
    plain = unconstrained(settings.estimator)
    for _ in range(ROUNDS):
        regression = regression_of(robot, terms, structural, assembly.factors(batches, threads))
        free = plain.fit(regression)
        rows = errors_of_rows(assembly, free, batches).rows(rows)
        assembly = replace(assembly, rows=replace(rows, weighted=True))
    regression = regression_of(robot, terms, structural, assembly.factors(batches, threads))
    free = plain.fit(regression)
    estimate, _ = project_to_physical(settings.estimator, regression, free, diagnostics)
    torque = replace(assembly, rows=replace(rows, weighted=False), wanted=regression.base.mask)
    return FloatingFit(assembly, structural, regression, free, estimate, torque.factors(batches, threads))


def identify_floating(
    call: Call,
    validation: Log | None,
    experiment: Mapping[str, Any] | None,
    files: Mapping[str, Any] | None,
    truth: Mapping[str, float] | None,
) -> Identification:
    """Identify a robot with a floating base and judge the result on held-out data.

    Scores are of projected torque: what no contact force can change. Models are not compared, since effects of single
    joints would need equations of single joints.

    Parameters
    ----------
    call : Call
        Arguments of the identification.
    validation : Log, optional
        A held-out log; without it blocks of the log are held out.
    experiment, files, truth
        As `identify`.

    Returns
    -------
    Identification

    Raises
    ------
    UsageError
        For equations other than torques.

    """
    started = time.perf_counter()
    settings, diagnostics = call.settings, call.diagnostics
    if settings.rows.name not in ("auto", "torque"):
        raise UsageError(
            "floating-rows",
            found=f"{settings.rows.name} rows with a floating base",
            expected="torque rows: momentum and energy of the robot change by contact forces, which are unknown, and "
            "their integrals over a change of contacts cannot be projected",
            do='leave rows out under [model], or set base = "fixed" under [robot] for a base that does not move',
        )
    robot = with_floating_base(call.robot)
    data, batches, summary = read_floating(call, call.log, robot, settings.preparation)
    check_floating(robot, data.contacts, batches, diagnostics)
    _check_flags(data, batches, diagnostics)
    terms = terms_of(settings.model, robot)
    fit = fit_floating(data, batches, terms, settings, diagnostics, call.threads)
    fitted_rows = cast(FloatingRows, fit.assembly.rows)
    scored = replace(fit.assembly, rows=replace(fitted_rows, weighted=False))
    training, left_out = score(scored, fit.estimate, batches, Origin.TRAINING, call.threads, None)
    if validation is None:
        scores = cross_validate(
            fit.regression, settings.estimator, settings.folds, robot.joint_names, fit.judged, left_out
        )
        validations = (Validation(scores),)
    else:
        origin = origin_of(validation, call.log.identity(), diagnostics)
        others, held_out, _ = read_floating(call, validation, robot, data.prepared.settings)
        rows = replace(fitted_rows, contacts=others.contacts, weighted=False)
        validations = (
            score(
                replace(scored, rows=rows),
                fit.estimate,
                held_out,
                origin,
                call.threads,
                None,
                training.scores.motion,
            )[0],
        )
        note_same_motion(training, validations[0], diagnostics)
    diagnostics.note("floating-base", in_words(data, fit))
    return Identification(
        experiment=dict(experiment) if experiment is not None else settings_to_experiment(settings),
        files=dict(files or {}),
        robot=robot,
        terms=terms,
        structural=fit.structural,
        estimate=fit.estimate,
        factors=fit.regression.factors,
        training=training,
        validations=validations,
        verdict=judge(
            fit.estimate,
            fit.structural,
            training,
            validations,
            diagnostics,
            bandwidth=data.prepared.bandwidth,
            faults=unphysical(robot, fit.estimate),
            masses=mass_findings(robot, fit.estimate, fit.regression),
            effort_limit=robot.limits.effort,
            masses_determined=masses_determined(fit.estimate, fit.regression),
        ),
        diagnostics=diagnostics,
        preparation=data.prepared.describe() | {"rows": ROWS},
        log_summary=summary.describe(),
        provenance=provenance(
            call.log, validation, settings.seed, time.perf_counter() - started, needs_of(settings)
        ),
        truth=truth,
    )


def _check_flags(data: FloatingData, batches: Iterable[Samples], diagnostics: Diagnostics) -> None:
    feet = tuple(contact.link for contact in data.contacts[: len(data.contacts) - len(data.base.supports)])
    if not data.base.measured or not np.isfinite(data.robot.inertia_prior[:, 0]).all():
        return
    logged, pressed = [np.zeros((0, len(feet)))], [np.zeros((0, len(feet)))]
    for samples in batches:
        flags = np.asarray(samples.extra[CONTACT]) > 0.5
        logged.append(flags[samples.keep, : len(feet)].astype(np.float64))
        pressed.append(data.pressed(samples, flags)[samples.keep].astype(np.float64))
    check_contacts(feet, np.concatenate(logged), np.concatenate(pressed), diagnostics)


def in_words(data: FloatingData, fit: FloatingFit) -> str:
    """What the log determines, with and without the contact forces, and what to record next."""
    rank, whole = fit.regression.base.rank, fit.structural.rank
    mass = total_mass(data.robot, fit.estimate)
    text = f"{rank} of {whole} base parameters are determined without contact forces; the robot weighs "
    text += f"{mass[0]:.4g} +- {mass[1]:.2g} kg"
    missing = record_next(data, fit)
    return text + (f". Record next: {missing}" if missing else "")


def total_mass(robot: RobotModel, estimate: Estimate) -> tuple[float, float]:
    """Mass of the whole robot and the half width of its 95 % interval, kg."""
    masses = np.array([column.name.split("_")[0].rstrip("0123456789") == "m" for column in estimate.columns])
    masses &= np.array([column.of is Of.BODY for column in estimate.columns])
    weights = masses.astype(np.float64)
    base = estimate.base
    # The total mass as a combination of base parameters, which it is for a base that moves freely.
    combination = weights[base.independent]
    std = float(np.sqrt(combination @ estimate.covariance @ combination))
    return float(weights @ estimate.parameters), estimate.quantile() * std


def record_next(data: FloatingData, fit: FloatingFit) -> str:
    """Motion that the log lacks: hanging, standing or stepping; "" if it determines all base parameters."""
    if fit.regression.base.rank == fit.structural.rank:
        return ""
    feet = len(data.contacts) - len(data.base.supports)
    hung = bool(data.base.supports)
    if feet and not hung:
        return "the robot on a rope, all legs moving in the air"
    return "the robot standing, its trunk swaying, then stepping"
