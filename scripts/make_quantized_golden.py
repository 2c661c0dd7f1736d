#!/usr/bin/env python3
"""Makes tiny quantized LLaMA checkpoints with the libraries that make real ones, and the logits and greedy tokens that
transformers computes in fp32 from the dequantized weights.

    pip install torch transformers safetensors llmcompressor gptqmodel
    pip install --no-deps --no-build-isolation autoawq
    pip install --no-deps nvidia-modelopt && pip install omegaconf pulp rich scipy nvidia-ml-py
    scripts/make_quantized_golden.py [tests/data/quantized [NAME...]]

Each folder holds config.json and model.safetensors as the library writes them, and golden.safetensors
(make_golden.py). Activations stay in fp32, also where the config quantizes them. AutoAWQ's search for scales needs a
GPU and is left out; Fp8Quantize of transformers is called directly, as its loader asks for a GPU. The dequantizers
below are the formulas of the formats.
A second reading of each folder must give the same fp32 weights to the bit: transformers with compressed-tensors or
FineGrainedFP8Config(dequantize=True), gptqmodel's dequantize_model, AutoAWQ's dequantize_gemm, ModelOpt's
NVFP4QTensor. nvfp4, which compressed-tensors dequantizes in bf16, may differ by that rounding. The files in the tree
were made with torch 2.14.0, transformers 5.17.0, llmcompressor 0.14.0.1, compressed-tensors 0.19.0, gptqmodel 7.7.0,
autoawq 0.2.9 and nvidia-modelopt 0.47.0, on a CPU.
"""
import contextlib
import json
import os
import pathlib
import tempfile
import types

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

import make_golden

PROMPT_LENGTHS = [3, 17]
SMALL = make_golden.SHARED | dict(vocab_size=64, num_attention_heads=2, num_key_value_heads=1, head_dim=64)
ONE_LAYER = dict(num_hidden_layers=1)
WIDE = dict(hidden_size=128, intermediate_size=256, num_hidden_layers=1)


def calibration(vocab):
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(3, vocab, (64,), generator=generator) for _ in range(32)]


