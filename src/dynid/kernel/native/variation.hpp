// How accelerations and runs change with parameters and the first state: the variational equation.
#pragma once
#include "steps.hpp"

namespace {

// Solves A X = B in place by elimination with the largest pivots; A (m, m), B (m, c).
inline void eliminated(double* __restrict A, double* __restrict B, long m, long c) {
  for (long k = 0; k < m; k++) {
    long best = k;
    for (long i = k + 1; i < m; i++) if (__builtin_fabs(A[i * m + k]) > __builtin_fabs(A[best * m + k])) best = i;
    for (long j = 0; best != k && j < m; j++) { const double keep = A[k * m + j]; A[k * m + j] = A[best * m + j]; A[best * m + j] = keep; }
    for (long j = 0; best != k && j < c; j++) { const double keep = B[k * c + j]; B[k * c + j] = B[best * c + j]; B[best * c + j] = keep; }
    const double inverse = 1.0 / A[k * m + k];
    for (long i = k + 1; i < m; i++) {
      const double f = A[i * m + k] * inverse;
      if (f == 0.0) continue;
      for (long j = k + 1; j < m; j++) A[i * m + j] -= f * A[k * m + j];
      for (long j = 0; j < c; j++) B[i * c + j] -= f * B[k * c + j];
    }
  }
  for (long k = m - 1; k >= 0; k--) {
    for (long i = k + 1; i < m; i++) {
      const double f = A[k * m + i];
      for (long j = 0; j < c; j++) B[k * c + j] -= f * B[i * c + j];
    }
    const double inverse = 1.0 / A[k * m + k];
    for (long j = 0; j < c; j++) B[k * c + j] *= inverse;
  }
}

// Slopes (n, columns) of the accelerations of one lane group, by parameters, positions, velocities, and by forces where there
// are columns left.
struct Linear {
  const SystemView& s;
  const int n;
  const long count, columns;
  Equations eq;
  Tangent tangent;
  Lane* slope;

  Linear(const TangentView& view, const SystemView& system, Piece& room)
      : s(system), n(system.size), count(view.parameters), columns(view.columns), eq(system, room), tangent(view, system, 0, room), slope(tangent.slope) {}

  // At accelerations a in a state at which `eq` is set; kp and kd: (drives) feedback of the coordinates `driven`.
  void set(const Lane* x, const Lane* v, const Lane* a, int drives, const int* driven, const double* kp, const double* kd) {
    tangent.linearise(eq, x, v, a);
    for (int j = 0; j < drives; j++) {
      tangent.by_x[driven[j] * (n + 1)] += kp[j];
      tangent.by_v[driven[j] * (n + 1)] += kd[j];
    }
    for (long c = 0; c < n * columns; c++) slope[c] = Lane{};
    tangent.by_parameters(eq, x, v, a);
    for (int i = 0; i < n; i++) {
      Lane* own = slope + i * columns + count;
      for (int p = s.near_first[i]; p < s.near_first[i + 1]; p++) {
        const int j = s.near[p];
        own[j] = -tangent.by_x[i * n + j];
        own[n + j] = -tangent.by_v[i * n + j];
      }
      if (columns > count + 2 * n) own[2 * n + i] = fill(1.0);
    }
    eq.factorise(0);
    eq.substitute(slope, columns);
  }
};

// z (2 s, c) a step on: (1 - h/2 (J0 + J1) + h^2/2 J0 J1) z1 = z0 + h/2 (g0 + g1) - h^2/2 J0 g1 with J = (0 1; here or there),
// g = (0; G or H) in the first w columns. A: (2 s, 2 s) of scratch.
inline void variational_step(long s, long w, long c, double h, const double* here, const double* there, const double* G, const double* H, double* z,
                             double* A) {
  const long m = 2 * s;
  for (long i = 0; i < s; i++) {
    for (long j = 0; j < w; j++) {
      z[(s + i) * c + j] += 0.5 * h * (G[i * w + j] + H[i * w + j]);
      z[i * c + j] -= 0.5 * h * h * H[i * w + j];
    }
    for (long l = 0; l < s; l++) {
      const double f = 0.5 * h * h * here[i * m + s + l];
      for (long j = 0; j < w; j++) z[(s + i) * c + j] -= f * H[l * w + j];
    }
    // Upper half of J0 J1 is the lower half of J1; the lower half is B0 times that, with A0 beside it.
    double *upper = A + i * m, *lower = A + (s + i) * m;
    for (long j = 0; j < m; j++) {
      upper[j] = 0.5 * h * h * there[i * m + j];
      lower[j] = -0.5 * h * (here[i * m + j] + there[i * m + j]);
    }
    for (long l = 0; l < s; l++) {
      const double f = 0.5 * h * h * here[i * m + s + l];
      for (long j = 0; j < m; j++) lower[j] += f * there[l * m + j];
      lower[s + l] += 0.5 * h * h * here[i * m + l];
    }
    upper[s + i] -= h;
    upper[i] += 1.0;
    lower[s + i] += 1.0;
  }
  eliminated(A, z, m, c);
}

inline void variational_run(const dynid::VariationalView& t, double* scratch) {
  const long s = t.s, m = 2 * s, c = t.columns, w = t.w;
  double *z = scratch, *A = z + m * c;
  if (c > w) for (long i = 0; i < m; i++) z[i * c + w + i] = 1.0;
  for (long k = 0; k < t.samples; k++) {
    std::memcpy(t.x + k * s * c, z, sizeof(double) * s * c);
    std::memcpy(t.v + k * s * c, z + s * c, sizeof(double) * s * c);
    if (k + 1 == t.samples) return;
    variational_step(s, w, c, t.h, t.slopes + k * s * m, t.slopes + (k + 1) * s * m, t.inputs + k * s * w, t.inputs + (k + 1) * s * w, z, A);
  }
}

// The same along a run of a system that is known, four samples at a time, without a table of all slopes.
struct Variation {
  const SystemView& s;
  const dynid::VariationView& f;
  const long n, m, w, c, run_number;
  Piece room;
  Linear linear;
  Lane *x, *v, *a;
  double *slopes, *inputs, *z, *A;

