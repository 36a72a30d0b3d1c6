/* Stand-ins for the engines: shared libraries with exactly their C interfaces, so that a mistake in
 * a symbol, a struct or in who frees what shows without a model.
 *
 * Build with -DSTANDIN_LIBQWEN=<ABI>, -DSTANDIN_POINTER, or -DSTANDIN_VALUE=<1 old, 2 new layout>
 * (and -DSTANDIN_FORK for a fork with other signatures, -DSTANDIN_LACKS_SYNTHESIZE).
 *
 * The text says what to do: "error", "hang" (never returns, asks nobody), "crash", "empty", "nan",
 * "endless", "silent", "fades" (three frames, then silence without end), "polls" (gives nothing
 * until it is cancelled), "rate" (another one), "negative" (so many samples), "null" (no pointer);
 * "echo" fails with all parameters as the message; else a tone, one frame per byte.
 *
 * libqwen's talker path may name an oddity too: "odd-many", "odd-minus", "odd-none" (codebooks),
 * "odd-codes", "odd-frames", "odd-books", "odd-embedding" (of the voices that it makes); the folder
 * of the pointer line "odd-rate", "odd-unloaded", "odd-length". -DSTANDIN_PLAIN leaves out all that
 * makes and takes voices.
 *
 * With -DSTANDIN_FUZZED the text says nothing, and libqwen's aborts at all that makes the real one
 * abort or run on: a fuzzer's oracle.
 *
 * standin_live() counts what has been handed out and not been given back.
 */
#if !defined(_WIN32)
#define _POSIX_C_SOURCE 200809L
#endif
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if !defined(_WIN32)
#include <time.h>
#endif

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#define FRAME 1920
#define RATE 24000

static int live;
EXPORT int standin_live(void);
EXPORT int standin_live(void) { return live; }

static void *give(size_t size) {
    void *memory = malloc(size ? size : 1);
    if (!memory) abort();
    live++;
    return memory;
}
static void take_back(void *memory) {
    if (!memory) return;
    live--;
    free(memory);
}
#if defined(STANDIN_VALUE)
static char *give_text(const char *text) {
    return strcpy(give(strlen(text) + 1), text);
}
#endif

static void tone(float *block, long frame) {
    for (int i = 0; i < FRAME; i++)
        block[i] = 0.25f * (float)sin(0.0576 * (double)(frame * FRAME + i)); /* 220 Hz */
}

#if defined(STANDIN_FUZZED)
static int asks(const char *text, const char *what) { return !text && !what; }
#else
static int asks(const char *text, const char *what) { return !strncmp(text, what, strlen(what)); }
#endif

static void obey(const char *text) {
    if (asks(text, "crash")) abort();
    while (asks(text, "hang")) {
#if !defined(_WIN32)
        struct timespec pause = {1, 0};
        nanosleep(&pause, NULL);
#endif
    }
}

static long frames_of(const char *text, int most) {
    long frames = asks(text, "endless") || asks(text, "fades") ? most : asks(text, "empty") ? 0 : (long)strlen(text);
    return frames < most ? frames : most;
}

/* ---- libqwen ----------------------------------------------------------------------------- */
#if defined(STANDIN_LIBQWEN)

#if defined(STANDIN_LACKS_SYNTHESIZE)
#define qt_synthesize qt_speak
#endif

struct qt_audio { float *samples; int n_samples, sample_rate, channels; };
struct qt_init_params {
    int abi_version;
    const char *talker_path, *codec_path;
    bool use_fa, clamp_fp16;
    int max_batch;
    float codec_chunk_sec;
};
struct qt_voice_ref {
    float *ref_spk_emb;
    int ref_spk_dim;
    int32_t *ref_codes;
    int ref_T, num_codebooks;
};
struct qt_tts_params {
    int abi_version;
    const char *text, *lang, *instruct, *speaker;
    const float *ref_audio_24k;
    int ref_n_samples;
    const char *ref_text;
    int64_t seed;
    int max_new_tokens;
    bool do_sample;
    float temperature;
    int top_k;
    float top_p, repetition_penalty;
    bool subtalker_do_sample;
    float subtalker_temperature;
    int subtalker_top_k;
    float subtalker_top_p;
    const char *dump_dir;
    bool (*cancel)(void *);
    void *cancel_user_data;
    bool (*on_chunk)(const float *, int, void *);
    void *on_chunk_user_data;
    const float *ref_spk_emb;
    int ref_spk_dim;
    const int32_t *ref_codes;
    int ref_T;
#if STANDIN_LIBQWEN >= 5
    const int32_t *onset_silence_ids;
    int onset_silence_id_count, onset_silence_ban_frames;
#endif
};
struct qt_context { int cpu_threads; char talker[256]; };
static void (*log_to)(int, const char *, void *);
static void *log_user;
static const char *last_error = "old news"; /* of an earlier call: errno's manners */

