"""A network of two hidden layers per robot, from motion to torque: a black box without any physics.

scikit-learn's MLPRegressor on standardised q, sin q, cos q, dq, ddq and the direction of motion, with early stopping.
"""

from __future__ import annotations

import numpy as np
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dynid_bench.protocol import Answer, Float, States, Task, serve

WIDTH = 0.02  # rad/s, of the smoothed sign


# user's code: begin


def features(motion: States) -> Float:
    """Inputs (T, 6 n)."""
    q, dq, ddq = motion.q, motion.dq, motion.ddq
    return np.concatenate([q, np.sin(q), np.cos(q), dq, ddq, np.tanh(dq / WIDTH)], axis=1)


# user's code: end


def run(task: Task) -> Answer:
    """Train on all samples."""
    # user's code: begin
    X = np.concatenate([features(motion) for motion in task.prepared])
    y = np.concatenate([motion.tau for motion in task.prepared])
    scaler = StandardScaler().fit(y)
    network = make_pipeline(
        StandardScaler(),
        MLPRegressor(
            hidden_layer_sizes=(64, 64), alpha=1e-3, early_stopping=True, max_iter=2000, random_state=0
        ),
    ).fit(X, scaler.transform(y))
    torque = {
        name: scaler.inverse_transform(network.predict(features(motion)).reshape(motion.q.shape))
        for name, motion in task.held_out.items()
    }
    # user's code: end
    return Answer(
        torque, packages=("scikit-learn", "numpy"), settings="two hidden layers of 64, early stopping"
    )


if __name__ == "__main__":
    serve(run)
