/* The border: opens engines, checks every request before an engine sees it, keeps the deadline,
 * the cap and the cancel flag. */
#include "engine.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#define TEXT_BYTES_MAX 8192       /* libqwen fails beyond 4096 text tokens */
#define EMBEDDING_MOST 1e6f       /* of one value: far more is no embedding, it is damage */
#define REFERENCE_SAMPLES_MIN 12000   /* 0.5 s */
#define REFERENCE_SAMPLES_MAX 1440000 /* 60 s */

static const dv_driver *const drivers[] = {
    &dv_tone_driver, &dv_libqwen_driver, &dv_value_driver, &dv_pointer_driver,
};
#define DRIVERS (sizeof drivers / sizeof *drivers)

void dv_say(char *error, size_t error_size, const char *format, ...) {
    va_list list;
    if (!error || !error_size) return;
    va_start(list, format);
    vsnprintf(error, error_size, format, list);
    va_end(list);
}

int32_t dv_bind(dv_engine *engine, const char *const *names, int needed, int all,
                const char *kind, const char *path, char *error, size_t error_size) {
    for (int i = 0; i < all; i++) {
        engine->symbol[i] = port_symbol(engine->library, names[i]);
        if (i < needed && !engine->symbol[i]) {
            dv_say(error, error_size, "%s: not a usable %s: it has no %s", path, kind, names[i]);
            return DV_MISSING;
        }
    }
    return DV_OK;
}

/* ---- text ------------------------------------------------------------------------------ */

