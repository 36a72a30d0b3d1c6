/* A libqwen that forwards to the real one and notes when each block of audio leaves it.
 *
 * `duet bench tts` compiles this and names it in tts.library, so that the product's own code is
 * measured as it is: the clock is read before our shim sees the block. Built with -DLIBRARY="…"
 * (the real one) and -DLOG="…": a file of int64, one of CLOCK_MONOTONIC nanoseconds per block, the
 * rest 0. It is mapped: a write() here would be counted as ours (0.02 ms).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef bool (*chunk_function)(const float *, int, void *);

/* The layout of ABI 4 and 5 up to the callback's user data; what follows is copied as it is. */
typedef struct {
    int abi;
    const char *text, *language, *instruct, *speaker;
    const float *reference;
    int reference_samples;
    const char *reference_text;
    int64_t seed;
    int max_new_tokens;
    bool do_sample;
    float temperature;
    int top_k;
    float top_p, repetition_penalty;
    bool sub_do_sample;
    float sub_temperature;
    int sub_top_k;
    float sub_top_p;
    const char *dump_folder;
    bool (*cancel)(void *);
    void *cancel_user;
    chunk_function on_chunk;
    void *on_chunk_user;
    const float *embedding;
    int embedding_length;
    const int32_t *codes;
    int code_frames;
    const int32_t *onset_ban;
    int onset_ban_count, onset_ban_frames;
} tts_params;

typedef struct {
    chunk_function on_chunk;
    void *user;
} listener;

#define BLOCKS 65536

static int64_t *blocks; /* NULL: not open */
static int count;

static bool open_log(void) {
    const size_t size = BLOCKS * sizeof *blocks;
    int file = open(LOG, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *mapped = MAP_FAILED;
    if (file >= 0 && !ftruncate(file, (off_t)size))
        mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    if (mapped == MAP_FAILED) return false;
    blocks = mapped;
    while (count < BLOCKS && blocks[count]) count++; /* a worker before this one wrote those */
    for (int i = count; i < BLOCKS; i += 512) blocks[i] = 0; /* no page fault later */
    return true;
}

static void *real(const char *name) {
    static void *library;
    if (!library) library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    return library ? dlsym(library, name) : NULL;
}

#define REAL(name, type) ((type)real(name))

static bool on_chunk(const float *pcm, int samples, void *user) {
    const listener *to = user;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (count == BLOCKS) return false;
    blocks[count++] = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    return to->on_chunk(pcm, samples, to->user);
}

const char *qt_version(void) { return REAL("qt_version", const char *(*)(void))(); }
const char *qt_last_error(void) { return REAL("qt_last_error", const char *(*)(void))(); }
void qt_init_default_params(void *p) { REAL("qt_init_default_params", void (*)(void *))(p); }
void qt_tts_default_params(void *p) { REAL("qt_tts_default_params", void (*)(void *))(p); }
void *qt_init(const void *p) { return REAL("qt_init", void *(*)(const void *))(p); }
void *qt_init_cpu(const void *p, int threads) {
    return REAL("qt_init_cpu", void *(*)(const void *, int))(p, threads);
}
void qt_free(void *c) { REAL("qt_free", void (*)(void *))(c); }
void qt_audio_free(void *audio) { REAL("qt_audio_free", void (*)(void *))(audio); }
int qt_num_codebooks(const void *c) { return REAL("qt_num_codebooks", int (*)(const void *))(c); }

int qt_synthesize(void *context, const tts_params *given, void *out) {
    tts_params params = *given;
    listener to = {given->on_chunk, given->on_chunk_user};
    if (params.on_chunk && (blocks || open_log())) {
        params.on_chunk = on_chunk;
        params.on_chunk_user = &to;
    }
    return REAL("qt_synthesize", int (*)(void *, const void *, void *))(context, &params, out);
}
