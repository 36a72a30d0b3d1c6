"""A tiny Qwen3-TTS pair with random weights that the real libqwen runs: every stage is the
engine's own, the sound is noise.

The talker is not purely random. Three residual channels are reserved so that the length of the
speech follows the length of the text:

* channel 0: a constant, from the text projection's bias;
* channel 1: 1 on every position whose text token is a plain byte;
* channel 2: the attention layer writes the mean of channel 1 over all positions there.

The logit of the end token is ``GAIN * (THETA * ch0 - ch2)``: speech stops once the share of text
among all positions has fallen below a threshold, about half a frame per byte of text. ``end =
"never"`` and ``"now"`` make it a constant. Each ``~`` in a text counts as ten bytes: a run of
them gives a run-away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tests.native.gguf_writer import GgufWriter

Floats = npt.NDArray[np.float32]
End = Literal["text", "never", "now"]
Kind = Literal["base", "custom_voice", "voice_design"]

# Sizes that the engine leaves free.
CODES = 64  # entries per codebook (real: 2048)
HIDDEN = 32  # talker width, and length of an embedding (real: 1024 or 2048)
HEADS, KV_HEADS, HEAD = 2, 1, 16
FEED = 32
TEXT_HIDDEN = 32
PREDICTOR_HIDDEN = 16  # differs from HIDDEN, so the projection between them is used
# Sizes that are fixed in libqwen.
CODEBOOKS = 16  # 1 semantic, 15 acoustic
RESERVED = 1024  # the sampler masks these top rows except the end token
VOCABULARY = CODES + RESERVED
LATENT = 1024  # width of the codec decoder's entry
QUANTISER_HIDDEN = 512
DAC = (1536, 768, 384, 192, 96)
STRIDES = (8, 5, 4, 3)
MELS = 128

LANGUAGES = ["chinese", "english", "german", "french", "italian", "spanish"]
LANGUAGES += ["portuguese", "russian", "japanese", "korean"]
SPEAKERS = ["ann", "bob"]
THETA = 0.7


@dataclass(frozen=True)
class Pair:
    """The two files."""

    talker: Path
    codec: Path


def write_pair(folder: Path, *, seed: int = 1, end: End = "text", kind: Kind = "base") -> Pair:
    """Write ``talker.gguf`` (0.6 MB) and ``codec.gguf`` (13 MB) into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    pair = Pair(folder / "talker.gguf", folder / "codec.gguf")
    _talker(pair.talker, seed, end, kind)
    _codec(pair.codec, seed)
    return pair


class _Maker:
    """Puts tensors and keys under one architecture."""

    def __init__(self, architecture: str, seed: int) -> None:
        self.file = GgufWriter(architecture)
        self.random = np.random.default_rng(seed)

    def whole(self, prefix: str = "", **values: int) -> None:
        for key, value in values.items():
            self.file.u32(self._key(prefix, key), value)

    def real(self, prefix: str = "", **values: float) -> None:
        for key, value in values.items():
            self.file.f32(self._key(prefix, key), value)

    def normal(self, *shape: int, scale: float = 1.0) -> Floats:
        return self.random.standard_normal(shape, dtype=np.float32) * np.float32(scale)

    def put(self, name: str, values: npt.ArrayLike, kind: Any = np.float32) -> None:
        self.file.tensor(name, np.asarray(values, dtype=kind))

    def weight(self, name: str, *shape: int, gain: float = 1.0) -> None:
        fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 1
        self.put(f"{name}.weight", self.normal(*shape, scale=gain / fan_in**0.5))

    def ones(self, *names: str, n: int) -> None:
        for name in names:
            self.put(name, np.ones(n))

    def zeros(self, name: str, *shape: int) -> None:
        self.put(name, np.zeros(shape))

    def layer(self, name: str, *shape: int, gain: float = 1.0) -> None:
        """Weight and a zero bias; the first dimension is the output."""
        self.weight(name, *shape, gain=gain)
        self.zeros(f"{name}.bias", shape[0])

    def snake(self, name: str, n: int) -> None:
        self.zeros(f"{name}.alpha", n)
        self.ones(f"{name}.beta", n=n)

    def _key(self, prefix: str, key: str) -> str:
        return f"{self.file.architecture}.{prefix}{key.replace('__', '.')}"


