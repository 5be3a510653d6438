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
ENERGY    return energy;
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

/* Adds the derivatives of the links' torque under gravity to by_q and, unless it is null, to by_dq. */
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
    /* Torque of joint j, by the motion of the joints after it and before it. */
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
SLOPES}

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
