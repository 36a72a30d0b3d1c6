/* What every block of audio goes through: is it loud, and as 16-bit samples.
 *
 * In C because it lies between an engine and a listener, and the engine has just emptied the
 * caches: with numpy and a copy a block took 0.29 ms from the library to the pipe, so 0.18.
 */
#include "duet_voice.h"

int32_t dv_loud(const float *pcm, int32_t samples, int32_t window, float energy, uint8_t *loud) {
    int32_t count = 0;
    if (!pcm || window < 1) return 0;
    for (int32_t at = 0, i = 0; samples - at >= window; at += window, i++) {
        float sum[4] = {0, 0, 0, 0}; /* four chains: one would wait for each addition */
        int32_t k = 0;
        uint8_t is_loud;
        for (; window - k >= 4; k += 4)
            for (int32_t lane = 0; lane < 4; lane++)
                sum[lane] += pcm[at + k + lane] * pcm[at + k + lane];
        for (; k < window; k++) sum[0] += pcm[at + k] * pcm[at + k];
        is_loud = sum[0] + sum[1] + sum[2] + sum[3] > energy;
        if (loud) loud[i] = is_loud;
        count += is_loud;
    }
    return count;
}

void dv_pcm16(const float *pcm, int32_t samples, int16_t *out) {
    /* Added and taken away, 1.5 * 2^23 leaves the nearest whole number, ties to even; lrintf is a
     * call unless errno is given up. */
    const float round = 12582912.0f;
    for (int32_t i = 0; i < samples; i++) {
        float value = pcm[i] * 32767.0f;
        value = value < 32767.0f ? value : 32767.0f; /* NaN too: no cast is undefined */
        value = value > -32767.0f ? value : -32767.0f;
        out[i] = (int16_t)((value + round) - round);
    }
}
