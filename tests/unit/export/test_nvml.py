"""Real pynvml on a fake libnvidia-ml.so.1: every value in its unit, absence where there is none."""

import ctypes
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pandas as pd
import pynvml
import pytest
from prometheus_client import CollectorRegistry

from harness.base.errors import SetupError
from harness.export.nvml.collector import GpuCollector
from harness.export.nvml.counters import Counters
from harness.export.nvml.device import Device
from harness.export.nvml.events import Events
from harness.export.nvml.failure import NvmlMissing
from harness.export.nvml.sampler import Sampler
from harness.export.nvml.session import nvml
from harness.export.nvml.visible import visible
from harness.findings.symptoms import RULES, Context
from harness.metrics.catalogue import gpu
from harness.metrics.window import Telemetry
from tests.exposition import Labels, Samples, labels, read_samples, written
from tests.nvml.fake import A100, MIG, TWO_RINGS, FakeClock, build, loaded, needs_compiler

pytestmark = needs_compiler
MIB = 2**20


def uuid(number: int) -> str:
    return f"GPU-{number:08d}-0000-0000-0000-000000000000"


def of(number: int, **more: str) -> Labels:
    return labels(gpu=str(number), uuid=uuid(number), **more)


class Bench:
    """Sampler and collector upon the fake, without a thread: a test says when a sample is taken."""

    def __init__(self, clock: FakeClock, devices: tuple[Device, ...]) -> None:
        self.clock = clock
        self.events = Events(devices)
        self.sampler = Sampler(devices, self.events, 1.0)
        self.registry = CollectorRegistry()
        self.registry.register(GpuCollector(self.sampler, self.events, "host"))

    def at(self, seconds: float) -> Samples:
        """What is exposed of a sample taken at this time."""
        self.clock.set(seconds)
        self.sampler.latest = self.sampler.sample()
        return self.shown()

    def shown(self) -> Samples:
        """What is exposed now."""
        return read_samples(written(self.registry))


@contextmanager
def bench(folder: Path, scenario: Path, *defines: str) -> Iterator[Bench]:
    with ExitStack() as stack:
        clock = stack.enter_context(loaded(scenario, folder / "clock", *defines))
        found = Bench(clock, stack.enter_context(nvml({})))
        yield found
        found.sampler.close()
        found.events.close()


def scenario(folder: Path, *lines: str) -> Path:
    path = folder / "scenario.txt"
    path.write_text("\n".join(("gpus 1", *lines)))
    return path


def dcgm(samples: Samples, name: str, number: int) -> float:
    """The one sample of a GPU under dcgm-exporter's name."""
    (value,) = (
        value
        for (metric, its), value in samples.items()
        if metric == name and ("UUID", uuid(number)) in its
    )
    return value


def names(samples: Samples, number: int) -> set[str]:
    """Metrics that a GPU has."""
    return {
        name
        for name, its in samples
        if ("uuid", uuid(number)) in its or ("UUID", uuid(number)) in its
    }


def test_structures_are_as_large_as_the_bindings() -> None:
    """The fake fills the structures that pynvml declares, byte for byte."""
    library = ctypes.CDLL(str(build() / "libnvidia-ml.so.1"))
    theirs = [
        pynvml.c_nvmlUtilization_t, pynvml.c_nvmlMemory_t, pynvml.c_nvmlMemory_v2_t,
        pynvml.nvmlPciInfo_t, pynvml.c_nvmlFieldValue_t, pynvml.c_nvmlEventData_t,
        pynvml.c_nvmlGpmMetric_t, pynvml.c_nvmlGpmSupport_t,
    ]  # fmt: skip
    *sizes, array_begins = (ctypes.c_size_t * (len(theirs) + 1)).in_dll(library, "fake_sizes")
    assert sizes == [ctypes.sizeof(each) for each in theirs]
    assert array_begins == pynvml.c_nvmlGpmMetricsGet_t.metrics.offset


