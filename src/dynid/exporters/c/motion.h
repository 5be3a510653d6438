/* Acceleration under the drives' torque, M^-1 (tau - C dq - g - friction). Returns 1, or 0 where M is not positive
 * definite, as where bodies are not physical. */
int PREFIX_forward_dynamics(const double q[MACRO_N], const double dq[MACRO_N], const double tau[MACRO_N],
    double ddq[MACRO_N]);
/* Placements of the bodies' joint frames in the base frame: for each body three rows [R p] of four numbers. */
void PREFIX_forward_kinematics(const double q[MACRO_N], double T[12 * MACRO_NB]);
/* J with (v; w) = J dq of a point (m, in the joint frame of a body, 0 to NB - 1), along the base's axes, row by row. */
void PREFIX_jacobian(const double q[MACRO_N], int body, const double point[3], double J[6 * MACRO_N]);
/* dq' M dq / 2, and the energy of gravity, zero at the base's origin, and of springs, zero at positions 0, J. */
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
