/* The trouble that a call can meet, each a key of the state file; a device's own section wins over [gpu],
 * and that over [system]:
 *
 *   latency_us=N            every call takes N microseconds longer; one that finds a device, twice that
 *   latency.SYMBOL=N        this call does (instead of latency_us)
 *   hang.SYMBOL=forever|MS  this call never returns, or only after MS milliseconds; hang.*: every call
 *   crash.SYMBOL=1          this call ends the process with a segmentation fault
 *   ret.SYMBOL=CODE         this call returns CODE
 *   lost=1                  every call about the device returns GPU_IS_LOST
 *   reset_required=1        every call about the device returns RESET_REQUIRED */
#define _GNU_SOURCE
#include "gate.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "state.h"

static atomic_int open_count;

void gate_opened(void)
{
    atomic_fetch_add(&open_count, 1);
}

nvmlReturn_t gate_closed(void)
{
    if (atomic_load(&open_count) <= 0)
        return NVML_ERROR_UNINITIALIZED;
    atomic_fetch_sub(&open_count, 1);
    return NVML_SUCCESS;
}

static bool trouble(const struct device *device, const char *kind, const char *symbol, char *text)
{
    char key[96];

    snprintf(key, sizeof key, "%s.%s", kind, symbol);
    return (device && state_text(device, key, text)) || state_text(NULL, key, text);
}

static void wait_us(unsigned long long microseconds)
{
    struct timespec left = { (time_t)(microseconds / 1000000), (long)(microseconds % 1000000) * 1000 };

    while (nanosleep(&left, &left))
        continue;
}

static void be_slow(const char *symbol, const struct device *device)
{
    char text[VALUE_SIZE];

    if (trouble(device, "latency", symbol, text) || (device && state_text(device, "latency_us", text))
        || state_text(NULL, "latency_us", text))
        wait_us(strtoull(text, NULL, 0));
}

static void hang(const char *symbol, const struct device *device)
{
    char text[VALUE_SIZE];

    if (!trouble(device, "hang", symbol, text) && !trouble(device, "hang", "*", text))
        return;
    while (!strcmp(text, "forever"))
        pause();
    wait_us(strtoull(text, NULL, 0) * 1000);
}

static void crash(const char *symbol, const struct device *device)
{
    char text[VALUE_SIZE];

    if (!trouble(device, "crash", symbol, text) || !strcmp(text, "0"))
        return;
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

nvmlReturn_t gate(const char *symbol, const struct device *device)
{
    char text[VALUE_SIZE];

    be_slow(symbol, device);
    hang(symbol, device);
    crash(symbol, device);
    if (trouble(device, "ret", symbol, text) && strtol(text, NULL, 0) != NVML_SUCCESS)
        return (nvmlReturn_t)strtol(text, NULL, 0);
    if (atomic_load(&open_count) <= 0)
        return NVML_ERROR_UNINITIALIZED;
    if (!device)
        return NVML_SUCCESS;
    if (state_number_or(device, "lost", 0))
        return NVML_ERROR_GPU_IS_LOST;
    if (state_number_or(device, "reset_required", 0))
        return NVML_ERROR_RESET_REQUIRED;
    return NVML_SUCCESS;
}
