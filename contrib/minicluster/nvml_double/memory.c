/* Frame buffer and BAR1 memory, bytes. */
#include "gate.h"
#include "slots.h"

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    unsigned long long reserved;
    nvmlReturn_t result;

    NEED(device && memory);
    PASS_GATE(device);
    result = FILL(device, SLOT(memory->total, "memory_total", 0), SLOT(memory->used, "memory_used", 0),
                  SLOT(reserved, "memory_reserved", 0));
    if (result != NVML_SUCCESS)
        return result;
    memory->used += reserved; /* this first version counts what the driver keeps for itself as used */
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    nvmlReturn_t result;

    NEED(device && memory);
    PASS_GATE(device);
    result = FILL(device, SLOT(memory->total, "memory_total", 0), SLOT(memory->used, "memory_used", 0),
                  SLOT(memory->reserved, "memory_reserved", 0));
    if (result == NVML_SUCCESS)
        memory->free = memory->total - memory->used - memory->reserved;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
    nvmlReturn_t result;

    NEED(device && memory);
    PASS_GATE(device);
    result = FILL(device, SLOT(memory->bar1Total, "bar1_total", 0), SLOT(memory->bar1Used, "bar1_used", 0));
    if (result == NVML_SUCCESS)
        memory->bar1Free = memory->bar1Total - memory->bar1Used;
    return result;
}
