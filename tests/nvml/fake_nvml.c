/* libnvidia-ml.so.1 without a GPU, for tests: values come from a scenario file (scenario.h), time
   from a clock file. -DOLD_LIBRARY leaves out what drivers before Hopper do not export. */
#include <stddef.h>

#include "nvml.h"
#include "scenario.h"

#define API __attribute__((visibility("default"))) int
typedef Device *Handle;

static int is_open;

__attribute__((constructor)) static void loaded(void) { loaded_at = monotonic(); }

API nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (is_open) return ++is_open, SUCCESS;
    int error = read_scenario();
    is_open = !error;
    return error;
}
API nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API nvmlShutdown(void) { return is_open ? (is_open--, SUCCESS) : UNINITIALIZED; }

__attribute__((visibility("default"))) const char *nvmlErrorString(int code) {
    switch (code) {
        case SUCCESS: return "Success";
        case NOT_SUPPORTED: return "Not Supported";
        case NO_PERMISSION: return "Insufficient Permissions";
        case DRIVER_NOT_LOADED: return "Driver Not Loaded";
        case GPU_IS_LOST: return "GPU is lost";
        default: return "Unknown Error";
    }
}

static int text(const char *from, char *to, unsigned size) {
    return snprintf(to, size, "%s", from) < (int)size ? SUCCESS : INSUFFICIENT_SIZE;
}
static int whole(Handle device, const char *key, unsigned *to) {
    double value = 0;
    int error = value_of(device, key, &value);
    if (!error) *to = (unsigned)value;
    return error;
}
static int large(Handle device, const char *key, unsigned long long *to) {
    double value = 0;
    int error = value_of(device, key, &value);
    if (!error) *to = (unsigned long long)value;
    return error;
}
/* NOT_SUPPORTED means only that the scenario says nothing: the device is there. */
static int alive(Handle device) {
    double ignored;
    int error = value_of(device, "-", &ignored);
    return error == NOT_SUPPORTED ? SUCCESS : error;
}

API nvmlSystemGetDriverVersion(char *to, unsigned size) { return text(driver, to, size); }
API nvmlSystemGetNVMLVersion(char *to, unsigned size) { return text("12.570.124.06", to, size); }
API nvmlDeviceGetCount_v2(unsigned *count) { return *count = (unsigned)n_gpus, SUCCESS; }
API nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle *to) {
    if (index >= (unsigned)n_gpus) return INVALID_ARGUMENT;
    *to = &devices[index];
    return alive(*to);
}
API nvmlDeviceGetHandleByUUID(const char *uuid, Handle *to) {
    for (int i = 0; i < n_devices; i++)
        if (!strcmp(devices[i].uuid, uuid)) return *to = &devices[i], alive(*to);
    return NOT_FOUND;
}
API nvmlDeviceGetName(Handle device, char *to, unsigned size) {
    int error = alive(device);
    return error ? error : text(device->name, to, size);
}
API nvmlDeviceGetUUID(Handle device, char *to, unsigned size) {
    int error = alive(device);
    return error ? error : text(device->uuid, to, size);
}
API nvmlDeviceGetIndex(Handle device, unsigned *to) { return *to = (unsigned)device->index, alive(device); }
API nvmlDeviceGetMinorNumber(Handle device, unsigned *to) { return nvmlDeviceGetIndex(device, to); }

static void pci_of(Handle device, PciInfo *to) {
    memset(to, 0, sizeof *to);
    snprintf(to->bus_id, sizeof to->bus_id, "%s", device->bus);
    snprintf(to->legacy, sizeof to->legacy, "%.12s", device->bus + 4);
    sscanf(device->bus, "%x:%x:%x", &to->domain, &to->bus, &to->device);
}
API nvmlDeviceGetPciInfo_v3(Handle device, PciInfo *to) {
    int error = alive(device);
    if (!error) pci_of(device, to);
    return error;
}

