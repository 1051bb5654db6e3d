"""*Server*: the bundled inference server from inside, from requests down to its processes."""

from __future__ import annotations

from typing import Final

from dashboards.layout import Row, build, choice, datasource, label
from dashboards.panels import AMBER, GREEN, RED, Draft, graph, heat, stat, table
from dashboards.promql import Scope
from harness.metrics.catalogue import server
from harness.metrics.catalogue.metric import Metric

S: Final = Scope(("job", "instance", "path"))
Q: Final = "$quantile"


def _tail(name: str, metric: Metric) -> Draft:
    return stat(
        f"{name} P99",
        f"P99 of `{metric.name}` over all paths, to within a bucket.",
        {"": S.quantile("0.99", metric)},
        unit="s",
        w=3,
    )


OVERVIEW: Final = Row(
    "Overview",
    (
        stat(
            "Requests",
            f"`{server.REQUESTS.name}`: finished requests of every outcome.",
            {"": S.rate(server.REQUESTS)},
            unit="reqps",
            w=3,
        ),
        stat(
            "Prompt tokens",
            f"`{server.PROMPT_TOKENS.name}` of finished requests.",
            {"": S.rate(server.PROMPT_TOKENS)},
            unit="short",
            w=3,
        ),
        stat(
            "Output tokens",
            f"`{server.OUTPUT_TOKENS.name}`, reasoning included.",
            {"": S.rate(server.OUTPUT_TOKENS)},
            unit="short",
            w=3,
        ),
        _tail("TTFT", server.TTFT),
        _tail("ITL", server.ITL),
        _tail("E2E", server.INFER_DURATION),
        stat(
            "Answers 5xx",
            f"`{server.REFUSED_5XX.name}`: answers with a status of 500 and above, a second.",
            {"": S.rate(server.REFUSED_5XX)},
            unit="reqps",
            limits=((0.001, RED),),
            w=3,
        ),
        stat(
            "Pools that serve",
            f"`{server.POOL_UP.name}`: engine processes that live; a dead one is not brought back.",
            {"": f"min({S.select(server.POOL_UP)})"},
            unit="short",
            words={"1": ("all", GREEN), "0": ("one died", RED)},
            none="no server",
            w=3,
        ),
    ),
)


def _by_path(name: str, metric: Metric, text: str) -> Draft:
    return graph(
        f"{name} by path",
        f"Quantile of `{metric.name}`. {text}",
        {"{{path}}": S.quantile(Q, metric, ("path",))},
        unit="s",
        is_log=True,
        has_exemplars=True,
    )


LATENCY: Final = Row(
    "Latency",
    (
        _by_path("TTFT", server.TTFT, "From arrival, so without network and client."),
        _by_path("ITL", server.ITL, "As the engine produced the tokens."),
        _by_path("E2E", server.INFER_DURATION, "From arrival to the last event."),
        heat(
            "TTFT, all requests",
            f"`{server.TTFT.name}` by bucket: a second band is a second regime.",
            S.buckets(server.TTFT),
        ),
        heat("ITL, all tokens", f"`{server.ITL.name}` by bucket.", S.buckets(server.ITL)),
    ),
)


def _phases(path: str) -> Draft:
    spent = S.rate(server.PHASE_DURATION, ("phase",), "_sum", path=path)
    finished = S.rate(server.INFER_DURATION, (), "_count", path=path)
    return graph(
        f"Phases of a request, {path}",
        f"Mean of `{server.PHASE_DURATION.name}` a finished request; the phases add up to its "
        "wall time. The one that grows is the one to look into.",
        {"{{phase}}": f"{spent} / scalar({finished})"},
        unit="s",
        is_stacked=True,
        low=0,
        w=12,
    )


