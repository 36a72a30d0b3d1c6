/* libqwen (qwentts.cpp), ABI 4 and 5. ABI 5 only adds three fields at the end.
 *
 * The layouts below are this library's public structs, field by field; the library fills its own
 * defaults, so what we do not set keeps its value. Its parameter struct may grow at the end: the
 * union gives it room.
 */
#include "engine.h"

#include <stdbool.h>
#include <stdlib.h>

enum { /* its return codes */
    QT_INVALID = -1, QT_MODE = -2, QT_GENERATE = -3, QT_MEMORY = -4, QT_CANCELLED = -5
};

typedef struct { float *samples; int count, rate_hz, channels; } qt_audio;

typedef struct {
    int abi;
    const char *talker, *codec;
    bool flash_attention, clamp_f16;
    int max_batch;
    float codec_chunk_s;
} qt_init_params;

typedef struct {
    float *embedding;
    int embedding_length;
    int32_t *codes;
    int code_frames, codebooks;
} qt_voice_ref;

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
    bool (*on_chunk)(const float *, int, void *);
    void *on_chunk_user;
    const float *embedding;
    int embedding_length;
    const int32_t *codes;
    int code_frames;
    /* ABI 5 */
    const int32_t *onset_ban;
    int onset_ban_count, onset_ban_frames;
} qt_tts_params;

typedef union { qt_init_params init; qt_tts_params tts; char room[2048]; } qt_params;

enum {
    F_VERSION, F_LAST_ERROR, F_INIT_DEFAULTS, F_TTS_DEFAULTS, F_INIT, F_FREE, F_SYNTHESIZE,
    F_AUDIO_FREE, F_CODEBOOKS, F_NEEDED,
    F_INIT_CPU = F_NEEDED, F_EXTRACT, F_REF_FREE, F_LOG, F_ALL
};
static const char *const names[F_ALL] = {
    "qt_version", "qt_last_error", "qt_init_default_params", "qt_tts_default_params", "qt_init",
    "qt_free", "qt_synthesize", "qt_audio_free", "qt_num_codebooks",
    "qt_init_cpu", "qt_extract_voice_ref", "qt_voice_ref_free", "qt_log_set",
};
#define CALL(engine, function, type) ((type)(engine)->symbol[function])
typedef const char *(*text_function)(void);
typedef void (*defaults_function)(void *);
typedef void (*log_function)(void (*)(int, const char *, void *), void *);

/* Codes of codebook 0 that are silence; banned at the start they save up to 0.7 s of it. */
static const int32_t silence_codes[] = {212, 215, 462, 619, 1181, 1524, 1657, 1995};

static int libqwen_probe(void *library) { return port_symbol(library, "qt_synthesize") != NULL; }

/* Any thread of the library may log; a line that comes while another is written is dropped. */
static void on_log(int level, const char *message, void *user) {
    dv_engine *engine = user;
    if (level < 3 || !message || port_swap(&engine->logging, 1)) return;
    snprintf(engine->log, sizeof engine->log, "%s", message);
    port_swap(&engine->logging, 0);
}

static void take_log(dv_engine *engine, char *to, size_t size) {
    to[0] = 0;
    if (port_swap(&engine->logging, 1)) return;
    snprintf(to, size, "%s", engine->log);
    engine->log[0] = 0;
    port_swap(&engine->logging, 0);
}

/* Its last error is thread-local and stale when a call did not set it; the log has the detail. */
static void explain(dv_engine *engine, int code, char *error, size_t error_size) {
    char detail[256];
    const char *last = CALL(engine, F_LAST_ERROR, text_function)();
    take_log(engine, detail, sizeof detail);
    if (!last || code == QT_GENERATE) last = "";
    dv_say(error, error_size, "%s%s%s", last, last[0] && detail[0] ? ": " : "", detail);
    if (!last[0] && !detail[0]) dv_say(error, error_size, "libqwen reported error %d", code);
}

