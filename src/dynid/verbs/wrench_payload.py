"""Payload of a force/torque sensor from positions or poses: mass, centre and inertia without joint torque."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import InputError, Place, UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.base.units import with_interval
from dynid.log.files import open_table
from dynid.log.log import Text
from dynid.log.mapping import wrench_groups
from dynid.log.read import Log
from dynid.robot.links import GRAVITY
from dynid.rows.wrench import AXES, WrenchTree, load_regressor
from dynid.signals.filter import (
    at_times,
    first_difference,
    low_passed,
    second_difference,
    sensible_rate,
)
from dynid.verbs.payload import OPEN, UNDETERMINED, RigidLoad, load_data, load_lines, slopes_of_properties
from dynid.verbs.wrench_fit import (
    FORCES,
    GAIN,
    TORQUES,
    TURN,
    WrenchData,
    WrenchFit,
    fit_wrench,
    held_out,
    rotation_of,
)

# Hz: motion of a hand lies below, noise of sensors and of accelerations above; at most this share of the sampling rate.
CUTOFF, HIGHEST_SHARE, ORDER = 4.0, 0.2, 4
# Samples per period of the cutoff frequency, and most samples of a fit, which are spread over longer logs.
OVERSAMPLING, MOST_SAMPLES = 4, 6000
# Gaps of more steps, and segments of fewer seconds or samples, separate segments or are left out.
GAP, SHORTEST, FEWEST = 4.0, 1.0, 10
# Samples of a window, so that the memory of a long log stays at some 100 MB.
LONGEST = 50_000
# rad/s: slower sensors are at rest, after so many seconds.
STILL, SETTLE = 0.02, 0.3
# Fewest static poses: the force of one pose cannot be distinguished from a bias.
FEWEST_POSES = 3
# Least share of the greatest spread of gravity's directions in the least one, for axes that can be compared.
SPANNED = 0.1
# Times by which the error of the declared axes must exceed that of others to be doubted.
CLEARLY = 2.0
# Standard deviations of a nuisance beyond which its prior does not hold.
BEYOND = 3.0
# Standard errors from which an axis responds to another one.
SURE = 4.0
# Samples in a row at one extreme value, and times the longest run at another value, that are a sensor at its limit.
STUCK, UNLIKE = 8, 3.0
_NAMES = {"sensor": "the axes of the link", "base": "the axes of the base"}


@dataclass(frozen=True, eq=False)
class WrenchPayload(RigidLoad):
    """A load on a force/torque sensor, with 95 % intervals, and the sensor's errors.

    Attributes
    ----------
    sensor : str
        Name of the sensor.
    frame : str
        Axes of its components: "sensor", "base" or a link.
    sign : int
        1: the sensor reports the wrench on the load; -1: that of the load.
    fit : WrenchFit
        The fit, with biases, drift, mounting rotation, tilt of the base and gains.
    error : ndarray, shape (6,), N, N m
        Held-out error of each axis, root mean square.
    rivals : mapping of str to float
        Held-out error of the forces, as a share of their variation, by the axes that they were assumed to have.
    directions : int
        Number of independent directions of gravity in the sensor's axes.
    samples : int

    """

    sensor: str
    frame: str
    sign: int
    fit: WrenchFit
    error: Float
    rivals: Mapping[str, float]
    directions: int
    samples: int

    def __repr__(self) -> str:
        return "\n".join(wrench_payload_lines(self))

    @property
    def bias(self) -> Float:
        """Mean bias of each axis, (6,), as the log counts it; N, N m."""
        return np.asarray(self.sign * self.fit.bias.mean(axis=0))

    @property
    def bias_half_width(self) -> Float:
        """95 % half widths of `bias`, (6,)."""
        return np.asarray(1.96 * self.fit.bias_std)

    def force_error(self) -> float:
        """Held-out error of the forces, root mean square, N."""
        return float(np.sqrt(np.mean(self.error[FORCES] ** 2)))

    def torque_error(self) -> float:
        """Held-out error of the torques, root mean square, N m."""
        return float(np.sqrt(np.mean(self.error[TORQUES] ** 2)))

    @property
    def determined(self) -> Bool:
        """Which of `properties` the data determine, (10,); an inertia only if they tell more than the mass does."""
        known = RigidLoad.determined.fget(self)  # type: ignore[attr-defined]  # a property
        J = slopes_of_properties(self.parameters)
        shape = J[4:] @ self.fit.prior.parameters(self.fit.x)[1][:10, 4:10]
        after = np.einsum("ij,jk,ik->i", J, self.covariance, J)[4:]
        known[4:] &= after < (1.0 - UNDETERMINED) * np.sum(shape**2, axis=1)
        return np.asarray(known)

    def missing(self) -> list[str]:
        """Motions that would determine what these data do not; empty if nothing is missing."""
        known, advice = self.determined, []
        if not known[:4].all():
            advice.append(
                f"gravity covers {self.directions} of 3 directions in the sensor frame: record six or more poses, "
                "rotated about two horizontal axes"
            )
        axes = [axis for axis, k in zip("xyz", (4, 6, 9), strict=True) if not known[k]]
        if axes:
            advice.append(
                f"for the inertia, rotate the sensor back and forth about {', '.join(axes)} at 1 rad/s or more"
            )
        return advice


def wrench_payload_lines(result: WrenchPayload, expected: float | None = None) -> list[str]:
    """The load in words, one line per value, then the sensor's errors; expected: a mass to compare with, kg."""
    fit, known = result.fit, result.determined
    lines = load_lines(result, "frame")
    for name, axes, unit in (("force", FORCES, "N"), ("torque", TORQUES, "N m")):
        values = ", ".join(
            with_interval(value, half)
            for value, half in zip(result.bias[axes], result.bias_half_width[axes], strict=True)
        )
        spread = np.ptp(fit.bias[:, axes], axis=0)
        drifts = f"drifts by up to {spread.max():.2g} {unit}"
        steady = (spread < result.bias_half_width[axes]).all()
        lines.append(f"bias of the {name}: {values} {unit}; it {'is constant' if steady else drifts}")
    turn = float(np.degrees(np.linalg.norm(_vector(rotation_of(fit.turn) @ fit.mounted))))
    lines.append(
        f"sensor rotated by {turn:.2g} deg relative to its link, gains "
        + ", ".join(f"{100 * gain:+.1f}" for gain in fit.gain)
        + f" % (each known to {100 * GAIN:g} % before)"
    )
    of = "on the load" if result.sign > 0 else "of the load"
    others = ", ".join(
        f"{_NAMES.get(frame, frame)} {100 * error:.2g} %" for frame, error in result.rivals.items()
    )
    lines.append(
        f"components in {_NAMES.get(result.frame, f'the axes of {result.frame}')}, wrench {of}"
        + (f"; held-out force error with {others}" if others else "")
    )
    lines.append(
        f"held-out error {result.force_error():.2g} N and {1e3 * result.torque_error():.2g} mN m, "
        f"{result.samples} samples"
    )
    lines += result.missing()
    if expected is not None and known[0]:
        factor, least, most = result.explaining(expected)
        lines.append(
            f"expected {expected:g} kg: this would need forces {factor:.3g} ({least:.3g} to {most:.3g}) times as large"
        )
    elif expected is not None:
        lines.append(f"expected {expected:g} kg: cannot be compared, because the mass is {OPEN}")
    return lines


