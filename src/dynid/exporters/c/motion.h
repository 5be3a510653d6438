/* Acceleration under drive torque, M^-1 (tau - C dq - g - friction). Returns 1, or 0 if M is not positive definite, for
 * example because links are not physically consistent. */
int PREFIX_forward_dynamics(const double q[MACRO_N], const double dq[MACRO_N], const double tau[MACRO_N],
    double ddq[MACRO_N]);
/* Joint frames of the links in the base frame: for each link three rows [R p] of four numbers. */
void PREFIX_forward_kinematics(const double q[MACRO_N], double T[12 * MACRO_NB]);
/* J with (v; w) = J dq of a point (m, in the joint frame of a link, 0 to NB - 1), in the base frame, row by row. */
void PREFIX_jacobian(const double q[MACRO_N], int body, const double point[3], double J[6 * MACRO_N]);
/* J: kinetic energy dq' M dq / 2; potential energy of gravity (0 at the base's origin) and springs (0 at q = 0). */
double PREFIX_kinetic_energy(const double q[MACRO_N], const double dq[MACRO_N]);
double PREFIX_potential_energy(const double q[MACRO_N]);
/* Derivatives of inverse_dynamics by q and dq, row by row: entry [i N + j] is d tau_i / d x_j. That by ddq is M. */
void PREFIX_inverse_dynamics_derivatives(const double q[MACRO_N], const double dq[MACRO_N],
    const double ddq[MACRO_N], double by_q[MACRO_N * MACRO_N], double by_dq[MACRO_N * MACRO_N]);
/* Generalised momentum p = M dq, and C' dq; dp/dt = tau + C' dq - g - friction. */
void PREFIX_momentum(const double q[MACRO_N], const double dq[MACRO_N], double p[MACRO_N], double carried[MACRO_N]);
/* State of the observer of external torque; initialise with zeros: PREFIX_observer o = {0}. */
typedef struct {
    double external[MACRO_N]; /* N m, low-passed */
    double momentum[MACRO_N];
    double rate[MACRO_N];
    int started;
} PREFIX_observer;
/* External torque on the joints, low-passed; gain = 2 pi cutoff frequency, 1/s.
 * dt: s since the last call; the first call gives zeros. */
void PREFIX_external_torque(PREFIX_observer *o, double dt, double gain, const double q[MACRO_N],
    const double dq[MACRO_N], const double tau[MACRO_N], double external[MACRO_N]);
