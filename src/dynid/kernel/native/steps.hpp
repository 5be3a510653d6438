// Simulation of multibody systems whose parameters are known, one run a lane: equations of motion, Runge-Kutta steps under a
// controller with their tangents, Rosenbrock steps beside a measured motion, and steps with dry friction that sticks.
#pragma once
#include "sweep.hpp"

namespace {

using dynid::AdaptiveView;
using dynid::ControlView;
using dynid::FollowView;
using dynid::ModelsView;
using dynid::RolloutView;
using dynid::StickView;
using dynid::SystemView;
using dynid::TangentView;

struct LaneMotion {  // motion of the tree's joints, one lane a run
  const Lane *q, *dq, *ddq;  // ddq: null = zero
  static constexpr int sample = 0;
  DYNID_INLINE Lane operator()(int kind, int joint) const {
    return kind == 0 ? q[joint] : kind == 1 ? dq[joint] : ddq ? ddq[joint] : Lane{};
  }
};

DYNID_INLINE Lane absolute(Lane x) { return x < 0.0 ? -x : x; }
DYNID_INLINE Lane greater(Lane a, Lane b) { return a > b ? a : b; }
DYNID_INLINE Lane smaller(Lane a, Lane b) { return a < b ? a : b; }

// exp(x) for -708 <= x <= 0: 2^k exp(r), |r| <= ln(2) / 2, by Taylor's polynomial of degree 13 (remainder 4e-18).
DYNID_INLINE Lane exponential(Lane x) {
  const Lane magic = fill(6755399441055744.0);
  Lane k = x * 1.44269504088896338700e+00 + magic;
  const LaneInt power = (LaneInt)k << 52;
  k -= magic;
  const Lane r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
  Lane sum = fill(1.0 / 6227020800.0);
  const double factorials[] = {479001600.0, 39916800.0, 3628800.0, 362880.0, 40320.0, 5040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0};
  for (double factorial : factorials) sum = sum * r + 1.0 / factorial;
  return (Lane)((LaneInt)sum + power);
}

// tanh(x), exact to 2e-16 of one. A lane that is not a number stays none.
DYNID_INLINE Lane hyperbolic_tangent(Lane x) {
  const Lane size = absolute(x);
  const Lane e = exponential(smaller(size, fill(40.0)) * -2.0);
  const Lane value = (1.0 - e) / (1.0 + e);
  const Lane found = x < 0.0 ? -value : value;
  return x == x ? found : x;
}

DYNID_INLINE Lane sign_of(Lane x) { return (x > 0.0 ? fill(1.0) : Lane{}) - (x < 0.0 ? fill(1.0) : Lane{}); }

// Hands out pieces of the scratch memory. What it does not hold is handed out all the same, and must not be written.
struct Piece {
  Lane* at;
  Lane* end;
  Piece(void* scratch, std::size_t bytes) : at(static_cast<Lane*>(scratch)), end(at + bytes / sizeof(Lane)) {}
  bool enough() const { return at <= end; }
  Lane* lanes_of(long count) { Lane* here = at; at += count; return here; }
  template <class T>
  T* of(long count) { return reinterpret_cast<T*>(lanes_of(static_cast<long>((sizeof(T) * count + sizeof(Lane) - 1) / sizeof(Lane)))); }
};

// Equations of motion M(x) a + h(x, v) = force of one lane group, M factorised as L' D L over its pattern.
struct Equations {
  const SystemView& s;
  const int n, nb;
  Body* body;
  Axis* axes;
  Composite* whole;
  Lane *tree_q, *tree_v, *tree_mass, *tree_bias, *M, *h, *inverse;
  // Numbers of the runs, one a lane, once `take` was called; inertia is null until then.
  Lane *inertia = nullptr, *mass = nullptr, *constant = nullptr, *stiffness = nullptr, *damping = nullptr, *level = nullptr, *width = nullptr;

  Equations(const SystemView& system, Piece& room) : s(system), n(system.size), nb(system.tree.n) {
    const int pairs = s.tree.pair_first[nb];
    body = room.of<Body>(nb);
    axes = room.of<Axis>(pairs);
    whole = room.of<Composite>(nb);
    tree_q = room.lanes_of(nb);
    tree_v = room.lanes_of(nb);
    tree_mass = room.lanes_of((long)nb * nb);
    tree_bias = room.lanes_of(nb);
    M = room.lanes_of((long)n * n);
    h = room.lanes_of(n);
    inverse = room.lanes_of(n);
  }

  DYNID_INLINE void onto_tree(const Lane* x, Lane* tree, bool positions) const {
    for (int j = 0; j < nb; j++) tree[j] = positions ? fill(s.shift[j]) : Lane{};
    for (int e = 0; e < s.entries; e++) tree[s.entry_row[e]] += x[s.entry_column[e]] * s.entry_value[e];
  }

  // The numbers of each run of a group, its own or those of the system.
  template <class Runs>
  void take(const Runs& g, const ModelsView& models, Piece& room) {
    const long size = (long)n * n;
    inertia = room.lanes_of(10L * nb);
    mass = room.lanes_of(size);
    constant = room.lanes_of(n);
    stiffness = room.lanes_of(s.links);
    damping = room.lanes_of(s.links);
    level = room.lanes_of(s.signs);
    width = room.lanes_of(s.signs);
    if (!room.enough()) return;
    const auto number = [&](const double* shared, long at, long place) {
      return models.numbers ? g.gathered(models.numbers, models.width, at + place) : fill(shared[place]);
    };
    long at = 0;
    for (long k = 0; k < 10L * nb; k++) inertia[k] = number(s.inertia, at, k);
    at += 10L * nb;
    for (long k = 0; k < size; k++) mass[k] = number(s.mass, at, k);
    at += size;
    for (int e = 0; e < s.links; e++) {
      const long place = (long)s.link_row[e] * n + s.link_column[e];
      stiffness[e] = models.numbers ? g.gathered(models.numbers, models.width, at + place) : fill(s.link_stiffness[e]);
      damping[e] = models.numbers ? g.gathered(models.numbers, models.width, at + size + place) : fill(s.link_damping[e]);
    }
    at += 2 * size;
    for (int k = 0; k < n; k++) constant[k] = number(s.constant, at, k);
    at += n;
    for (int f = 0; f < s.signs; f++) {
      level[f] = number(s.sign_level, at, f);
      width[f] = number(s.sign_width, at + s.signs, f);
    }
  }

  // Fills M (lower half of the pattern) and h with everything but the drives.
  void set(const Lane* x, const Lane* v) {
    if (inertia) set_with(x, v, inertia, mass, constant, stiffness, damping, level);
    else set_with(x, v, s.inertia, s.mass, s.constant, s.link_stiffness, s.link_damping, s.sign_level);
  }

  template <class Number>
  DYNID_INLINE void set_with(const Lane* x, const Lane* v, const Number* of_bodies, const Number* of_rotors, const Number* steady,
                             const Number* springs, const Number* dampers, const Number* levels) {
    const dynid::TreeView& t = s.tree;
    const bool direct = s.entries == 0;
    if (!direct) { onto_tree(x, tree_q, true); onto_tree(v, tree_v, false); }
    const LaneMotion in{direct ? x : tree_q, direct ? v : tree_v, nullptr};
    for (int k = 0; k < n; k++) {
      for (int p = s.below_first[k]; p < s.below_first[k + 1]; p++) M[k * n + s.below[p]] = fill(of_rotors[k * n + s.below[p]]);
      M[k * n + k] = fill(of_rotors[k * n + k]);
      h[k] = fill(steady[k]);
    }
    for (int j = 0; j < nb; j++) {
      move<true, false>(t, in, j, body, axes);
      whole[j] = own_body(of_bodies + 10 * j, body[j]);
    }
    for (int j = nb - 1; j >= 0; j--) {
      const Composite& c = whole[j];
      const int last = t.pair_first[j + 1] - 1;
      const Vec3 a = axes[last].a, l = axes[last].l;
      const Vec3 push = l * c.m + cross(a, c.h), turn = c.I * a + cross(c.h, l);
      for (int pair = t.pair_first[j]; pair <= last; pair++) {
        const int i = t.pair_joint[pair];
        const Lane value = dot(axes[pair].a, turn) + dot(axes[pair].l, push);
        if (direct) M[j * n + i] += value;
        else tree_mass[j * nb + i] = value;
      }
      const Lane bias = dot(a, c.moment) + dot(l, c.force);
      if (direct) h[j] += bias;
      else tree_bias[j] = bias;
      if (t.parent[j] >= 0) join(whole[t.parent[j]], c, body[j]);
    }
    if (!direct) from_tree();
    for (int e = 0; e < s.links; e++) h[s.link_row[e]] += x[s.link_column[e]] * springs[e] + v[s.link_column[e]] * dampers[e];
    for (int f = 0; f < s.signs; f++) h[s.sign_at[f]] += sign(f, v) * levels[f];
  }