def test_values_are_in_base_units_and_dcgm_in_its_own(tmp_path: Path) -> None:
    """Percent to shares, mW to W, MHz to Hz, bytes to MiB, mJ to J: each by hand."""
    with bench(tmp_path, TWO_RINGS) as gpus:
        found = gpus.at(2)
    assert found["mc_gpu_utilisation_ratio", of(0)] == 0.88
    assert found["mc_gpu_dram_active_ratio", of(0, source="gpm")] == 0.64
    assert ("mc_gpu_dram_active_ratio", of(0, source="utilisation")) not in found
    assert found["mc_gpu_power_watts", of(0)] == 520
    assert found["mc_gpu_power_limit_watts", of(0)] == 700
    assert found["mc_gpu_energy_joules_total", of(0)] == 1000 + 2 * 520
    assert found["mc_gpu_clock_hertz", of(0, clock="sm")] == 1.98e9
    assert found["mc_gpu_memory_bytes", of(0, state="used")] == 96256 * MIB
    assert found["mc_gpu_memory_bytes", of(0, state="reserved")] == 1024 * MIB
    assert found["mc_gpu_temperature_celsius", of(0, sensor="memory")] == 58
    assert found["mc_gpu_ecc_errors_total", of(0, kind="corrected")] == 3
    assert found["mc_gpu_performance_state", of(0)] == 0
    assert dcgm(found, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 0) == 1e6 + 2 * 520000
    assert dcgm(found, "DCGM_FI_DEV_FB_USED", 0) == 96256
    assert dcgm(found, "DCGM_FI_DEV_SM_CLOCK", 0) == 1980
    assert dcgm(found, "DCGM_FI_DEV_GPU_UTIL", 0) == 88
    assert dcgm(found, "DCGM_FI_DEV_MEM_COPY_UTIL", 0) == 41
    assert dcgm(found, "DCGM_FI_DEV_XID_ERRORS", 0) == 0


def test_gpm_tells_what_lay_between_two_samples(tmp_path: Path) -> None:
    """A ramp from 20 to 60 % between two samples is 0.4; MiB/s become bytes/s; nothing at first."""
    path = scenario(tmp_path, "* gpm 1", "* gpm.2 0=20 10=60", "* gpm.10 95", "* gpm.61 100")
    with bench(tmp_path, path) as gpus:
        first = gpus.shown()
        found = gpus.at(10)
    assert not [name for name, _ in first if "sm_active" in name or "PROF" in name]
    assert found["mc_gpu_sm_active_ratio", of(0)] == pytest.approx(0.4)
    assert dcgm(found, "DCGM_FI_PROF_SM_ACTIVE", 0) == pytest.approx(0.4)
    assert found["mc_gpu_dram_active_ratio", of(0, source="gpm")] == pytest.approx(0.95)
    assert dcgm(found, "DCGM_FI_PROF_NVLINK_TX_BYTES", 0) == 100 * MIB


def test_nvlink_counters_are_kib_by_link_and_direction(tmp_path: Path) -> None:
    """KiB become bytes, for each link; dcgm-exporter's sum is over both directions, in KiB."""
    with bench(tmp_path, TWO_RINGS) as gpus:
        found = gpus.at(1)
    link = (1048576 + 2048000) * 1024
    assert found["mc_gpu_nvlink_bytes_total", of(0, nvlink="11", direction="rx")] == link
    assert dcgm(found, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 0) == 24 * link / 1024
    assert found["mc_gpu_nvlink_errors_total", of(1, nvlink="11", kind="replay")] == 20
    assert found["mc_gpu_pcie_bytes_total", of(0, direction="tx")] == 1e9 + 1024 * MIB
    assert found["mc_gpu_nvlink_up", of(0, nvlink="5", peer="1")] == 1
    assert found["mc_gpu_nvlink_up", of(0, nvlink="6", peer="3")] == 1
    assert not [name for name, _ in found if name == "mc_gpu_pcie_bytes_per_second"]


def test_a_link_that_goes_down_is_told(tmp_path: Path) -> None:
    """GPU 1's last link is down from 3 s on, after its replays had grown."""
    with bench(tmp_path, TWO_RINGS) as gpus:
        before, after = gpus.at(2.5), gpus.at(3)
    assert before["mc_gpu_nvlink_up", of(1, nvlink="11", peer="0")] == 1
    assert after["mc_gpu_nvlink_up", of(1, nvlink="11", peer="0")] == 0
    assert after["mc_gpu_nvlink_errors_total", of(1, nvlink="11", kind="replay")] == 40


