"""C99 code of motion: kinematics, forward dynamics, energy, derivatives and external torque, as loops over tables.

Torque is written out body by body (c_code.py), which is fastest; these functions are loops, so that their size does not
grow with the robot. They call the ones that are written out. No memory is allocated, nothing is kept between calls but
what the caller hands over.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Float
from dynid.exporters.model import ExportModel
from dynid.terms.exports import MotionBasis

# PREFIX and MACRO stand for the robot's name in lower and upper case.
_DECLARED = """\
/* Acceleration under the drives' torque, M^-1 (tau - C dq - g - friction). Returns 1, or 0 where M is not positive
 * definite, as where bodies are not physical. */
int PREFIX_forward_dynamics(const double q[MACRO_N], const double dq[MACRO_N], const double tau[MACRO_N],
    double ddq[MACRO_N]);
/* Placements of the bodies' joint frames in the base frame: for each body three rows [R p] of four numbers. */
void PREFIX_forward_kinematics(const double q[MACRO_N], double T[12 * MACRO_NB]);
/* J with (v; w) = J dq of a point (m, in the joint frame of a body, 0 to NB - 1), along the base's axes, row by row. */
void PREFIX_jacobian(const double q[MACRO_N], int body, const double point[3], double J[6 * MACRO_N]);
/* dq' M dq / 2, and the energy of gravity, zero at the base's origin, J. */
double PREFIX_kinetic_energy(const double q[MACRO_N], const double dq[MACRO_N]);
double PREFIX_potential_energy(const double q[MACRO_N]);
/* Derivatives of inverse_dynamics by q and dq, row by row: entry [i N + j] is d tau_i / d x_j; that by ddq is M. */
void PREFIX_inverse_dynamics_derivatives(const double q[MACRO_N], const double dq[MACRO_N],
    const double ddq[MACRO_N], double by_q[MACRO_N * MACRO_N], double by_dq[MACRO_N * MACRO_N]);
/* Generalised momentum p = M dq, and C' dq, by which dp/dt = tau + C' dq - g - friction. */
void PREFIX_momentum(const double q[MACRO_N], const double dq[MACRO_N], double p[MACRO_N], double carried[MACRO_N]);
/* State of the observer of external torque: begin with all zeros, PREFIX_observer o = {0}. */
typedef struct {
    double external[MACRO_N]; /* N m, low-passed */
    double momentum[MACRO_N];
    double rate[MACRO_N];
    int started;
} PREFIX_observer;
/* Torque from outside on the joints, beside that of the drives, low-passed with a gain of 2 pi cut-off frequency, 1/s.
 * dt: s since the last call; the first call gives zeros. */
void PREFIX_external_torque(PREFIX_observer *o, double dt, double gain, const double q[MACRO_N],
    const double dq[MACRO_N], const double tau[MACRO_N], double external[MACRO_N]);
"""

_ALGEBRA = """\
/* Spatial vectors are (angular, linear) and (moment, force) about the base's origin. */
struct PREFIX_moved {
    double R[9], p[3], s[6], v[6], a[6], turning[6], falling[6], inertia[10];
};

static void PREFIX_cross(const double a[3], const double b[3], double c[3])
{
    c[0] = a[1] * b[2] - a[2] * b[1];
    c[1] = a[2] * b[0] - a[0] * b[2];
    c[2] = a[0] * b[1] - a[1] * b[0];
}

static double PREFIX_dot(const double a[6], const double b[6])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3] + a[4] * b[4] + a[5] * b[5];
}

static void PREFIX_turn(const double R[9], const double a[3], double b[3])
{
    int k;
    for (k = 0; k < 3; ++k) {
        b[k] = R[3 * k] * a[0] + R[3 * k + 1] * a[1] + R[3 * k + 2] * a[2];
    }
}

/* Motion s as seen from a frame that moves with v. */
static void PREFIX_bracket(const double v[6], const double s[6], double c[6])
{
    double other[3];
    int k;
    PREFIX_cross(v, s, c);
    PREFIX_cross(v, s + 3, c + 3);
    PREFIX_cross(v + 3, s, other);
    for (k = 0; k < 3; ++k) {
        c[3 + k] += other[k];
    }
}

/* Its dual. */
static void PREFIX_push(const double v[6], const double f[6], double c[6])
{
    double other[3];
    int k;
    PREFIX_cross(v, f, c);
    PREFIX_cross(v + 3, f + 3, other);
    PREFIX_cross(v, f + 3, c + 3);
    for (k = 0; k < 3; ++k) {
        c[k] += other[k];
    }
}