EXPORT const char *qt_version(void);
EXPORT const char *qt_version(void) { return "stand-in"; }
EXPORT const char *qt_last_error(void);
EXPORT const char *qt_last_error(void) { return last_error; }
EXPORT void qt_log_set(void (*to)(int, const char *, void *), void *user);
EXPORT void qt_log_set(void (*to)(int, const char *, void *), void *user) {
    log_to = to;
    log_user = user;
}
static void log_line(int level, const char *line) {
    if (log_to) log_to(level, line, log_user);
}
EXPORT void standin_log(const char *line);
EXPORT void standin_log(const char *line) { log_line(3, line); }
EXPORT void qt_init_default_params(struct qt_init_params *p);
EXPORT void qt_init_default_params(struct qt_init_params *p) {
    memset(p, 0, sizeof *p);
    p->abi_version = STANDIN_LIBQWEN;
    p->use_fa = true;
    p->max_batch = 1;
    p->codec_chunk_sec = 24;
}
EXPORT void qt_tts_default_params(struct qt_tts_params *p);
EXPORT void qt_tts_default_params(struct qt_tts_params *p) {
    memset(p, 0, sizeof *p);
    p->abi_version = STANDIN_LIBQWEN;
    p->seed = -1;
    p->max_new_tokens = 2048;
    p->do_sample = p->subtalker_do_sample = true;
    p->temperature = p->subtalker_temperature = 0.9f;
    p->top_k = p->subtalker_top_k = 50;
    p->top_p = p->subtalker_top_p = 1;
    p->repetition_penalty = 1.05f;
}
static struct qt_context *start(const struct qt_init_params *p, int threads) {
    struct qt_context *made;
    if (p->abi_version != STANDIN_LIBQWEN || !p->use_fa || p->codec_chunk_sec != 24) return NULL;
    if (strstr(p->talker_path, "bad")) {
        last_error = "cannot open talker";
        log_line(3, "[Stand-in] no tensors");
        return NULL;
    }
    made = give(sizeof *made);
    made->cpu_threads = threads;
    snprintf(made->talker, sizeof made->talker, "%s", p->talker_path);
    return made;
}
EXPORT struct qt_context *qt_init(const struct qt_init_params *p);
EXPORT struct qt_context *qt_init(const struct qt_init_params *p) { return start(p, 0); }
EXPORT struct qt_context *qt_init_cpu(const struct qt_init_params *p, int threads);
EXPORT struct qt_context *qt_init_cpu(const struct qt_init_params *p, int threads) {
    return start(p, threads);
}
EXPORT void qt_free(struct qt_context *q);
EXPORT void qt_free(struct qt_context *q) { take_back(q); }
EXPORT int qt_num_codebooks(const struct qt_context *q);
EXPORT int qt_num_codebooks(const struct qt_context *q) {
    if (strstr(q->talker, "odd-none")) return 0;
    return strstr(q->talker, "odd-many") ? 65 : strstr(q->talker, "odd-minus") ? -1 : 16;
}
EXPORT void qt_audio_free(struct qt_audio *a);
EXPORT void qt_audio_free(struct qt_audio *a) {
    take_back(a->samples);
    memset(a, 0, sizeof *a);
}
EXPORT int qt_extract_voice_ref(struct qt_context *q, const float *pcm, int n,
                                struct qt_voice_ref *out);
