"""The ops on torch tensors. Without torch these tests skip; launches skip without a GPU."""

import os

import pytest

torch = pytest.importorskip("torch")
import warptune  # noqa: E402
from warptune import specs  # noqa: E402


@pytest.fixture
def ops(winners):
    return warptune.load(winners)


def test_every_op_is_registered_with_its_schema(ops):
    for spec in specs.ALL:
        schema = str(getattr(torch.ops.warptune, spec.name).default._schema)
        assert schema == f"warptune::{spec.name}{spec.schema}"


def test_fake_tensors_get_the_shapes_of_the_outputs(ops):
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        x, weight = torch.empty(2, 3, 64, dtype=torch.bfloat16), torch.empty(64, dtype=torch.bfloat16)
        assert ops.rms_norm(x, weight).shape == (2, 3, 64)
        y, residual = ops.add_rms_norm(x, x, weight)
        assert y.shape == residual.shape == x.shape and y.dtype == torch.bfloat16
        qkv, cache = torch.empty(5, 12, 64), torch.empty(1, 2, 256, 64)
        places = torch.empty(5, dtype=torch.int32)
        assert ops.rope_append(qkv, cache, cache.clone(), places, places, torch.empty(32)).shape == (5, 8, 64)
        ids = ops.top_k(torch.empty(4, 100), torch.empty(2, dtype=torch.int64), 8, min_p=0.1)
        assert ids.shape == (4,) and ids.dtype == torch.int32
        with pytest.raises(ValueError, match=r"'weight' has the shape \[64\]; it must be \[hidden\] with hidden = 32"):
            ops.rms_norm(torch.empty(2, 32), weight.float())


def test_torch_tensors_are_packed_to_torch_tensors(ops):
    from torch._subclasses import FakeTensorMode

    values = torch.randint(0, 16, (32, 64), dtype=torch.uint8)
    packed = warptune.pack_weights(values, torch.ones(32, 2).half(), "int4:group=32", zero_points=values[:, :2])
    assert (packed.weight.dtype, packed.scales.dtype, packed.zeros.dtype) == (torch.int8, torch.half, torch.int8)
    fp8 = warptune.pack_weights(torch.ones(32, 64).to(torch.float8_e4m3fn), torch.ones(32), "fp8")
    assert set(fp8.weight.view(torch.uint8).tolist()) == {0x38}
    with FakeTensorMode() as fake:
        there = packed.map(fake.from_tensor)
        assert ops.linear(torch.empty(3, 64).half(), there, norm_weight=torch.empty(64).half()).shape == (3, 32)


def test_a_cache_that_torch_compile_would_corrupt_is_an_error(ops):
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        qkv, caches = torch.empty(5, 12, 64), torch.empty(2, 1, 2, 256, 64)
        places = torch.empty(5, dtype=torch.int32)
        with pytest.raises(ValueError, match="rope_append: 'k_cache' is a view into a larger tensor; torch.compile"):
            ops.rope_append(qkv, caches[0], caches[1], places, places, torch.empty(32))


def test_torch_compile_takes_the_ops_without_a_graph_break(ops):
    seen = []

    def backend(graph, _):
        seen.extend(
            str(node.target).removesuffix(".default") for node in graph.graph.nodes if node.op == "call_function"
        )
        return lambda *inputs: (torch.zeros(3, 32),)

    packed = warptune.pack_weights(torch.ones(64, 32, dtype=torch.int8), torch.ones(64), "int8")

    def body(x, norm, weight):
        return ops.linear(ops.linear(ops.rms_norm(x, norm), weight), packed, swiglu=True)

    compiled = torch.compile(body, backend=backend, fullgraph=True)
    assert compiled(torch.ones(3, 64), torch.ones(64), torch.ones(32, 64)).shape == (3, 32)
    names = ["warptune.rms_norm", "warptune.linear", "warptune.linear_packed"]
    assert [name for name in seen if "warptune" in name] == names


def test_traced_calls_have_no_pdl(winners):
    loaded = warptune.load(winners, pdl=True)
    traced = warptune.torch_ops._opened[loaded._number]
    assert (loaded._pdl, traced._pdl) == (True, False)


def test_host_tensors_are_one_sentence(ops):
    with pytest.raises(ValueError, match="'x' is in the memory of the cpu; the kernels run on a GPU"):
        ops.rms_norm(torch.ones(2, 64), torch.ones(64))


@pytest.fixture
def exported():
    """Winners for this GPU: rms_norm and linear of one token, hidden 4096, bf16; linear also with int4:group=128."""
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    folder = os.environ.get("WARPTUNE_WINNERS")
    if not folder:
        pytest.skip("WARPTUNE_WINNERS names no exported folder")
    return warptune.load(folder)


def test_a_gpu_computes_what_torch_computes(exported):
    torch.manual_seed(1)
    x, norm = torch.randn(1, 4096, device="cuda").bfloat16(), torch.randn(4096, device="cuda").bfloat16()
    weight = (torch.randn(4096, 4096, device="cuda") / 64).bfloat16()

    def body(x):
        return exported.linear(exported.rms_norm(x, norm), weight)

    expected = (
        torch.nn.functional.rms_norm(x.float(), (4096,), norm.float(), 1e-5).bfloat16().float() @ weight.float().T
    )
    graph, static = torch.cuda.CUDAGraph(), torch.zeros_like(x)
    with torch.cuda.graph(graph):
        y = body(static)
    static.copy_(x)
    graph.replay()
    compiled = torch.compile(body, fullgraph=True)
    for result in (body(x), y, compiled(x)):
        assert ((result.float() - expected).norm() / expected.norm()).item() < 1e-2


def test_a_gpu_multiplies_by_quantized_weights(exported):
    torch.manual_seed(1)
    x = torch.randn(1, 4096, device="cuda").bfloat16()
    values = torch.randint(0, 16, (4096, 4096), dtype=torch.uint8, device="cuda")
    scales = (torch.rand(4096, 32, device="cuda") / 256).half()
    packed = warptune.pack_weights(values, scales, "int4:group=128")
    assert packed.weight.is_cuda
    weight = (values.float() - 8) * scales.float().repeat_interleave(128, 1)
    expected = x.float() @ weight.T
    compiled = torch.compile(lambda x: exported.linear(x, packed), fullgraph=True)
    for result in (exported.linear(x, packed), exported.linear(x, packed), compiled(x)):
        assert ((result.float() - expected).norm() / expected.norm()).item() < 1e-2
