/* Dynamics of the robot 'arm7', written by dynid.
 *
 * q[0]: joint1
 * q[1]: joint2
 * q[2]: joint3
 * q[3]: joint4
 * q[4]: joint5
 * q[5]: joint6
 * q[6]: joint7
 *
 * SI units; torque at the joints, positive in the direction of positive q.
 */
#ifndef ARM7_DYNAMICS_H
#define ARM7_DYNAMICS_H

#define ARM7_N 7 /* joints */
#define ARM7_NB 7 /* links */
#define ARM7_NP 98 /* parameters of arm7_regressor_times */

#ifdef __cplusplus
extern "C" {
#endif

/* Identified parameters: ten per link (m, mcx, mcy, mcz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz about its joint
 * frame), then rotor inertia, viscous friction, Coulomb friction and offset, one per joint each, then
 * coefficients of friction curves and of coupled drives, the tilts of the base, and for each spring its
 * stiffness and preload; the preload contains the offset of its joint. */
extern const double arm7_parameters[ARM7_NP];

/* M(q) ddq + C(q, dq) dq + g(q), rotors and springs included, without friction. */
void arm7_inverse_dynamics(const double q[ARM7_N], const double dq[ARM7_N], const double ddq[ARM7_N], double tau[ARM7_N]);
/* g(q), springs included. */
void arm7_gravity(const double q[ARM7_N], double tau[ARM7_N]);
/* C(q, dq) dq. */
void arm7_coriolis(const double q[ARM7_N], const double dq[ARM7_N], double tau[ARM7_N]);
/* M(q), rotors included, row by row. */
void arm7_mass_matrix(const double q[ARM7_N], double M[ARM7_N * ARM7_N]);
/* Viscous and Coulomb friction, friction curves and offset. */
void arm7_friction(const double dq[ARM7_N], double tau[ARM7_N]);
/* Inverse dynamics and friction together. */
void arm7_torque(const double q[ARM7_N], const double dq[ARM7_N], const double ddq[ARM7_N], double tau[ARM7_N]);
/* Y(q, dq, ddq) pi for any parameters pi, friction included. */
void arm7_regressor_times(const double q[ARM7_N], const double dq[ARM7_N], const double ddq[ARM7_N], const double pi[ARM7_NP], double tau[ARM7_N]);
/* Acceleration under drive torque, M^-1 (tau - C dq - g - friction). Returns 1, or 0 if M is not positive definite, for
 * example because links are not physically consistent. */
int arm7_forward_dynamics(const double q[ARM7_N], const double dq[ARM7_N], const double tau[ARM7_N],
    double ddq[ARM7_N]);
/* Joint frames of the links in the base frame: for each link three rows [R p] of four numbers. */
void arm7_forward_kinematics(const double q[ARM7_N], double T[12 * ARM7_NB]);
/* J with (v; w) = J dq of a point (m, in the joint frame of a link, 0 to NB - 1), in the base frame, row by row. */
void arm7_jacobian(const double q[ARM7_N], int body, const double point[3], double J[6 * ARM7_N]);
/* J: kinetic energy dq' M dq / 2; potential energy of gravity (0 at the base's origin) and springs (0 at q = 0). */
double arm7_kinetic_energy(const double q[ARM7_N], const double dq[ARM7_N]);
double arm7_potential_energy(const double q[ARM7_N]);
/* Derivatives of inverse_dynamics by q and dq, row by row: entry [i N + j] is d tau_i / d x_j. That by ddq is M. */
void arm7_inverse_dynamics_derivatives(const double q[ARM7_N], const double dq[ARM7_N],
    const double ddq[ARM7_N], double by_q[ARM7_N * ARM7_N], double by_dq[ARM7_N * ARM7_N]);
/* Generalised momentum p = M dq, and C' dq; dp/dt = tau + C' dq - g - friction. */
void arm7_momentum(const double q[ARM7_N], const double dq[ARM7_N], double p[ARM7_N], double carried[ARM7_N]);
/* State of the observer of external torque; initialise with zeros: arm7_observer o = {0}. */
typedef struct {
    double external[ARM7_N]; /* N m, low-passed */
    double momentum[ARM7_N];
    double rate[ARM7_N];
    int started;
} arm7_observer;
/* External torque on the joints, low-passed; gain = 2 pi cutoff frequency, 1/s.
 * dt: s since the last call; the first call gives zeros. */
void arm7_external_torque(arm7_observer *o, double dt, double gain, const double q[ARM7_N],
    const double dq[ARM7_N], const double tau[ARM7_N], double external[ARM7_N]);

#ifdef __cplusplus
}
#endif

#endif
