"""Samples of a robot with a floating base: the IMU gives the motion of the base, and feet and supports the contacts."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatch
from itertools import pairwise
from typing import Any, cast

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, Place, UnfitDataError, UsageError
from dynid.base.records import dataclass, listed
from dynid.log.checks import LogWatch
from dynid.log.read import Log
from dynid.log.summary import LogSummary
from dynid.recording import IMU_CHANNELS, FloatingBase
from dynid.robot.model import RobotModel
from dynid.robot.shapes import DescribedShape, Shape, by_link, described_shapes
from dynid.rows.floating import (
    BASE,
    CONTACT,
    UP,
    Contact,
    FloatingRows,
    contact_jacobian,
    contact_sets,
    floating_samples,
    placements,
    vertical_in_world,
)
from dynid.signals.filter import first_difference, low_passed, sensible_rate
from dynid.signals.prepare import Prepared, prepare
from dynid.signals.samples import Samples
from dynid.signals.settings import Preparation
from dynid.spatial.algebra import rotation_about
from dynid.terms.friction import Coulomb, Viscous
from dynid.terms.term import Terms

# Hz: corner frequency below which the accelerometer gives the vertical, and above which the gyroscope does. A base that
# stays in place accelerates faster than this; a gyroscope with a bias of 0.003 rad/s drifts by 0.3 degrees in its time.
VERTICAL = 0.1
# Hz: rate at which the vertical is computed; it turns with the base, which is slower than this by far.
VERTICAL_RATE = 100.0
# s: pause over which the gyroscope is not integrated; a tenth of the period of VERTICAL.
GAP = 1.0
# Hz: torques of gaits lie below it, and above it impacts, in which contacts are not rigid. Positions are filtered at
# twice this frequency, which leaves the band of the equations unchanged.
CUTOFF = 12.0
# Share of the weight above which a foot counts as in contact; noise in the forces is smaller.
LOADED = 0.05
# Share of the robot's height: a foot is at most this far above the lowest end of a leg.
LEVEL = 0.15
# Fewest corners of a mesh that is tested for being a ball, and the largest deviation from a ball, relative to
# its radius.
FEWEST_CORNERS, ROUND = 12, 0.1
# Share of an equation that contacts leave, below which it is round-off.
ROUND_OFF = 1e-9
# Poses of a recording in which contacts are tested for leaving nothing of an equation: it is dropped if none does.
POSES = 20
# From this number of legs on, feet are modelled as points: three feet carry the robot, and such legs rarely
# have ankles.
POINTS = 3

# Contacts: points or surfaces at which external forces may act.


def contacts_of(
    fixed: RobotModel,
    floating: RobotModel,
    base: FloatingBase,
    diagnostics: Diagnostics,
    weighed: bool = False,
) -> tuple[Contact, ...]:
    """Feet, then hooks and clamps, of a floating robot.

    A ball transmits force at its lowest point, however it is rotated. Other feet of a robot with one or two legs are
    flat and also transmit moments, so that the place of their force does not matter.

    `fixed`, `floating`: the robot, and with a floating base; `base`: sensors of the base; `diagnostics`: receives notes
    on the contact points and warnings of feet without a shape; `weighed`: whether the logged normal forces of the feet
    are used as known forces.
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
        flat = ball is None and len(feet) < POINTS
        moment = base.moment if base.moment is not None else flat
        if not readable and not moment:
            without.append(foot)
        place = frame[:3, 3] if ball is None else ball[0]
        radius = 0.0 if ball is None or moment else ball[1]
        contacts.append(Contact(foot, body, _three(place), radius, moment, weighed))
    if without:
        diagnostics.warn(
            "foot-without-shape",
            f"no shape of {listed(without)} in the robot file: contact forces are assumed to act at the link's "
            "origin; give the foot a ball as collision shape",
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
    """Centre (3,) and radius of the ball farthest from the joint."""
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
    """Feet: the last links of those branches that end lowest."""
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

    `t` (T,) in s: times; `omega`, `specific` (T, 3) in rad/s, m/s^2: angular velocity and specific force. Result: times
    at VERTICAL_RATE or the rate of the log, and unit vectors, (K,) and (K, 3).
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
        imu, batches = _Imu.of(self.robot, self.base.imu), list(batches)
        settings = self.prepared.settings
        verticals = self._verticals(imu, {samples.trajectory for samples in batches})
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
            # The position filter smears the time of touch-down, so a contact counts within the reach of the
            # filter.
            reach = max(round(samples.rate / cutoff), 1)
            possible = _spread(contact, reach)
            change = np.any(possible[1:] != possible[:-1], axis=1)
            near = _spread(
                np.append(False, change)[:, None], round(0.5 * samples.rate / self.prepared.bandwidth)
            )[:, 0]
            extra = {**floating.extra, CONTACT: possible.astype(np.float64)}
            floating = replace(floating, tau=floating.tau + self._measured_forces(floating))
            made.append(replace(floating, extra=extra, keep=samples.keep & ~near))
        return self._counted(made)

    def _counted(self, batches: list[Samples]) -> list[Samples]:
        """Samples in which only the equations count that the contacts leave something of.

        Flat feet of measured vertical force leave nothing of the moments on the base.
        """
        rows, left = FloatingRows(self.contacts), np.zeros(self.robot.n)
        for samples in batches:
            first = np.unique(samples.extra[CONTACT], axis=0, return_index=True)[1]
            some = np.linspace(0, len(samples) - 1, POSES).round().astype(np.int64)
            for k in np.union1d(first, some).tolist():
                left = np.maximum(left, np.diag(rows.projections(self.robot, samples.part(k, k + 1))[0]))
        counts = left > ROUND_OFF
        if counts.all():
            return batches
        return [
            replace(
                samples,
                measured=counts,
                gate=np.broadcast_to(counts, samples.q.shape)
                if samples.gate is None
                else samples.gate & counts,
            )
            for samples in batches
        ]

    def _verticals(self, imu: _Imu, names: Container[str]) -> dict[str, tuple[Float, Float]]:
        verticals = {}
        for trajectory in self.prepared.log.trajectories:
            if trajectory.name not in names:
                continue  # too short or without sound samples
            chunks = list(self.prepared.log.chunks(trajectory))
            t = np.concatenate([chunk.t for chunk in chunks])
            gyro, acceleration = (
                np.concatenate([np.array([chunk.extra[name] for name in names]).T for chunk in chunks])
                for names in (IMU_CHANNELS[:3], IMU_CHANNELS[3:])
            )
            sound = np.isfinite(gyro).all(axis=1) & np.isfinite(acceleration).all(axis=1)
            t, omega, specific = t[sound], gyro[sound] @ imu.rotation.T, acceleration[sound] @ imu.rotation.T
            # The rotation of the base during a gap or a clock reset is unknown, so the vertical is computed
            # for each part separately.
            step = np.diff(t)
            ends = np.flatnonzero((step <= 0) | (step > GAP)) + 1
            parts = [
                vertical(t[a:b], omega[a:b], specific[a:b])
                for a, b in pairwise([0, *ends.tolist(), len(t)])
                if b - a > 1 and t[b - 1] - t[a] > GAP
            ]
            if not parts:
                raise UnfitDataError(
                    "no-imu",
                    found=f"no second of the IMU without gaps in '{trajectory.name}'",
                    expected="angular velocity and acceleration of the base throughout",
                    place=Place(file=str(trajectory.file)),
                )
            verticals[trajectory.name] = cast(
                tuple[Float, Float], tuple(np.concatenate(kind) for kind in zip(*parts, strict=True))
            )
        return verticals

    def contact(self, samples: Samples) -> Bool:
        """Active contacts (T, k): logged, else detected from forces and motion; supports per trajectory."""
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

    def _measured_forces(self, samples: Samples) -> Float:
        """Torques (T, n) of the vertical forces that are measured at the contacts."""
        up, torque, first = samples.extra[UP], np.zeros_like(samples.tau), 0
        measured = [contact for contact in self.contacts if contact.measured]
        J = contact_jacobian(self.robot, tuple(measured), samples.q, up)
        vertical = vertical_in_world(self.robot, up)
        for contact in measured:
            along = np.einsum("ti,tin->tn", vertical, J[:, first : first + 3])
            torque += samples.extra[f"contact:{contact.link}"][:, None] * along
            first += contact.rows
        return torque

    def pressed(self, samples: Samples, others: Bool) -> Bool:
        """Feet (T, feet) that by the robot file carry more than the share LOADED of the weight."""
        feet = len(self.contacts) - len(self.base.supports)
        force = self.normal_forces(samples, others)
        return force[:, :feet] > LOADED * self._weight()

    @property
    def imu_place(self) -> Float:
        """Place (3,) of the IMU in the frame of the base link, m."""
        return _Imu.of(self.robot, self.base.imu).place

    def expected_contacts(self) -> Callable[[Samples], Bool] | None:
        """Predictor of the loaded feet, for checking logged contact flags; None without flags, masses or a torque."""
        unknown = bool(self.prepared.log.unmeasured) or not self.base.measured
        if unknown or not np.isfinite(self.robot.inertia_prior[:, 0]).all():
            return None
        return lambda samples: self.pressed(samples, np.asarray(samples.extra[CONTACT]) > 0.5)

    def normal_forces(self, samples: Samples, others: Bool) -> Float:
        """Vertical contact forces (T, k) predicted from the robot file.

        The most probable solution of tau + J' f = Y theta; zero for supports that are not attached.
        """
        robot = self.robot
        rest = prior_torque(robot, samples) - samples.tau
        up = samples.extra[UP]
        J = contact_jacobian(robot, self.contacts, samples.q, up)
        owner = np.repeat(np.arange(len(self.contacts)), [each.rows for each in self.contacts])
        first = np.searchsorted(owner, np.arange(len(self.contacts)))
        feet = np.arange(len(self.contacts)) < len(self.contacts) - len(self.base.supports)
        normal = np.zeros((len(samples), len(self.contacts)))
        world = vertical_in_world(robot, up)
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
                expected="flags, or the weight of the robot, which shows when a foot is in contact",
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
    spread = [np.convolve(line, window)[reach : reach + len(line)] > 0.5 for line in flags.T]
    return np.array(spread, dtype=np.bool_).reshape(flags.T.shape).T


def read_floating(
    log: Log, floating: RobotModel, preparation: Preparation, diagnostics: Diagnostics
) -> tuple[FloatingData, list[Samples], LogSummary]:
    """Read the samples of a floating robot and the summary of a log.

    `log`: log of the joints, with the sensors of the base; `floating`: the robot with a floating base; `preparation`:
    signal settings; `diagnostics`: collects warnings and notes.
    """
    if preparation.cutoff == "auto":
        rate = sensible_rate(log.duration / max(sum(t.row_count for t in log.trajectories), 1))
        cutoff = min(CUTOFF, 0.1 * rate)
        state = 2.0 * cutoff if preparation.state_cutoff == "auto" else preparation.state_cutoff
        preparation = replace(preparation, cutoff=cutoff, state_cutoff=state)
    prepared = prepare(log, preparation, diagnostics)
    base = cast(FloatingBase, log.channels.base)
    contacts = contacts_of(log.robot, floating, base, diagnostics, log.channels.weighed)
    data = FloatingData(prepared, floating, base, contacts)
    watch = LogWatch(log, diagnostics, np.ones(log.robot.n, dtype=np.bool_))
    processed = [prepared.process(window) for window in prepared.windows(watch)]
    return data, data.samples(processed), watch.finish()


# Rows of a fit in the run folder, so that other logs are scored with the same weights.


def describe_rows(rows: FloatingRows) -> dict[str, Any]:
    """Plain data of the equations for the run folder: standard deviations of the rows by contact set."""
    return {
        "name": rows.name,
        "options": {
            "usual": list(rows.usual),
            "sigma": [
                {"contacts": list(key), "deviations": list(sigma)} for key, sigma in rows.sigma.items()
            ],
        },
        "reason": "the base floats, and forces of contacts are unknown",
        "evidence": {},
    }


def stored_rows(stored: Mapping[str, Any], contacts: tuple[Contact, ...]) -> FloatingRows:
    """Equations of a run folder for the contacts of another log.

    Contact sets of a fit with another number of contacts do not apply, since a rope may hang in one log only.
    """
    options = stored.get("options", {})
    sigma = {
        tuple(entry["contacts"]): tuple(entry["deviations"])
        for entry in options.get("sigma", ())
        if len(entry["contacts"]) == len(contacts)
    }
    return FloatingRows(contacts, sigma, tuple(options.get("usual", ())))


def refuse_floating(robot: RobotModel, action: str) -> None:
    """Raise UsageError for an action that needs the forces of the ground, if the base of a robot floats."""
    if robot.floats:
        raise UsageError(
            "floating-run",
            found=f"{action} with a floating base",
            expected="a fixed base: torques alone do not give the forces of the ground",
            do="simulate the URDF of dynid export RUN --to model.urdf with contacts",
        )
