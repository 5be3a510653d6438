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

/* Spatial cross product v x s of motions. */
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

/* Spatial cross product v x* f of a motion and a force. */
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

/* Momentum of a link, given by ten parameters, at a motion. */
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

/* Ten parameters of a link, moved to the base frame. */
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

/* All links of the tree, from the base outward; dq and ddq of the joints, a null pointer for rest. */
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