API nvmlDeviceGetUtilizationRates(Handle device, Utilization *to) {
    int error = whole(device, "utilisation", &to->gpu);
    return error ? error : whole(device, "memory_utilisation", &to->memory);
}
API nvmlDeviceGetEncoderUtilization(Handle device, unsigned *to, unsigned *period) {
    return *period = 167000, whole(device, "encoder", to);
}
API nvmlDeviceGetDecoderUtilization(Handle device, unsigned *to, unsigned *period) {
    return *period = 167000, whole(device, "decoder", to);
}
API nvmlDeviceGetMemoryInfo(Handle device, Memory *to) {
    int error = large(device, "memory_total", &to->total);
    if (!error) error = large(device, "memory_used", &to->used);
    to->free = to->total - to->used;
    return error;
}
API nvmlDeviceGetTemperature(Handle device, unsigned sensor, unsigned *to) {
    return sensor ? INVALID_ARGUMENT : whole(device, "temperature", to);
}
API nvmlDeviceGetClockInfo(Handle device, unsigned kind, unsigned *to) {
    static const char *keys[] = {"clock.graphics", "clock.sm", "clock.memory", "clock.video"};
    return kind > 3 ? INVALID_ARGUMENT : whole(device, keys[kind], to);
}
API nvmlDeviceGetPowerUsage(Handle device, unsigned *to) { return whole(device, "power", to); }
API nvmlDeviceGetEnforcedPowerLimit(Handle device, unsigned *to) { return whole(device, "power_limit", to); }
API nvmlDeviceGetTotalEnergyConsumption(Handle device, unsigned long long *to) { return large(device, "energy", to); }
API nvmlDeviceGetPerformanceState(Handle device, unsigned *to) { return whole(device, "pstate", to); }
API nvmlDeviceGetCurrentClocksThrottleReasons(Handle device, unsigned long long *to) { return large(device, "throttle", to); }
API nvmlDeviceGetSupportedClocksThrottleReasons(Handle device, unsigned long long *to) { return *to = 0x1ff, alive(device); }
API nvmlDeviceGetPcieThroughput(Handle device, unsigned direction, unsigned *to) {
    return whole(device, direction ? "pcie_sampled.rx" : "pcie_sampled.tx", to);
}
API nvmlDeviceGetPcieReplayCounter(Handle device, unsigned *to) { return whole(device, "pcie_replays", to); }
API nvmlDeviceGetTotalEccErrors(Handle device, unsigned kind, unsigned period, unsigned long long *to) {
    (void)period;
    return large(device, kind ? "ecc.uncorrected" : "ecc.corrected", to);
}
API nvmlDeviceGetRemappedRows(Handle device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    *pending = 0;
    int error = whole(device, "remapped.corrected", corrected);
    if (!error) error = whole(device, "remapped.uncorrected", uncorrected);
    return error ? error : whole(device, "remapped.failed", failed);
}

static void put(FieldValue *field, double value) {
    int type = field_types[field->field % MAX_FIELDS];
    field->type = type ? (unsigned)type - 1 : 3;
    switch (field->type) {
        case 0: field->value.real = value; break;
        case 1: field->value.u32 = (unsigned)value; break;
        case 2: field->value.ulong = (unsigned long)value; break;
        case 4: field->value.s64 = (long long)value; break;
        case 5: field->value.s32 = (int)value; break;
        case 6: field->value.u16 = (unsigned short)value; break;
        default: field->value.u64 = (unsigned long long)value;
    }
}
API nvmlDeviceGetFieldValues(Handle device, int count, FieldValue *fields) {
    int error = alive(device);
    if (error) return error;
    double time = now_s();  /* one call, one time */
    for (int i = 0; i < count; i++) {
        char key[32];
        double value = 0;
        if (fields[i].scope) snprintf(key, sizeof key, "field.%u.%u", fields[i].field, fields[i].scope);
        else snprintf(key, sizeof key, "field.%u.0", fields[i].field);
        error = value_at(device, key, time, &value);
        if (error == NOT_SUPPORTED && !fields[i].scope) {
            snprintf(key, sizeof key, "field.%u", fields[i].field);
            error = value_at(device, key, time, &value);
        }
        memset(&fields[i].value, 0xff, sizeof fields[i].value);  /* a value not asked for is no zero */
        fields[i].result = (unsigned)error;
        fields[i].timestamp = (int64_t)(1e6 * time);
        fields[i].latency = 0;
        if (!error) put(&fields[i], value);
    }
    return SUCCESS;
}

