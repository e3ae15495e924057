"""The table of aten operations against torch, by the recorder: the values and the gradient of many small functions."""

from typing import Any

import numpy as np
import pytest

import gradcli

torch = pytest.importorskip("torch", reason="torch is not installed")

from gradcli.arithmetic.ball import Ball, nearest_float64  # noqa: E402
from gradcli.errors import NotSupported  # noqa: E402
from gradcli.frameworks.torch.aten import TABLE  # noqa: E402
from gradcli.frameworks.torch.record import to_numpy  # noqa: E402
from gradcli.words import Kind  # noqa: E402
from tests.frameworks.torch.recording import Differs, checked, near, record  # noqa: E402

# fmt: off
CASES = """
torch.exp(x) + torch.log(p) * torch.sqrt(p) - torch.rsqrt(p) / p.reciprocal()
torch.sin(x) + x.cos() + x.tan() + x.sinh() + x.cosh() + x.tanh()
u.asin() + u.acos() + x.atan() + x.asinh() + (p + 1).acosh() + u.atanh()
x.expm1() + p.log1p() + p.log2() + p.log10() + x.exp2() + x.square() + x.neg() + x.abs() + x.sinc()
torch.erf(x) + torch.erfc(x) + torch.erfinv(u) + torch.special.erfcx(x) + torch.special.ndtri(h)
torch.lgamma(x) + torch.digamma(p) + torch.polygamma(2, p) + torch.polygamma(3, p) + torch.mvlgamma(p + 2, 3)
torch.special.i0(x) + torch.special.i0e(x) + torch.special.i1(x) + torch.special.i1e(x) + torch.special.entr(p)
torch.special.log_ndtr(x) + torch.special.ndtr(x) + torch.special.expit(x) + torch.special.xlog1py(x, p) + torch.xlogy(x, p)
torch.logit(h) + torch.logit(h, eps=0.2)
x + y; x + 2 * s; torch.add(x, y, alpha=3); torch.sub(x, y, alpha=0.5); 3 - x; torch.rsub(x, y, alpha=2); x * v; x / p; 2 / p
x ** 2; x ** 3; p ** -2; p ** 0.5; p ** y; 2 ** x; x ** torch.tensor(2.0); torch.float_power(p, 2); s ** 2; p ** 1.5
torch.atan2(x, y) + torch.hypot(x, y) + torch.logaddexp(x, y) + torch.logaddexp2(x, y) + torch.copysign(x, y)
torch.maximum(x, y) - torch.minimum(x, y) + torch.fmax(x, y) * torch.fmin(x, y) + torch.max(x, y)
x.clamp(-0.5, 0.5); x.clamp(min=0.1); x.clamp(max=y); torch.clamp(x, y, y + 1); x.clamp_min(0.3); x.clip(0, 1)
torch.lerp(x, y, 0.3) + torch.lerp(x, y, h) + torch.addcmul(x, y, p, value=2) + torch.addcdiv(x, y, p, value=-1)
torch.where(x > y, x, y) + torch.where(x > 0, x, 0.0) + x.masked_fill(x > 0.5, 2.0) + x.masked_fill(y > 0, s)
torch.fmod(x, 0.3) + torch.remainder(x, 0.7) + torch.remainder(x, p) + x.frac() + torch.fmod(x, p)
x.floor() * x + x.ceil() * y + x.trunc() + x.sign() * x + x.round() + x.round(decimals=1) + torch.sgn(x) * y
torch.div(x, p, rounding_mode="floor") * y + torch.div(x, p, rounding_mode="trunc") * y + (xc // 0.5) * y
torch.nan_to_num(torch.where(x > 1, torch.nan, x), nan=1.0) + torch.nan_to_num(torch.where(x > 1, -torch.inf, x), neginf=3.0)
((x > 0) & (y < 1) | ~(x == y)).double() * x + (x >= y) * y + (x.isnan() ^ (x != 0)) * 2 * x
torch.dist(x, y); torch.dist(x, y, 3); s.exp(); s.sigmoid().log(); torch.ldexp(x, torch.tensor(2)); torch.deg2rad(x) + torch.rad2deg(x)
F.relu(x) + F.silu(x) + F.mish(x) + F.gelu(x) + F.gelu(x, approximate="tanh") + F.sigmoid(x)
F.elu(x) + F.elu(x, 0.7) + F.selu(x) + F.celu(x, 2) + F.leaky_relu(x) + F.leaky_relu(x, 0.3)
F.softplus(x) + F.softplus(x, beta=2.5, threshold=1.0) + F.hardtanh(x) + F.hardtanh(x, -0.3, 0.4) + F.relu6(x * 5)
F.hardswish(x * 3) + F.logsigmoid(x) + F.softsign(x) + F.tanhshrink(x) + F.softshrink(x, 0.3) + F.hardshrink(x, 0.3) + F.threshold(x, 0.1, 2)
F.prelu(x, s); F.prelu(x, v); F.rrelu(x, 0.1, 0.3); F.glu(x); F.glu(x, 1); F.glu(b, -1)
F.softmax(x, 1); F.softmax(x, 0); F.log_softmax(x, -1); F.softmin(x, 1); F.softmax(s, 0); F.log_softmax(b, 1)
x.sum(); x.sum(0); x.sum(-1, keepdim=True); b.sum((0, -1)); s.sum(); x.mean(); b.mean((0, 2), keepdim=True); x.nansum(1)
x.prod(); x.prod(1); x.prod(0, keepdim=True); s.prod()
x.var(); x.var(1); x.var(1, unbiased=False); b.std((0, 2), correction=0.5, keepdim=True); x.std(); torch.var_mean(x, 0); torch.std_mean(b, (1, 2))
x.amax(1); x.amin((0, 1)); x.max(); x.min(1); x.max(0, keepdim=True); x.aminmax(dim=1); torch.aminmax(x); s.max(0)
x.argmax(1) * y[:, 0]; x.argmin() * x; x.any(1) * y[:, 0]; (x > 0).all() * x; (x > 0).sum(1) * y[:, 0]; torch.count_nonzero(x) * x
x.logsumexp(1); b.logsumexp((0, 2), keepdim=True); s.logsumexp(0); torch.logcumsumexp(x, 1); torch.logcumsumexp(x, 0)
x.norm(); x.norm(dim=1); x.norm(p=1); x.norm(p=3, dim=(0, 1)); x.norm(p=float("inf"), dim=0, keepdim=True); x.norm(p=-2, dim=1); s.norm()
torch.linalg.vector_norm(b, 1.5, (0, 2)); torch.linalg.norm(a); torch.linalg.norm(a, 2); torch.linalg.norm(a, "nuc"); torch.linalg.norm(a, 1)
x.cumsum(0); x.cumsum(-1); x.cumprod(1); s.cumsum(0); x.cummax(1); x.cummin(0); b.diff(dim=1)
x.sort()[0]; x.sort(0, descending=True)[0]; torch.sort(x, stable=True, dim=1)[0]; s.sort()[0]; x.msort(); x[0].argsort() * x[0]
x.topk(2)[0]; x.topk(2, dim=0, largest=False)[0]; x.kthvalue(2, 1)[0]; x.median(); x.median(1)[0]; x.mode(1)[0]; x.nanmedian(); x.quantile(0.3, 1)
x.view(4, 3); x.reshape(-1); x.flatten(); x.T; x.t(); b.permute(2, 0, 1); b.transpose(0, -1); b.mT; b.movedim(0, 2); b.swapaxes(1, 2); b.view(-1, 4)
v.expand(3, 4); v.expand(3, -1); x.unsqueeze(1); x.unsqueeze(-1).squeeze(-1); x[None].squeeze(); x[None, :, None].squeeze((0, 2)); s.expand(2, 3); s.view(1, 1)
x[0]; x[:, 1]; x[-1, -1]; x[1:, ::2]; x[..., None, 0]; b[:, 1]; x.select(1, 2); x.narrow(1, 1, 2); b[0, 1:, -2:]; x[0, 0] * x
x[i]; x[:, i]; x[i, j]; b[i[:2] // 2, :, j[:2]]; b[:, i, j[:, None]]; x[x > 0]; x[None, i]; b[..., i]; b[:, torch.tensor([True, False, True])]; x[torch.tensor(1)]
x.index_select(1, i); x.gather(1, i[None]); torch.gather(x, 0, g); torch.take(x, g); x.take_along_dim(g, 0); s.index_select(0, torch.tensor([0]))
x.scatter(0, g[:, :3], y[1:, :3]); x.scatter(1, i[:2][:, None], 1.5); x.scatter_add(0, g, y[1:]); x.scatter(0, g[:1], 0.7)
x.scatter_reduce(0, g, y[1:], "sum"); x.scatter_reduce(0, g, y[1:], "mean", include_self=False); x.scatter_reduce(0, g, y[1:], "prod")
x.scatter_reduce(0, g, y[1:], "amax"); x.scatter_reduce(1, g, y[1:], "amin", include_self=False)
x.index_add(0, i[:2], y[:2]); x.index_add(1, i, y[:, :3], alpha=2); x.index_copy(0, i[:2], y[:2]); x.index_fill(1, i, 2.0)
x.index_put((i, j), y[0, :3]); x.index_put((i, j), y[0, :3], accumulate=True); x.index_copy(1, i, y[:, 1:])
torch.cat([x, y]); torch.cat([x, y], -1); torch.stack([x, y], 1); torch.hstack([x, y]); torch.vstack([v, x]); torch.block_diag(x, y)
x.split(2, 1)[1]; x.split([1, 3], -1)[1]; x.chunk(2)[1]; x.unbind(1)[2]; b.tensor_split(2, 2)[0]; x.unsafe_chunk(2, 1)[0]
x.flip(0); x.flip((0, 1)); x.roll(1, 0); x.roll((1, -2), (0, 1)); x.roll(2); x.rot90(); x.tril(); x.triu(1); b.tril(-1)
x.diagonal(); x.diagonal(-1); b.diagonal(1, 0, 2); torch.diag_embed(x); torch.diag_embed(v, 1, 0, 1); torch.diag(v); a.trace(); a.diag()
x.clone(); x.t().contiguous(); x.repeat(2, 1, 3); x.repeat_interleave(2, 1); x.unfold(1, 2, 1); v.unfold(0, 3, 2); x.as_strided((2, 2), (4, 1), 1); x.as_strided((2, 3), (1, 4), 1); x.as_strided((2, 2), (2, 1), 3); x.as_strided((3, 2), (1, 1))
F.pad(x, (1, 2)); F.pad(x, (1, -1, 0, 2), value=3.0); F.pad(b, (1, 2), mode="reflect"); F.pad(b, (2, 1), mode="replicate"); F.pad(b, (1, 1), mode="circular")
F.pad(m, (1, 2, 0, 1), mode="reflect"); F.pad(m, (1, 2, 3, 1), mode="replicate")
x.select_scatter(v, 0, 1); x.slice_scatter(y[:, :2], 1, 1, 3); a.diagonal_scatter(v); x.masked_select(y > 0); x.masked_scatter(y > 0, y * 2)
torch.tensordot(x, y, ([1], [1])); torch.einsum("ij,kj->ik", x, y); torch.einsum("bij,j->bi", b, v); torch.kron(x, y); torch.outer(v, v); torch.meshgrid(v, v, indexing="ij")
x @ a; a @ v; v @ a; v @ v; b @ a; torch.bmm(b, b.mT); x.mm(a); a.mv(v); v.dot(v); torch.vdot(v, v); torch.linalg.multi_dot([x, a, v])
torch.addmm(y, x, a, beta=0.5, alpha=2); torch.addmv(v, a, v); torch.addr(a, v, v, alpha=3); torch.baddbmm(b[:, :, :3], b, b.mT); torch.addbmm(x[:, :3], b, b.mT)
torch.linalg.cholesky(a @ a.T + 5 * e); torch.linalg.cholesky(a @ a.T + 5 * e, upper=True); torch.cholesky_solve(x.T, torch.linalg.cholesky(a @ a.T + 5 * e))
torch.cholesky_inverse(torch.linalg.cholesky(a @ a.T + 5 * e)); torch.linalg.solve(a, v); torch.linalg.solve(a, x.T); torch.linalg.solve(a, x, left=False)
torch.linalg.solve_triangular(a, x.T, upper=True); torch.linalg.solve_triangular(a, x, upper=False, left=False, unitriangular=True)
torch.linalg.inv(a); torch.linalg.det(a); torch.linalg.slogdet(a)[1]; torch.logdet(a @ a.T + e); torch.linalg.matrix_power(a, 3); torch.linalg.matrix_exp(a)
torch.linalg.eigh(a + a.T)[0]; torch.linalg.eigh(a + a.T)[1].square(); torch.linalg.eigvalsh(a + a.T); torch.linalg.svdvals(x)
torch.linalg.svd(x, full_matrices=False)[0].abs(); torch.linalg.svd(x, full_matrices=False)[2].abs(); torch.linalg.qr(x.T)[1].abs(); torch.linalg.qr(a)[0].abs()
torch.linalg.pinv(x); torch.linalg.lstsq(x.T, v[:, None])[0]; torch.linalg.lu(a)[1:]; torch.linalg.lu_factor(a)[0]; torch.linalg.lu_solve(*torch.linalg.lu_factor(a), x.T)
torch.linalg.cross(x[:, :3], y[:, :3]); torch.cross(x, y, dim=0); torch.cdist(x, y); torch.cdist(x, y, 1.0); torch.pdist(x); F.cosine_similarity(x, y); F.pairwise_distance(x, y)
torch.linalg.cond(a); torch.linalg.householder_product(a, v); torch.linalg.vander(v); torch.linalg.tensorsolve(torch.eye(6).double().view(2, 3, 6) + b[:, :, :1], b[:, :, 0])
F.linear(x, y); F.linear(x, a, v); F.linear(v, x); F.bilinear(x, y, b.new_ones(2, 4, 4) + v, v[:2])
F.conv1d(b, k1); F.conv1d(b, k1, v[:2], stride=2, padding=1); F.conv1d(b[0], k1[:, :, :1], padding="same"); F.conv2d(m, k2, stride=(2, 1), padding=(0, 2), dilation=(1, 2))
F.conv2d(m, kg, groups=2); F.conv3d(m[:, None], k3[:, None], padding=1); F.conv_transpose1d(b, k1.transpose(0, 1)); F.conv_transpose2d(m, k2.transpose(0, 1), stride=2, padding=1, output_padding=1)
F.conv_transpose2d(m, kg, groups=2, dilation=2); F.unfold(m, 2, padding=1, stride=2); F.fold(F.unfold(m, 2), (6, 7), 2)
F.max_pool1d(b, 2); F.max_pool1d(b, 3, 1, 1); F.max_pool2d(m, 2); F.max_pool2d(m, 3, 2, 1, ceil_mode=True); F.max_pool2d(m, 2, dilation=2); F.max_pool3d(m, 2); F.max_pool2d(m, 2, return_indices=True)[0]
F.avg_pool1d(b, 2); F.avg_pool2d(m, 3, 2, 1); F.avg_pool2d(m, 2, ceil_mode=True, count_include_pad=False); F.avg_pool2d(m, 3, 2, 1, True, False); F.avg_pool3d(m, 2, divisor_override=3)
F.adaptive_avg_pool2d(m, 1); F.adaptive_avg_pool2d(m, (3, 4)); F.adaptive_avg_pool1d(b, 3); F.adaptive_max_pool2d(m, (2, 3)); F.adaptive_max_pool1d(b, 2); F.lp_pool2d(m.abs(), 3, 2)
F.layer_norm(x, (4,)); F.layer_norm(b, (3, 4), y, x, 1e-3); F.group_norm(m, 2); F.group_norm(m, 2, v, v); F.instance_norm(m); F.rms_norm(x, (4,), v); F.rms_norm(x, (4,), eps=1e-3)
F.batch_norm(m, vc, pc[0], training=False); F.batch_norm(m, None, None, v, v, training=True); F.batch_norm(x, vc, pc[0], v, v, training=False); F.local_response_norm(m, 2)
F.nll_loss(x, t); F.nll_loss(x, t, pc[0], ignore_index=1); F.nll_loss(x, t, reduction="none"); F.nll_loss(m, t2, reduction="sum"); F.cross_entropy(x, t); F.cross_entropy(x, t, label_smoothing=0.1)
F.cross_entropy(x, F.softmax(y, 1)); F.cross_entropy(m, t2, pc[0]); F.nll_loss(v, t[0]); F.nll_loss(v, t[0], reduction="none"); F.huber_loss(x, xc); F.smooth_l1_loss(x, xc); F.mse_loss(x, y); F.mse_loss(x, y, reduction="none"); F.l1_loss(x, y, reduction="sum")
F.smooth_l1_loss(x, y); F.smooth_l1_loss(x, y, beta=0.3, reduction="sum"); F.huber_loss(x, y, delta=0.4); F.binary_cross_entropy(h, hc.flip(0)); F.binary_cross_entropy(h, (x > 0).double(), pc)
F.binary_cross_entropy_with_logits(x, h, pos_weight=vc.abs()); F.kl_div(x, p, reduction="sum"); F.kl_div(x, y, log_target=True, reduction="batchmean"); F.soft_margin_loss(x, yc.sign()); F.poisson_nll_loss(x, p)
F.gaussian_nll_loss(x, y, p); F.multi_margin_loss(x, t); F.multilabel_margin_loss(x, torch.tensor([[0, 1, -1, 2], [1, -1, 0, 0], [3, 2, 1, 0]])); F.multilabel_soft_margin_loss(x, (y > 0).double())
F.triplet_margin_loss(x, y, p); F.cosine_embedding_loss(x, y, torch.tensor([1, -1, 1])); F.hinge_embedding_loss(x, y.sign()); F.margin_ranking_loss(x, y, p.sign())
F.ctc_loss(F.log_softmax(b.permute(1, 0, 2), -1), torch.tensor([[1, 2], [3, 0]]), torch.tensor([3, 2]), torch.tensor([2, 1]))
F.embedding(g, y.T); F.embedding_bag(i, x, torch.tensor([0, 2])); F.embedding_bag(i, x, torch.tensor([0, 1]), mode="sum"); F.embedding_bag(i, x, torch.tensor([0, 1]), mode="max"); F.one_hot(i) * x[:, :3]; F.embedding_bag(g[:, :3], x, mode="mean")
F.scaled_dot_product_attention(b, b * 2, b); F.scaled_dot_product_attention(b[:, None], b[:, None], b[:, None], is_causal=True)
F.scaled_dot_product_attention(b, b, b, attn_mask=torch.ones(3, 3, dtype=torch.bool).tril(), scale=0.3); F.scaled_dot_product_attention(b, b, b, attn_mask=x[:, :3])
F.interpolate(m, scale_factor=2); F.interpolate(m, (4, 5), mode="nearest-exact"); F.interpolate(m, (9, 4), mode="bilinear"); F.interpolate(m, scale_factor=1.7, mode="bilinear", align_corners=True)
F.interpolate(b, 7, mode="linear"); F.interpolate(m[:, None], (7, 3, 9), mode="trilinear"); F.interpolate(m, (9, 4), mode="bicubic"); F.interpolate(m, (9, 4), mode="area")
F.pixel_shuffle(m, 2); F.pixel_unshuffle(m[:, :, :, :6], 2); F.channel_shuffle(m, 2); F.normalize(x)
torch.fft.rfft(x).abs(); torch.fft.irfft(torch.fft.rfft(x, norm="ortho")); torch.fft.fft2(x).real; torch.fft.fftn(b, norm="forward").imag; torch.view_as_real(torch.fft.fft(x))
torch.special.chebyshev_polynomial_t(xc, 3) * x; torch.special.hermite_polynomial_h(xc, 2) * x; torch.special.bessel_j1(xc).round(decimals=6) * x
"""
# fmt: on
EACH = [case.strip() for line in CASES.strip().splitlines() for case in line.split(";")]
SHAPES = {
    "x": (3, 4), "y": (3, 4), "s": (), "v": (4,), "a": (4, 4), "b": (2, 3, 4), "m": (2, 4, 6, 7),
    "k1": (2, 3, 2), "k2": (3, 4, 2, 3), "kg": (4, 2, 2, 2), "k3": (2, 2, 3, 2),
}  # fmt: skip