  DYNID_INLINE Lane sign(int f, const Lane* v) const {
    const Lane speed = v[s.sign_at[f]];
    if (width) return width[f] > 0.0 ? hyperbolic_tangent(speed / (width[f] > 0.0 ? width[f] : fill(1.0))) : sign_of(speed);
    return s.sign_width[f] > 0.0 ? hyperbolic_tangent(speed / s.sign_width[f]) : sign_of(speed);
  }

  void from_tree() {
    for (int e = 0; e < s.entries; e++) {
      const int row = s.entry_row[e], k = s.entry_column[e];
      h[k] += tree_bias[row] * s.entry_value[e];
      for (int o = 0; o < s.entries; o++) {
        const int other = s.entry_row[o], i = s.entry_column[o];
        if (i > k || !s.related[row * nb + other]) continue;
        const Lane value = row >= other ? tree_mass[row * nb + other] : tree_mass[other * nb + row];
        M[k * n + i] += value * (s.entry_value[e] * s.entry_value[o]);
      }
    }
  }

  // Factorises M in place; false where a pivot of a wanted lane is not positive. Lanes that are no number pass.
  bool factorise(int wanted) {
    bool positive = true;
    for (int k = n - 1; k >= 0; k--) {
      const Lane pivot = M[k * n + k];
      inverse[k] = 1.0 / pivot;
      for (int l = 0; l < lanes; l++) positive &= !(pivot[l] <= 0.0) || !(wanted >> l & 1);
      const int first = s.below_first[k], end = s.below_first[k + 1];
      for (int p = end - 1; p >= first; p--) {
        const int i = s.below[p];
        const Lane a = M[k * n + i] * inverse[k];
        M[i * n + i] -= a * M[k * n + i];
        for (int r = first; r < p; r++) M[i * n + s.below[r]] -= a * M[k * n + s.below[r]];
        M[k * n + i] = a;
      }
    }
    return positive;
  }

  DYNID_INLINE void substitute(Lane* x) const {
    for (int k = n - 1; k >= 0; k--) {
      const Lane value = x[k];
      for (int p = s.below_first[k]; p < s.below_first[k + 1]; p++) x[s.below[p]] -= M[k * n + s.below[p]] * value;
      x[k] = value * inverse[k];
    }
    for (int k = 0; k < n; k++) {
      Lane value = x[k];
      for (int p = s.below_first[k]; p < s.below_first[k + 1]; p++) value -= M[k * n + s.below[p]] * x[s.below[p]];
      x[k] = value;
    }
  }

  // The same for many right-hand sides side by side, x (n, columns).
  void substitute(Lane* x, long columns) const {
    for (int k = n - 1; k >= 0; k--) {
      Lane* own = x + k * columns;
      for (int p = s.below_first[k]; p < s.below_first[k + 1]; p++) {
        Lane* other = x + s.below[p] * columns;
        const Lane a = M[k * n + s.below[p]];
        for (long c = 0; c < columns; c++) other[c] -= a * own[c];
      }
      for (long c = 0; c < columns; c++) own[c] *= inverse[k];
    }
    for (int k = 0; k < n; k++) {
      Lane* own = x + k * columns;
      for (int p = s.below_first[k]; p < s.below_first[k + 1]; p++) {
        const Lane* other = x + s.below[p] * columns;
        const Lane a = M[k * n + s.below[p]];
        for (long c = 0; c < columns; c++) own[c] -= a * other[c];
      }
    }
  }
};

// Which lanes of a group hold a run, and the run of each lane; lanes to spare repeat the first one.
struct Group {
  long run[lanes];
  int wanted;
  Group(long first, long runs) : wanted(0) {
    for (int l = 0; l < lanes; l++) {
      run[l] = first + l < runs ? first + l : first;
      if (first + l < runs) wanted |= 1 << l;
    }
  }
  DYNID_INLINE Lane gathered(const double* from, long stride, long place) const {
    Lane value;
    for (int l = 0; l < lanes; l++) value[l] = from[run[l] * stride + place];
    return value;
  }
  DYNID_INLINE void scattered(double* into, long stride, long place, Lane value) const {
    for (int l = 0; l < lanes; l++) if (wanted >> l & 1) into[run[l] * stride + place] = value[l];
  }
};

DYNID_INLINE bool finite(Lane x, int wanted) {
  for (int l = 0; l < lanes; l++) if ((wanted >> l & 1) && !(x[l] - x[l] == 0.0)) return false;
  return true;
}

// u = sat(kp e(q_ref - q) + kd (v_ref - v) + u_ref + g(q - bend)) at row `row` of the tables.
struct Controller {
  const ControlView& c;
  const SystemView* model;
  Lane *at, *tree_at;
  Body* body;
  Wrench* weight;

  Controller(const ControlView& control, Piece& room) : c(control), model(control.gravity) {
    at = tree_at = nullptr;
    body = nullptr;
    weight = nullptr;
    if (!model) return;
    at = room.lanes_of(model->size);
    tree_at = room.lanes_of(model->tree.n);
    body = room.of<Body>(model->tree.n);
    weight = room.of<Wrench>(model->tree.n);
  }

  void torque(const Group& g, long row, const Lane* x, const Lane* v, Lane* u, Lane* by_q, Lane* by_v) {
    torque([&](const double* from, int j) { return g.gathered(from, c.run_stride, row * c.drives + j); }, x, v, u, by_q, by_v);
  }

  // input(table, drive): what a table has at the time of each lane. by_q, by_v: (drives) slopes of the feedback, zero where the limit
  // or the dead band holds it off, or null.
  template <class Source>
  void torque(const Source& input, const Lane* x, const Lane* v, Lane* u, Lane* by_q, Lane* by_v) {
    for (int j = 0; j < c.drives; j++) {
      const Lane own = x[c.driven[j]];
      Lane total = c.u ? input(c.u, j) : Lane{};
      Lane acts = fill(1.0), free = fill(1.0);
      if (c.kp) {
        Lane e = (c.q ? input(c.q, j) : Lane{}) - own;
        if (c.dead_band) {
          acts = absolute(e) <= c.dead_band[j] ? Lane{} : fill(1.0);
          e = e * acts;
        }
        total += e * c.kp[j];
      }
      if (c.kd) total += ((c.v ? input(c.v, j) : Lane{}) - v[c.driven[j]]) * c.kd[j];
      if (c.limit) {
        free = absolute(total) > c.limit[j] ? Lane{} : fill(1.0);
        total = smaller(greater(total, fill(-c.limit[j])), fill(c.limit[j]));
      }
      u[j] = total;
      if (by_q) {
        by_q[j] = c.kp ? acts * free * -c.kp[j] : Lane{};
        by_v[j] = c.kd ? free * -c.kd[j] : Lane{};
      }
    }
    if (model) hold(input, x, u);
  }

