"""Choice of the model by evidence: every effect that a log might show, compared on blocks it was not fitted on."""
