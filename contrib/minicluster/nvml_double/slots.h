/* Several values of a device at once: a table of keys and of the places that their values go to. */
#ifndef NVML_DOUBLE_SLOTS_H
#define NVML_DOUBLE_SLOTS_H

#include <stddef.h>
#include "nvml.h"

struct slot {
    const char *key;
    void *place; /* an integer of SIZE bytes */
    size_t size;
    unsigned long long fallback; /* where the state file has no such key */
};

#define AS_THE_FIRST (~0ull) /* as fallback: what the first slot got */
#define SLOT(place, key, fallback) { key, &(place), sizeof(place), fallback }

/* Fills the COUNT SLOTS. The first key must be there: else NVML_ERROR_NOT_SUPPORTED, and nothing is written. */
nvmlReturn_t fill_slots(const struct device *device, const struct slot *slots, size_t count);

#define FILL(device, ...)                                            \
    fill_slots((device), (const struct slot[]){ __VA_ARGS__ },       \
               sizeof((const struct slot[]){ __VA_ARGS__ }) / sizeof(struct slot))

#endif
