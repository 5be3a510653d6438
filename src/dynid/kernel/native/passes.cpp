// Compiled once per instruction set (DYNID_TABLE names the result): regressor blocks, Gram, Householder, filters, ranges.
#include "kalman.hpp"

namespace {

using dynid::block_samples;

void regressor_block(const dynid::TreeView& t, int quantity, const double* input, int count, double* const* lines,
                     void* scratch) {
  Body* body = static_cast<Body*>(scratch);
  Axis* axes = reinterpret_cast<Axis*>(body + t.n);
  for (int sample = 0; sample < count; sample += lanes) {
    const Input in{input, t.n, sample};
    const Lines out{lines, sample};
    for (int j = 0; j < t.n; j++) {
      if (quantity == dynid::torque) {
        move<true, false>(t, in, j, body, axes);
        torque_columns(t, j, body[j], axes, out);
        continue;
      }
      move<false, true>(t, in, j, body, axes);
      if (quantity == dynid::momentum) momentum_columns(t, j, body[j], axes, out);
      else if (quantity == dynid::momentum_rate) momentum_rate_columns(t, j, body[j], axes, out);
      else if (quantity == dynid::kinetic_energy) kinetic_columns(t, j, body[j], out);
      else potential_columns(t, j, body[j], out);
    }
  }
}

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
                   long first, void* scratch, std::size_t bytes) {
  return ran(Rollout(s, c, r, t, first, scratch, bytes));
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

// ---- Gram: I x J lines at a time, accumulated in registers over all samples of a panel
struct Block {  // known when compiled, which the tiles gain 2 % from
  static constexpr int stride = block_samples, count = block_samples;
};
struct Lengths { long stride, count; };

template <int I, int J, class Shape>
DYNID_INLINE void gram_tile(const double* a, const double* b, const Shape shape, double* G, int m) {
  Lane total[I][J];
  for (int i = 0; i < I; i++) for (int j = 0; j < J; j++) total[i][j] = Lane{};
  const auto whole = shape.count / lanes * lanes;
  for (auto k = 0 * whole; k < whole; k += lanes) {
    Lane x[I];
    for (int i = 0; i < I; i++) x[i] = load(a + i * shape.stride + k);
    for (int j = 0; j < J; j++) {
      const Lane y = load(b + j * shape.stride + k);
      for (int i = 0; i < I; i++) total[i][j] += x[i] * y;
    }
  }
  for (int i = 0; i < I; i++)
    for (int j = 0; j < J; j++) {
      double value = sum(total[i][j]);
      for (auto k = whole; k < shape.count; k++) value += a[i * shape.stride + k] * b[j * shape.stride + k];
      G[(long)i * m + j] += value;
    }
}

template <class Shape>
DYNID_INLINE void gram_of(const double* P, const Shape shape, int m, double* G) {
  int i = 0;
  for (; i + 4 <= m; i += 4) {
    const double* a = P + i * shape.stride;
    int j = i;
    for (; j + 3 <= m; j += 3) gram_tile<4, 3>(a, P + j * shape.stride, shape, G + (long)i * m + j, m);
    for (; j < m; j++) gram_tile<4, 1>(a, P + j * shape.stride, shape, G + (long)i * m + j, m);
  }
  for (; i < m; i++)
    for (int j = i; j < m; j++) gram_tile<1, 1>(P + i * shape.stride, P + j * shape.stride, shape, G + (long)i * m + j, m);
}

void gram_block(const double* P, int m, double* G) { gram_of(P, Block{}, m, G); }

void gram_lines(const double* P, long stride, long count, int m, double* G) {
  // Lines that are long by far leave the first-level cache between two tiles.
  constexpr long piece = 4 * block_samples;
  for (long k = 0; k < count; k += piece) gram_of(P + k, Lengths{stride, count - k < piece ? count - k : piece}, m, G);
}

// ---- Householder: the reflector of line k is v = (1; x) over (R_kk; P_k), applied to J later lines at a time
template <int J>
DYNID_INLINE void reflect(const double* x, double* lines, double* Rk, double tau) {
  Lane s[J];
  for (int j = 0; j < J; j++) s[j] = Lane{};
  for (int k = 0; k < block_samples; k += lanes) {
    const Lane v = load(x + k);
    for (int j = 0; j < J; j++) s[j] += v * load(lines + j * block_samples + k);
  }
  double f[J];
  for (int j = 0; j < J; j++) { f[j] = tau * (Rk[j] + sum(s[j])); Rk[j] -= f[j]; }
  for (int k = 0; k < block_samples; k += lanes) {
    const Lane v = load(x + k);
    for (int j = 0; j < J; j++)
      store(lines + j * block_samples + k, load(lines + j * block_samples + k) - v * fill(f[j]));
  }
}

void qr_block(double* P, int m, double* R) {
  for (int k = 0; k < m; k++) {
    double* x = P + (long)k * block_samples;
    double* Rk = R + (long)k * m;
    Lane square{};
    for (int i = 0; i < block_samples; i += lanes) square += load(x + i) * load(x + i);
    const double below = sum(square);
    if (below == 0.0) continue;
    const double alpha = Rk[k];
    const double beta = alpha > 0.0 ? -::sqrt(alpha * alpha + below) : ::sqrt(alpha * alpha + below);
    const double head = alpha - beta, tau = -head / beta;
    Rk[k] = beta;
    for (int i = 0; i < block_samples; i += lanes) store(x + i, load(x + i) * fill(1.0 / head));
    int j = k + 1;
    for (; j + 6 <= m; j += 6) reflect<6>(x, P + (long)j * block_samples, Rk + j, tau);
    for (; j + 2 <= m; j += 2) reflect<2>(x, P + (long)j * block_samples, Rk + j, tau);
    for (; j < m; j++) reflect<1>(x, P + (long)j * block_samples, Rk + j, tau);
  }
}

// ---- Filter: all sections of the cascade advance sample by sample, so that their chains of additions overlap
template <int S>
void cascade_of(double* x, long samples, const double* sos, double* state, int reverse) {
  Lane b0[S], b1[S], b2[S], a1[S], a2[S], u[S][2], v[S][2];
  for (int s = 0; s < S; s++) {
    const double* c = sos + 6 * s;
    b0[s] = fill(c[0]); b1[s] = fill(c[1]); b2[s] = fill(c[2]); a1[s] = fill(c[4]); a2[s] = fill(c[5]);
    for (int h = 0; h < 2; h++) {
      u[s][h] = load(state + 16 * s + lanes * h);
      v[s][h] = load(state + 16 * s + 8 + lanes * h);
    }
  }
  const long step = reverse ? -8 : 8;
  double* at = reverse ? x + 8 * (samples - 1) : x;
  for (long i = 0; i < samples; i++, at += step) {
    for (int h = 0; h < 2; h++) {
      Lane value = load(at + lanes * h);
      for (int s = 0; s < S; s++) {
        const Lane y = b0[s] * value + u[s][h];
        u[s][h] = (b1[s] * value + v[s][h]) - a1[s] * y;
        v[s][h] = b2[s] * value - a2[s] * y;
        value = y;
      }
      store(at + lanes * h, value);
    }
  }
  for (int s = 0; s < S; s++)
    for (int h = 0; h < 2; h++) {
      store(state + 16 * s + lanes * h, u[s][h]);
      store(state + 16 * s + 8 + lanes * h, v[s][h]);
    }
}

void cascade(double* x, long samples, const double* sos, int sections, double* state, int reverse) {
  switch (sections) {
    case 1: cascade_of<1>(x, samples, sos, state, reverse); return;
    case 2: cascade_of<2>(x, samples, sos, state, reverse); return;
    case 3: cascade_of<3>(x, samples, sos, state, reverse); return;
    default: cascade_of<4>(x, samples, sos, state, reverse);
  }
}

// ---- Triangles: a line of b after the other, less what the lines that are solved make of it
template <int W>
DYNID_INLINE void triangle_lanes(const double* a, long column, long from, long to, const double* solved, long k, double* b, double over) {
  Lane total[W];
  for (int w = 0; w < W; w++) total[w] = load(b + lanes * w);
  for (long j = from; j < to; j++) {
    const Lane x = fill(a[j * column]);
    for (int w = 0; w < W; w++) total[w] -= x * load(solved + j * k + lanes * w);
  }
  for (int w = 0; w < W; w++) store(b + lanes * w, total[w] / over);
}

// One line b (n): along the rows of the triangle, or, where they are far apart, along its columns.
void triangle_line(const double* a, long row, long column, long n, bool lower, double* b) {
  for (long step = 0; step < n; step++) {
    const long i = lower ? step : n - 1 - step;
    const long from = lower ? 0 : i + 1, to = lower ? i : n;
    if (column == 1) {
      const double* at = a + i * row;
      Lane total{};
      long j = from;
      for (; j + lanes <= to; j += lanes) total += load(at + j) * load(b + j);
      double known = sum(total);
      for (; j < to; j++) known += at[j] * b[j];
      b[i] = (b[i] - known) / at[i];
      continue;
    }
    const double x = b[i] /= a[i * row + i * column];
    const double* at = a + i * column;
    for (long j = lower ? i + 1 : 0; j < (lower ? n : i); j++) b[j] -= at[j * row] * x;
  }
}

void triangle_solve(const double* a, long row, long column, long n, bool lower, double* b, long k) {
  if (k == 1) return triangle_line(a, row, column, n, lower, b);
  for (long step = 0; step < n; step++) {
    const long i = lower ? step : n - 1 - step;
    const long from = lower ? 0 : i + 1, to = lower ? i : n;
    const double *at = a + i * row, over = at[i * column];
    double* own = b + i * k;
    long c = 0;
    for (; c + 4 * lanes <= k; c += 4 * lanes) triangle_lanes<4>(at, column, from, to, b + c, k, own + c, over);
    for (; c + lanes <= k; c += lanes) triangle_lanes<1>(at, column, from, to, b + c, k, own + c, over);
    for (; c < k; c++) {
      double total = own[c];
      for (long j = from; j < to; j++) total -= at[j * column] * b[j * k + c];
      own[c] = total / over;
    }
  }
}

// ---- Range of a line. A comparison with nan is false, so nan is looked for apart: x - x is 0 or nan.
void range(const double* x, long count, double* ends) {
  Lane low = fill(x[0]), high = low, broken{};
  long i = 0;
  for (; i + lanes <= count; i += lanes) {
    const Lane v = load(x + i);
    low = v < low ? v : low;
    high = v > high ? v : high;
    broken += (Lane)((LaneInt)(v != v) & (LaneInt)fill(1.0));
  }
  double a = low[0], b = high[0], bad = sum(broken);
  for (int l = 1; l < lanes; l++) { a = low[l] < a ? low[l] : a; b = high[l] > b ? high[l] : b; }
  for (; i < count; i++) {
    a = x[i] < a ? x[i] : a;
    b = x[i] > b ? x[i] : b;
    bad += x[i] != x[i];
  }
  const double spoiled = bad > 0 ? __builtin_nan("") : 0.0;
  ends[0] = a + spoiled;
  ends[1] = b + spoiled;
}

// ---- Sums of a line: of its values, their squares, and the squares of the steps between neighbours
void moments(const double* x, long count, double* sums) {
  Lane total{}, squares{}, steps{};
  long i = 0;
  for (; i + lanes < count; i += lanes) {
    const Lane v = load(x + i), step = load(x + i + 1) - v;
    total += v;
    squares += v * v;
    steps += step * step;
  }
  sums[0] = sum(total); sums[1] = sum(squares); sums[2] = sum(steps);
  for (; i < count; i++) {
    sums[0] += x[i];
    sums[1] += x[i] * x[i];
    if (i + 1 < count) sums[2] += (x[i + 1] - x[i]) * (x[i + 1] - x[i]);
  }
}

// ---- Unevenness of a line: three steps less the mean of the three before and the three after, by size
void unevenness(const double* x, long count, double share, double* sizes, double* found) {
  const long n = count - 9;
  Lane high{};
  long i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Lane before = load(x + i + 3) - load(x + i), after = load(x + i + 9) - load(x + i + 6);
    const Lane excess = (load(x + i + 6) - load(x + i + 3)) - 0.5 * (before + after);
    const Lane size = excess < 0.0 ? -excess : excess;
    high = size > high ? size : high;
    store(sizes + i, size);
  }
  double most = high[0];
  for (int l = 1; l < lanes; l++) most = high[l] > most ? high[l] : most;
  for (; i < n; i++) {
    sizes[i] = ::fabs((x[i + 6] - x[i + 3]) - 0.5 * ((x[i + 3] - x[i]) + (x[i + 9] - x[i + 6])));
    most = sizes[i] > most ? sizes[i] : most;
  }
  const double limit = share * most;
  LaneInt below{};
  i = 0;
  for (; i + lanes <= n; i += lanes) below -= load(sizes + i) < fill(limit);
  long counted = 0;
  for (int l = 0; l < lanes; l++) counted += below[l];
  for (; i < n; i++) counted += sizes[i] < limit;
  found[0] = most;
  found[1] = static_cast<double>(counted);
}

#define DYNID_TEXT(x) #x
#define DYNID_NAME(x) DYNID_TEXT(x)

}  // namespace

namespace dynid {
extern const KernelTable DYNID_TABLE;
const KernelTable DYNID_TABLE = {
    DYNID_NAME(DYNID_ARCH), sizeof(Body) + sizeof(Composite), sizeof(Axis), sizeof(Moved), sizeof(Wrenches),
    regressor_block, dynamics_block, inverse_block, forward_block, momentum_block, placement_block, contract_block, jacobian_block,
    step_bytes, rollout_group, follow_group, stick_group, kalman_bytes, kalman_run, variation_bytes, variation_run, variational_run, gram_block, gram_lines, qr_block, cascade, triangle_solve, range, moments, unevenness};
}  // namespace dynid