EXPORT int qt_extract_voice_ref(struct qt_context *q, const float *pcm, int n,
                                struct qt_voice_ref *out) {
    out->ref_spk_dim = 32;
    out->ref_spk_emb = give(32 * sizeof(float));
    for (int i = 0; i < 32; i++) out->ref_spk_emb[i] = pcm[i % n];
    out->num_codebooks = 16;
    out->ref_T = n / FRAME;
    out->ref_codes = give((size_t)out->ref_T * 16 * sizeof(int32_t));
    for (int i = 0; i < out->ref_T * 16; i++) out->ref_codes[i] = i % 64;
    if (strstr(q->talker, "odd-codes")) out->ref_codes[out->ref_T * 16 - 1] = 64;
    if (strstr(q->talker, "odd-frames")) out->ref_T = INT32_MAX;
    if (strstr(q->talker, "odd-books")) out->num_codebooks = INT32_MAX;
    if (strstr(q->talker, "odd-embedding")) out->ref_spk_emb[31] = NAN;
    return 0;
}
EXPORT void qt_voice_ref_free(struct qt_voice_ref *r);
EXPORT void qt_voice_ref_free(struct qt_voice_ref *r) {
    take_back(r->ref_spk_emb);
    take_back(r->ref_codes);
    memset(r, 0, sizeof *r);
}
#if defined(STANDIN_FUZZED)
static void must(int is_so) {
    if (!is_so) abort();
}
static void judge(const struct qt_tts_params *p) {
    const char *visible = p->text;
    while (*visible && (unsigned char)*visible <= ' ') visible++;
    must(*visible != 0);
    must(!strstr(p->text, "<|") && !strstr(p->text, "|>") && !strstr(p->text, "<tts_"));
    must(!p->instruct || !strstr(p->instruct, "<|"));
    must(!p->ref_text || !strstr(p->ref_text, "<|"));
    must(isfinite(p->temperature) && p->temperature > 0 && isfinite(p->subtalker_temperature));
    must(p->top_p > 0 && p->top_p <= 1 && p->subtalker_top_p > 0 && p->subtalker_top_p <= 1);
    must(isfinite(p->repetition_penalty) && p->repetition_penalty > 0);
    must(p->top_k > 0 && p->top_k <= 3072 && p->max_new_tokens > 0 && p->seed >= 0);
    must(!p->ref_spk_emb || p->ref_spk_dim == 4);
    for (int i = 0; p->ref_spk_emb && i < p->ref_spk_dim; i++) must(isfinite(p->ref_spk_emb[i]));
    must(!p->ref_codes || (p->ref_spk_emb && p->ref_text && p->ref_T > 0));
    for (int i = 0; p->ref_codes && i < 16 * p->ref_T; i++)
        must(p->ref_codes[i] >= 0 && p->ref_codes[i] < 64);
}
#endif
EXPORT int qt_synthesize(struct qt_context *q, const struct qt_tts_params *p,
                         struct qt_audio *out);
EXPORT int qt_synthesize(struct qt_context *q, const struct qt_tts_params *p,
                         struct qt_audio *out) {
    float block[FRAME];
    memset(out, 0, sizeof *out);
#if defined(STANDIN_FUZZED)
    judge(p);
#endif
    obey(p->text);
    if (asks(p->text, "error")) {
        log_line(3, "[Stand-in] no luck");
        return -3;
    }
    if (asks(p->text, "memory")) {
        last_error = "out of memory";
        return -4;
    }
    if (asks(p->text, "echo")) {
        char line[512];
        int ban = 0, bans = 0;
#if STANDIN_LIBQWEN >= 5
        ban = p->onset_silence_ban_frames;
        bans = p->onset_silence_id_count;
#endif
        snprintf(line, sizeof line,
                 "threads=%d lang=%s instruct=%s speaker=%s seed=%lld max=%d sample=%d/%d "
                 "temperature=%g/%g top_k=%d/%d top_p=%g/%g repetition=%g embedding=%d:%g "
                 "codes=%d:%d reference=%s ban=%d/%d",
                 q->cpu_threads, p->lang ? p->lang : "-", p->instruct ? p->instruct : "-",
                 p->speaker ? p->speaker : "-", (long long)p->seed, p->max_new_tokens,
                 p->do_sample, p->subtalker_do_sample, (double)p->temperature,
                 (double)p->subtalker_temperature, p->top_k, p->subtalker_top_k,
                 (double)p->top_p, (double)p->subtalker_top_p, (double)p->repetition_penalty,
                 p->ref_spk_dim, p->ref_spk_emb ? (double)p->ref_spk_emb[1] : 0.0, p->ref_T,
                 p->ref_codes ? (int)p->ref_codes[1] : -1, p->ref_text ? p->ref_text : "-", ban,
                 bans);
        log_line(3, line);
        return -3;
    }
    while (asks(p->text, "polls")) {
        if (p->cancel(p->cancel_user_data)) return -5;
#if !defined(_WIN32)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
#endif
    }
    for (long frame = 0; frame < frames_of(p->text, p->max_new_tokens); frame++) {
        if (p->cancel(p->cancel_user_data)) return -5;
        tone(block, frame);
        if (asks(p->text, "silent") || (asks(p->text, "fades") && frame > 2)) memset(block, 0, sizeof block);
        if (asks(p->text, "nan")) block[7] = NAN;
        if (!p->on_chunk(asks(p->text, "null") ? NULL : block, FRAME, p->on_chunk_user_data))
            return -5;
    }
    out->samples = give(1); /* the real one gives nothing when it streams; ours to free anyway */
    return 0;
}
#endif

