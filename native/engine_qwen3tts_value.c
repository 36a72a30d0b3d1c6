/* qwen3-tts.cpp, the line whose parameters go by value and that streams (Danmoreng).
 *
 * Its params struct grew `vocoder_left_context_s` at the end at some version, and it is nested in
 * the streaming struct, so everything behind it moved by eight bytes; the library does not tell
 * which layout it has. The values below are chosen so that both readings are sound:
 *
 *     offset   new layout                 old layout
 *       56     vocoder_left_context_s     chunk_s                both 0.64
 *       60     (padding)                  left_context_s         2.0
 *       64     chunk_s                    collect_audio          0.64: not 0, so it collects too
 *       68     left_context_s             (padding)              2.0
 *       72     collect_audio 0            not read
 *
 * Forks with a further signature (an added transcript argument, another chunk callback) are told
 * by a symbol that only they have, and refused.
 */
#include "qwen3tts.h"

typedef struct {
    int32_t max_audio_tokens;
    float temperature, top_p;
    int32_t top_k, threads, print_progress, print_timing;
    float repetition_penalty;
    int32_t language_id;
    const char *instruction, *speaker;
    float vocoder_left_context_s, old_left_context_s;
} value_params;

typedef struct {
    value_params generation;
    float chunk_s, left_context_s;
    int32_t collect_audio;
} value_streaming_params;

typedef struct {
    float *audio;
    int32_t count, rate_hz, success;
    char *error;
    int64_t total_ms;
} value_result;

typedef struct {
    const float *samples;
    int32_t count, rate_hz;
    int64_t start_sample, end_sample;
    int32_t start_frame, end_frame, start_byte, end_byte, alignment;
    float confidence;
} value_chunk;

typedef int32_t (*value_callback)(const value_chunk *, void *);

#define CHUNK_S 0.64f        /* 8 frames: the first audio waits for these */
#define LEFT_CONTEXT_S 2.0f  /* what the project's own decoder needs to be free of clicks */

enum {
    F_INIT, F_FREE, F_LOAD, F_LOAD_NAMED, F_STREAM, F_FREE_RESULT, F_NEEDED,
    F_BACKEND = F_NEEDED, F_THREADS, F_STREAM_EMBEDDING, F_STREAM_ICL, F_EXTRACT, F_EXTRACT_ICL,
    F_ERROR, F_FREE_STRING, F_ALL
};
static const char *const names[F_ALL] = {
    "qwen3_tts_init", "qwen3_tts_free", "qwen3_tts_load_models",
    "qwen3_tts_load_models_with_name", "qwen3_tts_synthesize_streaming",
    "qwen3_tts_free_result", "qwen3_tts_set_backend_preference", "qwen3_tts_set_cpu_threads",
    "qwen3_tts_synthesize_with_speaker_embedding_streaming",
    "qwen3_tts_synthesize_with_icl_prompt_streaming", "qwen3_tts_extract_speaker_embedding",
    "qwen3_tts_extract_icl_prompt", "qwen3_tts_get_last_error", "qwen3_tts_free_string",
};
#define CALL(engine, function, type) ((type)(engine)->symbol[function])

static int value_probe(void *library) {
    return port_symbol(library, "qwen3_tts_load_models") != NULL
        && port_symbol(library, "qwen3_tts_create") == NULL;
}

/* The text is the caller's to free; older libraries have no such function. */
static void explain(dv_engine *engine, const char *what, char *error, size_t error_size) {
    char *why = NULL;
    if (engine->symbol[F_ERROR] && engine->symbol[F_FREE_STRING])
        why = CALL(engine, F_ERROR, char *(*)(void *))(engine->context);
    dv_say(error, error_size, "%s%s%s", what, why && why[0] ? ": " : "", why ? why : "");
    if (why) CALL(engine, F_FREE_STRING, void (*)(char *))(why);
}

static int32_t value_open(dv_engine *engine, const dv_options *options, int *called, char *error,
                          size_t error_size) {
    char folder[PATH_BYTES_MAX];
    const char *file;
    int32_t loaded;
    int32_t status = dv_bind(engine, names, F_NEEDED, F_ALL, "qwen3-tts.cpp", options->library,
                             error, error_size);
    if (status) return status;
    if (port_symbol(engine->library, "qwen3_asr_transcribe")) {
        dv_say(error, error_size,
               "%s: a fork of qwen3-tts.cpp with other signatures (it has qwen3_asr_transcribe)",
               options->library);
        return DV_MISSING;
    }
    if (qwen3tts_split(options->model, folder, sizeof folder, &file)) {
        dv_say(error, error_size,
               "qwen3-tts.cpp needs the folder of its models (model), below 4096 bytes");
        return DV_REFUSED;
    }
    *called = 1;
    if (engine->symbol[F_BACKEND])
        CALL(engine, F_BACKEND, int32_t (*)(int32_t))(options->gpu ? 2 : 1);
    if (engine->symbol[F_THREADS]) CALL(engine, F_THREADS, int32_t (*)(int32_t))(options->threads);
    engine->context = CALL(engine, F_INIT, void *(*)(void))();
    if (!engine->context) {
        dv_say(error, error_size, "qwen3-tts.cpp cannot start");
        return DV_MEMORY;
    }
    if (file)
        loaded = CALL(engine, F_LOAD_NAMED, int32_t (*)(void *, const char *, const char *))(
            engine->context, folder, file);
    else
        loaded = CALL(engine, F_LOAD, int32_t (*)(void *, const char *))(engine->context, folder);
    if (!loaded) {
        char what[PATH_BYTES_MAX + 64];
        snprintf(what, sizeof what, "%s: qwen3-tts.cpp cannot load its models from here",
                 options->model);
        explain(engine, what, error, error_size);
        CALL(engine, F_FREE, void (*)(void *))(engine->context);
        return DV_MODEL;
    }
    engine->info.step_frames = 8;
    engine->info.can = DV_CAN_STREAM | DV_VOICE_IN_FILE;
    if (engine->symbol[F_EXTRACT] && engine->symbol[F_STREAM_EMBEDDING])
        engine->info.can |= DV_CAN_CLONE;
    if (engine->symbol[F_EXTRACT_ICL] && engine->symbol[F_STREAM_ICL])
        engine->info.can |= DV_CAN_ICL;
    dv_say(engine->info.engine, sizeof engine->info.engine, "qwen3-tts.cpp (streaming)");
    return DV_OK;
}

