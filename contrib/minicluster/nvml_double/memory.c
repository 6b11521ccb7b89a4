/* Frame buffer and BAR1 memory, bytes. */
#include "gate.h"
#include "state.h"

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    nvmlReturn_t result;

    NEED(device && memory);
    PASS_GATE(device);
    result = state_number(device, "memory_total", &memory->total);
    if (result != NVML_SUCCESS)
        return result;
    /* the first version of the call counts what the driver keeps for itself as used */
    memory->used = state_number_or(device, "memory_used", 0) + state_number_or(device, "memory_reserved", 0);
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    nvmlReturn_t result;

    NEED(device && memory);
    PASS_GATE(device);
    result = state_number(device, "memory_total", &memory->total);
    if (result != NVML_SUCCESS)
        return result;
    memory->reserved = state_number_or(device, "memory_reserved", 0);
    memory->used = state_number_or(device, "memory_used", 0);
    memory->free = memory->total - memory->used - memory->reserved;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
    nvmlReturn_t result;

    NEED(device && memory);
    PASS_GATE(device);
    result = state_number(device, "bar1_total", &memory->bar1Total);
    if (result != NVML_SUCCESS)
        return result;
    memory->bar1Used = state_number_or(device, "bar1_used", 0);
    memory->bar1Free = memory->bar1Total - memory->bar1Used;
    return NVML_SUCCESS;
}
