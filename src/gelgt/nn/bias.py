"""The temporal bias of attention (paper, section 3.2; docs/model.md).

    bias_h(i, j) = Σ_g W[h, g] · exp(-(Δt_ij - μ_g)² / σ_g²) + b_h        Δt_ij = |age_i - age_j| in
                                                                          days

and 0, b_h included, where either row has no time. ∂/∂μ of a kernel is 2(Δt - μ)/σ² times it; in the
lemma's form, with 2σ², it is (Δt - μ)/σ² times it. Under `kernel` = ``bounded``, μ and σ are
positive by construction and start at quantiles of the ages seen in training; W is positive too, so
that a kernel can only draw attention to its age. With the free signs of the ``published`` form a
lag can also be found by suppressing every other age, with no kernel anywhere near it; the
prediction is as good, but nobody can read the lag from it (docs/research/mechanism.md).
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from gelgt.config import AttentionConfig

BINS = (0.0, 1.0, 7.0, 30.0, 90.0, 365.0, 1095.0, 3650.0)  # days, for the time-bin comparison
WEIGHT = 0.2  # of every kernel in every head, at the start
MAX_AGES = 1_000_000  # more are thinned before their quantiles are taken


class TemporalBias(nn.Module):
    """A bias for each head from the difference of two rows' ages; (B, N) ages → (B, H, N, N)."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, age: Tensor, has_time: Tensor) -> Tensor:
        difference = (age[:, :, None] - age[:, None, :]).abs()  # (B, N, N)
        has_both = has_time[:, :, None] & has_time[:, None, :]
        return torch.where(has_both[:, None], self.scores(difference), 0.0)

    def scores(self, difference: Tensor) -> Tensor:
        """(B, N, N) days → (B, H, N, N)."""
        raise NotImplementedError

    # What a bias with parameters that are times replaces.
    def start_from(self, ages: Tensor) -> None:
        """Start from the ages (days) of rows seen in training."""

    def time_parameters(self) -> list[nn.Parameter]:
        """Parameters that are times: they learn at `time_rate` and do not decay."""
        return []

    def profile(self) -> list[dict[str, float | list[float]]]:
        """Each kernel as durations: centre and width in days, and its weight in each head."""
        return []


@dataclass(frozen=True)
class KernelForm:
    """How a kernel exp(-(Δt - μ)² / (factor · σ²)) is parametrised.

    Attributes:
        has_log_parameters: μ and σ are the exponentials of their parameters, so that they stay
            positive and move by factors.
        has_positive_weights: The weights of kernels in heads are positive.
        starts_at_quantiles: μ and σ start at quantiles of the ages seen in training.
        factor: 1 in the paper's equation, 2 in its lemma.
    """

    has_log_parameters: bool = True
    has_positive_weights: bool = True
    starts_at_quantiles: bool = True
    factor: float = 1.0


FORMS = {"bounded": KernelForm(), "published": KernelForm(False, False, False)}