/* ---- qwen3-tts.cpp, parameters by pointer --------------------------------------------------- */
#if defined(STANDIN_POINTER)

typedef struct {
    int32_t max_audio_tokens;
    float temperature, top_p;
    int32_t top_k, n_threads;
    float repetition_penalty;
    int32_t language_id;
} Params;
typedef struct { const float *samples; int32_t n_samples, sample_rate; } Audio;
typedef struct { char error[512], folder[256]; } Tts;

EXPORT void qwen3_tts_default_params(Params *p);
EXPORT void qwen3_tts_default_params(Params *p) {
    Params defaults = {4096, 0.9f, 1.0f, 50, 4, 1.05f, 2050};
    *p = defaults;
}
EXPORT Tts *qwen3_tts_create(const char *dir, int32_t threads);
EXPORT Tts *qwen3_tts_create(const char *dir, int32_t threads) {
    Tts *made;
    if (strstr(dir, "bad") || threads < 1) return NULL;
    made = give(sizeof *made);
    made->error[0] = 0;
    snprintf(made->folder, sizeof made->folder, "%s", dir);
    return made;
}
EXPORT int qwen3_tts_is_loaded(const Tts *t);
EXPORT int qwen3_tts_is_loaded(const Tts *t) { return !strstr(t->folder, "odd-unloaded"); }
EXPORT int32_t qwen3_tts_sample_rate(const Tts *t);
EXPORT int32_t qwen3_tts_sample_rate(const Tts *t) {
    return strstr(t->folder, "odd-rate") ? 48000 : RATE;
}
EXPORT const char *qwen3_tts_get_error(const Tts *t);
EXPORT const char *qwen3_tts_get_error(const Tts *t) { return t->error; }
EXPORT void qwen3_tts_destroy(Tts *t);
EXPORT void qwen3_tts_destroy(Tts *t) { take_back(t); }
EXPORT void qwen3_tts_free_audio(Audio *a);
EXPORT void qwen3_tts_free_audio(Audio *a) {
    if (!a) return;
    take_back((void *)(uintptr_t)a->samples);
    take_back(a);
}
static Audio *speak(Tts *t, const char *text, const Params *p, int dim, float second) {
    Audio *made;
    float *samples;
    long frames = frames_of(text, p->max_audio_tokens);
    obey(text);
    t->error[0] = 0;
    if (asks(text, "error")) strcpy(t->error, "no luck");
    if (asks(text, "echo"))
        snprintf(t->error, sizeof t->error,
                 "max=%d temperature=%g top_p=%g top_k=%d threads=%d repetition=%g language=%d "
                 "embedding=%d:%g",
                 (int)p->max_audio_tokens, (double)p->temperature, (double)p->top_p,
                 (int)p->top_k, (int)p->n_threads, (double)p->repetition_penalty,
                 (int)p->language_id, dim, (double)second);
    if (t->error[0]) return NULL;
    samples = give((size_t)frames * FRAME * sizeof *samples);
    for (long frame = 0; frame < frames; frame++) tone(samples + frame * FRAME, frame);
    if (asks(text, "nan")) samples[7] = NAN;
    made = give(sizeof *made);
    made->samples = samples;
    made->n_samples = asks(text, "negative") ? -5 : (int32_t)(frames * FRAME);
    made->sample_rate = asks(text, "rate") ? 48000 : RATE;
    return made;
}
EXPORT Audio *qwen3_tts_synthesize(Tts *t, const char *text, const Params *p);
EXPORT Audio *qwen3_tts_synthesize(Tts *t, const char *text, const Params *p) {
    return speak(t, text, p, 0, 0);
}
#if !defined(STANDIN_PLAIN)
EXPORT Audio *qwen3_tts_synthesize_with_embedding(Tts *t, const char *text, const float *embedding,
                                                  int32_t n, const Params *p);
