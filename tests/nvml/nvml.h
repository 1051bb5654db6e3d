/* The structures of NVML that the fake fills, as the library's documentation lays them out.
   A test holds each size against the one that pynvml was written for. */
#pragma once
#include <stdint.h>

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4,
    NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15,
    UNKNOWN = 999
};

typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
typedef struct {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} PciInfo;
typedef union {
    double real; unsigned u32; unsigned long ulong; unsigned long long u64; long long s64; int s32;
    unsigned short u16;
} Value;
typedef struct {
    uint32_t field, scope;
    int64_t timestamp, latency;
    unsigned type, result;
    Value value;
} FieldValue;
typedef struct {
    void *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
} EventData;
typedef struct {
    unsigned id, result;
    double value;
    const char *short_name, *long_name, *unit;
} GpmMetric;
typedef struct {
    unsigned version, count;
    void *first, *second;
    GpmMetric metrics[477];
} GpmMetrics;
typedef struct { unsigned version, supported; } GpmSupport;
