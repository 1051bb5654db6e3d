"""Prometheus text as servers really write it: 0.0.4, 1.0.0, OpenMetrics, and what is none of them.

A small tokenizer of our own and not prometheus-client's parser: that one gives up a whole page at
the first odd line (an unescaped quote of dcgm-exporter's), takes several times the processor time
of a scrape a second, and knows two formats by two entrances. Here an odd line is counted and the
rest is read. Pure: bytes in, a page out; junk raises `NoMetrics` and nothing else.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harness.base.errors import SetupError
from harness.records.telemetry import Labels

MAX_BYTES: Final = 16 << 20
MAX_SAMPLES: Final = 100_000
MAX_LINE: Final = 16_384
MAX_LABELS: Final = 64
MAX_VALUE: Final = 1024

SeriesKey = tuple[str, Labels]
Heads = dict[str, SeriesKey]
"""Heads of lines that were read before: a server writes the same ones at every scrape."""

_SUFFIXES: Final = ("_total", "_bucket", "_sum", "_count", "_info", "_gsum", "_gcount")
_NUMBERED: Final = frozenset({"le", "quantile"})
_NAME: Final = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_PAIR: Final = re.compile(
    rf'\s*(?P<name>{_QUOTED}|[^\s=,"{{}}]+)\s*(?:=\s*(?P<value>{_QUOTED})\s*)?(?P<end>,\s*\}}|,|\}})'
)
_UNESCAPED_PAIR: Final = re.compile(
    r'\s*(?P<name>[^\s=,"{}]+)\s*=\s*(?P<value>".*?")\s*'
    r'(?:(?P<end>,\s*\}|\})(?=\s+\S+(?:\s+-?\d+)?\s*$)|(?P<comma>,)(?=\s*[A-Za-z_][\w.]*\s*="))'
)
_END: Final = re.compile(r"\s*\}")
_NUMBER: Final = re.compile(
    r"[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)", re.IGNORECASE
)
_VALUE: Final = re.compile(
    rf"\s*(?P<value>{_NUMBER.pattern})(?:\s+[+-]?[\d.]+(?:e[+-]?\d+)?)?\s*(?:#.*)?", re.IGNORECASE
)
_ESCAPE: Final = re.compile(r'\\([\\"n])')
_ESCAPED: Final = {"\\": "\\", '"': '"', "n": "\n"}

# "blank", "not found", "not supported", "not permissioned" of DCGM, as floats hold them.
_BLANKS: Final = frozenset(
    [*map(float, range(2147483632, 2147483636)), float(2**63), 140737488355328.0]
)
_GPU_NAMES: Final = ("DCGM_", "dcgm_", "nvidia_", "gpu_")


class NoMetrics(SetupError):  # noqa: N818  what came is no page of metrics
    """What came is no metrics page: a failure to read, never zeros."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """What one scrape said.

    Attributes:
        values: by name and labels (sorted), the first where a series came twice; NaN as written.
        kinds: declared type by family; not to be trusted blindly.
        anomalies: how many odd things of each kind were met.
    """

    values: Mapping[SeriesKey, float]
    kinds: Mapping[str, str]
    anomalies: Mapping[str, int]

    @property
    def has_data(self) -> bool:
        """Whether there is any sample; an empty page says nothing, not zero."""
        return bool(self.values)

    def kind_of(self, name: str) -> str:
        """Declared type of a sample's family, `created` for a start time, or `unknown`."""
        if name.endswith("_created"):
            base = name.removesuffix("_created")
            if base in self.kinds or f"{base}_total" in self.kinds:
                return "created"
        if name in self.kinds:
            return self.kinds[name]
        for suffix in _SUFFIXES:
            if name.endswith(suffix) and (kind := self.kinds.get(name.removesuffix(suffix))):
                return kind
        return "unknown"


def read_metrics(body: bytes, heads: Heads | None = None) -> Page:
    """Read a metrics page.

    Args:
        body: as it came.
        heads: of the same server's earlier pages, added to.

    Raises:
        NoMetrics: it is too long, or no metrics page.
    """
    if len(body) > MAX_BYTES:
        raise NoMetrics(f"got {len(body):,} bytes of metrics, allowed are {MAX_BYTES:,}")
    text = body.decode("utf-8", "replace").lstrip("\ufeff")
    page = _Reader({} if heads is None else heads)
    is_markup = text.lstrip().startswith("<")
    for line in () if is_markup else text.split("\n"):
        page.take(line)
    if is_markup or page.anomalies["unreadable lines"] > len(page.values):
        raise NoMetrics(f"got no metrics: {_shown(text)}; allowed is Prometheus's text format")
    return Page(values=page.values, kinds=page.kinds, anomalies=dict(page.anomalies))


