// The torque regressor and lines beside it through the zero-phase filter, none of its lines stored before that.
#include <nanobind/stl/vector.h>

#include "cascade.hpp"
#include "parts.hpp"

namespace dynid_native {

namespace {

// Samples of which a state of the cascades is kept. The regressor is written down twice and passed forward twice: lines of
// a whole log would have to be fetched from memory, and given memory first, which takes longer.
constexpr long tile = 4 * block_samples, apart = 8 * tile;
// Of lines in a block: a few more than they hold, or all of them would meet in a few places of the first-level cache.
constexpr long stride = block_samples + 8;

// Rows of lines: of the trees' joints one after the other [regressor lines, further lines].
struct Rows {
  const Robot& robot;
  const MotionIn& motion;
  std::vector<long> place;            // (10 pairs) row of each line of the regressor, -1 = none
  std::vector<const double*> further; // (rows) samples of a further line, null for the regressor's
  long pad;

  long count() const { return static_cast<long>(further.size()); }

  // Samples a to a + size of all lines, continued by odd reflection, `ends` (2, rows) being the lines' first and last samples.
  void write(long a, long size, const double* ends, double* block, double* input, double* scratch, double** lines) const {
    const long T = motion.T;
    long at[block_samples];
    for (long s = 0; s < size; s++) {
      const long i = a + s - pad;
      at[s] = i < 0 ? -i : i < T ? i : 2 * (T - 1) - i;
    }
    write(at, size, block, input, scratch, lines);
    const long head = std::min(std::max(pad - a, 0L), size), tail = std::min(std::max(pad + T - a, 0L), size);
    for (long r = 0; r < count(); r++) {
      double* line = block + r * stride;
      for (long s = 0; s < head; s++) line[s] = 2.0 * ends[r] - line[s];
      for (long s = tail; s < size; s++) line[s] = 2.0 * ends[count() + r] - line[s];
    }
  }

  void write(const long* at, long size, double* block, double* input, double* scratch, double** lines) const {
    motion.gather(at, size, input);
    for (std::size_t l = 0; l < place.size(); l++)
      lines[l] = block + (place[l] < 0 ? (count() + 7) / 8 * 8 : place[l]) * stride;
    line_table().regressor_block(robot.view, dynid::torque, input, static_cast<int>(size), lines, scratch);
    const bool straight = at[size - 1] - at[0] == size - 1;
    for (long r = 0; r < count(); r++) {
      if (!further[r]) continue;
      double* line = block + r * stride;
      if (straight) std::memcpy(line, further[r] + at[0], size * sizeof(double));
      else
        for (long s = 0; s < size; s++) line[s] = further[r][at[s]];
    }
  }
};

}  // namespace

// Per joint [Y further], of joints that are not wanted the further lines alone, through the filter and thinned as in
// `zero_phase`: (rows, kept) and the first row of each joint. further: by joint lines (any, samples).
nb::tuple filtered(InInt parent, InInt kind, In axis, In rotation, In translation, In gravity, InInt mask, InInt wanted, In q,
                   In dq, In ddq, const std::vector<In>& further, In sos, In settled, long pad, long start, long step) {
  const Robot robot(parent, kind, axis, rotation, translation, gravity, mask);
  const int n = robot.view.n;
  const MotionIn motion = motion_of(q, dq, ddq, n);
  const long T = motion.T, N = T + 2 * pad;
  const ZeroPhase filter(sos, settled, T, pad, start, step);
  if (static_cast<int>(wanted.size()) != n || static_cast<int>(further.size()) != n)
    throw nb::value_error("wanted joints, and further lines of each");
  for (const In& lines : further)
    if (lines.ndim() != 2 || static_cast<long>(lines.shape(1)) != T) throw nb::value_error("further lines are (any, samples)");
  Rows rows{robot, motion, std::vector<long>(10u * robot.pairs(), -1), {}, pad};
  std::vector<int> from, first{0};
  const std::vector<int> order = robot.slots(from, false);
  for (int i = 0; i < n; i++) {
    for (int l = from[i]; wanted.data()[i] && l < from[i + 1]; l++) {
      rows.place[order[l]] = rows.count();
      rows.further.push_back(nullptr);
    }
    for (std::size_t l = 0; l < further[i].shape(0); l++) rows.further.push_back(further[i].data() + l * T);
    first.push_back(static_cast<int>(rows.count()));
  }
  const long R = rows.count(), kept = filter.kept;
  Buffer result = raw_buffer(static_cast<std::size_t>(R * kept));
  if (R > 0) {
    nb::gil_scoped_release free;
    const long groups = (R + 7) / 8, tiles = (N + tile - 1) / tile, block = (8 * groups + 1) * stride, states = filter.states();
    const Buffer scratch = buffer(robot.scratch()), input = buffer(3u * n * block_samples), ends = buffer(2 * R);
    const Buffer blocks = buffer(tile / block_samples * block), mixed = raw_buffer(2 * apart), state = raw_buffer(2 * states);
    const Buffer forward = raw_buffer(tiles * groups * states), backward = raw_buffer(groups * states);
    std::vector<double*> lines(rows.place.size());
    const long edges[2] = {0, T - 1};
    rows.write(edges, 2, blocks.get(), input.get(), scratch.get(), lines.data());
    for (long r = 0; r < R; r++)
      for (long k = 0; k < 2; k++) ends[k * R + r] = blocks[r * stride + k];
    // A tile of all lines, and of each group of eight of them, two at a time, its forward pass.
    const auto passed = [&](long t, const auto& work) {
      const long from = t * tile, count = std::min(tile, N - from);
      for (long a = 0; a < count; a += block_samples)
        rows.write(from + a, std::min<long>(block_samples, count - a), ends.get(), blocks.get() + a / block_samples * block,
                   input.get(), scratch.get(), lines.data());
      for (long g = 0; g < groups; g += 2) {
        const long both = std::min<long>(2, groups - g);
        double* before = forward.get() + (t * groups + g) * states;
        for (long k = 0; k < both; k++) {
          double* to = mixed.get() + k * apart;
          for (long a = 0; a < count; a += block_samples)
            line_table().mix(blocks.get() + a / block_samples * block + 8 * (g + k) * stride, stride,
                             std::min<long>(block_samples, count - a), to + 8 * a);
          if (t == 0) filter.settle(to, before + k * states);
        }
        std::memcpy(state.get(), before, both * states * sizeof(double));
        filter.run(mixed.get(), apart, both, count, state.get(), false);
        work(g, both, count);
      }
    };
    for (long t = 0; t + 1 < tiles; t++)
      passed(t, [&](long g, long both, long) {
        std::memcpy(forward.get() + ((t + 1) * groups + g) * states, state.get(), both * states * sizeof(double));
      });
    for (long t = tiles - 1; t >= 0; t--)
      passed(t, [&](long g, long both, long count) {
        double* own = backward.get() + g * states;
        for (long k = 0; k < both && t == tiles - 1; k++)
          filter.settle(mixed.get() + k * apart + 8 * (count - 1), own + k * states);
        filter.run(mixed.get(), apart, both, count, own, true);
        for (long k = 0; k < both; k++)
          filter.thin(mixed.get() + k * apart, t * tile, t * tile + count, std::min<long>(8, R - 8 * (g + k)),
                      result.get() + 8 * (g + k) * kept);
      });
  }
  return nb::make_tuple(array(std::move(result), {static_cast<std::size_t>(R), static_cast<std::size_t>(kept)}), first);
}

}  // namespace dynid_native
