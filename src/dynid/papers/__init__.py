"""Methods of the papers that the defaults beat, kept for comparison: annealing, TLS, ML, networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base import lazily

if TYPE_CHECKING:
    from dynid.papers.annealing import Annealing, Box, annealed_parameters
    from dynid.papers.kalman import CDKF, EKF, UKF
    from dynid.papers.likelihood import ML
    from dynid.papers.neural import Adaline, Hopfield
    from dynid.papers.penalty import Bodies, Constraint, Penalised, Rule, Search, penalised_parameters
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
    "Constraint",
    "Hopfield",
    "Penalised",
    "Rule",
    "Search",
    "annealed_parameters",
    "penalised_parameters",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "annealing": "Annealing Box annealed_parameters",
        "kalman": "CDKF EKF UKF",
        "likelihood": "ML",
        "neural": "Adaline Hopfield",
        "penalty": "Bodies Constraint Penalised Rule Search penalised_parameters",
        "total": "TLS",
    },
)
