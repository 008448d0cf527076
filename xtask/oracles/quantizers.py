"""Makes small checkpoints with the published tools that quantize, and the values that they read from them.

Needs torch 1.13 or later and the packages of `cargo xtask oracles`. `quantizers.py TOOL FOLDER` makes a folder
for each case: a model and its config.json, and `f32.safetensors`, `f16.safetensors` or `bf16.safetensors` with
the values that the tool decodes to that type. It prints the names of the cases.
"""

import ctypes
import importlib.abc
import importlib.machinery
import json
import os
import struct
import sys
import types
from unittest.mock import MagicMock

import torch


def whole(*names):
    """Lets the modules of packages be imported without running the packages' `__init__.py` files."""
    for name in names:
        module = types.ModuleType(name)
        found = [os.path.join(path, *name.split(".")) for path in sys.path]
        module.__path__ = [path for path in found if os.path.isdir(path)]
        sys.modules[name] = module


def nothing(*names):
    """Replaces modules that are imported, but not needed for what is called here, by mocks."""
    for name in names:
        sys.modules[name] = MagicMock(__path__=[], __spec__=None)


class Nothing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Does the same for packages and all modules in them."""

    def __init__(self, *packages):
        self.packages = packages

    def find_spec(self, name, *_):
        is_one = name.split(".")[0] in self.packages
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_one else None

    def create_module(self, spec):
        return MagicMock(__path__=[])

    def exec_module(self, module):
        pass


def as_it_is(function=None, **_):
    return function if function else as_it_is


def add(module, **names):
    """Adds names that an old torch lacks."""
    for name, value in names.items():
        if not hasattr(module, name):
            setattr(module, name, value)


def take(tensor, places, taken=torch.Tensor.__getitem__):
    def long(places):
        return places.long() if isinstance(places, torch.Tensor) and places.dtype == torch.int32 else places

    return taken(tensor, tuple(map(long, places)) if isinstance(places, tuple) else long(places))


# An old torch takes only 64-bit integers as indices.
torch.Tensor.__getitem__ = take
# An 8-bit float type is replaced by f32, which can hold all of its values.
add(torch, compile=as_it_is, float8_e4m3fn=torch.float32, float8_e4m3fnuz=torch.float32)
add(torch, float8_e5m2=torch.float32, float8_e5m2fnuz=torch.float32, float8_e8m0fnu=torch.float32)
add(torch, uint16=torch.int32, uint32=torch.int64, uint64=torch.int64)

TYPES = {
    torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int8: "I8", torch.uint8: "U8", torch.int32: "I32", torch.int64: "I64",
}  # fmt: skip


class E4M3:
    """A tensor of 8-bit floats: its codes, and their values."""

    def __init__(self, values):
        codes = torch.arange(127, dtype=torch.int32)
        exponent, fraction = codes >> 3, (codes & 7).float()
        normal = (1 + fraction / 8) * 2.0 ** (exponent.float() - 7)
        table = torch.where(exponent > 0, normal, fraction / 8 * 2.0**-6)
        near = (values.reshape(-1, 1).abs() - table).abs().argmin(dim=1)
        self.codes = near.to(torch.uint8).reshape(values.shape)
        self.values = table[near].reshape(values.shape)


def save(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        is_small = isinstance(tensor, E4M3)
        dtype = "F8_E4M3" if is_small else TYPES[tensor.dtype]
        tensor = (tensor.codes if is_small else tensor).detach().contiguous()
        held = bytes(ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()))
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(held)]}
        data += held
    header = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data)


def case(name, stored, config, **values):
    """Writes a case: the tensors of the checkpoint, and what the tool decodes, by the type that it decodes to."""
    folder = os.path.join(sys.argv[2], name)
    os.makedirs(folder)
    save(os.path.join(folder, "model.safetensors"), {**stored, "norm": torch.ones(3)})
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({"model_type": "test", "quantization_config": config}, file)
    for dtype, tensors in values.items():
        save(os.path.join(folder, dtype + ".safetensors"), tensors)
    print(name)


def noise(*shape):
    return torch.randn(*shape) * 0.05


def gptq():
    whole("auto_gptq", "auto_gptq.nn_modules", "auto_gptq.nn_modules.qlinear")
    nothing("transformers")
    sys.modules["transformers"].pytorch_utils.Conv1D = type("Conv1D", (), {})
    linear = importlib.import_module("auto_gptq.nn_modules.qlinear.qlinear_cuda").QuantLinear
    for bits in [2, 3, 4, 8]:
        for group, act_order in [(32, False), (32, True), (64, False), (-1, False)]:
            inputs, outputs = 128, 96
            dense = torch.nn.Linear(inputs, outputs, bias=False)
            dense.weight.data = noise(outputs, inputs)
            size = inputs if group == -1 else group
            index = torch.arange(inputs, dtype=torch.int32) // size
            if act_order:
                index = index[torch.randperm(inputs)]
            groups = inputs // size
            scales = (torch.rand(outputs, groups) * 0.02 + 0.004).half().float()
            # A zero point of 0 spoils the numbers next to it: the packer subtracts 1 and does not mask.
            zeros = torch.randint(1, 2**bits, (outputs, groups)).float()
            # The packer does not clamp the numbers either.
            limits = [(value - zeros[:, index.long()]) * scales[:, index.long()] for value in (0, 2**bits - 1)]
            dense.weight.data = torch.maximum(torch.minimum(dense.weight.data, limits[1]), limits[0])
            layer = linear(bits, size, inputs, outputs, False)
            dense.half().float()
            layer.pack(dense, scales, zeros.clone(), index)
            layer.g_idx = index
            stored = {"w." + part: getattr(layer, part) for part in ["qweight", "qzeros", "g_idx"]}
            stored["w.scales"] = layer.scales.half()
            layer.scales = layer.scales.half().float()
            # In each row, all products but one are with 0.
            decoded = layer(torch.eye(inputs)).t()
            config = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": act_order}
            case(f"{bits}-{group}-{act_order}", stored, config, f32={"w.weight": decoded})


def awq():
    whole("awq", "awq.utils", "awq.modules", "awq.modules.linear")
    nothing("awq.utils.module", "awq.utils.utils")
    sys.modules["awq.utils.module"].try_import = lambda _: (None, "")
    sys.modules["awq.utils.utils"].get_best_device = lambda: "cpu"
    linear = importlib.import_module("awq.modules.linear.gemm").WQLinear_GEMM
    packing = importlib.import_module("awq.utils.packing_utils")
    for inputs, outputs, group in [(128, 64, 128), (256, 96, 64), (64, 32, 32)]:
        dense = torch.nn.Linear(inputs, outputs, bias=False)
        scales = (torch.rand(inputs // group, outputs) * 0.02 + 0.004).half()
        zeros = torch.randint(0, 16, (inputs // group, outputs))
        numbers = torch.randint(0, 16, (outputs, inputs))
        of = torch.arange(inputs) // group
        dense.weight.data = (numbers - zeros[of].t()) * scales[of].t().float()
        layer = linear.from_linear(dense, 4, group, False, scales.float(), zeros.float())
        parts = {part: getattr(layer, part) for part in ["qweight", "qzeros", "scales"]}
        values = {
            name: {"w.weight": packing.dequantize_gemm(parts["qweight"], parts["qzeros"], parts["scales"].to(dtype), 4, group).t()}
            for name, dtype in [("f32", torch.float32), ("f16", torch.float16)]
        }
        assert torch.equal(values["f32"]["w.weight"], dense.weight.data)
        config = {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm", "zero_point": True}
        case(f"{inputs}-{outputs}-{group}", {"w." + name: part for name, part in parts.items()}, config, **values)


class Kernels:
    """The part of torch's kernel registry that bitsandbytes uses. torch has it since 2.4."""

    def __init__(self):
        self.found = {}

    def register(self, name, device):
        return lambda function: self.found.setdefault(name.split("::")[1], {}).__setitem__(device, function) or function

    def __getattr__(self, name):
        kernels = self.found[name]
        return types.SimpleNamespace(default=kernels.get("cpu") or kernels["default"])