def namespace() -> dict[str, Any]:
    """Return what a case may name: tensors of several shapes, of positive numbers, of numbers inside 1, of positions."""
    draw = np.random.default_rng(7)
    numbers = {name: draw.normal(size=to) for name, to in SHAPES.items()}
    numbers |= {
        "p": draw.uniform(0.5, 2.0, (3, 4)),
        "u": draw.uniform(-0.9, 0.9, (3, 4)),
        "h": draw.uniform(0.1, 0.9, (3, 4)),
    }
    found: dict[str, Any] = {name: torch.tensor(x, requires_grad=True) for name, x in numbers.items()}
    found |= {name: torch.tensor(x) for name, x in {"i": [0, 2, 1], "j": [1, 1, 3], "t": [0, 3, 1]}.items()}
    found |= {f"{name}c": torch.tensor(numbers[name]) for name in "xyvph"}  # constants
    found |= {"g": torch.tensor([[0, 2, 1, 1], [1, 0, 2, 2]]), "t2": torch.tensor(draw.integers(0, 4, (2, 6, 7)))}
    return found | {"e": torch.eye(4, dtype=torch.float64), "torch": torch, "F": torch.nn.functional}


def inputs(names: dict[str, Any]) -> list[Any]:
    """Return the tensors that a case is differentiated by."""
    return [t for t in names.values() if isinstance(t, torch.Tensor) and t.requires_grad]


