// Compiled once per instruction set, which says how many samples a vector holds (DYNID_LINES names the result): regressor
// blocks, Gram, Householder, filters, ranges.
#include <type_traits>

#include "passes.hpp"

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

// ---- Householder: the reflector of line k is v = (1; x) over (R_kk; P_k). One or, where two follow one another, two of
// them are applied to J later lines at a time, which reads and writes these half as often.
struct Reflector { double* x; double tau; };
using UsualRows = std::integral_constant<long, block_samples>;  // known when compiled, which gains 5 %

// Line k becomes a reflector, none where it is zero.
template <class Rows>
DYNID_INLINE bool reflector(double* x, const Rows rows, double& diagonal, Reflector& found) {
  Lane square{};
  for (long i = 0; i < rows; i += lanes) square += load(x + i) * load(x + i);
  const double below = sum(square);
  if (below == 0.0) return false;
  const double alpha = diagonal;
  const double beta = alpha > 0.0 ? -::sqrt(alpha * alpha + below) : ::sqrt(alpha * alpha + below);
  const double head = alpha - beta;
  diagonal = beta;
  for (long i = 0; i < rows; i += lanes) store(x + i, load(x + i) * fill(1.0 / head));
  found = {x, -head / beta};
  return true;
}

template <int J, class Rows>
DYNID_INLINE void reflect(const Reflector& v, const Rows rows, double* lines, double* Rk) {
  Lane s[J];
  for (int j = 0; j < J; j++) s[j] = Lane{};
  for (long k = 0; k < rows; k += lanes) {
    const Lane x = load(v.x + k);
    for (int j = 0; j < J; j++) s[j] += x * load(lines + j * rows + k);
  }
  double f[J];
  for (int j = 0; j < J; j++) { f[j] = v.tau * (Rk[j] + sum(s[j])); Rk[j] -= f[j]; }
  for (long k = 0; k < rows; k += lanes) {
    const Lane x = load(v.x + k);
    for (int j = 0; j < J; j++)
      store(lines + j * rows + k, load(lines + j * rows + k) - x * fill(f[j]));
  }
}

// `both`: product of the two reflectors below the triangle.
template <int J, class Rows>
DYNID_INLINE void reflect_twice(const Reflector& v, const Reflector& w, double both, const Rows rows, double* lines, double* Rk, double* Rl) {
  Lane s[J], t[J];
  for (int j = 0; j < J; j++) s[j] = t[j] = Lane{};
  for (long k = 0; k < rows; k += lanes) {
    const Lane x = load(v.x + k), y = load(w.x + k);
    for (int j = 0; j < J; j++) {
      const Lane p = load(lines + j * rows + k);
      s[j] += x * p;
      t[j] += y * p;
    }
  }
  double f[J], g[J];
  for (int j = 0; j < J; j++) {
    f[j] = v.tau * (Rk[j] + sum(s[j]));
    g[j] = w.tau * (Rl[j] + (sum(t[j]) - f[j] * both));
    Rk[j] -= f[j];
    Rl[j] -= g[j];
  }
  for (long k = 0; k < rows; k += lanes) {
    const Lane x = load(v.x + k), y = load(w.x + k);
    for (int j = 0; j < J; j++) {
      double* at = lines + j * rows + k;
      store(at, (load(at) - x * fill(f[j])) - y * fill(g[j]));
    }
  }
}

template <class Rows>
DYNID_INLINE double product(const double* x, const double* y, const Rows rows) {
  Lane total{};
  for (long k = 0; k < rows; k += lanes) total += load(x + k) * load(y + k);
  return sum(total);
}

template <class Rows>
void qr_of(double* P, const Rows rows, int m, double* R) {
  const auto line = [&](int k) { return P + (long)k * rows; };
  const auto row = [&](int k) { return R + (long)k * m; };
  Reflector v, w;
  for (int k = 0; k < m; k++) {
    if (!reflector(line(k), rows, row(k)[k], v)) continue;
    if (k + 1 == m) return;
    reflect<1>(v, rows, line(k + 1), row(k) + k + 1);
    const bool two = reflector(line(k + 1), rows, row(k + 1)[k + 1], w);
    const double both = two ? product(v.x, w.x, rows) : 0.0;
    int j = k + 2;
    const auto apply = [&](auto width) {
      constexpr int J = decltype(width)::value;
      for (; j + J <= m; j += J)
        if (two) reflect_twice<J>(v, w, both, rows, line(j), row(k) + j, row(k + 1) + j);
        else reflect<J>(v, rows, line(j), row(k) + j);
    };
    apply(std::integral_constant<int, 6>());
    apply(std::integral_constant<int, 2>());
    apply(std::integral_constant<int, 1>());
    k += two;
  }
}

