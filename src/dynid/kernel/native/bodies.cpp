// Dynamics of bodies whose parameters are known.
#include "bodies.hpp"

namespace dynid_native {

namespace {

// A few samples do not pay for whole blocks of zeros: lines are filled up to whole lanes.
void gathered(const double* from, long start, long count, int n, double* into) {
  const long whole = (count + dynid::lanes - 1) / dynid::lanes * dynid::lanes;
  for (int j = 0; j < n; j++) {
    double* line = into + static_cast<long>(j) * block_samples;
    for (long s = 0; s < count; s++) line[s] = from[(start + s) * n + j];
    for (long s = count; s < whole; s++) line[s] = 0.0;
  }
}

void scattered(const double* lines, long start, long count, long width, double* into) {
  for (long s = 0; s < count; s++)
    for (long k = 0; k < width; k++) into[(start + s) * width + k] = lines[k * block_samples + s];
}

// States (samples, joints), or (joints) of one: as many samples as they are, and the shape of what has one value a joint.
struct States {
  long T;
  std::vector<std::size_t> shape;
  template <class Array>
  States(const Robot& robot, const Array& q, const Array& second, const Array& third) {
    const std::size_t n = static_cast<std::size_t>(robot.view.n), axes = q.ndim();
    for (const Array* one : {&q, &second, &third}) {
      bool fits = one->ndim() == axes && (axes == 1 || axes == 2) && one->shape(axes - 1) == n;
      if (fits && axes == 2) fits = one->shape(0) == q.shape(0);
      if (!fits) throw nb::value_error("motion is (samples, joints) or (joints), all of it alike");
    }
    T = axes == 1 ? 1 : static_cast<long>(q.shape(0));
    for (std::size_t k = 0; k < axes; k++) shape.push_back(q.shape(k));
  }
  std::vector<std::size_t> with(std::initializer_list<std::size_t> more) const {
    std::vector<std::size_t> all(shape.begin(), shape.end() - 1);
    all.insert(all.end(), more);
    return all;
  }
};

// Work on blocks of samples: (start, count, input lines (4, n), output lines, scratch of the passes).
template <class Work>
void by_blocks(const Robot& robot, long T, int threads, std::size_t lines, const Work& work) {
  nb::gil_scoped_release free;
  over((T + shard_samples - 1) / shard_samples, threads, [&](long shard) {
    const std::size_t inputs = 4 * static_cast<std::size_t>(robot.view.n) * block_samples, outputs = lines * block_samples;
    // Kept by the thread: a control loop calls again and again, and memory would be a tenth of each call.
    static thread_local Buffer kept;
    static thread_local std::size_t size = 0;
    if (const std::size_t needed = inputs + outputs + robot.scratch(); size < needed) {
      kept = raw_buffer(needed);
      size = needed;
    }
    double *input = kept.get(), *out = input + inputs, *scratch = out + outputs;
    for (long start = shard * shard_samples; start < std::min(T, (shard + 1) * shard_samples); start += block_samples)
      work(start, std::min<long>(block_samples, T - start), input, out, scratch);
  });
}

}  // namespace

Bodies::Bodies(InInt parent, InInt kind, In axis, In rotation, In translation, In gravity, InInt mask, In inertia, In armature)
    : robot_(parent, kind, axis, rotation, translation, gravity, mask) {
  const std::size_t n = static_cast<std::size_t>(robot_.view.n);
  if (inertia.size() != 10 * n || armature.size() != n) throw nb::value_error("ten parameters and a rotor a body");
  inertia_.assign(inertia.data(), inertia.data() + 10 * n);
  armature_.assign(armature.data(), armature.data() + n);
}

nb::object Bodies::inverse_dynamics(nb::handle positions, nb::handle velocities, nb::handle accelerations, int threads) const {
  const int n = robot_.view.n;
  const Doubles q(positions), dq(velocities), ddq(accelerations);
  const States states(robot_, q, dq, ddq);
  nb::object made = empty_array(states.shape);
  const Doubles result(made, true);
  const long part = static_cast<long>(n) * block_samples;
  by_blocks(robot_, states.T, threads, n, [&](long start, long count, double* input, double* out, double* scratch) {
    gathered(q.data(), start, count, n, input);
    gathered(dq.data(), start, count, n, input + part);
    gathered(ddq.data(), start, count, n, input + 2 * part);
    table().inverse_block(robot_.view, inertia_.data(), armature_.data(), input, static_cast<int>(count), out, scratch);
    scattered(out, start, count, n, result.data());
  });
  return made;
}

nb::tuple Bodies::forward_dynamics(nb::handle positions, nb::handle velocities, nb::handle torques, int threads) const {
  const int n = robot_.view.n;
  const Doubles q(positions), dq(velocities), tau(torques);
  const States states(robot_, q, dq, tau);
  nb::object made = empty_array(states.shape);
  const Doubles result(made, true);
  const long part = static_cast<long>(n) * block_samples, lines = static_cast<long>(n) * (n + 1);
  std::atomic<bool> positive{true};
  by_blocks(robot_, states.T, threads, n, [&](long start, long count, double* input, double* out, double* scratch) {
    const Buffer work = buffer(static_cast<std::size_t>(lines) * block_samples);
    gathered(q.data(), start, count, n, input);
    gathered(dq.data(), start, count, n, input + part);
    std::fill(input + 2 * part, input + 3 * part, 0.0);
    gathered(tau.data(), start, count, n, input + 3 * part);
    if (!table().forward_block(robot_.view, inertia_.data(), armature_.data(), input, static_cast<int>(count), out, work.get(), scratch))
      positive = false;
    scattered(out, start, count, n, result.data());
  });
  return nb::make_tuple(made, positive.load());
}

nb::tuple Bodies::momentum(In q, In dq, int threads) const {
  const int n = robot_.view.n;
  const States states(robot_, q, dq, dq);
  const std::size_t size = static_cast<std::size_t>(states.T) * n;
  Buffer momentum = raw_buffer(size), rest = raw_buffer(size);
  const long part = static_cast<long>(n) * block_samples;
  by_blocks(robot_, states.T, threads, 2u * n, [&](long start, long count, double* input, double* out, double* scratch) {
    gathered(q.data(), start, count, n, input);
    gathered(dq.data(), start, count, n, input + part);
    table().momentum_block(robot_.view, inertia_.data(), armature_.data(), input, static_cast<int>(count), out, scratch);
    scattered(out, start, count, n, momentum.get());
    scattered(out + part, start, count, n, rest.get());
  });
  return nb::make_tuple(array(std::move(momentum), states.shape), array(std::move(rest), states.shape));
}

Out Bodies::placements(In q, int threads) const {
  const int n = robot_.view.n;
  const States states(robot_, q, q, q);
  const long width = 12L * n, part = static_cast<long>(n) * block_samples;
  Buffer result = raw_buffer(static_cast<std::size_t>(states.T * width));
  by_blocks(robot_, states.T, threads, static_cast<std::size_t>(width), [&](long start, long count, double* input, double* out, double* scratch) {
    gathered(q.data(), start, count, n, input);
    std::fill(input + part, input + 2 * part, 0.0);
    table().placement_block(robot_.view, input, static_cast<int>(count), out, scratch);
    scattered(out, start, count, width, result.get());
  });
  return array(std::move(result), states.with({static_cast<std::size_t>(n), 3, 4}));
}

}  // namespace dynid_native
