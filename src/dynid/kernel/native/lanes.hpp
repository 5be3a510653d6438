// One lane a sample: compiler vector extensions, and 3-vectors of lanes. Everything here has internal linkage.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tables.hpp"

namespace {

#define DYNID_INLINE __attribute__((always_inline)) inline

#if defined(DYNID_LANES)
constexpr int lanes = DYNID_LANES;
#else
using dynid::lanes;
#endif
typedef double Lane __attribute__((vector_size(8 * lanes)));
typedef std::int64_t LaneInt __attribute__((vector_size(8 * lanes)));

DYNID_INLINE Lane fill(double x) { return x - Lane{}; }
DYNID_INLINE Lane fill(Lane x) { return x; }
DYNID_INLINE Lane load(const double* p) { Lane v; std::memcpy(&v, p, sizeof v); return v; }
DYNID_INLINE void store(double* p, Lane v) { std::memcpy(p, &v, sizeof v); }
DYNID_INLINE double sum(Lane v) {
  double part[4] = {v[0], v[1], v[2], v[3]};
  for (int l = 4; l < lanes; l++) part[l - 4] += v[l];
  return (part[0] + part[1]) + (part[2] + part[3]);
}
struct Vec3 { Lane x, y, z; };
DYNID_INLINE Vec3 operator+(Vec3 a, Vec3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
DYNID_INLINE Vec3 operator-(Vec3 a, Vec3 b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
DYNID_INLINE Vec3 operator*(Vec3 a, Lane s) { return {a.x * s, a.y * s, a.z * s}; }
DYNID_INLINE Lane dot(Vec3 a, Vec3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
DYNID_INLINE Vec3 cross(Vec3 a, Vec3 b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
template <class Number>
DYNID_INLINE Vec3 constant(const Number* p) { return {fill(p[0]), fill(p[1]), fill(p[2])}; }
DYNID_INLINE Vec3 zero3() { return {Lane{}, Lane{}, Lane{}}; }

struct Mat3 { Vec3 c0, c1, c2; };  // columns
DYNID_INLINE Vec3 operator*(const Mat3& m, Vec3 a) { return m.c0 * a.x + m.c1 * a.y + m.c2 * a.z; }
DYNID_INLINE Vec3 transposed_times(const Mat3& m, Vec3 a) { return {dot(m.c0, a), dot(m.c1, a), dot(m.c2, a)}; }

// Sine and cosine: Cody-Waite reduction to [-pi/4, pi/4] and minimax polynomials (coefficients of fdlibm); the
// reduction holds for |x| < 1e6, beyond it (and for NaN or infinity) the lane is left to the C library.
DYNID_INLINE void sine_cosine(Lane x, Lane& s, Lane& c) {
  const Lane magic = fill(6755399441055744.0);
  Lane k = x * 0.63661977236758134308 + magic;
  const LaneInt quadrant = (LaneInt)k;
  k -= magic;
  const Lane r = ((x - k * 1.57079632673412561417e+00) - k * 6.07710050630396597660e-11) - k * 2.02226624879595063154e-21;
  const Lane z = r * r;
  const Lane sine = r + r * z * (-1.66666666666666307295e-1 + z * (8.33333333332211858878e-3
      + z * (-1.98412698295895385996e-4 + z * (2.75573136213857245213e-6
      + z * (-2.50507477628578072866e-8 + z * 1.58962301576546568060e-10)))));
  const Lane cosine = 1.0 - 0.5 * z + z * z * (4.16666666666665929218e-2 + z * (-1.38888888888730564116e-3
      + z * (2.48015872888517179954e-5 + z * (-2.75573141792967388112e-7
      + z * (2.08757008419747316778e-9 + z * -1.13585365213876817300e-11)))));
  const LaneInt swap = (quadrant & 1) != 0;
  const Lane a = swap ? cosine : sine, b = swap ? sine : cosine;
  s = (Lane)((LaneInt)a ^ ((quadrant & 2) << 62));
  c = (Lane)((LaneInt)b ^ (((quadrant + 1) & 2) << 62));
  for (int l = 0; l < lanes; l++)
    if (!(x[l] > -1e6 && x[l] < 1e6)) { s[l] = ::sin(x[l]); c[l] = ::cos(x[l]); }
}

}  // namespace