/* Momentum of ten parameters at a motion. */
static void PREFIX_carry(const double g[10], const double x[6], double f[6])
{
    double across[3];
    int k;
    PREFIX_cross(g + 1, x + 3, across);
    f[0] = g[4] * x[0] + g[5] * x[1] + g[7] * x[2] + across[0];
    f[1] = g[5] * x[0] + g[6] * x[1] + g[8] * x[2] + across[1];
    f[2] = g[7] * x[0] + g[8] * x[1] + g[9] * x[2] + across[2];
    PREFIX_cross(g + 1, x, across);
    for (k = 0; k < 3; ++k) {
        f[3 + k] = g[0] * x[3 + k] - across[k];
    }
}

/* Ten parameters about the base's origin and along its axes. */
static void PREFIX_moved_inertia(const double R[9], const double p[3], const double g[10], double out[10])
{
    static const int row[6] = {0, 0, 1, 0, 1, 2}, column[6] = {0, 1, 1, 2, 2, 2};
    double I[9], RI[9], h[3], u[3], both = 0.0;
    int i, j, k;
    I[0] = g[4]; I[1] = I[3] = g[5]; I[4] = g[6]; I[2] = I[6] = g[7]; I[5] = I[7] = g[8]; I[8] = g[9];
    PREFIX_turn(R, g + 1, h);
    for (k = 0; k < 3; ++k) {
        u[k] = h[k] + g[0] * p[k];
        both += p[k] * (h[k] + u[k]);
    }
    for (i = 0; i < 3; ++i) {
        for (j = 0; j < 3; ++j) {
            RI[3 * i + j] = R[3 * i] * I[j] + R[3 * i + 1] * I[3 + j] + R[3 * i + 2] * I[6 + j];
        }
    }
    out[0] = g[0];
    for (k = 0; k < 3; ++k) {
        out[1 + k] = u[k];
    }
    for (k = 0; k < 6; ++k) {
        i = row[k];
        j = column[k];
        out[4 + k] = RI[3 * i] * R[3 * j] + RI[3 * i + 1] * R[3 * j + 1] + RI[3 * i + 2] * R[3 * j + 2]
            - u[i] * p[j] - p[i] * h[j] + (i == j ? both : 0.0);
    }
}

/* All bodies of the tree, outward; motion of the joints as dq and ddq, a null pointer for rest. */
static void PREFIX_outward(const double inertia[10 * MACRO_NB], const double gravity[3], const double q[MACRO_N],
    const double *dq, const double *ddq, struct PREFIX_moved body[MACRO_NB])
{
    double x, rate, push, c, s, own[9], at[3], along[3], first[6], second[6];
    const double *axis, *fixed;
    int i, j, k, parent;
    for (i = 0; i < MACRO_NB; ++i) {
        struct PREFIX_moved *b = &body[i];
        const struct PREFIX_moved *up;
        parent = PREFIX_parent[i];
        up = parent < 0 ? 0 : &body[parent];
        axis = PREFIX_axis[i];
        fixed = PREFIX_rotation[i];
        x = PREFIX_shift[i];
        rate = push = 0.0;
        for (j = 0; j < MACRO_N; ++j) {
            x += PREFIX_projection[i][j] * q[j];
            rate += dq ? PREFIX_projection[i][j] * dq[j] : 0.0;
            push += ddq ? PREFIX_projection[i][j] * ddq[j] : 0.0;
        }
        for (k = 0; k < 9; ++k) {
            own[k] = fixed[k];
        }
        PREFIX_turn(fixed, axis, along);
        for (k = 0; k < 3; ++k) {
            at[k] = PREFIX_translation[i][k] + (PREFIX_slides[i] ? x * along[k] : 0.0);
        }
        if (!PREFIX_slides[i]) {
            c = cos(x);
            s = sin(x);
            for (k = 0; k < 3; ++k) {
                const double *f = fixed + 3 * k;
                double across[3], part = (1.0 - c) * (f[0] * axis[0] + f[1] * axis[1] + f[2] * axis[2]);
                PREFIX_cross(f, axis, across);
                for (j = 0; j < 3; ++j) {
                    own[3 * k + j] = c * f[j] + part * axis[j] + s * across[j];
                }
            }
        }
        for (k = 0; k < 9; ++k) {
            b->R[k] = up ? up->R[k / 3 * 3] * own[k % 3] + up->R[k / 3 * 3 + 1] * own[3 + k % 3]
                + up->R[k / 3 * 3 + 2] * own[6 + k % 3] : own[k];
        }
        if (up) {
            PREFIX_turn(up->R, at, b->p);
        }
        for (k = 0; k < 3; ++k) {
            b->p[k] = up ? up->p[k] + b->p[k] : at[k];
        }
        PREFIX_turn(b->R, axis, along);
        PREFIX_cross(b->p, along, at);
        for (k = 0; k < 3; ++k) {
            b->s[k] = PREFIX_slides[i] ? 0.0 : along[k];
            b->s[3 + k] = PREFIX_slides[i] ? along[k] : at[k];
        }
        for (k = 0; k < 6; ++k) {
            b->v[k] = up ? up->v[k] : 0.0;
            b->a[k] = up ? up->a[k] : k < 3 ? 0.0 : -gravity[k - 3];
        }
        PREFIX_bracket(b->v, b->s, b->turning);
        PREFIX_bracket(b->a, b->s, first);
        PREFIX_bracket(b->v, b->turning, second);
        for (k = 0; k < 6; ++k) {
            b->falling[k] = first[k] + second[k];
            b->v[k] += b->s[k] * rate;
            b->a[k] += b->s[k] * push + b->turning[k] * rate;
        }
        PREFIX_moved_inertia(b->R, b->p, inertia + 10 * i, b->inertia);
    }
}
"""

_FUNCTIONS = """\
void PREFIX_forward_kinematics(const double q[MACRO_N], double T[12 * MACRO_NB])
{
    struct PREFIX_moved body[MACRO_NB];
    int i, k;
    PREFIX_outward(PREFIX_parameters, PREFIX_gravity_vector, q, 0, 0, body);
    for (i = 0; i < MACRO_NB; ++i) {
        for (k = 0; k < 12; ++k) {
            T[12 * i + k] = k % 4 < 3 ? body[i].R[k / 4 * 3 + k % 4] : body[i].p[k / 4];
        }
    }
}