EXPORT Audio *qwen3_tts_synthesize_with_embedding(Tts *t, const char *text, const float *embedding,
                                                  int32_t n, const Params *p) {
    return speak(t, text, p, n, embedding[1]);
}
EXPORT int32_t qwen3_tts_extract_embedding_file(Tts *t, const char *path, float *out, int32_t most);
EXPORT int32_t qwen3_tts_extract_embedding_file(Tts *t, const char *path, float *out,
                                                int32_t most) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        strcpy(t->error, "cannot open the reference");
        return -1;
    }
    fclose(file);
    for (int32_t i = 0; i < most && i < 32; i++) out[i] = 0.5f + (float)i;
    return strstr(t->folder, "odd-length") ? 16 : 32;
}
#endif
#endif

/* ---- qwen3-tts.cpp, parameters by value ------------------------------------------------------ */
#if defined(STANDIN_VALUE)

typedef struct {
    int32_t max_audio_tokens;
    float temperature, top_p;
    int32_t top_k, n_threads, print_progress, print_timing;
    float repetition_penalty;
    int32_t language_id;
    const char *instruction, *speaker;
#if STANDIN_VALUE >= 2
    float vocoder_left_context_sec;
#endif
} params_t;
typedef struct {
    params_t generation;
    float chunk_sec, left_context_sec;
    int32_t collect_audio;
} streaming_t;
typedef struct {
    float *audio;
    int32_t audio_len, sample_rate, success;
    char *error_msg;
    int64_t t_total_ms;
} result_t;
typedef struct {
    const float *samples;
    int32_t n_samples, sample_rate;
    int64_t start_sample, end_sample;
    int32_t start_frame, end_frame, start_text_byte, end_text_byte, text_alignment_kind;
    float confidence;
} chunk_t;
typedef int32_t (*callback_t)(const chunk_t *, void *);
typedef struct { char error[256]; } context_t;

#if defined(STANDIN_FORK)
EXPORT int qwen3_asr_transcribe(void);
EXPORT int qwen3_asr_transcribe(void) { return 0; }
#endif