static int32_t on_chunk(const value_chunk *chunk, void *user) {
    dv_job *job = user;
    if (chunk->rate_hz != job->engine->info.rate_hz) {
        dv_say(job->error, job->error_size, "qwen3-tts.cpp speaks at %d Hz; 24000 is needed",
               (int)chunk->rate_hz);
        job->stopped = DV_FAILED;
        return 0;
    }
    return dv_job_block(job, chunk->samples, chunk->count) == 0;
}

static int32_t value_speak(dv_job *job) {
    dv_engine *engine = job->engine;
    const dv_request *request = job->request;
    value_streaming_params params;
    value_result result;
    int32_t language = qwen3tts_language(request->language), status = DV_OK;
    int icl = request->voice_file && request->transcript;

    if (language == -2) {
        dv_say(job->error, job->error_size, "unknown language '%s'", request->language);
        return DV_REFUSED;
    }
    if (request->voice_file && !engine->symbol[icl ? F_STREAM_ICL : F_STREAM_EMBEDDING]) {
        dv_say(job->error, job->error_size, "this library takes no such voice");
        return DV_REFUSED;
    }
    memset(&params, 0, sizeof params);
    params.generation.max_audio_tokens = request->max_frames;
    params.generation.temperature =
        request->greedy ? 0.0f : request->temperature > 0 ? request->temperature : 0.9f;
    params.generation.top_p = request->top_p > 0 ? request->top_p : 1.0f;
    params.generation.top_k = request->top_k > 0 ? request->top_k : 50;
    params.generation.threads = engine->threads;
    params.generation.repetition_penalty =
        request->repetition_penalty > 0 ? request->repetition_penalty : 1.05f;
    params.generation.language_id = language;
    params.generation.instruction = request->style;
    params.generation.speaker = request->speaker;
    params.generation.vocoder_left_context_s = CHUNK_S;
    params.generation.old_left_context_s = LEFT_CONTEXT_S;
    params.chunk_s = CHUNK_S;
    params.left_context_s = LEFT_CONTEXT_S;
    if (request->voice_file)
        result = CALL(engine, icl ? F_STREAM_ICL : F_STREAM_EMBEDDING,
                      value_result (*)(void *, const char *, const char *, value_streaming_params,
                                       value_callback, void *))(
            engine->context, request->text, request->voice_file, params, on_chunk, job);
    else
        result = CALL(engine, F_STREAM,
                      value_result (*)(void *, const char *, value_streaming_params,
                                       value_callback, void *))(
            engine->context, request->text, params, on_chunk, job);
    if (!result.success && !job->stopped) {
        dv_say(job->error, job->error_size, "%s",
               result.error && result.error[0] ? result.error : "qwen3-tts.cpp gave no reason");
        status = DV_FAILED;
    }
    CALL(engine, F_FREE_RESULT, void (*)(value_result))(result);
    return status;
}

static int32_t value_make_voice(dv_engine *engine, const dv_reference *reference,
                                dv_voice *voice, char *error, size_t error_size) {
    int32_t made;
    (void)voice;
    if (!reference->wav_path || !reference->out_path) {
        dv_say(error, error_size, "qwen3-tts.cpp needs wav_path and out_path");
        return DV_REFUSED;
    }
    if (reference->transcript && !(engine->info.can & DV_CAN_ICL)) {
        dv_say(error, error_size, "this library clones without a transcript only");
        return DV_REFUSED;
    }
    if (reference->transcript)
        made = CALL(engine, F_EXTRACT_ICL,
                    int32_t (*)(void *, const char *, const char *, const char *))(
            engine->context, reference->wav_path, reference->transcript, reference->out_path);
    else
        made = CALL(engine, F_EXTRACT, int32_t (*)(void *, const char *, const char *))(
            engine->context, reference->wav_path, reference->out_path);
    if (made) return DV_OK;
    explain(engine, "qwen3-tts.cpp cannot make a voice of this", error, error_size);
    return DV_FAILED;
}

static void value_close(dv_engine *engine) {
    CALL(engine, F_FREE, void (*)(void *))(engine->context);
}

const dv_driver dv_value_driver = {
    "qwen3-tts.cpp", value_probe, value_open, value_speak, value_make_voice, value_close,
};
