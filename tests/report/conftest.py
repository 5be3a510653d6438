"""An identification built by hand: a small arm, a motion, noise, with the real factors and estimator."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from dynid.base import Diagnostics, Finding, Float, Place, Verdict
from dynid.estimate import WLS, Origin, Regression, Residuals, Scores, Sums, cross_validate, parameter_spread
from dynid.factor import Block, Factor, Factors, data_base, influence, structural_base
from dynid.robot import Drive, JointType, Limits, RobotModel
from dynid.rows import TorqueRows
from dynid.run import Identification, Validation
from dynid.signals import Samples
from dynid.terms import Coulomb, Offset, RigidBody, RotorInertia, Viscous

TERMS = RigidBody() + RotorInertia() + Viscous() + Coulomb() + Offset()
RATE = 100.0


def arm(joint_names: tuple[str, ...], body_names: tuple[str, ...]) -> RobotModel:
    """Revolute joints about z and y, links of 0.3 m."""
    n = len(joint_names)
    T = np.tile(np.eye(4), (n, 1, 1))
    T[1:, 0, 3] = 0.3
    axis = np.array([[0.0, 0.0, 1.0] if j % 3 == 0 else [0.0, 1.0, 0.0] for j in range(n)])
    prior = np.zeros((n, 10))
    for j in range(n):
        m = 6.0 / (1 + j)
        prior[j] = [
            m,
            0.12 * m,
            0.02 * m,
            0.03 * m,
            0.01 * m,
            -0.002 * m,
            0.03 * m,
            0.001 * m,
            0.001 * m,
            0.032 * m,
        ]
    prior[-1, 4:] = np.nan
    return RobotModel(
        name="three-link arm",
        body_names=body_names,
        tree_joint_names=joint_names,
        joint_names=joint_names,
        parent=np.arange(-1, n - 1),
        joint_types=(JointType.REVOLUTE,) * n,
        T_parent_joint=T,
        axis=axis,
        inertia_prior=prior,
        gravity=np.array([0.0, 0.0, -9.81]),
        limits=Limits(np.full(n, -2.9), np.full(n, 2.9), np.full(n, 3.0), np.full(n, 100.0)),
        drive=Drive.direct(n),
        projection=np.eye(n),
        projection_offset=np.zeros(n),
        friction_prior=np.full((n, 2), np.nan),
        source="arm.toml",
    )


def motion(robot: RobotModel, seconds: float, seed: int) -> Samples:
    """A sum of five harmonics a joint."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * RATE)) / RATE
    q, dq, ddq = (np.zeros((len(t), robot.n)) for _ in range(3))
    for k in range(1, 6):
        w = 2 * np.pi * 0.13 * k
        a, p = rng.uniform(0.1, 0.6, robot.n) / np.sqrt(k), rng.uniform(0, 2 * np.pi, robot.n)
        q += a * np.sin(w * t[:, None] + p)
        dq += a * w * np.cos(w * t[:, None] + p)
        ddq -= a * w**2 * np.sin(w * t[:, None] + p)
    return Samples.from_motion(q, dq, ddq, rate=RATE)


def true_parameters(robot: RobotModel) -> Float:
    """Parameters near the prior, with friction."""
    theta = np.array([0.0 if np.isnan(c.prior) else 1.08 * c.prior for c in TERMS.columns(robot)])
    for j, column in enumerate(TERMS.columns(robot)):
        if column.term != "rigid_body":
            theta[j] = {"rotor_inertia": 0.05, "viscous": 1.4, "coulomb": 2.1, "offset": -0.2}[column.term]
    return theta


def noise(shape: tuple[int, int], seed: int) -> Float:
    """Correlated noise: white noise through a first-order lag."""
    rng = np.random.default_rng(seed)
    out = rng.normal(0.0, 0.25, shape)
    for k in range(1, shape[0]):
        out[k] += 0.8 * out[k - 1]
    return out


def measured(robot: RobotModel, theta: Float, seconds: float, seed: int) -> tuple[Samples, Float]:
    """Motion with noisy torque, and its regressor (T, n, p)."""
    samples = motion(robot, seconds, seed)
    Y = TERMS.torque_regressor(robot, samples).dense(len(theta))
    return replace(samples, tau=Y @ theta + noise((len(samples), robot.n), seed + 1)), Y


def residuals(robot: RobotModel, samples: Samples, predicted: Float, names: tuple[str, ...]) -> Residuals:
    """Residuals with the samples cut into as many trajectories as there are names."""
    T = len(samples)
    return Residuals(
        trajectories=names,
        joint_names=robot.joint_names,
        t=samples.t + 100.0,
        trajectory=np.arange(T) * len(names) // T,
        segment=np.arange(T) * len(names) // T,
        measured=samples.tau,
        predicted=predicted,
        q=samples.q,
        dq=samples.dq,
        rate=RATE,
    )


