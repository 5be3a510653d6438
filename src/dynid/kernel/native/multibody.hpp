// A multibody system with known parameters, held between calls: runs of it, one a lane, groups of lanes on several threads.
#pragma once
#include "motion.hpp"

namespace dynid_native {

// Copies of the arrays behind a view, the system's own pattern among them.
class Multibody {
 public:
  // projection (nb, s) and shift (nb): the tree's positions.    signs (f, 3): coordinate, level, width.
  Multibody(InInt parent, InInt kind, In axis, In rotation, In translation, In gravity, InInt mask, In inertia, In projection, In shift,
            In mass, In stiffness, In damping, In constant, In signs, InInt driven);
  Multibody(const Multibody&) = delete;

  // gains (4, drives): kp, kd, limit, dead band.    tables (4, runs or 1, rows, drives): q, v, u, bend.
  // numbers: samples, count, early, delay.    steps: of `count`, of `early`.    parameters (w, 4): kind, first, second, width.
  // Returns states (runs, samples, 2 s), inputs, failures, dx, dv; the last two are empty without parameters and first state.
  nb::tuple rollout(In start, In gains, In tables, In history, const Multibody* weight, std::vector<long> numbers, In steps, bool held,
                    In parameters, bool first_state, In models, int threads) const;
  // The same with linearly implicit steps, see kernel/rosenbrock.py. numbers: samples, intervals a sample.    options: length of an interval,
  // tolerances of positions and velocities, shortest share, most steps.    share, tried (runs): moved on.    models: (runs, numbers of a model) or empty.
  // Returns states, inputs and failures.
  nb::tuple adaptive(In start, In gains, In tables, const Multibody* weight, std::vector<long> numbers, In options, bool held, InOut share,
                     InOut tried, In models, int threads) const;
  nb::tuple follow(In start, In gains, In tables, In far, In stiffness, In damping, std::vector<long> numbers, In options, int threads) const;
  nb::tuple stick(In start, In u, std::vector<long> numbers, In options, bool constant, bool watched, int threads) const;
  // Steps of the extended Kalman filter, one a row of x (rows, s), under torques (rows, k, drives), means (4, k) of them at a
  // step's nodes, see estimate/kalman.py. mean and covariance are moved on. deviations: of force, position and drift.
  // Returns the squared innovations (rows) and how many steps were taken; the one after them has no positive mass matrix.
  nb::tuple kalman(InOut mean, InOut covariance, In u, In means, In x, In deviations, In parameters, double h, int passes) const;
  // Slopes (runs, samples, outputs, w + first state) of outputs (3, outputs) coordinate, by_x, by_v along runs x, v, a (runs,
  // samples, s) under gains (2, drives).
  Out variation(In x, In v, In a, In gains, In outputs, In parameters, double h, bool first_state, int threads) const;

 private:
  Robot robot_;
  std::vector<double> inertia_, shift_, mass_, constant_, entry_value_, link_stiffness_, link_damping_, sign_level_, sign_width_;
  std::vector<int> entry_row_, entry_column_, link_row_, link_column_, sign_at_, below_first_, below_, near_first_, near_, driven_;
  std::vector<unsigned char> related_;
  dynid::SystemView view_{};
  // The columns of a table (w, 4): kind, first, second, width.
  struct Parameters {
    std::vector<int> kind, first, second;
    std::vector<double> width;
  };
  Parameters parameters_of(In table) const;
  void pattern(const std::vector<unsigned char>& coupled);
  dynid::ModelsView models_of(In models, long runs) const;
  dynid::ControlView control_of(In gains, In tables, long runs, long rows, const Multibody* weight) const;
};

// dz/dt = (v, J (x, v) + G) by Lobatto's rule IIIC over samples of h seconds: dx and dv (runs, samples, s, w + first state).
nb::tuple variational(In jacobian, In inputs, double h, bool first_state, int threads);

}  // namespace dynid_native
