/* One small C interface in front of a native text-to-speech engine.
 *
 * Rules a caller can rely on
 *  - The engine's library is named by path and loaded at run time. Nothing of any engine is
 *    needed to build this.
 *  - dv_speak blocks and gives its PCM in blocks to a callback, on the thread that the engine
 *    chooses. It returns when the engine is idle again. There are no threads here.
 *  - dv_cancel may be called from any thread at any time between dv_open and dv_close.
 *    It names a job, so that a late cancel never hits the next one; the last one counts.
 *  - Requests that would make an engine abort the process are refused here, before the engine
 *    sees them (DV_REFUSED): blank text, control tokens, NaN, codes and sampling values out of
 *    range, an embedding of the wrong length.
 *  - One job at a time: a second one, and closing while busy, get DV_BUSY.
 *  - Strings are UTF-8; PCM is float32 mono. No state is global.
 *  - Structs begin with their size. A caller built against an older header passes a smaller
 *    size, and what it does not know is zero. A larger size than ours is refused.
 *  - `error` may be NULL; else it always ends up NUL-terminated, empty where all went well.
 */
#ifndef DUET_VOICE_H
#define DUET_VOICE_H

#include <stddef.h>
#include <stdint.h>

#define DV_ABI 2

/* cdef begin: what stands between these two marks is also what cffi reads */
typedef struct dv_engine dv_engine;

enum {
    DV_OK = 0,
    DV_CANCELLED = 1,  /* dv_cancel, or the callback returned 0 */
    DV_LATE = 2,       /* the deadline passed */
    DV_CAPPED = 3,     /* max_frames came out before the engine had ended by itself */
    DV_REFUSED = -1,   /* bad argument: the engine was not asked */
    DV_BUSY = -2,      /* a job is running on this engine */
    DV_FAILED = -3,    /* the engine reported an error, or put out something unusable */
    DV_MEMORY = -4,
    DV_MISSING = -5,   /* library, symbol or version */
    DV_MODEL = -6      /* the engine cannot load its model files */
};

enum {                 /* dv_info.can */
    DV_CAN_STREAM = 1, /* blocks come while the engine works, and cancel is heard */
    DV_CAN_CLONE = 2,  /* dv_make_voice works */
    DV_CAN_ICL = 4,    /* voices may carry codes and a transcript */
    DV_CAN_SEED = 8,   /* the same seed gives the same audio */
    DV_VOICE_IN_FILE = 16 /* a voice is a file of the engine's own (dv_reference.out_path) */
};

typedef struct {
    size_t size;
    const char *engine;      /* "tone", "libqwen", "qwen3-tts.cpp"; NULL or "": by its symbols */
    const char *library;     /* path of the shared library; not used by "tone" */
    const char *model;       /* talker GGUF, or the model folder of qwen3-tts.cpp */
    const char *codec;       /* codec GGUF (libqwen); model name in that folder (qwen3-tts.cpp) */
    int32_t threads;         /* CPU threads, at least 1 */
    int32_t gpu;             /* 0: CPU only */
    int32_t embedding_length;/* that the model wants, from its file; 0: embeddings are refused */
    int32_t codebook_size;   /* codes are 0..codebook_size-1; 0: codes are refused */
} dv_options;

typedef struct {
    size_t size;
    int32_t rate_hz;
    int32_t frame_samples;   /* samples per frame of the engine's clock */
    int32_t codebooks;       /* 0: unknown */
    int32_t embedding_length;
    int32_t step_frames;     /* longest stretch in which a cancel is not heard; 0: until the end */
    int32_t can;             /* DV_CAN_* */
    char engine[64];
    char version[64];
} dv_info;

typedef struct {
    size_t size;
    const float *pcm;        /* 24 kHz mono, or NULL for engines that read wav_path */
    int32_t samples;
    const char *wav_path;    /* the same audio as a file */
    const char *transcript;  /* NULL: embedding only */
    const char *out_path;    /* DV_VOICE_IN_FILE: where to write the voice */
} dv_reference;

typedef struct {
    size_t size;
    float *embedding;        /* released by dv_free_voice */
    int32_t embedding_length;
    int32_t *codes;          /* codebook by codebook: [codebooks][code_frames] */
    int32_t code_frames;
    int32_t codebooks;
} dv_voice;

/* Returns 0 to stop. `pcm` is only valid during the call. */
typedef int32_t (*dv_on_block)(const float *pcm, int32_t samples, void *user);

typedef struct {
    size_t size;
    int64_t job;             /* above 0, never used twice on one engine */
    const char *text;
    const char *language;    /* NULL: the engine's choice */
    const char *speaker;     /* a named voice of the model, or NULL */
    const char *style;       /* instruction, or NULL */
    const float *embedding;
    int32_t embedding_length;
    const int32_t *codes;    /* with embedding and transcript only */
    int32_t code_frames;
    const char *transcript;
    const char *voice_file;  /* DV_VOICE_IN_FILE engines; with transcript: an ICL prompt */
    int64_t seed;            /* 0 or more */
    int32_t max_frames;      /* required: 1..DV_MOST_FRAMES */
    int32_t deadline_ms;     /* from the call on; 0: none */
    int32_t greedy;
    float temperature;       /* 0: the model's default, as for the next three */
    float top_p;
    float repetition_penalty;
    int32_t top_k;
    int32_t quiet_start_ban; /* frames at the start in which known silence codes are banned */
    dv_on_block on_block;
    void *user;
} dv_request;

typedef struct {
    size_t size;
    int32_t status;
    int32_t blocks;
    int64_t samples;         /* delivered to on_block */
    double first_ms;         /* call to first block; negative: none came */
    double total_ms;
} dv_stats;

int32_t dv_abi(void);
int32_t dv_open(const dv_options *options, dv_engine **engine, char *error, size_t error_size);
int32_t dv_close(dv_engine *engine, char *error, size_t error_size);
int32_t dv_get_info(const dv_engine *engine, dv_info *info);
int32_t dv_make_voice(dv_engine *engine, const dv_reference *reference, dv_voice *voice,
                      char *error, size_t error_size);
void dv_free_voice(dv_voice *voice);
int32_t dv_speak(dv_engine *engine, const dv_request *request, dv_stats *stats,
                 char *error, size_t error_size);
void dv_cancel(dv_engine *engine, int64_t job);

/* What every block goes through on its way to a listener. No engine is needed; any thread. */

/* How many whole windows of `pcm` have an energy (sum of squares) above `energy`; for each of
 * them loud[i] is 0 or 1 if `loud` is not NULL. A rest shorter than a window is not looked at. */
int32_t dv_loud(const float *pcm, int32_t samples, int32_t window, float energy, uint8_t *loud);
/* Finite float samples to 16 bits, full scale 32767, rounded to even and clipped. */
void dv_pcm16(const float *pcm, int32_t samples, int16_t *out);
/* cdef end */

/* 5.3 minutes of audio at 12.5 frames a second: beyond what any engine here can do at once. */
#define DV_MOST_FRAMES 4000

#endif
