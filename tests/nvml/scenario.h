/* What the scenario file says of a device at a time: the only source of the fake's values.

   gpus N                          physical GPUs, first line
   driver TEXT                     driver version
   init CODE                       nvmlInit fails with this NVML error
   mig GPU N                       N MIG devices in a GPU, named GPU/0, GPU/1, ...
   field_type ID TYPE              NVML value type of a field (default 3, unsigned long long)
   event TIME GPU TYPE DATA        an event bit with its data
   WHO name|uuid|bus TEXT          texts of a device
   WHO KEY VALUE... [+SLOPE]       a value in NVML's unit

   WHO is `*`, an index, a range `0-3` or a MIG device `0/1`; the last number of KEY may be a range
   too: `field.138.0-3`. VALUE is a number, or TIME=NUMBER points joined by straight lines (the
   same time twice is a step), or !CODE: an NVML error from then on. +SLOPE goes on a second after
   the last point. A KEY that is not there is NOT_SUPPORTED. `fails` speaks for every call. */
#pragma once
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_DEVICES = 64, MAX_POINTS = 32, MAX_EVENTS = 64, MAX_FIELDS = 320 };

typedef struct { double time, value; int error; } Point;
typedef struct { unsigned hash; char key[32]; int n; Point points[MAX_POINTS]; double slope; } Entry;
typedef struct {
    char id[8], name[96], uuid[96], bus[32];
    int index, parent, n_entries, capacity;
    Entry *entries;
} Device;
typedef struct { double time; int device; unsigned long long type, data; } Event;

static Device devices[MAX_DEVICES];
static Event events[MAX_EVENTS];
static int n_gpus, n_devices, n_events, init_error, field_types[MAX_FIELDS];
static char driver[80];
static double loaded_at;

static double monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Seconds in the file FAKE_NVML_CLOCK, or since the library was loaded. */
static double now_s(void) {
    const char *path = getenv("FAKE_NVML_CLOCK");
    if (!path) return monotonic() - loaded_at;
    char text[64] = {0};
    int file = open(path, O_RDONLY);
    if (file < 0) return 0;
    ssize_t n = read(file, text, sizeof text - 1);
    close(file);
    return n > 0 ? atof(text) : 0;
}

