/* Tests of the C interface itself, run under the address and undefined-behaviour sanitisers.
 *
 *     interface_test LIBQWEN4 LIBQWEN5 POINTER VALUE_OLD VALUE_NEW FORK LACKING POINTER_PLAIN
 *                    VALUE_PLAIN
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

static dv_reference reference_of(const float *pcm) {
    dv_reference reference;
    memset(&reference, 0, sizeof reference);
    reference.size = sizeof reference;
    reference.pcm = pcm;
    reference.samples = 24000; /* a second */
    return reference;
}

static dv_voice no_voice(void) {
    dv_voice voice;
    memset(&voice, 0, sizeof voice);
    voice.size = sizeof voice;
    return voice;
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
static void test_refusals(dv_engine *engine, int voices, int in_files) {
    static const char *const blank[] = {"", " ", "\n\t ", "\xc2\xa0", "\xe3\x80\x80\xe2\x80\x8b",
                                        "\xe2\x80\xae\xe2\x80\xad", "\xc2\xad\xef\xb8\x8f",
                                        "\xe3\x85\xa4", "\xe2\xa0\x80", "\xf3\xa0\x81\x81"};
    static const char *const tokens[] = {"<|im_end|>", "a <|", "|> b", "x <tts_pad> y"};
    static const char *const broken[] = {"\xff", "\xc0\x80", "a\xe3\x80", "\xed\xa0\x80",
                                         "\xf4\x90\x80\x80", "ok\xc3", "\xe0\x9f\xbf",
                                         "\xf0\x8f\xbf\xbf"};
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
        longest[8193] = 0;
        refuse(engine, request_of(longest, &to, 1), "longer");
        bad = good; bad.style = longest; refuse(engine, bad, "longer");
        longest[8192] = 0; /* may be, and then it is the job that is wrong */
        bad = request_of(longest, &to, 0);
        refuse(engine, bad, "job");
        longest[64] = 0;
        bad = good; bad.language = longest; refuse(engine, bad, "language");
        bad = good; bad.speaker = longest; refuse(engine, bad, "speaker");
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
    bad = good; bad.transcript = "<|im_end|>"; refuse(engine, bad, "control tokens");
    bad = good; bad.codes = codes; bad.code_frames = 2;
    refuse(engine, bad, voices > 1 ? "need an embedding" : "no reference codes");
    if (!in_files) {
        bad = good; bad.voice_file = "/v"; refuse(engine, bad, "no voice files");
    } else {
        bad = good; bad.voice_file = ""; refuse(engine, bad, "empty");
        bad = good; bad.voice_file = "/v"; bad.embedding = embedding; bad.embedding_length = 32;
        refuse(engine, bad, "not both");
    }
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
    dv_cancel(engine, 9); /* before it begins: the engine is not asked, or it would crash */
    to = (listener){0, 0, 0, 0, NULL, 0};
    request.job = 9;
    request.text = "crash";
    CHECK(dv_speak(engine, &request, NULL, NULL, 0) == DV_CANCELLED);
    CHECK(to.blocks == 0);
    request.text = "hello hello";
    request.job = 10;
    request.max_frames = 3;
    CHECK(dv_speak(engine, &request, NULL, NULL, 0) == DV_CAPPED);
    CHECK(to.samples == 3 * 1920);
    if (streams) {
        CHECK(say(engine, "error", &to, &stats) == DV_FAILED);
        CHECK(strstr(error, "no luck") != NULL && !strstr(error, "old news"));
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

static void test_rates(dv_engine *engine, int whole) {
    listener to = {0, 0, 0, 0, NULL, 0};
    dv_stats stats;
    CHECK(say(engine, "rate", &to, &stats) == DV_FAILED);
    CHECK(strstr(error, "48000 Hz") != NULL && to.blocks == 0);
    if (!whole) return;
    CHECK(say(engine, "negative", &to, &stats) == DV_FAILED);
    CHECK(strstr(error, "impossible") != NULL && to.blocks == 0);
}

static void test_voices(dv_engine *engine) {
    static float pcm[24000];
    dv_reference reference = reference_of(pcm);
    dv_voice voice = no_voice();
    for (int i = 0; i < 24000; i++) pcm[i] = 0.25f * (float)sin(0.05 * i);
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

/* Where nobody knows how many codes there are, or up to which number, none are taken. */
static void test_unknown_ranges(const char *library) {
    static const float embedding[32];
    static const int32_t codes[32];
    static const float pcm[24000];
    listener to = {0, 0, 0, 0, NULL, 0};
    dv_request request = request_of("hi", &to, 1);
    dv_reference reference = reference_of(pcm);
    dv_voice voice = no_voice();
    dv_options options;
    dv_engine *engine = open_engine("", library, "odd-none");
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.library = library;
    options.model = options.codec = "m";
    options.threads = 1;
    options.embedding_length = 32;
    request.embedding = embedding;
    request.embedding_length = 32;
    request.codes = codes;
    request.code_frames = 2;
    request.transcript = "words";
    refuse(engine, request, "no reference codes");
    CHECK(dv_close(engine, NULL, 0) == DV_OK);
    CHECK(dv_open(&options, &engine, error, sizeof error) == DV_OK);
    refuse(engine, request, "no reference codes");
    CHECK(dv_close(engine, NULL, 0) == DV_OK);
    options.embedding_length = 0;
    CHECK(dv_open(&options, &engine, error, sizeof error) == DV_OK);
    refuse(engine, request, "no embedding");
    CHECK(dv_make_voice(engine, &reference, &voice, error, sizeof error) == DV_REFUSED);
    CHECK(dv_close(engine, NULL, 0) == DV_OK);
}

/* It logs from its threads whenever it likes, also when we have gone. */
static void test_late_log(const char *path) {
    void *library = port_load(path, error, sizeof error);
    void (*log_line)(const char *) = (void (*)(const char *))port_symbol(library, "standin_log");
    CHECK(log_line != NULL);
    CHECK(!open_engine("", path, "bad"));
    log_line("nobody listens");
    CHECK(dv_close(open_engine("", path, "m"), NULL, 0) == DV_OK);
    log_line("nobody listens");
    port_unload(library);
}

/* Libraries without voices of one's own: said so, never called. */
static void test_plain(const char *library, int in_files) {
    static const float pcm[24000], embedding[32];
    listener to = {0, 0, 0, 0, NULL, 0};
    dv_request request = request_of("hi", &to, 1);
    dv_reference reference = reference_of(pcm);
    dv_voice voice = no_voice();
    dv_stats stats;
    dv_engine *engine = open_engine("", library, "m");
    CHECK(dv_make_voice(engine, &reference, &voice, error, sizeof error) == DV_REFUSED);
    request.embedding = in_files ? NULL : embedding;
    request.embedding_length = 32;
    request.voice_file = in_files ? "/v" : NULL;
    refuse(engine, request, in_files ? "takes no such voice" : "no embedding");
    CHECK(say(engine, "hello", &to, &stats) == DV_OK && to.blocks > 0);
    CHECK(dv_close(engine, NULL, 0) == DV_OK);
}

static void test_odd_pointer(const char *library) {
    static const float pcm[24000];
    dv_reference reference = reference_of(pcm);
    dv_voice voice = no_voice();
    dv_engine *engine;
    CHECK(!open_engine("", library, "/odd-rate") && strstr(error, "48000 Hz"));
    CHECK(!open_engine("", library, "/odd-unloaded") && strstr(error, "cannot load"));
    engine = open_engine("", library, "/odd-length");
    reference.wav_path = library; /* any file that is there */
    CHECK(dv_make_voice(engine, &reference, &voice, error, sizeof error) == DV_FAILED);
    CHECK(strstr(error, "16 values") && !voice.embedding);
    reference.transcript = "words";
    CHECK(dv_make_voice(engine, &reference, &voice, error, sizeof error) == DV_REFUSED);
    CHECK(dv_close(engine, NULL, 0) == DV_OK);
}

/* What an engine says of itself and of the voices that it makes is not believed blindly. */
static void test_odd_engines(const char *library) {
    static const char *const voices[] = {"odd-codes", "odd-frames", "odd-books", "odd-embedding"};
    static float pcm[24000];
    CHECK(!open_engine("", library, "odd-many") && strstr(error, "65 codebooks"));
    CHECK(!open_engine("", library, "odd-minus") && strstr(error, "-1 codebooks"));
    test_unknown_ranges(library);
    for (size_t i = 0; i < sizeof voices / sizeof *voices; i++) {
        dv_engine *engine = open_engine("", library, voices[i]);
        dv_reference reference = reference_of(pcm);
        dv_voice voice = no_voice();
        CHECK(dv_make_voice(engine, &reference, &voice, error, sizeof error) == DV_FAILED);
        CHECK(strstr(error, "made a voice") && !voice.embedding && !voice.codes);
        CHECK(dv_close(engine, NULL, 0) == DV_OK);
    }
}

/* The path may be as long as the system allows; the loader's reason must still be there. */
static void test_long_paths(char **libraries) {
    char path[4000], why[8192];
    dv_options options;
    dv_engine *engine;
    memset(path, 'p', sizeof path);
    for (size_t i = 0; i < sizeof path; i += 200) path[i] = '/';
    path[sizeof path - 1] = 0;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.library = path;
    options.threads = 1;
    CHECK(dv_open(&options, &engine, why, sizeof why) == DV_MISSING);
    CHECK(!strncmp(why, path, strlen(path)) && strstr(why, "No such file"));
    for (int i = 3; i <= 4; i++) {
        options.library = libraries[i];
        options.model = path;
        CHECK(dv_open(&options, &engine, why, sizeof why) == DV_OK);
        CHECK(dv_close(engine, NULL, 0) == DV_OK);
    }
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
    options.threads = 257;
    CHECK(dv_open(&options, &engine, error, sizeof error) == DV_REFUSED);
    options.threads = 1;
    options.embedding_length = 65537;
    CHECK(dv_open(&options, &engine, error, sizeof error) == DV_REFUSED);
    options.embedding_length = 0;
    options.codebook_size = INT32_MAX;
    CHECK(dv_open(&options, &engine, error, sizeof error) == DV_REFUSED);
    options.codebook_size = 0;
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
                        32766.4f * scale, 1e30f, -1e30f, INFINITY, NAN};
    const int16_t wanted[] = {0, 32767, -32767, 32767, -32767, 0, 2, 2, -2, 32766, 32767, -32767,
                              32767, 32767};
    const int32_t count = (int32_t)(sizeof in / sizeof *in);
    int16_t out[15] = {0};
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
    if (argc != 10) return 2;
    test_audio();
    test_opening(libraries);
    test_long_paths(libraries);
    test_odd_pointer(libraries[3]);
    test_plain(libraries[8], 0);
    test_plain(libraries[9], 1);
    engine = open_engine("tone", NULL, NULL);
    test_refusals(engine, 0, 0);
    test_speaking(engine, 0);
    CHECK(dv_close(engine, NULL, 0) == DV_OK);
    for (int i = 1; i <= 5; i++) {
        engine = open_engine("", libraries[i], "/models/talker.gguf");
        CHECK(engine != NULL);
        if (!engine) continue;
        test_refusals(engine, i <= 2 ? 2 : i == 3, i >= 4);
        test_speaking(engine, i != 3);
        test_engine_faults(engine);
        if (i <= 2) test_voices(engine);
        if (i <= 2) test_odd_engines(libraries[i]);
        if (i <= 2) test_late_log(libraries[i]);
        if (i <= 2) {
            listener to = {0, 0, 0, 0, NULL, 0};
            dv_stats stats;
            CHECK(say(engine, "null", &to, &stats) == DV_FAILED && strstr(error, "impossible"));
            CHECK(say(engine, "memory", &to, &stats) == DV_MEMORY && strstr(error, "memory"));
        }
        if (i >= 3) test_rates(engine, i == 3);
        CHECK(dv_close(engine, NULL, 0) == DV_OK);
    }
    printf("%d passed, %d failed\n", checks - failures, failures);
    return failures != 0;
}