  Variation(const SystemView& system, const dynid::VariationView& view, long number, void* scratch, std::size_t bytes)
      : s(system), f(view), n(system.size), m(2 * n), w(view.slopes.parameters), c(w + (view.first_state ? m : 0)), run_number(number),
        room(scratch, bytes), linear(view.slopes, system, room) {
    Lane** const all[] = {&x, &v, &a};
    for (Lane** one : all) *one = room.lanes_of(n);
    slopes = room.of<double>((lanes + 1) * n * m);
    inputs = room.of<double>((lanes + 1) * n * w);
    z = room.of<double>(m * c);
    A = room.of<double>(m * m);
  }

  void run() {
    for (long i = 0; i < m * c; i++) z[i] = 0.0;
    if (f.first_state) for (long i = 0; i < m; i++) z[i * c + w + i] = 1.0;
    for (long first = 0; first < f.samples; first += lanes) {
      linearise(first);
      for (long l = 0; l < lanes && first + l < f.samples; l++) {
        if (first + l > 0)
          variational_step(n, w, c, f.h, slopes + l * n * m, slopes + (l + 1) * n * m, inputs + l * n * w, inputs + (l + 1) * n * w, z, A);
        record(first + l);
      }
      std::memcpy(slopes, slopes + lanes * n * m, sizeof(double) * n * m);
      std::memcpy(inputs, inputs + lanes * n * w, sizeof(double) * n * w);
    }
  }

 private:
  // Slopes of samples first ... first + 3 in places 1 ... 4; those behind the end repeat the last one.
  void linearise(long first) {
    for (long i = 0; i < n; i++)
      for (long l = 0; l < lanes; l++) {
        const long k = first + l < f.samples ? first + l : f.samples - 1, place = (run_number * f.samples + k) * n + i;
        x[i][l] = f.x[place];
        v[i][l] = f.v[place];
        a[i][l] = f.a[place];
      }
    linear.eq.set(x, v);
    linear.set(x, v, a, f.drives, f.driven, f.kp, f.kd);
    for (long i = 0; i < n; i++)
      for (long l = 0; l < lanes; l++) {
        const Lane* own = linear.slope + i * linear.columns;
        for (long j = 0; j < w; j++) inputs[((l + 1) * n + i) * w + j] = own[j][l];
        for (long j = 0; j < m; j++) slopes[((l + 1) * n + i) * m + j] = own[w + j][l];
      }
  }

  void record(long k) const {
    for (long r = 0; r < f.outputs; r++) {
      double* into = f.out + ((run_number * f.samples + k) * f.outputs + r) * c;
      const double *at = z + f.at[r] * c, *rate = at + n * c, one = f.by_x[r], other = f.by_v[r];
      for (long j = 0; j < c; j++) into[j] = one * at[j] + other * rate[j];
    }
  }
};

}  // namespace
