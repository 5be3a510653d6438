// Filters and ranges of lines of samples.
#include "cascade.hpp"
#include "parts.hpp"

namespace dynid_native {

namespace {

constexpr long piece = 256;

// Samples a..b of a line that is continued by odd reflection, every eighth place of `into`.
void interleave(const double* line, long T, long pad, long a, long b, double* into) {
  long i = a;
  for (; i < std::min(b, pad); i++) into[8 * i] = 2.0 * line[0] - line[pad - i];
  for (; i < std::min(b, pad + T); i++) into[8 * i] = line[i - pad];
  for (; i < b; i++) into[8 * i] = 2.0 * line[T - 1] - line[2 * (T - 1) - (i - pad)];
}

}  // namespace

// Zero-phase filter: every line (lines, samples) is continued by `pad` samples of odd reflection at both ends, run
// through the cascade forward and backward, and thinned to the samples start, start + step, ...
// settled: (sections, 2) state after a constant input of 1.
Out zero_phase(In x, In sos, In settled, long pad, long start, long step) {
  if (x.ndim() != 2) throw nb::value_error("x is (lines, samples)");
  const long L = static_cast<long>(x.shape(0)), T = static_cast<long>(x.shape(1)), N = T + 2 * pad;
  const ZeroPhase filter(sos, settled, T, pad, start, step);
  Buffer result = raw_buffer(static_cast<std::size_t>(L * filter.kept));
  {
    nb::gil_scoped_release free;
    const long apart = 8 * N, states = filter.states();
    const Buffer mixed = raw_buffer(static_cast<std::size_t>(2 * apart)), state = buffer(2 * states);
    for (long l0 = 0; l0 < L; l0 += 16) {
      const long count = std::min<long>(16, L - l0), groups = (count + 7) / 8;
      const auto place = [&](long l) { return mixed.get() + l / 8 * apart + l % 8; };
      const auto settle = [&](long i) {
        for (long g = 0; g < groups; g++) filter.settle(mixed.get() + g * apart + 8 * i, state.get() + g * states);
      };
      // Piece by piece, so that interleaving and thinning find in the first-level cache what the cascade works on.
      for (long a = 0; a < N; a += piece) {
        const long b = std::min(N, a + piece);
        for (long l = 0; l < count; l++) interleave(x.data() + (l0 + l) * T, T, pad, a, b, place(l));
        for (long l = count; l < 8 * groups; l++)
          for (long i = a; i < b; i++) place(l)[8 * i] = 0.0;
        if (a == 0) settle(0);
        filter.run(mixed.get() + 8 * a, apart, groups, b - a, state.get(), false);
      }
      settle(N - 1);
      for (long b = N; b > 0;) {
        const long a = (b - 1) / piece * piece;
        filter.run(mixed.get() + 8 * a, apart, groups, b - a, state.get(), true);
        for (long g = 0; g < groups; g++)
          filter.thin(mixed.get() + g * apart + 8 * a, a, b, std::min<long>(8, count - 8 * g), result.get() + (l0 + 8 * g) * filter.kept);
        b = a;
      }
    }
  }
  return array(std::move(result), {static_cast<std::size_t>(L), static_cast<std::size_t>(filter.kept)});
}

// State of an elastic element that slides at +-1 along a path, which begins in `state` at the position `before`.
Out stop_operator(In path, double before, double state) {
  if (path.ndim() != 1) throw nb::value_error("path is (samples,)");
  const std::size_t T = path.size();
  Buffer result = raw_buffer(T);
  for (std::size_t k = 0; k < T; k++) {
    const double x = path.data()[k];
    state += x - before;
    before = x;
    state = state > 1.0 ? 1.0 : state < -1.0 ? -1.0 : state;
    result[k] = state;
  }
  return array(std::move(result), {T});
}

// Samples first..first + count of every line (lines, samples), one after the other, for a function that makes `width`
// numbers of each.
template <class Look>
Out looked(In x, long first, long count, std::size_t width, const Look& look) {
  if (x.ndim() != 2 || first < 0 || count < 1 || first + count > static_cast<long>(x.shape(1)))
    throw nb::value_error("x is (lines, samples), and has the samples that are looked at");
  const std::size_t L = x.shape(0), T = x.shape(1);
  Buffer result = buffer(width * L);
  {
    nb::gil_scoped_release free;
    for (std::size_t l = 0; l < L; l++) look(x.data() + l * T + first, result.get() + width * l);
  }
  return array(std::move(result), {L, width});
}

// Least and greatest value of every line, nan where it holds one: (lines, 2).
Out line_ranges(In x, long first, long count) {
  return looked(x, first, count, 2, [&](const double* line, double* ends) { line_table().range(line, count, ends); });
}

// Sum of every line, of its squares and of the squares of its steps: (lines, 3).
Out line_moments(In x) {
  if (x.ndim() != 2) throw nb::value_error("x is (lines, samples)");
  const long T = static_cast<long>(x.shape(1));
  return looked(x, 0, T, 3, [&](const double* line, double* sums) { line_table().moments(line, T, sums); });
}

// Greatest unevenness of every line, and how many are below a share of it: (lines, 2).
Out line_unevenness(In x, long first, long count, double share) {
  if (count < 10) throw nb::value_error("at least ten samples");
  const Buffer sizes = raw_buffer(static_cast<std::size_t>(count - 9));
  return looked(x, first, count, 2, [&](const double* line, double* found) { line_table().unevenness(line, count, share, sizes.get(), found); });
}

}  // namespace dynid_native