PHASES: Final = Row("Where the time goes", (_phases("baseline"), _phases("accelerated")))
ENGINE: Final = Row(
    "Queue, batch and memory",
    (
        graph(
            "Sequences",
            f"`{server.RUNNING.name}` hold KV memory, `{server.WAITING.name}` wait for it or for a "
            "slot: a queue that stays is load above capacity.",
            {"running": S.sum(server.RUNNING), "waiting": S.sum(server.WAITING)},
            unit="short",
            low=0,
        ),
        graph(
            "Batch",
            f"Mean and P99 of `{server.BATCH.name}`: sequences in an engine step.",
            {
                "mean": S.mean(server.BATCH),
                "P99": S.quantile("0.99", server.BATCH),
            },
            unit="short",
            low=0,
        ),
        graph(
            "KV memory",
            f"`{server.KV_HELD.name}` and `{server.KV_KEPT.name}` over "
            f"`{server.KV_CAPACITY.name}`. Held near 100 % makes sequences wait or be evicted; "
            "kept is free for the taking.",
            {
                "held": f"{S.sum(server.KV_HELD)} / {S.sum(server.KV_CAPACITY)}",
                "kept": f"{S.sum(server.KV_KEPT)} / {S.sum(server.KV_CAPACITY)}",
            },
            unit="percentunit",
            limits=((0.95, RED),),
            low=0,
            high=1,
        ),
        graph(
            "Evictions and restarts",
            f"`{server.EVICTIONS.name}`: sequences computed again for lack of KV memory; "
            f"`{server.RESTARTS.name}`: requests begun anew because a pool died.",
            {"evictions": S.rate(server.EVICTIONS), "restarts": S.rate(server.RESTARTS)},
            unit="reqps",
            limits=((0.1, AMBER),),
            low=0,
        ),
        graph(
            "Prefix hits",
            f"`{server.PREFIX_HITS.name}` over `{server.PREFIX_QUERIES.name}`: share of the prompt "
            "tokens looked up that need not be computed. A fall at the same traffic is a lost "
            "cache.",
            {"hit": f"{S.rate(server.PREFIX_HITS)} / {S.rate(server.PREFIX_QUERIES)}"},
            unit="percentunit",
            low=0,
        ),
        graph(
            "Refused, by status",
            f"`{server.REFUSED.name}`: 429 is a full queue, 4xx the client's, 5xx ours.",
            {"{{status}}": S.rate(server.REFUSED, ("status",))},
            unit="reqps",
            is_stacked=True,
            low=0,
        ),
    ),
)
PROCESSES: Final = Row(
    "Processes and stores",
    (
        graph(
            "Time in garbage collection",
            f"`{server.GC_PAUSE.name}`: share of each process's time. 2 % is a tail of its own, "
            "5 % wants `gc_tuned`.",
            {"{{process}}": S.rate(server.GC_PAUSE, ("process",), "_sum")},
            unit="percentunit",
            limits=((0.02, AMBER), (0.05, RED)),
            low=0,
        ),
        graph(
            "Pauses",
            f"P99 of `{server.GC_PAUSE.name}` by process and generation: what one request may "
            "meet.",
            {
                "{{process}} gen {{generation}}": S.quantile(
                    "0.99", server.GC_PAUSE, ("process", "generation")
                )
            },
            unit="s",
            is_log=True,
        ),
        graph(
            "Objects allocated",
            f"`{server.GC_ALLOCATED.name}`: what makes the collector run.",
            {"{{process}}": S.rate(server.GC_ALLOCATED, ("process",))},
            unit="short",
            low=0,
        ),
        graph(
            "Heap",
            f"`{server.HEAP.name}` of each process: steady growth under steady load is a leak.",
            {"{{process}}": S.sum(server.HEAP, ("process",))},
            unit="bytes",
            low=0,
        ),
        graph(
            "Event loop lag",
            f"`{server.LOOP_LAG.name}`: how late the front wakes. It is added to every token "
            "that leaves.",
            {
                "P50": S.quantile("0.5", server.LOOP_LAG),
                "P99": S.quantile("0.99", server.LOOP_LAG),
            },
            unit="s",
            limits=((0.01, AMBER),),
            is_log=True,
        ),
        graph(
            "Journal connections",
            f"`{server.STORE_IN_USE.name}` under `{server.STORE_LIMIT.name}`, and "
            f"`{server.STORE_WAITING.name}`: at the limit rows wait, then requests.",
            {
                "in use": S.sum(server.STORE_IN_USE),
                "limit": S.sum(server.STORE_LIMIT),
                "rows waiting": S.sum(server.STORE_WAITING),
            },
            unit="short",
            low=0,
        ),
        graph(
            "Journal trouble",
            f"`{server.JOURNAL_FAILURES.name}` and `{server.JOURNAL_WAITS.name}`.",
            {
                "rows lost": S.rate(server.JOURNAL_FAILURES),
                "requests that waited": S.rate(server.JOURNAL_WAITS),
            },
            unit="reqps",
            limits=((0.1, AMBER),),
            low=0,
        ),
        graph(
            "Energy a token",
            f"`{server.ENERGY.name}` over `{server.OUTPUT_TOKENS.name}`. Empty where the machine "
            "lets nobody read its energy counters.",
            {"joules": f"{S.rate(server.ENERGY)} / {S.rate(server.OUTPUT_TOKENS)}"},
            unit="joule",
            low=0,
        ),
        table(
            "Planted faults",
            f"`{server.FAULT_INFO.name}`: faults given to this server at its start. Numbers from a "
            "server with any are no evidence about a healthy one. Empty is good.",
            S.max(server.FAULT_INFO, ("instance", "fault")),
            {"instance": "Instance", "fault": "Fault", "Value": "Planted"},
            unit="short",
            w=8,
        ),
    ),
)

BOARD: Final = build(
    name="server",
    title="tailbreak: Server",
    text="The bundled inference server from inside.",
    variables=(
        datasource(),
        label("job", "Job", server.POOL_UP),
        label("instance", "Instance", server.POOL_UP, "job"),
        label("path", "Path", server.REQUESTS, "job", "instance"),
        choice("quantile", "Quantile", ("0.5", "0.9", "0.95", "0.99"), "0.99"),
    ),
    rows=(OVERVIEW, LATENCY, PHASES, ENGINE, PROCESSES),
)
