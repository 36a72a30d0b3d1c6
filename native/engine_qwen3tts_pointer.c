/* qwen3-tts.cpp, the line whose parameters go by pointer (predict-woo). A whole piece at a time:
 * no streaming and no cancel, so only the process around it can stop it. */
#include "qwen3tts.h"

#include <stdlib.h>

typedef struct {
    int32_t max_audio_tokens;
    float temperature, top_p;
    int32_t top_k, threads;
    float repetition_penalty;
    int32_t language_id;
} pointer_params;

typedef struct { const float *samples; int32_t count, rate_hz; } pointer_audio;

enum {
    F_DEFAULTS, F_CREATE, F_LOADED, F_SYNTHESIZE, F_FREE_AUDIO, F_ERROR, F_DESTROY, F_NEEDED,
    F_WITH_EMBEDDING = F_NEEDED, F_EXTRACT, F_RATE, F_ALL
};
static const char *const names[F_ALL] = {
    "qwen3_tts_default_params", "qwen3_tts_create", "qwen3_tts_is_loaded",
    "qwen3_tts_synthesize", "qwen3_tts_free_audio", "qwen3_tts_get_error", "qwen3_tts_destroy",
    "qwen3_tts_synthesize_with_embedding", "qwen3_tts_extract_embedding_file",
    "qwen3_tts_sample_rate",
};
#define CALL(engine, function, type) ((type)(engine)->symbol[function])

static const struct { const char *name; int32_t token; } languages[] = {
    {"english", 2050}, {"german", 2053}, {"spanish", 2054}, {"chinese", 2055},
    {"japanese", 2058}, {"french", 2061}, {"korean", 2064}, {"russian", 2069},
    {"italian", 2070}, {"portuguese", 2071},
};

int32_t qwen3tts_language(const char *name) {
    if (!name) return -1;
    for (size_t i = 0; i < sizeof languages / sizeof *languages; i++)
        if (!strcmp(name, languages[i].name)) return languages[i].token;
    return -2;
}

int32_t qwen3tts_split(const char *model, char *folder, size_t size, const char **file) {
    size_t length = model ? strlen(model) : 0;
    *file = NULL;
    if (!length || length >= size) return DV_REFUSED;
    memcpy(folder, model, length + 1);
    if (length > 5 && !strcmp(model + length - 5, ".gguf")) {
        size_t cut = length;
        while (cut > 0 && model[cut - 1] != '/' && model[cut - 1] != '\\') cut--;
        *file = model + cut;
        if (!cut) memcpy(folder, ".", 2);
        else folder[cut == 1 ? 1 : cut - 1] = 0;
    }
    return DV_OK;
}

static int pointer_probe(void *library) {
    return port_symbol(library, "qwen3_tts_create") != NULL;
}

static void explain(dv_engine *engine, void *context, char *error, size_t error_size) {
    const char *why = CALL(engine, F_ERROR, const char *(*)(const void *))(context);
    dv_say(error, error_size, "%s", why && why[0] ? why : "qwen3-tts.cpp gave no reason");
}

static int32_t pointer_open(dv_engine *engine, const dv_options *options, int *called,
                            char *error, size_t error_size) {
    char folder[PATH_BYTES_MAX];
    const char *file;
    int32_t status = dv_bind(engine, names, F_NEEDED, F_ALL, "qwen3-tts.cpp", options->library,
                             error, error_size);
    if (status) return status;
    if (qwen3tts_split(options->model, folder, sizeof folder, &file)) {
        dv_say(error, error_size,
               "qwen3-tts.cpp needs the folder of its models (model), below 4096 bytes");
        return DV_REFUSED;
    }
    *called = 1;
    engine->context = CALL(engine, F_CREATE, void *(*)(const char *, int32_t))(
        folder, options->threads);
    if (!engine->context || !CALL(engine, F_LOADED, int (*)(const void *))(engine->context)) {
        if (engine->context) CALL(engine, F_DESTROY, void (*)(void *))(engine->context);
        dv_say(error, error_size, "%s: qwen3-tts.cpp cannot load its models from here", folder);
        return DV_MODEL;
    }
    if (engine->symbol[F_RATE])
        engine->info.rate_hz = CALL(engine, F_RATE, int32_t (*)(const void *))(engine->context);
    if (engine->info.rate_hz != 24000) {
        dv_say(error, error_size, "qwen3-tts.cpp speaks at %d Hz; 24000 is needed",
               (int)engine->info.rate_hz);
        CALL(engine, F_DESTROY, void (*)(void *))(engine->context);
        return DV_MISSING;
    }
    if (!engine->symbol[F_WITH_EMBEDDING]) engine->info.embedding_length = 0;
    if (engine->info.embedding_length && engine->symbol[F_EXTRACT])
        engine->info.can = DV_CAN_CLONE;
    dv_say(engine->info.engine, sizeof engine->info.engine, "qwen3-tts.cpp (whole pieces)");
    return DV_OK;
}

