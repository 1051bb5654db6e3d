"""*GPU and NVLink*: what the devices do, what holds them back, and why a panel may be empty."""

from __future__ import annotations

from typing import Final

from dashboards.alerts import HELD_DOWN
from dashboards.layout import Row, build, datasource, label
from dashboards.panels import AMBER, GREEN, RED, graph, stat, states, table
from dashboards.promql import Scope
from harness.metrics.catalogue import gpu

S: Final = Scope(("job", "instance", "gpu"))
GPU: Final = ("instance", "gpu")
LINK: Final = (*GPU, "nvlink")
NAME: Final = "{{instance}} GPU {{gpu}}"
_LINK_RATE: Final = S.rate(gpu.NVLINK_BYTES, LINK)

STATE: Final = Row(
    "Are they all there?",
    (
        stat(
            "Exporter reads NVML",
            f"`{gpu.EXPORTER_UP.name}`: 0 where NVML is missing or failed; its label says why.",
            {"": f"min({S.select(gpu.EXPORTER_UP)})"},
            unit="short",
            words={"1": ("yes", GREEN), "0": ("no", RED)},
            none="no GPU exporter",
        ),
        stat(
            "GPUs that answer",
            f"`{gpu.GPU_UP.name}` beside how many were seen: one that falls off the bus stays "
            "counted.",
            {"answer": S.sum(gpu.GPU_UP), "seen": f"count({S.select(gpu.GPU_UP)})"},
            unit="short",
        ),
        stat(
            "XID errors",
            f"`{gpu.GPU_XID.name}` since the exporter started, all codes. Any makes a run suspect.",
            {"": f"{S.sum(gpu.GPU_XID)} or vector(0)"},
            unit="short",
            limits=((1, RED),),
        ),
        stat(
            "Links up",
            f"`{gpu.NVLINK_UP.name}` beside how many there are: a link that is down bends every "
            "collective.",
            {"up": S.sum(gpu.NVLINK_UP), "all": f"count({S.select(gpu.NVLINK_UP)})"},
            unit="short",
            none="no NVLink",
        ),
        stat(
            "Power",
            f"`{gpu.GPU_POWER.name}`, all GPUs chosen.",
            {"": S.sum(gpu.GPU_POWER)},
            unit="watt",
        ),
        stat(
            "Hottest sensor",
            f"`{gpu.GPU_TEMPERATURE.name}`: the hottest of all GPUs and memories chosen.",
            {"": S.max(gpu.GPU_TEMPERATURE)},
            unit="celsius",
            limits=((80, AMBER), (90, RED)),
        ),
    ),
)
WORK: Final = Row(
    "Busy with what?",
    (
        graph(
            "Utilisation",
            f"`{gpu.GPU_UTILISATION.name}`: share of time at which any kernel ran. One small "
            "kernel after another is 100 % too: read it beside the other two.",
            {NAME: S.max(gpu.GPU_UTILISATION, GPU)},
            unit="percentunit",
            low=0,
            high=1,
        ),
        graph(
            "SM active",
            f"`{gpu.GPU_SM_ACTIVE.name}`: share of cycles an SM had work. Hopper and newer only.",
            {NAME: S.max(gpu.GPU_SM_ACTIVE, GPU)},
            unit="percentunit",
            low=0,
            high=1,
        ),
        graph(
            "DRAM active",
            f"`{gpu.GPU_DRAM_ACTIVE.name}`: above 92 % with utilisation below 60 % the work is "
            "bound by memory bandwidth. `gpm` counts cycles; `utilisation` is a coarse share.",
            {f"{NAME} ({{{{source}}}})": S.max(gpu.GPU_DRAM_ACTIVE, (*GPU, "source"))},
            unit="percentunit",
            limits=((0.92, RED),),
            low=0,
            high=1,
        ),
        graph(
            "Memory used",
            f"`{gpu.GPU_MEMORY.name}`: used over all of it.",
            {NAME: f"{S.sum(gpu.GPU_MEMORY, GPU, state='used')} / {S.sum(gpu.GPU_MEMORY, GPU)}"},
            unit="percentunit",
            limits=((0.95, AMBER),),
            low=0,
            high=1,
        ),
        graph(
            "Power over limit",
            f"`{gpu.GPU_POWER.name}` over `{gpu.GPU_POWER_LIMIT.name}`: at 100 % the clocks go "
            "down.",
            {NAME: f"{S.max(gpu.GPU_POWER, GPU)} / {S.max(gpu.GPU_POWER_LIMIT, GPU)}"},
            unit="percentunit",
            limits=((1, RED),),
            low=0,
        ),
        graph(
            "Energy",
            f"`{gpu.GPU_ENERGY.name}` a second: power as the GPU's own counter has it, without "
            "gaps between samples.",
            {NAME: S.rate(gpu.GPU_ENERGY, GPU)},
            unit="watt",
            low=0,
        ),
        graph(
            "SM clock",
            f"`{gpu.GPU_CLOCK.name}` of the SMs: a step down under load is throttling.",
            {NAME: S.max(gpu.GPU_CLOCK, GPU, clock="sm")},
            unit="hertz",
        ),
        graph(
            "Temperature",
            f"`{gpu.GPU_TEMPERATURE.name}` by sensor.",
            {f"{NAME} {{{{sensor}}}}": S.max(gpu.GPU_TEMPERATURE, (*GPU, "sensor"))},
            unit="celsius",
            limits=((80, AMBER), (90, RED)),
        ),
        states(
            "Throttled",
            f"`{gpu.GPU_THROTTLE.name}`: while clocks are held down, and why; idleness and "
            "clocks that somebody set are left out. No row is good.",
            {
                f"{NAME} {{{{reason}}}}": S.max(
                    gpu.GPU_THROTTLE, (*GPU, "reason"), reason=HELD_DOWN
                )
                + " == 1"
            },
            words={"1": ("held down", AMBER)},
            w=8,
            h=8,
        ),
    ),
)
LINKS: Final = Row(
    "NVLink and PCIe",
    (
        graph(
            "NVLink, each GPU",
            f"`{gpu.NVLINK_BYTES.name}` a second by direction, all links.",
            {f"{NAME} {{{{direction}}}}": S.rate(gpu.NVLINK_BYTES, (*GPU, "direction"))},
            unit="Bps",
            low=0,
        ),
        graph(
            "NVLink, each link",
            f"`{gpu.NVLINK_BYTES.name}` a second, both directions.",
            {f"{NAME} link {{{{nvlink}}}}": _LINK_RATE},
            unit="Bps",
            low=0,
        ),
        graph(
            "Asymmetry",
            f"`{gpu.NVLINK_BYTES.name}`: each link over the mean of its host. In a "
            "ring all are near 1; one far below is a bad link or a straggler, one far above a "
            "detour.",
            {
                f"{NAME} link {{{{nvlink}}}}": f"{_LINK_RATE} / on (instance) "
                f"group_left () avg by (instance) ({_LINK_RATE})"
            },
            unit="none",
            low=0,
        ),
        graph(
            "NVLink errors",
            f"`{gpu.NVLINK_ERRORS.name}` by kind: replays cost time before they cost data.",
            {f"{NAME} {{{{kind}}}}": S.rate(gpu.NVLINK_ERRORS, (*GPU, "kind"))},
            unit="short",
            limits=((0.01, RED),),
            low=0,
        ),
        graph(
            "PCIe",
            f"`{gpu.PCIE_BYTES.name}` a second by direction: copies between host and device.",
            {f"{NAME} {{{{direction}}}}": S.rate(gpu.PCIE_BYTES, (*GPU, "direction"))},
            unit="Bps",
            low=0,
        ),
        graph(
            "PCIe replays",
            f"`{gpu.PCIE_REPLAYS.name}`: retries; a slot or a riser that goes bad.",
            {NAME: S.rate(gpu.PCIE_REPLAYS, GPU)},
            unit="short",
            limits=((0.01, AMBER),),
            low=0,
        ),
    ),
)
TROUBLE: Final = Row(
    "What went wrong, and why is this empty?",
    (
        table(
            "XID errors by code",
            f"`{gpu.GPU_XID.name}`: 31 and 43 are the program's, 48, 63, 64, 79, 94 and 95 the "
            "hardware's (79: fell off the bus).",
            S.sum(gpu.GPU_XID, (*GPU, "xid")),
            {"instance": "Instance", "gpu": "GPU", "xid": "XID", "Value": "Seen"},
            unit="short",
            limits=((1, RED),),
            w=8,
        ),
        table(
            "Events",
            f"`{gpu.GPU_EVENTS.name}` since the exporter started, those that happened.",
            f"{S.sum(gpu.GPU_EVENTS, (*GPU, 'event'))} > 0",
            {"instance": "Instance", "gpu": "GPU", "event": "Event", "Value": "Seen"},
            unit="short",
            w=8,
        ),
        table(
            "Why is a panel empty?",
            f"`{gpu.GPU_SUPPORTED.name}`: what cannot be read on a GPU, and why. Absent is not "
            "zero.",
            f"{S.sum(gpu.GPU_SUPPORTED, (*GPU, 'metric', 'reason'))} == 0",
            {
                "instance": "Instance",
                "gpu": "GPU",
                "metric": "Metric",
                "reason": "Reason",
                "Value": "Readable",
            },
            unit="short",
            w=8,
        ),
    ),
)

BOARD: Final = build(
    name="gpu",
    title="tailbreak: GPU and NVLink",
    text="GPUs, NVLink and PCIe as `tailbreak exporter` reads them.",
    variables=(
        datasource(),
        label("job", "Job", gpu.EXPORTER_UP),
        label("instance", "Instance", gpu.EXPORTER_UP, "job"),
        label("gpu", "GPU", gpu.GPU_UP, "job", "instance"),
    ),
    rows=(STATE, WORK, LINKS, TROUBLE),
)
