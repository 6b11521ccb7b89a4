/* The part of NVML's binary interface that health checks use: return codes, handles, structures.
 * Layouts are those that the public nvidia-ml-py binding (BSD licence) declares with ctypes. */
#ifndef NVML_DOUBLE_NVML_H
#define NVML_DOUBLE_NVML_H

#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define NOT_AVAILABLE_U32 0xFFFFFFFFu
#define NOT_AVAILABLE_U64 0xFFFFFFFFFFFFFFFFull

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_LIBRARY_NOT_FOUND = 12,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_RESET_REQUIRED = 16,
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
    NVML_ERROR_UNKNOWN = 999
};

typedef int nvmlReturn_t;

/* What a handle points to. `mig` is -1 for a whole GPU, else the index of the MIG device on it. */
struct device {
    unsigned index;
    int mig;
};
typedef struct device *nvmlDevice_t;

typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device;
    unsigned pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct { unsigned long long bar1Total, bar1Free, bar1Used; } nvmlBAR1Memory_t;
typedef struct { unsigned gpu, memory; } nvmlUtilization_t;
typedef struct { unsigned long long referenceTime, violationTime; } nvmlViolationTime_t;
typedef struct { unsigned version, sensorType; int temperature; } nvmlTemperature_t;
typedef struct { unsigned version; int marginTemperature; } nvmlMarginTemperature_t;
typedef struct { unsigned max, high, partial, low, none; } nvmlRowRemapperHistogramValues_t;
typedef struct { unsigned version, bChannelRepairPending, bTpcRepairPending; } nvmlRepairStatus_t;
typedef struct { unsigned version, bUnrepairableMemory; } nvmlUnrepairableMemory_t;

typedef struct {
    unsigned version;
    unsigned long long aggregateUncorrectedParity, aggregateUncorrectedSecDed, aggregateCorrected;
    unsigned long long volatileUncorrectedParity, volatileUncorrectedSecDed, volatileCorrected;
    unsigned long long bucketL2, bucketSm, bucketPcie, bucketMcu, bucketOther; /* aggregate uncorrected, by place */
    unsigned bThresholdExceeded;
} nvmlEccSramErrorStatus_t;

typedef struct {
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned cliqueId;
    unsigned char state;
} nvmlGpuFabricInfo_t;

typedef struct {
    unsigned version; /* size in the low 24 bits, structure version in the high 8 */
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned cliqueId;
    unsigned char state;
    unsigned healthMask;
    unsigned char healthSummary; /* only there from structure version 3 */
} nvmlGpuFabricInfoV_t;

typedef struct {
    unsigned fieldId, scopeId;
    long long timestamp, latencyUsec;
    unsigned valueType;
    nvmlReturn_t nvmlReturn;
    union { double dVal; unsigned uiVal; unsigned long long ullVal; long long sllVal; } value;
} nvmlFieldValue_t;

typedef struct {
    unsigned pid;
    unsigned long long usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

#endif
