// Compiled once per instruction set (DYNID_TABLE names the result): regressor blocks, Gram, Householder, filter section.
#include "passes.hpp"

namespace {

using dynid::block_samples;

void regressor_block(const dynid::TreeView& t, int quantity, const double* input, double* const* lines, void* scratch) {
  Body* body = static_cast<Body*>(scratch);
  Axis* axes = reinterpret_cast<Axis*>(body + t.n);
  for (int sample = 0; sample < block_samples; sample += lanes) {
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

// ---- Gram: I x J lines at a time, accumulated in registers over the block
template <int I, int J>
DYNID_INLINE void gram_tile(const double* a, const double* b, double* G, int m) {
  Lane total[I][J];
  for (int i = 0; i < I; i++) for (int j = 0; j < J; j++) total[i][j] = Lane{};
  for (int k = 0; k < block_samples; k += lanes) {
    Lane x[I];
    for (int i = 0; i < I; i++) x[i] = load(a + i * block_samples + k);
    for (int j = 0; j < J; j++) {
      const Lane y = load(b + j * block_samples + k);
      for (int i = 0; i < I; i++) total[i][j] += x[i] * y;
    }
  }
  for (int i = 0; i < I; i++) for (int j = 0; j < J; j++) G[(long)i * m + j] += sum(total[i][j]);
}

void gram_block(const double* P, int m, double* G) {
  int i = 0;
  for (; i + 4 <= m; i += 4) {
    int j = i;
    for (; j + 3 <= m; j += 3) gram_tile<4, 3>(P + i * block_samples, P + j * block_samples, G + (long)i * m + j, m);
    for (; j < m; j++) gram_tile<4, 1>(P + i * block_samples, P + j * block_samples, G + (long)i * m + j, m);
  }
  for (; i < m; i++)
    for (int j = i; j < m; j++) gram_tile<1, 1>(P + i * block_samples, P + j * block_samples, G + (long)i * m + j, m);
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

void section(double* x, long samples, const double* sos, double* state, int reverse) {
  const Lane b0 = fill(sos[0]), b1 = fill(sos[1]), b2 = fill(sos[2]), a1 = fill(sos[4]), a2 = fill(sos[5]);
  Lane u0 = load(state), v0 = load(state + lanes), u1 = load(state + 2 * lanes), v1 = load(state + 3 * lanes);
  const long step = reverse ? -2 * lanes : 2 * lanes;
  double* at = reverse ? x + 2 * lanes * (samples - 1) : x;
  for (long i = 0; i < samples; i++, at += step) {
    const Lane x0 = load(at), x1 = load(at + lanes);
    const Lane y0 = b0 * x0 + u0, y1 = b0 * x1 + v0;
    u0 = b1 * x0 - a1 * y0 + u1;
    v0 = b1 * x1 - a1 * y1 + v1;
    u1 = b2 * x0 - a2 * y0;
    v1 = b2 * x1 - a2 * y1;
    store(at, y0);
    store(at + lanes, y1);
  }
  store(state, u0);
  store(state + lanes, v0);
  store(state + 2 * lanes, u1);
  store(state + 3 * lanes, v1);
}

#define DYNID_TEXT(x) #x
#define DYNID_NAME(x) DYNID_TEXT(x)

}  // namespace

namespace dynid {
extern const KernelTable DYNID_TABLE;
const KernelTable DYNID_TABLE = {
    DYNID_NAME(DYNID_ARCH), sizeof(Body), sizeof(Axis), regressor_block, gram_block, qr_block, section};
}  // namespace dynid
