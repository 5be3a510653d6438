"""Synthetic robots, samples, logs and regressions for tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.estimate.estimator import Piece, Regression
from dynid.factor.base import BaseMap
from dynid.factor.factor import Block, Factor, Factors
from dynid.kernel.tree import Tree
from dynid.log.own_columns import canonical_columns, write_log
from dynid.robot.drive import Drive
from dynid.robot.model import JointType, Limits, RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import Column
from dynid.terms.term import Terms

# Random trees: branches, revolute and prismatic joints in any orientation.


def random_tree(seed: int, n: int, branching: float = 0.3) -> Tree:
    """Tree of n links, each on the one before it, or with probability `branching` on any earlier one."""
    rng = np.random.default_rng(seed)
    parent = np.array(
        [-1] + [int(rng.integers(-1, j)) if rng.random() < branching else j - 1 for j in range(1, n)]
    )
    axis = rng.normal(size=(n, 3))
    rotation, _ = np.linalg.qr(rng.normal(size=(n, 3, 3)))
    rotation[np.linalg.det(rotation) < 0, :, 0] *= -1.0
    return Tree(
        parent=parent,
        prismatic=rng.random(n) < 0.3,
        axis=axis / np.linalg.norm(axis, axis=1, keepdims=True),
        rotation=rotation,
        translation=rng.normal(0.0, 0.4, (n, 3)),
        gravity=rng.normal(0.0, 6.0, 3),
    )


def random_inertia(seed: int, n: int) -> Float:
    """Physically consistent inertial parameters, (n, 10), of links made of random point masses."""
    rng = np.random.default_rng(seed)
    inertia = np.zeros((n, 10))
    for j in range(n):
        masses, points = rng.uniform(0.2, 2.0, 8), rng.normal(0.0, 0.3, (8, 3))
        second = (masses[:, None] * points).T @ points
        J = np.trace(second) * np.eye(3) - second
        inertia[j] = [
            masses.sum(), *(masses @ points), J[0, 0], J[0, 1], J[1, 1], J[0, 2], J[1, 2], J[2, 2]
        ]  # fmt: skip
    return inertia


def random_motion(seed: int, T: int, n: int) -> tuple[Float, Float, Float]:
    """Random q, dq and ddq, (T, n) each."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-3, 3, (T, n)), rng.normal(0, 2, (T, n)), rng.normal(0, 4, (T, n))


# Ratio and offset of the mimic joint, with no special value.
RATIO, SHIFT = -0.7, 0.2


def random_robot(seed: int, n: int = 4, branching: float = 0.3, mimic: bool = False) -> RobotModel:
    """Robot with random placements, axes, joint types and physically consistent links.

    Parameters
    ----------
    seed : int
        Seed.
    n : int
        Number of links.
    branching : float
        Probability of a branch, see `random_tree`.
    mimic : bool
        Whether the last joint follows the first one, q_n = -0.7 q_1 + 0.2.

    Returns
    -------
    RobotModel
        Robot.

    """
    tree = random_tree(seed, n, branching)
    placement = np.repeat(np.eye(4)[None], n, axis=0)
    placement[:, :3, :3] = tree.rotation
    placement[:, :3, 3] = tree.translation
    independent = n - 1 if mimic else n
    projection, offset = np.eye(n, independent), np.zeros(n)
    if mimic:
        projection[-1, 0], offset[-1] = RATIO, SHIFT
    joints = tuple(f"joint{i + 1}" for i in range(n))
    return RobotModel(
        name=f"random{seed}",
        body_names=tuple(f"body{i + 1}" for i in range(n)),
        tree_joint_names=joints,
        joint_names=joints[:independent],
        parent=tree.parent,
        joint_types=tuple(JointType.PRISMATIC if slides else JointType.REVOLUTE for slides in tree.prismatic),
        T_parent_joint=placement,
        axis=tree.axis,
        inertia_prior=random_inertia(seed, n),
        gravity=np.array([0.0, 0.0, -9.81]),
        limits=Limits(
            np.full(independent, -2.0),
            np.full(independent, 2.0),
            np.full(independent, 20.0),
            np.full(independent, 1e4),
        ),
        drive=Drive.direct(independent),
        projection=projection,
        projection_offset=offset,
        friction_prior=np.full((independent, 2), np.nan),
    )