def bitsandbytes():
    if not hasattr(torch.library, "register_kernel"):
        kernels = Kernels()
        add(torch.library, register_kernel=kernels.register, define=lambda *_: None, register_fake=lambda *_: as_it_is)
        add(torch._C, _has_xpu=False)
        add(torch, _check=lambda *_: None, compiler=MagicMock())
        add(torch.backends, cpu=types.SimpleNamespace(get_cpu_capability=lambda: "DEFAULT"))
        torch.ops.bitsandbytes = kernels
    whole("bitsandbytes", "bitsandbytes.backends")
    functional = importlib.import_module("bitsandbytes.functional")
    importlib.import_module("bitsandbytes.backends.default.ops")
    types_of = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}

    def four_bits(name, kind, rows, columns, size, nested):
        weight = noise(rows, columns)
        packed, state = functional.quantize_4bit(weight, None, None, size, nested, kind)
        stored = {"w.weight": packed}
        stored.update({"w.weight." + name: part for name, part in state.as_dict(packed=True).items()})
        values = {}
        for dtype in types_of:
            state.dtype = types_of[dtype]
            values[dtype] = {"w.weight": functional.dequantize_4bit(packed, state)}
        config = {"quant_method": "bitsandbytes", "load_in_4bit": True}
        case(f"{name}-{kind}-{rows}-{columns}-{nested}", stored, config, **values)

    every = [(kind, nested) for kind in ["nf4", "fp4"] for nested in [False, True]]
    for rows, columns, size in [(64, 96, 64), (33, 64, 128), (40, 50, 64), (520, 256, 64)]:
        for kind, nested in every:
            four_bits("torch", kind, rows, columns, size, nested)
    # The library in C, which with AVX-512 reads wrong blocks if rows are not whole blocks.
    importlib.import_module("bitsandbytes.backends.cpu.ops")
    for kind, nested in every:
        four_bits("c", kind, 520, 256, 64, nested)
    numbers, stats, _ = functional.int8_vectorwise_quant(noise(40, 130).half())
    decoded = functional.int8_vectorwise_dequant(numbers, stats)
    stored = {"w.weight": numbers, "w.SCB": stats, "w.weight_format": torch.tensor(0, dtype=torch.uint8)}
    config = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    case("int8", stored, config, f32={"w.weight": decoded})