static int32_t status_of(int code) {
    return code == QT_MEMORY ? DV_MEMORY : code == QT_CANCELLED ? DV_CANCELLED : DV_FAILED;
}

static int32_t libqwen_open(dv_engine *engine, const dv_options *options, int *called,
                            char *error, size_t error_size) {
    qt_params params;
    const char *version;
    int32_t status = dv_bind(engine, names, F_NEEDED, F_ALL, "libqwen", options->library, error,
                             error_size);
    if (status) return status;
    if (!options->model || !options->model[0] || !options->codec || !options->codec[0]) {
        dv_say(error, error_size, "libqwen needs a talker and a codec file (model and codec)");
        return DV_REFUSED;
    }
    *called = 1;
    memset(&params, 0, sizeof params);
    CALL(engine, F_TTS_DEFAULTS, defaults_function)(&params);
    engine->abi = params.tts.abi;
    if (engine->abi != 4 && engine->abi != 5) {
        dv_say(error, error_size, "%s: libqwen has ABI %d; 4 and 5 are supported",
               options->library, (int)engine->abi);
        return DV_MISSING;
    }
    if (engine->symbol[F_LOG]) CALL(engine, F_LOG, log_function)(on_log, engine);
    memset(&params, 0, sizeof params);
    CALL(engine, F_INIT_DEFAULTS, defaults_function)(&params);
    params.init.talker = options->model;
    params.init.codec = options->codec;
    if (!options->gpu && engine->symbol[F_INIT_CPU])
        engine->context = CALL(engine, F_INIT_CPU, void *(*)(const void *, int))(
            &params, options->threads);
    else
        engine->context = CALL(engine, F_INIT, void *(*)(const void *))(&params);
    if (!engine->context) {
        explain(engine, QT_INVALID, error, error_size);
        if (engine->symbol[F_LOG]) CALL(engine, F_LOG, log_function)(NULL, NULL);
        return DV_MODEL;
    }
    engine->info.codebooks = CALL(engine, F_CODEBOOKS, int (*)(const void *))(engine->context);
    engine->info.step_frames = 8; /* the longest flush of its codec: 1, 2, 4, 8 frames */
    engine->info.can = DV_CAN_STREAM | DV_CAN_SEED;
    if (engine->symbol[F_EXTRACT] && engine->symbol[F_REF_FREE] && engine->info.embedding_length)
        engine->info.can |= DV_CAN_CLONE | DV_CAN_ICL;
    version = CALL(engine, F_VERSION, text_function)();
    dv_say(engine->info.engine, sizeof engine->info.engine, "libqwen ABI %d", (int)engine->abi);
    dv_say(engine->info.version, sizeof engine->info.version, "%s", version ? version : "");
    return DV_OK;
}

static bool on_poll(void *user) { return dv_job_stop(user) != 0; }

static bool on_chunk(const float *pcm, int samples, void *user) {
    return dv_job_block(user, pcm, samples) == 0;
}

