"""An estimator: it fits, leaves out the blocks that fit worst, and fits again."""

from dataclasses import dataclass, replace

from dynid.base.options import option
from dynid.estimate import WLS


@dataclass(frozen=True)
class WithoutWorstBlocks:
    """Weighted least squares without the share of blocks that fit worst."""

    share: float = option(0.2, "of the blocks", least=0, most=0.5)
    name: str = "frozen_trimmed"

    def fit(self, regression):
        first = WLS().fit(regression)
        blocks = regression.factors.blocks

        def misfit(i):
            groups = zip(first.weights, blocks[i].groups, strict=True)
            return sum(w * f.residual_square(first.full_vector) / max(f.count, 1) for w, f in groups)

        kept = sorted(range(len(blocks)), key=misfit)[: max(3, round((1 - self.share) * len(blocks)))]
        again = WLS().fit(replace(regression, factors=regression.factors.subset(sorted(kept))))
        return replace(again, method=self.name)
