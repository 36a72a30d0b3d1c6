/* Fuzzes the border: arbitrary bytes become a request, and whatever passes must be harmless.
 *
 * Behind it are the tone and the stand-in for libqwen that $DUET_FUZZED names (built with
 * -DSTANDIN_FUZZED), which aborts at what the real one would abort at: voices go through the border
 * too. With -DOWN_LOOP it brings its own main (for gcc, which has no libFuzzer):
 *
 *     request_fuzzer RUNS SEED
 */
#include "../../native/port.h"

#include "../../native/duet_voice.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct { const uint8_t *at; size_t left; } source;

static uint32_t number(source *from) {
    uint32_t value = 0;
    for (int i = 0; i < 4 && from->left; i++, from->at++, from->left--)
        value = (value << 8) | *from->at;
    return value;
}

static float real(source *from) {
    uint32_t bits = number(from);
    float value;
    static const float usual[] = {0.0f, 0.9f, 1.0f, 1.05f};
    if (bits % 3) return usual[bits % 4];
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A string of the next bytes on the heap, exactly as long as it is: an overrun is seen. */
static char *text(source *from, size_t most) {
    size_t n = number(from) % (most + 1);
    char *made;
    if (n > from->left) n = from->left;
    made = malloc(n + 1);
    if (!made) abort();
    if (n) memcpy(made, from->at, n);
    made[n] = 0;
    from->at += n;
    from->left -= n;
    return made;
}

static int32_t on_block(const float *pcm, int32_t samples, void *user) {
    int64_t *budget = user;
    for (int32_t i = 0; i < samples; i++)
        if (!isfinite(pcm[i])) abort();
    if (!budget) return 1; /* a request cut off before `user` */
    *budget -= samples;
    if (*budget < 0) abort(); /* more audio than the cap allows */
    return (*budget % 7) != 0;
}

static int accepted_ok(const dv_request *request) {
    int visible = 0;
    for (const char *c = request->text; *c; c++) visible |= (unsigned char)*c > 0x20;
    return visible && !strstr(request->text, "<|") && strlen(request->text) <= 8192
        && isfinite(request->temperature) && isfinite(request->top_p)
        && isfinite(request->repetition_penalty) && request->max_frames >= 1
        && request->max_frames <= DV_MOST_FRAMES && request->top_k >= 0 && !request->voice_file;
}

/* Codes on the heap, exactly as many as the request says; few of them are out of range. */
static int32_t *some_codes(source *from, int32_t frames) {
    int32_t *made;
    if (frames < 1 || frames > 750) frames = 1; /* refused before one is looked at */
    made = malloc((size_t)frames * 16 * sizeof *made);
    if (!made) abort();
    for (int32_t i = 0; i < frames * 16; i++) made[i] = i % 64;
    if (number(from) % 3 == 0) made[number(from) % (uint32_t)(frames * 16)] = (int32_t)number(from);
    return made;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    source from = {data, size};
    dv_options options;
    dv_engine *engine = NULL;
    dv_request request;
    dv_stats stats;
    char error[64];
    float embedding[4];
    int32_t *codes, status;
    int64_t budget;
    uint32_t flags = number(&from);
    const char *library = getenv("DUET_FUZZED");
    int tone = !library || flags & 65536;
    char *own[5];

    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.engine = tone ? "tone" : "libqwen";
    options.library = library;
    options.model = options.codec = "some.gguf";
    options.threads = 1;
    options.embedding_length = 4;
    options.codebook_size = 64;
    if (dv_open(&options, &engine, error, sizeof error)) abort();
    memset(&request, 0, sizeof request);
    request.size = flags & 1 ? number(&from) % (2 * sizeof request) : sizeof request;
    request.job = flags & 2 ? (int32_t)number(&from) : 1;
    request.max_frames = flags & 4 ? (int32_t)number(&from) : 5;
    request.deadline_ms = flags & 8 ? (int32_t)number(&from) : 0;
    request.seed = flags & 16 ? (int32_t)number(&from) : 1;
    request.top_k = flags & 32 ? (int32_t)number(&from) : 0;
    request.quiet_start_ban = flags & 64 ? (int32_t)number(&from) : 0;
    request.temperature = real(&from);
    request.top_p = real(&from);
    request.repetition_penalty = real(&from);
    own[0] = text(&from, 9000);
    own[1] = text(&from, 80);
    own[2] = text(&from, 80);
    own[3] = text(&from, 80);
    own[4] = text(&from, 80);
    request.text = flags & 128 ? NULL : own[0];
    request.language = flags & 256 ? own[1] : NULL;
    request.speaker = flags & 512 ? own[2] : NULL;
    request.style = flags & 1024 ? own[3] : NULL;
    request.transcript = flags & 2048 ? own[4] : NULL;
    request.embedding = flags & 4096 ? embedding : NULL;
    request.embedding_length = flags & 131072 ? (int32_t)number(&from) : 4;
    for (int i = 0; i < 4; i++) embedding[i] = real(&from);
    request.code_frames = flags & 262144 ? (int32_t)number(&from) : (int32_t)(flags >> 27) + 1;
    codes = some_codes(&from, request.code_frames);
    request.codes = flags & 8192 ? codes : NULL;
    request.on_block = flags & 16384 ? NULL : on_block;
    request.user = &budget;
    budget = (int64_t)(request.max_frames > 0 ? request.max_frames : 0) * 1920;
    memset(&stats, 0, sizeof stats);
    stats.size = sizeof stats;
    error[0] = 'x';
    status = dv_speak(engine, &request, &stats, error, flags & 32768 ? sizeof error : 1);
    if (!memchr(error, 0, sizeof error)) abort();
    if (status >= 0 && request.size == sizeof request && !accepted_ok(&request)) abort();
    if (status < 0 && status != DV_REFUSED) abort();
    if (tone && status >= 0 && (request.embedding || request.codes)) abort();
    if (dv_close(engine, error, sizeof error)) abort();
    free(codes);
    for (int i = 0; i < 5; i++) free(own[i]);
    return 0;
}

#if defined(OWN_LOOP)
/* Random bytes seldom make a usable text, so half of the runs start from a good request. */
int main(int argc, char **argv) {
    long runs = argc > 1 ? atol(argv[1]) : 10000;
    uint64_t state = argc > 2 ? (uint64_t)atol(argv[2]) * 2 + 1 : 1;
    uint8_t data[512];
    for (long run = 0; run < runs; run++) {
        size_t size = 0;
        do {
            state = state * 6364136223846793005u + 1442695040888963407u;
            data[size++] = (uint8_t)(state >> 56);
        } while (size < sizeof data && (size < 8 || (state >> 33) % 200));
        if (run % 2) {
            data[0] = 0; /* one frame of codes, if any */
            data[1] &= 1; /* the tone or not */
            data[2] &= 0x3f; /* voices or not; there is a callback */
            data[3] &= 0x7f; /* there is a text */
            if (run % 4 == 3) data[3] = 0; /* and all numbers are good ones */
            for (size_t i = 20; i < size; i++) data[i] = (uint8_t)(' ' + data[i] % 95);
        }
        LLVMFuzzerTestOneInput(data, size);
    }
    printf("%ld requests fuzzed\n", runs);
    return 0;
}
#endif
