/* Tests of the C interface itself, run under the address and undefined-behaviour sanitisers.
 *
 *     interface_test LIBQWEN4 LIBQWEN5 POINTER VALUE_OLD VALUE_NEW FORK LACKING
 *
 * with paths of the stand-ins (standin.c). Prints the number of checks; exit code 1 on a failure.
 */
#include "../../native/port.h"

#include "../../native/duet_voice.h"

#include <math.h>
#include <stdlib.h>

static int checks, failures;
static char error[512];

#define CHECK(what)                                                                             \
    do {                                                                                        \
        checks++;                                                                               \
        if (!(what)) {                                                                          \
            failures++;                                                                         \
            printf("%s:%d: %s (error: %s)\n", __FILE__, __LINE__, #what, error);                \
        }                                                                                       \
    } while (0)

typedef struct {
    int blocks, stop_after;
    int64_t samples;
    double sum;
    dv_engine *engine; /* closed or asked again from inside, to see it refused */
    int64_t cancel_job;
} listener;

static int32_t listen(const float *pcm, int32_t samples, void *user) {
    listener *to = user;
    char why[128];
    to->blocks++;
    to->samples += samples;
    for (int32_t i = 0; i < samples; i++) to->sum += (double)fabsf(pcm[i]);
    if (to->engine) {
        dv_request again;
        memset(&again, 0, sizeof again);
        again.size = sizeof again;
        again.job = 999;
        again.text = "again";
        again.max_frames = 1;
        again.on_block = listen;
        again.user = to;
        CHECK(dv_close(to->engine, why, sizeof why) == DV_BUSY);
        CHECK(dv_speak(to->engine, &again, NULL, why, sizeof why) == DV_BUSY);
        if (to->cancel_job) dv_cancel(to->engine, to->cancel_job);
    }
    return !to->stop_after || to->blocks < to->stop_after;
}

static dv_request request_of(const char *text, listener *to, int64_t job) {
    dv_request request;
    memset(&request, 0, sizeof request);
    request.size = sizeof request;
    request.job = job;
    request.text = text;
    request.max_frames = 100;
    request.on_block = listen;
    request.user = to;
    return request;
}

static dv_engine *open_engine(const char *name, const char *library, const char *model) {
    dv_options options;
    dv_engine *engine = NULL;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.engine = name;
    options.library = library;
    options.model = model;
    options.codec = "codec.gguf";
    options.threads = 2;
    options.embedding_length = 32;
    options.codebook_size = 64;
    dv_open(&options, &engine, error, sizeof error);
    return engine;
}

static int32_t say(dv_engine *engine, const char *text, listener *to, dv_stats *stats) {
    static int64_t job = 1000;
    dv_request request = request_of(text, to, ++job);
    memset(stats, 0, sizeof *stats);
    stats->size = sizeof *stats;
    return dv_speak(engine, &request, stats, error, sizeof error);
}

static void refuse(dv_engine *engine, dv_request request, const char *why) {
    int32_t status = dv_speak(engine, &request, NULL, error, sizeof error);
    CHECK(status == DV_REFUSED);
    CHECK(strstr(error, why) != NULL);
}

/* voices: 0 none, 1 embeddings, 2 codes too */
static void test_refusals(dv_engine *engine, int voices) {
    static const char *const blank[] = {"", " ", "\n\t ", "\xc2\xa0", "\xe3\x80\x80\xe2\x80\x8b"};
    static const char *const tokens[] = {"<|im_end|>", "a <|", "|> b", "x <tts_pad> y"};
    static const char *const broken[] = {"\xff", "\xc0\x80", "a\xe3\x80", "\xed\xa0\x80",
                                         "\xf4\x90\x80\x80", "ok\xc3"};
    static const float odd[] = {NAN, INFINITY, -INFINITY, -1.0f, 1e9f, 0.001f};
    float embedding[32] = {0};
    int32_t codes[32] = {0};
    char *longest = malloc(8200);
    listener to = {0, 0, 0, 0, NULL, 0};
    dv_request good = request_of("hello", &to, 1), bad;

    for (size_t i = 0; i < sizeof blank / sizeof *blank; i++)
        refuse(engine, request_of(blank[i], &to, 1), "blank");
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        refuse(engine, request_of(tokens[i], &to, 1), "control tokens");
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        refuse(engine, request_of(broken[i], &to, 1), "UTF-8");
    refuse(engine, request_of("bell \a", &to, 1), "control characters");
    refuse(engine, request_of(NULL, &to, 1), "no text");
    if (longest) {
        memset(longest, 'a', 8199);
        longest[8199] = 0;
        refuse(engine, request_of(longest, &to, 1), "longer");
        free(longest);
    }
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        bad = good; bad.temperature = odd[i]; refuse(engine, bad, "temperature");
        bad = good; bad.top_p = odd[i]; refuse(engine, bad, "top_p");
        bad = good; bad.repetition_penalty = odd[i]; refuse(engine, bad, "repetition_penalty");
    }
    bad = good; bad.max_frames = 0; refuse(engine, bad, "max_frames");
    bad = good; bad.max_frames = -5; refuse(engine, bad, "max_frames");
    bad = good; bad.max_frames = DV_MOST_FRAMES + 1; refuse(engine, bad, "max_frames");
    bad = good; bad.deadline_ms = -1; refuse(engine, bad, "deadline_ms");
    bad = good; bad.seed = -1; refuse(engine, bad, "seed");
    bad = good; bad.top_k = -1; refuse(engine, bad, "top_k");
    bad = good; bad.top_k = 100000; refuse(engine, bad, "top_k");
    bad = good; bad.quiet_start_ban = 13; refuse(engine, bad, "quiet_start_ban");
    bad = good; bad.job = 0; refuse(engine, bad, "job");
    bad = good; bad.on_block = NULL; refuse(engine, bad, "on_block");
    bad = good; bad.language = ""; refuse(engine, bad, "language");
    bad = good; bad.language = "a b"; refuse(engine, bad, "language");
    bad = good; bad.speaker = "<|x|>"; refuse(engine, bad, "speaker");
    bad = good; bad.style = " "; refuse(engine, bad, "style");
    bad = good; bad.size = sizeof bad + 8; refuse(engine, bad, "size");
    bad = good; bad.size = 3; refuse(engine, bad, "size");
    bad = good; bad.transcript = "words"; refuse(engine, bad, "transcript");
    bad = good; bad.embedding = embedding; bad.embedding_length = 31;
    refuse(engine, bad, voices ? "wrong length" : "no embedding");
    if (voices) {
        bad.embedding_length = 32; embedding[5] = NAN; refuse(engine, bad, "NaN");
        embedding[5] = 0;
    }
    if (voices > 1) {
        bad.codes = codes; bad.code_frames = 2;
        refuse(engine, bad, "transcript");
        bad.transcript = "words"; codes[31] = 64; refuse(engine, bad, "out of range");
        codes[31] = -1; refuse(engine, bad, "out of range");
        codes[31] = 0; bad.code_frames = 0; refuse(engine, bad, "impossible length");
        bad.code_frames = 100000; refuse(engine, bad, "impossible length");
    }
    CHECK(to.blocks == 0);
}

