"""PromQL of panels and alerts, built from the catalogue's metrics.

A scope knows a board's variables and puts those that a metric has as labels into each selector, so
that no panel escapes the choice made at the top. Histograms are added up over instances bucket by
bucket before any quantile is taken. A label that the metric has not is refused here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.metrics.catalogue.metric import Metric

RATE: Final = "$__rate_interval"
RANGE: Final = "$__range"
SCRAPE: Final = ("job", "instance")
"""Labels that Prometheus itself puts on what it scrapes."""


@dataclass(frozen=True)
class Scope:
    """The variables of a board that choose series."""

    variables: tuple[str, ...] = SCRAPE

    def select(self, metric: Metric, suffix: str = "", **wanted: str) -> str:
        """The selector of a metric.

        `wanted` maps labels to a value; `~` before it makes it a pattern, `!` what may not match.
        """
        known = {*metric.labels, *SCRAPE}
        assert set(wanted) <= known, f"{metric.name} has no label {set(wanted) - known}"
        free = [name for name in self.variables if name in known and name not in wanted]
        matchers = [f'{name}=~"${name}"' for name in free]
        matchers += [_matcher(name, value) for name, value in wanted.items()]
        inside = "{" + ",".join(matchers) + "}" if matchers else ""
        return f"{metric.name}{suffix}{inside}"

    def rate(
        self,
        metric: Metric,
        by: tuple[str, ...] = (),
        suffix: str = "",
        window: str = RATE,
        **wanted: str,
    ) -> str:
        """Growth a second of a counter, or of a histogram's `_count` or `_sum`, added up."""
        assert (metric.type == "counter") == (not suffix), f"{metric.name} is a {metric.type}"
        selector = self.select(metric, suffix, **wanted)
        return f"sum{_by(metric, by)} (rate({selector}[{window}]))"

    def quantile(
        self,
        q: str,
        metric: Metric,
        by: tuple[str, ...] = (),
        window: str = RATE,
        **wanted: str,
    ) -> str:
        """A quantile of a histogram over all instances, to within one bucket."""
        return f"histogram_quantile({q}, {self.buckets(metric, by, window, **wanted)})"

    def buckets(
        self, metric: Metric, by: tuple[str, ...] = (), window: str = RATE, **wanted: str
    ) -> str:
        """Rates of a histogram's buckets, as quantiles and heatmaps want them."""
        assert metric.type == "histogram", f"{metric.name} is a {metric.type}"
        selector = self.select(metric, "_bucket", **wanted)
        return f"sum by ({', '.join(('le', *_checked(metric, by)))}) (rate({selector}[{window}]))"

    def mean(
        self, metric: Metric, by: tuple[str, ...] = (), window: str = RATE, **wanted: str
    ) -> str:
        """Mean of a histogram's values."""
        total = self.rate(metric, by, "_sum", window, **wanted)
        return f"{total} / {self.rate(metric, by, '_count', window, **wanted)}"

    def last(self, metric: Metric, suffix: str = "", **wanted: str) -> str:
        """The last value in the range shown, also after its exporter has ended."""
        return f"last_over_time({self.select(metric, suffix, **wanted)}[{RANGE}])"

    def quantile_so_far(
        self, q: str, metric: Metric, by: tuple[str, ...] = (), **wanted: str
    ) -> str:
        """A quantile of everything since the process began, by its last value in the range.

        Exact counts: a rate misses what a series is born with, which is all of a short segment.
        """
        grouped = ", ".join(("le", *_checked(metric, by)))
        counts = self.last(metric, "_bucket", **wanted)
        return f"histogram_quantile({q}, sum by ({grouped}) ({counts}))"

    def sum(self, metric: Metric, by: tuple[str, ...] = (), **wanted: str) -> str:
        """A gauge added up."""
        return f"sum{_by(metric, by)} ({self.select(metric, **wanted)})"

    def max(self, metric: Metric, by: tuple[str, ...] = (), **wanted: str) -> str:
        """The largest of a gauge."""
        return f"max{_by(metric, by)} ({self.select(metric, **wanted)})"


def _matcher(name: str, value: str) -> str:
    operator = {"~": "=~", "!": "!~"}.get(value[:1])
    return f'{name}{operator}"{value[1:]}"' if operator else f'{name}="{value}"'


def _by(metric: Metric, labels: tuple[str, ...]) -> str:
    return f" by ({', '.join(_checked(metric, labels))})" if labels else ""


def _checked(metric: Metric, labels: tuple[str, ...]) -> tuple[str, ...]:
    missing = set(labels) - {*metric.labels, *SCRAPE}
    assert not missing, f"{metric.name} has no label {missing}"
    return labels
