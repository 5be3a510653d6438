// The Python module, and regressors and dynamics of trees. The numeric code is in passes.cpp, one copy per instruction set.
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bodies.hpp"
#include "multibody.hpp"
#include "parts.hpp"

using namespace dynid_native;

namespace {

nb::tuple regressor(InInt parent, InInt kind, In axis, In rotation, In translation, In gravity, InInt mask, int quantity,
                    In q, In dq, In ddq, int threads) {
  const Robot robot(parent, kind, axis, rotation, translation, gravity, mask);
  const MotionIn motion = motion_of(q, dq, ddq, robot.view.n);
  std::vector<int> first;
  const bool energies = quantity >= dynid::kinetic_energy;
  const std::vector<int> order = robot.slots(first, energies);
  const long L = static_cast<long>(order.size()), T = motion.T;
  Buffer result = raw_buffer(static_cast<std::size_t>(L * T));
  {
    nb::gil_scoped_release free;
    const long shards = (T + shard_samples - 1) / shard_samples;
    over(shards, threads, [&](long shard) {
      const Buffer scratch = buffer(robot.scratch()), input = buffer(3u * robot.view.n * block_samples);
      const Buffer block = buffer(static_cast<std::size_t>(L) * block_samples);
      std::vector<double*> lines(10u * std::max(robot.pairs(), robot.view.n), nullptr);
      for (long l = 0; l < L; l++) lines[order[l]] = block.get() + l * block_samples;
      for (long start = shard * shard_samples; start < std::min(T, (shard + 1) * shard_samples); start += block_samples) {
        motion.block(start, input.get());
        const long count = std::min<long>(block_samples, T - start);
        line_table().regressor_block(robot.view, quantity, input.get(), static_cast<int>(count), lines.data(), scratch.get());
        for (long l = 0; l < L; l++)
          std::memcpy(result.get() + l * T + start, block.get() + l * block_samples, count * sizeof(double));
      }
    });
  }
  return nb::make_tuple(array(std::move(result), {static_cast<std::size_t>(L), static_cast<std::size_t>(T)}), first);
}

// tau (samples, joints) of bodies with ten parameters each (10 n), block by block.
Out torque(InInt parent, InInt kind, In axis, In rotation, In translation, In gravity, InInt mask, In pi, In q, In dq, In ddq,
           int threads) {
  const Robot robot(parent, kind, axis, rotation, translation, gravity, mask);
  const int n = robot.view.n;
  const MotionIn motion = motion_of(q, dq, ddq, n);
  if (pi.size() != 10u * n) throw nb::value_error("pi must hold ten numbers a body");
  const long T = motion.T;
  const std::vector<double> armature(n, 0.0);
  Buffer result = raw_buffer(static_cast<std::size_t>(T) * n);
  {
    nb::gil_scoped_release free;
    over((T + shard_samples - 1) / shard_samples, threads, [&](long shard) {
      const Buffer scratch = buffer(robot.scratch()), input = buffer(3u * n * block_samples);
      const Buffer lines = buffer(static_cast<std::size_t>(n) * block_samples);
      for (long start = shard * shard_samples; start < std::min(T, (shard + 1) * shard_samples); start += block_samples) {
        motion.block(start, input.get());
        const long count = std::min<long>(block_samples, T - start);
        table().inverse_block(robot.view, pi.data(), armature.data(), input.get(), static_cast<int>(count), lines.get(),
                              scratch.get());
        for (int i = 0; i < n; i++)
          for (long s = 0; s < count; s++) result[(start + s) * n + i] = lines[i * block_samples + s];
      }
    });
  }
  return array(std::move(result), {static_cast<std::size_t>(T), static_cast<std::size_t>(n)});
}

// Mass matrix (samples, joints, joints) and bias force (samples, joints) of bodies with ten parameters each.
nb::tuple dynamics(InInt parent, InInt kind, In axis, In rotation, In translation, In gravity, InInt mask, In pi, In q, In dq,
                   int threads) {
  const Robot robot(parent, kind, axis, rotation, translation, gravity, mask);
  const int n = robot.view.n;
  const MotionIn motion = motion_of(q, dq, dq, n);
  if (pi.size() != 10u * n) throw nb::value_error("pi must hold ten numbers a body");
  const long T = motion.T, L = static_cast<long>(n) * (n + 1);
  Buffer M = buffer(static_cast<std::size_t>(T) * n * n), h = buffer(static_cast<std::size_t>(T) * n);
  {
    nb::gil_scoped_release free;
    over((T + shard_samples - 1) / shard_samples, threads, [&](long shard) {
      const Buffer scratch = buffer(robot.scratch()), input = buffer(3u * n * block_samples);
      const Buffer block = buffer(static_cast<std::size_t>(L) * block_samples);
      for (long start = shard * shard_samples; start < std::min(T, (shard + 1) * shard_samples); start += block_samples) {
        motion.block(start, input.get());
        std::fill(input.get() + 2l * n * block_samples, input.get() + 3l * n * block_samples, 0.0);
        const long count = std::min<long>(block_samples, T - start);
        table().dynamics_block(robot.view, pi.data(), input.get(), static_cast<int>(count), block.get(), scratch.get());
        for (long s = 0; s < count; s++) {
          for (long k = 0; k < n * n; k++) M[(start + s) * n * n + k] = block[k * block_samples + s];
          for (long k = 0; k < n; k++) h[(start + s) * n + k] = block[(n * n + k) * block_samples + s];
        }
      }
    });
  }
  const std::size_t samples = static_cast<std::size_t>(T), joints = static_cast<std::size_t>(n);
  return nb::make_tuple(array(std::move(M), {samples, joints, joints}), array(std::move(h), {samples, joints}));
}

// x (samples, n) with M x = b for symmetric positive definite M (samples, n, n), by Cholesky; also whether all of them were.
nb::tuple solve(In M, In b) {
  if (M.ndim() != 3 || b.ndim() != 2 || M.shape(0) != b.shape(0) || M.shape(1) != M.shape(2) || M.shape(1) != b.shape(1))
    throw nb::value_error("M is (samples, n, n), b (samples, n)");
  const long T = static_cast<long>(b.shape(0)), n = static_cast<long>(b.shape(1));
  Buffer x = buffer(static_cast<std::size_t>(T) * n), L = buffer(static_cast<std::size_t>(n) * n);
  bool positive = true;
  {
    nb::gil_scoped_release free;
    for (long s = 0; s < T && positive; s++) {
      const double* A = M.data() + s * n * n;
      double* y = x.get() + s * n;
      for (long i = 0; i < n; i++) {
        for (long j = 0; j <= i; j++) {
          double v = A[i * n + j];
          for (long k = 0; k < j; k++) v -= L[i * n + k] * L[j * n + k];
          if (i > j) L[i * n + j] = v * L[j * n + j];
          else if (v > 0) L[i * n + i] = 1.0 / std::sqrt(v);
          else positive = false;
        }
        double v = b.data()[s * n + i];
        for (long k = 0; k < i; k++) v -= L[i * n + k] * y[k];
        y[i] = v * L[i * n + i];
      }
      for (long i = n - 1; i >= 0; i--) {
        double v = y[i];
        for (long k = i + 1; k < n; k++) v -= L[k * n + i] * y[k];
        y[i] = v * L[i * n + i];
      }
    }
  }
  return nb::make_tuple(array(std::move(x), {static_cast<std::size_t>(T), static_cast<std::size_t>(n)}), positive);
}

}  // namespace

