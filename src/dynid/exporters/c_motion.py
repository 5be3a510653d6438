"""C99 code of motion: kinematics, forward dynamics, energy, derivatives and external torque, as loops over tables.

Torque is written out link by link (c_code.py), which is fastest; these functions are loops, so that their size does
not grow with the robot. No memory is allocated, and state between calls is only what the caller passes. Their text is
in the folder `c`, where PREFIX and MACRO stand for the robot's name in lower and upper case, SLOPES for what a tilted
base and springs add to derivatives, ENERGY for the springs' energy.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

import numpy as np

from dynid.base.arrays import Float
from dynid.exporters.model import ExportModel
from dynid.factor.base import random_states
from dynid.terms.exports import MotionBasis, c_number, spring_slopes


def declarations(prefix: str) -> list[str]:
    """Lines for the header."""
    return _with_names(_text("motion.h"), prefix)


def functions(model: ExportModel, prefix: str) -> list[str]:
    """Lines for the source, after the lines of the torque function."""
    slopes = [*([] if model.tilt is None else _tilt(model)), *_spring_slopes(model)]
    motion = (
        _text("motion.c").replace("SLOPES", "".join(slopes)).replace("ENERGY", "".join(_spring_energy(model)))
    )
    text = _text("algebra.c") + "\n" + motion
    return [*_tables(model, prefix), "", *_with_names(text, prefix), ""]


def _text(name: str) -> str:
    return (files("dynid.exporters") / "c" / name).read_text(encoding="utf-8")


def _with_names(text: str, prefix: str) -> list[str]:
    return text.rstrip("\n").replace("PREFIX", prefix).replace("MACRO", prefix.upper()).split("\n")


def _tables(model: ExportModel, prefix: str) -> list[str]:
    robot, tree = model.robot, model.robot.tree
    n, nb = f"{prefix.upper()}_N", f"{prefix.upper()}_NB"
    drives = np.diag(model.rotor)
    for part in model.mixed:
        if part.basis is MotionBasis.ACCELERATION:
            drives = drives + part.value * np.outer(part.out, part.weights)
    numbers = [
        *_table(f"double {prefix}_axis[{nb}][3]", tree.axis),
        *_table(f"double {prefix}_rotation[{nb}][9]", tree.rotation.reshape(-1, 9)),
        *_table(f"double {prefix}_translation[{nb}][3]", tree.translation),
        *_table(f"double {prefix}_projection[{nb}][{n}]", robot.projection),
        *_table(f"double {prefix}_drives[{n}][{n}]", drives),
        *_table(f"double {prefix}_shift[{nb}]", robot.projection_offset),
        *_table(f"double {prefix}_gravity_vector[3]", robot.gravity),
    ]
    whole = [
        f"static const int {prefix}_{name}[{nb}] = {{{', '.join(str(int(x)) for x in values)}}};"
        for name, values in (("parent", tree.parent), ("slides", tree.prismatic))
    ]
    if model.tilt is not None:
        numbers += _table(f"double {prefix}_leaning[10 * {nb}]", model.tilt.bodies(robot).ravel())
        change = model.tilt.gravity(robot).T @ model.tilt.values[:2]
        numbers += _table(f"double {prefix}_lean[3]", change)
    return ["/* The tree: links in the order of the parameters. */", *whole, *numbers]


def _table(name: str, values: Float) -> list[str]:
    if values.ndim == 1:
        return [f"static const {name} = {{{_row(values)}}};"]
    rows = [f"    {{{_row(row)}}}," for row in values]
    rows[-1] = rows[-1].rstrip(",")
    return [f"static const {name} = {{", *rows, "};"]


def _row(values: Sequence[float] | Float) -> str:
    return ", ".join(repr(float(x)) for x in values)


def _tilt(model: ExportModel) -> list[str]:
    # Weight of the nominal links under the change of gravity by the tilt, and the pattern of the first link.
    lines = ["    PREFIX_add_derivatives(PREFIX_leaning, PREFIX_lean, q, 0, 0, by_q, 0);\n"]
    patterns = [] if model.tilt is None else model.tilt.values[2:].tolist()
    for value, slope in zip(patterns, ("-sin", "cos"), strict=False):
        lines.append(f"    by_q[0] += {value!r} * {slope}(q[0]);\n")
    return lines


def _spring_slopes(model: ExportModel) -> list[str]:
    n = model.robot.n
    K = spring_slopes(model.springs, n)
    return [f"    by_q[{n * i + j}] += {c_number(K[i, j])};\n" for i, j in zip(*np.nonzero(K), strict=True)]


def _spring_energy(model: ExportModel) -> list[str]:
    lines = []
    for spring in model.springs:
        a = "(" + " + ".join(f"{c_number(spring.weights[j])} * q[{j}]" for j in spring.joints) + ")"
        lines.append(
            f"    energy += (0.5 * {c_number(spring.stiffness)} * {a} + {c_number(spring.preload)}) * {a};\n"
        )
    return lines


# Self-test in the exported C code: every function is compared with states that dynid computed.

# States that the self-test compares: few, since all their numbers are in the source.
_CHECKS = 8
# m, a point on the last link: its velocity depends on all entries of the Jacobian.
_POINT = (0.1, -0.2, 0.3)
# Above this condition number of the mass matrix, forward dynamics lose too many digits to be compared.
_CONDITION = 1e5


def self_test(model: ExportModel, prefix: str) -> list[str]:
    """Lines of a main function for -DDYNID_TEST_MAIN; prefix: start of all function names."""
    samples = random_states(model.robot, _CHECKS, 7)
    q, dq, ddq = samples.q, samples.dq, samples.ddq
    torque = _c_test_table(
        "checks", f"4 * {prefix.upper()}_N", np.concatenate([q, dq, ddq, model.torque(q, dq, ddq)], axis=1)
    )
    motion = _c_test_table("motions", f"20 + 3 * {prefix.upper()}_N", _motion(model, q, dq, ddq))
    sound = ", ".join(
        str(int(well_conditioned)) for well_conditioned in np.linalg.cond(model.mass_matrix(q)) < _CONDITION
    )
    text = _TEXT.replace("SOUND", sound).replace("COUNT", str(_CHECKS))
    text = text.replace("POINT", ", ".join(map(repr, _POINT)))
    lines = text.replace("PREFIX", prefix).replace("MACRO", prefix.upper()).rstrip("\n").split("\n")
    at = lines.index("TABLES")
    return [*lines[:at], *torque, *motion, *lines[at + 1 :]]


def _motion(model: ExportModel, q: Float, dq: Float, ddq: Float) -> Float:
    # (T, 20 + 3 n): energies, placement of the last link and velocity of a point on it, derivatives along dq and ddq,
    # momentum, C' dq.
    by_q, by_dq, _ = model.torque_derivatives(q, dq, ddq, friction=False)
    still = np.zeros_like(q)
    carried = model.momentum_rate(q, dq, still) + model.gravity(q) + model.friction(dq)
    return np.concatenate(
        [
            model.kinetic_energy(q, dq)[:, None],
            model.potential_energy(q)[:, None],
            model.forward_kinematics(q)[:, -1, :3].reshape(len(q), -1),
            np.einsum("tij,tj->ti", model.jacobian(q, -1, _POINT), dq),
            np.einsum("tij,tj->ti", by_q, dq) + np.einsum("tij,tj->ti", by_dq, ddq),
            model.momentum(q, dq),
            carried,
        ],
        axis=1,
    )


def _c_test_table(name: str, width: str, values: Float) -> list[str]:
    rows = ["        {" + ", ".join(repr(float(x)) for x in row) + "}," for row in values]
    rows[-1] = rows[-1].rstrip(",")
    return [f"    static const double {name}[{_CHECKS}][{width}] = {{", *rows, "    };"]


# `near` stores the largest difference and the largest value (at least 1) of each kind; a ratio of 1e-10 is allowed.
_TEXT = """\
#ifdef DYNID_TEST_MAIN
/* cc -std=c99 -DDYNID_TEST_MAIN FILE.c -lm: compares with COUNT states that dynid computed. */
#include <stdio.h>

