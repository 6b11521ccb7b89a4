/* Temperatures, their limits, and how long a limit has slowed the clocks down. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gate.h"
#include "state.h"

static nvmlReturn_t signed_number(const struct device *device, const char *key, int *value)
{
    char text[VALUE_SIZE];

    if (!state_text(device, key, text) || !strcmp(text, "N/A"))
        return NVML_ERROR_NOT_SUPPORTED;
    *value = (int)strtol(text, NULL, 0);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned sensor, unsigned *celsius)
{
    int value = 0;
    nvmlReturn_t result;

    NEED(device && celsius && sensor == 0);
    PASS_GATE(device);
    result = signed_number(device, "temperature", &value);
    *celsius = (unsigned)value;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    NEED(device && temperature && temperature->sensorType == 0);
    PASS_GATE(device);
    return signed_number(device, "temperature", &temperature->temperature);
}

EXPORT nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_t *margin)
{
    NEED(device && margin);
    PASS_GATE(device);
    return signed_number(device, "temperature_margin", &margin->marginTemperature);
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned threshold, unsigned *celsius)
{
    char key[48];
    int value = 0;
    nvmlReturn_t result;

    NEED(device && celsius);
    PASS_GATE(device);
    snprintf(key, sizeof key, "temperature_threshold.%u", threshold);
    result = signed_number(device, key, &value);
    *celsius = (unsigned)value;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, unsigned policy, nvmlViolationTime_t *violation)
{
    char key[48];
    struct timespec now;

    NEED(device && violation);
    PASS_GATE(device);
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(key, sizeof key, "violation_ns.%u", policy);
    violation->referenceTime = (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
    return state_number(device, key, &violation->violationTime);
}