def test_a_counter_that_goes_back_drops_the_interval(tmp_path: Path) -> None:
    """GPU 7's counters begin again at 5 s: the total never falls, loses that second and says so."""
    key = "mc_gpu_nvlink_bytes_total", of(7, nvlink="0", direction="tx")
    with bench(tmp_path, TWO_RINGS) as gpus:
        told = [gpus.at(seconds)[key] / 1024 for seconds in (4, 4.5, 5.5, 6.5)]
        found = gpus.shown()
    assert told[1] - told[0] == 0.5 * 2048000
    assert told[2] == told[1]
    assert told[3] - told[2] == 2048000
    resets = found["mc_gpu_counter_resets_total", of(7, metric="mc_gpu_nvlink_bytes_total")]
    assert resets == 24
    assert ("mc_gpu_counter_resets_total", of(0, metric="mc_gpu_nvlink_bytes_total")) not in found


def test_a_counter_that_wraps_is_a_reset() -> None:
    """From near 2^32 to 10 is no growth of 4 billion and no fall: it is counted once."""
    counters = Counters()
    told = [counters.advance("a", "m", (), raw) for raw in (2**32 - 5, 2**32 - 1, 10, 30)]
    assert told == [2**32 - 5, 2**32 - 1, 2**32 - 1, 2**32 + 19]
    assert counters.resets == {("a", "m"): 1}


def test_a_counter_past_two_to_the_63_stays_positive(tmp_path: Path) -> None:
    """The union's member follows the value's type: an unsigned counter is never read as signed."""
    path = scenario(tmp_path, "* field.197 1e19", "* field.94 7", "field_type 94 5")
    with bench(tmp_path, path) as gpus:
        found = gpus.at(1)
    assert found["mc_gpu_pcie_bytes_total", of(0, direction="tx")] == 1e19
    assert found["mc_gpu_pcie_replays_total", of(0)] == 7


def test_a_lost_gpu_is_down_and_the_others_go_on(tmp_path: Path) -> None:
    """GPU 6 falls off the bus at 6 s: `up 0`, one event, no other series; GPU 5 is as before."""
    with bench(tmp_path, TWO_RINGS) as gpus:
        assert gpus.at(5.9)["mc_gpu_up", of(6)] == 1
        found = [gpus.at(seconds) for seconds in (6, 7)][-1]
    assert found["mc_gpu_up", of(6)] == 0
    assert found["mc_gpu_events_total", of(6, event="lost")] == 1
    gone = names(found, 6) - {"mc_gpu_up", "mc_gpu_events_total", "DCGM_FI_DEV_XID_ERRORS"}
    assert not gone
    assert found["mc_gpu_up", of(5)] == 1
    assert found["mc_gpu_utilisation_ratio", of(5)] == 0.52
    assert found["gpu_exporter_up", labels(reason="")] == 1


def test_a_gpu_that_is_lost_at_the_start_has_no_uuid(tmp_path: Path) -> None:
    """Nothing can be asked of it, not even its name; the exporter starts all the same."""
    with bench(tmp_path, scenario(tmp_path, "* fails !15")) as gpus:
        found = gpus.at(1)
    assert found["mc_gpu_up", labels(gpu="0", uuid="")] == 0


def test_a_name_that_is_no_text_costs_that_gpu_only(tmp_path: Path) -> None:
    """A model name that is not UTF-8: the GPU is told as down, nothing breaks."""
    path = tmp_path / "scenario.txt"
    path.write_bytes(b"gpus 2\n0 name \xff\xfe\n1 power 5000\n")
    with bench(tmp_path, path) as gpus:
        found = gpus.at(1)
    assert found["mc_gpu_up", labels(gpu="0", uuid="")] == 0
    assert found["mc_gpu_power_watts", of(1)] == 5


def test_events_are_counted_by_code(tmp_path: Path) -> None:
    """Two XID 79 and one XID 48 of GPU 3, a P-state change of GPU 2, each once."""
    with bench(tmp_path, TWO_RINGS) as gpus:
        gpus.clock.set(5)
        for _ in range(4):
            gpus.events._note(pynvml.nvmlEventSetWait_v2(gpus.events._set, 1000))
        with pytest.raises(pynvml.NVMLError_Timeout):
            pynvml.nvmlEventSetWait_v2(gpus.events._set, 1)
        found = gpus.shown()
    assert found["mc_gpu_xid_errors_total", of(3, xid="79")] == 2
    assert found["mc_gpu_xid_errors_total", of(3, xid="48")] == 1
    assert found["mc_gpu_events_total", of(3, event="xid")] == 3
    assert found["mc_gpu_events_total", of(2, event="pstate")] == 1
    assert found["mc_gpu_events_total", of(0, event="xid")] == 0
    assert dcgm(found, "DCGM_FI_DEV_XID_ERRORS", 3) == 48


