"""A section of the report."""

from markupsafe import Markup


class WeightsSection:
    anchor = "weights"
    title = "Weights of the joints"

    def render(self, identification, page):
        estimate = identification.estimate
        rows = zip(estimate.group_names, estimate.sigma, strict=True)
        lines = (Markup("<tr><td>{}</td><td>{:.3g} N m</td></tr>").format(name, s) for name, s in rows)
        return Markup("<table>{}</table>").format(Markup("").join(lines))