 private:
  template <class Source>
  void hold(const Source& input, const Lane* x, Lane* u) {
    const dynid::TreeView& t = model->tree;
    for (int j = 0; j < c.drives; j++)
      at[j] = x[c.driven[j]] - (c.bend ? input(c.bend, j) : Lane{});
    const bool direct = model->entries == 0;
    if (!direct) {
      for (int j = 0; j < t.n; j++) tree_at[j] = fill(model->shift[j]);
      for (int e = 0; e < model->entries; e++) tree_at[model->entry_row[e]] += at[model->entry_column[e]] * model->entry_value[e];
    }
    const StillMotion in{direct ? at : tree_at};
    for (int j = 0; j < t.n; j++) {
      move<false, true, false>(t, in, j, body, nullptr);
      weight[j] = own_weight(model->inertia + 10 * j, body[j]);
    }
    for (int j = t.n - 1; j >= 0; j--) {
      const Vec3 axis = constant(t.axis + 3 * j);
      const Lane own = dot(axis, t.prismatic[j] ? weight[j].f : weight[j].n);
      if (direct) u[j] += own;
      else
        for (int e = 0; e < model->entries; e++)
          if (model->entry_row[e] == j) u[model->entry_column[e]] += own * model->entry_value[e];
      if (t.parent[j] >= 0) weight[t.parent[j]] = weight[t.parent[j]] + in_parent(body[j], weight[j]);
    }
  }
  struct StillMotion {
    const Lane* q;
    DYNID_INLINE Lane operator()(int kind, int joint) const { return kind == 0 ? q[joint] : Lane{}; }
  };
};

// Slopes of the motion by parameters and first state, dx and dv (n, columns), carried through the stages of a step.
struct Tangent {
  const TangentView& view;
  const SystemView& s;
  const int n, nb;
  const long columns;
  Lane *x, *v, *stage_x, *stage_v, *sum_x, *sum_v, *slope, *torque, *by_x, *by_v, *jac, *tree_a, *regressor;
  Moved* moved;
  Wrenches* pairs;
  double** lines;

  Tangent(const TangentView& tangent, const SystemView& system, int drives, Piece& room)
      : view(tangent), s(system), n(system.size), nb(system.tree.n), columns(tangent.columns) {
    const long size = n * columns, count = s.tree.pair_first[nb];
    Lane** const all[] = {&x, &v, &stage_x, &stage_v, &sum_x, &sum_v, &slope};
    for (Lane** one : all) *one = room.lanes_of(size);
    torque = room.lanes_of((long)drives * columns * (view.waiting + 1));
    by_x = room.lanes_of((long)n * n);
    by_v = room.lanes_of((long)n * n);
    jac = room.lanes_of(3L * nb * nb);
    tree_a = room.lanes_of(nb);
    regressor = room.lanes_of(10 * count);
    moved = room.of<Moved>(nb);
    pairs = room.of<Wrenches>(count);
    lines = room.of<double*>(10 * count);
    if (!room.enough()) return;
    for (long k = 0; k < 10 * count; k++) lines[k] = reinterpret_cast<double*>(regressor + k);
    for (long k = 0; k < 3L * nb * nb; k++) jac[k] = Lane{};
  }

  // slope <- M^-1 (du - F_x dx - F_v dv - Y) at a stage with accelerations a; M factorised in `eq`, which was set at (x, v).
  // du: (drives, columns) of torque that is held, or null: then feedback slopes by_q, by_w (drives) act on the stage.
  void accelerate(Equations& eq, const ControlView& c, const Lane* at, const Lane* speed, const Lane* a, const Lane* dx,
                  const Lane* dv, const Lane* du, const Lane* by_q, const Lane* by_w) {
    linearise(eq, at, speed, a);
    if (!du)
      for (int j = 0; j < c.drives; j++) {
        const int k = c.driven[j];
        by_x[k * n + k] -= by_q[j];
        by_v[k * n + k] -= by_w[j];
      }
    for (int i = 0; i < n; i++) {
      Lane* row = slope + i * columns;
      for (long w = 0; w < columns; w++) row[w] = Lane{};
      for (int p = s.near_first[i]; p < s.near_first[i + 1]; p++) {
        const int k = s.near[p];
        const Lane fx = by_x[i * n + k], fv = by_v[i * n + k];
        const Lane *one = dx + k * columns, *two = dv + k * columns;
        for (long w = 0; w < columns; w++) row[w] -= fx * one[w] + fv * two[w];
      }
    }
    if (du)
      for (int j = 0; j < c.drives; j++)
        for (long w = 0; w < columns; w++) slope[c.driven[j] * columns + w] += du[j * columns + w];
    by_parameters(eq, at, speed, a);
    eq.substitute(slope, columns);
  }

  // Slopes by_x, by_v (n, n) of h at a stage, within the pattern.
  void linearise(Equations& eq, const Lane* at, const Lane* speed, const Lane* a) {
    const bool direct = s.entries == 0;
    for (int i = 0; i < n; i++)
      for (int p = s.near_first[i]; p < s.near_first[i + 1]; p++) by_x[i * n + s.near[p]] = by_v[i * n + s.near[p]] = Lane{};
    if (!direct) eq.onto_tree(a, tree_a, false);
    const LaneMotion in{direct ? at : eq.tree_q, direct ? speed : eq.tree_v, direct ? a : tree_a};
    jacobian<lanes>(s.tree, s.inertia, in, reinterpret_cast<double*>(jac), moved, pairs);
    const long kind = (long)nb * nb;
    if (direct) {
      for (int i = 0; i < nb; i++)
        for (int k = 0; k < nb; k++)
          if (s.related[i * nb + k]) {
            by_x[i * n + k] += jac[k * nb + i];
            by_v[i * n + k] += jac[kind + k * nb + i];
          }
    } else {
      for (int e = 0; e < s.entries; e++)
        for (int o = 0; o < s.entries; o++) {
          const int i = s.entry_row[e], k = s.entry_row[o];
          if (!s.related[i * nb + k]) continue;
          const double value = s.entry_value[e] * s.entry_value[o];
          const long place = (long)s.entry_column[e] * n + s.entry_column[o];
          by_x[place] += jac[k * nb + i] * value;
          by_v[place] += jac[kind + k * nb + i] * value;
        }
    }
    for (int e = 0; e < s.links; e++) {
      by_x[s.link_row[e] * n + s.link_column[e]] += s.link_stiffness[e];
      by_v[s.link_row[e] * n + s.link_column[e]] += s.link_damping[e];
    }
    for (int f = 0; f < s.signs; f++) {
      if (!(s.sign_width[f] > 0.0)) continue;
      const Lane value = eq.sign(f, speed);
      by_v[s.sign_at[f] * n + s.sign_at[f]] += (1.0 - value * value) * (s.sign_level[f] / s.sign_width[f]);
    }
  }

  // slope -= Y at the stage.
  void by_parameters(Equations& eq, const Lane* at, const Lane* speed, const Lane* a) {
    const dynid::TreeView& t = s.tree;
    const bool direct = s.entries == 0;
    bool moving = false;
    for (long c = 0; c < view.parameters && !moving; c++) moving = view.kind[c] == dynid::of_body;
    if (moving) {
      // Columns of the bodies along the stage's own accelerations.
      const LaneMotion in{direct ? at : eq.tree_q, direct ? speed : eq.tree_v, direct ? a : tree_a};
      const Lines out{lines, 0};
      for (int j = 0; j < nb; j++) {
        move<true, false>(t, in, j, eq.body, eq.axes);
        torque_columns(t, j, eq.body[j], eq.axes, out);
      }
    }
    for (long c = 0; c < view.parameters; c++) {
      const int i = view.first[c], k = view.second[c];
      Lane* own = slope + c;
      if (view.kind[c] == dynid::of_body) {
        for (int pair = t.pair_first[i]; pair < t.pair_first[i + 1]; pair++) {
          const int joint = t.pair_joint[pair];
          const Lane value = regressor[10 * pair + k];
          if (direct) own[joint * columns] -= value;
          else
            for (int e = 0; e < s.entries; e++)
              if (s.entry_row[e] == joint) own[s.entry_column[e] * columns] -= value * s.entry_value[e];
        }
      } else if (view.kind[c] == dynid::of_acceleration) own[i * columns] -= a[i];
      else if (view.kind[c] == dynid::of_velocity) own[i * columns] -= speed[i];
      else if (view.kind[c] == dynid::of_sign)
        own[i * columns] -= view.width[c] > 0.0 ? hyperbolic_tangent(speed[i] / view.width[c]) : sign_of(speed[i]);
      else if (view.kind[c] == dynid::of_nothing) own[i * columns] -= fill(1.0);
      else {
        // A spring or damper between coordinates i and k, which takes from one what it gives to the other.
        const Lane between = view.kind[c] == dynid::of_deflection ? at[i] - at[k] : speed[i] - speed[k];
        own[i * columns] -= between;
        own[k * columns] += between;
      }
    }
  }
};

// The classical Runge-Kutta method under a controller.
struct Rollout {
  const SystemView& s;
  const ControlView& c;
  const RolloutView& r;
  const Group g;
  const int n;
  Piece room;
  Equations eq;
  Controller controller;
  const bool slopes;
  Tangent tangent;
  Lane *x, *v, *k_x, *k_v, *sum_x, *sum_v, *a, *u, *held, *queue, *by_q, *by_w;
  bool positive = true;