def tokenizer(vocab):
    """Both quantizers want one, though they are given tokens."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    words = Tokenizer(models.WordLevel({str(i): i for i in range(vocab)}, unk_token="0"))
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="0", bos_token="1", eos_token="2", pad_token="2")


# ---- Quantizers: the folder of a 16-bit checkpoint -> a folder with the quantized one ----
def gptqmodel(plain, out, **options):
    os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")  # its thread pool fails with one, the default on two cores
    from gptqmodel import GPTQModel, QuantizeConfig
    model = GPTQModel.load(str(plain), QuantizeConfig(offload_to_disk=False, **options), device="cpu",
                           dtype=torch.float16)
    model.quantize([{"input_ids": ids, "attention_mask": torch.ones_like(ids)} for ids in calibration(64)],
                   batch_size=1)
    model.save(str(out))


def autoawq(plain, out, skipped=None):
    from awq.models._config import AwqConfig
    from awq.modules.linear.gemm import WQLinear_GEMM
    from awq.quantize.quantizer import AwqQuantizer
    config = AwqConfig(zero_point=True, q_group_size=32, w_bit=4, version="GEMM", modules_to_not_convert=skipped)
    settings = types.SimpleNamespace(group_size=config.q_group_size, zero_point=True, w_bit=config.w_bit)
    model = LlamaForCausalLM.from_pretrained(plain, dtype=torch.float16)
    for name, linear in list(model.model.named_modules()):
        if not isinstance(linear, torch.nn.Linear) or any(part in name for part in skipped or []):
            continue
        linear.weight.data, scales, zeros = AwqQuantizer.pseudo_quantize_tensor(settings, linear.weight.data)
        packed = WQLinear_GEMM.from_linear(linear, config.w_bit, config.q_group_size, False,
                                           scales.t().contiguous(), zeros.t().contiguous())
        model.model.set_submodule(name, packed)
    model.config.quantization_config = config.to_transformers_dict()
    model.config.save_pretrained(out)
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, out / "model.safetensors", {"format": "pt"})


def llmcompressor(plain, out, scheme, group_size=None, ignore=(), calibrate=False):
    from compressed_tensors.quantization import preset_name_to_scheme
    from datasets import Dataset
    from llmcompressor import oneshot
    from llmcompressor.modifiers.quantization import QuantizationModifier
    preset = preset_name_to_scheme(scheme, targets=["Linear"])
    if group_size:
        preset.weights.group_size = group_size
    data = {}
    if calibrate:
        ids = calibration(64)
        data = dict(dataset=Dataset.from_dict({"input_ids": [t.tolist() for t in ids]}), processor=tokenizer(64),
                    num_calibration_samples=len(ids), max_seq_length=64)
    model = LlamaForCausalLM.from_pretrained(plain, dtype=torch.bfloat16)
    oneshot(model=model, recipe=QuantizationModifier(config_groups={"group_0": preset}, ignore=["lm_head", *ignore]),
            **data)
    model.save_pretrained(out, save_compressed=True)


def modelopt(plain, out):
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint
    model = LlamaForCausalLM.from_pretrained(plain, dtype=torch.bfloat16)
    ids = torch.stack(calibration(64))
    export_hf_checkpoint(mtq.quantize(model, mtq.NVFP4_DEFAULT_CFG, lambda m: m(ids)), export_dir=out)


def transformers_fp8(plain, out):
    from transformers import FineGrainedFP8Config
    from transformers.integrations.finegrained_fp8 import Fp8Quantize
    config = LlamaConfig.from_pretrained(plain)
    config.quantization_config = FineGrainedFP8Config(modules_to_not_convert=["lm_head"])
    quantize = Fp8Quantize(config)
    weights = {}
    for name, weight in load_file(plain / "model.safetensors").items():
        weights |= quantize.convert({name: weight}) if "_proj" in name else {name: weight}
    config.save_pretrained(out)
    save_file(weights, out / "model.safetensors", {"format": "pt"})


# ---- Dequantizers by the formulas above: the tensors of one linear -> fp32 [N, K] ----
def fields(words, bits, dim):
    """The bit fields of int32 words, lowest first, along `dim`."""
    shifts = torch.arange(0, 32, bits)
    parts = words.unsqueeze(-1) >> shifts & (1 << bits) - 1
    return (parts.flatten(1) if dim else parts.transpose(1, 2).flatten(0, 1)).float()


def e2m1(bytes_):
    """Two values per byte, the low nibble first."""
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = torch.cat([values, -values])
    return values[torch.stack([bytes_.int() & 15, bytes_.int() >> 4], -1).flatten(1)]


def dequantize_gptq(t, config):
    """(q - (z + 1)) s, checkpoint_format gptq_v2: (q - z) s; g_idx[k] is the row of z and s."""
    bits = config["bits"]
    q, zeros, group = fields(t["qweight"], bits, 0), fields(t["qzeros"], bits, 1), t["g_idx"]
    if config["checkpoint_format"] == "gptq":
        assert zeros.max() < 2**bits - 1  # z + 1 overflows there, and readers differ
        zeros += 1
    return ((q - zeros[group]) * t["scales"].float()[group]).T


def dequantize_awq(t, config):
    column = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])  # column i is in nibble column[i]
    q, zeros = (fields(t[name], 4, 1).unflatten(1, (-1, 8))[:, :, column].flatten(1) for name in ("qweight", "qzeros"))
    g = config["group_size"]
    return ((q - zeros.repeat_interleave(g, 0)) * t["scales"].float().repeat_interleave(g, 0)).T


def dequantize_compressed(t, config):
    scale = t["weight_scale"].float()
    if config["format"] == "pack-quantized":
        q = fields(t["weight_packed"], 4, 1) - 8
        zeros = fields(t["weight_zero_point"], 4, 0) - 8 if "weight_zero_point" in t else torch.zeros_like(scale)
        g = q.shape[1] // scale.shape[1]
        return (q - zeros.repeat_interleave(g, 1)) * scale.repeat_interleave(g, 1)
    if config["format"] == "nvfp4-pack-quantized":
        return e2m1(t["weight_packed"]) * (scale / t["weight_global_scale"]).repeat_interleave(16, 1)
    if config["format"] == "mxfp4-pack-quantized":
        return e2m1(t["weight_packed"]) * (2.0 ** (scale - 127)).repeat_interleave(32, 1)
    return t["weight"].float() * scale


def dequantize_modelopt(t, config):
    assert config["quant_algo"] == "NVFP4"
    return e2m1(t["weight"]) * (t["weight_scale"].float() * t["weight_scale_2"]).repeat_interleave(16, 1)


def dequantize_fp8(t, config):
    rows, columns = config["weight_block_size"]
    scale = t["weight_scale_inv"].repeat_interleave(rows, 0).repeat_interleave(columns, 1)
    return t["weight"].float() * scale[:t["weight"].shape[0], :t["weight"].shape[1]]


DEQUANTIZE = {"gptq": dequantize_gptq, "awq": dequantize_awq, "compressed-tensors": dequantize_compressed,
              "fp8": dequantize_fp8, "modelopt": dequantize_modelopt}


def dequantize(folder):
    config = json.loads((folder / "config.json").read_text())["quantization_config"]
    dense, linears = {}, {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        module, _, field = name.rpartition(".")
        linears.setdefault(module, {})[field] = tensor
    for module, tensors in linears.items():
        plain = set(tensors) == {"weight"}
        dense[module + ".weight"] = (tensors["weight"].float() if plain else
                                     DEQUANTIZE[config["quant_method"]](tensors, config).contiguous())
    return dense


# ---- The second reading ----
def read_by_library(folder, work):
    method = json.loads((folder / "config.json").read_text())["quantization_config"]["quant_method"]
    if method == "gptq":
        from gptqmodel.utils.model_dequant import dequantize_model
        dequantize_model(folder, work / "dense", target_dtype=torch.float32)
        return load_file(work / "dense" / "model.safetensors")
    if method == "awq":
        from awq.utils.packing_utils import dequantize_gemm
        dense = load_file(folder / "model.safetensors")
        for name in [n.removesuffix(".qweight") for n in dense if n.endswith(".qweight")]:
            q, z, s = (dense.pop(f"{name}.{part}") for part in ("qweight", "qzeros", "scales"))
            dense[name + ".weight"] = dequantize_gemm(q, z, s.float(), 4, 32).T
        return dense
    if method == "modelopt":
        from modelopt.torch.quantization.qtensor import NVFP4QTensor
        dense = load_file(folder / "model.safetensors")
        for name in [n.removesuffix("_scale_2") for n in dense if n.endswith(".weight_scale_2")]:
            q, s, s2 = (dense.pop(name + part) for part in ("", "_scale", "_scale_2"))
            shape = (q.shape[0], 2 * q.shape[1])
            dense[name] = NVFP4QTensor(torch.Size(shape), torch.float32, q).dequantize(
                scale=s, double_scale=s2, block_sizes={-1: 16})
        return {k: v for k, v in dense.items() if k.endswith(".weight")}
    from transformers import CompressedTensorsConfig, FineGrainedFP8Config
    config = FineGrainedFP8Config(dequantize=True) if method == "fp8" else CompressedTensorsConfig(run_compressed=False)
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, quantization_config=config)
    return {k: v for k, v in model.state_dict().items() if k.endswith(".weight")}


def check(name, folder, dense, plain, work):
    library = read_by_library(folder, work)
    assert library.keys() == dense.keys()
    tolerance = 2**-7 if name == "nvfp4" else 0
    for module, weight in library.items():
        torch.testing.assert_close(weight.float(), dense[module], rtol=tolerance, atol=0, msg=f"{name} {module}")
    original = load_file(plain / "model.safetensors")
    assert dense.keys() == original.keys()
    errors = [float((dense[k] - original[k].float()).norm() / original[k].float().norm()) for k in original]
    assert 1e-3 < max(errors) < 0.2, f"{name}: relative errors {errors}"
    return max(errors)


# name: (dtype of what is not quantized, shape, quantizer, its arguments)
CASES = {
    "gptq": (torch.float16, WIDE | dict(intermediate_size=192), gptqmodel,
             dict(bits=4, group_size=64, sym=True, desc_act=False)),
    "gptq_act_order": (torch.float16, {}, gptqmodel, dict(bits=4, group_size=32, sym=False, desc_act=True)),
    "gptq_8bit": (torch.float16, ONE_LAYER, gptqmodel,
                  dict(bits=8, group_size=64, sym=True, desc_act=False, format="gptq_v2")),
    "awq": (torch.float16, {}, autoawq, {}),
    "ct_int4": (torch.bfloat16, WIDE | dict(intermediate_size=192), llmcompressor, dict(scheme="W4A16", group_size=32)),
    "ct_int4_zero": (torch.bfloat16, {}, llmcompressor, dict(scheme="W4A16_ASYM", group_size=32)),
    "ct_int8": (torch.bfloat16, ONE_LAYER, llmcompressor, dict(scheme="W8A8")),
    "ct_fp8": (torch.bfloat16, ONE_LAYER, llmcompressor, dict(scheme="FP8_DYNAMIC")),
    "fp8_block": (torch.bfloat16, WIDE | dict(num_key_value_heads=2), transformers_fp8, {}),
    "fp8_tensor": (torch.bfloat16, ONE_LAYER, llmcompressor, dict(scheme="FP8", calibrate=True)),
    "mixed": (torch.bfloat16, {}, llmcompressor,
              dict(scheme="W4A16", group_size=32, ignore=["model.layers.1.mlp.down_proj"])),
    "nvfp4": (torch.bfloat16, {}, llmcompressor, dict(scheme="NVFP4A16")),
    "mxfp4": (torch.bfloat16, ONE_LAYER, llmcompressor, dict(scheme="MXFP4")),
    "modelopt_nvfp4": (torch.bfloat16, ONE_LAYER, modelopt, {}),
}


def make(name, folder, seed):
    dtype, shape, quantizer, options = CASES[name]
    generator = torch.Generator().manual_seed(seed)
    model = make_golden.random_model(SMALL | shape, dtype, generator)
    with tempfile.TemporaryDirectory() as work, contextlib.chdir(work):  # gptqmodel writes logs/
        plain, out = pathlib.Path("plain").resolve(), pathlib.Path("out").resolve()
        model.to(dtype).save_pretrained(plain)
        tokenizer(model.config.vocab_size).save_pretrained(plain)
        out.mkdir()
        quantizer(plain, out, **options)
        for file in ("config.json", "model.safetensors"):
            (folder / file).write_bytes((out / file).read_bytes())
        dense = dequantize(folder)
        print(f"{name}: relative error {check(name, folder, dense, plain, pathlib.Path(work)):.3f}")
    # A new model: model.to(dtype) has rounded the frequencies of RoPE.
    model = make_golden.random_model(SMALL | shape, dtype, torch.Generator())
    model.load_state_dict(dense)
    return make_golden.save_golden(model, folder / "golden.safetensors", PROMPT_LENGTHS, generator)


if __name__ == "__main__":
    make_golden.make_all("tests/data/quantized", CASES, make, most_bytes=1_500_000)
