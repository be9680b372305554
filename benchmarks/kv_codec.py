"""Codecs of KV blocks: bytes, time, and the perplexity of a small model that reads them.

python benchmarks/kv_codec.py --json

* ``*_bytes_ratio``: of an encoded block to one of ``bf16``, 8 heads of 128 elements.
* ``*_encode_MBps``, ``*_decode_MBps``: of the bytes of ``bf16``, on one core, with the copy out of
  or into the keys and values.
* ``*_perplexity``: of :mod:`shared.tiny_model`, with the prefix out of such blocks.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from pathlib import Path

import numpy as np

from innet.kv.codec import CODECS, CodecName
from innet.kv.layout import BlockLayout
from innet.lab.compare.progress import ProgressBar
from shared.benchmark import Benchmark, Figures, argument_parser, computed
from shared.tiny_model import HEAD_DIM, HEADS, LAYERS, quality, text_of, trained

PAGES = Path(__file__).resolve().parents[1] / "docs"
CASES: tuple[CodecName | None, ...] = (None, *CODECS)


def main() -> None:
    """Bytes, time and quality of each codec."""
    parser = argument_parser("bytes, time and quality of the codecs of KV blocks")
    parser.add_argument("--block-tokens", type=int, default=256, help="default 256")
    parser.add_argument("--steps", type=int, default=400, help="of training; default 400")
    arguments = parser.parse_args()

    benchmark = Benchmark("kv_codec", arguments, deadline_s=600)

    async def measure(_progress: ProgressBar) -> Figures:
        for figures_of in (speeds, qualities):
            benchmark.done.update(await computed(functools.partial(figures_of, arguments)))
        return benchmark.done

    benchmark.run(measure)


def speeds(arguments: argparse.Namespace) -> Figures:
    """Bytes and times of a block with 4 layers of 8 heads of 128 elements."""
    figures: Figures = {}
    for codec in CASES:
        layout = layout_of(codec, 4, 8, 128, arguments.block_tokens)
        (layers,) = layout.ranges
        plain_bytes = layout.token_bytes * layout.block_tokens
        kv = layout.empty(layout.block_tokens)
        kv[...] = np.random.default_rng(1).standard_normal(kv.shape, np.float32)
        contents = layout.cut(kv, 0, layers)
        encode_s = [elapsed_s(lambda: layout.cut(kv, 0, layers, contents)) for _ in range(9)]  # noqa: B023
        decode_s = [elapsed_s(lambda: layout.join(kv, 0, layers, contents)) for _ in range(9)]  # noqa: B023
        name = codec or "plain"
        figures |= {
            f"{name}_bytes_ratio": contents.nbytes / plain_bytes,
            f"{name}_encode_MBps": plain_bytes / statistics.median(encode_s) / 1e6,
            f"{name}_decode_MBps": plain_bytes / statistics.median(decode_s) / 1e6,
        }
    return figures


def qualities(arguments: argparse.Namespace) -> Figures:
    """Perplexity by codec."""
    text = text_of(PAGES)
    model = trained(text, 250 if arguments.quick else arguments.steps)
    return {
        f"{codec or 'plain'}_perplexity": quality(
            model, text, layout_of(codec, LAYERS, HEADS, HEAD_DIM, 16)
        ).perplexity
        for codec in CASES
    }


def layout_of(
    codec: CodecName | None, layers: int, heads: int, head_dim: int, block_tokens: int
) -> BlockLayout:
    """Blocks of all layers, of a cache in ``bf16``."""
    return BlockLayout(
        layers=layers,
        kv_heads=heads,
        head_dim=head_dim,
        cache_type="bf16",
        block_tokens=block_tokens,
        layers_per_block=layers,
        codec=codec,
    )


def elapsed_s(work: object) -> float:
    """Processor time of a call."""
    assert callable(work)
    began_s = time.process_time()
    work()
    return time.process_time() - began_s


if __name__ == "__main__":
    main()