  Rollout(const SystemView& system, const ControlView& control, const RolloutView& run, const TangentView& with, const ModelsView& models, long first,
          void* scratch, std::size_t bytes)
      : s(system), c(control), r(run), g(first, run.runs), n(system.size), room(scratch, bytes), eq(system, room),
        controller(control, room), slopes(with.columns > 0), tangent(with, system, control.drives, room) {
    Lane** const all[] = {&x, &v, &k_x, &k_v, &sum_x, &sum_v, &a};
    for (Lane** one : all) *one = room.lanes_of(n);
    u = room.lanes_of(c.drives);
    held = room.lanes_of(c.drives);
    by_q = room.lanes_of(c.drives);
    by_w = room.lanes_of(c.drives);
    queue = room.lanes_of((long)c.drives * (r.delay + 2));
    eq.take(g, models, room);
  }

  void run() {
    const long states = r.samples * 2 * n, inputs = r.samples * c.drives;
    for (int i = 0; i < n; i++) {
      x[i] = g.gathered(r.start, 2 * n, i);
      v[i] = g.gathered(r.start, 2 * n, n + i);
    }
    for (long k = 0; k < (r.delay + 2) * c.drives; k++) queue[k] = r.history ? g.gathered(r.history, (r.delay + 2) * c.drives, k) : Lane{};
    if (slopes) {
      for (long k = 0; k < n * tangent.columns; k++) tangent.x[k] = tangent.v[k] = Lane{};
      const long own = tangent.view.parameters;
      for (int i = 0; i < n && tangent.columns > own; i++) {
        tangent.x[i * tangent.columns + own + i] = fill(1.0);
        tangent.v[i * tangent.columns + own + n + i] = fill(1.0);
      }
      for (long k = 0; k < (r.delay + 2) * c.drives * tangent.columns; k++) tangent.torque[k] = Lane{};
    }
    for (long k = 0; k < r.samples; k++) {
      for (int i = 0; i < n; i++) {
        g.scattered(r.states, states, k * 2 * n + i, x[i]);
        g.scattered(r.states, states, k * 2 * n + n + i, v[i]);
      }
      if (slopes) record(k);
      if (failed(k)) return;
      if (r.held) {
        command(k);
        for (int j = 0; j < c.drives; j++) g.scattered(r.inputs, inputs, k * c.drives + j, queue[j]);
      }
      if (k + 1 == r.samples) return;
      if (!r.held) {
        for (long i = 0; i < r.count; i++) runge_kutta(2 * (k * r.count + i), r.step, nullptr);
      } else {
        // The command of `delay` rows ago, and before it came, in the row's first part, the one before that.
        const Lane* before = queue + (r.delay + 1) * c.drives;
        const Lane* now = queue + r.delay * c.drives;
        if (r.early) use(before, r.delay + 1);
        const long row = 2 * k * (r.early + r.count);
        for (long i = 0; i < r.early; i++) runge_kutta(row + 2 * i, r.early_step, held);
        if (r.count) use(now, r.delay);
        for (long i = 0; i < r.count; i++) runge_kutta(row + 2 * (r.early + i), r.step, held);
      }
      if (!positive) { fail(k, 2); return; }
    }
  }

 private:
  const Lane* du = nullptr;
  void use(const Lane* command, long age) {
    for (int j = 0; j < c.drives; j++) held[j] = command[j];
    du = slopes ? tangent.torque + age * c.drives * tangent.columns : nullptr;
  }

  void command(long k) {
    const long columns = slopes ? tangent.columns : 0, width = c.drives * columns;
    for (long age = r.delay + 1; age > 0; age--) {
      for (int j = 0; j < c.drives; j++) queue[age * c.drives + j] = queue[(age - 1) * c.drives + j];
      for (long w = 0; w < width; w++) tangent.torque[age * width + w] = tangent.torque[(age - 1) * width + w];
    }
    controller.torque(g, k, x, v, queue, by_q, by_w);
    for (int j = 0; j < c.drives && columns; j++)
      for (long w = 0; w < columns; w++)
        tangent.torque[j * columns + w] = by_q[j] * tangent.x[c.driven[j] * columns + w] + by_w[j] * tangent.v[c.driven[j] * columns + w];
  }

  void record(long k) {
    const long columns = tangent.columns, size = r.samples * n * columns;
    for (int i = 0; i < n; i++)
      for (long w = 0; w < columns; w++) {
        g.scattered(tangent.view.dx, size, (k * n + i) * columns + w, tangent.x[i * columns + w]);
        if (tangent.view.dv) g.scattered(tangent.view.dv, size, (k * n + i) * columns + w, tangent.v[i * columns + w]);
      }
  }

  bool failed(long k) {
    bool fine = true;
    for (int i = 0; i < n; i++) fine &= finite(x[i], g.wanted) && finite(v[i], g.wanted);
    if (!fine) fail(k > 0 ? k - 1 : 0, 1);
    return !fine;
  }

  // 1: no finite state after sample k; 2: a mass matrix that is not positive definite.
  void fail(long k, int kind) {
    double* into = r.failures + 2 * (g.run[0] / lanes);
    into[0] = kind;
    into[1] = static_cast<double>(k);
  }

  void accelerate(const Lane* at, const Lane* speed, long row, const Lane* fixed) {
    eq.set(at, speed);
    const Lane* drive = fixed;
    if (!fixed) {
      controller.torque(g, row, at, speed, u, slopes ? by_q : nullptr, by_w);
      drive = u;
    }
    for (int i = 0; i < n; i++) a[i] = -eq.h[i];
    for (int j = 0; j < c.drives; j++) a[c.driven[j]] += drive[j];
    positive &= eq.factorise(g.wanted);
    eq.substitute(a);
  }

  // x, v -> one step of h seconds further, and their slopes with them.
  void runge_kutta(long row, double h, const Lane* fixed) {
    const double share[4] = {0.5, 0.5, 1.0, 0.0}, weight[4] = {1.0, 2.0, 2.0, 1.0};
    const long rows[4] = {row, row + 1, row + 1, row + 2}, size = slopes ? n * tangent.columns : 0;
    for (int i = 0; i < n; i++) { sum_x[i] = sum_v[i] = Lane{}; k_x[i] = x[i]; k_v[i] = v[i]; }
    for (long w = 0; w < size; w++) {
      tangent.sum_x[w] = tangent.sum_v[w] = Lane{};
      tangent.stage_x[w] = tangent.x[w];
      tangent.stage_v[w] = tangent.v[w];
    }
    for (int stage = 0; stage < 4; stage++) {
      accelerate(k_x, k_v, rows[stage], fixed);
      if (slopes) tangent.accelerate(eq, c, k_x, k_v, a, tangent.stage_x, tangent.stage_v, fixed ? du : nullptr, by_q, by_w);
      const double w = weight[stage], d = share[stage] * h;
      for (int i = 0; i < n; i++) {
        const Lane rate = k_v[i];
        sum_x[i] += rate * w;
        sum_v[i] += a[i] * w;
        k_x[i] = x[i] + rate * d;
        k_v[i] = v[i] + a[i] * d;
      }
      for (long p = 0; p < size; p++) {
        const Lane rate = tangent.stage_v[p], gain = tangent.slope[p];
        tangent.sum_x[p] += rate * w;
        tangent.sum_v[p] += gain * w;
        tangent.stage_x[p] = tangent.x[p] + rate * d;
        tangent.stage_v[p] = tangent.v[p] + gain * d;
      }
    }
    const double sixth = h / 6.0;
    for (int i = 0; i < n; i++) { x[i] += sum_x[i] * sixth; v[i] += sum_v[i] * sixth; }
    for (long p = 0; p < size; p++) { tangent.x[p] += tangent.sum_x[p] * sixth; tangent.v[p] += tangent.sum_v[p] * sixth; }
  }
};

// Linearly implicit steps of adaptive length under a controller, each lane at its own pace; the rules, names and numbers are those of
// kernel/rosenbrock.py.
struct AdaptiveSteps {
  static constexpr double gamma = 4.3586652150845900e-01;
  static constexpr double stage[4][3] = {{0.0, 0.0, 0.0},
                                         {8.7173304301691801e-01, 0.0, 0.0},
                                         {8.4457060015369423e-01, -1.1299064236484185e-01, 0.0},
                                         {0.0, 0.0, 1.0}};
  static constexpr double coupling[4][3] = {{0.0, 0.0, 0.0},
                                            {-8.7173304301691801e-01, 0.0, 0.0},
                                            {-9.0338057013044082e-01, 5.4180672388095326e-02, 0.0},
                                            {2.4212380706095346e-01, -1.2232505839045147e+00, 5.4526025533510214e-01}};
  static constexpr double weight[4] = {2.4212380706095346e-01, -1.2232505839045147e+00, 1.5452602553351020e+00, 4.3586652150845900e-01};
  static constexpr double embedded[4] = {3.7810903145819369e-01, -9.6042292212423178e-02, 0.5, 2.1793326075422950e-01};
  static constexpr int input_rows = 4;
  const SystemView& s;
  const ControlView& c;
  const AdaptiveView& r;
  const Group g;
  const int n;
  Piece room;
  Equations eq;
  Controller controller;
  Lane *x, *v, *k_x, *k_v, *at_x, *at_v, *next_x, *next_v, *force, *first, *a, *sum_x, *sum_v, *slope_x, *slope_v, *u, *held, *by_q, *by_v, *mass, *W,
      *inverse;
  Lane share, tried, now;
  bool positive = true;