static int32_t libqwen_speak(dv_job *job) {
    dv_engine *engine = job->engine;
    const dv_request *request = job->request;
    qt_params params;
    qt_audio rest = {NULL, 0, 0, 0};
    char stale[256];
    int code;

    take_log(engine, stale, sizeof stale);
    memset(&params, 0, sizeof params);
    CALL(engine, F_TTS_DEFAULTS, defaults_function)(&params);
    params.tts.text = request->text;
    params.tts.language = request->language;
    params.tts.instruct = request->style;
    params.tts.speaker = request->speaker;
    params.tts.seed = request->seed;
    params.tts.max_new_tokens = request->max_frames;
    if (request->greedy) params.tts.do_sample = params.tts.sub_do_sample = false;
    if (request->temperature > 0)
        params.tts.temperature = params.tts.sub_temperature = request->temperature;
    if (request->top_p > 0) params.tts.top_p = params.tts.sub_top_p = request->top_p;
    if (request->top_k > 0) params.tts.top_k = params.tts.sub_top_k = request->top_k;
    if (request->repetition_penalty > 0)
        params.tts.repetition_penalty = request->repetition_penalty;
    if (request->embedding) {
        params.tts.embedding = request->embedding;
        params.tts.embedding_length = request->embedding_length;
    }
    if (request->codes) {
        params.tts.codes = request->codes;
        params.tts.code_frames = request->code_frames;
        params.tts.reference_text = request->transcript;
    }
    if (engine->abi >= 5 && request->quiet_start_ban && engine->codebook_size >= 2048) {
        params.tts.onset_ban = silence_codes;
        params.tts.onset_ban_count = (int)(sizeof silence_codes / sizeof *silence_codes);
        params.tts.onset_ban_frames = request->quiet_start_ban;
    }
    params.tts.cancel = on_poll;
    params.tts.cancel_user = job;
    params.tts.on_chunk = on_chunk;
    params.tts.on_chunk_user = job;
    code = CALL(engine, F_SYNTHESIZE, int (*)(void *, const void *, void *))(
        engine->context, &params, &rest);
    CALL(engine, F_AUDIO_FREE, void (*)(void *))(&rest); /* empty when streaming; safe then */
    if (!code || job->stopped) return DV_OK; /* the border knows why we stopped it */
    explain(engine, code, job->error, job->error_size);
    return status_of(code);
}

static int32_t copy_ref(const qt_voice_ref *ref, dv_voice *voice) {
    size_t codes = (size_t)ref->code_frames * (size_t)ref->codebooks;
    voice->embedding = malloc((size_t)ref->embedding_length * sizeof *voice->embedding);
    voice->codes = codes ? malloc(codes * sizeof *voice->codes) : NULL;
    if (!voice->embedding || (codes && !voice->codes)) return DV_MEMORY;
    memcpy(voice->embedding, ref->embedding,
           (size_t)ref->embedding_length * sizeof *voice->embedding);
    if (codes) memcpy(voice->codes, ref->codes, codes * sizeof *voice->codes);
    voice->embedding_length = ref->embedding_length;
    voice->code_frames = ref->code_frames;
    voice->codebooks = ref->codebooks;
    return DV_OK;
}

static int32_t libqwen_make_voice(dv_engine *engine, const dv_reference *reference,
                                  dv_voice *voice, char *error, size_t error_size) {
    qt_voice_ref ref = {NULL, 0, NULL, 0, 0};
    char stale[256];
    int32_t status;
    int code;

    take_log(engine, stale, sizeof stale);
    code = CALL(engine, F_EXTRACT, int (*)(void *, const float *, int, void *))(
        engine->context, reference->pcm, reference->samples, &ref);
    if (code) {
        explain(engine, code, error, error_size);
        return status_of(code);
    }
    if (!ref.embedding || ref.embedding_length != engine->info.embedding_length
        || ref.code_frames < 0 || ref.code_frames > CODE_FRAMES_MAX
        || ref.codebooks != engine->info.codebooks || (ref.code_frames && !ref.codes)) {
        dv_say(error, error_size,
               "libqwen made a voice of %d values and %d codebooks (%d frames), the model has %d"
               " and %d",
               ref.embedding_length, ref.codebooks, ref.code_frames,
               (int)engine->info.embedding_length, (int)engine->info.codebooks);
        status = DV_FAILED;
    } else {
        status = copy_ref(&ref, voice);
    }
    CALL(engine, F_REF_FREE, void (*)(void *))(&ref);
    return status;
}

static void libqwen_close(dv_engine *engine) {
    CALL(engine, F_FREE, void (*)(void *))(engine->context);
    if (engine->symbol[F_LOG]) CALL(engine, F_LOG, log_function)(NULL, NULL);
}

const dv_driver dv_libqwen_driver = {
    "libqwen", libqwen_probe, libqwen_open, libqwen_speak, libqwen_make_voice, libqwen_close,
};
