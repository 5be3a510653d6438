// Derivatives of torque with respect to motion, one outward and one inward pass; formulas and letters as in adjoint.py.
// Motions and wrenches are spatial vectors about the base's origin: (angular, linear) and (moment, force).
#pragma once
#include "passes.hpp"

namespace {

struct Spatial { Vec3 w, u; };
DYNID_INLINE Spatial operator+(Spatial a, Spatial b) { return {a.w + b.w, a.u + b.u}; }
DYNID_INLINE Spatial operator-(Spatial a, Spatial b) { return {a.w - b.w, a.u - b.u}; }
DYNID_INLINE Spatial operator*(Spatial a, Lane s) { return {a.w * s, a.u * s}; }
DYNID_INLINE Lane dot(Spatial a, Spatial b) { return dot(a.w, b.w) + dot(a.u, b.u); }
DYNID_INLINE Spatial bracket(Spatial v, Spatial s) { return {cross(v.w, s.w), cross(v.w, s.u) + cross(v.u, s.w)}; }
DYNID_INLINE Spatial push(Spatial v, Spatial f) { return {cross(v.w, f.w) + cross(v.u, f.u), cross(v.w, f.u)}; }
DYNID_INLINE Spatial nothing() { return {zero3(), zero3()}; }

struct Wrenches { Spatial P, Q, F; };
struct Moved { Mat3 R; Vec3 p; Spatial s, v, a, turning, falling; Wrenches total; Spatial carried; };

struct Ten {
  Lane m; Vec3 h; Mat3 I;
  DYNID_INLINE Spatial operator*(Spatial x) const { return {I * x.w + cross(h, x.u), x.u * m - cross(h, x.w)}; }
};
template <class Read>
DYNID_INLINE Ten ten(const Read& g) {
  return {g(0), {g(1), g(2), g(3)}, {{g(4), g(5), g(7)}, {g(5), g(6), g(8)}, {g(7), g(8), g(9)}}};
}

DYNID_INLINE Spatial into(const Moved& b, Spatial x) {
  return {transposed_times(b.R, x.w), transposed_times(b.R, x.u + cross(x.w, b.p))};
}
DYNID_INLINE Spatial out_of(const Moved& b, Spatial f) {
  const Vec3 force = b.R * f.u;
  return {b.R * f.w + cross(b.p, force), force};
}

template <class Source>
DYNID_INLINE void outward(const dynid::TreeView& t, const Source& in, int i, Moved* moved) {
  const int parent = t.parent[i];
  const Vec3 axis = constant(t.axis + 3 * i), place = constant(t.translation + 3 * i);
  Moved& b = moved[i];
  const Mat3 P = placement(t.rotation + 9 * i);
  const Mat3 own = t.prismatic[i] ? P : turned(P, axis, in(0, i));
  const Vec3 at = t.prismatic[i] ? place + P * (axis * in(0, i)) : place;
  Spatial v = nothing(), a{zero3(), constant(t.gravity) * fill(-1.0)};
  if (parent < 0) {
    b.R = own;
    b.p = at;
  } else {
    const Moved& f = moved[parent];
    b.R = {f.R * own.c0, f.R * own.c1, f.R * own.c2};
    b.p = f.p + f.R * at;
    v = f.v;
    a = f.a;
  }
  const Vec3 direction = b.R * axis;
  b.s = t.prismatic[i] ? Spatial{zero3(), direction} : Spatial{direction, cross(b.p, direction)};
  b.turning = bracket(v, b.s);
  b.falling = bracket(a, b.s) + bracket(v, b.turning);
  b.v = v + b.s * in(1, i);
  b.a = a + b.s * in(2, i) + b.turning * in(1, i);
  b.total = {nothing(), nothing(), nothing()};
  b.carried = nothing();
}

struct Seen { Spatial v, a; };
DYNID_INLINE Wrenches wrenches(const Ten& I, const Seen& body, Spatial s) {
  const Spatial P = I * s, H = I * body.v;
  return {P, push(body.v, P) - push(s, H) - I * bracket(body.v, s), I * body.a + push(body.v, H)};
}

// Derivatives (3, n, block) of the weighted sum of the regressor; weights: the line of each pair and column.
inline void contracted(const dynid::TreeView& t, const double* const* weights, const Input& in, double* out, Moved* moved) {
  for (int i = 0; i < t.n; i++) outward(t, in, i, moved);
  for (int i = 0; i < t.n; i++) {
    Moved& b = moved[i];
    const Spatial v = into(b, b.v), a = into(b, b.a);
    Wrenches sum{nothing(), nothing(), nothing()};
    for (int pair = t.pair_first[i]; pair < t.pair_first[i + 1]; pair++) {
      const double* const* g = weights + 10L * pair;
      const Ten I = ten([&](int k) { return load(g[k] + in.sample); });
      Moved& up = moved[t.pair_joint[pair]];
      const Spatial s = into(b, up.s), H = I * v, F = I * a + push(v, H);
      sum.P = sum.P + I * s;
      sum.Q = sum.Q + push(s, H) + I * bracket(v, s);
      sum.F = sum.F + push(s, F);
      up.carried = up.carried + out_of(b, F);
    }
    b.total = {out_of(b, sum.P), out_of(b, push(v, sum.P) - sum.Q), out_of(b, sum.F)};
  }
  for (int k = t.n - 1; k >= 0; k--) {
    Moved& b = moved[k];
    Wrenches& c = b.total;
    c.F = c.F - push(b.s, b.carried);
    double* at = out + (long)k * dynid::block_samples + in.sample;
    const long kind = (long)t.n * dynid::block_samples;
    store(at, dot(b.turning, c.Q) + dot(b.falling, c.P) - dot(b.s, c.F));
    store(at + kind, dot(b.s, c.Q) + dot(b.turning, c.P) * 2.0);
    store(at + 2 * kind, dot(b.s, c.P));
    if (t.parent[k] >= 0) {
      Wrenches& f = moved[t.parent[k]].total;
      f = {f.P + c.P, f.Q + c.Q, f.F + c.F};
    }
  }
}

// Derivatives of torque j by motion k, lines (3, k, j), `stride` numbers apart; inertia (10 n). Unrelated pairs are left as
// they are.
template <long stride, class Source>
inline void jacobian(const dynid::TreeView& t, const double* inertia, const Source& in, double* out, Moved* moved,
                     Wrenches* pairs) {
  for (int i = 0; i < t.n; i++) {
    outward(t, in, i, moved);
    const Moved& b = moved[i];
    const Seen seen{into(b, b.v), into(b, b.a)};
    const Ten I = ten([&](int k) { return fill(inertia[10 * i + k]); });
    for (int pair = t.pair_first[i]; pair < t.pair_first[i + 1]; pair++) {
      const Wrenches one = wrenches(I, seen, into(b, moved[t.pair_joint[pair]].s));
      pairs[pair] = {out_of(b, one.P), out_of(b, one.Q), out_of(b, one.F)};
    }
  }
  const long kind = (long)t.n * t.n * stride;
  const auto put = [&](const Moved& b, int k, int j, const Wrenches& c, Lane more) {
    double* at = out + (long)(k * t.n + j) * stride + in.sample;
    store(at, dot(b.turning, c.Q) + dot(b.falling, c.P) - more);
    store(at + kind, dot(b.s, c.Q) + dot(b.turning, c.P) * 2.0);
    store(at + 2 * kind, dot(b.s, c.P));
  };
  for (int i = t.n - 1; i >= 0; i--) {
    const int first = t.pair_first[i], own = t.pair_first[i + 1] - 1;
    for (int pair = first; pair <= own; pair++) {
      const int j = t.pair_joint[pair];
      const Wrenches& c = pairs[pair];
      put(moved[i], i, j, c, dot(moved[i].s, push(moved[j].s, c.F)));
      if (pair < own) {
        put(moved[j], j, i, pairs[own], Lane{});
        Wrenches& f = pairs[t.pair_first[t.parent[i]] + pair - first];
        f = {f.P + c.P, f.Q + c.Q, f.F + c.F};
      }
    }
  }
}

}  // namespace
