/* In the place of the enforcing library: answers for the driver with the limit of its environment, as HAMi-core does. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>

#ifdef AUDIT
/* Loaded by LD_AUDIT, beside the program and not in it: answers where the loader looks for the driver's symbol. */
#include <link.h>
#include <stdint.h>
#include <string.h>

int cuMemGetInfo_v2(size_t *available, size_t *total);

unsigned la_version(unsigned version) { return version; }

unsigned la_objopen(struct link_map *map, Lmid_t lmid, uintptr_t *cookie) {
    (void)map, (void)lmid, (void)cookie;
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags,
                       const char *name) {
    (void)index, (void)from, (void)to, (void)flags;
    return strcmp(name, "cuMemGetInfo_v2") ? symbol->st_value : (uintptr_t)cuMemGetInfo_v2;
}
#endif

#ifdef __GLIBC__
/* As real libraries do, it needs what only glibc has: with it, a program linked with musl does not start. */
#include <gnu/libc-version.h>
const char *(*const needed)(void) = gnu_get_libc_version;
#endif

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
