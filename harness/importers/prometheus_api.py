"""Prometheus's HTTP API as far as it is read here: queries and declared types, bounded.

An empty answer is an empty list, never an error and never zero. Whatever is no answer of a
Prometheus (nobody there, a proxy's page, a refused query) is one error that says so.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any, Final

from harness.base.errors import SetupError
from harness.findings.text import line

MAX_BYTES: Final = 64 << 20
TIMEOUT_S: Final = 30.0
MAX_POINTS: Final = 10_000
"""Prometheus refuses more than 11,000 points a series."""
TYPES: Final = frozenset({"counter", "gauge", "histogram", "summary"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One series of an answer.

    Attributes:
        labels: Label values by name, `__name__` among them where the query keeps it.
        times: Unix times, ascending.
        values: One a time; NaN and infinities as Prometheus wrote them.

    Units:
        Seconds.
    """

    labels: dict[str, str]
    times: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class PrometheusApi:
    """The API of one Prometheus.

    Attributes:
        url: Its address, such as `http://127.0.0.1:9090`.
    """

    url: str

    def query(self, promql: str, at: float | None = None) -> list[Series]:
        """Series of an instant query, one point each; now, or at a Unix time."""
        asked = {"query": promql} | ({} if at is None else {"time": repr(at)})
        return self._result("query", asked)

    def query_range(self, promql: str, *, start: float, end: float, step_s: float) -> list[Series]:
        """Series of a range query between two Unix times; the step grows where it must."""
        step = max(step_s, (end - start) / MAX_POINTS)
        asked = {"query": promql, "start": repr(start), "end": repr(end), "step": repr(step)}
        return self._result("query_range", asked)

    def types(self) -> dict[str, str]:
        """Declared type by name; empty where none is told: not every store of series keeps them."""
        try:
            told = self._get("/api/v1/metadata?limit_per_metric=1")["data"]
            types = {name: str(entries[0]["type"]) for name, entries in told.items() if entries}
        except (SetupError, TypeError, KeyError, AttributeError, IndexError):
            return {}
        return {name: kind for name, kind in types.items() if kind in TYPES}

    def _result(self, path: str, asked: dict[str, str]) -> list[Series]:
        """The vector or matrix of an answer; a scalar is a vector of one."""
        value = self._get(f"/api/v1/{path}?{urllib.parse.urlencode(asked)}")
        try:
            if value["status"] != "success":
                said = line(str(value["error"]))
                raise SetupError(f"{self.url} refused {asked['query']!r}: {said}")
            data = value["data"]
            if data["resultType"] == "scalar":
                return [_series({"metric": {}, "value": data["result"]})]
            return [_series(each) for each in data["result"]]
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise SetupError(
                f"{self.url} is no Prometheus: its answer to {asked['query']!r} is not built as one"
            ) from error

    def _get(self, path: str) -> Any:
        address = self.url.rstrip("/") + path
        if not address.startswith(("http://", "https://")):
            raise SetupError(f"got {self.url!r}, allowed http://HOST:PORT of a Prometheus")
        try:
            with urllib.request.urlopen(address, timeout=TIMEOUT_S) as answer:  # noqa: S310  checked
                body = answer.read(MAX_BYTES + 1)
        except urllib.error.HTTPError as error:
            body = error.read(MAX_BYTES)
            if not body.lstrip().startswith(b"{"):
                raise SetupError(
                    f"{self.url} is no Prometheus: HTTP status {error.code}"
                ) from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise SetupError(f"no Prometheus answers at {self.url}: {reason}") from error
        if len(body) > MAX_BYTES:
            raise SetupError(f"{self.url} answered more than {MAX_BYTES >> 20} MiB; ask for less")
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise SetupError(f"{self.url} is no Prometheus: its answer is not JSON") from error


def _series(each: dict[str, Any]) -> Series:
    points = each["values"] if "values" in each else [each["value"]]
    return Series(
        labels={str(name): str(value) for name, value in each["metric"].items()},
        times=tuple(float(time) for time, _ in points),
        values=tuple(float(text) for _, text in points),
    )
