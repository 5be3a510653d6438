// Triangular factors and Gram matrices.
#include <numeric>

#include "parts.hpp"

namespace dynid_native {

namespace {

// Rows of a panel that are reduced at once, in whole vectors of any instruction set: as many as the first-level cache holds of
// a usual panel, since each column costs a root and quotients however few they are.
constexpr long tall = 128, whole = 8;

void reduce_rows(const double* R, int m, double* into, double* panel) {
  for (int start = 0; start < m; start += block_samples) {
    for (int j = 0; j < m; j++)
      for (int s = 0; s < block_samples; s++)
        panel[static_cast<long>(j) * block_samples + s] = start + s < m && start + s <= j ? R[static_cast<long>(start + s) * m + j] : 0.0;
    line_table().qr_block(panel, block_samples, m, into);
  }
}

// The first line that is not zero, and the sample, in ascending order; those that are zero throughout are left out. Stacked
// triangles come in steps then, of which `qr_block` leaves out the columns that are zero in all samples of a block.
std::vector<std::pair<int, long>> by_first_line(const double* panel, long stride, int m, long T) {
  std::vector<std::pair<int, long>> order;
  std::vector<long> open(T);
  std::iota(open.begin(), open.end(), 0L);
  order.reserve(T);
  for (int l = 0; l < m && !open.empty(); l++) {
    const double* line = panel + l * stride;
    const auto rest = std::stable_partition(open.begin(), open.end(), [&](long t) { return line[t] != 0.0; });
    for (auto t = open.begin(); t != rest; t++) order.emplace_back(l, *t);
    open.erase(open.begin(), rest);
  }
  return order;
}

void positive_diagonal(double* R, int m) {
  for (int k = 0; k < m; k++)
    if (std::signbit(R[static_cast<long>(k) * m + k]))
      for (int j = k; j < m; j++) R[static_cast<long>(k) * m + j] = -R[static_cast<long>(k) * m + j];
}

}  // namespace

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
        const long count = std::min<long>(block_samples, T - start);
        line_table().regressor_block(robot.view, dynid::torque, input.get(), static_cast<int>(count), lines.data(), scratch.get());
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
          if (method == 0) line_table().qr_block(panel, block_samples, width[i], square);
          else line_table().gram_block(panel, width[i], square);
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

// G (size, size) with weights[g] times the product of lines r and c added at (places[r], places[c]) for all r, c of group g,
// the rows ends[g] to ends[g + 1] of lines (rows, samples).
Out gathered_gram(In lines, InInt ends, InInt places, In weights, int size) {
  const long groups = static_cast<long>(weights.size()), R = static_cast<long>(places.size());
  if (lines.ndim() != 2 || static_cast<long>(lines.shape(0)) != R || static_cast<long>(ends.size()) != groups + 1)
    throw nb::value_error("lines are (rows, samples), places (rows), ends one more than weights");
  for (long g = 0; g <= groups; g++)
    if (ends.data()[g] > R || ends.data()[g] < (g ? ends.data()[g - 1] : 0)) throw nb::value_error("ends must ascend within the rows");
  for (long r = 0; r < R; r++)
    if (places.data()[r] < 0 || places.data()[r] >= size) throw nb::value_error("places must lie within the matrix");
  const long T = static_cast<long>(lines.shape(1));
  const std::size_t m = static_cast<std::size_t>(size);
  Buffer result = buffer(m * m);
  {
    nb::gil_scoped_release free;
    for (long g = 0; g < groups; g++) {
      const int first = ends.data()[g], width = ends.data()[g + 1] - first;
      const int* at = places.data() + first;
      const Buffer own = buffer(static_cast<std::size_t>(width) * width);
      line_table().gram_lines(lines.data() + first * T, T, T, width, own.get());
      for (int r = 0; r < width; r++)
        for (int c = r; c < width; c++) {
          const double x = weights.data()[g] * own[static_cast<std::size_t>(r) * width + c];
          result[at[r] * m + at[c]] += x;
          if (r != c) result[at[c] * m + at[r]] += x;
        }
    }
  }
  return array(std::move(result), {m, m});
}

// The X (n, k) with T X = b for the lower or the upper triangle T of a (n, n), or of its transpose.
Out triangle_solve(In a, In b, bool transposed, bool lower) {
  if (a.ndim() != 2 || a.shape(0) != a.shape(1) || b.ndim() < 1 || b.ndim() > 2 || b.shape(0) != a.shape(0))
    throw nb::value_error("a triangle is (n, n), its right side (n,) or (n, k)");
  const long n = static_cast<long>(a.shape(0)), k = b.ndim() == 2 ? static_cast<long>(b.shape(1)) : 1;
  std::vector<std::size_t> shape{b.shape(0)};
  if (b.ndim() == 2) shape.push_back(b.shape(1));
  Buffer x = raw_buffer(b.size());
  std::memcpy(x.get(), b.data(), b.size() * sizeof(double));
  line_table().triangle_solve(a.data(), transposed ? 1 : n, transposed ? n : 1, n, lower != transposed, x.get(), k);
  return array(std::move(x), std::move(shape));
}

// panel: (lines, samples), each line without gaps.
Out qr_panel(nb::ndarray<const double, nb::ndim<2>, nb::device::cpu> panel) {
  const int m = static_cast<int>(panel.shape(0));
  const long T = static_cast<long>(panel.shape(1)), stride = static_cast<long>(panel.stride(0));
  if (T > 1 && panel.stride(1) != 1) throw nb::value_error("a line of a panel has no gaps");
  Buffer R = buffer(static_cast<std::size_t>(m) * m);
  {
    nb::gil_scoped_release free;
    const bool full = m == 0 || std::find(panel.data(), panel.data() + T, 0.0) == panel.data() + T;
    std::vector<std::pair<int, long>> order;
    if (!full) order = by_first_line(panel.data(), stride, m, T);
    const long kept = full ? T : static_cast<long>(order.size());
    const Buffer block = raw_buffer(static_cast<std::size_t>(m) * tall);
    for (long start = 0; start < kept; start += tall) {
      const long count = std::min<long>(tall, kept - start), rows = (count + whole - 1) / whole * whole;
      for (int l = 0; l < m; l++) {
        double* line = block.get() + l * rows;
        const double* from = panel.data() + l * stride;
        const bool zero = !full && l < order[start].first;
        if (full) std::memcpy(line, from + start, count * sizeof(double));
        else if (!zero)
          for (long s = 0; s < count; s++) line[s] = from[order[start + s].second];
        std::fill(line + (zero ? 0 : count), line + rows, 0.0);
      }
      line_table().qr_block(block.get(), rows, m, R.get());
    }
    positive_diagonal(R.get(), m);
  }
  return array(std::move(R), {static_cast<std::size_t>(m), static_cast<std::size_t>(m)});
}

}  // namespace dynid_native