static int link_value(Handle device, unsigned link, const char *what, double *value) {
    char key[32];
    snprintf(key, sizeof key, "link.%s.%u", what, link);
    return value_of(device, key, value);
}
API nvmlDeviceGetNvLinkState(Handle device, unsigned link, unsigned *to) {
    double value = 0;
    int error = link_value(device, link, "state", &value);
    *to = (unsigned)value;
    return error;
}
/* `link.peer.N` is the GPU at the other end, or -1 for a switch. */
API nvmlDeviceGetNvLinkRemoteDeviceType(Handle device, unsigned link, unsigned *to) {
    double peer = 0;
    int error = link_value(device, link, "peer", &peer);
    *to = peer < 0 ? 2 : 0;
    return error;
}
API nvmlDeviceGetNvLinkRemotePciInfo_v2(Handle device, unsigned link, PciInfo *to) {
    double peer = 0;
    int error = link_value(device, link, "peer", &peer);
    if (error || peer >= n_gpus) return error ? error : INVALID_ARGUMENT;
    if (peer >= 0) return pci_of(&devices[(int)peer], to), SUCCESS;
    memset(to, 0, sizeof *to);
    snprintf(to->bus_id, sizeof to->bus_id, "00000000:%02X:00.0", 0xC0 - (int)peer);
    return SUCCESS;
}
API nvmlDeviceGetTopologyCommonAncestor(Handle one, Handle other, unsigned *to) {
    char key[32];
    snprintf(key, sizeof key, "ancestor.%d", other->index);
    return whole(one, key, to);
}
API nvmlDeviceGetP2PStatus(Handle one, Handle other, unsigned what, unsigned *to) {
    char key[32];
    (void)what;
    snprintf(key, sizeof key, "p2p.%d", other->index);
    return whole(one, key, to);
}

API nvmlDeviceGetMaxPcieLinkGeneration(Handle device, unsigned *to) { return whole(device, "pcie_generation", to); }
API nvmlDeviceGetMaxPcieLinkWidth(Handle device, unsigned *to) { return whole(device, "pcie_width", to); }

API nvmlDeviceGetMigMode(Handle device, unsigned *current, unsigned *pending) {
    int error = whole(device, "mig_mode", current);
    *pending = *current;
    return error;
}
API nvmlDeviceGetMaxMigDeviceCount(Handle device, unsigned *to) { return *to = 7, alive(device); }
API nvmlDeviceGetMigDeviceHandleByIndex(Handle device, unsigned index, Handle *to) {
    for (int i = n_gpus; i < n_devices; i++)
        if (devices[i].parent == device->index && devices[i].index == (int)index)
            return *to = &devices[i], SUCCESS;
    return NOT_FOUND;
}
API nvmlDeviceGetGpuInstanceId(Handle device, unsigned *to) { return whole(device, "gpu_instance", to); }

typedef struct { double since; char done[MAX_EVENTS]; } EventSet;

