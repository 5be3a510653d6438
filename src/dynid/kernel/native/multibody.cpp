// Runs of multibody systems whose parameters are known.
#include "multibody.hpp"

#include <stdexcept>

namespace dynid_native {

namespace {

std::vector<double> copied(In from) { return {from.data(), from.data() + from.size()}; }

bool any(const double* values, std::size_t count) {
  return std::any_of(values, values + count, [](double x) { return x != 0.0; });
}

long groups(long runs) { return (runs + dynid::lanes - 1) / dynid::lanes; }

void expect(bool fits, const char* what) {
  if (!fits) throw nb::value_error(what);
}

// work(group, scratch, bytes) of every group with scratch memory of its own; throws where that was too little for one.
template <class Work>
void in_scratch(long items, int threads, std::size_t bytes, const Work& work) {
  std::atomic<bool> fits{true};
  over(items, threads, [&](long group) {
    const Buffer scratch = raw_buffer((bytes + sizeof(double) - 1) / sizeof(double));
    if (!work(group, scratch.get(), bytes)) fits = false;
  });
  if (!fits) throw std::logic_error("step_bytes (passes.cpp) counts less scratch memory than the steps take");
}

}  // namespace

Multibody::Multibody(InInt parent, InInt kind, In axis, In rotation, In translation, In gravity, InInt mask, In inertia, In projection,
                     In shift, In mass, In stiffness, In damping, In constant, In signs, InInt driven)
    : robot_(parent, kind, axis, rotation, translation, gravity, mask), inertia_(copied(inertia)), shift_(copied(shift)),
      mass_(copied(mass)), constant_(copied(constant)) {
  const std::size_t nb = static_cast<std::size_t>(robot_.view.n), s = constant_.size();
  expect(inertia_.size() == 10 * nb && shift_.size() == nb && projection.size() == nb * s && mass_.size() == s * s &&
             stiffness.size() == s * s && damping.size() == s * s && signs.size() % 3 == 0,
         "arrays of a multibody system that do not belong together");
  bool direct = nb <= s && !any(shift.data(), nb);
  for (std::size_t r = 0; r < nb; r++)
    for (std::size_t c = 0; c < s; c++) {
      const double value = projection.data()[r * s + c];
      direct &= value == (r == c ? 1.0 : 0.0);
      if (value == 0.0) continue;
      entry_row_.push_back(static_cast<int>(r));
      entry_column_.push_back(static_cast<int>(c));
      entry_value_.push_back(value);
    }
  related_.assign(nb * nb, 0);
  for (std::size_t j = 0; j < nb; j++)
    for (int pair = robot_.pair_first[j]; pair < robot_.pair_first[j + 1]; pair++) {
      const std::size_t i = static_cast<std::size_t>(robot_.pair_joint[pair]);
      related_[j * nb + i] = related_[i * nb + j] = 1;
    }
  std::vector<unsigned char> coupled(s * s, 0);
  for (std::size_t e = 0; e < entry_row_.size(); e++)
    for (std::size_t o = 0; o < entry_row_.size(); o++)
      if (related_[static_cast<std::size_t>(entry_row_[e]) * nb + static_cast<std::size_t>(entry_row_[o])])
        coupled[static_cast<std::size_t>(entry_column_[e]) * s + static_cast<std::size_t>(entry_column_[o])] = 1;
  for (std::size_t i = 0; i < s; i++)
    for (std::size_t j = 0; j < s; j++) {
      const double k = stiffness.data()[i * s + j], d = damping.data()[i * s + j];
      if (mass_[i * s + j] != 0.0) coupled[i * s + j] = coupled[j * s + i] = 1;
      if (k == 0.0 && d == 0.0) continue;
      coupled[i * s + j] = coupled[j * s + i] = 1;
      link_row_.push_back(static_cast<int>(i));
      link_column_.push_back(static_cast<int>(j));
      link_stiffness_.push_back(k);
      link_damping_.push_back(d);
    }
  for (std::size_t f = 0; f < signs.size(); f += 3) {
    const double* sign = signs.data() + f;
    expect(sign[0] >= 0 && sign[0] < static_cast<double>(s), "a sign at a coordinate that does not exist");
    sign_at_.push_back(static_cast<int>(sign[0]));
    sign_level_.push_back(sign[1]);
    sign_width_.push_back(sign[2]);
  }
  for (std::size_t j = 0; j < driven.size(); j++) {
    expect(driven.data()[j] >= 0 && driven.data()[j] < static_cast<int>(s), "a drive at a coordinate that does not exist");
    driven_.push_back(driven.data()[j]);
  }
  if (direct) entry_row_.clear();
  pattern(coupled);
  view_ = {robot_.view, inertia_.data(), static_cast<int>(s), static_cast<int>(entry_row_.size()), entry_row_.data(), entry_column_.data(),
           entry_value_.data(), shift_.data(), mass_.data(), constant_.data(), static_cast<int>(link_row_.size()), link_row_.data(),
           link_column_.data(), link_stiffness_.data(), link_damping_.data(), static_cast<int>(sign_at_.size()), sign_at_.data(),
           sign_level_.data(), sign_width_.data(), below_first_.data(), below_.data(), near_first_.data(), near_.data(), related_.data()};
}

// What M, the slopes and the factor M = L' D L hold: eliminating coordinate k couples all those that it is coupled with.
void Multibody::pattern(const std::vector<unsigned char>& coupled) {
  const int s = static_cast<int>(constant_.size());
  const auto at = [s](int i, int j) { return static_cast<std::size_t>(i) * static_cast<std::size_t>(s) + static_cast<std::size_t>(j); };
  std::vector<unsigned char> filled = coupled;
  for (int k = s - 1; k >= 0; k--)
    for (int i = 0; i < k; i++)
      for (int j = 0; j < i; j++)
        if (filled[at(k, i)] && filled[at(k, j)]) filled[at(i, j)] = filled[at(j, i)] = 1;
  below_first_.assign(1, 0);
  near_first_.assign(1, 0);
  for (int k = 0; k < s; k++) {
    for (int i = 0; i < s; i++) {
      if (i < k && filled[at(k, i)]) below_.push_back(i);
      if (i == k || coupled[at(k, i)]) near_.push_back(i);
    }
    below_first_.push_back(static_cast<int>(below_.size()));
    near_first_.push_back(static_cast<int>(near_.size()));
  }
}

Multibody::Parameters Multibody::parameters_of(In table) const {
  const std::size_t w = table.size() / 4, s = constant_.size();
  Parameters found{std::vector<int>(w), std::vector<int>(w), std::vector<int>(w), std::vector<double>(w)};
  for (std::size_t c = 0; c < w; c++) {
    const double* p = table.data() + 4 * c;
    const int kind = found.kind[c] = static_cast<int>(p[0]), first = found.first[c] = static_cast<int>(p[1]);
    const int second = found.second[c] = static_cast<int>(p[2]);
    found.width[c] = p[3];
    const int limit = kind == dynid::of_body ? robot_.view.n : static_cast<int>(s), other = kind == dynid::of_body ? 10 : static_cast<int>(s);
    expect(kind >= 0 && kind <= dynid::of_deflection_rate && first >= 0 && first < limit && second >= 0 && second < other,
           "parameters (w, 4): kind, first, second, width");
  }
  return found;
}

dynid::ControlView Multibody::control_of(In gains, In tables, long runs, long rows, const Multibody* weight) const {
  const std::size_t n = driven_.size();
  expect(gains.size() == 4 * n && tables.ndim() == 4 && tables.shape(0) == 4 && (tables.shape(1) == 1 || static_cast<long>(tables.shape(1)) == runs) &&
             static_cast<long>(tables.shape(2)) == rows && tables.shape(3) == n,
         "gains (4, drives), tables (4, runs or 1, rows, drives)");
  const long part = rows * static_cast<long>(n), each = static_cast<long>(tables.shape(1)) * part;
  const auto table_of = [&](long k) { return any(tables.data() + k * each, static_cast<std::size_t>(each)) ? tables.data() + k * each : nullptr; };
  const double* g = gains.data();
  const bool bounded = std::any_of(g + 2 * n, g + 3 * n, [](double x) { return std::isfinite(x); });
  return {static_cast<int>(n), driven_.data(), any(g, n) ? g : nullptr, any(g + n, n) ? g + n : nullptr, bounded ? g + 2 * n : nullptr,
          any(g + 3 * n, n) ? g + 3 * n : nullptr, table_of(0), table_of(1), table_of(2), table_of(3), tables.shape(1) == 1 ? 0 : part,
          weight ? &weight->view_ : nullptr};
}

dynid::ModelsView Multibody::models_of(In models, long runs) const {
  const std::size_t s = constant_.size(), width = inertia_.size() + 3 * s * s + s + 2 * sign_at_.size();
  expect(models.size() == 0 || models.size() == static_cast<std::size_t>(runs) * width, "models (runs, numbers of a model)");
  return {models.size() ? models.data() : nullptr, static_cast<long>(width)};
}

nb::tuple Multibody::adaptive(In start, In gains, In tables, const Multibody* weight, std::vector<long> numbers, In options, bool held, InOut share,
                              InOut tried, In models, int threads) const {
  const std::size_t s = constant_.size(), n = driven_.size();
  expect(start.ndim() == 2 && start.shape(1) == 2 * s && numbers.size() == 2 && numbers[0] >= 1 && numbers[1] >= 1 && options.size() == 5 &&
             share.size() == start.shape(0) && tried.size() == start.shape(0),
         "start (runs, 2 s), two numbers, five options, share and tried (runs)");
  const std::size_t B = start.shape(0), K = static_cast<std::size_t>(numbers[0]);
  const long runs = static_cast<long>(B), rows = held ? numbers[0] : 4 * numbers[1] * (numbers[0] - 1) + 1;
  const dynid::ControlView control = control_of(gains, tables, runs, rows, weight);
  const dynid::ModelsView numbers_of_runs = models_of(models, runs);
  Buffer states = buffer(B * K * 2 * s), inputs = buffer(B * K * n), failures = buffer(2 * static_cast<std::size_t>(groups(runs)));
  const double* o = options.data();
  const dynid::AdaptiveView run{runs, numbers[0], numbers[1], o[0], o[1], o[2], o[3], o[4], held, start.data(), share.data(), tried.data(),
                                states.get(), inputs.get(), failures.get()};
  {
    nb::gil_scoped_release free;
    in_scratch(groups(runs), threads, table().step_bytes(view_, control, 0, 0), [&](long group, void* scratch, std::size_t bytes) {
      return table().adaptive_group(view_, control, run, numbers_of_runs, group * dynid::lanes, scratch, bytes);
    });
  }
  return nb::make_tuple(array(std::move(states), {B, K, 2 * s}), array(std::move(inputs), {B, K, n}),
                        array(std::move(failures), {static_cast<std::size_t>(groups(runs)), 2}));
}

nb::tuple Multibody::rollout(In start, In gains, In tables, In history, const Multibody* weight, std::vector<long> numbers, In steps, bool held,
                             In parameters, bool first_state, In models, int threads) const {
  const std::size_t s = constant_.size(), n = driven_.size(), w = parameters.size() / 4;
  expect(start.ndim() == 2 && start.shape(1) == 2 * s && gains.size() == 4 * n && numbers.size() == 4 && steps.size() == 2,
         "start (runs, 2 s), gains (4, drives), four numbers, two steps");
  const long B = static_cast<long>(start.shape(0)), K = numbers[0];
  expect(K >= 1 && numbers[1] >= 0 && numbers[2] >= 0 && numbers[3] >= 0, "numbers of samples, steps and delays");
  const long waiting = (numbers[3] + 2) * static_cast<long>(n);
  expect(history.size() == 0 || static_cast<long>(history.size()) == B * waiting, "history (runs, delay + 2, drives)");
  const dynid::ControlView control = control_of(gains, tables, B, held ? K : 2 * numbers[1] * (K - 1) + 1, weight);
  const dynid::ModelsView numbers_of_runs = models_of(models, B);
  expect(!numbers_of_runs.numbers || (w == 0 && !first_state), "no sensitivities of runs with different models");
  const Parameters by = parameters_of(parameters);
  const long columns = static_cast<long>(w) + (first_state ? 2 * static_cast<long>(s) : 0);
  const std::size_t size = static_cast<std::size_t>(B * K), many = size * s * static_cast<std::size_t>(columns);
  Buffer states = buffer(size * 2 * s), inputs = buffer(size * n), dx = buffer(many), dv = buffer(many);
  Buffer failures = buffer(2 * static_cast<std::size_t>(groups(B)));
  const dynid::RolloutView run{B, K, numbers[1], numbers[2], numbers[3], steps.data()[0], steps.data()[1], held, start.data(),
                               history.size() ? history.data() : nullptr, states.get(), inputs.get(), failures.get()};
  const dynid::TangentView tangent{columns, static_cast<long>(w), numbers[3] + 1, by.kind.data(), by.first.data(), by.second.data(), by.width.data(),
                                   dx.get(), dv.get()};
  {
    nb::gil_scoped_release free;
    in_scratch(groups(B), threads, table().step_bytes(view_, control, numbers[3], columns), [&](long group, void* scratch, std::size_t bytes) {
      return table().rollout_group(view_, control, run, tangent, numbers_of_runs, group * dynid::lanes, scratch, bytes);
    });
  }
  const std::size_t runs = static_cast<std::size_t>(B), samples = static_cast<std::size_t>(K), c = static_cast<std::size_t>(columns);
  return nb::make_tuple(array(std::move(states), {runs, samples, 2 * s}), array(std::move(inputs), {runs, samples, n}),
                        array(std::move(failures), {static_cast<std::size_t>(groups(B)), 2}), array(std::move(dx), {runs, samples, s, c}),
                        array(std::move(dv), {runs, samples, s, c}));
}

nb::tuple Multibody::follow(In start, In gains, In tables, In far, In stiffness, In damping, std::vector<long> numbers, In options,
                            int threads) const {
  const std::size_t s = constant_.size(), n = driven_.size();
  expect(start.ndim() == 2 && start.shape(1) == 2 * s && gains.size() == 2 * n && numbers.size() == 2 && options.size() == 4 &&
             stiffness.size() == s * s && damping.size() == s * s,
         "start (runs, 2 s), gains (2, drives), two numbers, four options");
  const long B = static_cast<long>(start.shape(0)), K = numbers[0], rows = 2 * numbers[1] * (K - 1) + 1;
  const long each = B * rows * static_cast<long>(n);
  expect(static_cast<long>(tables.size()) == 3 * each && static_cast<long>(far.size()) == B * K * static_cast<long>(s), "tables (3, runs, rows, drives)");
  std::vector<int> row, column;
  std::vector<double> spring;
  for (std::size_t i = 0; i < s; i++)
    for (std::size_t j = 0; j < s; j++)
      if (const double k = stiffness.data()[i * s + j]; k != 0.0) {
        row.push_back(static_cast<int>(i));
        column.push_back(static_cast<int>(j));
        spring.push_back(k);
      }
  const std::size_t size = static_cast<std::size_t>(B * K);
  Buffer states = buffer(size * 2 * s), failures = buffer(2 * static_cast<std::size_t>(groups(B)));
  const double* o = options.data();
  const dynid::FollowView run{B, K, numbers[1], rows, static_cast<int>(n), static_cast<int>(spring.size()), driven_.data(), row.data(), column.data(),
                              o[0], o[1], o[2], o[3], gains.data(), gains.data() + n, tables.data(), tables.data() + each, tables.data() + 2 * each,
                              stiffness.data(), damping.data(), spring.data(), start.data(), far.data(), states.get(), failures.get()};
  const dynid::ControlView none{static_cast<int>(n), driven_.data(), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0, nullptr};
  {
    nb::gil_scoped_release free;
    in_scratch(groups(B), threads, table().step_bytes(view_, none, 0, 0), [&](long group, void* scratch, std::size_t bytes) {
      return table().follow_group(view_, run, group * dynid::lanes, scratch, bytes);
    });
  }
  return nb::make_tuple(array(std::move(states), {static_cast<std::size_t>(B), static_cast<std::size_t>(K), 2 * s}),
                        array(std::move(failures), {static_cast<std::size_t>(groups(B)), 2}));
}

nb::tuple Multibody::stick(In start, In u, std::vector<long> numbers, In options, bool constant, bool watched, int threads) const {
  const std::size_t s = constant_.size(), n = driven_.size();
  expect(start.ndim() == 2 && start.shape(1) == 2 * s && u.ndim() == 3 && u.shape(0) == start.shape(0) && u.shape(2) == n &&
             numbers.size() == 5 && options.size() == 4,
         "start (runs, 2 s), torque (runs, samples, drives), five numbers, four options");
  const std::size_t B = start.shape(0), K = u.shape(1);
  Buffer states = buffer(B * K * 3 * s), ended = buffer(B);
  std::fill(states.get(), states.get() + B * K * 3 * s, std::nan(""));
  std::fill(ended.get(), ended.get() + B, -1.0);
  const double* o = options.data();
  const dynid::StickView run{static_cast<long>(B), static_cast<long>(K), numbers[0], numbers[1], static_cast<int>(n), static_cast<int>(numbers[2]),
                             static_cast<int>(numbers[3]), static_cast<int>(numbers[4]), driven_.data(), constant, watched, o[0], o[1], o[2], o[3],
                             start.data(), u.data(), states.get(), ended.get()};
  const dynid::ControlView none{static_cast<int>(n), driven_.data(), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0, nullptr};
  {
    nb::gil_scoped_release free;
    in_scratch(groups(static_cast<long>(B)), threads, table().step_bytes(view_, none, 0, 0), [&](long group, void* scratch, std::size_t bytes) {
      return table().stick_group(view_, run, group * dynid::lanes, scratch, bytes);
    });
  }
  return nb::make_tuple(array(std::move(states), {B, K, 3 * s}), array(std::move(ended), {B}));
}

nb::tuple Multibody::kalman(InOut mean, InOut covariance, In u, In means, In x, In deviations, In parameters, double h, int passes) const {
  const std::size_t s = constant_.size(), n = driven_.size(), b = parameters.size() / 4, size = 2 * s + b;
  expect(u.ndim() == 3 && u.shape(2) == n && x.ndim() == 2 && x.shape(0) == u.shape(0) && x.shape(1) == s && u.shape(1) > 0 &&
             means.size() == dynid::lanes * u.shape(1),
         "torque (rows, k, drives), means (4, k) of it, positions (rows, s)");
  expect(mean.size() == size && covariance.size() == size * size && deviations.size() == size && entry_row_.empty(),
         "mean (2 s + parameters), covariance and deviations of the same size, coordinates that are the joints");
  const Parameters by = parameters_of(parameters);
  // The numbers that parameters add to; damping has a place for every coordinate.
  std::vector<double> inertia = inertia_, mass = mass_, constant = constant_, level = sign_level_, stiffness = link_stiffness_,
                      damping = link_damping_, known(b);
  std::vector<int> row = link_row_, column = link_column_;
  for (std::size_t i = 0; i < s; i++) {
    row.push_back(static_cast<int>(i));
    column.push_back(static_cast<int>(i));
  }
  stiffness.resize(row.size(), 0.0);
  damping.resize(row.size(), 0.0);
  std::vector<double*> target(b);
  for (std::size_t c = 0; c < b; c++) {
    const std::size_t first = static_cast<std::size_t>(by.first[c]);
    if (by.kind[c] == dynid::of_body) target[c] = &inertia[10 * first + static_cast<std::size_t>(by.second[c])];
    else if (by.kind[c] == dynid::of_acceleration) target[c] = &mass[first * s + first];
    else if (by.kind[c] == dynid::of_velocity) target[c] = &damping[link_row_.size() + first];
    else if (by.kind[c] == dynid::of_nothing) target[c] = &constant[first];
    else if (by.kind[c] == dynid::of_sign)
      for (std::size_t k = 0; k < sign_at_.size() && !target[c]; k++)
        if (sign_at_[k] == by.first[c] && sign_width_[k] == by.width[c]) target[c] = &level[k];
    expect(target[c] != nullptr, "parameters of bodies, accelerations, velocities, one, and signs that the system has");
    known[c] = *target[c];
  }
  dynid::SystemView view = view_;
  view.inertia = inertia.data();
  view.mass = mass.data();
  view.constant = constant.data();
  view.sign_level = level.data();
  view.links = static_cast<int>(row.size());
  view.link_row = row.data();
  view.link_column = column.data();
  view.link_stiffness = stiffness.data();
  view.link_damping = damping.data();
  const std::size_t rows = u.shape(0);
  Buffer innovation = buffer(rows);
  long done = 0;
  const double* d = deviations.data();
  const dynid::KalmanView run{static_cast<long>(rows), static_cast<long>(u.shape(1)), passes, static_cast<int>(n), h,
                              {static_cast<long>(b + 3 * s), static_cast<long>(b), 0, by.kind.data(), by.first.data(), by.second.data(), by.width.data(),
                               nullptr, nullptr},
                              target.data(), known.data(), driven_.data(), u.data(), means.data(), x.data(), d, d + s, d + 2 * s, mean.data(),
                              covariance.data(), innovation.get(), &done};
  {
    nb::gil_scoped_release free;
    in_scratch(1, 1, table().kalman_bytes(view, run),
               [&](long, void* scratch, std::size_t bytes) { return table().kalman_run(view, run, scratch, bytes); });
  }
  return nb::make_tuple(array(std::move(innovation), {rows}), done);
}

Out Multibody::variation(In x, In v, In a, In gains, In outputs, In parameters, double h, bool first_state, int threads) const {
  const std::size_t s = constant_.size(), n = driven_.size(), w = parameters.size() / 4, r = outputs.size() / 3;
  expect(x.ndim() == 3 && x.shape(2) == s && v.size() == x.size() && a.size() == x.size() && gains.size() == 2 * n && outputs.size() == 3 * r,
         "runs (runs, samples, s), gains (2, drives), outputs (3, outputs)");
  const Parameters by = parameters_of(parameters);
  std::vector<int> at(r);
  for (std::size_t k = 0; k < r; k++) {
    at[k] = static_cast<int>(outputs.data()[k]);
    expect(at[k] >= 0 && at[k] < static_cast<int>(s), "an output of a coordinate that does not exist");
  }
  const std::size_t B = x.shape(0), K = x.shape(1), c = w + (first_state ? 2 * s : 0);
  Buffer out = raw_buffer(B * K * r * c);
  const dynid::VariationView run{static_cast<long>(K), h, first_state,
                                 {static_cast<long>(w + 2 * s), static_cast<long>(w), 0, by.kind.data(), by.first.data(), by.second.data(),
                                  by.width.data(), nullptr, nullptr},
                                 static_cast<int>(n), static_cast<int>(r), driven_.data(), at.data(), gains.data(), gains.data() + n,
                                 outputs.data() + r, outputs.data() + 2 * r, x.data(), v.data(), a.data(), out.get()};
  {
    nb::gil_scoped_release free;
    in_scratch(static_cast<long>(B), threads, table().variation_bytes(view_, run), [&](long b, void* scratch, std::size_t bytes) {
      return table().variation_run(view_, run, b, scratch, bytes);
    });
  }
  return array(std::move(out), {B, K, r, c});
}

nb::tuple variational(In jacobian, In inputs, double h, bool first_state, int threads) {
  expect(jacobian.ndim() == 4 && inputs.ndim() == 4 && jacobian.shape(3) == 2 * jacobian.shape(2) && inputs.shape(0) == jacobian.shape(0) &&
             inputs.shape(1) == jacobian.shape(1) && inputs.shape(2) == jacobian.shape(2),
         "slopes (runs, samples, s, 2 s), inputs (runs, samples, s, w)");
  const long B = static_cast<long>(jacobian.shape(0)), K = static_cast<long>(jacobian.shape(1)), s = static_cast<long>(jacobian.shape(2));
  const long w = static_cast<long>(inputs.shape(3)), c = w + (first_state ? 2 * s : 0), m = 2 * s;
  const std::size_t size = static_cast<std::size_t>(B * K * s * c);
  Buffer X = raw_buffer(size), V = raw_buffer(size);
  {
    nb::gil_scoped_release free;
    over(B, threads, [&](long b) {
      const Buffer scratch = buffer(static_cast<std::size_t>(m * c + 3 * m * m));
      table().variational_run({K, s, w, c, h, jacobian.data() + b * K * s * m, inputs.data() + b * K * s * w, X.get() + b * K * s * c,
                               V.get() + b * K * s * c}, scratch.get());
    });
  }
  const std::vector<std::size_t> shape{static_cast<std::size_t>(B), static_cast<std::size_t>(K), static_cast<std::size_t>(s), static_cast<std::size_t>(c)};
  return nb::make_tuple(array(std::move(X), shape), array(std::move(V), shape));
}

}  // namespace dynid_native