def test_throttling_is_told_by_reason(tmp_path: Path) -> None:
    """Bit 4 is the software power cap; the other reasons are 0."""
    with bench(tmp_path, TWO_RINGS) as gpus:
        found = gpus.at(1)
    assert found["mc_gpu_throttled", of(2, reason="sw_power_cap")] == 1
    assert found["mc_gpu_throttled", of(2, reason="hw_thermal")] == 0
    assert found["mc_gpu_throttled", of(7, reason="hw_thermal")] == 1
    assert found["mc_gpu_throttled", of(1, reason="sw_power_cap")] == 0


@pytest.mark.parametrize(
    ("defines", "reason"), [((), "not supported"), (("OLD_LIBRARY",), "driver too old")]
)
def test_an_a100_has_no_gpm_series_and_says_why(
    tmp_path: Path, defines: tuple[str, ...], reason: str
) -> None:
    """No zero for what cannot be read; utilisation stands in for DRAM activity, and says so."""
    with bench(tmp_path, A100, *defines) as gpus:
        found = gpus.at(1)
    assert not [name for name, _ in found if name == "mc_gpu_sm_active_ratio" or "PROF" in name]
    supported = "mc_gpu_metric_supported"
    assert found[supported, of(0, metric="mc_gpu_sm_active_ratio", reason=reason)] == 0
    assert found[supported, of(0, metric="mc_gpu_utilisation_ratio", reason="")] == 1
    assert found["mc_gpu_dram_active_ratio", of(0, source="utilisation")] == 0.93
    rate = of(0, direction="rx", source="sampled")
    assert found["mc_gpu_pcie_bytes_per_second", rate] == 4096 * 1024
    assert not [name for name, _ in found if name == "mc_gpu_pcie_bytes_total"]


def test_old_links_are_read_from_fields_of_their_own(tmp_path: Path) -> None:
    """Before Hopper, replays of links 0-5 are fields 46-51, those of links 6-11 108-113."""
    with bench(tmp_path, A100) as gpus:
        found = gpus.at(1)
    assert found["mc_gpu_nvlink_errors_total", of(0, nvlink="0", kind="replay")] == 7
    assert found["mc_gpu_nvlink_errors_total", of(0, nvlink="6", kind="replay")] == 9
    assert ("mc_gpu_nvlink_errors_total", of(0, nvlink="0", kind="crc")) not in found
    assert found["mc_gpu_nvlink_up", of(0, nvlink="0", peer="switch")] == 1


def test_what_is_not_permitted_says_so(tmp_path: Path) -> None:
    """GPU 1 may not be asked for its ECC errors; GPU 0 may."""
    with bench(tmp_path, A100) as gpus:
        found = gpus.at(1)
    metric = "mc_gpu_ecc_errors_total"
    assert found["mc_gpu_metric_supported", of(1, metric=metric, reason="no permission")] == 0
    assert (metric, of(1, kind="corrected")) not in found
    assert found[metric, of(0, kind="corrected")] == 0


def test_mig_instances_have_their_own_memory_and_activity(tmp_path: Path) -> None:
    """Series of an instance carry its UUID; dcgm-exporter's also its profile and number."""
    with bench(tmp_path, MIG) as gpus:
        found = gpus.at(1)
    small, large = (
        labels(gpu="0", uuid=f"MIG-00000000-000{index}-0000-0000-000000000000")
        for index in range(2)
    )
    assert found["mc_gpu_sm_active_ratio", small] == 0.25
    assert found["mc_gpu_sm_active_ratio", large] == 0.75
    assert found["mc_gpu_memory_bytes", small | labels(state="used")] == 1024 * MIB
    profiles = {
        (dict(its)["GPU_I_PROFILE"], dict(its)["GPU_I_ID"])
        for name, its in found
        if name == "DCGM_FI_DEV_FB_USED"
    }
    assert profiles == {("", ""), ("1g.10gb", "7"), ("3g.40gb", "2")}
    assert ("mc_gpu_utilisation_ratio", of(0)) not in found


def test_a_value_is_tried_again_after_a_passing_error(tmp_path: Path) -> None:
    """A timeout costs one sample, not the metric."""
    with bench(tmp_path, scenario(tmp_path, "* power !10 2=300000")) as gpus:
        first, second = gpus.at(1), gpus.at(2)
    metric = "mc_gpu_power_watts"
    assert (metric, of(0)) not in first
    assert first["mc_gpu_metric_supported", of(0, metric=metric, reason="timeout")] == 0
    assert second[metric, of(0)] == 300


