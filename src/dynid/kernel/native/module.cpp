// The Python module: arguments in, arrays out, threads. The numeric code is in passes.cpp, one copy per instruction set.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "tables.hpp"

namespace nb = nanobind;
using dynid::block_samples;

namespace {

using In = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using InInt = nb::ndarray<const std::int32_t, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<nb::numpy, double>;

constexpr long shard_samples = 16384;  // unit of work and of merging: results do not depend on the number of threads

const dynid::KernelTable& table() {
#if defined(DYNID_HAVE_AVX2)
  static const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (wide) return dynid::table_avx2;
#endif
  return dynid::table_baseline;
}

// Zeroed memory. Large pieces come from the system and go back to it at once: kept in the heaps of several threads,
// pieces of many sizes would add up to several times what is in use.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t count) : bytes_((std::max<std::size_t>(count, 8) * sizeof(double) + 63) / 64 * 64) {
    if (mapped()) {
      void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (p == MAP_FAILED) throw std::bad_alloc();
      data_ = static_cast<double*>(p);
    } else {
      void* p = std::aligned_alloc(64, bytes_);
      if (!p) throw std::bad_alloc();
      std::memset(p, 0, bytes_);
      data_ = static_cast<double*>(p);
    }
  }
  Buffer(Buffer&& other) noexcept : data_(other.data_), bytes_(other.bytes_) { other.data_ = nullptr; }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Buffer() {
    if (!data_) return;
    if (mapped()) munmap(data_, bytes_);
    else std::free(data_);
  }
  double* get() const { return data_; }
  double& operator[](std::size_t i) const { return data_[i]; }

 private:
  bool mapped() const { return bytes_ >= (16u << 20); }
  double* data_ = nullptr;
  std::size_t bytes_ = 0;
};

Buffer buffer(std::size_t count) { return Buffer(count); }

Out array(Buffer data, std::vector<std::size_t> shape) {
  auto* owner = new Buffer(std::move(data));
  return Out(owner->get(), shape.size(), shape.data(), nb::capsule(owner, [](void* p) noexcept { delete static_cast<Buffer*>(p); }));
}

template <class Work>
void over(long items, int threads, const Work& work) {
  if (threads <= 1 || items <= 1) {
    for (long i = 0; i < items; i++) work(i);
    return;
  }
  std::atomic<long> next{0};
  std::vector<std::thread> crew;
  for (int k = 0; k < std::min<long>(threads, items); k++)
    crew.emplace_back([&] { for (long i; (i = next.fetch_add(1)) < items;) work(i); });
  for (auto& one : crew) one.join();
}

// A tree with the arrays that back its view, and where each wanted line goes.
struct Robot {
  std::vector<int> parent, pair_first, pair_joint;
  std::vector<unsigned char> prismatic;
  std::vector<double> axis, rotation, translation, gravity;
  std::vector<std::uint32_t> mask;
  dynid::TreeView view{};

  Robot(InInt parents, InInt kinds, In axes, In rotations, In translations, In weight, InInt masks) {
    const int n = static_cast<int>(parents.size());
    if (kinds.size() != parents.size() || axes.size() != 3u * n || rotations.size() != 9u * n ||
        translations.size() != 3u * n || weight.size() != 3 || masks.size() != parents.size())
      throw nb::value_error("tree arrays disagree in length");
    parent.assign(parents.data(), parents.data() + n);
    for (int j = 0; j < n; j++) {
      if (parent[j] < -1 || parent[j] >= j) throw nb::value_error("parents must come before children");
      prismatic.push_back(kinds.data()[j] != 0);
      mask.push_back(static_cast<std::uint32_t>(masks.data()[j]));
    }
    axis.assign(axes.data(), axes.data() + 3 * n);
    rotation.assign(rotations.data(), rotations.data() + 9 * n);
    translation.assign(translations.data(), translations.data() + 3 * n);
    gravity.assign(weight.data(), weight.data() + 3);
    for (int j = 0; j < n; j++) {
      std::vector<int> path;
      for (int i = j; i >= 0; i = parent[i]) path.push_back(i);
      pair_first.push_back(static_cast<int>(pair_joint.size()));
      pair_joint.insert(pair_joint.end(), path.rbegin(), path.rend());
    }
    pair_first.push_back(static_cast<int>(pair_joint.size()));
    view = {n, parent.data(), prismatic.data(), axis.data(), rotation.data(), translation.data(), gravity.data(),
            pair_first.data(), pair_joint.data(), mask.data()};
  }