@pytest.mark.parametrize("case", EACH)
def test_values_and_slopes_are_torchs(case: str) -> None:
    names = namespace()
    program = checked(lambda: eval(case, names), inputs(names))
    assert program.steps


@pytest.mark.parametrize("case", EACH[::5])
def test_rows_run_in_ball_arithmetic(case: str) -> None:
    names = namespace()
    xs = inputs(names)
    program, ys = record(lambda: eval(case, names), xs)
    with np.errstate(all="ignore"):
        found = program([Ball.lift(to_numpy(x)) for x in xs])
    for y, t in zip(found, ys, strict=True):
        assert not isinstance(y, Ball) or near(nearest_float64(y), to_numpy(t), 1e-9)


def in_place(x: Any, y: Any, s: Any) -> Any:
    z = x.clone()
    z += y
    z.mul_(2).sub_(y, alpha=0.5).clamp_(-3, 3)
    z[0] = y[1] * s
    z[1:, 2].neg_()
    z.T[0].add_(1)
    z.view(-1)[::3].neg_()
    z.masked_fill_(y > 1, 0.25)
    z.index_put_((torch.tensor([0, 1]),), y[1:], accumulate=True)
    z.diagonal().add_(y[0, 1:])
    z.scatter_add_(0, torch.tensor([[0, 2, 1, 1]]), y[:1])
    return z.unsqueeze_(0).squeeze_().t_() + x.T