def wrench_payload_data(result: WrenchPayload, expected: float | None = None) -> dict[str, Any]:
    """The load as plain data; `ten_parameters` are the options of the term `known_payload`."""
    fit = result.fit

    def by_axis(values: Float) -> dict[str, float]:
        return dict(zip(AXES, np.asarray(values).tolist(), strict=True))

    data = load_data(result) | {
        "sensor": {
            "name": result.sensor,
            "frame": result.frame,
            "sign": result.sign,
            "bias": by_axis(result.bias),
            "bias_half_width95": by_axis(result.bias_half_width),
            "drift": by_axis(np.ptp(fit.bias, axis=0)),
            "turn": fit.turn.tolist(),
            "tilt": fit.tilt.tolist(),
            "gain": by_axis(fit.gain),
            "held_out_error": by_axis(result.error),
            "frames": dict(result.rivals),
        },
        "samples": result.samples,
        "missing": result.missing(),
    }
    if expected is not None:
        factor, least, most = result.explaining(expected) if result.determined[0] else (None,) * 3
        upper = most if most is not None and np.isfinite(most) else None
        data["expected"] = {"mass": expected, "force_factor": factor, "from": least, "to": upper}
    return data


# Data: a log of a robot, or a table of poses.


@dataclass(frozen=True, eq=False)
class _Window:
    # Uniform in time.    wrench: (6, T).    rows: (T, 6, 10).    rotation: (T, 3, 3).    keep: (T,) samples that count.
    # number: of the recording.
    number: int
    t: Float
    wrench: Float
    rows: Float
    rotation: Float
    keep: Bool
    rate: float