/* One UTF-8 character; 0 and *length 0 when it is malformed. */
static uint32_t decode(const unsigned char *text, int *length) {
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t code;
    int n;
    if (text[0] < 0x80) {
        *length = 1;
        return text[0];
    }
    if (text[0] >= 0xc2 && text[0] < 0xe0) n = 2;
    else if (text[0] >= 0xe0 && text[0] < 0xf0) n = 3;
    else if (text[0] >= 0xf0 && text[0] < 0xf5) n = 4;
    else n = 0;
    *length = 0;
    if (!n) return 0;
    code = text[0] & (0x7fu >> n);
    for (int i = 1; i < n; i++) { /* a terminating NUL is no continuation byte: no overrun */
        if ((text[i] & 0xc0) != 0x80) return 0;
        code = (code << 6) | (text[i] & 0x3fu);
    }
    if (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return 0;
    *length = n;
    return code;
}

/* Spaces, and what shows nothing: marks of direction, joiners, selectors, fillers, tags. */
static int is_blank(uint32_t code) {
    static const uint32_t ranges[][2] = {
        {0x00, 0x20}, {0x85, 0x85}, {0xa0, 0xa0}, {0xad, 0xad}, {0x34f, 0x34f}, {0x61c, 0x61c},
        {0x115f, 0x1160}, {0x1680, 0x1680}, {0x17b4, 0x17b5}, {0x180b, 0x180f},
        {0x2000, 0x200f}, {0x2028, 0x202f}, {0x205f, 0x206f}, {0x2800, 0x2800},
        {0x3000, 0x3000}, {0x3164, 0x3164}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff},
        {0xffa0, 0xffa0}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (code >= ranges[i][0] && code <= ranges[i][1]) return 1;
    return 0;
}

/* NULL when the engine may have this text, else why not. */
static const char *text_fault(const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    int length, visible = 0;
    size_t bytes = 0;
    while (*at) {
        uint32_t code = decode(at, &length);
        if (!length) return "is not valid UTF-8";
        if ((code < 0x20 && code != '\t' && code != '\n' && code != '\r')
            || (code >= 0x7f && code < 0xa0 && code != 0x85))
            return "has control characters";
        if (!is_blank(code)) visible = 1;
        at += length;
        bytes += (size_t)length;
        if (bytes > TEXT_BYTES_MAX) return "is longer than 8192 bytes";
    }
    if (!visible) return "is empty or blank";
    /* The engines' tokenisers read these as control tokens wherever they stand. */
    if (strstr(text, "<|") || strstr(text, "|>") || strstr(text, "<tts_"))
        return "has control tokens";
    return NULL;
}

static int name_ok(const char *name) {
    size_t n = 0;
    for (; name[n]; n++) {
        unsigned char c = (unsigned char)name[n];
        if (n >= 63 || c <= 0x20 || c == 0x7f || c == '<' || c == '|') return 0;
    }
    return n > 0;
}

/* ---- open and close -------------------------------------------------------------------- */

/* A size that an older header may have had: whole fields, so that no pointer is cut in two. */
static int size_ok(size_t size, size_t ours) {
    return size >= sizeof(size_t) && size <= ours && size % sizeof(void *) == 0;
}

int32_t dv_abi(void) { return DV_ABI; }

static const dv_driver *driver_named(const char *name) {
    for (size_t i = 0; i < DRIVERS; i++)
        if (!strcmp(drivers[i]->name, name)) return drivers[i];
    return NULL;
}

static const dv_driver *driver_for(void *library, const char *name) {
    for (size_t i = 0; i < DRIVERS; i++)
        if ((!name || !strcmp(drivers[i]->name, name)) && drivers[i]->probe
            && drivers[i]->probe(library))
            return drivers[i];
    return NULL;
}

static int32_t open_checked(dv_engine *engine, const dv_options *options, char *error,
                            size_t error_size) {
    const char *name = options->engine && options->engine[0] ? options->engine : NULL;
    char why[PATH_BYTES_MAX + 256] = ""; /* the loader's words often begin with the path */
    int called = 0;
    int32_t status;

    if (name && !driver_named(name)) {
        dv_say(error, error_size,
               "unknown engine '%s'; known: tone, libqwen, qwen3-tts.cpp", name);
        return DV_REFUSED;
    }
    if (options->threads < 1 || options->threads > 256) {
        dv_say(error, error_size, "threads must be 1..256");
        return DV_REFUSED;
    }
    if (options->embedding_length < 0 || options->embedding_length > 65536
        || options->codebook_size < 0 || options->codebook_size > 65536) {
        dv_say(error, error_size, "embedding_length or codebook_size is out of range");
        return DV_REFUSED;
    }
    engine->threads = options->threads;
    engine->codebook_size = options->codebook_size;
    engine->info.embedding_length = options->embedding_length;
    engine->driver = name ? driver_named(name) : NULL;
    if (engine->driver != &dv_tone_driver) {
        if (!options->library || !options->library[0]) {
            dv_say(error, error_size, "no library given");
            return DV_REFUSED;
        }
        engine->library = port_load(options->library, why, sizeof why);
        if (!engine->library) {
            int named = !strncmp(why, options->library, strlen(options->library));
            dv_say(error, error_size, "%s%s%s", named ? "" : options->library, named ? "" : ": ",
                   why);
            return DV_MISSING;
        }
        engine->driver = driver_for(engine->library, name);
        if (!engine->driver) {
            dv_say(error, error_size, "%s: is not a library of %s", options->library,
                   name ? name : "a known engine (libqwen, qwen3-tts.cpp)");
            port_unload(engine->library);
            engine->library = NULL;
            return DV_MISSING;
        }
    }
    status = engine->driver->open(engine, options, &called, error, error_size);
    if (!status && (engine->info.codebooks < 0 || engine->info.codebooks > CODEBOOKS_MAX)) {
        dv_say(error, error_size, "the engine says that it has %d codebooks",
               (int)engine->info.codebooks);
        engine->driver->close(engine);
        status = DV_MODEL;
    }
    /* ggml keeps globals and threads: what has run once is never unmapped. */
    if (status && engine->library && !called) port_unload(engine->library);
    return status;
}

int32_t dv_open(const dv_options *given, dv_engine **out, char *error, size_t error_size) {
    dv_options options;
    dv_engine *engine;
    int32_t status;

    if (error && error_size) error[0] = 0;
    if (!out) return DV_REFUSED;
    *out = NULL;
    memset(&options, 0, sizeof options);
    if (!given || !size_ok(given->size, sizeof options)) {
        dv_say(error, error_size, "dv_options has the wrong size");
        return DV_REFUSED;
    }
    memcpy(&options, given, given->size);
    engine = calloc(1, sizeof *engine);
    if (!engine) {
        dv_say(error, error_size, "out of memory");
        return DV_MEMORY;
    }
    engine->info.size = sizeof engine->info;
    engine->info.rate_hz = 24000;
    engine->info.frame_samples = 1920;
    status = open_checked(engine, &options, error, error_size);
    if (status) {
        free(engine);
        return status;
    }
    *out = engine;
    return DV_OK;
}

int32_t dv_close(dv_engine *engine, char *error, size_t error_size) {
    if (error && error_size) error[0] = 0;
    if (!engine) return DV_OK;
    if (port_swap(&engine->busy, 1)) {
        dv_say(error, error_size, "the engine is busy; cancel its job and wait for it first");
        return DV_BUSY;
    }
    engine->driver->close(engine);
    free(engine);
    return DV_OK;
}

int32_t dv_get_info(const dv_engine *engine, dv_info *info) {
    size_t size;
    if (!engine || !info || !size_ok(info->size, sizeof *info)) return DV_REFUSED;
    size = info->size;
    memcpy(info, &engine->info, size);
    info->size = size;
    return DV_OK;
}

/* ---- voices ---------------------------------------------------------------------------- */

static const char *reference_fault(const dv_engine *engine, const dv_reference *reference) {
    if (!(engine->info.can & DV_CAN_CLONE)) return "this engine cannot make voices";
    if (!reference->pcm || reference->samples < REFERENCE_SAMPLES_MIN
        || reference->samples > REFERENCE_SAMPLES_MAX)
        return "the reference must be 0.5..60 s long";
    for (int32_t i = 0; i < reference->samples; i++)
        if (!(fabsf(reference->pcm[i]) <= 8.0f)) return "the reference has NaN or absurd samples";
    if (reference->transcript && text_fault(reference->transcript))
        return "the transcript is blank, too long, or has control characters or tokens";
    return NULL;
}

/* What would be refused when it is to speak; told now, while its maker is known. */
static const char *made_fault(const dv_engine *engine, const dv_voice *voice) {
    int32_t count = voice->code_frames * voice->codebooks; /* both are small, see the drivers */
    for (int32_t i = 0; i < voice->embedding_length; i++)
        if (!(fabsf(voice->embedding[i]) <= EMBEDDING_MOST)) return "with NaN in it";
    for (int32_t i = 0; i < count && engine->codebook_size; i++)
        if (voice->codes[i] < 0 || voice->codes[i] >= engine->codebook_size)
            return "with codes out of range";
    return NULL;
}

int32_t dv_make_voice(dv_engine *engine, const dv_reference *given, dv_voice *voice, char *error,
                      size_t error_size) {
    dv_reference reference;
    const char *why;
    size_t size;
    int32_t status;

    if (error && error_size) error[0] = 0;
    if (!engine || !voice || voice->size != sizeof *voice || !given
        || !size_ok(given->size, sizeof reference)) {
        dv_say(error, error_size, "dv_reference or dv_voice has the wrong size");
        return DV_REFUSED;
    }
    memset(&reference, 0, sizeof reference);
    memcpy(&reference, given, given->size);
    size = voice->size;
    memset(voice, 0, sizeof *voice);
    voice->size = size;
    why = reference_fault(engine, &reference);
    if (why) {
        dv_say(error, error_size, "%s", why);
        return DV_REFUSED;
    }
    if (port_swap(&engine->busy, 1)) {
        dv_say(error, error_size, "the engine is busy");
        return DV_BUSY;
    }
    status = engine->driver->make_voice(engine, &reference, voice, error, error_size);
    why = status ? NULL : made_fault(engine, voice);
    if (why) {
        dv_say(error, error_size, "the engine made a voice %s", why);
        status = DV_FAILED;
    }
    if (status) dv_free_voice(voice);
    port_swap(&engine->busy, 0);
    return status;
}

void dv_free_voice(dv_voice *voice) {
    if (!voice) return;
    free(voice->embedding);
    free(voice->codes);
    voice->embedding = NULL;
    voice->codes = NULL;
    voice->embedding_length = voice->code_frames = voice->codebooks = 0;
}

/* ---- speaking -------------------------------------------------------------------------- */

int32_t dv_job_stop(dv_job *job) {
    if (!job->stopped) {
        if (port_get(&job->engine->cancelled) == job->request->job) job->stopped = DV_CANCELLED;
        else if (job->deadline_ms > 0 && port_now_ms() > job->deadline_ms)
            job->stopped = DV_LATE;
    }
    return job->stopped;
}

int32_t dv_job_block(dv_job *job, const float *pcm, int32_t samples) {
    if (dv_job_stop(job)) return job->stopped;
    if (samples < 0 || (samples > 0 && !pcm)) {
        dv_say(job->error, job->error_size, "the engine gave an impossible block");
        return job->stopped = DV_FAILED;
    }
    if (samples > job->most_samples - job->stats.samples) {
        samples = (int32_t)(job->most_samples - job->stats.samples);
        job->stopped = DV_CAPPED; /* after this last block */
    }
    for (int32_t i = 0; i < samples; i++)
        if (!isfinite(pcm[i])) {
            dv_say(job->error, job->error_size, "the engine's audio has NaN in it");
            return job->stopped = DV_FAILED;
        }
    if (samples > 0) {
        if (!job->stats.blocks) job->stats.first_ms = port_now_ms() - job->started_ms;
        job->stats.blocks++;
        job->stats.samples += samples;
        if (!job->request->on_block(pcm, samples, job->request->user) && !job->stopped)
            job->stopped = DV_CANCELLED;
    }
    return job->stopped ? job->stopped : dv_job_stop(job);
}

static int range_ok(float value, float low, float high) {
    return value == 0.0f || (value >= low && value <= high); /* false for NaN */
}

static const char *voice_fault(const dv_engine *engine, const dv_request *request) {
    if (request->voice_file) {
        if (!(engine->info.can & DV_VOICE_IN_FILE)) return "this engine has no voice files";
        if (request->embedding || request->codes) return "a voice file or an embedding, not both";
        if (!request->voice_file[0]) return "voice_file is empty";
    }
    if (request->embedding) {
        if (!engine->info.embedding_length || engine->info.can & DV_VOICE_IN_FILE)
            return "this engine takes no embedding";
        if (request->embedding_length != engine->info.embedding_length)
            return "the voice was made for another model: its embedding has the wrong length";
        for (int32_t i = 0; i < request->embedding_length; i++)
            if (!(fabsf(request->embedding[i]) <= EMBEDDING_MOST)) return "the voice has NaN in it";
    }
    if (request->codes) {
        int64_t count = (int64_t)request->code_frames * engine->info.codebooks;
        if (!(engine->info.can & DV_CAN_ICL) || !engine->codebook_size
            || !engine->info.codebooks)
            return "this engine takes no reference codes";
        if (!request->embedding || !request->transcript)
            return "reference codes need an embedding and a transcript";
        if (request->code_frames < 1 || request->code_frames > CODE_FRAMES_MAX)
            return "the reference codes have an impossible length";
        for (int64_t i = 0; i < count; i++)
            if (request->codes[i] < 0 || request->codes[i] >= engine->codebook_size)
                return "a reference code is out of range";
    } else if (request->transcript && !request->voice_file) {
        return "a transcript needs reference codes";
    }
    return NULL;
}

static const char *request_fault(const dv_engine *engine, const dv_request *request) {
    if (request->job < 1) return "job must be above 0";
    if (!request->on_block) return "on_block is missing";
    if (request->max_frames < 1 || request->max_frames > DV_MOST_FRAMES)
        return "max_frames must be 1..4000";
    if (request->deadline_ms < 0) return "deadline_ms must not be negative";
    if (request->seed < 0) return "seed must not be negative";
    if (!range_ok(request->temperature, 0.01f, 5.0f)) return "temperature must be 0 or 0.01..5";
    if (!range_ok(request->top_p, 0.01f, 1.0f)) return "top_p must be 0 or 0.01..1";
    if (!range_ok(request->repetition_penalty, 0.5f, 5.0f))
        return "repetition_penalty must be 0 or 0.5..5";
    if (request->top_k < 0 || request->top_k > 2048) return "top_k must be 0..2048";
    if (request->quiet_start_ban < 0 || request->quiet_start_ban > 12)
        return "quiet_start_ban must be 0..12";
    if (request->language && !name_ok(request->language)) return "language is not a name";
    if (request->speaker && !name_ok(request->speaker)) return "speaker is not a name";
    return voice_fault(engine, request);
}

int32_t dv_speak(dv_engine *engine, const dv_request *given, dv_stats *stats, char *error,
                 size_t error_size) {
    dv_request request;
    dv_job job;
    const char *why;
    int32_t status;

    if (error && error_size) error[0] = 0;
    memset(&request, 0, sizeof request);
    if (!engine || !given || !size_ok(given->size, sizeof request)
        || (stats && !size_ok(stats->size, sizeof *stats))) {
        dv_say(error, error_size, "dv_request or dv_stats has the wrong size");
        return DV_REFUSED;
    }
    memcpy(&request, given, given->size);
    if (!request.text) {
        dv_say(error, error_size, "there is no text");
        return DV_REFUSED;
    }
    why = text_fault(request.text);
    if (why) {
        dv_say(error, error_size, "the text %s", why);
        return DV_REFUSED;
    }
    why = request.style ? text_fault(request.style) : NULL;
    if (why) {
        dv_say(error, error_size, "the style %s", why);
        return DV_REFUSED;
    }
    why = request.transcript ? text_fault(request.transcript) : NULL;
    if (why) {
        dv_say(error, error_size, "the transcript %s", why);
        return DV_REFUSED;
    }
    why = request_fault(engine, &request);
    if (why) {
        dv_say(error, error_size, "%s", why);
        return DV_REFUSED;
    }
    if (port_swap(&engine->busy, 1)) {
        dv_say(error, error_size, "the engine is busy");
        return DV_BUSY;
    }

    memset(&job, 0, sizeof job);
    job.engine = engine;
    job.request = &request;
    job.error = error;
    job.error_size = error_size;
    job.started_ms = port_now_ms();
    job.deadline_ms = request.deadline_ms ? job.started_ms + request.deadline_ms : 0;
    job.most_samples = (int64_t)request.max_frames * engine->info.frame_samples;
    job.stats.first_ms = -1;
    status = dv_job_stop(&job);
    if (!status) status = engine->driver->speak(&job);
    if (job.stopped) status = job.stopped; /* what we decided beats what the engine calls it */
    if (!status && job.stats.samples >= job.most_samples) status = DV_CAPPED;
    job.stats.status = status;
    job.stats.total_ms = port_now_ms() - job.started_ms;
    if (stats) {
        size_t size = stats->size;
        memcpy(stats, &job.stats, size);
        stats->size = size;
    }
    if (status >= 0 && error && error_size) error[0] = 0;
    port_swap(&engine->busy, 0);
    return status;
}

void dv_cancel(dv_engine *engine, int64_t job) {
    if (engine) port_swap(&engine->cancelled, job);
}
