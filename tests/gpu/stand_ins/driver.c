/* In the place of the driver's library: a GPU of 80 GiB that nobody limits. A launch takes 2 ms of the device's own time. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define DEVICE ((size_t)80 << 30)

static size_t used;
static double now;

int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGet(int *device, int index) { return *device = index, 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = &used, device; }
int cuCtxSetCurrent(void *context) { return context != &used; }
int cuCtxSynchronize(void) { return 0; }

int cuMemGetInfo_v2(size_t *available, size_t *total) { return *available = DEVICE - used, *total = DEVICE, 0; }
int cuDeviceTotalMem_v2(size_t *total, int device) { return *total = DEVICE, device; }
int cuMemsetD8_v2(uint64_t address, unsigned char value, size_t size) { return !(address && value && size); }

int cuMemAlloc_v2(uint64_t *address, size_t size) {
    if (size > DEVICE - used) return 2;
    size_t *kept = malloc(sizeof *kept);
    used += *kept = size;
    *address = (uintptr_t)kept;
    return 0;
}

int cuMemFree_v2(uint64_t address) {
    size_t *kept = (size_t *)(uintptr_t)address;
    used -= *kept;
    free(kept);
    return 0;
}

int cuModuleLoadData(void **module, const void *image) { return *module = &used, !image; }
int cuModuleGetFunction(void **function, void *module, const char *name) { return *function = module, !name; }
int cuEventCreate(double **event, unsigned flags) { return *event = calloc(1, sizeof **event), (int)flags; }
int cuEventRecord(double *event, void *stream) { return *event = now, stream != NULL; }
int cuEventSynchronize(double *event) { return !event; }
int cuEventElapsedTime(float *elapsed, double *first, double *last) { return *elapsed = (float)(*last - *first), 0; }

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **parameters, void **extra) {
    (void)x, (void)y, (void)z, (void)bx, (void)by, (void)bz, (void)shared, (void)stream, (void)parameters, (void)extra;
    now += 2;
    return !function;
}

/* The time of the device goes on, and nothing is done. */
void stand_in_idle(double milliseconds) { now += milliseconds; }
