/* The simulated machine as the library sees it: an INI file that may change at any time. */
#ifndef NVML_DOUBLE_STATE_H
#define NVML_DOUBLE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include "nvml.h"

#define VALUE_SIZE 1024 /* the longest value, terminating zero included */

/* Copies the value of KEY for DEVICE into TEXT (VALUE_SIZE bytes). A NULL device means section [system].
 * A whole GPU looks in [gpuN], then [gpu]; a MIG device in [gpuN.migM], then [mig]. False: no such key. */
bool state_text(const struct device *device, const char *key, char *text);

/* The value as a number (decimal, 0x... or 0...). NVML_ERROR_NOT_SUPPORTED: no such key, or "N/A". */
nvmlReturn_t state_number(const struct device *device, const char *key, unsigned long long *number);

/* The value as a number, or FALLBACK where there is none. */
unsigned long long state_number_or(const struct device *device, const char *key, unsigned long long fallback);

/* True if the state file can be read: without one there is no driver. */
bool state_exists(void);

#endif