API nvmlDeviceGetSupportedEventTypes(Handle device, unsigned long long *to) { return large(device, "event_types", to); }
API nvmlEventSetCreate(EventSet **to) {
    *to = calloc(1, sizeof **to);
    (*to)->since = now_s();
    return SUCCESS;
}
API nvmlDeviceRegisterEvents(Handle device, unsigned long long types, EventSet *set) {
    (void)set;
    unsigned long long known = 0;
    int error = large(device, "event_types", &known);
    return error ? error : (types & ~known ? NOT_SUPPORTED : SUCCESS);
}
API nvmlEventSetWait_v2(EventSet *set, EventData *to, unsigned timeout_ms) {
    for (double end = monotonic() + timeout_ms / 1e3;; usleep(5000)) {
        double now = now_s();
        for (int i = 0; i < n_events; i++) {
            if (set->done[i] || events[i].time > now || events[i].time < set->since) continue;
            set->done[i] = 1;
            *to = (EventData){&devices[events[i].device], events[i].type, events[i].data, ~0u, ~0u};
            return SUCCESS;
        }
        if (monotonic() >= end) return TIMEOUT;
    }
}
API nvmlEventSetFree(EventSet *set) { return free(set), SUCCESS; }

#ifndef OLD_LIBRARY
API nvmlDeviceGetMemoryInfo_v2(Handle device, MemoryV2 *to) {
    int error = large(device, "memory_total", &to->total);
    if (!error) error = large(device, "memory_used", &to->used);
    if (!error) error = large(device, "memory_reserved", &to->reserved);
    to->free = to->total - to->used - to->reserved;
    return error;
}
API nvmlDeviceGetCurrentClocksEventReasons(Handle device, unsigned long long *to) {
    return nvmlDeviceGetCurrentClocksThrottleReasons(device, to);
}
API nvmlDeviceGetSupportedClocksEventReasons(Handle device, unsigned long long *to) {
    return nvmlDeviceGetSupportedClocksThrottleReasons(device, to);
}

/* A sample is a device and a time; a metric between two is what holds half-way. */
typedef struct { Handle device; double time; } GpmSample;

API nvmlGpmQueryDeviceSupport(Handle device, GpmSupport *to) { return whole(device, "gpm", &to->supported); }
API nvmlGpmSampleAlloc(GpmSample **to) { return *to = calloc(1, sizeof **to), SUCCESS; }
API nvmlGpmSampleFree(GpmSample *sample) { return free(sample), SUCCESS; }
API nvmlGpmSampleGet(Handle device, GpmSample *sample) {
    *sample = (GpmSample){device, now_s()};
    double ignored;
    int error = value_of(device, "gpm_sample", &ignored);  /* !4: not permitted in a container */
    return error == NOT_SUPPORTED ? SUCCESS : error;
}
API nvmlGpmMigSampleGet(Handle device, unsigned instance, GpmSample *sample) {
    for (int i = n_gpus; i < n_devices; i++) {
        double id = -1;
        value_of(&devices[i], "gpu_instance", &id);
        if (devices[i].parent == device->index && id == instance)
            return *sample = (GpmSample){&devices[i], now_s()}, alive(device);
    }
    return NOT_FOUND;
}
API nvmlGpmMetricsGet(GpmMetrics *metrics) {
    const GpmSample *first = metrics->first, *second = metrics->second;
    for (unsigned i = 0; i < metrics->count; i++) {
        char key[32];
        GpmMetric *metric = &metrics->metrics[i];
        snprintf(key, sizeof key, "gpm.%u", metric->id);
        metric->result = (unsigned)value_at(
            second->device, key, (first->time + second->time) / 2, &metric->value);
    }
    return SUCCESS;
}
#endif

/* Sizes of the structures, for the test that holds them against the binding's; of the last one,
   whose array grows from release to release, where the array begins. */
__attribute__((visibility("default"))) const size_t fake_sizes[] = {
    sizeof(Utilization), sizeof(Memory), sizeof(MemoryV2), sizeof(PciInfo), sizeof(FieldValue),
    sizeof(EventData), sizeof(GpmMetric), sizeof(GpmSupport), offsetof(GpmMetrics, metrics),
};
