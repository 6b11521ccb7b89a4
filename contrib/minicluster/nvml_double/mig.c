/* MIG devices: [gpuN] mig=1 and mig_count=M, each with its own section [gpuN.migM] (uuid=MIG-...). */
#include "device.h"
#include "gate.h"
#include "state.h"

EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count)
{
    unsigned long long number;
    nvmlReturn_t result;

    NEED(device && count);
    PASS_GATE(device);
    result = state_number(device, "mig", &number);
    if (result == NVML_SUCCESS)
        *count = (unsigned)state_number_or(device, "mig_max", 7);
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *handle)
{
    NEED(device && handle && device->mig < 0);
    PASS_GATE(device);
    if (!state_number_or(device, "mig", 0))
        return NVML_ERROR_NOT_SUPPORTED;
    if (index >= mig_count(device))
        return NVML_ERROR_NOT_FOUND;
    *handle = mig_handle(device->index, index);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *is_mig)
{
    NEED(device && is_mig);
    PASS_GATE(NULL);
    *is_mig = device->mig >= 0;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *handle)
{
    NEED(mig && handle && mig->mig >= 0);
    PASS_GATE(gpu_handle(mig->index));
    *handle = gpu_handle(mig->index);
    return NVML_SUCCESS;
}
