/* Prints what a program that uses the GPU gets: the memory in MiB that the driver's call reports, the version of the library
   that is loaded, and some of the environment. With `path` it asks the driver that it loads by its path; with `hold` it then
   stays until it is ended. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern int cuMemGetInfo_v2(size_t *, size_t *);

int main(int count, char **arguments) {
    static const char *names[] = {
        "LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES", "CUDA_DEVICE_MEMORY_LIMIT",
        "CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_DEVICE_MEMORY_SHARED_CACHE", "CUDA_DEVICE_SM_LIMIT", "CUDA_DEVICE_SM_LIMIT_0",
        "CUDA_REDIRECT", "NVIDIA_VISIBLE_DEVICES", "GPU_CORE_UTILIZATION_POLICY"};
    size_t available = 0, total = 0;
    int result;
    if (count > 1 && !strcmp(arguments[1], "path")) {
        void *driver = dlopen("/usr/lib/libcuda.so.1", RTLD_NOW);
        result = ((int (*)(size_t *, size_t *))dlsym(driver, "cuMemGetInfo_v2"))(&available, &total);
    } else {
        /* Not by its address: la_symbind is not asked for that. */
        result = cuMemGetInfo_v2(&available, &total);
    }
    const char *version = dlsym(RTLD_DEFAULT, "library_version");
    printf("{\"result\": %d, \"memory\": %zu, \"library\": \"%s\"", result, total >> 20, version ? version : "");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value) printf(", \"%s\": \"%s\"", names[i], value);
    }
    printf("}\n");
    fflush(stdout);
    if (count > 1 && !strcmp(arguments[1], "hold"))
        for (;;) pause();
    return 0;
}