static unsigned hash_of(const char *text) {
    unsigned hash = 2166136261u;
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

static Entry *entry_of(Device *device, const char *key) {
    unsigned hash = hash_of(key);
    for (int i = 0; i < device->n_entries; i++)
        if (device->entries[i].hash == hash && !strcmp(device->entries[i].key, key))
            return &device->entries[i];
    return NULL;
}

/* 0 and the value, or the NVML error that holds at this time. */
static int at(const Entry *entry, double time, double *value) {
    int i = 0;
    while (i + 1 < entry->n && entry->points[i + 1].time <= time) i++;
    const Point *left = &entry->points[i], *right = left + 1;
    if (left->error) return left->error;
    *value = left->value;
    if (i + 1 == entry->n && time > left->time) *value += entry->slope * (time - left->time);
    if (i + 1 < entry->n && !right->error && time > left->time)
        *value += (right->value - left->value) * (time - left->time) / (right->time - left->time);
    return SUCCESS;
}

static int value_at(Device *device, const char *key, double time, double *value) {
    if (!device || device < devices || device >= devices + n_devices) return INVALID_ARGUMENT;
    Entry *fails = entry_of(device, "fails");
    double ignored;
    int error = fails ? at(fails, time, &ignored) : SUCCESS;
    if (error) return error;
    Entry *entry = entry_of(device, key);
    return entry ? at(entry, time, value) : NOT_SUPPORTED;
}

static int value_of(Device *device, const char *key, double *value) {
    return value_at(device, key, now_s(), value);
}

static Point point_of(const char *text, double time) {
    Point point = {.time = time};
    if (*text == '!') point.error = atoi(text + 1);
    else point.value = strtod(text, NULL);
    return point;
}

static void add_entry(Device *device, const char *key, char *values) {
    if (device->n_entries == device->capacity) {
        device->capacity = device->capacity ? 2 * device->capacity : 64;
        device->entries = realloc(device->entries, sizeof(Entry) * (size_t)device->capacity);
    }
    Entry *entry = entry_of(device, key);  /* a later line speaks over an earlier one */
    if (!entry) entry = &device->entries[device->n_entries++];
    memset(entry, 0, sizeof *entry);
    snprintf(entry->key, sizeof entry->key, "%s", key);
    entry->hash = hash_of(key);
    char *rest = NULL;
    for (char *word = strtok_r(values, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        char *equals = strchr(word, '=');
        if (*word == '+') entry->slope = strtod(word + 1, NULL);
        else if (entry->n < MAX_POINTS)
            entry->points[entry->n++] = point_of(equals ? equals + 1 : word, equals ? atof(word) : 0);
    }
}

static void add_range(Device *device, const char *key, const char *values) {
    char stem[32], name[48], copy[1024];
    snprintf(stem, sizeof stem, "%s", key);
    char *dot = strrchr(stem, '.');
    int first, last;
    if (!dot || sscanf(dot, ".%d-%d", &first, &last) != 2) {
        snprintf(copy, sizeof copy, "%s", values);
        add_entry(device, key, copy);
        return;
    }
    *dot = 0;
    for (int i = first; i <= last; i++) {
        snprintf(name, sizeof name, "%s.%d", stem, i);
        snprintf(copy, sizeof copy, "%s", values);
        add_entry(device, name, copy);
    }
}

static int is_meant(const char *who, const Device *device) {
    int first, last;
    if (device->parent >= 0 || strchr(who, '/')) return !strcmp(who, device->id);
    if (!strcmp(who, "*")) return 1;
    if (sscanf(who, "%d-%d", &first, &last) == 2)
        return device->index >= first && device->index <= last;
    return !strcmp(who, device->id);
}

static void say_of_device(Device *device, const char *key, const char *values) {
    if (!strcmp(key, "name")) snprintf(device->name, sizeof device->name, "%s", values);
    else if (!strcmp(key, "uuid")) snprintf(device->uuid, sizeof device->uuid, "%s", values);
    else if (!strcmp(key, "bus")) snprintf(device->bus, sizeof device->bus, "%s", values);
    else add_range(device, key, values);
}

static void add_device(int parent, int index) {
    if (n_devices == MAX_DEVICES) return;
    Device *device = &devices[n_devices++];
    memset(device, 0, sizeof *device);
    device->parent = parent;
    device->index = index;
    snprintf(device->name, sizeof device->name, "NVIDIA H200");
    if (parent < 0) {
        snprintf(device->id, sizeof device->id, "%d", index);
        snprintf(device->uuid, sizeof device->uuid, "GPU-%08d-0000-0000-0000-000000000000", index);
        snprintf(device->bus, sizeof device->bus, "00000000:%02X:00.0", 0x10 + index);
    } else {
        snprintf(device->id, sizeof device->id, "%d/%d", parent, index);
        snprintf(device->uuid, sizeof device->uuid, "MIG-%08d-%04d-0000-0000-000000000000", parent, index);
    }
}

static void read_line(char *line) {
    char who[64], key[32];
    int used = 0, a, b;
    Event event;
    line[strcspn(line, "#\r\n")] = 0;
    for (size_t n = strlen(line); n && isspace((unsigned char)line[n - 1]);) line[--n] = 0;
    if (sscanf(line, " gpus %d", &a) == 1) while (n_gpus < a) add_device(-1, n_gpus++);
    else if (sscanf(line, " driver %79s", driver) == 1) return;
    else if (sscanf(line, " init %d", &init_error) == 1) return;
    else if (sscanf(line, " mig %d %d", &a, &b) == 2) for (int i = 0; i < b; i++) add_device(a, i);
    else if (sscanf(line, " field_type %d %d", &a, &b) == 2) field_types[a % MAX_FIELDS] = b + 1;
    else if (sscanf(line, " event %lf %d %llu %llu", &event.time, &event.device, &event.type, &event.data) == 4) {
        if (n_events < MAX_EVENTS) events[n_events++] = event;
    } else if (sscanf(line, " %63s %31s %n", who, key, &used) >= 2) {
        for (int i = 0; i < n_devices; i++)
            if (is_meant(who, &devices[i])) say_of_device(&devices[i], key, line + used);
    }
}

/* 0, or an NVML error where there is no scenario. */
static int read_scenario(void) {
    const char *path = getenv("FAKE_NVML_SCENARIO");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) {
        fprintf(stderr, "fake NVML: FAKE_NVML_SCENARIO names no file\n");
        return UNKNOWN;
    }
    n_gpus = n_devices = n_events = init_error = 0;
    snprintf(driver, sizeof driver, "570.124.06");
    char line[1024];
    while (fgets(line, sizeof line, file)) read_line(line);
    fclose(file);
    return init_error;
}
