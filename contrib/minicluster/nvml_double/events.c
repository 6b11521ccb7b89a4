/* Xid events: key `xid_events` of a GPU, a list of codes that grows. A listener gets each code once,
 * and, as with the real library, only those that it waits for. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device.h"
#include "gate.h"
#include "state.h"

#define EVENT_XID 8ull
#define POLL_MS 20

struct event_set {
    unsigned char watches[MAX_GPUS];
    unsigned delivered[MAX_GPUS]; /* how many codes of the list this listener has had */
};

EXPORT nvmlReturn_t nvmlEventSetCreate(struct event_set **set)
{
    NEED(set);
    PASS_GATE(NULL);
    *set = calloc(1, sizeof **set);
    return *set ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

EXPORT nvmlReturn_t nvmlEventSetFree(struct event_set *set)
{
    NEED(set);
    PASS_GATE(NULL);
    free(set);
    return NVML_SUCCESS;
}

/* The code at POSITION of the list; false: there is none (yet). */
static bool code_at(const struct device *gpu, unsigned position, unsigned long long *code)
{
    char list[VALUE_SIZE];
    char *rest = list;

    if (!state_text(gpu, "xid_events", list))
        return false;
    for (; position && *rest; position--) {
        rest += strcspn(rest, ",");
        rest += *rest == ',';
    }
    if (position || !*rest)
        return false;
    *code = strtoull(rest, NULL, 0);
    return true;
}

static unsigned codes_so_far(const struct device *gpu)
{
    unsigned long long code;
    unsigned count = 0;

    while (code_at(gpu, count, &code))
        count++;
    return count;
}

EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, struct event_set *set)
{
    NEED(device && set && device->mig < 0);
    PASS_GATE(device);
    if (types & ~state_number_or(device, "event_types_supported", 0))
        return NVML_ERROR_NOT_SUPPORTED;
    if (!(types & EVENT_XID))
        return NVML_SUCCESS;
    set->watches[device->index] = 1;
    set->delivered[device->index] = codes_so_far(device);
    return NVML_SUCCESS;
}

static bool take_event(struct event_set *set, nvmlEventData_t *event)
{
    for (unsigned gpu = 0; gpu < MAX_GPUS; gpu++) {
        unsigned long long code;

        if (!set->watches[gpu] || !code_at(gpu_handle(gpu), set->delivered[gpu], &code))
            continue;
        set->delivered[gpu]++;
        *event = (nvmlEventData_t){ gpu_handle(gpu), EVENT_XID, code, NOT_AVAILABLE_U32, NOT_AVAILABLE_U32 };
        return true;
    }
    return false;
}

EXPORT nvmlReturn_t nvmlEventSetWait_v2(struct event_set *set, nvmlEventData_t *event, unsigned timeout_ms)
{
    const struct timespec pause = { 0, POLL_MS * 1000000L };

    NEED(set && event);
    PASS_GATE(NULL);
    for (unsigned waited = 0; !take_event(set, event); waited += POLL_MS) {
        if (waited >= timeout_ms)
            return NVML_ERROR_TIMEOUT;
        nanosleep(&pause, NULL);
    }
    return NVML_SUCCESS;
}
