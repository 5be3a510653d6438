"""Stiffness from deflection and transmitted torque, with an interval that is honest about errors in both."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from dynid.base.arrays import Float
from dynid.base.distributions import student_quantile
from dynid.base.errors import UnfitDataError
from dynid.base.records import dataclass
from dynid.factor.assemble import Assembly
from dynid.signals.samples import Samples
from dynid.terms.elastic import SpringTerm

SIGN_WIDTH = 0.01
DEFLECTION, TORQUE, DISTURBANCES = 1, 2, slice(3, None)
LEAST_BLOCKS = 3


@dataclass(frozen=True)
class StiffnessRange:
    """What deflection and torque say about one joint's stiffness, N m/rad (N/m).

    forward: torque regressed on deflection, too small where the deflection has errors.
    inverse: from deflection regressed on torque, too large where the torque has errors.
    value: their geometric mean.    lower, upper: 95 % interval of the whole range: forward less, inverse plus its own.
    explained: share of the torque's variance that the deflection explains, forward / inverse.
    """

    joint: str
    forward: float
    inverse: float
    value: float
    lower: float
    upper: float
    explained: float


@dataclass(frozen=True, eq=False)
class _Sums:
    # Per segment and block the products of [1, deflection, torque, disturbances], (n, k, k).
    segment: int
    products: Float


def stiffness_ranges(
    assembly: Assembly, joints: Iterable[int], batches: Iterable[Samples], theta: Float
) -> tuple[StiffnessRange, ...]:
    """Ranges of the stiffness of joints with two encoders.

    The transmitted torque is the measured one less what the model gives to the motor besides its springs. A zero of the
    encoders (by segment), hysteresis with the sign of the velocity, a lag of one encoder (with the velocity) and the
    eccentricity of a link encoder (sine and cosine of its angle) are taken out of both sides first. Of what is left
    both regressions are formed; with independent errors in both the truth lies between them (Frisch 1934), and the
    interval adds the block jackknife's to each end.

    theta: (p,) parameters of assembly.terms.    Raises UnfitDataError for a log with one encoder or too few blocks.
    """
    blocks = _blocks(assembly, batches, theta)
    if len(blocks) < LEAST_BLOCKS:
        raise UnfitDataError(
            "too-few-blocks", found=f"{len(blocks)} block(s) of data", expected=f"at least {LEAST_BLOCKS}"
        )
    return tuple(_range(assembly.robot.joint_names[j], [_of_joint(b, j) for b in blocks]) for j in joints)


def _of_joint(block: _Sums, joint: int) -> _Sums:
    return _Sums(block.segment, block.products[joint])


def _range(name: str, blocks: list[_Sums]) -> StiffnessRange:
    forward, inverse = _slopes(blocks)
    M = len(blocks)
    without = np.array([_slopes(blocks[:m] + blocks[m + 1 :]) for m in range(M)])
    std = np.sqrt((M - 1) / M * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    half = float(student_quantile(M - 1, 0.975)) * std
    sign = 1.0 if forward >= 0 else -1.0
    return StiffnessRange(
        joint=name,
        forward=forward,
        inverse=inverse,
        value=sign * float(np.sqrt(forward * inverse)),
        lower=min(forward, inverse) - float(half[0 if forward <= inverse else 1]),
        upper=max(forward, inverse) + float(half[1 if forward <= inverse else 0]),
        explained=forward / inverse,
    )


def _slopes(blocks: list[_Sums]) -> tuple[float, float]:
    # Within segments, so that each has its own zero; then the disturbances are eliminated (Schur complement).
    by_segment: dict[int, Float] = {}
    for block in blocks:
        by_segment[block.segment] = by_segment.get(block.segment, 0.0) + block.products
    G = sum(S[1:, 1:] - np.outer(S[0, 1:], S[0, 1:]) / S[0, 0] for S in by_segment.values())
    size = np.sqrt(np.maximum(np.diag(G), 1e-300))
    G = G / np.outer(size, size)
    left = G[:2, :2] - G[:2, 2:] @ np.linalg.pinv(G[2:, 2:], rcond=1e-10) @ G[2:, :2]
    with np.errstate(divide="ignore", invalid="ignore"):
        forward, inverse = left[0, 1] / left[0, 0], left[1, 1] / left[0, 1]
    return float(forward * size[1] / size[0]), float(inverse * size[1] / size[0])


def _blocks(assembly: Assembly, batches: Iterable[Samples], theta: Float) -> list[_Sums]:
    found: dict[tuple[int, int], Float] = {}
    for samples in batches:
        if samples.theta is None:
            raise UnfitDataError(
                "one-encoder", found="a log with one encoder a joint", expected="motor and link positions"
            )
        lines = _lines(assembly, samples, theta)
        n, k, T = lines.shape
        kept, _ = assembly.parallel.apply(lines.reshape(n * k, T), samples)
        rows = kept.reshape(n, k, -1)
        cut = assembly.blocks.of(samples, assembly.parallel.kept(samples))
        rows = cut.arranged(rows)
        for number, (a, b) in zip(cut.numbers, pairwise(cut.edges.tolist()), strict=True):
            part = rows[..., a:b]
            key = (samples.segment, number)
            found[key] = found.get(key, 0.0) + part @ part.transpose(0, 2, 1)
    return [_Sums(segment, products) for (segment, _), products in found.items()]


def _lines(assembly: Assembly, samples: Samples, theta: Float) -> Float:
    # (n, k, T): one, deflection, transmitted torque, then sign, velocity, sine and cosine.
    motor = samples.motor
    drive = motor_torque(assembly, samples, theta)
    sign = np.tanh(motor.dq / SIGN_WIDTH)
    parts = (
        np.ones_like(samples.q), motor.q - samples.q, samples.tau - drive,
        sign, motor.dq, np.sin(samples.q), np.cos(samples.q),
    )  # fmt: skip
    return np.ascontiguousarray(np.stack(parts).transpose(2, 0, 1))


def motor_torque(assembly: Assembly, samples: Samples, theta: Float) -> Float:
    """What the model gives to the motors besides their springs, rotors and friction, (T, n).

    Rotor inertia is the description's where it is known: the one fitted with a poor stiffness makes up for it.
    """
    robot, terms = assembly.robot, assembly.terms
    columns = terms.columns(robot)
    springs = {term.name for term in terms if isinstance(term, SpringTerm)}
    rotors = {term.name for term in terms if term.of_rotors}
    value = np.array(theta)
    for i, column in enumerate(columns):
        if column.term in rotors and np.isfinite(column.prior):
            value[i] = column.prior
    wanted = np.array([column.term not in springs for column in columns]) & (value != 0)
    panels = terms.motor_regressor(robot, samples, wanted)
    total = terms.known_motor_torque(robot, samples)
    for joint, (indices, lines) in enumerate(zip(panels.columns, panels.values, strict=True)):
        total[:, joint] += value[indices] @ lines
    return total
