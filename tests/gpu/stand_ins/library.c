/* In the place of the enforcing library: limits as HAMi-core does, by variables, or by a file with limits if there is one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void *own(void *handle, const char *symbol) {
    static void *(*real)(void *, const char *);
    if (!real) real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return real(handle, symbol);
}

static void *driver(const char *symbol) {
    static void *library;
    if (!library) library = dlopen("libcuda.so.1", RTLD_NOW);
    return own(library, symbol);
}

/* Programs that load the driver themselves ask here: with the file that a variable names first. */
void *dlsym(void *handle, const char *symbol) {
    const char *file = getenv("CUDA_REDIRECT");
    void *found = NULL;
    if (symbol[0] == 'c' && symbol[1] == 'u') found = own(file ? dlopen(file, RTLD_LAZY) : RTLD_DEFAULT, symbol);
    return found ? found : own(handle, symbol);
}

static size_t amount(const char *name, const char *other) {
    const char *text = getenv(name);
    char *unit = NULL;
    if (!text && !(text = getenv(other))) return 0;
    size_t value = strtoull(text, &unit, 10);
    return value << (*unit == 'g' ? 30 : *unit == 'm' ? 20 : *unit == 'k' ? 10 : 0);
}

static struct limits { size_t memory, cores; } limits;
static size_t used;

static void ready(void) {
    static int done;
    if (done++) return;
    const char *name = getenv("CUDA_DEVICE_MEMORY_SHARED_CACHE");
    FILE *file = name ? fopen(name, "rb") : NULL;
    limits.memory = amount("CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_DEVICE_MEMORY_LIMIT");
    limits.cores = amount("CUDA_DEVICE_SM_LIMIT_0", "CUDA_DEVICE_SM_LIMIT");
    if (file) {
        if (fread(&limits, sizeof limits, 1, file) != 1) exit(1);
    } else if (name) {
        if (!(file = fopen(name, "wb"))) exit(1);
        fwrite(&limits, sizeof limits, 1, file);
    }
    if (file) fclose(file);
    const char *policy = getenv("GPU_CORE_UTILIZATION_POLICY");
    if (policy && !strcasecmp(policy, "disable")) limits.cores = 0;
}

int cuMemGetInfo_v2(size_t *available, size_t *total) {
    ready();
    int code = ((int (*)(size_t *, size_t *))driver("cuMemGetInfo_v2"))(available, total);
    if (limits.memory && limits.memory < *total) *total = limits.memory, *available = limits.memory - used;
    return code;
}

int cuDeviceTotalMem_v2(size_t *total, int device) {
    ready();
    int code = ((int (*)(size_t *, int))driver("cuDeviceTotalMem_v2"))(total, device);
    if (limits.memory) *total = limits.memory;
    return code;
}

int cuMemAlloc_v2(uint64_t *address, size_t size) {
    ready();
    if (limits.memory && used + size > limits.memory) return 2;
    int code = ((int (*)(uint64_t *, size_t))driver("cuMemAlloc_v2"))(address, size);
    if (!code) used += size;
    return code;
}

int cuMemFree_v2(uint64_t address) {
    used -= *(size_t *)(uintptr_t)address;
    return ((int (*)(uint64_t))driver("cuMemFree_v2"))(address);
}

typedef int launch(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **parameters, void **extra) {
    ready();
    if (limits.cores && limits.cores < 100)
        ((void (*)(double))driver("stand_in_idle"))(2.0 * (100 - (double)limits.cores) / (double)limits.cores);
    return ((launch *)driver("cuLaunchKernel"))(function, x, y, z, bx, by, bz, shared, stream, parameters, extra);
}
