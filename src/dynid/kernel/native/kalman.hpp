// Extended Kalman filter for positions, velocities and parameters of a multibody system, letters as in estimate/kalman.py. The
// nodes of a step are the lanes of a group.
#pragma once
#include "variation.hpp"

namespace {

using dynid::KalmanView;

constexpr int strip = 2 * lanes;  // columns that a row of a product is accumulated over at once
inline long padded(long count) { return (count + strip - 1) / strip * strip; }

// I rows of out += a b over the columns [from, to), whole strips; a (I, depth), b (depth, ...), rows `row` numbers apart.
template <int I>
DYNID_INLINE void add_product(double* out, const double* a, long a_row, const double* b, long row, long depth, long from, long to) {
  for (long j = from; j < to; j += strip) {
    Lane total[I][2];
    for (int i = 0; i < I; i++)
      for (int w = 0; w < 2; w++) total[i][w] = load(out + i * row + j + w * lanes);
    for (long k = 0; k < depth; k++) {
      const Lane left = load(b + k * row + j), right = load(b + k * row + j + lanes);
      for (int i = 0; i < I; i++) {
        const Lane factor = fill(a[i * a_row + k]);
        total[i][0] += factor * left;
        total[i][1] += factor * right;
      }
    }
    for (int i = 0; i < I; i++)
      for (int w = 0; w < 2; w++) store(out + i * row + j + w * lanes, total[i][w]);
  }
}

// out (m, m) = a b of small matrices, rows from `first` on.
inline void multiplied(double* __restrict out, const double* __restrict a, const double* __restrict b, long m, long first) {
  for (long i = first; i < m; i++) {
    double* row = out + i * m;
    for (long j = 0; j < m; j++) row[j] = 0.0;
    for (long k = 0; k < m; k++) {
      const double factor = a[i * m + k];
      for (long j = 0; j < m; j++) row[j] += factor * b[k * m + j];
    }
  }
}

// What accelerations, constant around each of a step's nodes, make of velocity at the nodes, over the step's length.
DYNID_INLINE Lane at_nodes(Lane a) {
  Lane found;
  double before = 0.0;
  for (int l = 0; l < lanes; l++) {
    found[l] = (before + 0.5 * a[l]) / lanes;
    before += a[l];
  }
  return found;
}

struct Kalman {
  const SystemView& s;
  const KalmanView& f;
  const int n;
  const long count, known, size, width, columns;  // b, 2 s, 2 s + b, the same in whole strips, of the slopes
  Piece room;
  Equations begin;
  Linear linear;
  Equations& inside;
  Lane *first_x, *first_v, *x, *v, *a, *drive, *missing;
  double *P, *R, *W, *U, *change, *slopes, *driven, *scaled, *grown, *mean_growth, *work, *S, *solved;

  Kalman(const SystemView& system, const KalmanView& filter, void* scratch, std::size_t bytes)
      : s(system), f(filter), n(system.size), count(filter.slopes.parameters), known(2L * n), size(known + count), width(padded(size)),
        columns(filter.slopes.columns), room(scratch, bytes), begin(system, room), linear(filter.slopes, system, room), inside(linear.eq) {
    Lane** const all[] = {&first_x, &first_v, &x, &v, &a, &drive, &missing};
    for (Lane** one : all) *one = room.lanes_of(n);
    P = room.of<double>(size * width);
    R = room.of<double>(known * width);
    W = room.of<double>(known * width);
    U = room.of<double>(size * known);
    change = room.of<double>(known * size);
    slopes = room.of<double>(n * columns);
    driven = room.of<double>(known * (count + n));
    double** const square[] = {&scaled, &grown, &mean_growth, &work};
    for (double** one : square) *one = room.of<double>(known * known);
    S = room.of<double>(2L * n * n);
    solved = room.of<double>(n * (size + 1));
  }

  // Stops at the first step that it cannot take, with the state before it.
  void run() {
    for (long i = 0; i < size; i++)
      for (long j = 0; j < width; j++) P[i * width + j] = j < size ? f.covariance[i * size + j] : 0.0;
    long k = 0;
    for (; k < f.rows && carry(k); k++) correct(k);
    *f.done = k;
    for (long i = 0; i < size; i++)
      for (long j = 0; j < size; j++) f.covariance[i * size + j] = P[i * width + j];
  }

 private:
  bool carry(long k) {
    for (long c = 0; c < count; c++) *f.target[c] = f.known[c];
    for (long c = 0; c < count; c++) *f.target[c] += f.mean[known + c];
    if (!accelerated(f.u + k * f.torques * f.drives)) return false;
    linearise();
    if (!grow()) return false;
    const double h = f.h;
    for (int i = 0; i < n; i++) {
      double far = 0.0;
      for (int l = 0; l < lanes; l++) far += a[i][l] * (1.0 - (l + 0.5) / lanes);
      f.mean[i] += h * f.mean[n + i] + h * h * far / lanes;
      f.mean[n + i] += h * sum(a[i]) / lanes;
    }
    spread();
    return true;
  }