  AdaptiveSteps(const SystemView& system, const ControlView& control, const AdaptiveView& run, const ModelsView& models, long start, void* scratch,
                std::size_t bytes)
      : s(system), c(control), r(run), g(start, run.runs), n(system.size), room(scratch, bytes), eq(system, room), controller(control, room) {
    Lane** const all[] = {&x, &v, &at_x, &at_v, &next_x, &next_v, &force, &first, &a, &sum_x, &sum_v, &slope_x, &slope_v, &inverse};
    for (Lane** each : all) *each = room.lanes_of(n);
    k_x = room.lanes_of(4L * n);
    k_v = room.lanes_of(4L * n);
    Lane** const of_drives[] = {&u, &held, &by_q, &by_v};
    for (Lane** each : of_drives) *each = room.lanes_of(c.drives);
    mass = room.lanes_of((long)n * n);
    W = room.lanes_of((long)n * n);
    eq.take(g, models, room);
  }

  void run() {
    const long states = r.samples * 2 * n, inputs = r.samples * c.drives;
    for (int i = 0; i < n; i++) {
      x[i] = g.gathered(r.start, 2 * n, i);
      v[i] = g.gathered(r.start, 2 * n, n + i);
    }
    share = g.gathered(r.share, 1, 0);
    tried = g.gathered(r.tried, 1, 0);
    for (long k = 0; k < r.samples; k++) {
      for (int i = 0; i < n; i++) {
        g.scattered(r.states, states, k * 2 * n + i, x[i]);
        g.scattered(r.states, states, k * 2 * n + n + i, v[i]);
      }
      if (r.held) {
        controller.torque(g, k, x, v, held, nullptr, nullptr);
        for (int j = 0; j < c.drives; j++) g.scattered(r.inputs, inputs, k * c.drives + j, held[j]);
      }
      for (long i = 0; i < r.count && k + 1 < r.samples; i++)
        if (const int kind = interval(input_rows * (k * r.count + i))) {
          double* into = r.failures + 2 * (g.run[0] / lanes);
          into[0] = kind;
          into[1] = static_cast<double>(k);
          return;
        }
    }
    g.scattered(r.share, 1, 0, share);
    g.scattered(r.tried, 1, 0, tried);
  }

 private:
  // Drive less everything else at (a, b) and a share of the interval; M goes into eq.M.
  void forces(const Lane* a_x, const Lane* a_v, long row, Lane at, Lane* into, bool slopes) {
    eq.set(a_x, a_v);
    const Lane* drive = held;
    if (!r.held) {
      Lane weights[input_rows + 1];
      for (int m = 0; m <= input_rows; m++) {
        weights[m] = fill(1.0);
        for (int o = 0; o <= input_rows; o++)
          if (o != m) weights[m] *= (at - o / 4.0) / ((m - o) / 4.0);
      }
      const auto input = [&](const double* from, int j) {
        Lane value{};
        for (int m = 0; m <= input_rows; m++) value += weights[m] * g.gathered(from, c.run_stride, (row + m) * c.drives + j);
        return value;
      };
      controller.torque(input, a_x, a_v, u, slopes ? by_q : nullptr, by_v);
      drive = u;
    }
    for (int i = 0; i < n; i++) into[i] = -eq.h[i];
    for (int j = 0; j < c.drives; j++) into[c.driven[j]] += drive[j];
  }

  // Slopes on the diagonal of friction and feedback; a negative one would spoil the factors and is left to the explicit part.
  void slopes_at(const Lane* speed) {
    for (int i = 0; i < n; i++) slope_x[i] = slope_v[i] = Lane{};
    for (int f = 0; f < s.signs; f++) {
      const Lane wide = eq.width[f], value = eq.sign(f, speed);
      const Lane slope = wide > 0.0 ? (1.0 - value * value) * (eq.level[f] / (wide > 0.0 ? wide : fill(1.0))) : Lane{};
      slope_v[s.sign_at[f]] += greater(slope, Lane{});
    }
    for (int j = 0; j < c.drives && !r.held; j++) {
      slope_x[c.driven[j]] += greater(-by_q[j], Lane{});
      slope_v[c.driven[j]] += greater(-by_v[j], Lane{});
    }
  }

  void exchange() {
    Lane* keep = eq.M; eq.M = W; W = keep;
    keep = eq.inverse; eq.inverse = inverse; inverse = keep;
  }

  // into -= h (K by_x + D by_v), with the symmetric parts of springs and dampers.
  void subtract(Lane h, const Lane* by_x, const Lane* by_speed, Lane* into) const {
    for (int i = 0; i < n; i++) into[i] -= h * (slope_x[i] * by_x[i] + slope_v[i] * by_speed[i]);
    for (int e = 0; e < s.links; e++) {
      const int i = s.link_row[e], j = s.link_column[e];
      const Lane half = h * 0.5;
      into[i] -= half * (eq.stiffness[e] * by_x[j] + eq.damping[e] * by_speed[j]);
      into[j] -= half * (eq.stiffness[e] * by_x[i] + eq.damping[e] * by_speed[i]);
    }
  }

  // W = M + h gamma D + (h gamma)^2 K, factorised; no number where it is not positive.
  void factorise(Lane h) {
    const Lane gh = h * gamma;
    for (int k = 0; k < n; k++) {
      for (int p = s.below_first[k]; p < s.below_first[k + 1]; p++) W[k * n + s.below[p]] = mass[k * n + s.below[p]];
      W[k * n + k] = mass[k * n + k] + gh * (slope_v[k] + gh * slope_x[k]);
    }
    for (int e = 0; e < s.links; e++) {
      const int i = s.link_row[e], j = s.link_column[e];
      const Lane value = gh * (eq.damping[e] + gh * eq.stiffness[e]);
      W[(i > j ? i : j) * n + (i > j ? j : i)] += i == j ? value : value * 0.5;
    }
    exchange();
    eq.factorise(0);
    for (int k = 0; k < n; k++) eq.inverse[k] = eq.M[k * n + k] <= 0.0 ? fill(__builtin_nan("")) : eq.inverse[k];
    exchange();
  }

