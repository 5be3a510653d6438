"""A Gaussian process per joint, from motion to torque: a black box without any physics.

scikit-learn's GaussianProcessRegressor with a squared exponential kernel of one length per input and noise, on 800
samples spread over the training motion.
"""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.preprocessing import StandardScaler

from dynid_bench.protocol import Answer, Float, States, Task, serve

SAMPLES, SEARCHED = 800, 200  # of the process, and of the search for its lengths
WIDTH = 0.02  # rad/s, of the smoothed sign


# user's code: begin


def features(motion: States) -> Float:
    """Inputs (T, 4 n)."""
    return np.concatenate([motion.q, motion.dq, motion.ddq, np.tanh(motion.dq / WIDTH)], axis=1)


# user's code: end


def run(task: Task) -> Answer:
    """Train a process per joint."""
    # user's code: begin
    X = np.concatenate([features(motion) for motion in task.prepared])
    y = np.concatenate([motion.tau for motion in task.prepared])
    chosen = np.linspace(0, len(X) - 1, min(SAMPLES, len(X))).astype(int)
    inputs, outputs = StandardScaler().fit(X[chosen]), StandardScaler().fit(y[chosen])
    X, y = inputs.transform(X[chosen]), outputs.transform(y[chosen])
    torque = {name: np.zeros_like(motion.q) for name, motion in task.held_out.items()}
    few = np.linspace(0, len(X) - 1, min(SEARCHED, len(X))).astype(int)
    for j in range(y.shape[1]):
        kernel = ConstantKernel() * RBF(np.full(X.shape[1], 5.0), (0.5, 1e3)) + WhiteKernel(0.01)
        searched = GaussianProcessRegressor(kernel, random_state=0).fit(X[few], y[few, j])
        process = GaussianProcessRegressor(searched.kernel_, optimizer=None).fit(X, y[:, j])
        for name, motion in task.held_out.items():
            scaled = process.predict(inputs.transform(features(motion)))
            torque[name][:, j] = scaled * outputs.scale_[j] + outputs.mean_[j]
    # user's code: end
    return Answer(
        torque, packages=("scikit-learn", "numpy"), settings=f"{SAMPLES} samples, a length for each input"
    )


if __name__ == "__main__":
    serve(run)