class GaussianBias(TemporalBias):
    """Learned Gaussian kernels over time differences, mixed by a linear map to the heads.

    Args:
        config: Heads, kernels and time scale.
        form: That of `config.kernel` if None.
    """

    def __init__(self, config: AttentionConfig, form: KernelForm | None = None) -> None:
        super().__init__(config.heads)
        kernels = config.num_kernels
        self.is_log_time = config.time_scale == "log"
        form = form or FORMS[config.kernel]
        self.is_log_parameter, self.is_positive = form.has_log_parameters, form.has_positive_weights
        self.factor = form.factor
        self.centre = nn.Parameter(torch.empty(kernels))
        self.width = nn.Parameter(torch.empty(kernels))
        self.mix = nn.Linear(kernels, config.heads)
        if self.is_positive:
            nn.init.constant_(self.mix.weight, math.log(math.expm1(WEIGHT)))
            nn.init.zeros_(self.mix.bias)
        self.is_published_start = not form.starts_at_quantiles
        # The published start, as far as the paper gives it: its table of μ and σ begins at 33.3 and
        # 10, the second of four centres that are spread evenly over 0…100 days. The logarithm of 0
        # is no parameter.
        centre = torch.linspace(0.0, 100.0, kernels)
        self.start(
            centre.clamp(min=1.0) if self.is_log_parameter else centre, torch.full((kernels,), 10.0)
        )

    @torch.no_grad()
    def start(self, centre: Tensor, width: Tensor) -> None:
        """Set μ and σ, in days (log-days under the log time scale are taken from them)."""
        if self.is_log_time:
            centre, width = torch.log1p(centre), (width / (1.0 + centre)).clamp(min=1e-2)
        self.centre.copy_(centre.log() if self.is_log_parameter else centre)
        self.width.copy_(width.log() if self.is_log_parameter else width)

    def start_from(self, ages: Tensor) -> None:
        """Centres at the quantiles of the ages (days) seen in training, widths as wide as their
        spacing, unless the start is published."""
        if self.is_published_start:
            return
        finite = ages[torch.isfinite(ages) & (ages > 0)].double()
        if len(finite) == 0:
            return
        finite = finite[:: max(1, len(finite) // MAX_AGES)]
        kernels = len(self.centre)
        middles = (torch.arange(kernels, dtype=torch.float64) + 0.5) / kernels
        edges = torch.quantile(finite, torch.linspace(0, 1, kernels + 1, dtype=torch.float64))
        centre = torch.quantile(finite, middles).clamp(min=1e-3)
        width = torch.maximum((edges[1:] - edges[:-1]) / 2, centre * 0.1)
        self.start(centre.float(), width.float())

    def time_parameters(self) -> list[nn.Parameter]:
        return [self.centre, self.width]

    @property
    def mu(self) -> Tensor:
        """(G,) centres, in the unit of the time scale."""
        return self.centre.exp() if self.is_log_parameter else self.centre

    @property
    def sigma(self) -> Tensor:
        """(G,) widths; never zero, whatever the parameter."""
        return self.width.exp() if self.is_log_parameter else self.width.abs() + 1e-6

    @property
    def weight(self) -> Tensor:
        """(H, G) W."""
        return functional.softplus(self.mix.weight) if self.is_positive else self.mix.weight

    def coefficients(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """μ (G), s (G), W (H, G), b (H) of Σ_g W[h, g] · exp(-((t - μ_g) / s_g)²) + b_h, whatever
        the form and the parameters."""
        return self.mu, math.sqrt(self.factor) * self.sigma, self.weight, self.mix.bias

    def forward(self, age: Tensor, has_time: Tensor) -> Tensor:
        has_both = (has_time[:, :, None] & has_time[:, None, :]).to(self.mu.dtype)  # (B, N, N)
        return self._weighted((age[:, :, None] - age[:, None, :]).abs(), has_both)

    def scores(self, difference: Tensor) -> Tensor:
        return self._weighted(difference, torch.ones_like(difference, dtype=self.mu.dtype))

    def _weighted(self, difference: Tensor, has_both: Tensor) -> Tensor:
        time = torch.log1p(difference) if self.is_log_time else difference
        with torch.autocast(difference.device.type, enabled=False):
            flat: Tensor = _WeightedKernels.apply(
                time.to(self.mu.dtype).reshape(-1), has_both.reshape(-1), *self.coefficients()
            )  # type: ignore[no-untyped-call]
        return flat.view(self.heads, *difference.shape).transpose(0, 1)

    def kernels(self, difference: Tensor) -> Tensor:
        """(…) days → (…, G)."""
        time = torch.log1p(difference) if self.is_log_time else difference
        return torch.exp(-((time[..., None] - self.mu) ** 2) / (self.factor * self.sigma**2))

    def profile(self) -> list[dict[str, float | list[float]]]:
        mu, sigma, weight = self.mu.detach(), self.sigma.detach(), self.weight.detach()
        days, width = (
            (torch.expm1(mu), (1 + torch.expm1(mu)) * sigma) if self.is_log_time else (mu, sigma)
        )
        return [
            {
                "centre_days": float(days[g]),
                "width_days": float(width[g]),
                "weights": [float(w) for w in weight[:, g]],
            }
            for g in range(len(mu))
        ]


class _WeightedKernels(torch.autograd.Function):
    """(Σ_g W[h, g] · exp(-((t - μ_g) / s_g)²) + b_h) · has_both, with its gradients for μ, s, W and
    b written out. `has_both` is 1 where both rows of a pair have a time, and 0 elsewhere.

    By autograd every step of the formula would keep a tensor of G numbers a pair; here one is kept,
    and both sums over pairs are matrix products.
    """

    @staticmethod
    def forward(
        ctx: Any,
        time: Tensor,
        has_both: Tensor,
        mu: Tensor,
        scale: Tensor,
        weight: Tensor,
        shift: Tensor,
    ) -> Tensor:
        """(P,), (P,), (G,), (G,), (H, G), (H,) → (H, P)."""
        # (G + 1, P)
        kernels = torch.empty(len(mu) + 1, len(time), dtype=mu.dtype, device=time.device)
        _distances(time, mu, scale, kernels[:-1]).square_().neg_().exp_().mul_(has_both)
        kernels[-1] = has_both
        ctx.save_for_backward(time, kernels, mu, scale, weight)
        return torch.cat([weight, shift[:, None]], dim=1) @ kernels

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        time, kernels, mu, scale, weight = ctx.saved_tensors
        outer = gradient @ kernels.T  # (H, G + 1)
        inner = (weight.T @ gradient).mul_(kernels[:-1])  # (G, P)
        distance = _distances(time, mu, scale, torch.empty_like(inner))
        inner.mul_(distance)
        for_mu = 2 * inner.sum(1) / scale
        for_scale = 2 * inner.mul_(distance).sum(1) / scale
        return None, None, for_mu, for_scale, outer[:, :-1], outer[:, -1]


def _distances(time: Tensor, mu: Tensor, scale: Tensor, out: Tensor) -> Tensor:
    """(t - μ_g) / s_g: (P,), (G,), (G,) → (G, P)."""
    return torch.sub(time[None], mu[:, None], out=out).div_(scale[:, None])


class LinearDecayBias(TemporalBias):
    """-slope_h · Δt, slopes learned and positive: the monotone comparison of the paper."""

    def __init__(self, heads: int) -> None:
        super().__init__(heads)
        self.slope = nn.Parameter(torch.linspace(math.log(1e-3), math.log(1e-1), heads))

    def scores(self, difference: Tensor) -> Tensor:
        return -self.slope.exp()[None, :, None, None] * difference[:, None]


class TimeBinBias(TemporalBias):
    """A learned value for each head and each bin of Δt: the discretised comparison of the paper."""

    edges: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__(heads)
        self.register_buffer("edges", torch.tensor(BINS[1:]), persistent=False)
        self.table = nn.Embedding(len(BINS), heads)
        nn.init.zeros_(self.table.weight)

    def scores(self, difference: Tensor) -> Tensor:
        # (B, N, N, H)
        values: Tensor = self.table(
            torch.bucketize(difference, self.edges.to(difference.dtype), right=True)
        )
        return values.permute(0, 3, 1, 2)


def make_bias(config: AttentionConfig) -> TemporalBias | None:
    """The bias that a configuration asks for."""
    if config.bias == "none":
        return None
    if config.bias == "linear-decay":
        return LinearDecayBias(config.heads)
    return TimeBinBias(config.heads) if config.bias == "time-bins" else GaussianBias(config)
