"""Estimators and procedures of published papers that the defaults of dynid outperform.

They are kept so that results of the papers can be reproduced and compared. Estimators are Kalman filters, maximum
likelihood, total least squares and neural networks; `dynid identify --method` selects them by name. Algorithm 1 of Gaz
et al. 2019 finds physically consistent parameters by penalties and simulated annealing. Two procedures recover full
parameters from dynamic coefficients and from samples of a mass matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base import lazily

if TYPE_CHECKING:
    from dynid.papers.annealing import Annealing, Box, annealed_parameters
    from dynid.papers.kalman import CDKF, EKF, UKF
    from dynid.papers.likelihood import ML
    from dynid.papers.neural import Adaline, Hopfield
    from dynid.papers.penalty import Bodies, Constraint, Penalised, Rule, Search, penalised_parameters
    from dynid.papers.retrieve import (
        Coefficients,
        default_box,
        feasible_by_penalty,
        feasible_from_coefficients,
        read_box,
        read_coefficients,
    )
    from dynid.papers.reveal import parameters_from_model, read_model_table
    from dynid.papers.total import TLS

__all__ = [
    "CDKF",
    "EKF",
    "ML",
    "TLS",
    "UKF",
    "Adaline",
    "Annealing",
    "Bodies",
    "Box",
    "Coefficients",
    "Constraint",
    "Hopfield",
    "Penalised",
    "Rule",
    "Search",
    "annealed_parameters",
    "default_box",
    "feasible_by_penalty",
    "feasible_from_coefficients",
    "parameters_from_model",
    "penalised_parameters",
    "read_box",
    "read_coefficients",
    "read_model_table",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "annealing": "Annealing Box annealed_parameters",
        "kalman": "CDKF EKF UKF",
        "likelihood": "ML",
        "neural": "Adaline Hopfield",
        "penalty": "Bodies Constraint Penalised Rule Search penalised_parameters",
        "retrieve": (
            "Coefficients default_box feasible_by_penalty feasible_from_coefficients read_box "
            "read_coefficients"
        ),
        "reveal": "parameters_from_model read_model_table",
        "total": "TLS",
    },
)