def filled(x: Any, y: Any, s: Any) -> Any:
    rows = x.new_zeros(3, 4)
    rows[:, 1:] = x[:, :3]
    rows[1].copy_(y[2])
    other = torch.zeros_like(x)
    other.copy_(rows).fill_diagonal_(2.0)
    return other * y + torch.full_like(x, 2.0).fill_(0.5) * s + x.clone().zero_()


def of_a_network(x: Any, a: Any, v: Any) -> Any:
    """What equations with derivatives are solved with: a network's own slopes are part of the loss."""
    u = (torch.tanh(x @ a + v) @ a).sigmoid() @ v
    (ux,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    (uxx,) = torch.autograd.grad(ux[:, 0].sum(), x, create_graph=True)
    return (uxx[:, 0] + u * ux[:, 1] - torch.sin(x[:, 0])).square().mean()


def penalised(m: Any, k2: Any, v: Any) -> Any:
    """A penalty on the slope of a critic, by its input."""
    y = torch.nn.functional.layer_norm(torch.nn.functional.conv2d(m, k2, stride=2), (3, 3))
    y = torch.nn.functional.gelu(torch.nn.functional.avg_pool2d(y, 2)).logsumexp(1) * torch.nn.functional.softplus(v[0])
    (slope,) = torch.autograd.grad(y.sum(), m, create_graph=True)
    return (slope.square().sum((1, 2, 3)).sqrt() - 1).square().mean()


@pytest.mark.parametrize(("function", "given"), [(of_a_network, "x a v"), (penalised, "m k2 v")])
def test_functions_that_differentiate(function: Any, given: str) -> None:
    names = namespace()
    checked(lambda: function(*(names[name] for name in given.split())), inputs(names))


@pytest.mark.parametrize("function", [in_place, filled])
def test_writes_reach_every_view(function: Any) -> None:
    names = namespace()
    checked(lambda: function(names["x"], names["y"], names["s"]), inputs(names))


@pytest.mark.parametrize(
    ("training", "kind"),
    [
        (True, "encoder"),
        (False, "encoder"),
        (True, "lstm"),
        (True, "gru"),
        (True, "convolutions"),
        (False, "convolutions"),
    ],
)
def test_whole_networks(training: bool, kind: str) -> None:
    torch.manual_seed(0)
    nn = torch.nn
    made: Any = {
        "encoder": lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
        "lstm": lambda: nn.LSTM(4, 3, num_layers=2, bidirectional=True),
        "gru": lambda: nn.GRU(4, 3),
        "convolutions": lambda: nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(24, 3)),
    }[kind]()  # fmt: skip
    net = made.double().train(training)
    names = namespace()
    checked(lambda: net(names["m" if kind == "convolutions" else "b"]), [*inputs(names), *net.parameters()])