void PREFIX_jacobian(const double q[MACRO_N], int body, const double point[3], double J[6 * MACRO_N])
{
    struct PREFIX_moved moved[MACRO_NB];
    double at[3], arm[3], w[3];
    int i, j, k;
    PREFIX_outward(PREFIX_parameters, PREFIX_gravity_vector, q, 0, 0, moved);
    for (k = 0; k < 6 * MACRO_N; ++k) {
        J[k] = 0.0;
    }
    PREFIX_turn(moved[body].R, point, at);
    for (k = 0; k < 3; ++k) {
        at[k] += moved[body].p[k];
    }
    for (i = body; i >= 0; i = PREFIX_parent[i]) {
        PREFIX_cross(moved[i].s, at, arm);
        for (k = 0; k < 3; ++k) {
            w[k] = moved[i].s[3 + k] + arm[k];
        }
        for (j = 0; j < MACRO_N; ++j) {
            for (k = 0; k < 3; ++k) {
                J[k * MACRO_N + j] += PREFIX_projection[i][j] * w[k];
                J[(3 + k) * MACRO_N + j] += PREFIX_projection[i][j] * moved[i].s[k];
            }
        }
    }
}

double PREFIX_potential_energy(const double q[MACRO_N])
{
    struct PREFIX_moved body[MACRO_NB];
    double energy = 0.0;
    int i, k;
    PREFIX_outward(PREFIX_parameters, PREFIX_gravity_vector, q, 0, 0, body);
    for (i = 0; i < MACRO_NB; ++i) {
        for (k = 0; k < 3; ++k) {
            energy -= PREFIX_gravity_vector[k] * body[i].inertia[1 + k];
        }
    }
    return energy;
}

double PREFIX_kinetic_energy(const double q[MACRO_N], const double dq[MACRO_N])
{
    double M[MACRO_N * MACRO_N], energy = 0.0;
    int i, j;
    PREFIX_mass_matrix(q, M);
    for (i = 0; i < MACRO_N; ++i) {
        for (j = 0; j < MACRO_N; ++j) {
            energy += 0.5 * dq[i] * M[i * MACRO_N + j] * dq[j];
        }
    }
    return energy;
}

