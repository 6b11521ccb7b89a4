/* Filling a table of slots from the state file. */
#include "slots.h"

#include "state.h"

static void put(const struct slot *slot, unsigned long long number)
{
    switch (slot->size) {
    case 1: *(unsigned char *)slot->place = (unsigned char)number; break;
    case sizeof(unsigned): *(unsigned *)slot->place = (unsigned)number; break;
    default: *(unsigned long long *)slot->place = number;
    }
}

nvmlReturn_t fill_slots(const struct device *device, const struct slot *slots, size_t count)
{
    unsigned long long first;
    nvmlReturn_t result = state_number(device, slots[0].key, &first);

    if (result != NVML_SUCCESS)
        return result;
    put(&slots[0], first);
    for (size_t i = 1; i < count; i++) {
        unsigned long long fallback = slots[i].fallback == AS_THE_FIRST ? first : slots[i].fallback;

        put(&slots[i], state_number_or(device, slots[i].key, fallback));
    }
    return NVML_SUCCESS;
}
