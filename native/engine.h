/* Between the border (duet_voice.c) and the drivers, one per kind of engine. */
#ifndef DUET_ENGINE_H
#define DUET_ENGINE_H

#include "port.h"

#include "duet_voice.h"

#define DV_SYMBOLS 24
#define CODEBOOKS_MAX 64
#define CODE_FRAMES_MAX 750 /* 60 s */
#define PATH_BYTES_MAX 4096

typedef struct dv_job dv_job;

typedef struct {
    const char *name;
    /* Does this loaded library look like ours? 0 / 1. */
    int (*probe)(void *library);
    /* Fills engine->info, ->context, ->symbol. Sets *called once any of the library's own code
     * may have run: from then on the library stays mapped. */
    int32_t (*open)(dv_engine *engine, const dv_options *options, int *called,
                    char *error, size_t error_size);
    int32_t (*speak)(dv_job *job);
    int32_t (*make_voice)(dv_engine *engine, const dv_reference *reference, dv_voice *voice,
                          char *error, size_t error_size);
    void (*close)(dv_engine *engine);
} dv_driver;

struct dv_engine {
    const dv_driver *driver;
    void *library;
    void *context;                     /* the engine's own handle */
    port_function symbol[DV_SYMBOLS];
    int32_t abi;
    int32_t threads;
    int32_t codebook_size;
    dv_info info;
    port_flag busy;
    port_flag cancelled;               /* number of the job to stop */
    port_flag logging;                 /* 1: somebody writes `log` */
    char log[256];                     /* the engine's last own error line */
};

struct dv_job {
    dv_engine *engine;
    const dv_request *request;
    double started_ms;
    double deadline_ms;                /* on port_now_ms's clock; 0: none */
    int64_t most_samples;
    int32_t stopped;                   /* DV_* that ended it, 0 while it runs */
    dv_stats stats;
    char *error;
    size_t error_size;
};

/* Drivers call this before each step: 0 to go on, else the DV_* to return. */
int32_t dv_job_stop(dv_job *job);
/* Drivers hand their PCM over here: 0 to go on, else the DV_* to return. */
int32_t dv_job_block(dv_job *job, const float *pcm, int32_t samples);

void dv_say(char *error, size_t error_size, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
/* Take the symbols out of the library; DV_MISSING with the name of the first one that lacks. */
int32_t dv_bind(dv_engine *engine, const char *const *names, int needed, int all,
                const char *kind, const char *path, char *error, size_t error_size);

extern const dv_driver dv_tone_driver;
extern const dv_driver dv_libqwen_driver;
extern const dv_driver dv_pointer_driver; /* qwen3-tts.cpp, parameters by pointer */
extern const dv_driver dv_value_driver;   /* qwen3-tts.cpp, parameters by value, streaming */

#endif
