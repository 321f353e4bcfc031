/* In the place of the driver's management library. */
#include <stdio.h>

struct sample { unsigned pid; unsigned long long time; unsigned sm, memory, encoder, decoder; };

int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { return *device = "device", (int)index; }
int nvmlDeviceGetName(void *device, char *text, unsigned size) { return snprintf(text, size, "a stand-in"), !device; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { return snprintf(text, size, "none"), 0; }
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *later) { return *now = *later = 0, !device; }

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *total) { return *total = 80ull << 30, !device; }

int nvmlDeviceGetProcessUtilization(void *device, struct sample *samples, unsigned *count, unsigned long long since) {
    samples[0] = (struct sample){.pid = 1, .time = since, .sm = 50};
    return *count = 1, !device;
}