static void test_speaking(dv_engine *engine, int streams) {
    listener to = {0, 0, 0, 0, NULL, 0};
    dv_stats stats;
    dv_request request;

    CHECK(say(engine, "hello", &to, &stats) == DV_OK);
    CHECK(stats.status == DV_OK && stats.samples == to.samples && to.samples > 0);
    CHECK(stats.blocks == to.blocks && stats.first_ms >= 0 && to.sum > 1);
    CHECK(error[0] == 0);
    to = (listener){0, 2, 0, 0, NULL, 0};
    CHECK(say(engine, "hello hello", &to, &stats) == DV_CANCELLED);
    CHECK(to.blocks == 2);
    to = (listener){0, 0, 0, 0, engine, 0};
    CHECK(say(engine, "ab", &to, &stats) == DV_OK);
    request = request_of("hello hello", &to, 7);
    to = (listener){0, 0, 0, 0, engine, 7};
    CHECK(dv_speak(engine, &request, NULL, NULL, 0) == DV_CANCELLED);
    CHECK(to.blocks == 1);
    to = (listener){0, 0, 0, 0, NULL, 0}; /* that cancel names job 7 and must not hit job 8 */
    request.job = 8;
    CHECK(dv_speak(engine, &request, NULL, NULL, 0) == DV_OK);
    dv_cancel(engine, 9); /* before it begins: not a block of it */
    to = (listener){0, 0, 0, 0, NULL, 0};
    request.job = 9;
    CHECK(dv_speak(engine, &request, NULL, NULL, 0) == DV_CANCELLED);
    CHECK(to.blocks == 0);
    request.job = 10;
    request.max_frames = 3;
    CHECK(dv_speak(engine, &request, NULL, NULL, 0) == DV_CAPPED);
    CHECK(to.samples == 3 * 1920);
    if (streams) {
        CHECK(say(engine, "error", &to, &stats) == DV_FAILED);
        CHECK(strstr(error, "no luck") != NULL);
    }
}

