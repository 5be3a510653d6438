// Compiled once per instruction set (DYNID_TABLE names the result): dynamics, derivatives, and steps of simulations.
#include "kalman.hpp"

namespace {

using dynid::block_samples;

void dynamics_block(const dynid::TreeView& t, const double* inertia, const double* input, int count, double* result,
                    void* scratch) {
  Body* body = static_cast<Body*>(scratch);
  Axis* axes = reinterpret_cast<Axis*>(body + t.n);
  Composite* whole = reinterpret_cast<Composite*>(axes + t.pair_first[t.n]);
  const int n = t.n;
  for (int sample = 0; sample < count; sample += lanes) {
    const Input in{input, n, sample};
    for (int j = 0; j < n; j++) {
      move<true, false>(t, in, j, body, axes);
      whole[j] = own_body(inertia + 10 * j, body[j]);
    }
    double* out = result + sample;
    for (int j = n - 1; j >= 0; j--) {
      const Composite& c = whole[j];
      const int last = t.pair_first[j + 1] - 1;
      const Vec3 a = axes[last].a, l = axes[last].l;
      const Vec3 push = l * c.m + cross(a, c.h), turn = c.I * a + cross(c.h, l);
      for (int pair = t.pair_first[j]; pair <= last; pair++) {
        const int i = t.pair_joint[pair];
        const Lane x = dot(axes[pair].a, turn) + dot(axes[pair].l, push);
        store(out + (long)(i * n + j) * block_samples, x);
        store(out + (long)(j * n + i) * block_samples, x);
      }
      store(out + (long)(n * n + j) * block_samples, dot(a, c.moment) + dot(l, c.force));
      if (t.parent[j] >= 0) join(whole[t.parent[j]], c, body[j]);
    }
  }
}

void inverse_block(const dynid::TreeView& t, const double* inertia, const double* armature, const double* input, int count,
                   double* out, void* scratch) {
  Body* body = static_cast<Body*>(scratch);
  Wrench* wrench = reinterpret_cast<Wrench*>(body + t.n);
  for (int sample = 0; sample < count; sample += lanes) {
    const Input in{input, t.n, sample};
    for (int j = 0; j < t.n; j++) {
      move<true, false, false>(t, in, j, body, nullptr);
      wrench[j] = inertial_wrench(inertia + 10 * j, body[j]);
    }
    for (int j = t.n - 1; j >= 0; j--) {
      const Vec3 axis = constant(t.axis + 3 * j);
      const Lane own = dot(axis, t.prismatic[j] ? wrench[j].f : wrench[j].n) + fill(armature[j]) * in(2, j);
      store(out + (long)j * block_samples + sample, own);
      const int parent = t.parent[j];
      if (parent >= 0) wrench[parent] = wrench[parent] + in_parent(body[j], wrench[j]);
    }
  }
}

// With M = L' D L, which has a zero wherever M has one between branches of a tree (Featherstone 2008, section 6.5).
int forward_block(const dynid::TreeView& t, const double* inertia, const double* armature, const double* input, int count,
                  double* out, double* work, void* scratch) {
  const int n = t.n;
  dynamics_block(t, inertia, input, count, work, scratch);
  int positive = 1;
  for (int sample = 0; sample < count; sample += lanes) {
    const Input in{input, n, sample};
    const auto M = [&](int i, int j) { return work + (long)(i * n + j) * block_samples + sample; };
    const auto x = [&](int i) { return out + (long)i * block_samples + sample; };
    for (int i = 0; i < n; i++) {
      store(M(i, i), load(M(i, i)) + fill(armature[i]));
      store(x(i), in(3, i) - load(work + (long)(n * n + i) * block_samples + sample));
    }
    for (int k = n - 1; k >= 0; k--) {
      const Lane pivot = load(M(k, k)), inverse = 1.0 / pivot, force = load(x(k));
      for (int l = 0; l < lanes && sample + l < count; l++) positive &= !(pivot[l] <= 0.0);
      for (int i = t.parent[k]; i >= 0; i = t.parent[i]) {
        const Lane a = load(M(k, i)) * inverse;
        for (int j = i; j >= 0; j = t.parent[j]) store(M(i, j), load(M(i, j)) - a * load(M(k, j)));
        store(x(i), load(x(i)) - a * force);
        store(M(k, i), a);
      }
      store(x(k), force * inverse);
    }
    for (int k = 0; k < n; k++) {
      Lane value = load(x(k));
      for (int i = t.parent[k]; i >= 0; i = t.parent[i]) value -= load(M(k, i)) * load(x(i));
      store(x(k), value);
    }
  }
  return positive;
}

// C' dq of a joint is F . (w x l + v x a) + N . (w x a) for the momentum (N, F) of all that it moves and its own body's
// velocity (w, v), letters of reference.py.
void momentum_block(const dynid::TreeView& t, const double* inertia, const double* armature, const double* input, int count,
                    double* out, void* scratch) {
  Body* body = static_cast<Body*>(scratch);
  Wrench* momentum = reinterpret_cast<Wrench*>(body + t.n);
  Wrench* weight = momentum + t.n;
  for (int sample = 0; sample < count; sample += lanes) {
    const Input in{input, t.n, sample};
    for (int j = 0; j < t.n; j++) {
      move<false, true, false>(t, in, j, body, nullptr);
      momentum[j] = own_momentum(inertia + 10 * j, body[j]);
      weight[j] = own_weight(inertia + 10 * j, body[j]);
    }
    for (int j = t.n - 1; j >= 0; j--) {
      const Body& b = body[j];
      const Wrench &p = momentum[j], &g = weight[j];
      const Vec3 axis = constant(t.axis + 3 * j), turn = cross(b.w, axis);
      const bool slides = t.prismatic[j];
      const Lane carried = slides ? dot(p.f, turn) : dot(p.f, cross(b.v, axis)) + dot(p.n, turn);
      store(out + (long)j * block_samples + sample, dot(axis, slides ? p.f : p.n) + fill(armature[j]) * in(1, j));
      store(out + (long)(t.n + j) * block_samples + sample, dot(axis, slides ? g.f : g.n) - carried);
      if (t.parent[j] >= 0) {
        momentum[t.parent[j]] = momentum[t.parent[j]] + in_parent(b, p);
        weight[t.parent[j]] = weight[t.parent[j]] + in_parent(b, g);
      }
    }
  }
}

void placement_block(const dynid::TreeView& t, const double* input, int count, double* out, void* scratch) {
  Body* body = static_cast<Body*>(scratch);
  for (int sample = 0; sample < count; sample += lanes) {
    const Input in{input, t.n, sample};
    for (int j = 0; j < t.n; j++) {
      move<false, true, false>(t, in, j, body, nullptr);
      const Body& b = body[j];
      const Lane numbers[12] = {b.R.c0.x, b.R.c1.x, b.R.c2.x, b.height.x, b.R.c0.y, b.R.c1.y,
                                b.R.c2.y, b.height.y, b.R.c0.z, b.R.c1.z, b.R.c2.z, b.height.z};
      for (int k = 0; k < 12; k++) store(out + (12L * j + k) * block_samples + sample, numbers[k]);
    }
  }
}

void contract_block(const dynid::TreeView& t, const double* const* weights, const double* input, int count, double* out,
                    void* scratch) {
  for (int sample = 0; sample < count; sample += lanes)
    contracted(t, weights, {input, t.n, sample}, out, static_cast<Moved*>(scratch));
}

void jacobian_block(const dynid::TreeView& t, const double* inertia, const double* input, int count, double* out,
                    void* scratch) {
  Moved* moved = static_cast<Moved*>(scratch);
  for (int sample = 0; sample < count; sample += lanes)
    jacobian<block_samples>(t, inertia, Input{input, t.n, sample}, out, moved, reinterpret_cast<Wrenches*>(moved + t.n));
}

std::size_t equation_bytes(const dynid::SystemView& s) {
  const std::size_t nb = s.tree.n, pairs = s.tree.pair_first[s.tree.n], n = s.size;
  return (nb + 1) * (sizeof(Body) + sizeof(Composite)) + (pairs + 1) * sizeof(Axis) + sizeof(Lane) * (nb * nb + 3 * nb + n * n + 2 * n);
}

// Room for any of the ways to step.
std::size_t step_bytes(const dynid::SystemView& s, const dynid::ControlView& c, long delay, long columns) {
  const std::size_t nb = s.tree.n, pairs = s.tree.pair_first[s.tree.n], n = s.size, own = c.drives;
  std::size_t bytes = equation_bytes(s) + sizeof(Lane) * (3 * n * n + 40 * n + own * (delay + 8) + 64);
  bytes += sizeof(Lane) * (10 * nb + n * n + n + 2 * s.links + 2 * s.signs);
  if (c.gravity) bytes += equation_bytes(*c.gravity) + (c.gravity->tree.n + 1) * sizeof(Wrench);
  bytes += sizeof(Lane) * (7 * n * columns + own * columns * (delay + 2) + 2 * n * n + 3 * nb * nb + nb + 10 * pairs + 64);
  return bytes + (nb + 1) * sizeof(Moved) + (pairs + 1) * (sizeof(Wrenches) + 10 * sizeof(double*)) + 4096;
}

template <class Steps>
bool ran(Steps steps) {
  if (steps.room.enough()) steps.run();
  return steps.room.enough();
}

bool rollout_group(const dynid::SystemView& s, const dynid::ControlView& c, const dynid::RolloutView& r, const dynid::TangentView& t,
                   const dynid::ModelsView& m, long first, void* scratch, std::size_t bytes) {
  return ran(Rollout(s, c, r, t, m, first, scratch, bytes));
}
bool adaptive_group(const dynid::SystemView& s, const dynid::ControlView& c, const dynid::AdaptiveView& r, const dynid::ModelsView& m,
                    long first, void* scratch, std::size_t bytes) {
  return ran(AdaptiveSteps(s, c, r, m, first, scratch, bytes));
}
bool follow_group(const dynid::SystemView& s, const dynid::FollowView& f, long first, void* scratch, std::size_t bytes) {
  return ran(Follow(s, f, first, scratch, bytes));
}
bool stick_group(const dynid::SystemView& s, const dynid::StickView& d, long first, void* scratch, std::size_t bytes) {
  return ran(Stick(s, d, first, scratch, bytes));
}

std::size_t kalman_bytes(const dynid::SystemView& s, const dynid::KalmanView& f) {
  const dynid::ControlView none{};
  return step_bytes(s, none, 0, f.slopes.columns) + equation_bytes(s) + kalman_room(s, f);
}
std::size_t variation_bytes(const dynid::SystemView& s, const dynid::VariationView& f) {
  const dynid::ControlView none{};
  const std::size_t n = s.size, w = f.slopes.parameters;
  return step_bytes(s, none, 0, f.slopes.columns) + sizeof(double) * ((lanes + 1) * n * (w + 2 * n) + 2 * n * (w + 4 * n)) + sizeof(Lane) * (3 * n + 32);
}
bool variation_run(const dynid::SystemView& s, const dynid::VariationView& f, long run, void* scratch, std::size_t bytes) {
  return ran(Variation(s, f, run, scratch, bytes));
}
bool kalman_run(const dynid::SystemView& s, const dynid::KalmanView& f, void* scratch, std::size_t bytes) {
  return ran(Kalman(s, f, scratch, bytes));
}

}  // namespace

namespace dynid {
extern const KernelTable DYNID_TABLE;
const KernelTable DYNID_TABLE = {
    sizeof(Body) + sizeof(Composite), sizeof(Axis), sizeof(Moved), sizeof(Wrenches),
    dynamics_block, inverse_block, forward_block, momentum_block, placement_block, contract_block, jacobian_block,
    step_bytes, rollout_group, adaptive_group, follow_group, stick_group, kalman_bytes, kalman_run, variation_bytes, variation_run, variational_run};
}  // namespace dynid
