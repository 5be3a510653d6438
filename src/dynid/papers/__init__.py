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
    from dynid.papers.annealing import Annealing as Annealing
    from dynid.papers.annealing import Box as Box
    from dynid.papers.annealing import annealed_parameters as annealed_parameters
    from dynid.papers.kalman import CDKF as CDKF
    from dynid.papers.kalman import EKF as EKF
    from dynid.papers.kalman import UKF as UKF
    from dynid.papers.likelihood import ML as ML
    from dynid.papers.neural import Adaline as Adaline
    from dynid.papers.neural import Hopfield as Hopfield
    from dynid.papers.penalty import Bodies as Bodies
    from dynid.papers.penalty import Constraint as Constraint
    from dynid.papers.penalty import Penalised as Penalised
    from dynid.papers.penalty import Rule as Rule
    from dynid.papers.penalty import Search as Search
    from dynid.papers.penalty import penalised_parameters as penalised_parameters
    from dynid.papers.retrieve import Coefficients as Coefficients
    from dynid.papers.retrieve import default_box as default_box
    from dynid.papers.retrieve import feasible_by_penalty as feasible_by_penalty
    from dynid.papers.retrieve import feasible_from_coefficients as feasible_from_coefficients
    from dynid.papers.retrieve import l_curve_strength as l_curve_strength
    from dynid.papers.retrieve import read_box as read_box
    from dynid.papers.retrieve import read_coefficients as read_coefficients
    from dynid.papers.reveal import parameters_from_model as parameters_from_model
    from dynid.papers.reveal import read_model_table as read_model_table
    from dynid.papers.total import TLS as TLS

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "annealing": "Annealing Box annealed_parameters",
        "kalman": "CDKF EKF UKF",
        "likelihood": "ML",
        "neural": "Adaline Hopfield",
        "penalty": "Bodies Constraint Penalised Rule Search penalised_parameters",
        "retrieve": (
            "Coefficients default_box feasible_by_penalty feasible_from_coefficients l_curve_strength read_box "
            "read_coefficients"
        ),
        "reveal": "parameters_from_model read_model_table",
        "total": "TLS",
    },
)