def data_of_log(log: Log, name: str, diagnostics: Diagnostics) -> tuple[WrenchData, Float]:
    """Wrench and motion of a sensor in a log, and the wrench turned from the base's or a link's axes; filtered alike.

    Raises UsageError for a sensor that carries joints, and UnfitDataError for too short a log.
    """
    sensor = next(sensor for sensor in log.channels.wrench if sensor.name == name)
    tree = WrenchTree.of(log.robot, sensor.link)
    if tree.carried:
        raise UsageError(
            "wrench-link",
            found=f"sensor '{name}' at link '{sensor.link}', which carries {len(tree.carried)} moving links",
            expected="a link that no joint follows",
            do="lock the joints beyond it with --lock, or name the last link",
        )
    other = None if sensor.frame in (None, "sensor", "base") else WrenchTree.of(log.robot, str(sensor.frame))

    def windows() -> Iterator[_Window]:
        for number, trajectory in enumerate(log.trajectories):
            chunk = log.read(trajectory)
            lines = np.concatenate([chunk.wrench[name].T, chunk.q.T])
            saturated = _saturated(lines[:6], name, diagnostics)
            for t, part, keep, rate in _uniform(chunk.t, lines, saturated):
                cutoff = min(CUTOFF, HIGHEST_SHARE * rate)
                q = low_passed(part[6:], [cutoff] * len(part[6:]), ORDER, rate)
                motion = [x.T for x in (q, first_difference(q, rate), second_difference(q, rate))]
                moved = log.robot.tree_motion(*motion)
                rotation, wrench = _rotation(tree, moved[0]), part[:6]
                if other is not None:
                    wrench = _turned(rotation.transpose(0, 2, 1) @ _rotation(other, moved[0]), wrench.T).T
                yield _Window(number, t, wrench, tree.rows(*moved), rotation, keep, rate)

    return _joined(windows(), log.duration, log.robot.gravity)