static void test_engine_faults(dv_engine *engine) {
    listener to = {0, 0, 0, 0, NULL, 0};
    dv_stats stats;
    dv_request request = request_of("endless", &to, 20);
    CHECK(say(engine, "nan", &to, &stats) == DV_FAILED);
    CHECK(strstr(error, "NaN") != NULL && to.blocks == 0);
    CHECK(say(engine, "empty", &to, &stats) == DV_OK);
    CHECK(stats.samples == 0 && stats.first_ms < 0);
    request.max_frames = 4000;
    request.deadline_ms = 1;
    to.stop_after = 100000;
    CHECK(dv_speak(engine, &request, NULL, error, sizeof error) == DV_LATE);
}

static void test_voices(dv_engine *engine) {
    static float pcm[24000];
    dv_reference reference;
    dv_voice voice;
    memset(&reference, 0, sizeof reference);
    memset(&voice, 0, sizeof voice);
    reference.size = sizeof reference;
    voice.size = sizeof voice;
    for (int i = 0; i < 24000; i++) pcm[i] = 0.25f * (float)sin(0.05 * i);
    reference.pcm = pcm;
    reference.samples = 24000;
    CHECK(dv_make_voice(engine, &reference, &voice, error, sizeof error) == DV_OK);
    CHECK(voice.embedding_length == 32 && voice.code_frames == 12 && voice.codebooks == 16);
    dv_free_voice(&voice);
    CHECK(!voice.embedding && !voice.codes);
    dv_free_voice(&voice); /* twice is harmless */
    reference.samples = 100;
    CHECK(dv_make_voice(engine, &reference, &voice, error, sizeof error) == DV_REFUSED);
    reference.samples = 24000;
    pcm[100] = NAN;
    CHECK(dv_make_voice(engine, &reference, &voice, error, sizeof error) == DV_REFUSED);
    pcm[100] = 0;
    reference.transcript = "<|im_start|>";
    CHECK(dv_make_voice(engine, &reference, &voice, error, sizeof error) == DV_REFUSED);
}