def compressed_tensors():
    sys.meta_path.insert(0, Nothing("transformers", "huggingface_hub", "psutil", "accelerate"))
    kinds = importlib.import_module("compressed_tensors.compressors")
    quantization = importlib.import_module("compressed_tensors.quantization")

    def of(kind, name, weight, scale, parts=None, small=(), **args):
        args = quantization.QuantizationArgs(**args)
        scheme = quantization.QuantizationScheme(targets=["Linear"], weights=args)
        # An old torch cannot clamp 16-bit floats.
        module = {"weight": weight, "weight_scale": scale.float(), **(parts or {})}
        stored = kind.compress(module, scheme)
        if stored["weight_scale"].is_floating_point():
            stored["weight_scale"] = scale
        decoded = kind.decompress(stored, scheme)["weight"]
        held = {"w." + name: part for name, part in stored.items()}
        held.update({"w." + name: E4M3(stored[name]) for name in small})
        dtype = {"F32": "f32", "F16": "f16", "BF16": "bf16"}[TYPES[decoded.dtype]]
        weights = {"num_bits": args.num_bits, "group_size": args.group_size, "strategy": args.strategy, "type": args.type}
        config = {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}}
        case(f"{name}-{dtype}", held, config, **{dtype: {"w.weight": decoded}})

    types_of = [torch.float32, torch.float16, torch.bfloat16]
    for dtype in types_of:
        for strategy, scales in [("tensor", (1,)), ("channel", (48, 1))]:
            scale = (torch.rand(*scales) * 0.002 + 0.0004).to(dtype)
            of(kinds.IntQuantizationCompressor, f"int8-{strategy}", noise(48, 80), scale,
               num_bits=8, type="int", strategy=strategy, symmetric=True)  # fmt: skip
            zeros = {"weight_zero_point": torch.randint(-100, 100, scales).to(torch.int8)}
            of(kinds.IntQuantizationCompressor, f"int8-{strategy}-zeros", noise(48, 80), scale, zeros,
               num_bits=8, type="int", strategy=strategy, symmetric=False)  # fmt: skip
        for bits in [4, 8]:
            for columns, group in [(96, 32), (256, 128), (75, None)]:
                most = 2 ** (bits - 1)
                shape = (64, columns // group if group else 1)
                scale = (torch.rand(*shape) * 0.1 / most + 0.02 / most).to(dtype)
                strategy = "group" if group else "channel"
                args = {"num_bits": bits, "type": "int", "strategy": strategy, "group_size": group}
                of(kinds.PackedQuantizationCompressor, f"packed-{bits}-{columns}", noise(64, columns), scale,
                   symmetric=True, **args)  # fmt: skip
                zeros = {"weight_zero_point": torch.randint(-most, most, shape).to(torch.int8)}
                of(kinds.PackedQuantizationCompressor, f"packed-{bits}-{columns}-zeros", noise(64, columns),
                   scale, zeros, symmetric=False, **args)  # fmt: skip
    four = {"num_bits": 4, "type": "float", "symmetric": True}
    for rows, columns in [(16, 64), (48, 160)]:
        weight = noise(rows, columns)
        whole_scale = (448 * 6 / weight.abs().max()).reshape(1)
        scale = E4M3(weight.reshape(rows, -1, 16).abs().amax(dim=2) / 6 * whole_scale).values
        of(kinds.NVFP4PackedCompressor, f"nvfp4-{rows}", weight, scale, {"weight_global_scale": whole_scale},
           ["weight_scale"], strategy="tensor_group", group_size=16, **four)  # fmt: skip
        scale = 2.0 ** torch.floor(torch.log2(weight.reshape(rows, -1, 32).abs().amax(dim=2) / 6))
        of(kinds.MXFP4PackedCompressor, f"mxfp4-{rows}", weight, scale, strategy="group", group_size=32, **four)


def modelopt():
    front = "modelopt.torch.quantization"
    whole("modelopt", "modelopt.torch", front, front + ".qtensor", front + ".utils")
    nothing("torch.distributed.fsdp._fully_shard._fsdp_param", "torch.distributed.tensor", front + ".backends")
    nothing("torch.distributed.fsdp", "torch.distributed.fsdp._fully_shard", front + ".backends.utils")
    add(torch.serialization, add_safe_globals=lambda _: None)
    utils = sys.modules[front + ".utils"]
    add(utils, fsdp2_aware_weight_update=None, patch_fsdp_mp_dtypes=None, reduce_amax=None, reduce_block_amax=None)
    # No padding is needed: the blocks are whole.
    add(utils, reduce_block_padding=lambda weight, **_: weight)
    tensor = importlib.import_module(front + ".qtensor.nvfp4_tensor").NVFP4QTensor
    for rows, columns in [(16, 64), (48, 160)]:
        weight = noise(rows, columns)
        double = weight.abs().max() / (448 * 6)
        scale = E4M3(weight.reshape(rows, -1, 16).abs().amax(dim=2) / 6 / double)
        packed, _, _ = tensor.quantize(weight.clone(), 16, scale.values, double)
        types_of = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
        values = {
            name: {"w.weight": packed.dequantize(dtype, scale=scale.values, double_scale=double, block_sizes={-1: 16})}
            for name, dtype in types_of.items()
        }
        stored = {"w.weight": packed._quantized_data, "w.weight_scale": scale, "w.weight_scale_2": double}
        case(f"{rows}", stored, {"quant_method": "modelopt", "quant_algo": "NVFP4"}, **values)


def transformers():
    whole("transformers", "transformers.integrations")
    nothing("transformers.utils", "transformers.quantizers", "transformers.quantizers.quantizers_utils")
    nothing("transformers.core_model_loading", "transformers.integrations.hub_kernels")
    sys.modules["transformers.core_model_loading"].ConversionOps = object
    decode = importlib.import_module("transformers.integrations.mxfp4").convert_moe_packed_tensors
    for experts, rows, groups in [(2, 6, 3), (3, 64, 5)]:
        blocks = torch.randint(0, 256, (experts, rows, groups, 16), dtype=torch.uint8)
        scales = torch.randint(90, 140, (experts, rows, groups), dtype=torch.uint8)
        stored = {"w_blocks": blocks, "w_scales": scales}
        values = {
            name: {"w": decode(blocks, scales, dtype=dtype)}
            for name, dtype in [("f32", torch.float32), ("bf16", torch.bfloat16)]
        }
        case(f"{experts}-{rows}", stored, {"quant_method": "mxfp4"}, **values)


if __name__ == "__main__":
    torch.manual_seed(7)
    tools = [gptq, awq, bitsandbytes, compressed_tensors, modelopt, transformers]
    {tool.__name__: tool for tool in tools}[sys.argv[1]]()
