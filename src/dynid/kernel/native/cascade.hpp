// The zero-phase filter of eight interleaved lines: cascades forward and backward, and the samples that stay.
#pragma once
#include "arrays.hpp"

namespace dynid_native {

// settled: (sections, 2) state after a constant input of 1. Lines of T samples are continued by `pad` samples at both ends;
// start, start + step, ... of them stay.
struct ZeroPhase {
  const double *sos, *settled;
  int sections;
  long T, pad, start, step, kept;

  ZeroPhase(In cascade, In states, long samples, long pad_, long start_, long step_)
      : sos(cascade.data()), settled(states.data()), T(samples), pad(pad_), start(start_), step(step_) {
    if (cascade.ndim() != 2 || cascade.shape(1) != 6 || states.size() != 2 * cascade.shape(0) || cascade.shape(0) < 1 || cascade.shape(0) > 4)
      throw nb::value_error("sos (1 to 4, 6), settled (sections, 2)");
    if (pad < 0 || pad >= T || start < 0 || step < 1) throw nb::value_error("0 <= pad < samples, start >= 0, step >= 1");
    sections = static_cast<int>(cascade.shape(0));
    kept = start < T ? (T - start + step - 1) / step : 0;
  }

  long states() const { return 16L * sections; }

  void settle(const double* edge, double* state) const {
    for (int s = 0; s < sections; s++)
      for (int h = 0; h < 2; h++)
        for (long l = 0; l < 8; l++) state[16 * s + 8 * h + l] = settled[2 * s + h] * edge[l];
  }

  void run(double* mixed, long apart, long groups, long samples, double* state, bool reverse) const {
    line_table().cascade(mixed, apart, static_cast<int>(groups), samples, sos, sections, state, reverse);
  }

  // What stays of the continued samples a to b goes to `count` lines of the result.
  void thin(const double* mixed, long a, long b, long count, double* result) const {
    // Sample start + k step of a line stands at pad + start + k step.
    const long first = pad + start;
    const long k0 = a > first ? (a - first + step - 1) / step : 0;
    const long k1 = b > first ? std::min(kept, (b - first + step - 1) / step) : 0;
    for (long l = 0; l < count; l++)
      for (long k = k0; k < k1; k++) result[l * kept + k] = mixed[8 * (first + k * step - a) + l];
  }
};

}  // namespace dynid_native
