/* A library of the user's: in LD_AUDIT it keeps the enforcing one out, in LD_PRELOAD it does nothing. */
#include <stdint.h>
#include <string.h>

unsigned la_version(unsigned version) { return version; }

char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag) {
    (void)cookie, (void)flag;
    return strstr(name, "libvgpu.so") ? NULL : (char *)name;
}
