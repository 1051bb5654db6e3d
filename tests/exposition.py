"""What an exporter says, as values: OpenMetrics text read back by prometheus-client itself."""

from collections.abc import Iterator

from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry
from prometheus_client.samples import Exemplar, Sample

Labels = frozenset[tuple[str, str]]
Samples = dict[tuple[str, Labels], float]


def labels(**given: str) -> Labels:
    """A label set to look a sample up with."""
    return frozenset(given.items())


def written(registry: CollectorRegistry) -> str:
    """The registry as OpenMetrics text."""
    return str(generate_latest(registry).decode())  # type: ignore[no-untyped-call]


def read_samples(text: str) -> Samples:
    """Each sample's value; a series that comes twice is an AssertionError."""
    found: Samples = {}
    for sample in _samples(text):
        key = sample.name, frozenset(sample.labels.items())
        assert key not in found, f"{key} comes twice"
        found[key] = sample.value
    return found


def read_exemplars(text: str) -> dict[tuple[str, Labels], Exemplar]:
    """The exemplar of each sample that has one."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.exemplar
        for sample in _samples(text)
        if sample.exemplar is not None
    }


def _samples(text: str) -> Iterator[Sample]:
    for family in text_string_to_metric_families(text):  # type: ignore[no-untyped-call]
        yield from family.samples