  int pairs() const { return pair_first.back(); }

  // Slots 10 pair + k in the order of output: joint by joint, for each the bodies it moves, ascending; `first` (n + 1).
  std::vector<int> slots(std::vector<int>& first, bool energies) const {
    std::vector<int> order;
    first.assign(1, 0);
    for (int i = 0; i < (energies ? 1 : view.n); i++) {
      for (int j = 0; j < view.n; j++)
        for (int pair = pair_first[j]; pair < pair_first[j + 1]; pair++)
          if (energies ? pair == pair_first[j] : pair_joint[pair] == i)
            for (int k = 0; k < 10; k++)
              if (mask[j] >> k & 1) order.push_back(energies ? 10 * j + k : 10 * pair + k);
      first.push_back(static_cast<int>(order.size()));
    }
    return order;
  }

  std::size_t scratch() const {
    return (view.n * table().scratch_bytes_per_body + pairs() * table().scratch_bytes_per_pair) / sizeof(double) + 8;
  }
};

struct MotionIn {
  const double *q, *dq, *ddq;
  long T;
  int n;
  void block(long start, double* into) const {
    const long count = std::min<long>(block_samples, T - start);
    for (int kind = 0; kind < 3; kind++) {
      const double* from = kind == 0 ? q : kind == 1 ? dq : ddq;
      for (int j = 0; j < n; j++) {
        double* line = into + (static_cast<long>(kind) * n + j) * block_samples;
        for (long s = 0; s < count; s++) line[s] = from[(start + s) * n + j];
        for (long s = count; s < block_samples; s++) line[s] = 0.0;
      }
    }
  }
};

MotionIn motion_of(In q, In dq, In ddq, int n) {
  if (q.ndim() != 2 || static_cast<int>(q.shape(1)) != n || dq.size() != q.size() || ddq.size() != q.size())
    throw nb::value_error("q, dq, ddq must all be (samples, joints)");
  return {q.data(), dq.data(), ddq.data(), static_cast<long>(q.shape(0)), n};
}

nb::tuple regressor(InInt parent, InInt kind, In axis, In rotation, In translation, In gravity, InInt mask, int quantity,
                    In q, In dq, In ddq, int threads) {
  const Robot robot(parent, kind, axis, rotation, translation, gravity, mask);
  const MotionIn motion = motion_of(q, dq, ddq, robot.view.n);
  std::vector<int> first;
  const bool energies = quantity >= dynid::kinetic_energy;
  const std::vector<int> order = robot.slots(first, energies);
  const long L = static_cast<long>(order.size()), T = motion.T;
  Buffer result = buffer(static_cast<std::size_t>(L * T));
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
        table().regressor_block(robot.view, quantity, input.get(), lines.data(), scratch.get());
        const long count = std::min<long>(block_samples, T - start);
        for (long l = 0; l < L; l++)
          std::memcpy(result.get() + l * T + start, block.get() + l * block_samples, count * sizeof(double));
      }
    });
  }
  return nb::make_tuple(array(std::move(result), {static_cast<std::size_t>(L), static_cast<std::size_t>(T)}), first);
}