def test_a_snapshot_that_is_old_is_not_shown(tmp_path: Path) -> None:
    """A driver that hangs must not look like values that stand still."""
    with bench(tmp_path, TWO_RINGS) as gpus:
        taken = gpus.sampler.latest
        gpus.sampler.latest = type(taken)(
            taken_ns=taken.taken_ns - 10 * 10**9, readings=taken.readings
        )
        found = gpus.shown()
    assert found == {("gpu_exporter_up", labels(reason="stale")): 0}


def test_dcgm_names_carry_its_labels(tmp_path: Path) -> None:
    """The label names are dcgm-exporter's, `hostname` in lower case."""
    with bench(tmp_path, TWO_RINGS) as gpus:
        found = gpus.shown()
    (its,) = (
        dict(its) for name, its in found if name == "DCGM_FI_DEV_GPU_TEMP" and ("gpu", "3") in its
    )
    assert tuple(sorted(its)) == tuple(sorted(gpu.DCGM_LABELS))
    assert (its["device"], its["pci_bus_id"], its["modelName"], its["hostname"]) == (
        "nvidia3", "00000000:13:00.0", "NVIDIA H200", "host",
    )  # fmt: skip


def test_nvml_that_does_not_start_is_told(tmp_path: Path) -> None:
    """Error 9 of nvmlInit is a driver that is not loaded."""
    path = scenario(tmp_path, "init 9")
    with (
        loaded(path, tmp_path / "clock"),
        pytest.raises(NvmlMissing, match="driver not loaded") as caught,
        nvml({}),
    ):
        pass
    assert caught.value.reason == "driver not loaded"


def device(number: int, model: str = "NVIDIA H200") -> Device:
    return Device(handle=number, parent=number, gpu=number, uuid=uuid(number), model=model)


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        (None, [0, 1, 2]), ("", []), ("2,0", [2, 0]), ("GPU-00000001", [1]), ("-1", []),
        ("0,7,1", [0]),
    ],
)  # fmt: skip
def test_cuda_visible_devices_is_read_as_cuda_does(wanted: str | None, seen: list[int]) -> None:
    """Numbers and UUID prefixes in order; the list ends at the first word that names nothing."""
    environment = {} if wanted is None else {"CUDA_VISIBLE_DEVICES": wanted}
    found = visible([device(number) for number in range(3)], environment)
    assert [each.gpu for each in found] == seen


def test_a_number_among_several_models_is_refused() -> None:
    """CUDA counts the fastest first, NVML along the bus; with PCI_BUS_ID both count alike."""
    devices = [device(0, "NVIDIA L4"), device(1)]
    with pytest.raises(SetupError, match="CUDA_DEVICE_ORDER=PCI_BUS_ID"):
        visible(devices, {"CUDA_VISIBLE_DEVICES": "0"})
    order = {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert visible(devices, order) == (devices[0],)
    assert visible(devices, {"CUDA_VISIBLE_DEVICES": uuid(1)}) == (devices[1],)


def test_rules_read_what_the_exporter_says(tmp_path: Path) -> None:
    """The two rings' scenario, sampled each half second: every fault in it is named, by its GPU."""
    with bench(tmp_path, TWO_RINGS) as gpus:
        rows = [
            (1_700_000_000 + step / 2, name, its, value)
            for step in range(19)
            for (name, its), value in gpus.at(step / 2).items()
        ]
    frame = pd.DataFrame(
        {
            "time_unix_ns": [int(row[0] * 1e9) for row in rows],
            "source": "gpu",
            "name": [row[1] for row in rows],
            "labels": [tuple(sorted(row[2])) for row in rows],
            "value": [row[3] for row in rows],
            "kind": "",
        }
    )
    context = Context(fault=Telemetry(frame).window())
    found = {symptom.name: symptom.seen for rule in RULES if (symptom := rule(context))}
    # GPU 2 is held down by its power cap, which says nothing without a normal time beside it.
    assert found.keys() == {"gpu_errors", "gpu_straggler", "gpu_bandwidth", "gpu_throttled"}
    assert found["gpu_throttled"].startswith("GPU 7")
    assert "hw_thermal" in found["gpu_throttled"]
    assert found["gpu_errors"].startswith("GPU 6 gone")
    assert found["gpu_straggler"].startswith("GPU 2")
    assert found["gpu_bandwidth"].startswith("GPU 5")