NB_MODULE(_native, m) {
  m.def("instruction_set", [] { return std::string(line_table().name); });
  nb::class_<Bodies>(m, "Bodies")
      .def(nb::init<InInt, InInt, In, In, In, In, InInt, In, In>())
      .def("inverse_dynamics", &Bodies::inverse_dynamics)
      .def("forward_dynamics", &Bodies::forward_dynamics)
      .def("momentum", &Bodies::momentum)
      .def("placements", &Bodies::placements);
  nb::class_<Multibody>(m, "Multibody")
      .def(nb::init<InInt, InInt, In, In, In, In, InInt, In, In, In, In, In, In, In, In, InInt>())
      .def("rollout", &Multibody::rollout, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg(), nb::arg(), nb::arg())
      .def("adaptive", &Multibody::adaptive, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg(), nb::arg())
      .def("follow", &Multibody::follow)
      .def("stick", &Multibody::stick)
      .def("kalman", &Multibody::kalman)
      .def("variation", &Multibody::variation);
  m.def("variational", &variational);
  m.def("regressor", &regressor);
  m.def("torque", &torque);
  m.def("torque_lines", &torque_lines);
  m.def("torque_contraction", &torque_contraction);
  m.def("torque_jacobian", &torque_jacobian);
  m.def("dynamics", &dynamics);
  m.def("solve", &solve);
  m.def("fused", &fused);
  m.def("gathered_gram", &gathered_gram);
  m.def("qr_panel", &qr_panel);
  m.def("triangle_solve", &triangle_solve);
  m.def("zero_phase", &zero_phase);
  m.def("filtered", &filtered);
  m.def("line_ranges", &line_ranges);
  m.def("line_moments", &line_moments);
  m.def("line_unevenness", &line_unevenness);
  m.def("stop_operator", &stop_operator);
  m.def("release_memory", [] {
#if defined(__GLIBC__)
    nb::gil_scoped_release free;
    malloc_trim(0);
#endif
  });
}
