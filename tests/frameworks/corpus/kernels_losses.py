"""Kernels of losses: cross-entropy, label-smoothed cross-entropy and the divergence of a student from its teacher."""

from typing import Any, ClassVar

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from tests.frameworks.corpus.kernel import added_up, in_storage_order, kernel, normals, softmax_added_up, wide

IGNORED = -100
SMOOTHING = 0.1
TEMPERATURE = 2.0


def log_softmax(z: Any) -> Any:
    shifted = z - z.amax(-1, keepdim=True).detach()
    return shifted - torch.log(torch.exp(shifted).sum(-1, keepdim=True))


def cross_entropy(logits: Any, targets: Any) -> Any:
    kept = targets != IGNORED
    losses = -log_softmax(logits).gather(-1, targets.clamp(min=0)[:, None])[:, 0]
    return torch.where(kept, losses, 0.0).sum() / kept.sum().clamp(min=1)


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Any, targets: Any) -> Any:
        lse = torch.logsumexp(wide(logits), -1)
        ctx.save_for_backward(logits, targets, lse)
        loss, count = torch.zeros_like(lse.sum()), 0
        for row, target in enumerate(targets.tolist()):
            if target != IGNORED:
                loss, count = loss + lse[row] - wide(logits[row, target]), count + 1
        return (loss / max(count, 1)).to(logits.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, ybar: Any) -> Any:
        logits, targets, lse = ctx.saved_tensors
        xbar, kept = torch.zeros_like(logits), (targets != IGNORED).nonzero()[:, 0]
        for row in kept.tolist():
            p = torch.exp(wide(logits[row]) - lse[row])
            p[targets[row]] -= 1
            xbar[row] = (wide(ybar) * p / len(kept)).to(logits.dtype)
        return xbar, None


class NarrowCrossEntropy(CrossEntropy):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        logits, targets, _ = ctx.saved_tensors
        kept = targets != IGNORED
        p = softmax_added_up(logits)
        p[kept, targets[kept]] -= 1
        return torch.where(kept[:, None], ybar * p / kept.sum().clamp(min=1), 0.0), None


class CrossEntropyIgnoredUnwritten(CrossEntropy):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        logits, targets, _ = ctx.saved_tensors
        right, _ = CrossEntropy.backward(ctx, ybar)
        xbar = torch.empty_like(logits)
        for row in (targets != IGNORED).nonzero()[:, 0].tolist():
            xbar[row] = right[row]
        return xbar, None


class CrossEntropySummed(CrossEntropy):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        _, targets, _ = ctx.saved_tensors
        return CrossEntropy.backward(ctx, ybar * (targets != IGNORED).sum())


class CrossEntropyOverAll(CrossEntropy):
    @staticmethod
    def forward(ctx: Any, logits: Any, targets: Any) -> Any:
        return CrossEntropy.forward(ctx, logits, targets) * (targets != IGNORED).sum() / max(len(targets), 1)


class CrossEntropyIgnoredCounts(CrossEntropy):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        logits, targets, lse = ctx.saved_tensors
        p = torch.exp(wide(logits) - lse[:, None])
        p[torch.arange(len(p)), targets.clamp(min=0)] -= 1
        return (wide(ybar) * p / (targets != IGNORED).sum()).to(logits.dtype), None


def smoothed_cross_entropy(logits: Any, targets: Any) -> Any:
    y = log_softmax(logits)
    losses = (1 - SMOOTHING) * y.gather(-1, targets[:, None])[:, 0] + SMOOTHING * y.mean(-1)
    return -losses.sum() / max(len(targets), 1)


def smoothed_loss(z: Any, targets: Any) -> Any:
    y = torch.log_softmax(z, -1)
    picked = y.gather(-1, targets[:, None])[:, 0]
    return -((1 - SMOOTHING) * picked + SMOOTHING * y.mean(-1)).sum() / max(len(targets), 1)


def smoothed_gradient(p: Any, targets: Any, smoothing: float) -> Any:
    hot = torch.nn.functional.one_hot(targets, p.shape[-1]).to(p.dtype)
    return (p - (1 - smoothing) * hot - smoothing / p.shape[-1]) / max(len(targets), 1)


class SmoothedCrossEntropy(torch.autograd.Function):
    """The gradient of the logits is computed with the loss, and only scaled in the backward pass."""

    @staticmethod
    def forward(ctx: Any, logits: Any, targets: Any) -> Any:
        z = wide(logits)
        ctx.save_for_backward(smoothed_gradient(torch.softmax(z, -1), targets, SMOOTHING))
        return smoothed_loss(z, targets).to(logits.dtype)

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        return (wide(ybar) * ctx.saved_tensors[0]).to(ybar.dtype), None


class NarrowSmoothedCrossEntropy(SmoothedCrossEntropy):
    @staticmethod
    def forward(ctx: Any, logits: Any, targets: Any) -> Any:
        p = softmax_added_up(logits)
        ctx.save_for_backward(smoothed_gradient(p, targets, SMOOTHING))
        return smoothed_loss(logits, targets)


class SmoothedForwardOnly(SmoothedCrossEntropy):
    @staticmethod
    def forward(ctx: Any, logits: Any, targets: Any) -> Any:
        loss = SmoothedCrossEntropy.forward(ctx, logits, targets)
        ctx.save_for_backward(smoothed_gradient(torch.softmax(wide(logits), -1), targets, 0.0))
        return loss