def smooth_samples(
    robot: RobotModel,
    count: int = 200,
    seed: int = 0,
    rate: float = 1000.0,
    channels: Sequence[str] = (),
) -> Samples:
    """Samples of a motion of three sines per joint, exact in every derivative, with random torque and channels.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    count : int
        Number of samples.
    seed : int
        Seed.
    rate : float, Hz
        Sampling rate.
    channels : sequence of str
        Names of channels to include.

    Returns
    -------
    Samples
        Samples.

    """
    rng = np.random.default_rng(seed)
    t = np.arange(count) / rate
    frequency = 2 * np.pi * rng.uniform(0.3, 2.0, 3)
    angle = frequency[:, None] * t + rng.uniform(0, 6, (robot.n, 3, 1))
    size = rng.uniform(0.2, 0.5, (robot.n, 3, 1))
    q = (size * np.sin(angle)).sum(axis=1).T
    dq = (size * frequency[:, None] * np.cos(angle)).sum(axis=1).T
    ddq = (-size * frequency[:, None] ** 2 * np.sin(angle)).sum(axis=1).T
    plain = Samples.from_motion(q, dq, ddq, rng.normal(0, 1, (count, robot.n)), rate)
    return replace(plain, extra={name: rng.normal(0, 1, count) for name in channels})


def piece_of(samples: Samples, part: slice) -> Samples:
    """Consecutive samples of a batch, as a batch."""
    start, stop, _ = part.indices(len(samples))
    return samples.part(start, stop)


def simulated_log(
    path: Path,
    robot: RobotModel,
    terms: Terms,
    theta: Float,
    *,
    seconds: float = 20.0,
    rate: float = 200.0,
    noise: float = 0.01,
    seed: int = 0,
) -> Path:
    """Write a log of a smooth motion with the torque of known parameters.

    Parameters
    ----------
    path : Path
        File to write.
    robot : RobotModel
        Robot.
    terms : Terms
        Terms of the model.
    theta : ndarray, shape (p,)
        Parameters.
    seconds : float, s
        Duration.
    rate : float, Hz
        Sampling rate.
    noise : float
        Standard deviation of white torque noise, as a share of each joint's root mean square.
    seed : int
        Seed.

    Returns
    -------
    Path
        The file.

    """
    samples = smooth_samples(robot, round(seconds * rate), seed, rate)
    tau = terms.torque(robot, samples, theta)
    size = noise * np.sqrt(np.mean(tau**2, axis=0))
    tau = tau + size * np.random.default_rng(seed).normal(0, 1, tau.shape)
    return write_log(path, samples.t, canonical_columns(robot.joint_names, samples.q, tau=tau))


@dataclass(frozen=True, eq=False)
class Synthetic:
    """Regression with known truth, and the dense equations behind its factors.

    Attributes
    ----------
    regression : Regression
        Input of an estimator.
    theta : ndarray, shape (p,)
        True parameters.
    beta : ndarray, shape (b,)
        True base parameters.
    X, y : tuple of ndarray, shapes (T, b) and (T,)
        Equations by group; columns of missing base parameters are zero. Empty if the equations come from motion.
    size : ndarray, shape (b,), or float
        Value of a parameter that makes up the whole target.
    seconds : float, s
        Duration of the motion.

    """

    regression: Regression
    theta: Float
    beta: Float
    X: tuple[Float, ...]
    y: tuple[Float, ...]
    size: Float | float = 1.0
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class DenseSource:
    """Dense equations as a source, in one piece, at times 0, 1, 2 and so on.

    Attributes
    ----------
    columns : tuple of ndarray of int
        Columns by group.
    X, y : tuple of ndarray
        Equations by group.
    noise : tuple of ndarray, shape (w, w), optional
        Covariance by group of errors in the columns; None = unknown.

    """

    columns: tuple[Int, ...]
    X: tuple[Float, ...]
    y: tuple[Float, ...]
    noise: tuple[Float, ...] | None = None

    def pieces(self, wanted: Bool) -> Iterator[Piece]:
        """One piece with all equations."""
        panels = tuple(
            np.ascontiguousarray(np.column_stack([A[:, indices], b]).T)
            for A, b, indices in zip(self.X, self.y, self.columns, strict=True)
        )
        times = tuple(np.arange(len(b), dtype=np.float64) for b in self.y)
        yield Piece(0, times, self.columns, panels)

    def column_noise(
        self, wanted: Bool, position: float | Sequence[float] | None = None
    ) -> tuple[Float, ...] | None:
        """The given noise."""
        return self.noise


