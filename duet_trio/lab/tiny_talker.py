"""The talker of the tiny pair: its length follows the text (see `duet_trio.lab.tiny_gguf`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from duet_trio.lab.tiny_maker import (
    CODEBOOKS,
    CODES,
    FEED,
    HEAD,
    HEADS,
    HIDDEN,
    KV_HEADS,
    MELS,
    PREDICTOR_HIDDEN,
    TEXT_HIDDEN,
    VOCABULARY,
    Maker,
)

LANGUAGES = ["chinese", "english", "german", "french", "italian", "spanish"]
LANGUAGES += ["portuguese", "russian", "japanese", "korean"]
SPEAKERS = ["ann", "bob"]
SPEAKER_IDS = [CODES + 40, CODES + 41]
#: Bob is slow of speech, so that it is heard who speaks: as if his texts had so many bytes more.
SPEAKER_MARKS = (0.0, 40.0)
#: Share of text among all positions below which speech ends.
THETA = 0.7
#: ``text``: speech ends with its text; ``never``, ``now``: it does not, or before it began.
End = Literal["text", "never", "now"]
Kind = Literal["base", "custom_voice", "voice_design"]


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


def write_talker(path: Path, seed: int, end: End, kind: Kind) -> None:
    """Write the talker with its code predictor (0.6 MB)."""
    make = Maker("qwen3-tts", seed)
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
    for speaker, mark in enumerate(SPEAKER_MARKS):
        table[SPEAKER_IDS[speaker], 1] = mark
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
    make: Maker, kind: Kind, vocabulary: int, special: dict[str, int], codec_ids: dict[str, int]
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
        file.numbers("qwen3-tts.codec.speaker_ids", SPEAKER_IDS)
        file.texts("qwen3-tts.codec.speaker_dialects", ["", ""])
    for part in ("", "subtalker_"):
        file.flag(f"generation.{part}do_sample", True)
        file.u32(f"generation.{part}top_k", 50)
        file.f32(f"generation.{part}temperature", 0.9)
        file.f32(f"generation.{part}top_p", 1.0)
    file.u32("generation.max_new_tokens", 2048)
    file.f32("generation.repetition_penalty", 1.05)


def _text_side(make: Maker, tokens: Sequence[str], constant: float) -> None:
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


def _talker_layer(make: Maker) -> None:
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


def _predictor(make: Maker) -> None:
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


def _speaker_encoder(make: Maker, channels: int = 16, squeeze: int = 4) -> None:
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
