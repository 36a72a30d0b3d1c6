"""The codec of the tiny pair: random weights, every stage there."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from duet_trio.lab.tiny_maker import (
    CODEBOOKS,
    CODES,
    DAC,
    FEED,
    HEAD,
    HEADS,
    LATENT,
    QUANTISER_HIDDEN,
    STRIDES,
    Maker,
)


def write_codec(path: Path, seed: int) -> None:
    """Write the codec: decoder and encoder (13 MB, most of it fixed sizes of libqwen)."""
    make = Maker("qwen3-tts-tokenizer", seed + 1)
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


def _codec_transformer(make: Maker, thin: int, hidden: int = 32) -> None:
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


def _transposed(make: Maker, name: str, entry: int, output: int, kernel: int, gain: float) -> None:
    """Weights of a transposed convolution are (in, out, kernel), in half precision."""
    make.put(f"{name}.weight", make.normal(entry, output, kernel, scale=gain), np.float16)
    make.zeros(f"{name}.bias", output)


def _upsamplers(make: Maker, thin: int) -> None:
    for index in range(2):
        entry, name = (thin, LATENT)[index], f"tok_dec.upsample.{index}"
        _transposed(make, f"{name}.conv", entry, LATENT, 2, entry**-0.5)
        make.layer(f"{name}.dwconv", LATENT, 1, 7)
        make.ones(f"{name}.norm.weight", f"{name}.gamma", n=LATENT)
        make.zeros(f"{name}.norm.bias", LATENT)
        make.layer(f"{name}.pwconv1", thin, LATENT)
        make.layer(f"{name}.pwconv2", LATENT, thin)


def _dac(make: Maker, thin: int) -> None:
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


def _codec_encoder(make: Maker, code_width: int, filters: int = 4, hidden: int = 16) -> None:
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