int PREFIX_forward_dynamics(const double q[MACRO_N], const double dq[MACRO_N], const double tau[MACRO_N],
    double ddq[MACRO_N])
{
    static const double zero[MACRO_N];
    double M[MACRO_N * MACRO_N], friction[MACRO_N], factor;
    int i, j, k;
    PREFIX_inverse_dynamics(q, dq, zero, ddq);
    PREFIX_friction(dq, friction);
    PREFIX_mass_matrix(q, M);
    for (i = 0; i < MACRO_N; ++i) {
        ddq[i] = tau[i] - ddq[i] - friction[i];
    }
    for (k = 0; k < MACRO_N; ++k) {
        if (!(M[k * MACRO_N + k] > 0.0)) {
            return 0;
        }
        for (i = k + 1; i < MACRO_N; ++i) {
            factor = M[i * MACRO_N + k] / M[k * MACRO_N + k];
            for (j = k + 1; j < MACRO_N; ++j) {
                M[i * MACRO_N + j] -= factor * M[k * MACRO_N + j];
            }
            ddq[i] -= factor * ddq[k];
        }
    }
    for (k = MACRO_N - 1; k >= 0; --k) {
        for (j = k + 1; j < MACRO_N; ++j) {
            ddq[k] -= M[k * MACRO_N + j] * ddq[j];
        }
        ddq[k] /= M[k * MACRO_N + k];
    }
    return 1;
}

/* Adds the derivatives of the torque of bodies under gravity to by_q and, unless that is null, to by_dq. */
static void PREFIX_add_derivatives(const double inertia[10 * MACRO_NB], const double gravity[3],
    const double q[MACRO_N], const double *dq, const double *ddq, double by_q[MACRO_N * MACRO_N], double *by_dq)
{
    struct PREFIX_moved body[MACRO_NB];
    double P[MACRO_NB][6], Q[MACRO_NB][6], F[MACRO_NB][6], h[6], one[6], two[6], slope, rate;
    int in[MACRO_NB], i, j, k, m, n;
    PREFIX_outward(inertia, gravity, q, dq, ddq, body);
    for (i = 0; i < MACRO_NB; ++i) {
        PREFIX_carry(body[i].inertia, body[i].v, h);
        PREFIX_carry(body[i].inertia, body[i].a, one);
        PREFIX_push(body[i].v, h, two);
        for (k = 0; k < 6; ++k) {
            F[i][k] = one[k] + two[k];
        }
    }
    for (i = MACRO_NB - 1; i >= 0; --i) {
        for (k = 0; k < 6 && PREFIX_parent[i] >= 0; ++k) {
            F[PREFIX_parent[i]][k] += F[i][k];
        }
    }
    /* Torque of joint j, by the motion of joints behind it and before it. */
    for (j = 0; j < MACRO_NB; ++j) {
        for (i = j; i < MACRO_NB; ++i) {
            in[i] = i == j || (PREFIX_parent[i] >= j && in[PREFIX_parent[i]]);
            if (!in[i]) {
                continue;
            }
            PREFIX_carry(body[i].inertia, body[j].s, P[i]);
            PREFIX_push(body[i].v, P[i], Q[i]);
            PREFIX_carry(body[i].inertia, body[i].v, h);
            PREFIX_push(body[j].s, h, one);
            PREFIX_bracket(body[i].v, body[j].s, h);
            PREFIX_carry(body[i].inertia, h, two);
            for (k = 0; k < 6; ++k) {
                Q[i][k] -= one[k] + two[k];
            }
        }
        for (i = MACRO_NB - 1; i > j; --i) {
            for (k = 0; k < 6 && in[i]; ++k) {
                P[PREFIX_parent[i]][k] += P[i][k];
                Q[PREFIX_parent[i]][k] += Q[i][k];
            }
        }
        for (i = 0; i < MACRO_NB; ++i) {
            const double *p = P[j], *u = Q[j];
            if (i >= j) {
                if (!in[i]) {
                    continue;
                }
                p = P[i];
                u = Q[i];
            } else {
                for (k = PREFIX_parent[j]; k > i; k = PREFIX_parent[k]) {
                }
                if (k != i) {
                    continue;
                }
            }
            slope = PREFIX_dot(body[i].turning, u) + PREFIX_dot(body[i].falling, p);
            rate = PREFIX_dot(body[i].s, u) + 2.0 * PREFIX_dot(body[i].turning, p);
            if (i > j) {
                PREFIX_push(body[j].s, F[i], one);
                slope -= PREFIX_dot(body[i].s, one);
            }
            for (m = 0; m < MACRO_N; ++m) {
                for (n = 0; n < MACRO_N; ++n) {
                    by_q[m * MACRO_N + n] += PREFIX_projection[j][m] * slope * PREFIX_projection[i][n];
                    if (by_dq) {
                        by_dq[m * MACRO_N + n] += PREFIX_projection[j][m] * rate * PREFIX_projection[i][n];
                    }
                }
            }
        }
    }
}

