/* In the place of the driver's library: a GPU of 80 GiB that nobody limits. */
#include <stddef.h>

int cuMemGetInfo_v2(size_t *available, size_t *total) {
    *available = *total = (size_t)80 << 30;
    return 0;
}
