/* The calls of getters.def, and the few that answer with two plain values. */
#include <stdio.h>

#include "device.h"
#include "gate.h"
#include "state.h"

#define NUMBER(symbol, type, key)                                     \
    EXPORT nvmlReturn_t symbol(nvmlDevice_t device, type *value)      \
    {                                                                 \
        unsigned long long number;                                    \
        nvmlReturn_t result;                                          \
        NEED(device && value);                                        \
        PASS_GATE(device);                                            \
        result = state_number(device, key, &number);                  \
        if (result == NVML_SUCCESS)                                   \
            *value = (type)number;                                    \
        return result;                                                \
    }
#define UNSIGNED(symbol, key) NUMBER(symbol, unsigned, key)
#define WIDE(symbol, key) NUMBER(symbol, unsigned long long, key)
#define TEXT(symbol, key)                                                          \
    EXPORT nvmlReturn_t symbol(nvmlDevice_t device, char *text, unsigned length)   \
    {                                                                              \
        NEED(device && text);                                                      \
        PASS_GATE(device);                                                         \
        return device_text(device, key, text, length);                             \
    }

#include "getters.def"

/* Two values under two keys; the second is the first where it has no key of its own. */
static nvmlReturn_t pair(const struct device *device, const char *first_key, unsigned *first,
                         const char *second_key, unsigned *second)
{
    unsigned long long number;
    nvmlReturn_t result = state_number(device, first_key, &number);

    if (result != NVML_SUCCESS)
        return result;
    *first = (unsigned)number;
    *second = (unsigned)state_number_or(device, second_key, number);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    NEED(device && current && pending);
    PASS_GATE(device);
    return pair(device, "ecc_mode", current, "ecc_mode_pending", pending);
}

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    NEED(device && current && pending);
    PASS_GATE(device);
    return pair(device, "mig", current, "mig_pending", pending);
}

EXPORT nvmlReturn_t nvmlDeviceGetGspFirmwareMode(nvmlDevice_t device, unsigned *enabled, unsigned *by_default)
{
    NEED(device && enabled && by_default);
    PASS_GATE(device);
    return pair(device, "gsp_mode", enabled, "gsp_mode_default", by_default);
}

EXPORT nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version)
{
    NEED(device && version);
    PASS_GATE(device);
    return device_text(device, "gsp_version", version, 64);
}

EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    unsigned first = 0, second = 0;
    nvmlReturn_t result;

    NEED(device && major && minor);
    PASS_GATE(device);
    result = pair(device, "cuda_capability_major", &first, "cuda_capability_minor", &second);
    *major = (int)first;
    *minor = (int)second;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned *lowest,
                                                                 unsigned *highest)
{
    NEED(device && lowest && highest);
    PASS_GATE(device);
    return pair(device, "power_limit_min_mw", lowest, "power_limit_max_mw", highest);
}

static nvmlReturn_t numbered(const struct device *device, const char *name, unsigned number, unsigned *value)
{
    char key[48];
    unsigned long long found;
    nvmlReturn_t result;

    snprintf(key, sizeof key, "%s.%u", name, number);
    result = state_number(device, key, &found);
    if (result == NVML_SUCCESS)
        *value = (unsigned)found;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned clock, unsigned *mhz)
{
    NEED(device && mhz);
    PASS_GATE(device);
    return numbered(device, "clock_mhz", clock, mhz);
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned clock, unsigned *mhz)
{
    NEED(device && mhz);
    PASS_GATE(device);
    return numbered(device, "clock_max_mhz", clock, mhz);
}

EXPORT nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, unsigned clock, unsigned *mhz)
{
    NEED(device && mhz);
    PASS_GATE(device);
    return numbered(device, "clock_application_mhz", clock, mhz);
}

EXPORT nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned counter, unsigned *kb_per_s)
{
    NEED(device && kb_per_s);
    PASS_GATE(device);
    return numbered(device, "pcie_throughput_kbs", counter, kb_per_s);
}

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    NEED(device && utilization);
    PASS_GATE(device);
    return pair(device, "utilization_gpu", &utilization->gpu, "utilization_memory", &utilization->memory);
}