def synthetic_regression(
    seed: int = 0,
    *,
    count: int = 1200,
    blocks: int = 24,
    noise: Sequence[float] = (0.3, 0.03),
    correlation: float = 0.0,
    base: int = 5,
    prior: Float | None = None,
    spread: Float | None = None,
    with_source: bool = True,
) -> Synthetic:
    """Random equations in two or more groups with different noise, cut into blocks of time.

    Parameters
    ----------
    seed : int
        Seed.
    count : int
        Equations per group.
    blocks : int
        Number of blocks.
    noise : sequence of float
        Standard deviation by group.
    correlation : float
        AR(1) correlation of residual and columns between neighbouring samples; 0 = white.
    base : int
        Number of base parameters b >= 3; two more parameters have no column of their own.
    prior, spread : ndarray, shape (b + 2,), optional
        Prior and spread; None = 0 and 1.
    with_source : bool
        Whether single equations are available.

    Returns
    -------
    Synthetic
        Regression and truth.

    """
    rng = np.random.default_rng(seed)
    p = base + 2
    B = np.hstack([np.eye(base), rng.normal(0, 1, (base, 2))])
    theta = rng.normal(0, 2, p)
    beta = B @ theta
    present = [np.arange(base) if g == 0 else np.delete(np.arange(base), g % base) for g in range(len(noise))]
    X, y = [], []
    for g, sigma in enumerate(noise):
        dense = np.zeros((count, base))
        dense[:, present[g]] = _correlated(rng, (count, len(present[g])), correlation)
        X.append(dense)
        y.append(dense @ beta + sigma * _correlated(rng, (count, 1), correlation)[:, 0])
    known = np.zeros(p) if prior is None else prior
    columns = tuple(Column(f"a{j + 1}", "1", "synthetic", 0, prior=float(known[j])) for j in range(p))
    names = tuple(column.name for column in columns)
    whole = np.concatenate(X)
    regression = Regression(
        columns=columns,
        base=BaseMap(
            names=names,
            independent=np.arange(base),
            B=B,
            singular_values=np.linalg.svd(whole / np.linalg.norm(whole, axis=0), compute_uv=False),
            gap=np.inf,
            scale=np.append(np.sqrt(np.mean(whole**2, axis=0)), [0.0, 0.0]),
        ),
        factors=factors_of(X, y, present, p, blocks),
        spread=np.ones(p) if spread is None else spread,
        source=DenseSource(tuple(present), tuple(X), tuple(y)) if with_source else None,
    )
    return Synthetic(regression, theta, beta, tuple(X), tuple(y))


def factors_of(
    X: Sequence[Float], y: Sequence[Float], columns: Sequence[Int], parameter_count: int, blocks: int
) -> Factors:
    """Factors of dense equations in equal blocks of consecutive rows.

    Parameters
    ----------
    X : sequence of ndarray, shape (T, b)
        Columns by group.
    y : sequence of ndarray, shape (T,)
        Target by group.
    columns : sequence of ndarray of int
        Indices of the columns by group.
    parameter_count : int
        Number of parameters.
    blocks : int
        Number of blocks.

    Returns
    -------
    Factors
        Factors.

    """
    parts = np.array_split(np.arange(len(y[0])), blocks)
    block_list = [
        Block(
            trajectory="synthetic",
            segment=0,
            start=float(rows[0]),
            end=float(rows[-1]),
            groups=tuple(
                Factor.from_panel(
                    indices, np.ascontiguousarray(np.column_stack([A[rows][:, indices], b[rows]]).T)
                )
                for A, b, indices in zip(X, y, columns, strict=True)
            ),
        )
        for rows in parts
    ]
    return Factors(tuple(f"group{g + 1}" for g in range(len(X))), parameter_count, tuple(block_list))


def _correlated(rng: np.random.Generator, shape: tuple[int, int], correlation: float) -> Float:
    # AR(1) along the first axis, with unit variance from the first sample.
    white = rng.normal(0, 1, shape)
    if correlation == 0:
        return white
    noise = white.copy()
    fresh = np.sqrt(1 - correlation**2)
    for i in range(1, shape[0]):
        noise[i] = correlation * noise[i - 1] + fresh * white[i]
    return noise