// tau (samples, joints) = Y pi, block by block, the regressor never stored; coefficients (10 n) of all bodies.
Out torque(InInt parent, InInt kind, In axis, In rotation, In translation, In gravity, InInt mask, In pi, In q, In dq, In ddq,
           int threads) {
  const Robot robot(parent, kind, axis, rotation, translation, gravity, mask);
  const int n = robot.view.n;
  const MotionIn motion = motion_of(q, dq, ddq, n);
  if (pi.size() != 10u * n) throw nb::value_error("pi must hold ten numbers a body");
  std::vector<int> first;
  const std::vector<int> order = robot.slots(first, false);
  const long L = static_cast<long>(order.size()), T = motion.T;
  std::vector<double> weight(L);
  std::vector<int> body_of(robot.pairs());
  for (int j = 0; j < n; j++)
    for (int pair = robot.pair_first[j]; pair < robot.pair_first[j + 1]; pair++) body_of[pair] = j;
  for (long l = 0; l < L; l++) weight[l] = pi.data()[10 * body_of[order[l] / 10] + order[l] % 10];
  Buffer result = buffer(static_cast<std::size_t>(T) * n);
  {
    nb::gil_scoped_release free;
    over((T + shard_samples - 1) / shard_samples, threads, [&](long shard) {
      const Buffer scratch = buffer(robot.scratch()), input = buffer(3u * n * block_samples);
      const Buffer block = buffer(static_cast<std::size_t>(L) * block_samples), total = buffer(block_samples);
      std::vector<double*> lines(10u * robot.pairs(), nullptr);
      for (long l = 0; l < L; l++) lines[order[l]] = block.get() + l * block_samples;
      for (long start = shard * shard_samples; start < std::min(T, (shard + 1) * shard_samples); start += block_samples) {
        motion.block(start, input.get());
        table().regressor_block(robot.view, dynid::torque, input.get(), lines.data(), scratch.get());
        const long count = std::min<long>(block_samples, T - start);
        for (int i = 0; i < n; i++) {
          std::fill(total.get(), total.get() + block_samples, 0.0);
          for (long l = first[i]; l < first[i + 1]; l++) {
            const double* line = block.get() + l * block_samples;
            for (int s = 0; s < block_samples; s++) total[s] += weight[l] * line[s];
          }
          for (long s = 0; s < count; s++) result[(start + s) * n + i] = total[s];
        }
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

void reduce_rows(const double* R, int m, double* into, double* panel) {
  for (int start = 0; start < m; start += block_samples) {
    for (int j = 0; j < m; j++)
      for (int s = 0; s < block_samples; s++)
        panel[static_cast<long>(j) * block_samples + s] = start + s < m && start + s <= j ? R[static_cast<long>(start + s) * m + j] : 0.0;
    table().qr_block(panel, m, into);
  }
}

void positive_diagonal(double* R, int m) {
  for (int k = 0; k < m; k++)
    if (std::signbit(R[static_cast<long>(k) * m + k]))
      for (int j = k; j < m; j++) R[static_cast<long>(k) * m + j] = -R[static_cast<long>(k) * m + j];
}

// Per joint [Y_tree Y_extra tau] -> its triangular factor (method 0) or Gram matrix (method 1), regressor never stored.
nb::list fused(InInt parent, InInt kind, In axis, In rotation, In translation, In gravity, InInt mask, In q, In dq, In ddq,
               In extra, InInt extra_joint, In tau, int method, int threads) {
  const Robot robot(parent, kind, axis, rotation, translation, gravity, mask);
  const int n = robot.view.n;
  const MotionIn motion = motion_of(q, dq, ddq, n);
  const long T = motion.T, E = static_cast<long>(extra_joint.size());
  if (tau.size() != static_cast<std::size_t>(T * n) || extra.size() != static_cast<std::size_t>(E * T))
    throw nb::value_error("tau must be (samples, joints), extra (lines, samples)");
  std::vector<int> first;
  const std::vector<int> order = robot.slots(first, false);
  std::vector<std::vector<long>> more(n);
  for (long e = 0; e < E; e++) {
    if (extra_joint.data()[e] < 0 || extra_joint.data()[e] >= n) throw nb::value_error("extra line of an unknown joint");
    more[extra_joint.data()[e]].push_back(e);
  }
  std::vector<int> width(n);
  std::vector<std::size_t> panel_at(n + 1, 0), square_at(n + 1, 0);
  int widest = 1;
  for (int i = 0; i < n; i++) {
    width[i] = first[i + 1] - first[i] + static_cast<int>(more[i].size()) + 1;
    widest = std::max(widest, width[i]);
    panel_at[i + 1] = panel_at[i] + static_cast<std::size_t>(width[i]) * block_samples;
    square_at[i + 1] = square_at[i] + static_cast<std::size_t>(width[i]) * width[i];
  }
  const long shards = std::max<long>(1, (T + shard_samples - 1) / shard_samples);
  std::vector<Buffer> partial(shards);
  {
    nb::gil_scoped_release free;
    over(shards, threads, [&](long shard) {
      Buffer squares = buffer(square_at[n]);
      const Buffer scratch = buffer(robot.scratch()), input = buffer(3u * n * block_samples), panels = buffer(panel_at[n]);
      std::vector<double*> lines(10u * robot.pairs(), nullptr);
      for (int i = 0; i < n; i++)
        for (int l = first[i]; l < first[i + 1]; l++)
          lines[order[l]] = panels.get() + panel_at[i] + static_cast<std::size_t>(l - first[i]) * block_samples;
      for (long start = shard * shard_samples; start < std::min(T, (shard + 1) * shard_samples); start += block_samples) {
        motion.block(start, input.get());
        table().regressor_block(robot.view, dynid::torque, input.get(), lines.data(), scratch.get());
        const long count = std::min<long>(block_samples, T - start);
        for (int i = 0; i < n; i++) {
          double* panel = panels.get() + panel_at[i];
          const int tree_lines = first[i + 1] - first[i];
          if (count < block_samples)
            for (int l = 0; l < tree_lines; l++)
              std::fill(panel + static_cast<long>(l) * block_samples + count, panel + static_cast<long>(l + 1) * block_samples, 0.0);
          double* line = panel + static_cast<long>(tree_lines) * block_samples;
          for (const long e : more[i]) {
            std::memcpy(line, extra.data() + e * T + start, count * sizeof(double));
            std::fill(line + count, line + block_samples, 0.0);
            line += block_samples;
          }
          for (long s = 0; s < count; s++) line[s] = tau.data()[(start + s) * n + i];
          std::fill(line + count, line + block_samples, 0.0);
          double* square = squares.get() + square_at[i];
          if (method == 0) table().qr_block(panel, width[i], square);
          else table().gram_block(panel, width[i], square);
        }
      }
      partial[shard] = std::move(squares);
    });
    const std::size_t widest_panel = static_cast<std::size_t>(widest) * block_samples;
    for (long stride = 1; stride < shards; stride *= 2) {
      const long merges = (shards - stride + 2 * stride - 1) / (2 * stride);
      over(merges, threads, [&](long k) {
        double* into = partial[2 * stride * k].get();
        const double* from = partial[2 * stride * k + stride].get();
        if (method == 1) {
          for (std::size_t s = 0; s < square_at[n]; s++) into[s] += from[s];
          return;
        }
        const Buffer panel = buffer(widest_panel);
        for (int i = 0; i < n; i++) reduce_rows(from + square_at[i], width[i], into + square_at[i], panel.get());
      });
    }
  }
  nb::list result;
  for (int i = 0; i < n; i++) {
    const std::size_t m = width[i];
    Buffer one = buffer(m * m);
    std::memcpy(one.get(), partial[0].get() + square_at[i], m * m * sizeof(double));
    if (method == 0) positive_diagonal(one.get(), width[i]);
    else
      for (std::size_t r = 0; r < m; r++) for (std::size_t c = 0; c < r; c++) one[r * m + c] = one[c * m + r];
    result.append(array(std::move(one), {m, m}));
  }
  return result;
}

Out qr_panel(In panel) {
  if (panel.ndim() != 2) throw nb::value_error("a panel is (lines, samples)");
  const int m = static_cast<int>(panel.shape(0));
  const long T = static_cast<long>(panel.shape(1));
  Buffer R = buffer(static_cast<std::size_t>(m) * m);
  {
    nb::gil_scoped_release free;
    const Buffer block = buffer(static_cast<std::size_t>(m) * block_samples);
    for (long start = 0; start < T; start += block_samples) {
      const long count = std::min<long>(block_samples, T - start);
      for (int l = 0; l < m; l++) {
        double* line = block.get() + static_cast<long>(l) * block_samples;
        std::memcpy(line, panel.data() + l * T + start, count * sizeof(double));
        std::fill(line + count, line + block_samples, 0.0);
      }
      table().qr_block(block.get(), m, R.get());
    }
    positive_diagonal(R.get(), m);
  }
  return array(std::move(R), {static_cast<std::size_t>(m), static_cast<std::size_t>(m)});
}

// Zero-phase filter: every line (lines, samples) is continued by `pad` samples of odd reflection at both ends, run
// through the cascade forward and backward, and thinned to the samples start, start + step, ...
// settled: (sections, 2) state after a constant input of 1.
Out zero_phase(In x, In sos, In settled, long pad, long start, long step) {
  if (x.ndim() != 2 || sos.ndim() != 2 || sos.shape(1) != 6 || settled.size() != 2 * sos.shape(0) || sos.shape(0) > 4)
    throw nb::value_error("x is (lines, samples), sos (1 to 4, 6), settled (sections, 2)");
  const long L = static_cast<long>(x.shape(0)), T = static_cast<long>(x.shape(1));
  const int sections = static_cast<int>(sos.shape(0));
  if (pad < 0 || pad >= T || start < 0 || step < 1) throw nb::value_error("0 <= pad < samples, start >= 0, step >= 1");
  const long kept = start < T ? (T - start + step - 1) / step : 0, N = T + 2 * pad;
  Buffer result = buffer(static_cast<std::size_t>(L * kept));
  {
    nb::gil_scoped_release free;
    const Buffer mixed = buffer(static_cast<std::size_t>(8 * N)), state = buffer(16u * sections);
    for (long l0 = 0; l0 < L; l0 += 8) {
      const long count = std::min<long>(8, L - l0);
      for (long first = 0; first < T; first += 64)
        for (long l = 0; l < count; l++) {
          const double* line = x.data() + (l0 + l) * T;
          for (long i = first; i < std::min(T, first + 64); i++) mixed[8 * (pad + i) + l] = line[i];
        }
      for (long i = 1; i <= pad; i++)
        for (long l = 0; l < 8; l++) {
          mixed[8 * (pad - i) + l] = 2.0 * mixed[8 * pad + l] - mixed[8 * (pad + i) + l];
          mixed[8 * (pad + T - 1 + i) + l] = 2.0 * mixed[8 * (pad + T - 1) + l] - mixed[8 * (pad + T - 1 - i) + l];
        }
      for (int reverse = 0; reverse < 2; reverse++) {
        const double* edge = mixed.get() + (reverse ? 8 * (N - 1) : 0);
        for (int s = 0; s < sections; s++)
          for (int h = 0; h < 2; h++)
            for (long l = 0; l < 8; l++) state[16 * s + 8 * h + l] = settled.data()[2 * s + h] * edge[l];
        table().cascade(mixed.get(), N, sos.data(), sections, state.get(), reverse);
      }
      for (long k0 = 0; k0 < kept; k0 += 64)
        for (long l = 0; l < count; l++)
          for (long k = k0; k < std::min(kept, k0 + 64); k++)
            result[(l0 + l) * kept + k] = mixed[8 * (pad + start + k * step) + l];
    }
  }
  return array(std::move(result), {static_cast<std::size_t>(L), static_cast<std::size_t>(kept)});
}

}  // namespace

NB_MODULE(_native, m) {
  m.def("instruction_set", [] { return std::string(table().name); });
  m.def("regressor", &regressor);
  m.def("torque", &torque);
  m.def("dynamics", &dynamics);
  m.def("solve", &solve);
  m.def("fused", &fused);
  m.def("qr_panel", &qr_panel);
  m.def("zero_phase", &zero_phase);
}
