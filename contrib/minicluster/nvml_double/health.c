/* ECC counters, row remapping, retired pages, repairs, fabric registration. */
#include <stdio.h>
#include <string.h>

#include "device.h"
#include "gate.h"
#include "slots.h"
#include "state.h"

/* LOCATION: "" for the total, or a dot and its number: 0 L1, 1 L2, 2 device memory (DRAM), 3 registers,
 * 4 texture, 5 shared, 6 CBU, 7 SRAM. */
static nvmlReturn_t ecc_errors(const struct device *device, unsigned type, unsigned counter, const char *location,
                               unsigned long long *count)
{
    char key[64];

    if (!state_number_or(device, "ecc_mode", 0))
        return NVML_ERROR_NOT_SUPPORTED;
    snprintf(key, sizeof key, "ecc.%s.%s%s", counter ? "aggregate" : "volatile", type ? "uncorrected" : "corrected",
             location);
    return state_number(device, key, count);
}

EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned type, unsigned counter,
                                                unsigned long long *count)
{
    NEED(device && count && type < 2 && counter < 2);
    PASS_GATE(device);
    return ecc_errors(device, type, counter, "", count);
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned type, unsigned counter,
                                                    unsigned location, unsigned long long *count)
{
    char number[16];

    NEED(device && count && type < 2 && counter < 2);
    PASS_GATE(device);
    snprintf(number, sizeof number, ".%u", location);
    return ecc_errors(device, type, counter, number, count);
}

EXPORT nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_t *status)
{
    NEED(device && status);
    PASS_GATE(device);
    return FILL(device,
                SLOT(status->bThresholdExceeded, "sram_ecc.threshold_exceeded", 0),
                SLOT(status->aggregateUncorrectedParity, "sram_ecc.aggregate.uncorrected_parity", 0),
                SLOT(status->aggregateUncorrectedSecDed, "sram_ecc.aggregate.uncorrected_secded", 0),
                SLOT(status->aggregateCorrected, "sram_ecc.aggregate.corrected", 0),
                SLOT(status->volatileUncorrectedParity, "sram_ecc.volatile.uncorrected_parity", 0),
                SLOT(status->volatileUncorrectedSecDed, "sram_ecc.volatile.uncorrected_secded", 0),
                SLOT(status->volatileCorrected, "sram_ecc.volatile.corrected", 0),
                SLOT(status->bucketL2, "sram_ecc.bucket.l2", 0),
                SLOT(status->bucketSm, "sram_ecc.bucket.sm", 0),
                SLOT(status->bucketPcie, "sram_ecc.bucket.pcie", 0),
                SLOT(status->bucketMcu, "sram_ecc.bucket.mcu", 0),
                SLOT(status->bucketOther, "sram_ecc.bucket.other", 0));
}

/* The driver answers no remapping questions about a GPU that is cut into MIG devices. */
#define NEED_REMAPPING(device)                    do {                                              if (mig_count(device))                            return NVML_ERROR_NOT_SUPPORTED;      } while (0)

EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrected, unsigned *uncorrected,
                                              unsigned *pending, unsigned *failed)
{
    NEED(device && corrected && uncorrected && pending && failed);
    PASS_GATE(device);
    NEED_REMAPPING(device);
    return FILL(device,
                SLOT(*corrected, "remap_corrected", 0),
                SLOT(*uncorrected, "remap_uncorrected", 0),
                SLOT(*pending, "remap_pending", 0),
                SLOT(*failed, "remap_failure", 0));
}

EXPORT nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, nvmlRowRemapperHistogramValues_t *banks)
{
    NEED(device && banks);
    PASS_GATE(device);
    NEED_REMAPPING(device);
    return FILL(device,
                SLOT(banks->max, "remap_banks.max", 0),
                SLOT(banks->high, "remap_banks.high", 0),
                SLOT(banks->partial, "remap_banks.partial", 0),
                SLOT(banks->low, "remap_banks.low", 0),
                SLOT(banks->none, "remap_banks.none", 0));
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
    NEED(device && status);
    PASS_GATE(device);
    return FILL(device,
                SLOT(status->bChannelRepairPending, "repair_pending.channel", 0),
                SLOT(status->bTpcRepairPending, "repair_pending.tpc", 0));
}

EXPORT nvmlReturn_t nvmlDeviceGetUnrepairableMemoryFlag_v1(nvmlDevice_t device, nvmlUnrepairableMemory_t *status)
{
    NEED(device && status);
    PASS_GATE(device);
    return FILL(device, SLOT(status->bUnrepairableMemory, "unrepairable_memory", 0));
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *fabric)
{
    NEED(device && fabric);
    PASS_GATE(device);
    memset(fabric, 0, sizeof *fabric);
    return FILL(device,
                SLOT(fabric->state, "fabric_state", 0),
                SLOT(fabric->status, "fabric_status", 0),
                SLOT(fabric->cliqueId, "fabric_clique", 0));
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *fabric)
{
    nvmlReturn_t result;

    NEED(device && fabric);
    PASS_GATE(device);
    memset(fabric->clusterUuid, 0, sizeof fabric->clusterUuid);
    result = FILL(device,
                  SLOT(fabric->state, "fabric_state", 0),
                  SLOT(fabric->status, "fabric_status", 0),
                  SLOT(fabric->cliqueId, "fabric_clique", 0),
                  SLOT(fabric->healthMask, "fabric_health_mask", 0x1aa));
    if (result == NVML_SUCCESS && fabric->version >> 24 >= 3) /* callers of earlier versions have no room */
        fabric->healthSummary = (unsigned char)state_number_or(device, "fabric_health_summary", 1);
    return result;
}