  // Accelerations at the nodes under torque u (torques, drives); x and v are left where the last pass was.
  bool accelerated(const double* u) {
    const double h = f.h;
    for (int i = 0; i < n; i++) {
      first_x[i] = fill(f.mean[i]);
      first_v[i] = fill(f.mean[n + i]);
      drive[i] = Lane{};
    }
    begin.set(first_x, first_v);
    begin.factorise(0);
    for (int i = 0; i < n; i++) {
      const double pivot = begin.M[i * n + i][0];
      if (!(pivot > 0.0 && pivot - pivot == 0.0)) return false;
    }
    for (int i = 0; i < n; i++) a[i] = -begin.h[i];
    for (int j = 0; j < f.drives; j++) {
      a[f.driven[j]] += u[j];
      for (int l = 0; l < lanes; l++)
        for (long r = 0; r < f.torques; r++) drive[f.driven[j]][l] += f.means[l * f.torques + r] * u[r * f.drives + j];
    }
    begin.substitute(a);
    Lane place;
    for (int l = 0; l < lanes; l++) place[l] = (l + 0.5) / lanes;
    for (int pass = 0; pass < f.passes; pass++) {
      for (int i = 0; i < n; i++) {
        const Lane gained = at_nodes(a[i]);
        v[i] = first_v[i] + h * gained;
        x[i] = first_x[i] + h * place * first_v[i] + h * h * at_nodes(gained);
      }
      inside.set(x, v);
      for (int i = 0; i < n; i++) missing[i] = drive[i] - inside.h[i] - inside.M[i * n + i] * a[i];
      for (int i = 0; i < n; i++)
        for (int p = s.below_first[i]; p < s.below_first[i + 1]; p++) {
          const int j = s.below[p];
          missing[i] -= inside.M[i * n + j] * a[j];
          missing[j] -= inside.M[i * n + j] * a[i];
        }
      begin.substitute(missing);
      for (int i = 0; i < n; i++) a[i] += missing[i];
    }
    return true;
  }

  // Means over the nodes of the accelerations' slopes (s, columns) by parameters, positions, velocities and forces.
  void linearise() {
    linear.set(x, v, a, 0, nullptr, nullptr, nullptr);
    for (long c = 0; c < n * columns; c++) slopes[c] = sum(linear.slope[c]) / lanes;
  }

  // exp(h J) and its mean over the step, phi(h J) = (exp(h J) - 1) / (h J), for J = (0 1; slopes), by halving h J until
  // Taylor's polynomial has a remainder of 0.5^14 / 15!, and phi(2 X) = phi(X) (exp(X) + 1) / 2. False for no number.
  bool grow() {
    constexpr double small = 0.5;
    constexpr int degree = 13;
    const long m = known;
    for (long i = 0; i < m * m; i++) scaled[i] = 0.0;
    double norm = 0.0;
    for (int i = 0; i < n; i++) {
      double total = 0.0;
      scaled[i * m + n + i] = f.h;
      for (long j = 0; j < m; j++) {
        scaled[(n + i) * m + j] = f.h * slopes[i * columns + count + j];
        total += __builtin_fabs(scaled[(n + i) * m + j]);
      }
      norm = total > norm || total != total ? total : norm;
    }
    norm = f.h > norm ? f.h : norm;
    if (!(norm - norm == 0.0)) return false;
    int halvings = 0;
    double share = 1.0;
    for (; norm * share > small; halvings++) share *= 0.5;
    for (long i = 0; i < m * m; i++) scaled[i] *= share;
    double *phi = mean_growth, *next = work;
    for (long i = 0; i < m * m; i++) phi[i] = i % (m + 1) ? 0.0 : 1.0;
    for (int k = degree; k > 0; k--) {
      times_scaled(next, phi);
      for (long i = 0; i < m * m; i++) phi[i] = next[i] / (k + 1);
      for (long i = 0; i < m; i++) phi[i * m + i] += 1.0;
    }
    times_scaled(grown, phi);
    for (long i = 0; i < m; i++) grown[i * m + i] += 1.0;
    for (; halvings > 0; halvings--) {
      multiplied(next, phi, grown, m, 0);
      for (long i = 0; i < m * m; i++) phi[i] = 0.5 * (phi[i] + next[i]);
      multiplied(next, grown, grown, m, 0);
      for (long i = 0; i < m * m; i++) grown[i] = next[i];
    }
    return true;
  }

