#!/usr/bin/env python3
"""Compares `warptune decode` with transformers at 1.1B size.

    scripts/validate_hf.py [--program build/warptune] [--dtype bf16] [--device auto] [--wisdom FILE]

Makes a TinyLlama-1.1B with random weights, saves it with transformers, computes logits and greedy tokens in fp32, then
runs `decode --check` twice: with the plans of the wisdom (or defaults) and with the naive plans. Exits with 1 if they
disagree. Needs torch, transformers, safetensors, and about 6 GB of disk and memory. fp32 GEMMs run without TF32.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from make_golden import save_golden

SHAPE = dict(vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22,
             num_attention_heads=32, num_key_value_heads=4, head_dim=64, max_position_embeddings=2048,
             rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2)


def make_model():
    """Random weights that keep activations and logits near 1, as `decode --random-weights` scales its own."""
    torch.manual_seed(1)
    config = LlamaConfig(**SHAPE)
    config._attn_implementation = "eager"
    model = LlamaForCausalLM(config).float().eval()
    branch = (2 * SHAPE["num_hidden_layers"]) ** -0.5
    for name, weight in model.named_parameters():
        if weight.dim() < 2:
            weight.data = torch.ones_like(weight)
            continue
        gain = branch if "o_proj" in name or "down_proj" in name else 1.0
        if "embed_tokens" in name:
            gain = weight.shape[1] ** 0.5
        value = gain * torch.randn(weight.shape) / weight.shape[1] ** 0.5
        weight.data = value.bfloat16().float()  # the same weights in every dtype
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/warptune")
    parser.add_argument("--device", default="auto", help="of warptune: auto, host or cuda:N")
    parser.add_argument("--dtype", default="bf16,fp16,fp32", help="dtypes to check, separated by commas")
    parser.add_argument("--wisdom", default="", help="winners to use; none: decode's own choice")
    parser.add_argument("--lengths", default="1,17,200,333", help="prompt lengths, separated by commas")
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()

    torch.backends.cuda.matmul.allow_tf32 = False
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        model = make_model().to("cuda" if torch.cuda.is_available() else "cpu")
        lengths = [int(n) for n in args.lengths.split(",")]
        save_golden(model, folder / "golden.safetensors", lengths, None, args.steps, with_cache=True)
        # Saved in bf16, which holds these weights exactly; several shards, as large checkpoints have.
        model.bfloat16().save_pretrained(folder, max_shard_size="1GB")
        del model
        torch.cuda.empty_cache()

        failed = []
        for dtype in args.dtype.split(","):
            for plans in (["--wisdom", args.wisdom] if args.wisdom else [], ["--baseline", "naive"]):
                command = [args.program, "decode", "--model", str(folder), "--device", args.device, "--dtype", dtype,
                           "--check", str(folder / "golden.safetensors"), "--csv", str(folder / "decode.csv")] + plans
                print("$", " ".join(command), flush=True)
                if subprocess.run(command).returncode != 0:
                    failed.append(" ".join([dtype] + plans))
    if failed:
        sys.exit("disagrees with transformers: " + "; ".join(failed))
    print("agrees with transformers")


if __name__ == "__main__":
    main()