  // The error of a step from `now`, which leads to next_x, next_v.
  Lane step(long row, Lane part) {
    const Lane h = part * r.length, gh = h * gamma;
    factorise(h);
    for (int i = 0; i < 4; i++) {
      for (int j = 0; j < n; j++) {
        at_x[j] = x[j];
        at_v[j] = v[j];
        sum_x[j] = sum_v[j] = Lane{};
      }
      for (int m = 0; m < i; m++)
        for (int j = 0; j < n; j++) {
          at_x[j] += k_x[m * n + j] * stage[i][m];
          at_v[j] += k_v[m * n + j] * stage[i][m];
          sum_x[j] += k_x[m * n + j] * coupling[i][m];
          sum_v[j] += k_v[m * n + j] * coupling[i][m];
        }
      Lane* rate = k_v + i * n;
      if (i == 0) {
        for (int j = 0; j < n; j++) rate[j] = h * first[j];
      } else {
        forces(at_x, at_v, row, now + part * (stage[i][0] + stage[i][1] + stage[i][2]), a, false);
        positive &= eq.factorise(g.wanted);
        eq.substitute(a);
        for (int j = 0; j < n; j++) rate[j] = Lane{};
        for (int k = 0; k < n; k++) {
          rate[k] += mass[k * n + k] * a[k];
          for (int p = s.below_first[k]; p < s.below_first[k + 1]; p++) {
            rate[k] += mass[k * n + s.below[p]] * a[s.below[p]];
            rate[s.below[p]] += mass[k * n + s.below[p]] * a[k];
          }
        }
        for (int j = 0; j < n; j++) rate[j] *= h;
      }
      // k_x = h (V + sum_v + gamma k_v), so that W k_v = h M a - h K (sum_x + gamma h (V + sum_v)) - h D sum_v.
      for (int j = 0; j < n; j++) {
        force[j] = h * (at_v[j] + sum_v[j]);
        sum_x[j] += gamma * force[j];
      }
      subtract(h, sum_x, sum_v, rate);
      exchange();
      eq.substitute(rate);
      exchange();
      for (int j = 0; j < n; j++) k_x[i * n + j] = force[j] + gh * rate[j];
    }
    Lane error{};
    for (int j = 0; j < n; j++) {
      error = greater_or_none(error, ahead(x[j], k_x + j, r.tolerance, next_x[j]));
      error = greater_or_none(error, ahead(v[j], k_v + j, r.speed_tolerance, next_v[j]));
    }
    return error;
  }

  DYNID_INLINE static Lane greater_or_none(Lane a, Lane b) { return (a > b) | (a != a) ? a : b; }

  DYNID_INLINE Lane ahead(Lane y, const Lane* k, double tolerance, Lane& after) const {
    Lane change{}, error{};
    for (int m = 0; m < 4; m++) {
      change += k[m * n] * weight[m];
      error += k[m * n] * (weight[m] - embedded[m]);
    }
    after = y + change;
    return absolute(error) / ((1.0 + greater(absolute(y), absolute(after))) * tolerance);
  }

  static double factor_of(double error) {
    if (error <= 0.9 * 0.9 * 0.9 / 64.0) return 4.0;
    if (error <= 0.9 * 0.9 * 0.9 / 8.0) return 2.0;
    if (error <= 1.0) return 1.0;
    if (error <= 0.9 * 0.9 * 0.9 * 8.0) return 0.5;
    if (error <= 0.9 * 0.9 * 0.9 * 64.0) return 0.25;
    return 0.125;
  }

  // An interval of every lane, whose inputs begin at a row; returns the kind of failure.
  int interval(long row) {
    now = Lane{};
    int pending = g.wanted;
    bool fresh = true;
    while (pending) {
      if (fresh) {
        forces(x, v, row, now, first, true);
        for (int k = 0; k < n; k++) {
          mass[k * n + k] = eq.M[k * n + k];
          for (int p = s.below_first[k]; p < s.below_first[k + 1]; p++) mass[k * n + s.below[p]] = eq.M[k * n + s.below[p]];
        }
        slopes_at(v);
      }
      Lane part{};
      for (int l = 0; l < lanes; l++)
        if (pending >> l & 1) part[l] = share[l] < 1.0 - now[l] ? share[l] : 1.0 - now[l];
      const Lane error = step(row, part);
      if (!positive) return 2;
      fresh = false;
      int accepted = 0;
      for (int l = 0; l < lanes; l++) {
        if (!(pending >> l & 1)) continue;
        const double factor = factor_of(error[l]), scaled = part[l] * factor;
        tried[l] += 1.0;
        share[l] = factor >= 1.0 && part[l] < share[l] && share[l] > scaled ? share[l] : scaled;
        if (factor >= 1.0) {
          accepted |= 1 << l;
          now[l] += part[l];
          if (now[l] >= 1.0) {
            pending &= ~(1 << l);
            share[l] = share[l] < 1.0 ? share[l] : 1.0;
          }
        } else if (share[l] < r.least_share) {
          return 1;
        }
        if (tried[l] > r.most) return 3;
      }
      if (!accepted) continue;
      fresh = true;
      for (int j = 0; j < n; j++)
        for (int l = 0; l < lanes; l++)
          if (accepted >> l & 1) {
            x[j][l] = next_x[j][l];
            v[j][l] = next_v[j][l];
          }
    }
    return 0;
  }
};

// Rosenbrock's method ROS2 with approximate Jacobians, once and in two halves and extrapolated: (4 y_half - y_whole) / 3.
// Source: Verwer, Spee, Blom and Hundsdorfer 1999.
struct Follow {
  const SystemView& s;
  const FollowView& f;
  const Group g;
  const int n;
  Piece room;
  Equations eq;
  Lane *x, *v, *M, *W, *inverse, *first, *force, *slope, *k_x, *k_v, *r_x, *r_v, *at, *speed, *x1, *v1, *xm, *vm;
  bool positive = true;

  Follow(const SystemView& system, const FollowView& follow, long start, void* scratch, std::size_t bytes)
      : s(system), f(follow), g(start, follow.runs), n(system.size), room(scratch, bytes), eq(system, room) {
    Lane** const all[] = {&x, &v, &first, &force, &slope, &k_x, &k_v, &r_x, &r_v, &at, &speed, &x1, &v1, &xm, &vm, &inverse};
    for (Lane** one : all)
      *one = room.lanes_of(n);
    M = room.lanes_of((long)n * n);
    W = room.lanes_of((long)n * n);
  }

  void run() {
    const long states = f.samples * 2 * n;
    for (int i = 0; i < n; i++) {
      x[i] = g.gathered(f.start, 2 * n, i);
      v[i] = g.gathered(f.start, 2 * n, n + i);
    }
    for (long k = 0; k < f.samples; k++) {
      for (int i = 0; i < n; i++) {
        g.scattered(f.states, states, k * 2 * n + i, x[i]);
        g.scattered(f.states, states, k * 2 * n + n + i, v[i]);
      }
      if (strayed(k)) return;
      for (long i = 0; i < f.count && k + 1 < f.samples; i++) step(2 * (k * f.count + i));
      if (!positive) { fail(k, 2); return; }
    }
  }

 private:
  bool strayed(long k) {
    bool fine = true;
    for (int i = 0; i < n; i++) {
      const Lane e = absolute(x[i] - g.gathered(f.far, f.samples * n, k * n + i));
      for (int l = 0; l < lanes; l++) fine &= e[l] < f.furthest || !(g.wanted >> l & 1);
    }
    if (!fine) fail(k, 1);
    return !fine;
  }
  void fail(long k, int kind) {
    double* into = f.failures + 2 * (g.run[0] / lanes);
    into[0] = kind;
    into[1] = static_cast<double>(k);
  }

  // M into eq.M (not factorised), drive less everything else into `into`.
  void forces(const Lane* a, const Lane* b, long row, Lane* into) {
    eq.set(a, b);
    for (int i = 0; i < n; i++) into[i] = -eq.h[i];
    for (int j = 0; j < f.drives; j++) {
      const long place = row * f.drives + j, width = f.rows * f.drives;
      const int k = f.driven[j];
      into[k] += g.gathered(f.u, width, place) + (g.gathered(f.x, width, place) - a[k]) * f.kp[j] +
                 (g.gathered(f.v, width, place) - b[k]) * f.kd[j];
    }
  }

  // Secant slopes of friction and damping, and the gains.
  void slopes_at(const Lane* b) {
    for (int i = 0; i < n; i++) {
      at[i] = absolute(b[i]) < f.slow ? fill(f.slow) : b[i];
      slope[i] = Lane{};
    }
    for (int e = 0; e < s.links; e++) slope[s.link_row[e]] += at[s.link_column[e]] * s.link_damping[e];
    for (int e = 0; e < s.signs; e++) slope[s.sign_at[e]] += eq.sign(e, at) * s.sign_level[e];
    for (int i = 0; i < n; i++) slope[i] = greater(slope[i] / at[i], Lane{});
    for (int j = 0; j < f.drives; j++) slope[f.driven[j]] += f.kd[j];
  }

