// The passes of the regressors: outward over the bodies, then one projection a pair (body, joint that moves it).
// Letters as in reference.py: w, al angular velocity and acceleration, v velocity of the frame's origin, d its
// acceleration minus gravity, g minus gravity in the body's frame; a, l the motion axis of an ancestor joint.
#pragma once
#include "lanes.hpp"
#include "tables.hpp"

namespace {

struct Body { Mat3 E; Vec3 p, w, al, v, d, g, height; Mat3 R; };
struct Axis { Vec3 a, l, w, v; };  // motion axis of joint i at body j; velocity of body i carried to body j's frame

struct Input {
  const double* data;  // (3, n, block_samples)
  int n, sample;
  DYNID_INLINE Lane operator()(int kind, int joint) const {
    return load(data + ((long)kind * n + joint) * dynid::block_samples + sample);
  }
};

struct Lines {
  double* const* line;
  int sample;
  DYNID_INLINE void put(long pair, int k, Lane x) const { store(line[10 * pair + k] + sample, x); }
};

DYNID_INLINE Mat3 placement(const double* R) {
  return {{fill(R[0]), fill(R[3]), fill(R[6])}, {fill(R[1]), fill(R[4]), fill(R[7])}, {fill(R[2]), fill(R[5]), fill(R[8])}};
}

DYNID_INLINE Mat3 turned(const Mat3& P, Vec3 axis, Lane q) {
  Lane s, c;
  sine_cosine(q, s, c);
  const Vec3 u = axis * (1.0 - c), as = axis * s;
  const Vec3 c0{c + axis.x * u.x, axis.x * u.y + as.z, axis.x * u.z - as.y};
  const Vec3 c1{axis.y * u.x - as.z, c + axis.y * u.y, axis.y * u.z + as.x};
  const Vec3 c2{axis.z * u.x + as.y, axis.z * u.y - as.x, c + axis.z * u.z};
  return {P * c0, P * c1, P * c2};
}

// Motion of body j from that of its parent. With `velocities`, also what momentum and energies need; without `carried`, no
// motion axes of ancestors.
template <bool accelerations, bool velocities, bool carried = true, class Source>
DYNID_INLINE void move(const dynid::TreeView& t, const Source& in, int j, Body* body, Axis* axes) {
  const int parent = t.parent[j];
  const Vec3 axis = constant(t.axis + 3 * j);
  const bool slides = t.prismatic[j];
  Body& b = body[j];
  b.E = placement(t.rotation + 9 * j);
  b.p = constant(t.translation + 3 * j);
  const Lane q = in(0, j), dq = in(1, j);
  if (slides) b.p = b.p + b.E * (axis * q);
  else b.E = turned(b.E, axis, q);
  const int first = t.pair_first[j], last = t.pair_first[j + 1] - 1;
  if (parent < 0) {
    b.w = b.al = b.v = zero3();
    b.d = b.g = transposed_times(b.E, constant(t.gravity) * fill(-1.0));
    if (velocities) { b.R = b.E; b.height = b.p; }
  } else {
    const Body& f = body[parent];
    b.w = transposed_times(b.E, f.w);
    if (accelerations) {
      b.al = transposed_times(b.E, f.al);
      b.d = transposed_times(b.E, f.d + cross(f.al, b.p) + cross(f.w, cross(f.w, b.p)));
    }
    if (velocities) {
      b.v = transposed_times(b.E, f.v + cross(f.w, b.p));
      b.g = transposed_times(b.E, f.g);
      b.R = {f.R * b.E.c0, f.R * b.E.c1, f.R * b.E.c2};
      b.height = f.height + f.R * b.p;
    }
    const int above = t.pair_first[parent];
    for (int k = first; carried && k < last; k++) {
      const Axis& from = axes[above + k - first];
      axes[k].a = transposed_times(b.E, from.a);
      axes[k].l = transposed_times(b.E, from.l + cross(from.a, b.p));
      if (velocities) {
        axes[k].w = transposed_times(b.E, from.w);
        axes[k].v = transposed_times(b.E, from.v + cross(from.w, b.p));
      }
    }
  }
  const Vec3 rate = axis * dq;
  if (slides) {
    if (accelerations) { const Vec3 c = cross(b.w, rate); b.d = b.d + axis * in(2, j) + c + c; }
    if (velocities) b.v = b.v + rate;
    if (carried) { axes[last].a = zero3(); axes[last].l = axis; }
  } else {
    if (accelerations) b.al = b.al + cross(b.w, rate) + axis * in(2, j);
    b.w = b.w + rate;
    if (carried) { axes[last].a = axis; axes[last].l = zero3(); }
  }
  if (velocities && carried) { axes[last].w = b.w; axes[last].v = b.v; }
}

// Y: force = m d + B h, moment = h x d + (K(al) + w x K(w)) J, B = [al]x + [w]x[w]x, projected on every axis (a, l).
inline void torque_columns(const dynid::TreeView& t, int j, const Body& body, const Axis* axes, const Lines& out) {
  const Vec3 w = body.w, al = body.al, d = body.d;
  const Lane xx = w.x * w.x, yy = w.y * w.y, zz = w.z * w.z, xy = w.x * w.y, xz = w.x * w.z, yz = w.y * w.z;
  const Mat3 B{{-(yy + zz), xy + al.z, xz - al.y}, {xy - al.z, -(xx + zz), yz + al.x}, {xz + al.y, yz - al.x, -(xx + yy)}};
  const Vec3 Ixx{al.x, xz, -xy}, Ixy{-B.c0.z, B.c1.z, xx - yy}, Iyy{-yz, al.y, xy};
  const Vec3 Ixz{B.c0.y, zz - xx, -B.c2.y}, Iyz{yy - zz, -B.c1.x, B.c2.x}, Izz{yz, -xz, al.z};
  const std::uint32_t m = t.mask[j];
  for (int pair = t.pair_first[j]; pair < t.pair_first[j + 1]; pair++) {
    const Vec3 a = axes[pair].a, l = axes[pair].l;
    if (m & 1) out.put(pair, 0, dot(l, d));
    if (m & 14) {
      const Vec3 h = transposed_times(B, l) + cross(d, a);
      if (m & 2) out.put(pair, 1, h.x);
      if (m & 4) out.put(pair, 2, h.y);
      if (m & 8) out.put(pair, 3, h.z);
    }
    if (m & 16) out.put(pair, 4, dot(a, Ixx));
    if (m & 32) out.put(pair, 5, dot(a, Ixy));
    if (m & 64) out.put(pair, 6, dot(a, Iyy));
    if (m & 128) out.put(pair, 7, dot(a, Ixz));
    if (m & 256) out.put(pair, 8, dot(a, Iyz));
    if (m & 512) out.put(pair, 9, dot(a, Izz));
  }
}

// x . A(v, w) pi for a motion direction x = (l; a): the coefficients of the ten parameters.
struct Row10 { Lane c[10]; };
DYNID_INLINE Row10 momentum_row(Vec3 l, Vec3 a, Vec3 v, Vec3 w) {
  const Vec3 h = cross(l, w) + cross(v, a);
  return {{dot(l, v), h.x, h.y, h.z, a.x * w.x, a.x * w.y + a.y * w.x, a.y * w.y, a.x * w.z + a.z * w.x,
           a.y * w.z + a.z * w.y, a.z * w.z}};
}

DYNID_INLINE void put_row(const Lines& out, std::uint32_t mask, long pair, const Row10& row) {
  for (int k = 0; k < 10; k++) if (mask >> k & 1) out.put(pair, k, row.c[k]);
}

inline void momentum_columns(const dynid::TreeView& t, int j, const Body& b, const Axis* axes, const Lines& out) {
  for (int pair = t.pair_first[j]; pair < t.pair_first[j + 1]; pair++)
    put_row(out, t.mask[j], pair, momentum_row(axes[pair].l, axes[pair].a, b.v, b.w));
}

// R: weight along the axis minus momentum along the axis' own rate of change, (w x l + v x a; w x a).
inline void momentum_rate_columns(const dynid::TreeView& t, int j, const Body& b, const Axis* axes, const Lines& out) {
  for (int pair = t.pair_first[j]; pair < t.pair_first[j + 1]; pair++) {
    const Axis& s = axes[pair];
    const Row10 weight = momentum_row(s.l, s.a, b.g, zero3());
    const Row10 carried = momentum_row(cross(s.w, s.l) + cross(s.v, s.a), cross(s.w, s.a), b.v, b.w);
    Row10 row;
    for (int k = 0; k < 10; k++) row.c[k] = weight.c[k] - carried.c[k];
    put_row(out, t.mask[j], pair, row);
  }
}

inline void kinetic_columns(const dynid::TreeView& t, int j, const Body& b, const Lines& out) {
  Row10 row = momentum_row(b.v, b.w, b.v, b.w);
  for (int k = 0; k < 10; k++) row.c[k] *= 0.5;
  put_row(out, t.mask[j], j, row);
}

inline void potential_columns(const dynid::TreeView& t, int j, const Body& b, const Lines& out) {
  const Vec3 up = constant(t.gravity) * fill(-1.0);
  Row10 row{};
  row.c[0] = dot(up, b.height);
  const Vec3 h = transposed_times(b.R, up);
  row.c[1] = h.x;
  row.c[2] = h.y;
  row.c[3] = h.z;
  put_row(out, t.mask[j], j, row);
}

// ---- Mass matrix and bias force: composite bodies, accumulated from the tips to the base
struct Composite { Lane m; Vec3 h; Mat3 I; Vec3 force, moment; };

template <class Number>
DYNID_INLINE Mat3 second_moments(const Number* pi) {
  return {{fill(pi[4]), fill(pi[5]), fill(pi[7])}, {fill(pi[5]), fill(pi[6]), fill(pi[8])}, {fill(pi[7]), fill(pi[8]), fill(pi[9])}};
}

template <class Number>
DYNID_INLINE Composite own_body(const Number* pi, const Body& b) {
  Composite c;
  c.m = fill(pi[0]);
  c.h = constant(pi + 1);
  c.I = second_moments(pi);
  c.force = b.d * c.m + cross(b.al, c.h) + cross(b.w, cross(b.w, c.h));
  c.moment = cross(c.h, b.d) + c.I * b.al + cross(b.w, c.I * b.w);
  return c;
}

// I' = E I E' + (2 p.g + m p.p) 1 - p g' - g p' - m p p', g = E h.
DYNID_INLINE void join(Composite& parent, const Composite& c, const Body& b) {
  const Vec3 g = b.E * c.h, p = b.p;
  const Mat3 EI{b.E * c.I.c0, b.E * c.I.c1, b.E * c.I.c2};
  const Vec3 u = g + p * c.m;
  const Lane s = dot(p, g) + dot(p, u);
  const Mat3& E = b.E;
  Vec3 x = EI.c0 * E.c0.x + EI.c1 * E.c1.x + EI.c2 * E.c2.x - u * p.x - p * g.x;
  Vec3 y = EI.c0 * E.c0.y + EI.c1 * E.c1.y + EI.c2 * E.c2.y - u * p.y - p * g.y;
  Vec3 z = EI.c0 * E.c0.z + EI.c1 * E.c1.z + EI.c2 * E.c2.z - u * p.z - p * g.z;
  x.x += s; y.y += s; z.z += s;
  parent.m += c.m;
  parent.h = parent.h + u;
  parent.I = {parent.I.c0 + x, parent.I.c1 + y, parent.I.c2 + z};
  const Vec3 f = E * c.force;
  parent.force = parent.force + f;
  parent.moment = parent.moment + E * c.moment + cross(p, f);
}

// ---- Newton-Euler recursion and momentum: wrenches (moment, force) handed from the tips to the base
struct Wrench { Vec3 n, f; };
DYNID_INLINE Wrench operator+(Wrench a, Wrench b) { return {a.n + b.n, a.f + b.f}; }
DYNID_INLINE Wrench in_parent(const Body& b, Wrench x) {
  const Vec3 f = b.E * x.f;
  return {b.E * x.n + cross(b.p, f), f};
}
DYNID_INLINE Wrench inertial_wrench(const double* pi, const Body& b) {
  const Vec3 h = constant(pi + 1);
  const Mat3 I = second_moments(pi);
  return {cross(h, b.d) + I * b.al + cross(b.w, I * b.w), b.d * fill(pi[0]) + cross(b.al, h) + cross(b.w, cross(b.w, h))};
}
DYNID_INLINE Wrench own_momentum(const double* pi, const Body& b) {
  const Vec3 h = constant(pi + 1);
  return {second_moments(pi) * b.w + cross(h, b.v), b.v * fill(pi[0]) + cross(b.w, h)};
}
DYNID_INLINE Wrench own_weight(const double* pi, const Body& b) {
  return {cross(constant(pi + 1), b.g), b.g * fill(pi[0])};
}

}  // namespace