def data_of_table(
    path: str | Path, diagnostics: Diagnostics, gravity: Float | None = None
) -> tuple[WrenchData, Float]:
    """Wrench and motion of a sensor in a table of poses, in SI units.

    Columns qx, qy, qz, qw (sensor in the base frame), fx to tz or other names of a wrench, and optionally the time t
    and px, py, pz. Without time, each row is a pose at rest. With time but without positions, only rest is used.

    Raises InputError for missing columns and rows with missing numbers, and UnfitDataError for too few poses.
    """
    path, g = Path(path), np.array(GRAVITY) if gravity is None else gravity
    table = open_table(path)
    names = {name.lower(): name for name in table.column_names}
    groups = wrench_groups(table.column_names)
    quaternion = [names.get(f"q{axis}") for axis in "wxyz"]
    if not groups or None in quaternion:
        raise InputError(
            "missing-column",
            found=f"columns {', '.join(table.column_names[:20])}",
            expected="qx, qy, qz, qw (sensor in the base frame) and fx, fy, fz, tx, ty, tz; optionally t, px, py, pz",
            do="rename the columns",
            place=Place(file=str(path)),
        )
    wanted = [*next(iter(groups.values())), *(str(name) for name in quaternion)]
    time = next((names[name] for name in ("t", "time") if name in names), None)
    position = [names[f"p{axis}"] for axis in "xyz"] if {"px", "py", "pz"} <= set(names) else []
    values = _columns(table, (*wanted, *position, *([time] if time else [])))
    lines = np.array([values[name] for name in wanted])
    bad = ~np.isfinite(lines).all(axis=0)
    if bad.any():
        raise InputError(
            "wrong-pose",
            found="a pose with a missing number",
            expected="a wrench and a quaternion",
            place=Place(file=str(path), row=int(np.argmax(bad))),
        )
    norm = np.linalg.norm(lines[6:], axis=0)
    if lines.shape[1] and np.abs(norm - 1.0).max() > 0.05:
        raise InputError(
            "wrong-pose",
            found=f"a quaternion of length {norm[np.argmax(np.abs(norm - 1.0))]:.3g}",
            expected="length 1",
            place=Place(file=str(path), row=int(np.argmax(np.abs(norm - 1.0)))),
        )
    if time is None:
        rotation = _rotations((lines[6:] / norm).T)
        if len(rotation) < FEWEST_POSES:
            raise _too_few(len(rotation))
        still = np.zeros((len(rotation), 3))
        rows = load_regressor(still, still, -(g @ rotation))
        number = np.arange(len(rotation))
        data = WrenchData(rows, rotation, lines[:6].T, number.astype(np.float64), np.zeros_like(number), g)
        return data, _turned(rotation.transpose(0, 2, 1), data.wrench)
    flips = np.where(np.einsum("ij,ij->j", lines[6:, 1:], lines[6:, :-1]) < 0, -1.0, 1.0)
    lines[6:, 1:] *= np.cumprod(flips)
    lines = np.concatenate([lines, *(values[name][None] for name in position)])

    def windows() -> Iterator[_Window]:
        saturated = _saturated(lines[:6], path.name, diagnostics)
        for t, part, counts, rate in _uniform(values[time], lines, saturated):
            cutoff = min(CUTOFF, HIGHEST_SHARE * rate)
            smooth = low_passed(part[6:], [cutoff] * len(part[6:]), ORDER, rate)
            unit = smooth[:4] / np.linalg.norm(smooth[:4], axis=0)
            rotation = _rotations(unit.T)
            omega, alpha = (
                2.0 * _local(unit, slope(unit, rate)) for slope in (first_difference, second_difference)
            )
            if position:
                moved, keep = second_difference(smooth[4:], rate).T, counts
            else:
                keep = counts & _resting(omega, rate)
                omega, alpha, moved = np.zeros((3, *omega.shape))
            specific = np.einsum("tji,tj->ti", rotation, moved - g)
            yield _Window(0, t, part[:6], load_regressor(omega, alpha, specific), rotation, keep, rate)

    return _joined(windows(), float(np.nanmax(values[time]) - np.nanmin(values[time])), g)


def _columns(table: Any, names: tuple[str, ...]) -> dict[str, Float]:
    parts: dict[str, list[Float]] = {name: [] for name in names}
    for batch in table.batches(names, 65536):
        for name in names:
            if isinstance(batch[name], Text):
                raise InputError(
                    "text-cell",
                    found=f"text in column '{name}'",
                    expected="numbers",
                    place=Place(file=str(table.path)),
                )
            parts[name].append(batch[name])
    return {name: np.concatenate(values) if values else np.zeros(0) for name, values in parts.items()}


def _too_few(count: int) -> UnfitDataError:
    return UnfitDataError(
        "too-few-poses",
        found=f"{count} pose{'' if count == 1 else 's'}",
        expected=f"at least {FEWEST_POSES}, better ten: the weight in one pose cannot be distinguished from a bias",
        do="turn the sensor to poses in which gravity points along different axes of it",
    )


