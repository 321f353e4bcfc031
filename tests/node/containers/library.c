/* In the place of the enforcing library: answers for the driver with the limit of its environment, as HAMi-core does. */
#include <stddef.h>
#include <stdlib.h>

const char library_version[] = "library " VERSION;

static const char *limit(void) {
    const char *first = getenv("CUDA_DEVICE_MEMORY_LIMIT_0");
    return first ? first : getenv("CUDA_DEVICE_MEMORY_LIMIT");
}

int cuMemGetInfo_v2(size_t *available, size_t *total) {
    const char *text = limit();
    char *unit = NULL;
    size_t amount = text ? strtoull(text, &unit, 10) : 0;
    if (!amount) return 100;
    switch (*unit) {
    case 'k': case 'K': amount <<= 10; break;
    case 'm': case 'M': amount <<= 20; break;
    case 'g': case 'G': amount <<= 30; break;
    }
    *available = *total = amount;
    return 0;
}