def _byte_symbols() -> list[str]:
    """GPT-2's printable character for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {byte: chr(byte) for byte in printable}
    rest = [byte for byte in range(256) if byte not in table]
    table |= {byte: chr(256 + index) for index, byte in enumerate(rest)}
    return [table[byte] for byte in range(256)]


def _vocabulary() -> tuple[list[str], list[str], dict[str, int]]:
    """Bytes, the two role words as single tokens, the special tokens; merges; special ids."""
    tokens, merges = _byte_symbols(), []
    for word in ("assistant", "user"):
        left = word[0]
        for character in word[1:]:
            merges.append(f"{left} {character}")
            left += character
            if left not in tokens:
                tokens.append(left)
    special = {}
    for name in ("<|endoftext|>", "<|im_start|>", "<|im_end|>"):
        special[name] = len(tokens)
        tokens.append(name)
    for name in ("<tts_pad>", "<tts_text_bos>", "<tts_text_eod>"):
        special[name] = len(tokens)
        tokens.append(name)
    return tokens, merges, special


def _talker(path: Path, seed: int, end: End, kind: Kind) -> None:
    make = _Maker("qwen3-tts", seed)
    tokens, merges, special = _vocabulary()
    names = ("pad", "bos", "eos", "think", "nothink", "think_bos", "think_eos")
    places = (0, 1, 2, 6, 7, 8, 9)
    codec_ids = {name: CODES + 100 + place for name, place in zip(names, places, strict=True)}
    _talker_keys(make, kind, len(tokens), special, codec_ids)
    make.file.text("tokenizer.ggml.model", "gpt2")
    make.file.texts("tokenizer.ggml.tokens", tokens)
    make.file.texts("tokenizer.ggml.merges", merges)
    constant = 8.0
    _text_side(make, tokens, constant)
    table = make.normal(VOCABULARY, HIDDEN, scale=0.1)
    table[:, 0:3] = 0
    for name in ("think", "nothink", "think_eos"):  # a few frames for any text
        table[codec_ids[name], 1] = 5.0
    make.put("talker.codec_embd.weight", table)
    _talker_layer(make)
    head = make.normal(VOCABULARY, HIDDEN, scale=0.5)
    head[:, 0:3] = 0
    head[codec_ids["eos"], :] = 0
    if end == "text":
        # A text row has 1 beside the constant; its norm makes that sqrt(HIDDEN) / constant.
        per_row, gain = HIDDEN**0.5 / constant, 400.0
        head[codec_ids["eos"], 0] = gain * THETA * per_row / constant
        head[codec_ids["eos"], 2] = -gain
    else:
        head[codec_ids["eos"], 0] = -100.0 if end == "never" else 100.0
    make.put("talker.codec_head.weight", head)
    _predictor(make)
    if kind == "base":
        _speaker_encoder(make)
    make.file.write(path)


def _talker_keys(
    make: _Maker, kind: Kind, vocabulary: int, special: dict[str, int], codec_ids: dict[str, int]
) -> None:
    file = make.file
    file.text("qwen3-tts.tokenizer_type", "qwen3_tts_tokenizer_12hz")
    file.text("qwen3-tts.model_size", "tiny")
    file.text("qwen3-tts.model_type", kind)
    make.whole(num_code_groups=CODEBOOKS)
    sizes = {"feed_forward_length": FEED, "block_count": 1, "attention__head_count": HEADS}
    sizes |= {"attention__head_count_kv": KV_HEADS, "attention__key_length": HEAD}
    make.whole("talker.", embedding_length=HIDDEN, vocab_size=VOCABULARY, **sizes)
    make.whole("talker.", text_vocab_size=vocabulary, text_hidden_size=TEXT_HIDDEN)
    make.whole("talker.", context_length=32768)
    make.whole("code_pred.", embedding_length=PREDICTOR_HIDDEN, vocab_size=CODES, **sizes)
    make.whole("spk_enc.", embedding_length=HIDDEN, sample_rate=24000)
    make.whole("text.", im_start_id=special["<|im_start|>"], im_end_id=special["<|im_end|>"])
    make.whole("text.", tts_pad_id=special["<tts_pad>"], tts_bos_id=special["<tts_text_bos>"])
    make.whole("text.", tts_eos_id=special["<tts_text_eod>"])
    make.whole("codec.", **{f"{name}_id": value for name, value in codec_ids.items()})
    for part in ("talker.", "code_pred."):
        make.real(part, rope__freq_base=1e6, attention__layer_norm_rms_epsilon=1e-6)
    file.numbers("qwen3-tts.talker.rope.mrope_section", [HEAD // 2, 0, 0])
    file.flag("qwen3-tts.talker.rope.mrope_interleaved", False)
    file.texts("qwen3-tts.codec.language_names", LANGUAGES)
    file.numbers("qwen3-tts.codec.language_ids", [CODES + 10 + i for i in range(len(LANGUAGES))])
    if kind == "custom_voice":
        file.texts("qwen3-tts.codec.speaker_names", SPEAKERS)
        file.numbers("qwen3-tts.codec.speaker_ids", [CODES + 40, CODES + 41])
        file.texts("qwen3-tts.codec.speaker_dialects", ["", ""])
    for part in ("", "subtalker_"):
        file.flag(f"generation.{part}do_sample", True)
        file.u32(f"generation.{part}top_k", 50)
        file.f32(f"generation.{part}temperature", 0.9)
        file.f32(f"generation.{part}top_p", 1.0)
    file.u32("generation.max_new_tokens", 2048)
    file.f32("generation.repetition_penalty", 1.05)


def _text_side(make: _Maker, tokens: Sequence[str], constant: float) -> None:
    """Feature 1 of a text row marks plain bytes, feature 0 marks ``~``; 3 / silu(3) makes 1."""
    table = make.normal(len(tokens), TEXT_HIDDEN)
    table[:, 0:2] = 0
    table[:256, 1] = 3.0
    table[list(tokens).index("~"), 0] = 30.0
    make.put("talker.text_embd.weight", table)
    first = make.normal(TEXT_HIDDEN, TEXT_HIDDEN, scale=TEXT_HIDDEN**-0.5)
    first[0:2, :] = 0
    first[0, 0] = first[1, 1] = 1
    make.put("talker.text_proj.fc1.weight", first)
    make.zeros("talker.text_proj.fc1.bias", TEXT_HIDDEN)
    second = make.normal(HIDDEN, TEXT_HIDDEN, scale=0.3 * TEXT_HIDDEN**-0.5)
    second[0:3, :] = 0
    second[:, 0:2] = 0
    second[1, 0] = 1
    second[1, 1] = (1 + np.exp(-3.0)) / 3.0
    make.put("talker.text_proj.fc2.weight", second)
    bias = np.zeros(HIDDEN)
    bias[0] = constant
    make.put("talker.text_proj.fc2.bias", bias)


def _talker_layer(make: _Maker) -> None:
    """K = 0 makes attention uniform; V lifts channel 1, the output puts it into channel 2."""
    block = "talker.blk.0"
    make.ones(f"{block}.attn_norm.weight", f"{block}.ffn_norm.weight", n=HIDDEN)
    make.weight(f"{block}.attn_q", HEADS * HEAD, HIDDEN)
    make.zeros(f"{block}.attn_k.weight", KV_HEADS * HEAD, HIDDEN)
    value = make.normal(KV_HEADS * HEAD, HIDDEN, scale=0.1)
    value[0, :] = 0
    value[0, 1] = 1
    make.put(f"{block}.attn_v.weight", value)
    output = make.normal(HIDDEN, HEADS * HEAD, scale=0.1)
    output[0:3, :] = 0
    output[:, 0] = 0
    output[2, 0] = 1
    make.put(f"{block}.attn_output.weight", output)
    make.ones(f"{block}.attn_q_norm.weight", f"{block}.attn_k_norm.weight", n=HEAD)
    make.weight(f"{block}.ffn_gate", FEED, HIDDEN, gain=0.3)
    make.weight(f"{block}.ffn_up", FEED, HIDDEN, gain=0.3)
    down = make.normal(HIDDEN, FEED, scale=0.1)
    down[0:3, :] = 0
    make.put(f"{block}.ffn_down.weight", down)
    make.ones("talker.output_norm.weight", n=HIDDEN)


def _predictor(make: _Maker) -> None:
    width = PREDICTOR_HIDDEN
    make.layer("code_pred.mtp_proj", width, HIDDEN)
    for group in range(CODEBOOKS - 1):
        table = make.normal(CODES, HIDDEN, scale=0.1)
        table[:, 0:3] = 0
        make.put(f"code_pred.codec_embd.{group}.weight", table)
        make.weight(f"code_pred.lm_head.{group}", CODES, width)
    block = "code_pred.blk.0"
    make.ones(f"{block}.attn_norm.weight", f"{block}.ffn_norm.weight", n=width)
    make.weight(f"{block}.attn_q", HEADS * HEAD, width, gain=0.3)
    make.weight(f"{block}.attn_k", KV_HEADS * HEAD, width, gain=0.3)
    make.weight(f"{block}.attn_v", KV_HEADS * HEAD, width, gain=0.3)
    make.weight(f"{block}.attn_output", width, HEADS * HEAD, gain=0.3)
    make.ones(f"{block}.attn_q_norm.weight", f"{block}.attn_k_norm.weight", n=HEAD)
    make.weight(f"{block}.ffn_gate", FEED, width, gain=0.3)
    make.weight(f"{block}.ffn_up", FEED, width, gain=0.3)
    make.weight(f"{block}.ffn_down", width, FEED, gain=0.3)
    make.ones("code_pred.output_norm.weight", n=width)


def _speaker_encoder(make: _Maker, channels: int = 16, squeeze: int = 4) -> None:
    make.layer("spk_enc.conv0", channels, MELS, 5)
    for index in (1, 2, 3):
        block = f"spk_enc.blk.{index}"
        make.layer(f"{block}.tdnn1", channels, channels, 1)
        for branch in range(7):
            make.layer(f"{block}.res2net.{branch}", channels // 8, channels // 8, 3)
        make.layer(f"{block}.tdnn2", channels, channels, 1)
        make.layer(f"{block}.se.conv1", squeeze, channels, 1)
        make.layer(f"{block}.se.conv2", channels, squeeze, 1)
    make.layer("spk_enc.mfa", 3 * channels, 3 * channels, 1)
    make.layer("spk_enc.asp.tdnn", 4, 9 * channels, 1)
    make.layer("spk_enc.asp.conv", 3 * channels, 4, 1)
    make.layer("spk_enc.fc", HIDDEN, 6 * channels, 1)


def _codec(path: Path, seed: int) -> None:
    make = _Maker("qwen3-tts-tokenizer", seed + 1)
    code_width, thin = 8, 8
    make.whole(input_sample_rate=24000, output_sample_rate=24000)
    make.whole(decode_upsample_rate=1920, encode_downsample_rate=1920)
    make.whole(encoder_valid_num_quantizers=CODEBOOKS)
    make.whole("decoder.", latent_dim=LATENT, codebook_size=CODES, num_quantizers=CODEBOOKS)
    make.whole("decoder.", codebook_dim_internal=code_width, num_semantic_quantizers=1)
    make.whole("decoder.", vector_quantization_hidden_dim=QUANTISER_HIDDEN, hidden_size=32)
    make.whole("decoder.", intermediate_size=FEED, num_hidden_layers=1, num_attention_heads=HEADS)
    make.whole("decoder.", num_key_value_heads=HEADS, head_dim=HEAD, sliding_window=72)
    make.real("decoder.", rope_theta=10000.0, rms_norm_eps=1e-5)
    for side, books in (("vq_first", 1), ("vq_rest", CODEBOOKS - 1)):
        make.weight(f"tok_dec.{side}.output_proj", QUANTISER_HIDDEN, code_width, 1)
        for book in range(books):
            make.put(f"tok_dec.{side}.{book}.codebook", make.normal(CODES, code_width))
    make.layer("tok_dec.pre_conv", thin, QUANTISER_HIDDEN, 3)
    _codec_transformer(make, thin)
    _upsamplers(make, thin)
    _dac(make, thin)
    _codec_encoder(make, code_width)
    make.file.write(path)


def _codec_transformer(make: _Maker, thin: int, hidden: int = 32) -> None:
    make.layer("tok_dec.pre_tfm.input_proj", hidden, thin)
    block = "tok_dec.pre_tfm.blk.0"
    make.ones(f"{block}.attn_norm.weight", f"{block}.ffn_norm.weight", n=hidden)
    make.ones(f"{block}.attn_scale", f"{block}.ffn_scale", n=hidden)
    for name in ("attn_q", "attn_k", "attn_v"):
        make.weight(f"{block}.{name}", HEADS * HEAD, hidden)
    make.weight(f"{block}.attn_output", hidden, HEADS * HEAD)
    make.weight(f"{block}.ffn_gate", FEED, hidden)
    make.weight(f"{block}.ffn_up", FEED, hidden)
    make.weight(f"{block}.ffn_down", hidden, FEED)
    make.ones("tok_dec.pre_tfm.norm.weight", n=hidden)
    make.layer("tok_dec.pre_tfm.output_proj", thin, hidden)


def _transposed(make: _Maker, name: str, entry: int, output: int, kernel: int, gain: float) -> None:
    """Weights of a transposed convolution are (in, out, kernel), in half precision."""
    make.put(f"{name}.weight", make.normal(entry, output, kernel, scale=gain), np.float16)
    make.zeros(f"{name}.bias", output)


def _upsamplers(make: _Maker, thin: int) -> None:
    for index in range(2):
        entry, name = (thin, LATENT)[index], f"tok_dec.upsample.{index}"
        _transposed(make, f"{name}.conv", entry, LATENT, 2, entry**-0.5)
        make.layer(f"{name}.dwconv", LATENT, 1, 7)
        make.ones(f"{name}.norm.weight", f"{name}.gamma", n=LATENT)
        make.zeros(f"{name}.norm.bias", LATENT)
        make.layer(f"{name}.pwconv1", thin, LATENT)
        make.layer(f"{name}.pwconv2", LATENT, thin)


def _dac(make: _Maker, thin: int) -> None:
    make.layer("tok_dec.dec.0.conv", thin, LATENT, 7)
    for index, stride in enumerate(STRIDES):
        entry, output = (thin if index == 0 else DAC[index]), DAC[index + 1]
        name = f"tok_dec.dec.{index + 1}"
        make.snake(f"{name}.snake", entry)
        _transposed(make, f"{name}.conv_t", entry, output, 2 * stride, 0.7 * (2 * entry) ** -0.5)
        for branch in range(3):
            part = f"{name}.res.{branch}"
            make.snake(f"{part}.act1", output)
            make.layer(f"{part}.conv1", 4, output, 7)
            make.snake(f"{part}.act2", 4)
            make.layer(f"{part}.conv2", output, 4, 1, gain=0.2)
    make.snake("tok_dec.dec.5.snake", DAC[-1])
    make.layer("tok_dec.dec.6.conv", 1, DAC[-1], 7, gain=0.05)


def _codec_encoder(make: _Maker, code_width: int, filters: int = 4, hidden: int = 16) -> None:
    make.whole("encoder.", num_filters=filters, kernel_size=7, last_kernel_size=3)
    make.whole("encoder.", residual_kernel_size=3, num_residual_layers=1, compress=2)
    make.whole("encoder.", dilation_growth_rate=2, hidden_size=hidden, intermediate_size=hidden)
    make.whole("encoder.", head_dim=hidden, num_attention_heads=1, num_key_value_heads=1)
    make.whole("encoder.", num_hidden_layers=1, codebook_size=CODES, num_quantizers=CODEBOOKS)
    make.whole("encoder.", num_semantic_quantizers=1, vector_quantization_hidden_dim=code_width)
    make.file.numbers(f"{make.file.architecture}.encoder.upsampling_ratios", [8, 6, 5, 4])
    make.real("encoder.", rope_theta=10000.0, norm_eps=1e-5)
    make.layer("tok_enc.conv.0", filters, 1, 7)
    width = filters
    for place, ratio in zip((1, 4, 7, 10), (4, 5, 6, 8), strict=True):
        make.layer(f"tok_enc.res.{place}.blk.1", width // 2, width, 3)
        make.layer(f"tok_enc.res.{place}.blk.3", width, width // 2, 1)
        make.layer(f"tok_enc.conv.{place + 2}", 2 * width, width, 2 * ratio)
        width *= 2
    make.layer("tok_enc.conv.14", hidden, width, 3)
    block = "tok_enc.blk.0"
    for name in ("attn_norm", "ffn_norm"):
        make.ones(f"{block}.{name}.weight", n=hidden)
        make.zeros(f"{block}.{name}.bias", hidden)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down"):
        make.weight(f"{block}.{name}", hidden, hidden)
    make.ones(f"{block}.attn_scale", f"{block}.ffn_scale", n=hidden)
    make.weight("tok_enc.downsample", hidden, hidden, 4)
    for side, books in (("semantic", 1), ("acoustic", CODEBOOKS - 1)):
        make.weight(f"tok_enc.vq_{side}.input_proj", code_width, hidden, 1)
        make.weight(f"tok_enc.vq_{side}.output_proj", hidden, code_width, 1)
        for book in range(books):
            make.put(f"tok_enc.vq_{side}.{book}.codebook", make.normal(CODES, code_width))
