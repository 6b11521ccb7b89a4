/* NVLink: state, version, error counters per link. */
#include <stdio.h>
#include <stdlib.h>

#include "gate.h"
#include "state.h"

#define MAX_LINKS 36 /* the largest link number that the interface takes, plus one */

static nvmlReturn_t link_exists(const struct device *device, unsigned link)
{
    if (link >= MAX_LINKS)
        return NVML_ERROR_INVALID_ARGUMENT;
    return link < state_number_or(device, "nvlink_count", 0) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static int listed(const char *numbers, unsigned wanted)
{
    char *end;

    while (*numbers) {
        if (strtoul(numbers, &end, 0) == wanted && end != numbers)
            return 1;
        numbers = *end ? end + 1 : end;
    }
    return 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, unsigned *active)
{
    char down[VALUE_SIZE];
    nvmlReturn_t result;

    NEED(device && active);
    PASS_GATE(device);
    result = link_exists(device, link);
    if (result == NVML_SUCCESS)
        *active = !(state_text(device, "nvlink_down", down) && listed(down, link));
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *version)
{
    unsigned long long number;
    nvmlReturn_t result;

    NEED(device && version);
    PASS_GATE(device);
    result = link_exists(device, link);
    if (result == NVML_SUCCESS)
        result = state_number(device, "nvlink_version", &number);
    if (result == NVML_SUCCESS)
        *version = (unsigned)number;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned link, unsigned capability,
                                                  unsigned *supported)
{
    nvmlReturn_t result;

    (void)capability;
    NEED(device && supported);
    PASS_GATE(device);
    result = link_exists(device, link);
    if (result == NVML_SUCCESS)
        *supported = 1;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link, unsigned counter,
                                                    unsigned long long *count)
{
    char key[48];
    nvmlReturn_t result;

    NEED(device && count);
    PASS_GATE(device);
    result = link_exists(device, link);
    if (result != NVML_SUCCESS)
        return result;
    snprintf(key, sizeof key, "nvlink_errors.%u.%u", link, counter);
    *count = state_number_or(device, key, 0);
    return NVML_SUCCESS;
}