static int32_t pointer_speak(dv_job *job) {
    dv_engine *engine = job->engine;
    const dv_request *request = job->request;
    pointer_params params;
    pointer_audio *audio;
    int32_t language = qwen3tts_language(request->language);

    if (language == -2) {
        dv_say(job->error, job->error_size, "unknown language '%s'", request->language);
        return DV_REFUSED;
    }
    memset(&params, 0, sizeof params);
    CALL(engine, F_DEFAULTS, void (*)(void *))(&params);
    params.max_audio_tokens = request->max_frames;
    params.threads = engine->threads;
    if (language >= 0) params.language_id = language;
    if (request->greedy) params.temperature = 0;
    else if (request->temperature > 0) params.temperature = request->temperature;
    if (request->top_p > 0) params.top_p = request->top_p;
    if (request->top_k > 0) params.top_k = request->top_k;
    if (request->repetition_penalty > 0) params.repetition_penalty = request->repetition_penalty;
    if (request->embedding)
        audio = CALL(engine, F_WITH_EMBEDDING,
                     void *(*)(void *, const char *, const float *, int32_t, const void *))(
            engine->context, request->text, request->embedding, request->embedding_length,
            &params);
    else
        audio = CALL(engine, F_SYNTHESIZE, void *(*)(void *, const char *, const void *))(
            engine->context, request->text, &params);
    if (!audio) {
        explain(engine, engine->context, job->error, job->error_size);
        return DV_FAILED;
    }
    if (audio->count > 0 && audio->rate_hz != engine->info.rate_hz) {
        dv_say(job->error, job->error_size, "qwen3-tts.cpp speaks at %d Hz; 24000 is needed",
               (int)audio->rate_hz);
        job->stopped = DV_FAILED;
    } else if (audio->count < 0) {
        dv_job_block(job, NULL, audio->count); /* says what is wrong */
    }
    for (int32_t at = 0; at < audio->count && !job->stopped;) {
        int32_t n = audio->count - at;
        if (n > engine->info.frame_samples) n = engine->info.frame_samples;
        dv_job_block(job, audio->samples + at, n);
        at += n;
    }
    CALL(engine, F_FREE_AUDIO, void (*)(void *))(audio);
    return DV_OK;
}

static int32_t pointer_make_voice(dv_engine *engine, const dv_reference *reference,
                                  dv_voice *voice, char *error, size_t error_size) {
    int32_t wanted = engine->info.embedding_length, got;
    if (!reference->wav_path) {
        dv_say(error, error_size, "qwen3-tts.cpp reads its reference from a file (wav_path)");
        return DV_REFUSED;
    }
    if (reference->transcript) {
        dv_say(error, error_size, "this engine clones without a transcript only");
        return DV_REFUSED;
    }
    voice->embedding = calloc((size_t)wanted, sizeof *voice->embedding);
    if (!voice->embedding) return DV_MEMORY;
    got = CALL(engine, F_EXTRACT, int32_t (*)(void *, const char *, float *, int32_t))(
        engine->context, reference->wav_path, voice->embedding, wanted);
    if (got < 0) {
        explain(engine, engine->context, error, error_size);
        return DV_FAILED;
    }
    if (got != wanted) {
        dv_say(error, error_size, "the engine made a voice of %d values, the model wants %d",
               (int)got, (int)wanted);
        return DV_FAILED;
    }
    voice->embedding_length = got;
    return DV_OK;
}

static void pointer_close(dv_engine *engine) {
    CALL(engine, F_DESTROY, void (*)(void *))(engine->context);
}

const dv_driver dv_pointer_driver = {
    "qwen3-tts.cpp", pointer_probe, pointer_open, pointer_speak, pointer_make_voice,
    pointer_close,
};