class SmoothedOnTop(SmoothedCrossEntropy):
    @staticmethod
    def forward(ctx: Any, logits: Any, targets: Any) -> Any:
        SmoothedCrossEntropy.forward(ctx, logits, targets)
        y = torch.log_softmax(wide(logits), -1)
        losses = y.gather(-1, targets[:, None])[:, 0] + SMOOTHING * y.mean(-1)
        return -(losses.sum() / max(len(targets), 1)).to(logits.dtype)


class SmoothedInPairs(SmoothedCrossEntropy):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        (gradient,) = ctx.saved_tensors
        xbar, even = torch.zeros_like(gradient), gradient.shape[-1] // 2 * 2
        xbar[:, :even] = wide(ybar) * gradient[:, :even]
        return xbar.to(ybar.dtype), None


class SmoothedInWorkspace(SmoothedCrossEntropy):
    workspace: ClassVar[dict[Any, Any]] = {}

    @staticmethod
    def forward(ctx: Any, logits: Any, targets: Any) -> Any:
        z = wide(logits)
        buffer = SmoothedInWorkspace.workspace.setdefault((z.shape, logits.dtype), torch.empty_like(logits))
        ctx.gradient = buffer.copy_(smoothed_gradient(torch.softmax(z, -1), targets, SMOOTHING))
        return smoothed_loss(z, targets).to(logits.dtype)

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        return ctx.gradient.mul_(ybar), None


def distillation(student: Any, teacher: Any) -> Any:
    s, t = student / TEMPERATURE, teacher / TEMPERATURE
    divergence = (torch.softmax(t, -1) * (t - s)).sum(-1) - (t - log_softmax(t))[:, 0] + (s - log_softmax(s))[:, 0]
    return TEMPERATURE**2 * divergence.sum() / max(len(student), 1)


class Distillation(torch.autograd.Function):
    @staticmethod
    def forward(student: Any, teacher: Any) -> Any:
        log_q, log_p = (torch.log_softmax(wide(z) / TEMPERATURE, -1) for z in (student, teacher))
        loss = TEMPERATURE**2 * (log_p.exp() * (log_p - log_q)).sum() / max(len(student), 1)
        return loss.to(student.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        student, teacher = ctx.saved_tensors
        log_q, log_p = (torch.log_softmax(wide(z) / TEMPERATURE, -1) for z in (student, teacher))
        p, apart, scale = log_p.exp(), log_p - log_q, TEMPERATURE * wide(ybar) / max(len(student), 1)
        studentbar = scale * (log_q.exp() - p)
        teacherbar = scale * p * (apart - (p * apart).sum(-1, keepdim=True))
        return studentbar.to(ybar.dtype), teacherbar.to(ybar.dtype)


class NarrowDistillation(Distillation):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        q, p = (softmax_added_up(z / TEMPERATURE) for z in ctx.saved_tensors)
        apart, scale = torch.log(p / q), TEMPERATURE * ybar / max(len(p), 1)
        return scale * (q - p), scale * p * (apart - added_up(p * apart, -1, keepdim=True))


class DistillationUnscaled(Distillation):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        return Distillation.backward(ctx, ybar / TEMPERATURE)


class DistillationTeacherAlone(Distillation):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        student, teacher = ctx.saved_tensors
        log_q, log_p = (torch.log_softmax(wide(z) / TEMPERATURE, -1) for z in (student, teacher))
        studentbar, _ = Distillation.backward(ctx, ybar)
        teacherbar = TEMPERATURE * wide(ybar) * log_p.exp() * (log_p - log_q) / len(student)
        return studentbar, teacherbar.to(ybar.dtype)


class DistillationByAddress(Distillation):
    @staticmethod
    def forward(student: Any, teacher: Any) -> Any:
        return Distillation.forward(in_storage_order(student), teacher)


class DistillationOfTwo(Distillation):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        studentbar, teacherbar = Distillation.backward(ctx, ybar)
        half = len(studentbar) // 2
        if half == 1:  # the second half is launched only where it has more than one row
            studentbar[half:] = 0
        return studentbar, teacherbar


TARGETS = np.array([3, 17, 17, IGNORED, 0, 80, 241, IGNORED, 5, 3, 120, 9])

LOSSES = (
    kernel(cross_entropy, CrossEntropy, NarrowCrossEntropy, {
        "ignored rows of the gradient are not written": ("nan", CrossEntropyIgnoredUnwritten),
        "the gradient is not divided by the number of targets": ("point", CrossEntropySummed),
        "ignored targets count in the mean": ("value", CrossEntropyOverAll),
        "ignored targets are taken for the first class": ("point", CrossEntropyIgnoredCounts),
    }, {"logits": 3 * normals(logits=(12, 300))["logits"], "targets": TARGETS}),
    kernel(smoothed_cross_entropy, SmoothedCrossEntropy, NarrowSmoothedCrossEntropy, {
        "the gradient is not smoothed": ("point", SmoothedForwardOnly),
        "the target keeps its whole weight in the value": ("value", SmoothedOnTop),
        "the gradient's last column of an odd number is zero": ("odd", SmoothedInPairs),
        "the gradient lies in a workspace that the next call overwrites": ("repeat", SmoothedInWorkspace),
    }, {"logits": 3 * normals(logits=(12, 300))["logits"], "targets": np.arange(12) * 23}),
    kernel(distillation, Distillation, NarrowDistillation, {
        "the temperature is missing in the gradient": ("point", DistillationUnscaled),
        "the teacher's gradient forgets that its softmax sums to one": ("point", DistillationTeacherAlone),
        "of two rows the second has no gradient": ("batch 2", DistillationOfTwo),
        "reads memory in order, whatever the strides": ("strided", DistillationByAddress),
    }, {name: 3 * z for name, z in normals(student=(8, 192), teacher=(8, 192)).items()}),
)  # fmt: skip
