/* Who uses a GPU: keys `compute_processes`, `graphics_processes`, `mps_processes`, each a list
 * `PID:BYTES,PID:BYTES`; `PID` alone has no known memory. "N/A": the call is not supported. */
#include <stdlib.h>
#include <string.h>

#include "gate.h"
#include "state.h"

static unsigned count_items(const char *list)
{
    unsigned count = *list ? 1 : 0;

    for (; *list; list++)
        count += *list == ',';
    return count;
}

static const char *read_item(const char *list, nvmlProcessInfo_t *process)
{
    char *end;

    process->pid = (unsigned)strtoul(list, &end, 0);
    process->usedGpuMemory = *end == ':' ? strtoull(end + 1, &end, 0) : NOT_AVAILABLE_U64;
    process->gpuInstanceId = process->computeInstanceId = NOT_AVAILABLE_U32;
    end += strcspn(end, ",");
    return *end ? end + 1 : end;
}

static nvmlReturn_t list_processes(const struct device *device, const char *key, unsigned *count,
                                   nvmlProcessInfo_t *processes)
{
    char list[VALUE_SIZE] = "";
    const char *rest = list;
    unsigned room = *count;

    if (state_text(device, key, list) && !strcmp(list, "N/A"))
        return NVML_ERROR_NOT_SUPPORTED;
    *count = count_items(list);
    if (*count && (room < *count || !processes))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < *count; i++)
        rest = read_item(rest, &processes[i]);
    return NVML_SUCCESS;
}

#define PROCESS_LIST(symbol, key)                                                                        \
    EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *processes)       \
    {                                                                                                    \
        NEED(device && count);                                                                           \
        PASS_GATE(device);                                                                               \
        return list_processes(device, key, count, processes);                                            \
    }

PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v2, "compute_processes")
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v3, "compute_processes")
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics_processes")
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics_processes")
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, "mps_processes")
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps_processes")
