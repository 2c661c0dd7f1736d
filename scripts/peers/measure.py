"""Times a PyTorch function as the harness times a kernel: CUDA-graph replays over rotating sets of inputs."""
import functools
import math
import statistics
from dataclasses import dataclass
from typing import Callable

import torch

ROTATION = 80  # total size of all sets over the L2, at least, as in the harness
MAX_SETS = 256
SAMPLE_US = 1000.0  # a replay lasts at least this long, so that event resolution is noise
MAX_LAUNCHES = 2048
REPLAYS = 15
SLEEP_CYCLES = 200_000  # keeps the GPU busy until event and replay are queued (about 0.1 ms)


@dataclass(frozen=True)
class Input:
    """One argument: `make` allocates and fills it. Cold ones rotate; hot ones are shared by all sets."""
    make: Callable[[], torch.Tensor]
    cold: bool = False


@dataclass(frozen=True)
class Times:
    """Columns of a row; times in microseconds per launch."""
    time_us: float
    time_us_min: float
    time_us_p10: float
    time_us_p90: float
    ci_low_us: float
    ci_high_us: float
    samples: int
    launches_per_sample: int


def median_interval(values: list[float]) -> tuple[float, float]:
    """The 95 % interval of the median by order statistics; `values` is sorted."""
    n, tail, cut = len(values), 0.0, 0
    for k in range(n // 2):
        tail += math.comb(n, k) * 0.5**n
        if 2 * tail > 0.05:
            break
        cut = k + 1
    first = max(cut - 1, 0)
    return values[first], values[n - 1 - first]


@dataclass(frozen=True)
class Sets:
    """The arguments of successive launches. Where activations do not stay in the L2, outputs rotate too."""
    arguments: list[dict[str, torch.Tensor]]
    rotate_outputs: bool = False

    def __len__(self) -> int:
        return len(self.arguments)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return self.arguments[i % len(self.arguments)]


def size_of(value) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    return sum(size_of(v) for v in value)


def make_sets(run: Callable, inputs: dict[str, Input], rotated_bytes: int | None = None) -> Sets:
    """As many sets as cold memory needs. Inputs and outputs that together exceed the L2 are cold as well.

    `rotated_bytes`: what a launch touches of its memory, where that is not the cold inputs.
    """
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    first = {name: i.make() for name, i in inputs.items()}
    output = size_of(run(**first))
    activations = output
    if rotated_bytes is None:
        activations += sum(size_of(first[name]) for name, i in inputs.items() if not i.cold)
    too_large = activations > l2 / 8
    cold_names = [name for name, i in inputs.items() if i.cold or (too_large and rotated_bytes is None)]
    cold = rotated_bytes or sum(size_of(first[name]) for name in cold_names) + (output if too_large else 0)
    count = min(math.ceil(ROTATION * l2 / cold), MAX_SETS) if cold else 1
    rest = [{**first, **{name: inputs[name].make() for name in cold_names}} for _ in range(count - 1)]
    return Sets([first, *rest], too_large)


def capture(run: Callable, sets: Sets, launches: int) -> tuple[torch.cuda.CUDAGraph, list]:
    """A graph of `launches` runs, and the outputs that it writes."""
    graph = torch.cuda.CUDAGraph()
    outputs: list = [None] * (len(sets) if sets.rotate_outputs else 1)
    with torch.cuda.graph(graph):
        for i in range(launches):
            outputs[i % len(outputs)] = run(**sets[i])
    return graph, outputs


@functools.cache
def twice_the_l2() -> torch.Tensor:
    return torch.zeros(torch.cuda.get_device_properties(0).L2_cache_size * 2, dtype=torch.uint8, device="cuda")


def replay_us(graph: torch.cuda.CUDAGraph) -> float:
    twice_the_l2().max()  # evicts the data of the last replay from the L2
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(SLEEP_CYCLES)
    start.record()
    graph.replay()
    stop.record()
    stop.synchronize()
    return 1000.0 * start.elapsed_time(stop)


def measure(run: Callable, sets: Sets) -> Times:
    """Warms up (which compiles, where `run` is compiled), captures, samples."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for i in range(3):
            run(**sets[i])
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()

    limit = len(sets) if len(sets) > 1 else MAX_LAUNCHES  # no cold set twice
    launches = 1
    for _ in range(2):  # one launch alone takes longer than one of many
        graph, _ = capture(run, sets, launches)
        replay_us(graph)
        launches = min(math.ceil(SAMPLE_US / max(replay_us(graph) / launches, 0.05)), limit)
        del graph
    graph, _ = capture(run, sets, launches)
    replay_us(graph)
    samples = sorted(replay_us(graph) / launches for _ in range(REPLAYS))
    tenths = statistics.quantiles(samples, n=10, method="inclusive")  # linear between order statistics
    return Times(tenths[4], samples[0], tenths[0], tenths[8], *median_interval(samples), len(samples), launches)