def _uniform(t: Float, lines: Float, bad: Bool) -> Iterator[tuple[Float, Float, Bool, float]]:
    """Windows without gaps on a uniform grid: times, lines, samples that count, and the rate."""
    fine = np.isfinite(lines).all(axis=0) & np.isfinite(t)
    t, lines, bad = t[fine], lines[:, fine], bad[fine]
    forward = (
        np.concatenate([[True], np.diff(np.maximum.accumulate(t)) > 0])
        if len(t)
        else np.zeros(0, dtype=np.bool_)
    )
    t, lines, bad = t[forward], lines[:, forward], bad[forward]
    if len(t) < FEWEST:
        return
    step = float(np.median(np.diff(t)))
    rate = sensible_rate(step)
    for whole in np.split(np.arange(len(t)), np.flatnonzero(np.diff(t) > GAP * step) + 1):
        for piece in np.array_split(whole, max(-(-len(whole) // LONGEST), 1)):
            if len(piece) < FEWEST or np.ptp(t[piece]) < SHORTEST:
                continue
            grid = np.arange(t[piece[0]], t[piece[-1]], 1.0 / rate)
            nearest = np.clip(np.searchsorted(t[piece], grid), 0, len(piece) - 1)
            yield grid, at_times(t[piece], lines[:, piece], grid), ~bad[piece][nearest], rate


def _joined(windows: Iterator[_Window], seconds: float, gravity: Float) -> tuple[WrenchData, Float]:
    """Filtered samples of windows, and the wrench turned from the base's axes; a longer log has fewer per second."""
    parts: list[list[Float]] = [[] for _ in range(6)]
    thinning = max(seconds * OVERSAMPLING * CUTOFF / MOST_SAMPLES, 1.0)
    for window in windows:
        rate, T = window.rate, len(window.t)
        cutoff = min(CUTOFF, HIGHEST_SHARE * rate)
        step, edge = max(1, round(rate / (OVERSAMPLING * cutoff) * thinning)), round(rate / cutoff)
        turned = _turned(window.rotation.transpose(0, 2, 1), window.wrench.T).T
        lines = np.concatenate([window.wrench, turned, window.rows.reshape(T, 60).T])
        filtered = low_passed(lines, [cutoff] * len(lines), ORDER, rate)
        near = np.convolve(~window.keep, np.ones(2 * edge + 1), "same") > 0.5
        index = np.arange(edge, T - edge, step)
        index = index[~near[index]]
        columns = (
            filtered[12:, index].T.reshape(-1, 6, 10),
            window.rotation[index],
            filtered[:6, index].T,
            window.t[index],
            np.full(len(index), window.number),
            filtered[6:12, index].T,
        )
        for part, column in zip(parts, columns, strict=True):
            part.append(column)
    count = sum(map(len, parts[3]))
    if count < FEWEST:
        raise UnfitDataError(
            "too-short",
            found=f"{count} samples with positions and wrench",
            expected=f"at least {FEWEST}, from {SHORTEST:g} s or more without gaps",
            do="record longer",
        )
    rows, rotation, wrench, time, number, other = (np.concatenate(part) for part in parts)
    return WrenchData(rows, rotation, wrench, time, number.astype(np.int64), gravity), other


def _saturated(wrench: Float, name: str, diagnostics: Diagnostics) -> Bool:
    """Samples (T,) in which an axis of the wrench (6, T) is at its limit, with a warning."""
    bad = np.zeros(wrench.shape[1], dtype=np.bool_)
    for axis, values in zip(AXES, wrench, strict=True):
        change = np.flatnonzero(np.diff(values) != 0)
        starts, ends = np.concatenate([[0], change + 1]), np.concatenate([change + 1, [len(values)]])
        for limit in (values.max(initial=-np.inf), values.min(initial=np.inf)):
            at = values[starts] == limit if len(values) else np.zeros(0, dtype=np.bool_)
            length = ends - starts
            longest, other = length[at].max(initial=0), length[~at].max(initial=1)
            if longest >= STUCK and longest > UNLIKE * other:
                share = float(np.mean(values == limit))
                bad |= values == limit
                diagnostics.warn(
                    "wrench-saturated",
                    f"{axis} of '{name}' stays at {limit:.4g} in {100 * share:.2g} % of the samples: the sensor is at "
                    "its limit there, and these samples are left out",
                )
    return bad


def _turned(R: Float, wrench: Float) -> Float:
    # Forces and torques (T, 6) turned by rotations (T, 3, 3).
    return np.concatenate([np.einsum("tij,tj->ti", R, wrench[:, axes]) for axes in (FORCES, TORQUES)], axis=1)


def _rotation(tree: WrenchTree, q: Float) -> Float:
    """Axes of the sensor (T, 3, 3) in the base frame: the force on a mass at rest points against gravity."""
    rest = np.zeros_like(q)
    pulls = [replace(tree, tree=replace(tree.tree, gravity=unit)).rows(q, rest, rest) for unit in np.eye(3)]
    return -np.stack([rows[:, :3, 0] for rows in pulls], axis=1)


def _rotations(wxyz: Float) -> Float:
    w, x, y, z = wxyz.T
    entries = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(entries), -1, 0)


def _local(unit: Float, change: Float) -> Float:
    """Vector part (T, 3) of the conjugate of quaternions (4, T) times their derivative: half the rate in local axes."""
    w, v, dw, dv = unit[0], unit[1:], change[0], change[1:]
    return np.asarray((w * dv - dw * v - np.cross(v, dv, axis=0)).T)


def _resting(omega: Float, rate: float) -> Bool:
    moving = np.linalg.norm(omega, axis=1) > STILL
    return np.asarray(np.convolve(moving, np.ones(2 * round(SETTLE * rate) + 1), "same") < 0.5)


# The axes that the components have.


def _axes(data: WrenchData) -> tuple[Float, float, Float, Float, Float] | None:
    """Rotation (3, 3) and sign of a wrench against the sensor's axes, held-out force error, and scales of the axes.

    Last come the least over the greatest singular value of forces and torques, and the relative scales of the forces.

    Forces are a free matrix times the specific force, whose polar factors are the rotation and the scales. None if
    gravity does not span the axes.
    """
    felt = data.rows[:, FORCES, 0]
    spread = np.linalg.svd(felt - felt.mean(axis=0), compute_uv=False)
    if len(felt) < 8 or not spread[-1] > SPANNED * spread[0]:
        return None
    X = np.column_stack([felt, data.segment[:, None] == np.unique(data.segment)])

    def solved(rows: Any, axes: slice) -> Float:
        return np.asarray(np.linalg.lstsq(X[rows], data.wrench[rows, axes], rcond=None)[0])

    everything = np.arange(len(X))
    error = 0.0
    for fold in np.array_split(everything, 5):
        kept = np.setdiff1d(everything, fold)
        error += float(np.sum((data.wrench[fold, FORCES] - X[fold] @ solved(kept, FORCES)) ** 2))
    varied = float(np.sum((data.wrench[:, FORCES] - data.wrench[:, FORCES].mean(axis=0)) ** 2))
    A = solved(everything, FORCES)[:3].T
    U, _, V = np.linalg.svd(A)
    sign = float(np.sign(np.linalg.det(A)))
    R = sign * U @ V
    torque = np.linalg.svd(solved(everything, TORQUES)[:3], compute_uv=False)
    force = np.linalg.svd(A, compute_uv=False)
    ends = np.array([force[-1] / force[0], torque[-1] / torque[0]])
    size = np.linalg.norm(A, axis=1)
    return R, sign, np.sqrt(error / max(varied, 1e-300)), ends, size / np.median(size) - 1.0


def _held_out(data: WrenchData, fit: WrenchFit) -> Float:
    return held_out(data, fit) if len(data.time) >= FEWEST else fit.residual


def _cross_talk(fit: WrenchFit) -> list[tuple[int, int, float]]:
    """Axis, other axis of the same kind and its share in what is left over, of shares that count."""
    shares_that_count = []
    for axes in (FORCES, TORQUES):
        load = fit.load[:, axes] - fit.load[:, axes].mean(axis=0)
        inverse = np.linalg.pinv(load.T @ load)
        shares = inverse @ (load.T @ fit.residual[:, axes])
        error = np.sqrt(np.outer(np.diag(inverse), fit.sigma[axes] ** 2 * fit.effect[axes]))
        counts = (np.abs(shares) > GAIN) & (np.abs(shares) > SURE * error) & ~np.eye(3, dtype=np.bool_)
        first = axes.start
        shares_that_count += [
            (first + int(i), first + int(j), float(shares[j, i])) for j, i in np.argwhere(counts)
        ]
    return shares_that_count


def _vector(R: Float) -> Float:
    """Rotation vector of a rotation, also near half a turn."""
    vectors = np.linalg.eigh(0.5 * (R + R.T))[1]
    axis = vectors[:, -1]
    sine = 0.5 * float(axis @ [R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    return np.asarray(axis * np.arctan2(sine, 0.5 * (np.trace(R) - 1.0)))


def _estimate(
    name: str, link: str, declared: str | None, data: WrenchData, based: Float, diagnostics: Diagnostics
) -> WrenchPayload:
    """Estimate in the axes that are declared, or else in those with the smaller held-out error."""
    candidates = {"sensor": data, "base": replace(data, wrench=based)}
    if declared not in (None, "sensor", "base"):
        candidates = {str(declared): data}
    axes = {frame: _axes(candidate) for frame, candidate in candidates.items()}
    rivals = {frame: float(known[2]) for frame, known in axes.items() if known is not None}
    best = min(rivals, key=rivals.__getitem__, default="sensor")
    frame = best if declared is None else declared
    doubted = declared is not None and bool(rivals) and rivals[frame] > CLEARLY * rivals[best]
    if doubted:
        diagnostics.warn(
            "wrench-frame",
            f"forces of '{name}' fit {_NAMES[best]} to {100 * rivals[best]:.2g} %, {_NAMES[frame]} to "
            f"{100 * rivals[frame]:.2g} % (held out): use --frame {best}, or frame in the mapping",
        )
    chosen, known = candidates[frame], axes[frame]
    if known is None:
        felt, force = (x - x.mean(axis=0) for x in (chosen.rows[:, FORCES, 0], chosen.wrench[:, FORCES]))
        sign, mounted, scales = float(np.sign(np.sum(felt * force)) or 1.0), np.eye(3), np.zeros(3)
    else:
        mounted, sign, _, ends, scales = known
        if np.linalg.norm(_vector(mounted)) < BEYOND * TURN:
            mounted = np.eye(3)
        if ends[1] > SPANNED and ends[0] < SPANNED:
            diagnostics.warn(
                "wrench-exchanged",
                f"torques of '{name}' follow gravity as forces do, and its forces do not: exchange the columns of "
                "forces and torques",
            )
    chosen = replace(chosen, wrench=sign * chosen.wrench)
    fit = fit_wrench(chosen, mounted)
    error = _held_out(chosen, fit)
    if np.abs(scales).max() > BEYOND * GAIN:
        # Drift imitates wrong scales, so that a fit that believes in the scales does not reveal them.
        free = fit_wrench(chosen, mounted, gain=float(np.sqrt(np.mean(scales**2))) + GAIN)
        free_error = _held_out(chosen, free)
        if np.sum(error[:, FORCES] ** 2) > CLEARLY**2 * np.sum(free_error[:, FORCES] ** 2):
            fit, error = free, free_error
    if np.abs(fit.gain).max() > BEYOND * GAIN:
        listed = ", ".join(f"{axis} {100 * gain:+.2g} %" for axis, gain in zip(AXES, fit.gain, strict=True))
        diagnostics.warn(
            "wrench-scales",
            f"axes of '{name}' have different scales ({listed}): the sensor is not calibrated, and the mass is only as "
            "exact as their mean; calibrate it with a known weight",
        )
    vector = _vector(rotation_of(fit.turn) @ fit.mounted)
    for sensed, other, share in _cross_talk(fit):
        diagnostics.warn(
            "wrench-cross-talk",
            f"{AXES[sensed]} of '{name}' responds to {AXES[other]} by {100 * share:.2g} %: check the sensor's "
            "calibration matrix",
        )
    turn = float(np.linalg.norm(vector))
    if turn > BEYOND * TURN and not doubted:
        axis = ", ".join(f"{x:.2f}" for x in vector / turn)
        diagnostics.warn(
            "wrench-turned",
            f"the axes of '{name}' are turned by {np.degrees(turn):.3g} deg about ({axis}) against link '{link}', in "
            "whose axes the load is given: declare the link in whose axes the sensor measures",
        )
    felt = chosen.rows[:, FORCES, 0]
    spread = np.linalg.svd(felt - felt.mean(axis=0), compute_uv=False)
    result = WrenchPayload(
        body=link,
        parameters=fit.parameters,
        covariance=fit.covariance,
        noise=fit.covariance,
        blocks=max(int(np.sum(len(chosen.time) / fit.effect)) - 21, 2),
        before=fit.before,
        sensor=name,
        frame=frame,
        sign=int(sign),
        fit=fit,
        error=np.sqrt(np.mean(error**2, axis=0)),
        rivals=rivals,
        directions=int(np.sum(spread > SPANNED * np.sqrt(len(felt)) * np.linalg.norm(data.gravity))),
        samples=len(chosen.time),
    )
    if not result.determined[:4].all():
        diagnostics.warn(
            "wrench-poses", f"these poses do not determine mass and centre of the load: {result.missing()[0]}"
        )
    return result


def payload_from_wrench(
    log: Any,
    sensor: str | None = None,
    *,
    frame: str | None = None,
    gravity: Any = None,
    diagnostics: Diagnostics | None = None,
) -> WrenchPayload:
    """Identify the load of a force/torque sensor: everything that it carries.

    Parameters
    ----------
    log : Log, str or Path
        A log with a sensor under [log.wrench], or a table of sensor poses and wrenches (`data_of_table`).
    sensor : str, optional
        Name of the sensor; None = the only one of the log.
    frame : {"sensor", "base"}, optional
        Whose axes the components have, instead of the declared ones; None = as declared, else by held-out error.
    gravity : array_like, shape (3,), m/s^2, optional
        In the base frame of a table; a log has that of its robot.
    diagnostics : Diagnostics, optional
        Collects warnings and notes.

    Returns
    -------
    WrenchPayload
        In the frame of the sensor's link.

    Raises
    ------
    UsageError
        For an unknown sensor, or one that carries joints.
    InputError
        For columns that are missing or not numbers.
    UnfitDataError
        For too few poses or samples.

    """
    sink = diagnostics if diagnostics is not None else Diagnostics()
    if frame not in (None, "sensor", "base"):
        raise UsageError("wrench-frame", found=f"frame '{frame}'", expected="sensor or base")
    if not isinstance(log, Log):
        data, based = data_of_table(
            log, sink, None if gravity is None else np.asarray(gravity, dtype=np.float64)
        )
        return _estimate(sensor or Path(log).name, sensor or "sensor", frame, data, based, sink)
    sensors = {known.name: known for known in log.channels.wrench}
    name = sensor if sensor is not None else next(iter(sensors), "")
    if name not in sensors or (sensor is None and len(sensors) != 1):
        raise UsageError(
            "no-wrench",
            found=f"no sensor '{name}' in the log" if sensor else f"{len(sensors)} sensors in the log",
            expected="one of " + (", ".join(sensors) or "the sensors under [log.wrench]"),
        )
    if not np.linalg.norm(log.robot.gravity) > 0:
        raise UsageError("wrench-link", found="a robot without gravity", expected="gravity in the base frame")
    data, based = data_of_log(log, name, sink)
    return _estimate(name, sensors[name].link, frame or sensors[name].frame, data, based, sink)
