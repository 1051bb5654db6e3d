"""*Run*: a load test while it runs, as the load side sees it; first whether to believe it."""

from __future__ import annotations

from typing import Final

from dashboards.layout import Row, build, choice, datasource, label
from dashboards.panels import AMBER, GREEN, RED, Draft, graph, heat, stat, states
from dashboards.promql import RANGE, Scope
from harness.metrics.catalogue import load, process
from harness.metrics.catalogue.metric import Metric

S: Final = Scope(("job", "instance", "service", "version", "scenario", "cell"))
Q: Final = "$quantile"
PATHS: Final = ("baseline", "accelerated")
TURNS: Final = "Over the whole run so far, because the paths take turns."

VALIDITY: Final = Row(
    "Is this measurement valid?",
    (
        stat(
            "Load process",
            f"`{load.RUN_UP.name}`: writing while records come, ended afterwards. The last values "
            "of a run that ended stay on the board.",
            {"": f"max({S.last(load.RUN_UP)})"},
            unit="short",
            words={"1": ("writing", GREEN), "0": ("ended", AMBER)},
            none="no load exporter",
        ),
        stat(
            "Own lag in TTFT P99",
            f"P99 of `{load.DISPATCH_LAG.name}` over P99 of `{load.LOAD_TTFT.name}`: how much of "
            "the tail may be the load generator's own. From 1 % the report says so, from 5 % on "
            "free a core and run again.",
            {
                "": f"{S.quantile_so_far('0.99', load.DISPATCH_LAG)} / "
                f"{S.quantile_so_far('0.99', load.LOAD_TTFT)}"
            },
            unit="percentunit",
            limits=((0.01, AMBER), (0.05, RED)),
            decimals=1,
        ),
        stat(
            "Receive lag P99",
            f"`{load.RX_LAG.name}`: from the operating system's stamp to our reading. It does not "
            "move the latencies; a large one says that the load process starves. None where stamps "
            "come from the read itself.",
            {"": S.quantile_so_far("0.99", load.RX_LAG)},
            unit="s",
            limits=((0.01, AMBER), (0.1, RED)),
            none="no kernel stamps",
        ),
        stat(
            "Chunks read late",
            f"`{load.LATE_CHUNKS.name}` over `{load.CHUNKS.name}`: chunks that share a stamp with "
            "others. They leave ITL; above 1 % the load process reads too slowly.",
            {"": f"{S.rate(load.LATE_CHUNKS, window=RANGE)} / {S.rate(load.CHUNKS, window=RANGE)}"},
            unit="percentunit",
            limits=((0.01, AMBER), (0.1, RED)),
            decimals=2,
        ),
        stat(
            "Recorded and planned",
            f"`{load.LOAD_REQUESTS.name}` beside `{load.PLANNED.name}`; warm-up counts in neither.",
            {
                "recorded": f"sum({S.last(load.LOAD_REQUESTS)})",
                "planned": f"sum({S.last(load.PLANNED)})",
            },
            unit="short",
        ),
        stat(
            "Busiest load process",
            f"`{process.PROCESS_CPU.name}`: processor seconds a second of the busiest load "
            "process. Near 100 % of a core the load side is what limits.",
            {
                "": "max("
                + S.rate(process.PROCESS_CPU, ("process", "pid"), window=RANGE, process="~load.*")
                + ")"
            },
            unit="percentunit",
            limits=((0.7, AMBER), (0.9, RED)),
            decimals=0,
        ),
        graph(
            "Dispatch lag",
            f"`{load.DISPATCH_LAG.name}`: how late requests were sent. Latencies count from the "
            "intended send, so this is inside them.",
            {
                "P50": S.quantile("0.5", load.DISPATCH_LAG),
                "P99": S.quantile("0.99", load.DISPATCH_LAG),
            },
            unit="s",
            is_log=True,
        ),
        graph(
            "Processes",
            f"`{process.PROCESS_CPU.name}` by process: 100 % is one core. Load and server share "
            "the machine when the server is the bundled one.",
            {"{{process}} {{pid}}": S.rate(process.PROCESS_CPU, ("process", "pid"))},
            unit="percentunit",
            low=0,
        ),
        states(
            "Cell at work",
            f"`{load.CELL_RUNNING.name}`: which cell is measured; segments of several cells take "
            "turns.",
            {"{{cell}} {{path}}": S.max(load.CELL_RUNNING, ("cell", "path"))},
            words={"1": ("at work", "blue"), "0": ("waits", "transparent")},
            w=8,
            h=8,
        ),
    ),
)


