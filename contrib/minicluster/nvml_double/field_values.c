/* nvmlDeviceGetFieldValues: keys `field.ID`, or `field.ID.SCOPE` for one scope (a link, a sensor).
 * Each value carries its own return code, and its type follows from how it is written:
 * 12 unsigned, -12 signed, 1.5 or 1e-12 a double. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate.h"
#include "state.h"

enum { TYPE_DOUBLE = 0, TYPE_UNSIGNED_LONG_LONG = 3, TYPE_SIGNED_LONG_LONG = 4 };

static bool find_field(const struct device *device, const nvmlFieldValue_t *field, char *text)
{
    char key[48];

    snprintf(key, sizeof key, "field.%u.%u", field->fieldId, field->scopeId);
    if (state_text(device, key, text))
        return true;
    snprintf(key, sizeof key, "field.%u", field->fieldId);
    return state_text(device, key, text);
}

static void convert(const char *text, nvmlFieldValue_t *field)
{
    if (strncmp(text, "0x", 2) && strpbrk(text, ".eE")) {
        field->valueType = TYPE_DOUBLE;
        field->value.dVal = strtod(text, NULL);
    } else if (*text == '-') {
        field->valueType = TYPE_SIGNED_LONG_LONG;
        field->value.sllVal = strtoll(text, NULL, 0);
    } else {
        field->valueType = TYPE_UNSIGNED_LONG_LONG;
        field->value.ullVal = strtoull(text, NULL, 0);
    }
}

EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *fields)
{
    char text[VALUE_SIZE];

    NEED(device && fields && count > 0);
    PASS_GATE(device);
    for (int i = 0; i < count; i++) {
        fields[i].value.ullVal = 0;
        fields[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
        if (find_field(device, &fields[i], text) && strcmp(text, "N/A")) {
            fields[i].nvmlReturn = NVML_SUCCESS;
            convert(text, &fields[i]);
        }
    }
    return NVML_SUCCESS;
}
