// Times of pinocchio's algorithms for benchmarks/dynamics.py: a file of numbers that describe a tree, and how many samples.
#include <pinocchio/multibody.hpp>
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/rnea-derivatives.hpp>
#include <pinocchio/algorithm/rnea.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
using namespace pinocchio;
int main(int argc, char **argv) {
  FILE *file = fopen(argv[1], "r");
  const long T = atol(argv[2]);
  auto next = [&] { double x; if (fscanf(file, "%lf", &x) != 1) abort(); return x; };
  const int n = (int)next();
  Model m;
  for (int k = 0; k < 3; k++) m.gravity.linear()[k] = next();
  for (int j = 0; j < n; j++) {
    const int parent = (int)next() + 1; const bool slides = next() != 0;
    Eigen::Vector3d a, p; Eigen::Matrix3d R; Eigen::Matrix<double, 10, 1> pi;
    for (int k = 0; k < 3; k++) a[k] = next();
    for (int k = 0; k < 9; k++) R(k / 3, k % 3) = next();
    for (int k = 0; k < 3; k++) p[k] = next();
    for (int k = 0; k < 10; k++) pi[k] = next();
    const SE3 M(R, p); const std::string name = std::to_string(j); JointIndex id;
    if (slides) id = a[0] == 1 ? m.addJoint(parent, JointModelPX(), M, name) : a[1] == 1 ? m.addJoint(parent, JointModelPY(), M, name)
             : a[2] == 1 ? m.addJoint(parent, JointModelPZ(), M, name) : m.addJoint(parent, JointModelPrismaticUnaligned(a), M, name);
    else id = a[0] == 1 ? m.addJoint(parent, JointModelRX(), M, name) : a[1] == 1 ? m.addJoint(parent, JointModelRY(), M, name)
             : a[2] == 1 ? m.addJoint(parent, JointModelRZ(), M, name) : m.addJoint(parent, JointModelRevoluteUnaligned(a), M, name);
    m.appendBodyToJoint(id, Inertia::FromDynamicParameters(pi), SE3::Identity());
  }
  Data data(m);
  const Eigen::MatrixXd Q = Eigen::MatrixXd::Random(n, T), V = Eigen::MatrixXd::Random(n, T), A = Eigen::MatrixXd::Random(n, T);
  double sum = 0;
  // Whole vectors, for which the library holds compiled code.
  Eigen::VectorXd held[3];
  auto q = [&](long k, const Eigen::MatrixXd &M, int which) -> const Eigen::VectorXd & { return held[which] = M.col(k); };
  // The least of many short times: longer ones would hold whatever else the machine does.
  const long piece = 500;
  auto timed = [&](auto &&work) {
    double best = 1e99;
    for (long start = 0; start + piece <= T; start += piece) {
      auto t = std::chrono::steady_clock::now();
      for (long k = start; k < start + piece; k++) work(k);
      best = std::min(best, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - t).count() / piece);
    }
    return best;
  };
  const double r = timed([&](long k) { sum += rnea(m, data, q(k, Q, 0), q(k, V, 1), q(k, A, 2))[0]; });
  const double b = timed([&](long k) { sum += aba(m, data, q(k, Q, 0), q(k, V, 1), q(k, A, 2), Convention::LOCAL)[0]; });
  const double w = timed([&](long k) { sum += aba(m, data, q(k, Q, 0), q(k, V, 1), q(k, A, 2), Convention::WORLD)[0]; });
  const double c = timed([&](long k) { crba(m, data, q(k, Q, 0), Convention::WORLD); sum += data.M(0, 0); });
  const double e = timed([&](long k) { computeRNEADerivatives(m, data, q(k, Q, 0), q(k, V, 1), q(k, A, 2)); sum += data.dtau_dq(0, 0); });
  printf("%.1f %.1f %.1f %.1f %g\n", r, b < w ? b : w, c, e, sum);
}
