/* Starting, stopping, versions, error texts. */
#include <stdio.h>
#include <string.h>

#include "gate.h"
#include "state.h"

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    nvmlReturn_t result;

    (void)flags;
    if (!state_exists())
        return NVML_ERROR_DRIVER_NOT_LOADED;
    gate_opened(); /* the gate turns callers away before that */
    result = gate(__func__, NULL);
    if (result != NVML_SUCCESS)
        gate_closed();
    return result;
}

EXPORT nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

EXPORT nvmlReturn_t nvmlShutdown(void)
{
    PASS_GATE(NULL);
    return gate_closed();
}

static nvmlReturn_t copy_system_text(const char *key, char *text, unsigned length)
{
    char value[VALUE_SIZE];

    if (!state_text(NULL, key, value))
        return NVML_ERROR_NOT_SUPPORTED;
    if (strlen(value) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(text, value, strlen(value) + 1);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    NEED(version);
    PASS_GATE(NULL);
    return copy_system_text("driver_version", version, length);
}

EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
    NEED(version);
    PASS_GATE(NULL);
    return copy_system_text("nvml_version", version, length);
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    unsigned long long number;
    nvmlReturn_t result;

    NEED(version);
    PASS_GATE(NULL);
    result = state_number(NULL, "cuda_version", &number);
    if (result == NVML_SUCCESS)
        *version = (int)number;
    return result;
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    return nvmlSystemGetCudaDriverVersion_v2(version);
}

EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length)
{
    char key[32];
    nvmlReturn_t result;

    NEED(name);
    PASS_GATE(NULL);
    snprintf(key, sizeof key, "process_name.%u", pid);
    result = copy_system_text(key, name, length);
    return result == NVML_ERROR_NOT_SUPPORTED ? NVML_ERROR_NOT_FOUND : result;
}

EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_LIBRARY_NOT_FOUND: return "NVML Shared Library Not Found";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_RESET_REQUIRED: return "GPU requires reset";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}
