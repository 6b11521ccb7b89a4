/* The table of device handles. */
#ifndef NVML_DOUBLE_DEVICE_H
#define NVML_DOUBLE_DEVICE_H

#include "nvml.h"

#define MAX_GPUS 64
#define MAX_MIG 8 /* MIG devices per GPU; more than the seven of real parts */

unsigned gpu_count(void);                         /* GPUs that the driver sees now */
nvmlDevice_t gpu_handle(unsigned index);          /* index < MAX_GPUS */
nvmlDevice_t mig_handle(unsigned gpu, unsigned index); /* index < MAX_MIG */
unsigned mig_count(const struct device *gpu);     /* MIG devices configured on it */

/* Copies a text value of the device; NVML_ERROR_NOT_SUPPORTED without one. */
nvmlReturn_t device_text(const struct device *device, const char *key, char *text, unsigned length);

#endif
