"""GRPO by TRL with vLLM in the trainer's process, decode attention by Trunkline, on a small model with drawn weights.

    pip install "trl[vllm]" datasets            # TRL 1.16 takes vLLM 0.22 to 0.31; Trunkline 0.24 to 0.33
    python examples/rl/trl_grpo.py              # one GPU, no network

TRL passes no attention backend to vLLM, so TRUNKLINE_VLLM=override takes the place of FLASH_ATTN. Prints one JSON line:
steps of training, and what Trunkline ran of vLLM's decode steps. --shadow has each layer compared with vLLM's kernel.
"""

import argparse
import json
import os
import pathlib
import random
import sys
import tempfile

WORDS = 4000
PROMPT_WORDS = 1500


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=4, help="of a step")
    parser.add_argument("--samples", type=int, default=8, help="of a prompt")
    parser.add_argument("--shadow", action="store_true")
    return parser.parse_args()


def write_model(folder: pathlib.Path) -> None:
    """Qwen3's architecture, small enough for a test, and a tokenizer of the words w3, w4, ..."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    vocabulary = {"<unk>": 0, "<pad>": 1, "<s>": 2} | {f"w{i}": i for i in range(3, WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    names = {"unk_token": "<unk>", "pad_token": "<pad>", "eos_token": "<s>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    config = Qwen3Config(
        vocab_size=WORDS,
        hidden_size=1024,
        intermediate_size=2048,
        num_hidden_layers=4,
        num_attention_heads=16,
        num_key_value_heads=4,
        head_dim=128,
        max_position_embeddings=4096,
        bos_token_id=2,
        eos_token_id=2,
        pad_token_id=1,
    )
    torch.manual_seed(1)
    Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


def reward_of_variety(completions: list[str], **_) -> list[float]:
    return [len(set(text.split())) / max(len(text.split()), 1) for text in completions]


def main() -> int:
    options = arguments()
    os.environ |= {"TRUNKLINE_VLLM": "override", "TRUNKLINE_VLLM_SHADOW": str(int(options.shadow))}
    import datasets
    from transformers.trainer_utils import set_seed
    from trl import GRPOConfig, GRPOTrainer

    set_seed(1)
    folder = pathlib.Path(tempfile.mkdtemp())
    write_model(folder)
    draw = random.Random(1)
    prompts = [
        " ".join(f"w{draw.randrange(3, WORDS)}" for _ in range(PROMPT_WORDS))
        for _ in range(options.prompts * options.steps)
    ]
    trainer = GRPOTrainer(
        model=str(folder),
        reward_funcs=reward_of_variety,
        train_dataset=datasets.Dataset.from_dict({"prompt": prompts}),
        args=GRPOConfig(
            output_dir=str(folder / "out"),
            per_device_train_batch_size=options.prompts * options.samples,
            num_generations=options.samples,
            max_completion_length=128,
            max_steps=options.steps,
            learning_rate=1e-4,
            bf16=True,
            use_vllm=True,
            vllm_mode="colocate",
            vllm_enable_sleep_mode=True,
            vllm_gpu_memory_utilization=0.3,
            vllm_max_model_length=PROMPT_WORDS + 256,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
        ),
    )
    trainer.train()

    from trunkline.integrations.vllm import statistics

    counted = statistics()
    logs = [{key: each[key] for key in ("loss", "reward") if key in each} for each in trainer.state.log_history]
    print(json.dumps({"steps": trainer.state.global_step, "logs": logs, "statistics": counted}))
    shared = [group["shared_steps"] for group in counted.values()]
    beyond = [group["shadow"]["beyond"] for group in counted.values() if options.shadow]
    return int(not shared or not all(shared) or any(beyond))


if __name__ == "__main__":
    sys.exit(main())