  void keep_mass() {
    for (int k = 0; k < n; k++) {
      M[k * n + k] = eq.M[k * n + k];
      for (int p = s.below_first[k]; p < s.below_first[k + 1]; p++) M[k * n + s.below[p]] = eq.M[k * n + s.below[p]];
    }
  }

  void solve_W(Lane* b) {
    exchange();
    eq.substitute(b);
    exchange();
  }
  void exchange() {
    Lane* keep = eq.M; eq.M = W; W = keep;
    keep = eq.inverse; eq.inverse = inverse; inverse = keep;
  }

  void times_K(const Lane* a, Lane* into, double factor) const {
    for (int e = 0; e < f.springs; e++) into[f.spring_row[e]] -= a[f.spring_column[e]] * (f.spring[e] * factor);
  }

  // One step of h from (a, b), whose force is `first` and mass M, to (to_x, to_v).
  void half(const Lane* a, const Lane* b, double h, long later, Lane* to_x, Lane* to_v) {
    const double gh = f.gamma * h;
    for (int k = 0; k < n; k++) {
      for (int p = s.below_first[k]; p < s.below_first[k + 1]; p++) {
        const int i = s.below[p];
        W[k * n + i] = M[k * n + i] + gh * f.damping[k * n + i] + gh * gh * f.stiffness[k * n + i];
      }
      W[k * n + k] = M[k * n + k] + gh * gh * f.stiffness[k * n + k] + gh * slope[k];
    }
    exchange();
    positive &= eq.factorise(g.wanted);
    exchange();
    for (int i = 0; i < n; i++) k_v[i] = first[i];
    times_K(b, k_v, gh);
    solve_W(k_v);
    for (int i = 0; i < n; i++) {
      k_x[i] = b[i] + gh * k_v[i];
      at[i] = a[i] + h * k_x[i];
      speed[i] = b[i] + h * k_v[i];
    }
    forces(at, speed, later, force);
    positive &= eq.factorise(g.wanted);
    eq.substitute(force);
    for (int i = 0; i < n; i++) {
      r_x[i] = b[i] + h * k_v[i] - 2.0 * k_x[i];
      r_v[i] = force[i] - 2.0 * k_v[i];
      force[i] = Lane{};
    }
    for (int k = 0; k < n; k++) {
      force[k] += M[k * n + k] * r_v[k];
      for (int p = s.below_first[k]; p < s.below_first[k + 1]; p++) {
        const int i = s.below[p];
        force[k] += M[k * n + i] * r_v[i];
        force[i] += M[k * n + i] * r_v[k];
      }
    }
    times_K(r_x, force, gh);
    solve_W(force);
    for (int i = 0; i < n; i++) {
      const Lane k2 = r_x[i] + gh * force[i];
      to_x[i] = a[i] + h * (1.5 * k_x[i] + 0.5 * k2);
      to_v[i] = b[i] + h * (1.5 * k_v[i] + 0.5 * force[i]);
    }
  }

  void step(long row) {
    forces(x, v, row, first);
    keep_mass();
    slopes_at(v);
    half(x, v, f.step, row + 2, x1, v1);
    half(x, v, 0.5 * f.step, row + 1, xm, vm);
    forces(xm, vm, row + 1, first);
    keep_mass();
    slopes_at(vm);
    half(xm, vm, 0.5 * f.step, row + 2, x, v);
    for (int i = 0; i < n; i++) {
      x[i] = (4.0 * x[i] - x1[i]) / 3.0;
      v[i] = (4.0 * v[i] - v1[i]) / 3.0;
    }
  }
};

// Joints that slide, come to rest and stick under dry friction, each event at its own time and in its own lane; the rules are
// those of simulation/stick.py.
struct Stick {
  const SystemView& s;
  const StickView& d;
  const Group g;
  const int n;
  Piece room;
  Equations eq;
  Lane *x, *v, *way, *tau, *last, *begin, *end, *a, *side, *fast, *bias, *free, *k_x, *k_v, *sum_x, *sum_v, *ahead_x, *ahead_v, *tau_to, *inverse;
  double *high, *force, *gain;
  int alive;

  Stick(const SystemView& system, const StickView& dry, long start, void* scratch, std::size_t bytes)
      : s(system), d(dry), g(start, dry.runs), n(system.size), room(scratch, bytes), eq(system, room), alive(g.wanted) {
    Lane** const all[] = {&x, &v, &way, &tau, &last, &begin, &end, &a, &side, &fast, &bias, &free, &k_x, &k_v, &sum_x, &sum_v, &ahead_x, &ahead_v, &tau_to};
    for (Lane** one : all)
      *one = room.lanes_of(n);
    inverse = room.lanes_of((long)n * n);
    high = room.of<double>(n);
    force = room.of<double>(n);
    gain = room.of<double>(n);
    if (!room.enough()) return;
    for (int i = 0; i < n; i++) high[i] = 0.0;
    for (int f = 0; f < s.signs; f++) if (!(s.sign_width[f] > 0.0)) high[s.sign_at[f]] += s.sign_level[f];
    for (int i = 0; i < n; i++) high[i] = high[i] > 0.0 ? high[i] : 0.0;
  }

  void run() {
    for (int i = 0; i < n; i++) {
      x[i] = g.gathered(d.start, 2 * n, i);
      v[i] = g.gathered(d.start, 2 * n, n + i);
      way[i] = sign_of(v[i]);
    }
    row(0, tau);
    decide(tau, alive);
    for (long k = 0; k < d.samples && alive; k++) {
      ended(k);
      const long states = d.samples * 3 * n;
      for (int i = 0; i < n; i++)
        for (int l = 0; l < lanes; l++) {
          if (!(alive >> l & 1)) continue;
          double* into = d.states + g.run[l] * states + k * 3 * n;
          into[i] = x[i][l];
          into[n + i] = v[i][l];
          into[2 * n + i] = way[i][l] == 0.0;
        }
      if (k + 1 < d.samples) sample(k);
    }
  }

 private:
  void row(long k, Lane* into) const {
    for (int i = 0; i < n; i++) into[i] = Lane{};
    for (int j = 0; j < d.drives; j++) into[d.driven[j]] = g.gathered(d.u, d.samples * d.drives, k * d.drives + j);
  }

  void ended(long k) {
    for (int l = 0; l < lanes; l++) {
      if (!(alive >> l & 1)) continue;
      bool fine = true;
      for (int i = 0; i < n; i++) fine &= v[i][l] - v[i][l] == 0.0 && x[i][l] < d.furthest && x[i][l] > -d.furthest;
      if (fine) continue;
      alive &= ~(1 << l);
      d.ended[g.run[l]] = static_cast<double>(k);
    }
  }

  void sample(long k) {
    row(k, tau);
    if (d.constant) for (int i = 0; i < n; i++) last[i] = tau[i];
    else row(k + 1, last);
    long count[lanes], most = 0;
    steps(count);
    for (int l = 0; l < lanes; l++) if ((alive >> l & 1) && count[l] > most) most = count[l];
    for (long i = 0; i < most; i++) {
      int moving = 0;
      Lane h, from, to;
      for (int l = 0; l < lanes; l++) {
        if ((alive >> l & 1) && i < count[l]) moving |= 1 << l;
        h[l] = d.length / count[l];
        from[l] = (double)i / count[l];
        to[l] = (double)(i + 1) / count[l];
      }
      for (int j = 0; j < n; j++) {
        begin[j] = tau[j] + from * (last[j] - tau[j]);
        end[j] = tau[j] + to * (last[j] - tau[j]);
        const Lane turned = sign_of(v[j]);
        way[j] = (way[j] != 0.0) & (turned != 0.0) ? turned : way[j];
      }
      step(h, moving);
    }
  }