static int32_t backend, cpu_threads;
EXPORT int32_t qwen3_tts_set_backend_preference(int32_t which);
EXPORT int32_t qwen3_tts_set_backend_preference(int32_t which) {
    backend = which;
    return 1;
}
EXPORT int32_t qwen3_tts_set_cpu_threads(int32_t threads);
EXPORT int32_t qwen3_tts_set_cpu_threads(int32_t threads) {
    cpu_threads = threads;
    return 1;
}
EXPORT context_t *qwen3_tts_init(void);
EXPORT context_t *qwen3_tts_init(void) {
    context_t *made = give(sizeof *made);
    made->error[0] = 0;
    return made;
}
EXPORT void qwen3_tts_free(context_t *c);
EXPORT void qwen3_tts_free(context_t *c) { take_back(c); }
EXPORT int32_t qwen3_tts_load_models_with_name(context_t *c, const char *dir, const char *name);
EXPORT int32_t qwen3_tts_load_models_with_name(context_t *c, const char *dir, const char *name) {
    if (strstr(dir, "bad")) {
        snprintf(c->error, sizeof c->error, "no model %s", name ? name : "-");
        return 0;
    }
    return 1;
}
EXPORT int32_t qwen3_tts_load_models(context_t *c, const char *dir);
EXPORT int32_t qwen3_tts_load_models(context_t *c, const char *dir) {
    return qwen3_tts_load_models_with_name(c, dir, NULL);
}
EXPORT char *qwen3_tts_get_last_error(context_t *c);
EXPORT char *qwen3_tts_get_last_error(context_t *c) { return give_text(c->error); }
EXPORT void qwen3_tts_free_string(char *s);
EXPORT void qwen3_tts_free_string(char *s) { take_back(s); }
EXPORT void qwen3_tts_free_result(result_t r);
EXPORT void qwen3_tts_free_result(result_t r) {
    take_back(r.audio);
    take_back(r.error_msg);
}
static result_t stream(const char *text, const char *voice, streaming_t s, callback_t cb,
                       void *user) {
    result_t result;
    float block[FRAME];
    memset(&result, 0, sizeof result);
    result.sample_rate = RATE;
    obey(text);
    if (asks(text, "error")) result.error_msg = give_text("no luck");
    if (asks(text, "echo")) {
        char line[512];
        snprintf(line, sizeof line,
                 "max=%d temperature=%g top_p=%g top_k=%d threads=%d/%d backend=%d "
                 "repetition=%g language=%d instruction=%s speaker=%s chunk=%g left=%g voice=%s",
                 (int)s.generation.max_audio_tokens, (double)s.generation.temperature,
                 (double)s.generation.top_p, (int)s.generation.top_k,
                 (int)s.generation.n_threads, (int)cpu_threads, (int)backend,
                 (double)s.generation.repetition_penalty, (int)s.generation.language_id,
                 s.generation.instruction ? s.generation.instruction : "-",
                 s.generation.speaker ? s.generation.speaker : "-", (double)s.chunk_sec,
                 (double)s.left_context_sec, voice ? voice : "-");
        result.error_msg = give_text(line);
    }
    if (result.error_msg) return result;
    if (s.collect_audio) {
        result.audio = give(FRAME * sizeof *result.audio);
        result.audio_len = FRAME;
    }
    result.success = 1;
    for (long frame = 0; frame < frames_of(text, s.generation.max_audio_tokens); frame++) {
        chunk_t chunk = {block, FRAME, asks(text, "rate") ? 48000 : RATE, frame * FRAME,
                         (frame + 1) * FRAME, (int32_t)frame, (int32_t)frame + 1, 0, 0, 0, 1};
        tone(block, frame);
        if (asks(text, "nan")) block[7] = NAN;
        if (!cb(&chunk, user)) {
            result.success = 0;
            result.error_msg = give_text("stopped by the callback");
            break;
        }
    }
    return result;
}
EXPORT result_t qwen3_tts_synthesize_streaming(context_t *c, const char *text, streaming_t s,
                                               callback_t cb, void *user);
EXPORT result_t qwen3_tts_synthesize_streaming(context_t *c, const char *text, streaming_t s,
                                               callback_t cb, void *user) {
    (void)c;
    return stream(text, NULL, s, cb, user);
}
#if !defined(STANDIN_PLAIN)
EXPORT result_t qwen3_tts_synthesize_with_speaker_embedding_streaming(
    context_t *c, const char *text, const char *file, streaming_t s, callback_t cb, void *user);
EXPORT result_t qwen3_tts_synthesize_with_speaker_embedding_streaming(
    context_t *c, const char *text, const char *file, streaming_t s, callback_t cb, void *user) {
    (void)c;
    return stream(text, file, s, cb, user);
}
EXPORT result_t qwen3_tts_synthesize_with_icl_prompt_streaming(
    context_t *c, const char *text, const char *file, streaming_t s, callback_t cb, void *user);
EXPORT result_t qwen3_tts_synthesize_with_icl_prompt_streaming(
    context_t *c, const char *text, const char *file, streaming_t s, callback_t cb, void *user) {
    char marked[600];
    (void)c;
    snprintf(marked, sizeof marked, "ICL:%s", file);
    return stream(text, marked, s, cb, user);
}
static int32_t write_voice(context_t *c, const char *wav, const char *text, const char *out) {
    FILE *file = fopen(wav, "rb");
    if (file) fclose(file);
    file = file ? fopen(out, "wb") : NULL;
    if (!file) {
        snprintf(c->error, sizeof c->error, "cannot open %s", wav);
        return 0;
    }
    fprintf(file, "voice of %s", text);
    fclose(file);
    return 1;
}
EXPORT int32_t qwen3_tts_extract_speaker_embedding(context_t *c, const char *wav, const char *out);
EXPORT int32_t qwen3_tts_extract_speaker_embedding(context_t *c, const char *wav,
                                                   const char *out) {
    return write_voice(c, wav, "nobody", out);
}
EXPORT int32_t qwen3_tts_extract_icl_prompt(context_t *c, const char *wav, const char *text,
                                            const char *out);
EXPORT int32_t qwen3_tts_extract_icl_prompt(context_t *c, const char *wav, const char *text,
                                            const char *out) {
    return write_voice(c, wav, text, out);
}
#endif
#endif
