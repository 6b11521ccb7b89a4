/* Reads the state file, and reads it again whenever it has changed.
 *
 * The file is `nvml-state.ini` beside the library itself, because Slurm's hooks start with an empty
 * environment; NVML_DOUBLE_STATE names another one. Writers replace it with rename(2), so a reader
 * never sees half a file. */
#define _GNU_SOURCE
#include "state.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NAME_SIZE 96

struct entry {
    char key[NAME_SIZE];
    char value[VALUE_SIZE];
};

struct section {
    char name[32];
    struct entry *entries;
    size_t count, capacity;
};

static struct section *sections;
static size_t section_count, section_capacity;
static struct stat loaded; /* identity of the file that the sections came from */
static bool is_loaded;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const char *state_path(void)
{
    static char path[PATH_MAX];
    const char *named = getenv("NVML_DOUBLE_STATE");
    Dl_info library;

    if (named && *named)
        return named;
    if (!*path && dladdr((void *)state_path, &library) && library.dli_fname) {
        const char *slash = strrchr(library.dli_fname, '/');
        int length = slash ? (int)(slash - library.dli_fname) : 1;
        snprintf(path, sizeof path, "%.*s/nvml-state.ini", length, slash ? library.dli_fname : ".");
    }
    return path;
}

static void *grow(void *array, size_t count, size_t *capacity, size_t item_size)
{
    void *bigger;

    if (count < *capacity)
        return array;
    *capacity = *capacity ? *capacity * 2 : 16;
    bigger = realloc(array, *capacity * item_size);
    if (!bigger)
        abort();
    return bigger;
}

static void forget_everything(void)
{
    for (size_t i = 0; i < section_count; i++)
        free(sections[i].entries);
    section_count = 0;
    is_loaded = false;
}

static struct section *find_section(const char *name)
{
    for (size_t i = 0; i < section_count; i++)
        if (!strcmp(sections[i].name, name))
            return &sections[i];
    return NULL;
}

static struct section *add_section(const char *name)
{
    struct section *section = find_section(name);

    if (section)
        return section;
    sections = grow(sections, section_count, &section_capacity, sizeof *sections);
    section = &sections[section_count++];
    memset(section, 0, sizeof *section);
    snprintf(section->name, sizeof section->name, "%s", name);
    return section;
}

static const struct entry *find_entry(const struct section *section, const char *key)
{
    for (size_t i = section ? section->count : 0; i > 0; i--) /* the last one of a name wins */
        if (!strcmp(section->entries[i - 1].key, key))
            return &section->entries[i - 1];
    return NULL;
}

static void add_entry(struct section *section, const char *key, const char *value)
{
    struct entry *entry;

    section->entries = grow(section->entries, section->count, &section->capacity, sizeof *section->entries);
    entry = &section->entries[section->count++];
    snprintf(entry->key, sizeof entry->key, "%s", key);
    snprintf(entry->value, sizeof entry->value, "%s", value);
}

static char *trim(char *text)
{
    char *end;

    text += strspn(text, " \t");
    end = text + strlen(text);
    while (end > text && strchr(" \t\r\n", end[-1]))
        *--end = '\0';
    return text;
}

static void read_line(char *line, char *section_name, size_t section_size)
{
    char *text = trim(line), *equals;

    if (!*text || *text == '#' || *text == ';')
        return;
    if (*text == '[') {
        text[strcspn(text, "]")] = '\0';
        snprintf(section_name, section_size, "%s", text + 1);
        return;
    }
    equals = strchr(text, '=');
    if (!equals)
        return;
    *equals = '\0';
    add_entry(add_section(section_name), trim(text), trim(equals + 1));
}

static bool unchanged(const struct stat *now)
{
    return is_loaded && now->st_ino == loaded.st_ino && now->st_size == loaded.st_size
        && now->st_mtim.tv_sec == loaded.st_mtim.tv_sec && now->st_mtim.tv_nsec == loaded.st_mtim.tv_nsec;
}

static void load_if_changed(void)
{
    char line[NAME_SIZE + VALUE_SIZE], section_name[32] = "system";
    struct stat now;
    FILE *file = NULL;

    if (!stat(state_path(), &now) && unchanged(&now))
        return;
    forget_everything();
    file = fopen(state_path(), "re");
    if (!file)
        return;
    if (!fstat(fileno(file), &loaded)) {
        while (fgets(line, sizeof line, file))
            read_line(line, section_name, sizeof section_name);
        is_loaded = true;
    }
    fclose(file);
}

static const struct entry *look_up(const struct device *device, const char *key)
{
    const struct entry *entry;
    char own_section[48];

    if (!device)
        return find_entry(find_section("system"), key);
    if (device->mig < 0)
        snprintf(own_section, sizeof own_section, "gpu%u", device->index);
    else
        snprintf(own_section, sizeof own_section, "gpu%u.mig%d", device->index, device->mig);
    entry = find_entry(find_section(own_section), key);
    return entry ? entry : find_entry(find_section(device->mig < 0 ? "gpu" : "mig"), key);
}

bool state_text(const struct device *device, const char *key, char *text)
{
    const struct entry *entry;

    pthread_mutex_lock(&lock);
    load_if_changed();
    entry = look_up(device, key);
    if (entry)
        memcpy(text, entry->value, VALUE_SIZE);
    pthread_mutex_unlock(&lock);
    return entry != NULL;
}

nvmlReturn_t state_number(const struct device *device, const char *key, unsigned long long *number)
{
    char text[VALUE_SIZE];

    if (!state_text(device, key, text) || !strcmp(text, "N/A"))
        return NVML_ERROR_NOT_SUPPORTED;
    *number = strtoull(text, NULL, 0);
    return NVML_SUCCESS;
}

unsigned long long state_number_or(const struct device *device, const char *key, unsigned long long fallback)
{
    unsigned long long number;

    return state_number(device, key, &number) == NVML_SUCCESS ? number : fallback;
}

bool state_exists(void)
{
    bool exists;

    pthread_mutex_lock(&lock);
    load_if_changed();
    exists = is_loaded;
    pthread_mutex_unlock(&lock);
    return exists;
}
