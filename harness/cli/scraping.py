"""Scraping while a run drives its target: what is asked, and where the answers go."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.base.errors import SetupError

if TYPE_CHECKING:
    from harness.importers.metrics_source import MetricsSource
    from harness.records.run import RunFolder


def named_sources(urls: Sequence[str]) -> "list[MetricsSource]":
    """The endpoints of `--scrape`, each of which answers now.

    Raises:
        SetupError: one does not: better told before the run than after it.
    """
    from harness.importers.metrics_source import MetricsSource

    sources = [MetricsSource(url) for url in urls]
    for source in sources:
        try:
            source.ask()
        except SetupError as error:
            raise SetupError(f"--scrape: {error}; start it first, or leave it out") from error
    return sources


@contextmanager
def scraping(folder: "RunFolder", url: str, named: "Sequence[MetricsSource]") -> Iterator[None]:
    """Scrape the target's `/metrics` and the named endpoints each second while the block runs.

    Only the target is given the target's key.
    """
    from harness.importers.metrics_source import MetricsSource
    from harness.importers.watch import watching
    from harness.load.session import api_key
    from harness.records.about import read_about
    from harness.records.telemetry import TARGET, TelemetryWriter
    from harness.scenario.read import stored_scenario

    key = api_key(stored_scenario(folder))
    target = MetricsSource(target_metrics(url), name=TARGET, api_key=key)
    writer = TelemetryWriter(folder, len(read_about(folder)["sessions"]))
    try:
        with watching([target, *named], writer.write):
            yield
    finally:
        writer.close()


def target_metrics(url: str) -> str:
    """Where an OpenAI-compatible server has its metrics: beside `/v1`."""
    return url.rstrip("/").removesuffix("/v1") + "/metrics"
