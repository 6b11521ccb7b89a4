/* ECC counters, row remapping, retired pages, repairs, fabric registration. */
#include <stdio.h>
#include <string.h>

#include "device.h"
#include "gate.h"
#include "state.h"

static const char *const SRAM_KEYS[11] = {
    "sram_ecc.aggregate.uncorrected_parity", "sram_ecc.aggregate.uncorrected_secded",
    "sram_ecc.aggregate.corrected",          "sram_ecc.volatile.uncorrected_parity",
    "sram_ecc.volatile.uncorrected_secded",  "sram_ecc.volatile.corrected",
    "sram_ecc.bucket.l2",                    "sram_ecc.bucket.sm",
    "sram_ecc.bucket.pcie",                  "sram_ecc.bucket.mcu",
    "sram_ecc.bucket.other",
};

static const char *error_word(unsigned type)
{
    return type ? "uncorrected" : "corrected";
}

static const char *counter_word(unsigned counter)
{
    return counter ? "aggregate" : "volatile";
}

EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned type, unsigned counter,
                                                unsigned long long *count)
{
    char key[64];

    NEED(device && count && type < 2 && counter < 2);
    PASS_GATE(device);
    if (!state_number_or(device, "ecc_mode", 0))
        return NVML_ERROR_NOT_SUPPORTED;
    snprintf(key, sizeof key, "ecc.%s.%s", counter_word(counter), error_word(type));
    return state_number(device, key, count);
}

/* LOCATION: 0 L1, 1 L2, 2 device memory (DRAM), 3 registers, 4 texture, 5 shared, 6 CBU, 7 SRAM. */
EXPORT nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned type, unsigned counter,
                                                    unsigned location, unsigned long long *count)
{
    char key[80];

    NEED(device && count && type < 2 && counter < 2);
    PASS_GATE(device);
    if (!state_number_or(device, "ecc_mode", 0))
        return NVML_ERROR_NOT_SUPPORTED;
    snprintf(key, sizeof key, "ecc.%s.%s.%u", counter_word(counter), error_word(type), location);
    return state_number(device, key, count);
}

EXPORT nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_t *status)
{
    unsigned long long exceeded;
    nvmlReturn_t result;

    NEED(device && status);
    PASS_GATE(device);
    result = state_number(device, "sram_ecc.threshold_exceeded", &exceeded);
    if (result != NVML_SUCCESS)
        return result;
    for (int i = 0; i < 11; i++)
        status->counters[i] = state_number_or(device, SRAM_KEYS[i], 0);
    status->bThresholdExceeded = (unsigned)exceeded;
    return NVML_SUCCESS;
}

/* The driver answers no remapping questions about a GPU that is cut into MIG devices. */
static nvmlReturn_t remapping_is_known(const struct device *device)
{
    return mig_count(device) ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrected, unsigned *uncorrected,
                                              unsigned *pending, unsigned *failed)
{
    unsigned long long number;
    nvmlReturn_t result;

    NEED(device && corrected && uncorrected && pending && failed);
    PASS_GATE(device);
    result = remapping_is_known(device);
    if (result == NVML_SUCCESS)
        result = state_number(device, "remap_corrected", &number);
    if (result != NVML_SUCCESS)
        return result;
    *corrected = (unsigned)number;
    *uncorrected = (unsigned)state_number_or(device, "remap_uncorrected", 0);
    *pending = (unsigned)state_number_or(device, "remap_pending", 0);
    *failed = (unsigned)state_number_or(device, "remap_failure", 0);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, nvmlRowRemapperHistogramValues_t *banks)
{
    unsigned long long number;
    nvmlReturn_t result;

    NEED(device && banks);
    PASS_GATE(device);
    result = remapping_is_known(device);
    if (result == NVML_SUCCESS)
        result = state_number(device, "remap_banks.max", &number);
    if (result != NVML_SUCCESS)
        return result;
    banks->max = (unsigned)number;
    banks->high = (unsigned)state_number_or(device, "remap_banks.high", 0);
    banks->partial = (unsigned)state_number_or(device, "remap_banks.partial", 0);
    banks->low = (unsigned)state_number_or(device, "remap_banks.low", 0);
    banks->none = (unsigned)state_number_or(device, "remap_banks.none", 0);
    return NVML_SUCCESS;
}

static nvmlReturn_t retired_pages(const struct device *device, unsigned cause, unsigned *count,
                                  unsigned long long *addresses, unsigned long long *times)
{
    char key[32];
    unsigned long long pages;
    unsigned room = *count;
    nvmlReturn_t result;

    snprintf(key, sizeof key, "retired_pages.%u", cause);
    result = state_number(device, key, &pages);
    if (result != NVML_SUCCESS)
        return result;
    *count = (unsigned)pages;
    if (pages && (room < pages || !addresses))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < pages; i++) {
        addresses[i] = 0x10000ull * (i + 1);
        if (times)
            times[i] = 1700000000000000ull + i;
    }
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned cause, unsigned *count,
                                              unsigned long long *addresses)
{
    NEED(device && count);
    PASS_GATE(device);
    return retired_pages(device, cause, count, addresses, NULL);
}

EXPORT nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, unsigned cause, unsigned *count,
                                                 unsigned long long *addresses, unsigned long long *times)
{
    NEED(device && count);
    PASS_GATE(device);
    return retired_pages(device, cause, count, addresses, times);
}

EXPORT nvmlReturn_t nvmlDeviceGetRepairStatus(nvmlDevice_t device, nvmlRepairStatus_t *status)
{
    unsigned long long channel;
    nvmlReturn_t result;

    NEED(device && status);
    PASS_GATE(device);
    result = state_number(device, "repair_pending.channel", &channel);
    status->bChannelRepairPending = result == NVML_SUCCESS ? (unsigned)channel : 0;
    status->bTpcRepairPending = (unsigned)state_number_or(device, "repair_pending.tpc", 0);
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetUnrepairableMemoryFlag_v1(nvmlDevice_t device, nvmlUnrepairableMemory_t *status)
{
    unsigned long long flag;
    nvmlReturn_t result;

    NEED(device && status);
    PASS_GATE(device);
    result = state_number(device, "unrepairable_memory", &flag);
    status->bUnrepairableMemory = result == NVML_SUCCESS ? (unsigned)flag : 0;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *fabric)
{
    unsigned long long state;
    nvmlReturn_t result;

    NEED(device && fabric);
    PASS_GATE(device);
    result = state_number(device, "fabric_state", &state);
    if (result != NVML_SUCCESS)
        return result;
    memset(fabric, 0, sizeof *fabric);
    fabric->state = (unsigned char)state;
    fabric->status = (nvmlReturn_t)state_number_or(device, "fabric_status", 0);
    fabric->cliqueId = (unsigned)state_number_or(device, "fabric_clique", 0);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *fabric)
{
    unsigned long long state;
    nvmlReturn_t result;

    NEED(device && fabric);
    PASS_GATE(device);
    result = state_number(device, "fabric_state", &state);
    if (result != NVML_SUCCESS)
        return result;
    memset(fabric->clusterUuid, 0, sizeof fabric->clusterUuid);
    fabric->state = (unsigned char)state;
    fabric->status = (nvmlReturn_t)state_number_or(device, "fabric_status", 0);
    fabric->cliqueId = (unsigned)state_number_or(device, "fabric_clique", 0);
    fabric->healthMask = (unsigned)state_number_or(device, "fabric_health_mask", 0x1aa);
    if (fabric->version >> 24 >= 3)
        fabric->healthSummary = (unsigned char)state_number_or(device, "fabric_health_summary", 1);
    return NVML_SUCCESS;
}