class _Reader:
    """A page being read."""

    def __init__(self, heads: Heads) -> None:
        self.values: dict[SeriesKey, float] = {}
        self.kinds: dict[str, str] = {}
        self.anomalies: Counter[str] = Counter()
        self._heads = heads

    def take(self, line: str) -> None:
        """Read one line."""
        head, _, value = line.rpartition(" ")
        key = self._heads.get(head)
        if key is not None and _NUMBER.fullmatch(value):
            self._add(key, float(value))
        elif line.startswith("#"):
            self._comment(line)
        elif line.strip():
            self._sample(line.strip())

    def _comment(self, line: str) -> None:
        words = line.split(None, 3)
        if len(words) == 4 and words[1] == "TYPE":
            name = words[2].strip('"')
            if name in self.kinds:
                self.anomalies["families declared twice"] += 1
            elif len(self.kinds) < MAX_SAMPLES:
                self.kinds[name] = words[3].strip().lower()[:20]

    def _sample(self, line: str) -> None:
        if len(line) > MAX_LINE:
            self.anomalies["unreadable lines"] += 1
            return
        found = _tokenize(line, _PAIR)
        if found is None and (found := _tokenize(line, _UNESCAPED_PAIR)) is not None:
            self.anomalies["labels without escapes"] += 1
        if found is None:
            self.anomalies["unreadable lines"] += 1
            return
        key, end, value = found
        if len(self._heads) < 2 * MAX_SAMPLES:
            self._heads[line[:end].rstrip()] = key
        self._add(key, value)

    def _add(self, key: SeriesKey, value: float) -> None:
        if key in self.values:
            self.anomalies["series that came twice"] += 1
        elif value in _BLANKS and key[0].startswith(_GPU_NAMES):
            self.anomalies["blank numbers of DCGM"] += 1
        elif len(self.values) >= MAX_SAMPLES:
            self.anomalies["samples left out"] += 1
        else:
            self.values[key] = value


def _tokenize(line: str, pair: re.Pattern[str]) -> tuple[SeriesKey, int, float] | None:
    """A sample's key, where its head ends, and its value; None where this is no sample."""
    match = _NAME.match(line)
    name, end = (match[0], match.end()) if match else ("", 0)
    pairs: dict[str, str] = {}
    opening = len(line) - len(line[end:].lstrip())
    if line[opening : opening + 1] == "{":
        labelled = _labels(line, opening + 1, pair)
        if labelled is None:
            return None
        quoted, pairs, end = labelled
        name = name or quoted
    if not name or (line[end - 1] != "}" and line[end : end + 1] not in {" ", "\t"}):
        return None
    if (value := _VALUE.fullmatch(line, end)) is None:
        return None
    return (name, tuple(sorted(pairs.items()))), end, float(value["value"])


def _labels(line: str, at: int, pair: re.Pattern[str]) -> tuple[str, dict[str, str], int] | None:
    """A quoted name where there is one, the labels, and where they end."""
    name = ""
    pairs: dict[str, str] = {}
    if (empty := _END.match(line, at)) is not None:
        return name, pairs, empty.end()
    while len(pairs) <= MAX_LABELS and (match := pair.match(line, at)) is not None:
        at = match.end()
        if match["value"] is not None:
            key = _plain(match["name"])
            value = _plain(match["value"], has_escapes=pair is _PAIR)
            pairs[key] = _number_text(value) if key in _NUMBERED else value
        elif match["name"].startswith('"') and not name:
            name = _plain(match["name"])
        else:
            return None
        if (match["end"] or "").endswith("}"):
            return name, pairs, at
    return None


def _plain(text: str, *, has_escapes: bool = True) -> str:
    """A text without its quotes and escapes, bounded."""
    inner = text[1:-1] if text.startswith('"') else text
    if has_escapes and "\\" in inner:
        inner = _ESCAPE.sub(lambda match: _ESCAPED[match[1]], inner)
    return inner[:MAX_VALUE]


def _number_text(text: str) -> str:
    """A bound as one text however it was written: `1e+06` and `1000000` are one bucket."""
    if not _NUMBER.fullmatch(text):
        return text
    value = float(text)
    return "+Inf" if value == math.inf else repr(value)


def _shown(text: str) -> str:
    """The start of something that is no metrics page, for a message."""
    start = " ".join(text[:200].split())[:80]
    return "".join(letter if letter.isprintable() else "?" for letter in start)
