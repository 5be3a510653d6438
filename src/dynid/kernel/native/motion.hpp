// A tree and its motion as the passes want them.
#pragma once
#include <cstdint>

#include "arrays.hpp"

namespace dynid_native {

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
    const std::size_t body = std::max(table().scratch_bytes_per_body, line_table().bytes_per_body);
    const std::size_t pair = std::max(table().scratch_bytes_per_pair, line_table().bytes_per_pair);
    return (view.n * body + pairs() * pair) / sizeof(double) + 8;
  }
};

struct MotionIn {
  const double *q, *dq, *ddq;
  long T;
  int n;
  // The samples at some places, zeros after them.
  void gather(const long* at, long count, double* into) const {
    for (int kind = 0; kind < 3; kind++) {
      const double* from = kind == 0 ? q : kind == 1 ? dq : ddq;
      for (int j = 0; j < n; j++) {
        double* line = into + (static_cast<long>(kind) * n + j) * block_samples;
        for (long s = 0; s < count; s++) line[s] = from[at[s] * n + j];
        for (long s = count; s < block_samples; s++) line[s] = 0.0;
      }
    }
  }
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

inline MotionIn motion_of(In q, In dq, In ddq, int n) {
  if (q.ndim() != 2 || static_cast<int>(q.shape(1)) != n || dq.size() != q.size() || ddq.size() != q.size())
    throw nb::value_error("q, dq, ddq must all be (samples, joints)");
  return {q.data(), dq.data(), ddq.data(), static_cast<long>(q.shape(0)), n};
}

}  // namespace dynid_native
