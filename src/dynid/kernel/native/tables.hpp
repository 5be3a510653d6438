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

struct KernelTable {
  const char* name;
  std::size_t scratch_bytes_per_body;
  std::size_t scratch_bytes_per_pair;
  std::size_t sweep_bytes_per_body;
  std::size_t sweep_bytes_per_pair;
  // Regressor of the first `count` samples of a block, rounded up to whole lanes. input: (3, n, block_samples) q, dq,
  // ddq. lines: per pair and column k (10 a pair; for the energies 10 a body) where its values go, null where the mask
  // does not want it. scratch: 64-byte aligned.
  void (*regressor_block)(const TreeView&, int quantity, const double* input, int count, double* const* lines, void* scratch);
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
  // G (m, m) row-major, upper triangle += P P' of a panel P (m, block_samples).
  void (*gram_block)(const double* panel, int m, double* G);
  // The same for m lines of `count` samples that start `stride` numbers apart.
  void (*gram_lines)(const double* lines, long stride, long count, int m, double* G);
  // R (m, m) row-major upper triangular <- triangular factor of [R; P'], P (m, block_samples) is destroyed.
  void (*qr_block)(double* panel, int m, double* R);
  // A cascade of 1 to 4 second-order sections over `samples` samples of 8 interleaved signals x (samples, 8), in place;
  // direct form II transposed, state (sections, 2, 8), backwards in time if `reverse`.
  void (*cascade)(double* x, long samples, const double* sos, int sections, double* state, int reverse);
  // Least and greatest of `count` values, both nan where one of them is.
  void (*range)(const double* x, long count, double* ends);
};

extern const KernelTable table_baseline;
#if defined(DYNID_HAVE_AVX2)
extern const KernelTable table_avx2;
#endif

}  // namespace dynid