  // The upper half of `scaled` takes velocities alone.
  void times_scaled(double* out, const double* right) const {
    const long m = known, half = static_cast<long>(n) * m;
    const double step = scaled[n];
    for (long i = 0; i < half; i++) out[i] = step * right[half + i];
    multiplied(out, scaled, right, m, n);
  }

  // P <- F P F' + Q with F = 1 + change: rows of x and v, above the diagonal alone beyond them.
  void spread() {
    const long forced = count + n;
    for (long i = 0; i < known; i++) {
      double* row = driven + i * forced;
      for (long c = 0; c < forced; c++) row[c] = 0.0;
      for (int j = 0; j < n; j++) {
        const double factor = f.h * mean_growth[i * known + n + j], *from = slopes + j * columns;
        for (long c = 0; c < count; c++) row[c] += factor * from[c];
        for (int c = 0; c < n; c++) row[count + c] += factor * from[count + known + c];
      }
      double* own = change + i * size;
      for (long j = 0; j < known; j++) own[j] = grown[i * known + j] - (i == j);
      for (long c = 0; c < count; c++) own[known + c] = row[c];
      for (int c = 0; c < n; c++) row[count + c] *= f.force[c];
    }
    for (long i = 0; i < known * width; i++) R[i] = 0.0;
    rows_of(R, change, size, P, size, known, false);
    for (long i = 0; i < known; i++)
      for (long j = i; j < known; j++) {
        double total = R[i * width + j] + R[j * width + i];
        for (long k = 0; k < size; k++) total += R[i * width + k] * change[j * size + k];
        for (int c = 0; c < n; c++) total += driven[i * forced + count + c] * driven[j * forced + count + c];
        P[i * width + j] += total;
      }
    for (long i = 0; i < known; i++) {
      for (long j = 0; j < i; j++) P[i * width + j] = P[j * width + i];
      for (long j = known; j < size; j++) P[i * width + j] += R[i * width + j];
    }
    for (long c = 0; c < count; c++) P[(known + c) * (width + 1)] += f.h * f.drift[c] * f.drift[c];
  }

  // Joseph's form with gain G and H the rows of x: P - G H P - (H P - S G')' G'.
  void correct(long k) {
    const double* measured = f.x + k * n;
    const long right = size + 1;
    double* copy = S + n * n;
    for (int i = 0; i < n; i++) {
      for (int j = 0; j < n; j++) S[i * n + j] = copy[i * n + j] = P[i * width + j] + (i == j ? f.position[i] * f.position[i] : 0.0);
      for (long j = 0; j < size; j++) solved[i * right + j] = P[i * width + j];
      solved[i * right + size] = measured[i] - f.mean[i];
    }
    eliminated(copy, solved, n, right);
    double surprise = 0.0;
    for (int i = 0; i < n; i++) surprise += (measured[i] - f.mean[i]) * solved[i * right + size];
    f.innovation[k] = surprise;
    for (int i = 0; i < n; i++) copy[i] = measured[i] - f.mean[i];
    for (int i = 0; i < n; i++)
      for (long j = 0; j < size; j++) f.mean[j] += solved[i * right + j] * copy[i];
    for (int i = 0; i < n; i++) {
      for (long j = 0; j < width; j++) {
        W[i * width + j] = P[i * width + j];
        W[(n + i) * width + j] = j < size ? solved[i * right + j] : 0.0;
      }
      for (long j = 0; j < size; j++) {
        double rest = P[i * width + j];
        for (int c = 0; c < n; c++) rest -= S[i * n + c] * solved[c * right + j];
        U[j * known + i] = -solved[i * right + j];
        U[j * known + n + i] = -rest;
      }
    }
    rows_of(P, U, known, W, known, size, true);
    for (long i = 1; i < size; i++)
      for (long j = 0; j < i; j++) P[i * width + j] = P[j * width + i];
  }

  // out (rows, width) += left (rows, depth) right (depth, width); `upper`: from the diagonal on.
  void rows_of(double* out, const double* left, long left_row, const double* right, long depth, long rows, bool upper) const {
    long i = 0;
    for (; i + 4 <= rows; i += 4)
      add_product<4>(out + i * width, left + i * left_row, left_row, right, width, depth, upper ? i / strip * strip : 0, width);
    for (; i < rows; i++)
      add_product<1>(out + i * width, left + i * left_row, left_row, right, width, depth, upper ? i / strip * strip : 0, width);
  }
};

inline std::size_t kalman_room(const SystemView& s, const KalmanView& f) {
  const std::size_t n = s.size, known = 2 * n, size = known + f.slopes.parameters, width = padded(static_cast<long>(size));
  const std::size_t numbers = (size + 2 * known) * width + 2 * size * known + n * f.slopes.columns + known * (f.slopes.parameters + n) +
                              4 * known * known + 2 * n * n + n * (size + 1);
  return sizeof(double) * numbers + sizeof(Lane) * (7 * n + 32);
}

}  // namespace
