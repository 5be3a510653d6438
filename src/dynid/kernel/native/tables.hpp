// What the code compiled once per instruction set offers to the module; plain pointers only, so that no inline
// function of the standard library is emitted with instructions that the machine at hand may lack.
#pragma once
#include <cstddef>
#include <cstdint>

namespace dynid {

constexpr int lanes = 4;            // samples that one vector holds
constexpr int block_samples = 64;   // samples handled at once: a panel of a joint stays in the second-level cache

// A tree and the columns wanted of it. Pairs (body j, ancestor-or-self i) are numbered body by body, root first.
struct TreeView {
  int n;
  const int* parent;
  const unsigned char* prismatic;
  const double* axis;         // (n, 3)
  const double* rotation;     // (n, 3, 3) row-major, parent <- joint
  const double* translation;  // (n, 3)
  const double* gravity;      // (3)
  const int* pair_first;      // (n + 1) number of the first pair of each body
  const int* pair_joint;      // (pairs) the ancestor i of each pair
  const std::uint32_t* mask;  // (n) bit k: column k of the body is wanted
};

enum Quantity { torque = 0, momentum = 1, momentum_rate = 2, kinetic_energy = 3, potential_energy = 4 };

// A multibody system with known parameters: M(x) a + h(x, v) = force over s coordinates x.
struct SystemView {
  TreeView tree;               // every column wanted
  const double* inertia;       // (nb, 10)
  int size;                    // s
  // The tree's positions are P x + shift: the non-zeros of P (nb, s) in the order of its rows; entries = 0: P = 1, shift = 0.
  int entries;
  const int *entry_row, *entry_column;
  const double *entry_value, *shift;  // shift (nb)
  const double* mass;          // (s, s) beside that of the bodies
  const double* constant;      // (s) of h
  // h += stiffness x + damping v: where either is not zero.
  int links;
  const int *link_row, *link_column;
  const double *link_stiffness, *link_damping;
  // h += level tanh(v / width) at a coordinate; width = 0: the sign.
  int signs;
  const int* sign_at;
  const double *sign_level, *sign_width;
  const int *below_first, *below;  // the pattern of M's factor: below[below_first[k] ...] are the i < k, ascending
  const int *near_first, *near;    // the pattern of the slopes of h
  const unsigned char* related;    // (nb, nb) whether one body is the other or its ancestor
};

// u = sat(kp e(q_ref - q) + kd (v_ref - v) + u_ref + g(q - bend)); e is zero up to the dead band. Tables (rows, drives) of each
// run, run_stride numbers apart (0: one for all); null = zero, or without.
struct ControlView {
  int drives;
  const int* driven;  // the coordinate on which each acts
  const double *kp, *kd, *limit, *dead_band;
  const double *q, *v, *u, *bend;
  long run_stride;
  const SystemView* gravity;  // of rigid joints, whose weight is held
};

// Numbers of a system that differ between runs, null = those of the system: (runs, width) with inertia (nb, 10), mass, stiffness and
// damping (s, s) each, constant (s), level and width of the signs.
struct ModelsView {
  const double* numbers;
  long width;
};

// Classical Runge-Kutta steps. Not held: `count` steps from sample to sample, tables with two rows a step. Held: the torque of
// sample k - delay - 1 for `early` steps, then that of k - delay for `count` steps; tables with a row a sample.
struct RolloutView {
  long runs, samples, count, early, delay;
  double step, early_step;
  bool held;
  const double* start;    // (runs, 2 s)
  const double* history;  // (runs, delay + 2, drives) torques before the first sample, the latest first; null = zero
  double* states;         // (runs, samples, 2 s)
  double* inputs;         // (runs, samples, drives) commanded torque where it is held
  double* failures;       // (groups, 2) kind and sample: 1 no finite state, 2 a mass matrix that is not positive definite
};

// Linearly implicit steps of adaptive length, see kernel/rosenbrock.py. Each sample has `count` intervals; tables have input_rows rows
// an interval, or one a sample where torque is held.
struct AdaptiveView {
  long runs, samples, count;
  double length, tolerance, speed_tolerance, least_share, most;  // of an interval, s; of a step's errors; shortest step; most steps of a run
  bool held;
  const double* start;  // (runs, 2 s)
  double *share, *tried;  // (runs) length of the next step as a share of an interval; steps tried so far
  double *states, *inputs, *failures;  // as in RolloutView, and kind 3: more than `most` steps
};

enum Parameter { of_body = 0, of_acceleration, of_velocity, of_sign, of_nothing, of_deflection, of_deflection_rate };

// Slopes of a rollout by parameters, and by the first state where columns = parameters + 2 s.
struct TangentView {
  long columns, parameters, waiting;  // waiting: delay + 1
  const int *kind, *first, *second;   // (parameters) see Parameter; body and its column, or coordinates
  const double* width;
  double *dx, *dv;  // (runs, samples, s, columns), dv may be null
};

// Steps of the extended Kalman filter for z = (x, v, beta), each with a correction by measured positions. Parameter c adds to
// what *target[c] points at, a number of the system, which is known[c] without it.
struct KalmanView {
  long rows, torques;  // steps; torques known within each, the first at its beginning
  int passes, drives;
  double h;
  TangentView slopes;  // columns = parameters + 3 s; dx, dv null
  double* const* target;
  const double* known;
  const int* driven;
  const double *u, *means, *x;                 // (rows, torques, drives); (lanes, torques) at the nodes; (rows, s)
  const double *force, *position, *drift;      // deviations (s), (s), (parameters)
  double *mean, *covariance, *innovation;      // (size), (size, size) with size = 2 s + parameters; (rows)
  long* done;                                  // steps taken
};

// Rosenbrock steps under u + kp (x - x_run) + kd (v - v_run), tables (runs, rows, drives) with two rows a step.
struct FollowView {
  long runs, samples, count, rows;
  int drives, springs;
  const int *driven, *spring_row, *spring_column;
  double step, gamma, slow, furthest;
  const double *kp, *kd, *u, *x, *v;
  const double *stiffness, *damping, *spring;  // (s, s), (s, s) without its diagonal, the non-zeros of the first
  const double *start, *far;                   // (runs, 2 s); (runs, samples, s) what a run must stay near
  double *states, *failures;
};

// Steps with dry friction under a torque (runs, samples, drives); see simulation/stick.py.
struct StickView {
  long runs, samples, least, most;
  int drives, events, refinements, sweeps;
  const int* driven;
  bool constant, watched;
  double length, furthest, beside, shortest;
  const double *start, *u;
  double *states, *ended;  // (runs, samples, 3 s) positions, velocities, whether it sticks; (runs) sample of the end
};

// The variational equation of one run by Lobatto's rule IIIC: slopes (samples, s, 2 s), inputs (samples, s, w), x and v
// (samples, s, columns), columns = w, or w + 2 s with the first state.
struct VariationalView {
  long samples, s, w, columns;
  double h;
  const double *slopes, *inputs;
  double *x, *v;
};

// The variational equation along runs x, v, a (runs, samples, s) of a system under feedback kp, kd (drives), by the same rule. out
// (runs, samples, outputs, columns): slopes of by_x x + by_v v of the coordinates `at`.
struct VariationView {
  long samples;
  double h;
  bool first_state;
  TangentView slopes;  // columns = parameters + 2 s; dx, dv null
  int drives, outputs;
  const int *driven, *at;
  const double *kp, *kd, *by_x, *by_v, *x, *v, *a;
  double* out;
};

struct KernelTable {
  std::size_t scratch_bytes_per_body;
  std::size_t scratch_bytes_per_pair;
  std::size_t sweep_bytes_per_body;
  std::size_t sweep_bytes_per_pair;
  // Mass matrix M (n, n) and bias force h (n) of bodies with ten inertial parameters each, for the first `count` samples of
  // a block; input as above, its third part zero. Lines of block_samples: M at i n + j, h at n n + i; unrelated pairs of
  // joints are left as they are.
  void (*dynamics_block)(const TreeView&, const double* inertia, const double* input, int count, double* out, void* scratch);
  // Torque (n) of bodies with ten parameters each and rotors (n); input and lines as above.
  void (*inverse_block)(const TreeView&, const double* inertia, const double* armature, const double* input, int count,
                        double* out, void* scratch);
  // Acceleration (n); input (4, n, block_samples) q, dq, 0, torque; work: n (n + 1) lines, zero between unrelated joints.
  // Returns 0 where a mass matrix was not positive definite.
  int (*forward_block)(const TreeView&, const double* inertia, const double* armature, const double* input, int count,
                       double* out, double* work, void* scratch);
  // Momentum M dq, then -C' dq + g, (2 n) lines.
  void (*momentum_block)(const TreeView&, const double* inertia, const double* armature, const double* input, int count,
                         double* out, void* scratch);
  // Placements of the bodies' frames in that of the base, three rows of four numbers each, (12 n) lines.
  void (*placement_block)(const TreeView&, const double* input, int count, double* out, void* scratch);
  // Derivatives of the weighted sum of the regressor by motion, the first `count` samples of a block,
  // rounded up to whole lanes. weights: per pair and column k where its values stand; out (3, n, block_samples).
  void (*contract_block)(const TreeView&, const double* const* weights, const double* input, int count, double* out,
                         void* scratch);
  // The same of torque for bodies with ten parameters each; out (3, n, n, block_samples), motion before torque, unrelated
  // pairs of joints left as they are.
  void (*jacobian_block)(const TreeView&, const double* inertia, const double* input, int count, double* out, void* scratch);
  // The runs of the group that begins with run `first`, one a lane. scratch: 32-byte aligned, step_bytes of it; false where a run
  // needs more than its `bytes`, which nothing is written beyond.
  std::size_t (*step_bytes)(const SystemView&, const ControlView&, long delay, long columns);
  bool (*rollout_group)(const SystemView&, const ControlView&, const RolloutView&, const TangentView&, const ModelsView&, long first, void* scratch,
                        std::size_t bytes);
  bool (*adaptive_group)(const SystemView&, const ControlView&, const AdaptiveView&, const ModelsView&, long first, void* scratch, std::size_t bytes);
  bool (*follow_group)(const SystemView&, const FollowView&, long first, void* scratch, std::size_t bytes);
  bool (*stick_group)(const SystemView&, const StickView&, long first, void* scratch, std::size_t bytes);
  // As with groups; false, too, where nothing was done for want of scratch.
  std::size_t (*kalman_bytes)(const SystemView&, const KalmanView&);
  bool (*kalman_run)(const SystemView&, const KalmanView&, void* scratch, std::size_t bytes);
  std::size_t (*variation_bytes)(const SystemView&, const VariationView&);
  bool (*variation_run)(const SystemView&, const VariationView&, long run, void* scratch, std::size_t bytes);
  // scratch: 2 s columns + 3 (2 s)^2 numbers, zero.
  void (*variational_run)(const VariationalView&, double* scratch);
};

struct LineTable {
  const char* name;
  int lanes;  // samples that one vector holds
  std::size_t bytes_per_body;
  std::size_t bytes_per_pair;
  // Regressor of the first `count` samples of a block, rounded up to whole
  // vectors. input: (3, n, block_samples) q, dq,
  // ddq. lines: per pair and column k (10 a pair; for the energies 10 a body) where its values go, null where the mask
  // does not want it. scratch: 64-byte aligned.
  void (*regressor_block)(const TreeView&, int quantity, const double* input, int count, double* const* lines, void* scratch);
  // G (m, m) row-major, upper triangle += P P' of a panel P (m, block_samples).
  void (*gram_block)(const double* panel, int m, double* G);
  // The same for m lines of `count` samples that start `stride` numbers apart.
  void (*gram_lines)(const double* lines, long stride, long count, int m, double* G);
  // R (m, m) row-major upper triangular <- triangular factor of [R; P'], P (m, rows) is destroyed; rows: whole vectors.
  void (*qr_block)(double* panel, long rows, int m, double* R);
  // Interleaves the `count` samples of 8 lines that start `stride` numbers apart: into (count, 8).
  void (*mix)(const double* lines, long stride, long count, double* into);
  // A cascade of 1 to 4 second-order sections over `samples` samples of `groups` times 8 interleaved signals (samples, 8),
  // `apart` numbers apart, in place; direct form II transposed, state (groups, sections, 2, 8), backwards in time if `reverse`.
  void (*cascade)(double* x, long apart, int groups, long samples, const double* sos, int sections, double* state, int reverse);
  // B <- A^-1 B for k lines b (n, k) and a triangle of a(i, j) = a[i row + j column], the lower one or the upper one.
  void (*triangle_solve)(const double* a, long row, long column, long n, bool lower, double* b, long k);
  // Least and greatest of `count` values, both nan where one of them is.
  void (*range)(const double* x, long count, double* ends);
  // Of a line its sum, that of its squares and that of the squares of its steps.
  void (*moments)(const double* x, long count, double* sums);
  // Of a line of more than nine samples the greatest unevenness and how many are below a share of it; sizes: count - 9.
  void (*unevenness)(const double* x, long count, double share, double* sizes, double* found);
};

extern const KernelTable table_baseline;
extern const LineTable lines_baseline;
#if defined(DYNID_HAVE_AVX2)
extern const KernelTable table_avx2;
extern const LineTable lines_avx2;
#endif
#if defined(DYNID_HAVE_AVX512)
extern const LineTable lines_avx512;
#endif

}  // namespace dynid
