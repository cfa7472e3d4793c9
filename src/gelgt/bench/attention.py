"""`gelgt bench attention`: what the Gaussian bias costs, beside flash attention without a bias in
the same run.

    fused          gelgt's kernels: the bias is computed where it is needed
    flash          PyTorch's flash attention, no bias at all: what `fused` is compared with
    materialised   the bias of all pairs written to memory, then PyTorch's attention with it as its
                   mask (the paper's way)
    reference      the formula as it is written
    flex           FlexAttention with learned μ, σ, W and b; hundreds of times slower, so only if
                   asked for

Forward and backward, four heads of 128 and four Gaussians in bf16. A time is the median over CUDA
events around whole calls, what the host does between launches included; `graph_ms` is the same as a
replayed CUDA graph, the device alone. Errors are ‖found - exact‖ / ‖exact‖ against float64 over one
subgraph. On a CPU everything is tiny and shows that it runs; no figure of speed is meant.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from gelgt.bench.machine import machine
from gelgt.config import GelGTConfig
from gelgt.nn.attention import mask_bias, reference_attention, sdpa_attention
from gelgt.nn.bias import GaussianBias
from gelgt.nn.kernels import FAR, why_not

ROWS = (300, 3_000, 30_000)
BATCHES = {300: 64, 3_000: 16, 30_000: 2}
MOST_EXACT = 3_000  # rows; float64 over all pairs of more does not fit
PARTS = ("out", "q", "k", "v", "mu", "sigma", "weight", "shift")
Say = Callable[[str], None]


def bench_attention(
    rows: tuple[int, ...] = ROWS,
    flex: bool = False,
    *,
    repeats: int = 50,
    progress: Say | None = None,
    device: str | None = None,
) -> dict[str, Any]:
    """Measure the backends of attention.

    Args:
        rows: Of a subgraph; on a CPU all become 40.
        flex: Whether FlexAttention is measured too (minutes at 30,000 rows).
        repeats: Of which the median counts.
        device: ``cuda`` if there is one, else ``cpu``.

    Returns:
        ``machine``, ``results``, ``ratios`` (times of flash).
    """
    say = progress or (lambda line: None)
    on = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    is_cuda = on.type == "cuda"
    if not is_cuda:
        say("no CUDA device: tiny sizes that show that it runs; no figure of speed is meant")
    results: list[dict[str, Any]] = []
    for count in rows if is_cuda else (40,):
        for name in ("flash", "fused", "materialised", "reference", *(("flex",) if flex else ())):
            reason = why_not(on, torch.bfloat16, 128, 4) if name == "fused" else None
            if reason is not None:
                say(f"fused is left out: {reason}")
                continue
            say(f"{name}: {count:,} rows")
            results.append(_measure(name, count, on, repeats if is_cuda else 3))
    found = machine()
    if is_cuda:
        found |= {"gpu": torch.cuda.get_device_name(on)}
    return {"machine": found, "results": results, "ratios": _ratios(results)}


@dataclass
class Case:
    """Subgraphs of equal length with their bias; `leaves` are qkv (B, N, 3, H, D) and the bias's
    parameters."""

    leaves: list[Tensor]
    age: Tensor
    known: Tensor
    d_out: Tensor  # (B, N, H, D)
    bias: GaussianBias

    @classmethod
    def of(cls, seeds: int, rows: int, on: torch.device, dtype: torch.dtype) -> "Case":
        config = GelGTConfig(width=512, heads=4, kernels=4, kernel="published")
        draw = torch.Generator(on).manual_seed(0)
        bias = GaussianBias(config).to(on)
        bias.start(
            100 + 600 * torch.rand(4, device=on, generator=draw),
            50 + 100 * torch.rand(4, device=on, generator=draw),
        )
        torch.nn.init.normal_(bias.mix.weight, generator=draw)
        qkv = (
            torch.randn(seeds, rows, 3, 4, 128, device=on, generator=draw)
            .to(dtype)
            .requires_grad_()
        )
        age, known = (
            1000 * torch.rand(seeds, rows, device=on, generator=draw),
            torch.rand(seeds, rows, device=on, generator=draw) < 0.9,
        )
        d_out = torch.randn(seeds, rows, 4, 128, device=on, generator=draw).to(dtype)
        return cls(
            [qkv, bias.centre, bias.width, bias.mix.weight, bias.mix.bias], age, known, d_out, bias
        )

    def step(self, name: str) -> Callable[[], Tensor]:
        """Forward and backward by a backend; each gets q, k and v in the layout that it likes."""
        attend = _ATTEND[name](self)
        like = attend()

        def run() -> Tensor:
            for leaf in self.leaves:
                leaf.grad = None
            out = attend()
            out.backward(d_out)  # type: ignore[no-untyped-call]
            return out

        d_out = (
            self.d_out
            if like.shape == self.d_out.shape
            else self.d_out.transpose(1, 2).contiguous()
        )
        return run


def _fused(case: Case) -> Callable[[], Tensor]:
    from gelgt.nn.kernels.op import gaussian_attention

    rows = case.age.shape[1]
    time, lengths = (
        torch.where(case.known, case.age, FAR),
        torch.full(case.age.shape[:1], rows, device=case.age.device),
    )
    qkv, *kernels = case.leaves
    mu, sigma, mix, shift = kernels
    return lambda: gaussian_attention(qkv, time, lengths, rows, (mu, sigma, mix, shift))


def _apart(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v (B, H, N, D) as leaves of their own, in the place of qkv."""
    q, k, v = (
        part.contiguous().requires_grad_()
        for part in case.leaves[0].detach().permute(2, 0, 3, 1, 4)
    )
    case.leaves[:1] = [q, k, v]
    return q, k, v


