"""What several rules measure: one figure in the fault's window and in the normal one."""

from collections import Counter
from collections.abc import Callable, Iterable

from harness.findings.symptoms.symptom import Context, Figure
from harness.metrics.catalogue import canonical
from harness.metrics.catalogue.metric import Metric
from harness.metrics.catalogue.server import REFUSED, REQUESTS
from harness.metrics.window import Window

Measure = Callable[[Window], float | None]


def figure(context: Context, what: str, measure: Measure, unit: str = "") -> Figure | None:
    """The measure in both windows; None where the fault's window does not tell."""
    value = None if context.fault is None else measure(context.fault)
    if value is None:
        return None
    normal = None if context.normal is None else measure(context.normal)
    return Figure(what=what, value=value, unit=unit, normal=normal)


def given(*figures: Figure | None) -> tuple[Figure, ...]:
    """Those that are known."""
    return tuple(each for each in figures if each is not None)


def has_grown(figure: Figure, times: float) -> bool:
    """Whether it is that much larger than normal; true where nothing normal is known."""
    return figure.normal is None or figure.value >= times * figure.normal


def ratio(top: float | None, bottom: float | None) -> float | None:
    """One by the other; None where either is not known, or nothing happened below."""
    return top / bottom if top is not None and bottom else None


def label_values(window: Window | None, name: str, label: str) -> list[str]:
    """Every value that a label has in this time."""
    if window is None:
        return []
    return sorted({labels[label] for labels in window.series(name) if label in labels})


def worst(
    window: Window, name: str, label: str, measure: Callable[[str], float | None]
) -> tuple[float, str] | None:
    """The largest measure over a label's values, and where."""
    found = ((measure(value), value) for value in label_values(window, name, label))
    return max(((m, value) for m, value in found if m is not None), default=None)


def alike(window: Window, name: str) -> int:
    """How many series have the same labels: as many servers tell the same of themselves."""
    counts = Counter(tuple(sorted(labels.items())) for labels in window.series(name))
    return max(counts.values(), default=1)


def requests_per_s(window: Window) -> float | None:
    """Requests that a server was done with, refused ones among them."""
    return total(first(window.rate, REQUESTS, canonical.REQUESTS), window.rate(REFUSED.name))


def first(ask: Callable[[str], float | None], *metrics: Metric) -> float | None:
    """What the first of these metrics says that is there: the bundled server's, then anyone's."""
    answers = (ask(metric.name) for metric in metrics)
    return next((answer for answer in answers if answer is not None), None)


def sequences(window: Window, *metrics: Metric) -> float | None:
    """Mean over time of a gauge, summed over pools and servers."""
    for metric in metrics:
        mean = window.mean(metric.name)
        if mean is not None:
            return mean * len(window.series(metric.name))
    return None


def total(*parts: float | None) -> float | None:
    """Sum of what is known; None where nothing is."""
    known: Iterable[float] = [part for part in parts if part is not None]
    return sum(known) if known else None
