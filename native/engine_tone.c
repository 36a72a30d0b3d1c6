/* "tone": 220 Hz, 60 ms for each byte of text. For tests and for trying the pipeline without a
 * model: it needs no library and sleeps nowhere. */
#include "engine.h"

#include <math.h>

#define TONE_HZ 220.0
#define PI 3.14159265358979323846

static int32_t tone_open(dv_engine *engine, const dv_options *options, int *called, char *error,
                         size_t error_size) {
    (void)options;
    (void)called;
    (void)error;
    (void)error_size;
    engine->info.step_frames = 1;
    engine->info.can = DV_CAN_STREAM | DV_CAN_SEED;
    engine->info.embedding_length = 0;
    dv_say(engine->info.engine, sizeof engine->info.engine, "tone");
    dv_say(engine->info.version, sizeof engine->info.version, "1");
    return DV_OK;
}

static int32_t tone_speak(dv_job *job) {
    float block[1920];
    const double step = 2 * PI * TONE_HZ / job->engine->info.rate_hz;
    int64_t left = (int64_t)strlen(job->request->text) * job->engine->info.rate_hz * 6 / 100;
    int64_t at = 0;
    int32_t status = DV_OK;
    while (left > 0 && !status) {
        int32_t n = left < 1920 ? (int32_t)left : 1920;
        for (int32_t i = 0; i < n; i++) block[i] = 0.2f * (float)sin(step * (double)(at + i));
        status = dv_job_block(job, block, n);
        at += n;
        left -= n;
    }
    return status;
}

static int32_t tone_make_voice(dv_engine *engine, const dv_reference *reference, dv_voice *voice,
                               char *error, size_t error_size) {
    (void)engine;
    (void)reference;
    (void)voice;
    dv_say(error, error_size, "the tone engine cannot make voices");
    return DV_REFUSED;
}

static void tone_close(dv_engine *engine) { (void)engine; }

const dv_driver dv_tone_driver = {
    "tone", NULL, tone_open, tone_speak, tone_make_voice, tone_close,
};
