"""How long a step of a Kalman filter takes, by who takes it."""

from __future__ import annotations

from dynid.estimate.base_dynamics import BaseDynamics
from dynid.estimate.kalman import JointFilter
from dynid.kernel import backend

# Seconds of processor time on one core of 2020, from steps of random chains of 2 to 14 joints with 12 to 136 parameters
# and of arm7, which took half to twice what these say. In the native kernel: the equations, for each coordinate, and
# the products with the covariance, for each coordinate and square of the covariance's length.
COMPILED_COORDINATE, COMPILED_PRODUCT = 1.5e-6, 1e-9
# In NumPy: a step, its linearisation, and each point of the distribution that is carried along; the last two grow with
# the model and are those of one of 7 coordinates and 69 parameters, as arm7 has.
STEP, LINEARISATION, POINT, USUAL_COORDINATES, USUAL_PARAMETERS = 1.5e-3, 1.5e-3, 2e-5, 7, 69
# How many times as long the steps in NumPy take where the equations of motion are NumPy's as well.
NUMPY_KERNEL = 5.0


def seconds_a_step(kind: type[JointFilter], model: BaseDynamics) -> float:
    """Seconds that a step and its correction take by the path that will be taken."""
    s, length = model.size, 2 * model.size + model.count
    if kind.is_compiled(model):
        return COMPILED_COORDINATE * s + COMPILED_PRODUCT * s * length**2
    size = s / USUAL_COORDINATES * model.count / USUAL_PARAMETERS
    one = STEP + (LINEARISATION + POINT * kind.points(length)) * size
    return NUMPY_KERNEL * one if backend() == "numpy" else one
