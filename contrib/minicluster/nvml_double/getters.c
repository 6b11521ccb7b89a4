/* The calls of getters.def, and two that fit none of its forms. */
#include <stdio.h>

#include "device.h"
#include "gate.h"
#include "slots.h"

#define NUMBER(symbol, type, key)                                     \
    EXPORT nvmlReturn_t symbol(nvmlDevice_t device, type *value)      \
    {                                                                 \
        NEED(device && value);                                        \
        PASS_GATE(device);                                            \
        return FILL(device, SLOT(*value, key, 0));                    \
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
#define PAIR(symbol, type, first_key, second_key)                                                     \
    EXPORT nvmlReturn_t symbol(nvmlDevice_t device, type *first, type *second)                        \
    {                                                                                                 \
        NEED(device && first && second);                                                              \
        PASS_GATE(device);                                                                            \
        return FILL(device, SLOT(*first, first_key, 0), SLOT(*second, second_key, AS_THE_FIRST));     \
    }
#define NUMBERED(symbol, name)                                                                 \
    EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned number, unsigned *value)          \
    {                                                                                          \
        char key[48];                                                                          \
        NEED(device && value);                                                                 \
        PASS_GATE(device);                                                                     \
        snprintf(key, sizeof key, "%s.%u", name, number);                                      \
        return FILL(device, SLOT(*value, key, 0));                                             \
    }

#include "getters.def"

EXPORT nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version)
{
    NEED(device && version);
    PASS_GATE(device);
    return device_text(device, "gsp_version", version, 64);
}

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    NEED(device && utilization);
    PASS_GATE(device);
    return FILL(device, SLOT(utilization->gpu, "utilization_gpu", 0),
                SLOT(utilization->memory, "utilization_memory", AS_THE_FIRST));
}
