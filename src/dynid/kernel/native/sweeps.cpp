// Regressor lines where the caller wants them, and derivatives of torque by motion.
#include "parts.hpp"

namespace dynid_native {

namespace {

void check_slots(const Robot& robot, InInt slots, long rows) {
  if (static_cast<long>(slots.size()) != 10L * robot.pairs()) throw nb::value_error("slots must be (10 pairs)");
  for (std::size_t l = 0; l < slots.size(); l++)
    if (slots.data()[l] < -1 || slots.data()[l] >= rows) throw nb::value_error("slots must be rows, or -1");
}

std::size_t sweep_scratch(const Robot& robot) {
  return (robot.view.n * table().sweep_bytes_per_body + robot.pairs() * table().sweep_bytes_per_pair) / sizeof(double) + 8;
}

}  // namespace

// Writes line 10 pair + k of the torque regressor to row slots[10 pair + k] of lines (rows, samples), unless that is -1;
// other rows are left as they are.
void torque_lines(InInt parent, InInt kind, In axis, In rotation, In translation, In gravity, InInt mask, InInt slots, In q,
                  In dq, In ddq, InOut lines) {
  Robot robot(parent, kind, axis, rotation, translation, gravity, mask);
  const MotionIn motion = motion_of(q, dq, ddq, robot.view.n);
  const long T = motion.T, L = 10L * robot.pairs();
  if (lines.ndim() != 2 || static_cast<long>(lines.shape(1)) != T) throw nb::value_error("lines must be (rows, samples)");
  check_slots(robot, slots, static_cast<long>(lines.shape(0)));
  for (int j = 0; j < robot.view.n; j++) {
    robot.mask[j] = 0;
    for (long l = 10L * robot.pair_first[j]; l < 10L * robot.pair_first[j + 1]; l++)
      if (slots.data()[l] >= 0) robot.mask[j] |= 1u << l % 10;
  }
  double* const result = lines.data();
  nb::gil_scoped_release free;
  const Buffer scratch = buffer(robot.scratch()), input = buffer(3u * robot.view.n * block_samples);
  const Buffer block = buffer((static_cast<std::size_t>(L) + 1) * block_samples);
  std::vector<double*> places(L);
  for (long start = 0; start < T; start += block_samples) {
    const long count = std::min<long>(block_samples, T - start);
    // Whole lanes go straight to their rows; the rest would be written beyond their end.
    const bool straight = count % line_table().lanes == 0;
    for (long l = 0; l < L; l++) {
      const long row = slots.data()[l];
      places[l] = block.get() + (row < 0 ? L : l) * block_samples;
      if (straight && row >= 0) places[l] = result + row * T + start;
    }
    motion.block(start, input.get());
    line_table().regressor_block(robot.view, dynid::torque, input.get(), static_cast<int>(count), places.data(), scratch.get());
    for (long l = 0; l < (straight ? 0 : L); l++)
      if (slots.data()[l] >= 0)
        std::memcpy(result + slots.data()[l] * T + start, places[l], count * sizeof(double));
  }
}

// Derivatives (3, joints, samples) by motion of the weighted sum of the regressor's entries; line 10 pair + k has the
// weights in row slots[10 pair + k] of weights (rows, samples), or none where that is -1.
Out torque_contraction(InInt parent, InInt kind, In axis, In rotation, In translation, In gravity, InInt mask, InInt slots,
                       In weights, In q, In dq, In ddq) {
  const Robot robot(parent, kind, axis, rotation, translation, gravity, mask);
  const int n = robot.view.n;
  const MotionIn motion = motion_of(q, dq, ddq, n);
  const long T = motion.T, L = 10L * robot.pairs(), W = 3L * n;
  if (weights.ndim() != 2 || static_cast<long>(weights.shape(1)) != T) throw nb::value_error("weights must be (rows, samples)");
  check_slots(robot, slots, static_cast<long>(weights.shape(0)));
  Buffer result = raw_buffer(static_cast<std::size_t>(W * T));
  {
    nb::gil_scoped_release free;
    const Buffer scratch = buffer(sweep_scratch(robot)), input = buffer(3u * n * block_samples);
    const Buffer block = buffer(static_cast<std::size_t>(W) * block_samples), nothing = buffer(block_samples);
    Buffer tail;
    std::vector<const double*> places(L, nothing.get());
    for (long start = 0; start < T; start += block_samples) {
      const long count = std::min<long>(block_samples, T - start);
      // The last lanes are read from a copy where they would reach beyond the end of their row.
      const bool straight = count % dynid::lanes == 0;
      if (!straight) tail = buffer(static_cast<std::size_t>(L) * block_samples);
      for (long l = 0; l < L; l++) {
        if (slots.data()[l] < 0) continue;
        places[l] = weights.data() + slots.data()[l] * T + start;
        if (straight) continue;
        std::memcpy(tail.get() + l * block_samples, places[l], count * sizeof(double));
        places[l] = tail.get() + l * block_samples;
      }
      motion.block(start, input.get());
      table().contract_block(robot.view, places.data(), input.get(), static_cast<int>(count), block.get(), scratch.get());
      for (long l = 0; l < W; l++)
        std::memcpy(result.get() + l * T + start, block.get() + l * block_samples, count * sizeof(double));
    }
  }
  return array(std::move(result), {3, static_cast<std::size_t>(n), static_cast<std::size_t>(T)});
}

// Derivatives (3, joints, joints, samples) of torque by motion, motion before torque, for ten numbers a body.
Out torque_jacobian(InInt parent, InInt kind, In axis, In rotation, In translation, In gravity, InInt mask, In inertia, In q,
                    In dq, In ddq) {
  const Robot robot(parent, kind, axis, rotation, translation, gravity, mask);
  const int n = robot.view.n;
  const MotionIn motion = motion_of(q, dq, ddq, n);
  const long T = motion.T, W = 3L * n * n;
  if (inertia.size() != 10u * n) throw nb::value_error("inertia must hold ten numbers a body");
  Buffer result = raw_buffer(static_cast<std::size_t>(W * T));
  {
    nb::gil_scoped_release free;
    const Buffer scratch = buffer(sweep_scratch(robot)), input = buffer(3u * n * block_samples);
    const Buffer block = buffer(static_cast<std::size_t>(W) * block_samples);
    for (long start = 0; start < T; start += block_samples) {
      const long count = std::min<long>(block_samples, T - start);
      motion.block(start, input.get());
      table().jacobian_block(robot.view, inertia.data(), input.get(), static_cast<int>(count), block.get(), scratch.get());
      for (long l = 0; l < W; l++)
        std::memcpy(result.get() + l * T + start, block.get() + l * block_samples, count * sizeof(double));
    }
  }
  const std::size_t joints = static_cast<std::size_t>(n);
  return array(std::move(result), {3, joints, joints, static_cast<std::size_t>(T)});
}

}  // namespace dynid_native
