/* What differs between systems: dynamic loading, a monotonic clock, an atomic flag.
 *
 * Include this before any system header: it asks for the POSIX names under -std=c11.
 * The MSVC branch (interlocked intrinsics) is written from its manual and has not been run.
 */
#ifndef DUET_PORT_H
#define DUET_PORT_H

#if !defined(_WIN32) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <dlfcn.h>
#include <time.h>
#endif

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
typedef volatile __int64 port_flag;
static __inline int64_t port_get(port_flag *flag) { return _InterlockedOr64(flag, 0); }
static __inline int64_t port_swap(port_flag *flag, int64_t value) {
    return _InterlockedExchange64(flag, value);
}
#else
#include <stdatomic.h>
typedef _Atomic int64_t port_flag;
static inline int64_t port_get(port_flag *flag) {
    return atomic_load_explicit(flag, memory_order_acquire);
}
static inline int64_t port_swap(port_flag *flag, int64_t value) {
    return atomic_exchange_explicit(flag, value, memory_order_acq_rel);
}
#endif

/* The one function pointer type that compilers let be cast to any other without complaint. */
typedef void (*port_function)(void);

static inline double port_now_ms(void) {
#if defined(_WIN32)
    LARGE_INTEGER count, frequency;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&frequency);
    return (double)count.QuadPart * 1e3 / (double)frequency.QuadPart;
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
#endif
}

/* NULL on failure, with the loader's own words in `error`. */
static inline void *port_load(const char *path, char *error, size_t error_size) {
#if defined(_WIN32)
    wchar_t wide[1024];
    HMODULE module = NULL;
    if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, 1024) > 0)
        /* altered: the libraries it needs are looked for in its own folder first */
        module = LoadLibraryExW(wide, NULL, LOAD_WITH_ALTERED_SEARCH_PATH);
    if (!module)
        snprintf(error, error_size, "LoadLibrary error %lu", (unsigned long)GetLastError());
    return (void *)module;
#else
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *why = dlerror();
        snprintf(error, error_size, "%s", why ? why : "dlopen failed");
    }
    return library;
#endif
}

static inline void port_unload(void *library) {
#if defined(_WIN32)
    FreeLibrary((HMODULE)library);
#else
    dlclose(library);
#endif
}

static inline port_function port_symbol(void *library, const char *name) {
#if defined(_WIN32)
    return (port_function)GetProcAddress((HMODULE)library, name);
#else
    /* ISO C has no cast from an object pointer to a function pointer; POSIX promises that the
     * representations agree. */
    void *object = dlsym(library, name);
    port_function function = NULL;
    memcpy(&function, &object, sizeof function);
    return function;
#endif
}

#endif