void qr_block(double* P, long rows, int m, double* R) {
  if (rows == UsualRows::value) qr_of(P, UsualRows(), m, R);
  else qr_of(P, rows, m, R);
}

// ---- Eight lines interleaved, two samples of four lines at a time
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define DYNID_SHUFFLES
#endif
#endif

void mix(const double* lines, long stride, long count, double* into) {
  long k = 0;
#if defined(DYNID_SHUFFLES)
  typedef double Two __attribute__((vector_size(16)));
  typedef double Four __attribute__((vector_size(32)));
  const auto halves = [](const double* a, const double* b) {
    Two x, y;
    std::memcpy(&x, a, sizeof x);
    std::memcpy(&y, b, sizeof y);
    return __builtin_shufflevector(x, y, 0, 1, 2, 3);
  };
  for (; k + 2 <= count; k += 2)
    for (int h = 0; h < 8; h += 4) {
      const double* at = lines + h * stride + k;
      const Four a = halves(at, at + 2 * stride), b = halves(at + stride, at + 3 * stride);
      const Four first = __builtin_shufflevector(a, b, 0, 4, 2, 6), second = __builtin_shufflevector(a, b, 1, 5, 3, 7);
      std::memcpy(into + 8 * k + h, &first, sizeof first);
      std::memcpy(into + 8 * k + 8 + h, &second, sizeof second);
    }
#endif
  for (; k < count; k++)
    for (int l = 0; l < 8; l++) into[8 * k + l] = lines[l * stride + k];
}

// ---- Filter: all sections of the cascade advance sample by sample, so that their chains of additions overlap. A state
// follows from that before and the input, not by way of the output: one addition lies between two of them.
template <int S, int V>
void cascade_of(double* const* x, long samples, const double* sos, double* const* state, int reverse) {
  Lane b0[S], c1[S], c2[S], a1[S], a2[S], u[S][V], v[S][V];
  for (int s = 0; s < S; s++) {
    const double* c = sos + 6 * s;
    b0[s] = fill(c[0]); a1[s] = fill(c[4]); a2[s] = fill(c[5]);
    c1[s] = fill(c[1] - c[4] * c[0]); c2[s] = fill(c[2] - c[5] * c[0]);
    for (int h = 0; h < V; h++) { u[s][h] = load(state[h] + 16 * s); v[s][h] = load(state[h] + 16 * s + 8); }
  }
  const long step = reverse ? -8 : 8;
  long at = reverse ? 8 * (samples - 1) : 0;
  for (long i = 0; i < samples; i++, at += step)
    for (int h = 0; h < V; h++) {
      Lane value = load(x[h] + at);
      for (int s = 0; s < S; s++) {
        const Lane y = b0[s] * value + u[s][h];
        const Lane next = (c1[s] * value + v[s][h]) - a1[s] * u[s][h];
        v[s][h] = c2[s] * value - a2[s] * u[s][h];
        u[s][h] = next;
        value = y;
      }
      store(x[h] + at, value);
    }
  for (int s = 0; s < S; s++)
    for (int h = 0; h < V; h++) { store(state[h] + 16 * s, u[s][h]); store(state[h] + 16 * s + 8, v[s][h]); }
}

// Two vectors at once: one alone would wait for its own additions.
template <int S>
void cascade_pairs(double* x, long apart, int groups, long samples, const double* sos, double* state, int reverse) {
  constexpr int parts = 8 / lanes;
  const int vectors = groups * parts;
  const auto place = [&](int i) { return x + i / parts * apart + i % parts * lanes; };
  const auto kept = [&](int i) { return state + i / parts * 16 * S + i % parts * lanes; };
  for (int i = 0; i < vectors; i += 2) {
    double* const at[2] = {place(i), place(i + 1)};
    double* const states[2] = {kept(i), kept(i + 1)};
    if (i + 1 < vectors) cascade_of<S, 2>(at, samples, sos, states, reverse);
    else cascade_of<S, 1>(at, samples, sos, states, reverse);
  }
}

void cascade(double* x, long apart, int groups, long samples, const double* sos, int sections, double* state, int reverse) {
  switch (sections) {
    case 1: cascade_pairs<1>(x, apart, groups, samples, sos, state, reverse); return;
    case 2: cascade_pairs<2>(x, apart, groups, samples, sos, state, reverse); return;
    case 3: cascade_pairs<3>(x, apart, groups, samples, sos, state, reverse); return;
    default: cascade_pairs<4>(x, apart, groups, samples, sos, state, reverse);
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
extern const LineTable DYNID_LINES;
const LineTable DYNID_LINES = {
    DYNID_NAME(DYNID_ARCH), sizeof(Lane) / sizeof(double), sizeof(Body), sizeof(Axis), regressor_block, gram_block, gram_lines, qr_block, mix, cascade,
    triangle_solve, range, moments, unevenness};
}  // namespace dynid
