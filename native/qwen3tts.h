/* What the two drivers for "qwen3-tts.cpp" share. Two lines of that project use one symbol prefix
 * with different signatures, so each library is told apart by what only it has. */
#ifndef DUET_QWEN3TTS_H
#define DUET_QWEN3TTS_H

#include "engine.h"

/* The talker's token for a language name, -1 for NULL, -2 for an unknown one. */
int32_t qwen3tts_language(const char *name);
/* "/models/talker.gguf" is a folder and a file in it; without ".gguf" all of it is the folder. */
int32_t qwen3tts_split(const char *model, char *folder, size_t size, const char **file);

#endif