struct differences {
    double worst, size;
};

static void near(struct differences *d, double found, double wanted)
{
    d->worst = fmax(d->worst, fabs(found - wanted));
    d->size = fmax(d->size, fabs(wanted));
    if (!(fabs(found - wanted) < HUGE_VAL)) {
        d->worst = HUGE_VAL;
    }
}

int main(void)
{
TABLES
    static const int sound[COUNT] = {SOUND};
    static const double zero[MACRO_N], point[3] = {POINT};
    double tau[MACRO_N], sum[MACRO_N], part[MACRO_N], mass[MACRO_N * MACRO_N], slopes[MACRO_N * MACRO_N];
    double T[12 * MACRO_NB], J[6 * MACRO_N];
    struct differences torque = {0.0, 1.0}, acceleration = {0.0, 1.0}, energy = {0.0, 1.0}, place = {0.0, 1.0};
    struct differences slope = {0.0, 1.0}, momentum = {0.0, 1.0}, speed = {0.0, 1.0}, outside = {0.0, 1.0};
    PREFIX_observer observer = {{0.0}, {0.0}, {0.0}, 0};
    int k, i, j;
    for (k = 0; k < COUNT; ++k) {
        const double *q = checks[k];
        const double *dq = q + MACRO_N, *ddq = q + 2 * MACRO_N, *wanted = q + 3 * MACRO_N, *motion = motions[k];
        PREFIX_mass_matrix(q, mass);
        PREFIX_gravity(q, sum);
        PREFIX_coriolis(q, dq, part);
        for (i = 0; i < MACRO_N; ++i) {
            sum[i] += part[i];
            for (j = 0; j < MACRO_N; ++j) {
                sum[i] += mass[i * MACRO_N + j] * ddq[j];
            }
        }
        PREFIX_friction(dq, part);
        for (i = 0; i < MACRO_N; ++i) {
            near(&torque, sum[i] + part[i], wanted[i]);
        }
        PREFIX_torque(q, dq, ddq, tau);
        PREFIX_regressor_times(q, dq, ddq, PREFIX_parameters, part);
        for (i = 0; i < MACRO_N; ++i) {
            near(&torque, tau[i], wanted[i]);
            near(&torque, part[i], wanted[i]);
        }
        PREFIX_gravity(q, sum);
        PREFIX_inverse_dynamics(q, zero, zero, part);
        for (i = 0; i < MACRO_N; ++i) {
            near(&torque, sum[i], part[i]);
        }
        if (sound[k] && PREFIX_forward_dynamics(q, dq, wanted, part)) {
            for (i = 0; i < MACRO_N; ++i) {
                near(&acceleration, part[i], ddq[i]);
            }
        }
        near(&energy, PREFIX_kinetic_energy(q, dq), motion[0]);
        near(&energy, PREFIX_potential_energy(q), motion[1]);
        PREFIX_forward_kinematics(q, T);
        for (i = 0; i < 12; ++i) {
            near(&place, T[12 * (MACRO_NB - 1) + i], motion[2 + i]);
        }
        PREFIX_inverse_dynamics_derivatives(q, dq, ddq, mass, slopes);
        for (i = 0; i < MACRO_N; ++i) {
            sum[i] = 0.0;
            for (j = 0; j < MACRO_N; ++j) {
                sum[i] += mass[i * MACRO_N + j] * dq[j] + slopes[i * MACRO_N + j] * ddq[j];
            }
            near(&slope, sum[i], motion[20 + i]);
        }
        PREFIX_momentum(q, dq, sum, part);
        for (i = 0; i < MACRO_N; ++i) {
            near(&momentum, sum[i], motion[20 + MACRO_N + i]);
            near(&momentum, part[i], motion[20 + 2 * MACRO_N + i]);
        }
        PREFIX_jacobian(q, MACRO_NB - 1, point, J);
        for (i = 0; i < 6; ++i) {
            double v = 0.0;
            for (j = 0; j < MACRO_N; ++j) {
                v += J[i * MACRO_N + j] * dq[j];
            }
            near(&speed, v, motion[14 + i]);
        }
        /* An external torque on a joint at rest is detected after a hundred times the observer's lag. */
        PREFIX_gravity(q, sum);
        PREFIX_friction(zero, part);
        for (i = 0; i < MACRO_N; ++i) {
            sum[i] += part[i] - (double)(i + 1);
            observer.external[i] = 0.0;
        }
        observer.started = 0;
        PREFIX_external_torque(&observer, 1.0, 100.0, q, zero, sum, part);
        PREFIX_external_torque(&observer, 1.0, 100.0, q, zero, sum, part);
        for (i = 0; i < MACRO_N; ++i) {
            near(&outside, part[i], (double)(i + 1));
        }
    }
    printf("greatest difference %.3e of %.3e N m; of accelerations %.1e, energies %.1e, placements %.1e,\\n",
        torque.worst, torque.size, acceleration.worst / acceleration.size, energy.worst / energy.size,
        place.worst / place.size);
    printf("derivatives %.1e, momenta %.1e, velocities %.1e, external torque %.1e\\n", slope.worst / slope.size,
        momentum.worst / momentum.size, speed.worst / speed.size, outside.worst / outside.size);
    return torque.worst <= 1e-10 * torque.size && acceleration.worst <= 1e-10 * acceleration.size
        && energy.worst <= 1e-10 * energy.size && place.worst <= 1e-10 * place.size
        && slope.worst <= 1e-10 * slope.size && momentum.worst <= 1e-10 * momentum.size
        && speed.worst <= 1e-10 * speed.size && outside.worst <= 1e-10 * outside.size ? 0 : 1;
}
#endif
"""