def _beside(name: str, metric: Metric) -> tuple[Draft, Draft]:
    """A quantile of both paths as numbers, and the ratio of the two."""
    both = {path: S.quantile_so_far(Q, metric, path=path) for path in PATHS}
    return (
        stat(
            f"{name} by path",
            f"Quantile of `{metric.name}`, to within a bucket (10 % from 1 ms to 1 s). {TURNS}",
            {"{{path}}": S.quantile_so_far(Q, metric, ("path",))},
            unit="s",
            w=5,
        ),
        stat(
            f"{name} ratio",
            f"Accelerated over baseline of `{metric.name}`: below 1 is faster. No interval: the "
            f"report of the run has one. {TURNS}",
            {"": f"{both['accelerated']} / {both['baseline']}"},
            unit="none",
            limits=((0.97, AMBER), (1.03, RED)),
            none="one path only",
            decimals=2,
            w=3,
        ),
    )


def _over_time(name: str, metric: Metric, text: str) -> Draft:
    return graph(
        f"{name} over time",
        f"Quantile of `{metric.name}` by path. {text}",
        {"{{path}}": S.quantile(Q, metric, ("path",))},
        unit="s",
        is_log=True,
        has_exemplars=True,
    )


LATENCY: Final = Row(
    "Latency: baseline beside accelerated",
    (
        *_beside("TTFT", load.LOAD_TTFT),
        *_beside("ITL", load.LOAD_ITL),
        *_beside("E2E", load.LOAD_E2E),
        _over_time("TTFT", load.LOAD_TTFT, "From the intended send; dots are single requests."),
        _over_time("ITL", load.LOAD_ITL, "Gaps between tokens; late reads are left out."),
        _over_time("E2E", load.LOAD_E2E, "From the intended send to the last byte."),
    ),
)
SHAPES: Final = Row(
    "Distribution",
    (
        heat(
            "TTFT, all requests",
            f"`{load.LOAD_TTFT.name}` by bucket: two bands are two regimes, such as cells before "
            "and behind a breakpoint.",
            S.buckets(load.LOAD_TTFT),
        ),
        heat(
            "E2E, all requests",
            f"`{load.LOAD_E2E.name}` by bucket.",
            S.buckets(load.LOAD_E2E),
        ),
    ),
)
RATES: Final = Row(
    "Throughput and errors",
    (
        graph(
            "Requests",
            f"`{load.LOAD_REQUESTS.name}` by path, warm-up excluded.",
            {"{{path}}": S.rate(load.LOAD_REQUESTS, ("path",))},
            unit="reqps",
            low=0,
        ),
        graph(
            "Tokens a second",
            f"`{load.LOAD_PROMPT_TOKENS.name}` and `{load.LOAD_OUTPUT_TOKENS.name}` of requests "
            "that came whole.",
            {
                "prompt": S.rate(load.LOAD_PROMPT_TOKENS),
                "output": S.rate(load.LOAD_OUTPUT_TOKENS),
            },
            unit="short",
            low=0,
        ),
        graph(
            "Users",
            f"`{load.USERS.name}`: users of the run at work.",
            {"users": S.sum(load.USERS)},
            unit="short",
            low=0,
        ),
        graph(
            "Failed share",
            f"`{load.LOAD_FAILURES.name}` over `{load.LOAD_REQUESTS.name}`: requests that did not "
            "come whole. They are in no latency above.",
            {"failed": f"{S.rate(load.LOAD_FAILURES)} / {S.rate(load.LOAD_REQUESTS)}"},
            unit="percentunit",
            limits=((0.01, RED),),
            low=0,
            w=12,
        ),
        graph(
            "Outcomes",
            f"`{load.LOAD_REQUESTS.name}` by outcome; `ok...` came whole.",
            {"{{outcome}}": S.rate(load.LOAD_REQUESTS, ("outcome",))},
            unit="reqps",
            is_stacked=True,
            low=0,
            w=12,
        ),
    ),
)

BOARD: Final = build(
    name="run",
    title="tailbreak: Run",
    text="A load test while it runs, as the load side sees it.",
    variables=(
        datasource(),
        label("job", "Job", load.RUN_UP),
        label("instance", "Instance", load.RUN_UP, "job"),
        label("scenario", "Scenario", load.LOAD_REQUESTS, "job", "instance"),
        label("service", "Service", load.LOAD_REQUESTS, "job", "instance", "scenario"),
        label("version", "Version", load.LOAD_REQUESTS, "job", "instance", "scenario", "service"),
        label("cell", "Cell", load.LOAD_REQUESTS, "job", "instance", "scenario", "service"),
        choice("quantile", "Quantile", ("0.5", "0.9", "0.95", "0.99"), "0.99"),
    ),
    rows=(VALIDITY, LATENCY, SHAPES, RATES),
)
