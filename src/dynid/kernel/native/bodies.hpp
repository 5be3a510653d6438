// A tree of bodies with known parameters, held between calls: dynamics and kinematics of many samples, or of one.
#pragma once
#include "motion.hpp"

namespace dynid_native {

// Motion goes in as (samples, joints), or (joints) of one, and results come out alike.
class Bodies {
 public:
  Bodies(InInt parent, InInt kind, In axis, In rotation, In translation, In gravity, InInt mask, In inertia, In armature);
  nb::object inverse_dynamics(nb::handle q, nb::handle dq, nb::handle ddq, int threads) const;
  nb::tuple forward_dynamics(nb::handle q, nb::handle dq, nb::handle tau, int threads) const;
  nb::tuple momentum(In q, In dq, int threads) const;
  Out placements(In q, int threads) const;

 private:
  Robot robot_;
  std::vector<double> inertia_, armature_;
};

}  // namespace dynid_native
