// The functions that the module offers and that are defined in other files than module.cpp.
#pragma once
#include "motion.hpp"

namespace dynid_native {

nb::list fused(InInt parent, InInt kind, In axis, In rotation, In translation, In gravity, InInt mask, In q, In dq, In ddq,
               In extra, InInt extra_joint, In tau, int method, int threads);
void torque_lines(InInt parent, InInt kind, In axis, In rotation, In translation, In gravity, InInt mask, InInt slots, In q,
                  In dq, In ddq, InOut lines);
Out torque_contraction(InInt parent, InInt kind, In axis, In rotation, In translation, In gravity, InInt mask, InInt slots,
                       In weights, In q, In dq, In ddq);
Out torque_jacobian(InInt parent, InInt kind, In axis, In rotation, In translation, In gravity, InInt mask, In inertia, In q,
                    In dq, In ddq);
Out gathered_gram(In lines, InInt ends, InInt places, In weights, int size);
Out qr_panel(nb::ndarray<const double, nb::ndim<2>, nb::device::cpu> panel);
Out triangle_solve(In a, In b, bool transposed, bool lower);
Out zero_phase(In x, In sos, In settled, long pad, long start, long step);
nb::tuple filtered(InInt parent, InInt kind, In axis, In rotation, In translation, In gravity, InInt mask, InInt wanted, In q,
                   In dq, In ddq, const std::vector<In>& further, In sos, In settled, long pad, long start, long step);
Out line_ranges(In x, long first, long count);
Out line_moments(In x);
Out line_unevenness(In x, long first, long count, double share);
Out stop_operator(In path, double before, double state);

}  // namespace dynid_native