void PREFIX_inverse_dynamics_derivatives(const double q[MACRO_N], const double dq[MACRO_N],
    const double ddq[MACRO_N], double by_q[MACRO_N * MACRO_N], double by_dq[MACRO_N * MACRO_N])
{
    int k;
    for (k = 0; k < MACRO_N * MACRO_N; ++k) {
        by_q[k] = by_dq[k] = 0.0;
    }
    PREFIX_add_derivatives(PREFIX_parameters, PREFIX_gravity_vector, q, dq, ddq, by_q, by_dq);
TILT}

void PREFIX_momentum(const double q[MACRO_N], const double dq[MACRO_N], double p[MACRO_N], double carried[MACRO_N])
{
    struct PREFIX_moved body[MACRO_NB];
    double h[MACRO_NB][6], turning[6], along, turned;
    int i, j, k;
    PREFIX_outward(PREFIX_parameters, PREFIX_gravity_vector, q, dq, 0, body);
    for (j = 0; j < MACRO_N; ++j) {
        carried[j] = 0.0;
        p[j] = 0.0;
        for (k = 0; k < MACRO_N; ++k) {
            p[j] += PREFIX_drives[j][k] * dq[k];
        }
    }
    for (i = 0; i < MACRO_NB; ++i) {
        PREFIX_carry(body[i].inertia, body[i].v, h[i]);
    }
    for (i = MACRO_NB - 1; i >= 0; --i) {
        PREFIX_bracket(body[i].v, body[i].s, turning);
        along = PREFIX_dot(body[i].s, h[i]);
        turned = PREFIX_dot(turning, h[i]);
        for (j = 0; j < MACRO_N; ++j) {
            p[j] += PREFIX_projection[i][j] * along;
            carried[j] += PREFIX_projection[i][j] * turned;
        }
        for (k = 0; k < 6 && PREFIX_parent[i] >= 0; ++k) {
            h[PREFIX_parent[i]][k] += h[i][k];
        }
    }
}

void PREFIX_external_torque(PREFIX_observer *o, double dt, double gain, const double q[MACRO_N],
    const double dq[MACRO_N], const double tau[MACRO_N], double external[MACRO_N])
{
    double p[MACRO_N], carried[MACRO_N], gravity[MACRO_N], friction[MACRO_N], rate, share;
    int j;
    PREFIX_momentum(q, dq, p, carried);
    PREFIX_gravity(q, gravity);
    PREFIX_friction(dq, friction);
    share = exp(-gain * dt);
    for (j = 0; j < MACRO_N; ++j) {
        rate = tau[j] + carried[j] - gravity[j] - friction[j];
        if (o->started && dt > 0.0) {
            o->external[j] = share * o->external[j]
                + (1.0 - share) * ((p[j] - o->momentum[j]) / dt - 0.5 * (rate + o->rate[j]));
        }
        o->momentum[j] = p[j];
        o->rate[j] = rate;
        external[j] = o->external[j];
    }
    o->started = 1;
}
"""


def declarations(prefix: str) -> list[str]:
    """Lines for the header."""
    return _named(_DECLARED, prefix)


def functions(model: ExportModel, prefix: str) -> list[str]:
    """Lines for the source, behind those of torque."""
    tilt = [] if model.tilt is None else _tilt(model)
    text = _ALGEBRA + "\n" + _FUNCTIONS.replace("TILT", "".join(tilt))
    return [*_tables(model, prefix), "", *_named(text, prefix), ""]


def _named(text: str, prefix: str) -> list[str]:
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
    return ["/* The tree: bodies in the order of the parameters. */", *whole, *numbers]


def _table(name: str, values: Float) -> list[str]:
    if values.ndim == 1:
        return [f"static const {name} = {{{_row(values)}}};"]
    rows = [f"    {{{_row(row)}}}," for row in values]
    rows[-1] = rows[-1].rstrip(",")
    return [f"static const {name} = {{", *rows, "};"]


def _row(values: Sequence[float] | Float) -> str:
    return ", ".join(repr(float(x)) for x in values)


def _tilt(model: ExportModel) -> list[str]:
    # Weights of the nominal bodies under what the tilts add to gravity, and the pattern of the first body.
    lines = ["    PREFIX_add_derivatives(PREFIX_leaning, PREFIX_lean, q, 0, 0, by_q, 0);\n"]
    patterns = [] if model.tilt is None else model.tilt.values[2:].tolist()
    for value, slope in zip(patterns, ("-sin", "cos"), strict=False):
        lines.append(f"    by_q[0] += {value!r} * {slope}(q[0]);\n")
    return lines
