"""OpenMetrics text of series over time, written to disk as it comes.

Prometheus's backfill wants each metric's lines together; a run gives them cell by cell. So every
metric has a temporary file of its own until the end.
"""

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, Final, Self

from prometheus_client.exposition import choose_encoder

from harness.base.errors import SetupError
from harness.export.family import Point, build_family
from harness.export.page import END, One, split
from harness.metrics.catalogue.metric import Metric

ENCODE: Final[Any] = choose_encoder("application/openmetrics-text;version=1.0.0")[0]


class OpenMetricsFile:
    """Collects points and writes them as one file."""

    def __init__(self) -> None:
        self._parts: dict[Metric, IO[bytes]] = {}
        self.n_points = 0

    def add(self, metric: Metric, points: Iterable[Point]) -> None:
        """Append points of a metric: each series' own in the order of their times."""
        given = list(points)
        if not given:
            return
        head, body = split(ENCODE(One(build_family(metric, given))))
        if metric not in self._parts:
            self._parts[metric] = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as this
            self._parts[metric].write(head)
        self._parts[metric].write(body)
        self.n_points += len(given)

    def write(self, path: Path) -> None:
        """Write everything, whole or not at all.

        Raises:
            SetupError: the file cannot be written.
        """
        part = path.with_name(f".{path.name}.part")
        try:
            with part.open("wb") as out:
                for each in self._parts.values():
                    each.seek(0)
                    shutil.copyfileobj(each, out)
                out.write(END)
            part.replace(path)
        except OSError as error:
            raise SetupError(f"{path}: cannot be written: {error.strerror}") from error
        finally:
            part.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        """Collect while the block runs."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Remove the temporary files."""
        for each in self._parts.values():
            each.close()
