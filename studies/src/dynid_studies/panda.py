"""The Panda of Gaz et al. 2019: coefficients by reverse engineering, a feasible set, friction."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from dynid.base import Float
from dynid.factor import structural_base
from dynid.robot import RobotModel, load_example
from dynid.rows import TorqueRows
from dynid.spatial import from_com, symmetric
from dynid.terms import RigidBody, Terms

A4, D3, D5, A7 = 0.0825, 0.316, 0.384, 0.088
RIGID = Terms((RigidBody(),))
# The table rounds products of lengths; these are what it means.
LENGTHS = {
    "d3": D3, "2d3": 2 * D3, "d5": D5, "2d5": 2 * D5, "a4": A4, "a7": A7, "a4²": A4**2, "2a4²": 2 * A4**2,
    "a7²": A7**2, "a4d5": A4 * D5, "d3²": D3**2, "d3²+a4²": D3**2 + A4**2, "d5²-a4²": D5**2 - A4**2,
    "d5²+a4²": D5**2 + A4**2,
}  # fmt: skip
# Supplement, Table III: combination, reverse-engineered value, its standard deviation in %, the feasible set's value
# (None: too uncertain to be used). Number 2 as it should read: m3 enters with d3² alone.
COEFFICIENTS: tuple[tuple[str, float, float, float | None], ...] = (
    ("Iyy2 +Izz1", 0.0292, 0.3735, 0.0373),
    ("Ixx2 -Iyy2 +Iyy3 +d3²:m3 +2d3:mcz3 +d3²+a4²:m4 +d3²+a4²:m5 +d3²+a4²:m6 +d3²+a4²:m7", 0.9818, 0.0176, 0.9896),
    ("Ixy2", -0.0052, 1.5625, -0.004),
    ("Ixz2", 0.0284, 0.2698, 0.0103),
    ("Iyz2", -0.0035, 2.333, 0.0008),
    ("Iyy3 +Izz2 +d3²:m3 +2d3:mcz3 +d3²+a4²:m4 +d3²+a4²:m5 +d3²+a4²:m6 +d3²+a4²:m7", 1.0428, 0.0091, 1.0358),
    ("Ixx3 -Iyy3 +Iyy4 -a4²:m4", 0.0106, 1.2664, 0.0116),
    ("Ixy3 +a4:mcz4", -0.0002, 30.3622, None),
    ("Ixz3", -0.0104, 0.4874, -0.0055),
    ("Iyz3", -0.0048, 1.2379, -0.0044),
    ("Iyy4 +Izz3 +a4²:m4 +2a4²:m5 +2a4²:m6 +2a4²:m7", 0.1169, 0.0691, 0.1245),
    ("Ixx4 -Iyy4 +Iyy5 +2d5:mcz5 +d5²-a4²:m5 +d5²-a4²:m6 +d5²-a4²:m7", 0.5324, 0.0202, 0.5408),
    ("Ixy4 +a4d5:m5 +a4d5:m6 +a4d5:m7 +a4:mcz5", 0.1501, 0.0274, 0.1388),
    ("Ixz4", 0.0048, 0.9079, 0.0039),
    ("Iyz4", -0.0027, 1.6177, -0.0016),
    ("Iyy5 +Izz4 +d5²+a4²:m5 +d5²+a4²:m6 +d5²+a4²:m7 +2d5:mcz5", 0.6369, 0.0103, 0.6325),
    ("Ixx5 -Iyy5 +Iyy6 +a7²:m7", 0.0322, 0.2739, -0.0075),
    ("Ixy5", -0.0037, 0.9578, -0.0015),
    ("Ixz5", -0.0061, 0.4932, -0.0046),
    ("Iyz5", 0.0077, 0.4345, 0.0022),
    ("Iyy6 +Izz5 +a7²:m7", 0.0181, 0.3169, 0.0276),
    ("Ixx6 -Iyy6 +Iyy7 -a7²:m7", -0.0065, 1.0591, -0.0009),
    ("Ixy6 +a7:mcz7", 0.0054, 0.5331, 0.0055),
    ("Ixz6", -1.2901e-05, 218.643, None),
    ("Iyz6", 0.0008, 3.3084, -0.0001),
    ("Iyy7 +Izz6 +a7²:m7", 0.025, 0.1773, 0.0304),
    ("Ixx7 -Iyy7", -0.0018, 2.7378, 0.0024),
    ("Ixy7", 0.0012, 2.032, -0.0004),
    ("Ixz7", 0.0018, 1.2299, -0.0017),
    ("Iyz7", -0.0006, 3.6756, -0.0005),
    ("Izz7", 0.0013, 2.6129, 0.0049),
    ("mcx2", -0.0054, 0.1551, -0.002),
    ("mcy2 -d3:m4 -d3:m5 -d3:m6 -d3:m7 -d3:m3 -mcz3", -3.1026, 0.0003, -3.1043),
    ("a4:m4 +a4:m5 +a4:m6 +a4:m7 +mcx3", 0.6874, 0.0014, 0.6842),
    ("mcy3 -mcz4", 0.0234, 0.0353, 0.0282),
    ("mcx4 -a4:m6 -a4:m7 -a4:m5", -0.4888, 0.0016, -0.4901),
    ("d5:m5 +d5:m6 +d5:m7 +mcy4 +mcz5", 1.7185, 0.0005, 1.7207),
    ("mcx5", -0.01, 0.0644, -0.0147),
    ("mcy5 -mcz6", 0.0771, 0.0074, 0.0824),
    ("a7:m7 +mcx6", 0.1657, 0.0034, 0.165),
    ("mcy6 -mcz7", -0.0677, 0.0083, -0.0688),
    ("mcx7", 0.0062, 0.0744, 0.0077),
    ("mcy7", -0.0005, 0.949, -0.0031),
)  # fmt: skip
# Number 2 as printed, with m3 in the bracket as well.
PRINTED_2 = COEFFICIENTS[1][0] + " +d3²+a4²:m3"
# Supplement: mass, centre of mass, inertia about it (xx, xy, yy, xz, yz, zz), by link.
FEASIBLE = np.array([
    [4.970684, 0.003875, 0.002081, 0.0, 0.70337, -0.000139, 0.70661, 0.006772, 0.019169, 0.009117],
    [0.646926, -0.003141, -0.02872, 0.003495, 0.007962, -0.003925, 0.02811, 0.010254, 0.000704, 0.025995],
    [3.228604, 0.027518, 0.039252, -0.066502, 0.037242, -0.004761, 0.036155, -0.011396, -0.012805, 0.01083],
    [3.587895, -0.05317, 0.104419, 0.027454, 0.025853, 0.007796, 0.019552, -0.001332, 0.008641, 0.028323],
    [1.225946, -0.011953, 0.041065, -0.038437, 0.035549, -0.002117, 0.029474, -0.004037, 0.000229, 0.008627],
    [1.666555, 0.060149, -0.014117, -0.010517, 0.001964, 0.000109, 0.004354, -0.001158, 0.000341, 0.005433],
    [0.735522, 0.010517, -0.004252, 0.061597, 0.012516, -0.000428, 0.010027, -0.001196, -0.000741, 0.004815],
])  # fmt: skip
# c6z as printed repeats the digits of c7x.
C6Z = -0.01925
# Supplement: sigmoids of (25) by joint.
SIGMOID = np.array([
    [0.54615, 0.87224, 0.64068, 1.2794, 0.83904, 0.30301, 0.56489],
    [5.1181, 9.0657, 10.136, 5.5903, 8.3469, 17.133, 10.336],
    [0.039533, 0.025882, -0.04607, 0.036194, 0.026226, -0.021047, 0.0035526],
])  # fmt: skip
# Table I: amplitudes in rad/s and periods in s of the validation motion (31).
AMPLITUDE = np.array([2.21, -2.21, 1.2, -2.1, -2.3, 2.1, -2.5])
PERIOD = np.array([3.68, 2.04, 2.98, 1.75, 4.43, 2.749, 1.06])
SAMPLES = 5458


def arm() -> RobotModel:
    """The Panda in modified DH parameters, as its maker gives them."""
    return load_example("panda")


def combinations(formulas: tuple[str, ...] = ()) -> Float:
    """Rows over the parameters of the bodies, (43, 70): those of the table, or of other formulas."""
    formulas = formulas or tuple(coefficient[0] for coefficient in COEFFICIENTS)
    names = [column.name for column in RIGID.columns(arm())]
    rows = np.zeros((len(formulas), len(names)))
    for row, formula in zip(rows, formulas, strict=True):
        for part in formula.split(" "):
            length, _, name = part.lstrip("+-").rpartition(":")
            row[names.index(name)] += (-1.0 if part[0] == "-" else 1.0) * LENGTHS.get(length, 1.0)
    return rows


def plain(formula: str) -> str:
    """A combination as it is read: "Iyy2 + (d3²+a4²) m4"."""
    parts = []
    for part in formula.split(" "):
        length, _, name = part.lstrip("+-").rpartition(":")
        factor = f"({length}) " if "+" in length or "-" in length else f"{length} " if length else ""
        parts.append(f"{'− ' if part[0] == '-' else '+ '}{factor}{name}")
    return " ".join(parts).removeprefix("+ ")


def reverse_engineered() -> Float:
    """The 43 values."""
    return np.array([row[1] for row in COEFFICIENTS])


def reliable() -> list[int]:
    """Which of them were kept."""
    return [i for i, row in enumerate(COEFFICIENTS) if row[3] is not None]


def feasible_set(c6z: float | None = None) -> Float:
    """The published set about the joint frames, (70,); c6z in place of the misprint."""
    bodies = np.array(FEASIBLE)
    bodies[5, 3] = bodies[5, 3] if c6z is None else c6z
    return np.concatenate([from_com(body[0], body[1:4], symmetric(body[4:])) for body in bodies])


def bodies_of_coefficients() -> Float:
    """Some parameters (70,) with the 43 reverse-engineered coefficients; no bodies need have them."""
    base, C = structural_base(arm(), RIGID, TorqueRows()), combinations()
    return base.lift(
        np.asarray(np.linalg.solve(C[:, base.independent], reverse_engineered()), dtype=np.float64)
    )


def friction(velocity: Float) -> Float:
    """Equation (25): (T, 7) N m at velocities (T, 7) rad/s."""
    level, slope, shift = SIGMOID
    return np.asarray(level * (expit(slope * (velocity + shift)) - expit(slope * shift)))


def validation_motion(times: int = 1) -> tuple[Float, Float, Float]:
    """Positions, velocities and accelerations (T, 7) of (31) from the middle of the joints' ranges, 1 kHz.

    times: how many times as long as the paper's 5458 samples.
    """
    limits = arm().limits
    t = 1e-3 * np.arange(times * SAMPLES)[:, None]
    w = 2 * np.pi / PERIOD
    start = 0.5 * (limits.lower + limits.upper) - AMPLITUDE / w
    return (
        start + AMPLITUDE / w * (1 - np.cos(w * t)),
        AMPLITUDE * np.sin(w * t),
        AMPLITUDE * w * np.cos(w * t),
    )


def random_configurations(count: int = 1010) -> Float:
    """Positions (count, 7) spread over the joints' ranges."""
    limits = arm().limits
    return np.random.default_rng(0).uniform(limits.lower, limits.upper, (count, 7))
