/* Every call but nvmlErrorString passes the gate first: latency, hangs, crashes, forced codes, lost devices. */
#ifndef NVML_DOUBLE_GATE_H
#define NVML_DOUBLE_GATE_H

#include "nvml.h"

/* What the call named SYMBOL has to return before it looks at anything; NVML_SUCCESS: go on.
 * A NULL device is a call about the system. May sleep, never return, or end the process (see gate.c). */
nvmlReturn_t gate(const char *symbol, const struct device *device);

/* Counts nvmlInit and nvmlShutdown. */
void gate_opened(void);
nvmlReturn_t gate_closed(void);

/* Leaves the calling function where the gate, or a missing output argument, says so. */
#define PASS_GATE(device)                                    \
    do {                                                     \
        nvmlReturn_t gate_result = gate(__func__, (device)); \
        if (gate_result != NVML_SUCCESS)                     \
            return gate_result;                              \
    } while (0)

#define NEED(argument)                          \
    do {                                        \
        if (!(argument))                        \
            return NVML_ERROR_INVALID_ARGUMENT; \
    } while (0)

#endif