  // Steps that the sample takes, by lane: more where smooth friction is steep.
  void steps(long* count) {
    for (int l = 0; l < lanes; l++) count[l] = d.least;
    if (!d.watched) return;
    for (int i = 0; i < n; i++) {
      k_v[i] = 1e-3 + absolute(v[i]);
      side[i] = v[i] + k_v[i];
      fast[i] = v[i] - k_v[i];
    }
    eq.set(x, side);
    for (int i = 0; i < n; i++) bias[i] = eq.h[i];
    eq.set(x, fast);
    Lane wanted{};
    for (int i = 0; i < n; i++) {
      const Lane slope = greater(absolute(bias[i] - eq.h[i]) - 2.0 * high[i], Lane{}) / (2.0 * k_v[i]);
      wanted = greater(wanted, slope / eq.M[i * n + i]);
    }
    for (int l = 0; l < lanes; l++) {
      const double steps = wanted[l] * d.length;
      if (!(steps - steps == 0.0)) continue;
      const long whole = steps < d.most ? static_cast<long>(steps) + (steps > static_cast<double>(static_cast<long>(steps))) : d.most;
      if (whole > count[l]) count[l] = whole;
    }
  }

  // From event to event: at each, a joint has stopped and is set to slide on, turn round or stick.
  void step(Lane h, int moving) {
    Lane done{};
    for (int round = 0; round < d.events && moving; round++) {
      for (int j = 0; j < n; j++) fast[j] = begin[j] + done * (end[j] - begin[j]);
      decide(fast, moving);
      const Lane rest = 1.0 - done;
      runge_kutta(fast, end, rest * h);
      int stopping = 0, joint[lanes];
      Lane at = fill(1.0);
      for (int l = 0; l < lanes; l++) {
        joint[l] = -1;
        if (!(moving >> l & 1)) continue;
        double least = 2.0;
        for (int j = 0; j < n; j++) {
          if (!(way[j][l] * ahead_v[j][l] < 0.0)) continue;
          const double share = v[j][l] / (v[j][l] - ahead_v[j][l]);
          if (share < least) { least = share; joint[l] = j; }
        }
        if (joint[l] < 0) {
          arrive(l);
          moving &= ~(1 << l);
          continue;
        }
        stopping |= 1 << l;
        at[l] = least < d.shortest ? d.shortest : least > 1.0 ? 1.0 : least;
      }
      int refining = stopping;
      for (int i = 0; i <= d.refinements && refining; i++) {
        for (int j = 0; j < n; j++) tau_to[j] = fast[j] + at * (end[j] - fast[j]);
        runge_kutta(fast, tau_to, at * rest * h);
        for (int l = 0; l < lanes; l++) {
          if (!(refining >> l & 1)) continue;
          const int j = joint[l];
          const double change = ahead_v[j][l] - v[j][l], left = ahead_v[j][l];
          if (i == d.refinements || change == 0.0 || (left < d.beside && left > -d.beside)) {
            refining &= ~(1 << l);
            arrive(l);
            v[j][l] = way[j][l] = 0.0;
            done[l] += at[l] * rest[l];
            if (done[l] >= 1.0 - d.shortest) moving &= ~(1 << l);
            continue;
          }
          const double share = -at[l] * v[j][l] / change;
          at[l] = share < d.shortest ? d.shortest : share > 1.0 ? 1.0 : share;
        }
      }
    }
    if (!moving) return;
    for (int j = 0; j < n; j++) fast[j] = begin[j] + done * (end[j] - begin[j]);
    decide(fast, moving);
    runge_kutta(fast, end, (1.0 - done) * h);
    for (int l = 0; l < lanes; l++) if (moving >> l & 1) arrive(l);
  }

  void arrive(int l) {
    for (int j = 0; j < n; j++) {
      x[j][l] = ahead_x[j][l];
      v[j][l] = ahead_v[j][l];
    }
  }

  // Which resting joints break away, and where to: the friction between its limits that keeps the most at rest.
  void decide(const Lane* drive, int asked) {
    int resting = 0;
    for (int l = 0; l < lanes; l++)
      for (int j = 0; j < n; j++) if ((asked >> l & 1) && way[j][l] == 0.0) resting |= 1 << l;
    if (!resting) return;
    eq.set(x, v);
    for (int i = 0; i < n; i++) a[i] = drive[i] - eq.h[i];
    eq.factorise(0);
    for (int i = 0; i < n; i++) {
      for (int j = 0; j < n; j++) k_x[j] = fill(i == j ? 1.0 : 0.0);
      eq.substitute(k_x);
      for (int j = 0; j < n; j++) inverse[i * n + j] = k_x[j];
    }
    eq.substitute(a);
    for (int l = 0; l < lanes; l++) if (resting >> l & 1) settle(l);
  }

  void settle(int l) {
    int count = 0;
    for (int j = 0; j < n; j++) { force[j] = 0.0; gain[j] = a[j][l]; count += way[j][l] == 0.0; }
    for (int sweep = 0; sweep < (count > 1 ? d.sweeps : 1); sweep++) {
      double moved = 0.0, size = 1.0;
      for (int j = 0; j < n; j++) {
        if (way[j][l] != 0.0) continue;
        double wanted = force[j] + gain[j] / inverse[j * n + j][l];
        wanted = wanted < -high[j] ? -high[j] : wanted > high[j] ? high[j] : wanted;
        const double change = wanted - force[j];
        force[j] = wanted;
        for (int i = 0; i < n; i++) gain[i] -= inverse[j * n + i][l] * change;
        const double step = change < 0 ? -change : change, own = wanted < 0 ? -wanted : wanted;
        moved = step > moved ? step : moved;
        size = own > size ? own : size;
      }
      if (moved <= 1e-12 * size) break;
    }
    for (int j = 0; j < n; j++) {
      if (way[j][l] != 0.0) continue;
      if (high[j] == 0.0) way[j][l] = gain[j] >= 0.0 ? 1.0 : -1.0;
      else if (!(force[j] > -high[j] && force[j] < high[j])) way[j][l] = force[j] >= high[j] ? 1.0 : -1.0;
    }
  }

  // A sliding joint keeps its side of zero within a step, so that its friction does not jump between stages.
  void accelerate(const Lane* at, const Lane* speed, const Lane* drive) {
    for (int i = 0; i < n; i++) {
      side[i] = way[i] == 0.0 ? Lane{} : way[i] * greater(way[i] * speed[i], fill(d.beside));
      free[i] = way[i] == 0.0 ? Lane{} : fill(1.0);
    }
    eq.set(at, side);
    for (int k = 0; k < n; k++) {
      for (int p = s.below_first[k]; p < s.below_first[k + 1]; p++) eq.M[k * n + s.below[p]] *= free[k] * free[s.below[p]];
      eq.M[k * n + k] = free[k] == 0.0 ? fill(1.0) : eq.M[k * n + k];
      a[k] = free[k] == 0.0 ? Lane{} : drive[k] - eq.h[k];
    }
    eq.factorise(0);
    for (int k = 0; k < n; k++) eq.inverse[k] = eq.M[k * n + k] <= 0.0 ? fill(__builtin_nan("")) : eq.inverse[k];
    eq.substitute(a);
  }

  // (x, v) -> (ahead_x, ahead_v), h seconds further by lane, under torque that goes straight from one to the other.
  void runge_kutta(const Lane* from, const Lane* to, Lane h) {
    const double share[4] = {0.5, 0.5, 1.0, 0.0}, weight[4] = {1.0, 2.0, 2.0, 1.0}, time[4] = {0.0, 0.5, 0.5, 1.0};
    for (int i = 0; i < n; i++) { sum_x[i] = sum_v[i] = Lane{}; k_x[i] = x[i]; k_v[i] = v[i]; }
    for (int stage = 0; stage < 4; stage++) {
      for (int i = 0; i < n; i++) bias[i] = from[i] + time[stage] * (to[i] - from[i]);
      accelerate(k_x, k_v, bias);
      for (int i = 0; i < n; i++) {
        const Lane rate = k_v[i];
        sum_x[i] += rate * weight[stage];
        sum_v[i] += a[i] * weight[stage];
        k_x[i] = x[i] + rate * (h * share[stage]);
        k_v[i] = v[i] + a[i] * (h * share[stage]);
      }
    }
    for (int i = 0; i < n; i++) {
      ahead_x[i] = x[i] + sum_x[i] * (h / 6.0);
      ahead_v[i] = v[i] + sum_v[i] * (h / 6.0);
    }
  }
};

}  // namespace