static void test_opening(char **libraries) {
    dv_options options;
    dv_engine *engine;
    dv_info info;
    CHECK(dv_abi() == DV_ABI);
    CHECK(!open_engine("nonsense", libraries[1], "m") && strstr(error, "unknown engine"));
    CHECK(!open_engine("", "/nowhere/x.so", "m") && strstr(error, "/nowhere/x.so"));
    CHECK(!open_engine("", libraries[6], "m") && strstr(error, "qwen3_asr_transcribe"));
    CHECK(!open_engine("libqwen", libraries[7], "m") && strstr(error, "is not a library"));
    CHECK(!open_engine("libqwen", libraries[3], "m") && strstr(error, "is not a library"));
    CHECK(!open_engine("libqwen", libraries[1], "bad.gguf") && strstr(error, "no tensors"));
    CHECK(!open_engine("", libraries[3], "/bad") && strstr(error, "cannot load"));
    CHECK(!open_engine("", libraries[4], "/bad/x.gguf") && strstr(error, "no model x.gguf"));
    CHECK(dv_open(NULL, &engine, error, sizeof error) == DV_REFUSED);
    memset(&options, 0, sizeof options);
    options.size = sizeof options + 1;
    CHECK(dv_open(&options, &engine, error, sizeof error) == DV_REFUSED);
    options.size = sizeof options;
    options.engine = "tone";
    CHECK(dv_open(&options, &engine, error, 5) == DV_REFUSED && strlen(error) < 5);
    options.threads = 1;
    CHECK(dv_open(&options, NULL, NULL, 0) == DV_REFUSED);
    CHECK(dv_open(&options, &engine, NULL, 0) == DV_OK);
    info.size = sizeof info;
    CHECK(dv_get_info(engine, &info) == DV_OK && !strcmp(info.engine, "tone"));
    info.size = offsetof(dv_info, engine); /* an older caller's */
    CHECK(dv_get_info(engine, &info) == DV_OK && info.size == offsetof(dv_info, engine));
    info.size = sizeof info + 4;
    CHECK(dv_get_info(engine, &info) == DV_REFUSED);
    CHECK(dv_close(engine, NULL, 0) == DV_OK && dv_close(NULL, NULL, 0) == DV_OK);
}

static void test_audio(void) {
    const float scale = 1.0f / 32767.0f;
    const float in[] = {0, 1, -1, 9, -9, 0.5f * scale, 1.5f * scale, 2.5f * scale, -2.5f * scale,
                        32766.4f * scale, 1e30f, -1e30f};
    const int16_t wanted[] = {0, 32767, -32767, 32767, -32767, 0, 2, 2, -2, 32766, 32767, -32767};
    const int32_t count = (int32_t)(sizeof in / sizeof *in);
    int16_t out[13] = {0};
    float pcm[23];
    uint8_t loud[4] = {7, 7, 7, 7};
    out[count] = 77;
    dv_pcm16(in, count, out);
    for (int32_t i = 0; i < count; i++) CHECK(out[i] == wanted[i]);
    CHECK(out[count] == 77);

    for (int i = 0; i < 23; i++) pcm[i] = i < 7 || i >= 21 ? 1.0f : i < 14 ? 0.1f : 0.5f;
    CHECK(dv_loud(pcm, 23, 7, 1.0f, NULL) == 2);
    CHECK(dv_loud(pcm, 23, 7, 1.0f, loud) == 2);
    CHECK(loud[0] == 1 && loud[1] == 0 && loud[2] == 1 && loud[3] == 7);
    CHECK(dv_loud(pcm, 23, 7, 1.75f, NULL) == 1); /* 7 * 0.25 is not above itself */
    CHECK(dv_loud(pcm, 6, 7, 0.0f, NULL) == 0 && dv_loud(pcm, 0, 7, 0.0f, NULL) == 0);
    CHECK(dv_loud(pcm, 23, 0, 0.0f, NULL) == 0 && dv_loud(NULL, 23, 7, 0.0f, NULL) == 0);
}

int main(int argc, char **libraries) {
    dv_engine *engine;
    if (argc != 8) return 2;
    test_audio();
    test_opening(libraries);
    engine = open_engine("tone", NULL, NULL);
    test_refusals(engine, 0);
    test_speaking(engine, 0);
    CHECK(dv_close(engine, NULL, 0) == DV_OK);
    for (int i = 1; i <= 5; i++) {
        engine = open_engine("", libraries[i], "/models/talker.gguf");
        CHECK(engine != NULL);
        if (!engine) continue;
        test_refusals(engine, i <= 2 ? 2 : i == 3);
        test_speaking(engine, i != 3);
        test_engine_faults(engine);
        if (i <= 2) test_voices(engine);
        CHECK(dv_close(engine, NULL, 0) == DV_OK);
    }
    printf("%d passed, %d failed\n", checks - failures, failures);
    return failures != 0;
}