@pytest.mark.parametrize(
    ("name", "wrong", "case"),
    [
        ("tanh", lambda x: np.sin(x), "x.tanh()"),
        ("mul", lambda x, y: np.asarray(getattr(x, "primal", x)) * y, "x * y"),  # right in value, no slope by x
        ("sum", lambda x, dim=None, keepdim=False: np.sum(x), "x.sum(0)"),
        ("mm", lambda a, b: np.matmul(a, b) * (1 + 1e-10), "x @ a"),
    ],
)
def test_a_wrong_row_is_found(name: str, wrong: Any, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLE, name, wrong)
    names = namespace()
    with pytest.raises((Differs, NotSupported)):
        checked(lambda: eval(case, names), inputs(names))


def test_a_missing_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(TABLE, "tanh")
    names = namespace()
    with pytest.raises(NotSupported, match="tanh"):
        checked(lambda: names["x"].tanh(), inputs(names))


def test_a_decomposition_that_gives_another_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of torch 2.13 adds terms for the labels after the first -1."""
    monkeypatch.delitem(TABLE, "multilabel_margin_loss_forward")
    names = namespace()
    labels = torch.tensor([[0, 1, -1, 2], [1, -1, 0, 0], [3, 2, 1, 0]])
    with pytest.raises(NotSupported, match="decomposition"):
        checked(lambda: torch.nn.functional.multilabel_margin_loss(names["x"], labels), inputs(names))


SMOOTH: dict[str, tuple[Any, list[float]]] = {
    "attention": (lambda x: attention(x[:, None], x[:, None], x[:, None], is_causal=True), [0.0, 0.5, 1.0]),
    "lerp": (lambda x: torch.lerp(x, x * x, x), [0.5, 0.2]),
    "frac": (lambda x: torch.frac(x), [0.0, 0.3]),
    "xlog1py": (lambda x: torch.special.xlog1py(x, x.exp()), [0.0, 0.3]),
    "sinc": (lambda x: torch.sinc(x), [0.0, 0.3]),
    "logsumexp": (lambda x: torch.logsumexp(x, 0), [0.3, 0.3]),
    "silu": (lambda x: torch.nn.functional.silu(x) + torch.nn.functional.mish(x), [0.0, 0.3]),
}
attention = torch.nn.functional.scaled_dot_product_attention


@pytest.mark.parametrize("name", SMOOTH)
def test_no_kink_is_found_where_a_function_is_smooth(name: str) -> None:
    """Decompositions compare and branch where the function itself does not."""
    f, x = SMOOTH[name]
    report = gradcli.check(lambda x: f(x).sin().sum(), {"x": np.array(x)}, framework="torch")
    assert report.verdict == "pass", str(report)
    assert {found.kind for found in report.points[0].findings} <= {Kind.DIRECTION}


def test_every_row_is_an_operation_of_torch() -> None:
    """Also of other versions: some rows stand for operations that only some of them have."""
    known = {name.partition("::")[2].partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    known |= {name.removesuffix("_") for name in known}
    assert {name for name in TABLE if name not in known and not name.endswith("_copy")} == set()
