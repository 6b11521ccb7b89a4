/* Counting GPUs and finding their handles, whole GPUs and MIG devices alike; PCI identity. */
#define _GNU_SOURCE
#include "device.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "gate.h"
#include "state.h"

static struct device gpus[MAX_GPUS];
static struct device migs[MAX_GPUS][MAX_MIG];
static pthread_once_t numbered = PTHREAD_ONCE_INIT;

static void number_devices(void)
{
    for (unsigned gpu = 0; gpu < MAX_GPUS; gpu++) {
        gpus[gpu] = (struct device){ gpu, -1 };
        for (int mig = 0; mig < MAX_MIG; mig++)
            migs[gpu][mig] = (struct device){ gpu, mig };
    }
}

nvmlDevice_t gpu_handle(unsigned index)
{
    pthread_once(&numbered, number_devices);
    return &gpus[index];
}

nvmlDevice_t mig_handle(unsigned gpu, unsigned index)
{
    pthread_once(&numbered, number_devices);
    return &migs[gpu][index];
}

unsigned gpu_count(void)
{
    unsigned long long count = state_number_or(NULL, "count", 0);

    return count < MAX_GPUS ? (unsigned)count : MAX_GPUS;
}

unsigned mig_count(const struct device *gpu)
{
    unsigned long long count = state_number_or(gpu, "mig", 0) ? state_number_or(gpu, "mig_count", 0) : 0;

    return count < MAX_MIG ? (unsigned)count : MAX_MIG;
}

nvmlReturn_t device_text(const struct device *device, const char *key, char *text, unsigned length)
{
    char value[VALUE_SIZE];

    if (!state_text(device, key, value) || !strcmp(value, "N/A"))
        return NVML_ERROR_NOT_SUPPORTED;
    if (strlen(value) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(text, value, strlen(value) + 1);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    NEED(count);
    PASS_GATE(NULL);
    *count = gpu_count();
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *handle)
{
    NEED(handle);
    PASS_GATE(NULL);
    if (index >= gpu_count())
        return NVML_ERROR_INVALID_ARGUMENT;
    PASS_GATE(gpu_handle(index)); /* a lost GPU has no handle */
    *handle = gpu_handle(index);
    return NVML_SUCCESS;
}

static int has_value(const struct device *device, const char *key, const char *wanted)
{
    char value[VALUE_SIZE];

    return state_text(device, key, value) && !strcasecmp(value, wanted);
}

static nvmlDevice_t find_gpu(const char *key, const char *wanted)
{
    for (unsigned gpu = 0; gpu < gpu_count(); gpu++)
        if (has_value(gpu_handle(gpu), key, wanted))
            return gpu_handle(gpu);
    return NULL;
}

static nvmlDevice_t find_mig(const char *uuid)
{
    for (unsigned gpu = 0; gpu < gpu_count(); gpu++)
        for (unsigned mig = 0; mig < mig_count(gpu_handle(gpu)); mig++)
            if (has_value(mig_handle(gpu, mig), "uuid", uuid))
                return mig_handle(gpu, mig);
    return NULL;
}

static nvmlReturn_t give_handle(const char *symbol, nvmlDevice_t found, nvmlDevice_t *handle)
{
    nvmlReturn_t result = found ? gate(symbol, found) : NVML_ERROR_NOT_FOUND;

    if (result == NVML_SUCCESS)
        *handle = found;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *handle)
{
    nvmlDevice_t found;

    NEED(uuid && handle);
    PASS_GATE(NULL);
    found = find_gpu("uuid", uuid);
    return give_handle(__func__, found ? found : find_mig(uuid), handle);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *handle)
{
    NEED(serial && handle);
    PASS_GATE(NULL);
    return give_handle(__func__, find_gpu("serial", serial), handle);
}

/* Domain, bus, device and function; callers write "00000000:1B:00.0", "0000:1b:00.0" or "1b:00.0". */
static void parse_bus_id(const char *text, unsigned address[4])
{
    memset(address, 0, 4 * sizeof *address);
    if (sscanf(text, "%x:%x:%x.%x", &address[0], &address[1], &address[2], &address[3]) >= 3)
        return;
    address[0] = 0;
    sscanf(text, "%x:%x.%x", &address[1], &address[2], &address[3]);
}

static int same_bus_id(const char *left, const char *right)
{
    unsigned a[4], b[4];

    parse_bus_id(left, a);
    parse_bus_id(right, b);
    return !memcmp(a, b, sizeof a);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *handle)
{
    char value[VALUE_SIZE];

    NEED(bus_id && handle);
    PASS_GATE(NULL);
    for (unsigned gpu = 0; gpu < gpu_count(); gpu++)
        if (state_text(gpu_handle(gpu), "bus_id", value) && same_bus_id(value, bus_id))
            return give_handle(__func__, gpu_handle(gpu), handle);
    return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index)
{
    NEED(device && index);
    PASS_GATE(device);
    *index = device->mig < 0 ? device->index : (unsigned)device->mig;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    char bus_id[VALUE_SIZE];
    unsigned address[4];

    NEED(device && pci);
    PASS_GATE(device);
    if (!state_text(device, "bus_id", bus_id))
        return NVML_ERROR_NOT_SUPPORTED;
    parse_bus_id(bus_id, address);
    memset(pci, 0, sizeof *pci);
    snprintf(pci->busId, sizeof pci->busId, "%.31s", bus_id);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.%X", address[0] & 0xffff,
             address[1] & 0xff, address[2] & 0x1f, address[3] & 7);
    pci->domain = address[0];
    pci->bus = address[1];
    pci->device = address[2];
    pci->pciDeviceId = (unsigned)state_number_or(device, "pci_device_id", 0);
    pci->pciSubSystemId = (unsigned)state_number_or(device, "pci_subsystem_id", 0);
    return NVML_SUCCESS;
}