def build(
    joint_names: tuple[str, ...] = ("shoulder_pan", "shoulder_lift", "elbow"),
    body_names: tuple[str, ...] = ("upper_arm", "forearm", "hand"),
    trajectories: tuple[str, ...] = ("run/a", "run/b"),
    seconds: float = 60.0,
    with_truth: bool = True,
) -> Identification:
    """The whole way by hand, from a motion to a judged model."""
    robot = arm(joint_names, body_names)
    theta = true_parameters(robot)
    columns = TERMS.columns(robot)
    structural = structural_base(robot, TERMS, TorqueRows())
    samples, Y = measured(robot, theta, seconds, 1)
    factors = _factors(robot, samples, structural.mask, trajectories[0])
    spread = parameter_spread(robot, columns, influence(factors))
    regression = Regression(columns, data_base(structural, factors), factors, spread)
    estimate = WLS().fit(regression)
    held_out, Y2 = measured(robot, theta, seconds / 2, 7)
    training = residuals(robot, samples, Y @ estimate.full_vector, trajectories)
    unseen = residuals(robot, held_out, Y2 @ estimate.full_vector, trajectories[:1])
    diagnostics = Diagnostics()
    diagnostics.note("jitter", "time stamps jitter by 0.2 ms", Place(file="log.csv"))
    diagnostics.warn("gap", "a gap of 0.4 s splits the trajectory", Place(file="log.csv", row=812, time=8.12))
    return Identification(
        experiment={"model": {"terms": ["rigid_body", "viscous"]}, "estimate": {"method": "wls", "folds": 5}},
        robot=robot,
        terms=TERMS,
        structural=structural,
        estimate=estimate,
        factors=factors,
        training=Validation(_scores(training, Origin.TRAINING), training),
        validations=(
            Validation(_scores(unseen, Origin.HELD_OUT_LOG), unseen),
            Validation(cross_validate(regression, WLS())),
        ),
        verdict=Verdict(
            "usable",
            "This model is usable, with weak spots named below.",
            (
                Finding(
                    "good",
                    "",
                    "The motion has information on each of them.",
                    title="All base parameters are excited",
                ),
                Finding(
                    "warning",
                    "",
                    "R2 = 0.91",
                    title=f"{joint_names[-1]}: weakly predicted",
                    advice="Look at its residual plot.",
                ),
                Finding(
                    "problem",
                    "",
                    "R2 = 0.71",
                    title=f"{joint_names[0]}: poorly predicted",
                    advice="Try another friction model.",
                ),
            ),
        ),
        diagnostics=diagnostics,
        preparation={
            "settings": {"cutoff_hz": 8.0, "order": 4, "decimate": 1},
            "evidence": {
                "frequency": np.linspace(0.1, 50, 200).tolist(),
                "position": [(1 / (1 + np.linspace(0.1, 50, 200) ** 4) + 1e-9).tolist() for _ in joint_names],
                "torque": [(1 / (1 + np.linspace(0.1, 50, 200) ** 2) + 1e-5).tolist() for _ in joint_names],
                "reason": "99.9 % of the position's power lies below 2 Hz",
            },
        },
        log_summary={
            "files": [{"name": "log.csv", "rows": 6000, "rate": 100.0}],
            "trajectories": {name: {"samples": 3000, "gaps": 0} for name in trajectories},
            "moved": [True] * robot.n,
        },
        provenance={
            "dynid": "0.1.0",
            "packages": {"numpy": "2.0"},
            "seed": 0,
            "logs": {"log.csv": "ab" * 32},
        },
        truth={c.name: float(v) for c, v in zip(columns, theta, strict=True)} if with_truth else None,
    )


def _scores(found: Residuals, origin: Origin) -> Scores:
    return Sums.of_arrays(found.measured, found.predicted).scores(
        origin, found.joint_names, found.trajectories
    )


def _factors(robot: RobotModel, samples: Samples, wanted: np.ndarray, name: str) -> Factors:
    equations = TorqueRows().equations(robot, TERMS, samples, wanted)
    edges = np.linspace(0, len(samples), 31).astype(int)
    blocks = tuple(
        Block(
            name, 0, a / RATE, b / RATE,
            tuple(
                Factor.from_panel(c, np.ascontiguousarray(panel[:, a:b]))
                for c, panel in zip(equations.columns, equations.panels, strict=True)
            ),
        )
        for a, b in pairwise(edges)
    )  # fmt: skip
    return Factors(robot.joint_names, len(wanted), blocks)


@pytest.fixture(scope="session")
def identification() -> Identification:
    return build()


@pytest.fixture(scope="session")
def hostile() -> Identification:
    """Names that try to leave the text they stand in."""
    image = "<img src=x onerror=alert(1)>"
    script = "</script><script>alert(2)</script><!--"
    quote = "\"' onmouseover='alert(3)' %{x} ${y} {{ 7*7 }}"
    made = build((image, script, quote), (script, quote, image), (script, image), 20.0)
    made.diagnostics.warn("hostile", script, Place(file=image, joint=quote))
    return replace(
        made,
        robot=replace(made.robot, name=script, source=image),
        experiment={image: {quote: script}},
        files={script: [image, quote]},
        preparation={script: {image: quote}, "evidence": made.preparation["evidence"]},
        log_summary={image: [{script: quote}]},
        provenance={quote: script},
        verdict=Verdict("good", script, (Finding("warning", "", script, title=image, advice=quote),)),
    )


@pytest.fixture(scope="session")
def bare(identification: Identification) -> Identification:
    """As little as an identification may hold: no residuals, no validation, scores without meaning."""
    nothing = {
        name: np.full(3, np.nan) for name in ("rms", "relative", "r2", "nmse", "mse", "sde", "torque_rms")
    }
    scores = replace(identification.training.scores, total_relative=float("nan"), **nothing)
    return replace(
        identification,
        training=Validation(scores),
        validations=(),
        verdict=Verdict("poor", "Nothing is known."),
        diagnostics=Diagnostics(),
        preparation={},
        log_summary={},
        provenance={},
        experiment={},
        truth=None,
    )