def _flash(case: Case) -> Callable[[], Tensor]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = _apart(case)
    if not q.is_cuda:
        return lambda: functional.scaled_dot_product_attention(q, k, v)

    def attend() -> Tensor:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return functional.scaled_dot_product_attention(q, k, v)

    return attend


def _by_tensor(backend: Callable[..., Tensor]) -> Callable[[Case], Callable[[], Tensor]]:
    def prepare(case: Case) -> Callable[[], Tensor]:
        q, k, v = _apart(case)
        mask = torch.ones_like(case.known)
        return lambda: backend(
            q, k, v, mask_bias(case.bias(case.age, case.known), mask, q.dtype), 0.0
        )

    return prepare


def _flex(case: Case) -> Callable[[], Tensor]:
    from torch.nn.attention.flex_attention import flex_attention

    q, k, v = _apart(case)
    mu, sigma, mix, shift = case.leaves[3:]
    age, known = case.age, case.known.float()
    attend = torch.compile(flex_attention)

    def score(value: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        apart = (age[b, i] - age[b, j]).abs()
        bias = shift[h]
        for g in range(4):
            bias = bias + mix[h, g] * torch.exp(-(((apart - mu[g]) / sigma[g]) ** 2))
        return value + known[b, i] * known[b, j] * bias

    return lambda: attend(q, k, v, score_mod=score)


_ATTEND: dict[str, Callable[[Case], Callable[[], Tensor]]] = {
    "fused": _fused,
    "flash": _flash,
    "materialised": _by_tensor(sdpa_attention),
    "reference": _by_tensor(reference_attention),
    "flex": _flex,
}


def _measure(name: str, rows: int, on: torch.device, repeats: int) -> dict[str, Any]:
    """Time, memory and error of a backend; what does not fit is reported as such."""
    is_cuda = on.type == "cuda"
    seeds = BATCHES.get(rows, max(1, 60_000 // rows)) if is_cuda else 2
    result: dict[str, Any] = {"backend": name, "rows": rows, "batch": seeds}
    try:
        run = Case.of(seeds, rows, on, torch.bfloat16 if is_cuda else torch.float32).step(name)
        result |= _times(run, repeats) if is_cuda else _cpu_time(run, repeats)
        del run
        if name != "flash" and rows <= MOST_EXACT:
            result |= {f"error_{part}": error for part, error in _errors(name, rows, on)}
    except torch.OutOfMemoryError:
        result["ms"] = "out of memory"
    if is_cuda:
        torch.cuda.empty_cache()
    return result


def _cpu_time(run: Callable[[], Tensor], repeats: int) -> dict[str, Any]:
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        taken.append(1e3 * (time.perf_counter() - start))
    return {"ms": round(statistics.median(taken), 2)}


def _times(run: Callable[[], Tensor], repeats: int) -> dict[str, Any]:
    """Milliseconds of a call and of its graph, and GiB at the peak, what goes in and comes out
    included."""
    run()
    repeats = max(3, min(repeats, int(2_000 / _median(run, 1))))  # two seconds are enough
    torch.cuda.reset_peak_memory_stats()
    run()
    peak = torch.cuda.max_memory_allocated() / 2**30
    return {
        "ms": _median(run, repeats),
        "graph_ms": _graph_time(run, repeats),
        "peak_gib": round(peak, 3),
    }


def _median(run: Callable[[], Any], repeats: int) -> float:
    events: list[tuple[Any, Any]] = []
    for _ in range(repeats + 3):  # the first three warm up
        pair = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        pair[0].record()
        run()
        pair[1].record()
        events.append(pair)
    torch.cuda.synchronize()
    return round(float(statistics.median(start.elapsed_time(end) for start, end in events[3:])), 4)


def _graph_time(run: Callable[[], Tensor], repeats: int) -> float | None:
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            run()
    except RuntimeError:  # what cannot be captured has no such time
        return None
    return _median(graph.replay, repeats)


def _errors(name: str, rows: int, on: torch.device) -> Iterator[tuple[str, float]]:
    """Of the values and of every gradient, over one subgraph."""
    case = Case.of(1, rows, on, torch.bfloat16 if on.type == "cuda" else torch.float32)
    expected = _exact(case)
    out = case.step(name)()
    out = out if out.shape == case.d_out.shape else out.transpose(1, 2)
    grads = [leaf.grad for leaf in case.leaves]
    if len(grads) == 5 and grads[0] is not None:
        grads[:1] = [part.transpose(1, 2) for part in grads[0].unbind(2)]
    for part, found, exact in zip(PARTS, [out, *grads], expected, strict=True):
        assert found is not None
        yield part, float(f"{float((found.detach().double() - exact).norm() / exact.norm()):.2g}")


def _exact(case: Case) -> list[Tensor]:
    """Values and gradients of the written formula in float64."""
    qkv, mu, sigma, mix, shift = (leaf.detach().double().requires_grad_() for leaf in case.leaves)
    q, k, v = (part.detach().requires_grad_() for part in qkv.detach().permute(2, 0, 3, 1, 4))
    apart = (case.age[:, :, None] - case.age[:, None, :]).abs().double()
    known = (case.known[:, :, None] & case.known[:, None, :]).double()
    scale = sigma.abs() + 1e-6
    bias = (
        sum(
            mix[:, g, None, None] * torch.exp(-(((apart - mu[g]) / scale[g]) ** 2))[:, None]
            for g in range(4)
        )
        + shift[:, None, None]
    )
    weights = torch.softmax(
        q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + known[:, None] * bias, dim=-1
    )
    out = (weights @ v).transpose(1, 2)
    leaves = [q, k, v, mu, sigma, mix, shift]
    return [out.detach(), *torch.autograd.grad(out, leaves, case.d_out.double())]


def _ratios(results: list[dict[str, Any]]) -> dict[str, float]:
    """Time and memory over those of flash, and the materialised bias's time over ours."""
    found = {(entry["backend"], entry["rows"]): entry for entry in results}
    ratios = {}
    for (name, rows), entry in found.items():
        flash = found.get(("flash", rows))
        if name != "flash" and flash is not None:
            for key in ("ms", "graph_ms", "peak_gib"):
                if isinstance(entry.get(key), float) and isinstance(flash.get(key), float):
                    ratios[f"{name}_{key}_vs_flash_{rows}"] = round(entry[key] / flash[key], 2)
    for (name, rows), entry in found.items():
        other = found.get(("materialised", rows), {})
        if name == "fused" and isinstance(other.get("ms"), float):
            ratios[f"materialised_ms_vs_fused_{rows}"] = round(other["ms"] / entry["ms"], 2)
    return ratios
