"""Fine-tunes a tiny language model with TRL's SFTTrainer over innet.

innet run star8 -- python apps/with_trl.py
"""

from __future__ import annotations

import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import torch.distributed as dist
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer
from with_frameworks.training import StepTimer, argument_parser, report

NUMBERS = 60
WORDS = ["<pad>", "<s>", "</s>", "<unk>", *(f"w{number}" for number in range(NUMBERS))]


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with one token per word of :data:`WORDS`."""
    ids = {word: token for token, word in enumerate(WORDS)}
    words = Tokenizer(WordLevel(ids, unk_token="<unk>"))
    words.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )


def make_model() -> LlamaForCausalLM:
    """A Llama of two layers, with the same parameters on every rank."""
    torch.manual_seed(1)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(WORDS),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
        )
    )


def make_data() -> Dataset:
    """Texts that count, from different numbers."""
    texts = [" ".join(f"w{(start + n) % NUMBERS}" for n in range(12)) for start in range(64)]
    return Dataset.from_dict({"text": texts})


def main() -> None:
    """Train, and print the mean loss over all steps."""
    arguments = argument_parser(__doc__).parse_args()
    # As Trainer, TRL takes Gloo on processors, unless there is a process group already.
    dist.init_process_group(arguments.backend)
    with tempfile.TemporaryDirectory() as folder:
        trainer = SFTTrainer(
            model=make_model(),
            args=SFTConfig(
                output_dir=folder,
                use_cpu=True,
                bf16=False,
                max_steps=arguments.steps,
                per_device_train_batch_size=4,
                learning_rate=1e-2,
                report_to="none",
                save_strategy="no",
                disable_tqdm=True,
            ),
            train_dataset=make_data(),
            processing_class=make_tokenizer(),
        )
        mean = torch.tensor(trainer.train().training_loss)
    dist.all_reduce(mean, op=dist.ReduceOp.SUM)
    report(mean.item() / dist.get_world_size(), StepTimer())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
