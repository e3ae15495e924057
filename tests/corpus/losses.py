"""Loss functions of machine learning."""

import numpy as np
from scipy.special import expit, log_softmax, logsumexp, xlogy

EPSILON = 1e-7
rng = np.random.default_rng(0)


def focal_loss(logits, targets, gamma=2.0, alpha=0.25):
    """Binary focal loss, averaged."""
    p = 1.0 / (1.0 + np.exp(-logits))
    p = np.clip(p, EPSILON, 1.0 - EPSILON)
    pt = np.where(targets == 1, p, 1 - p)
    weight = np.where(targets == 1, alpha, 1 - alpha)
    return np.mean(-weight * (1 - pt) ** gamma * np.log(pt))


def huber_loss(prediction, target, delta=1.0):
    """Quadratic near zero, linear beyond delta."""
    r = prediction - target
    quadratic = np.minimum(np.abs(r), delta)
    linear = np.abs(r) - quadratic
    return (0.5 * quadratic**2 + delta * linear).sum()


def huber_where(prediction, target, delta=1.0):
    """The same, as another hand writes it."""
    r = np.abs(prediction - target)
    return np.where(r <= delta, 0.5 * r**2, delta * (r - 0.5 * delta)).mean()


def multiclass_hinge(scores, labels, margin=1.0):
    """Crammer-Singer hinge loss with fancy indexing."""
    n = scores.shape[0]
    correct = scores[np.arange(n), labels][:, None]
    margins = np.maximum(0, scores - correct + margin)
    margins[np.arange(n), labels] = 0
    return margins.sum() / n


def dice_loss(prediction, mask, smooth=1.0):
    """Soft dice over a flattened image."""
    p = expit(prediction).ravel()
    m = mask.reshape(-1)
    intersection = (p * m).sum()
    return 1 - (2.0 * intersection + smooth) / (p.sum() + m.sum() + smooth)


def triplet_loss(anchor, positive, negative, margin=0.5):
    """Euclidean triplet loss of a batch."""
    d_pos = np.linalg.norm(anchor - positive, axis=1)
    d_neg = np.linalg.norm(anchor - negative, axis=1)
    losses = [max(dp - dn + margin, 0.0) for dp, dn in zip(d_pos, d_neg, strict=True)]
    return sum(losses) / len(losses)


def nt_xent(z, temperature=0.5):
    """SimCLR's contrastive loss; row 2k and 2k + 1 are views of one image."""
    z = z / np.linalg.norm(z, axis=-1, keepdims=True)
    similarity = z @ z.T / temperature
    np.fill_diagonal(similarity, -np.inf)
    n = len(z)
    partner = np.arange(n) ^ 1
    return -np.mean(similarity[np.arange(n), partner] - logsumexp(similarity, axis=1))


def info_nce(queries, keys, tau):
    """Cross entropy of the diagonal against its row."""
    logits = np.einsum("id,jd->ij", queries, keys) / tau
    return -np.trace(log_softmax(logits, axis=1)) / len(logits)


def ctc_loss(logits, target=(1, 2, 1), blank=0):
    """Connectionist temporal classification by the forward variables."""
    log_p = log_softmax(logits, axis=1)
    extended = [blank]
    for label in target:
        extended += [label, blank]
    T, S = log_p.shape[0], len(extended)
    alpha = np.full((T, S), -np.inf)
    alpha[0, 0] = log_p[0, blank]
    alpha[0, 1] = log_p[0, extended[1]]
    for t in range(1, T):
        for s in range(max(0, S - 2 * (T - t)), min(S, 2 * t + 2)):
            options = [alpha[t - 1, s]]
            if s > 0:
                options.append(alpha[t - 1, s - 1])
            if s > 1 and extended[s] != blank and extended[s] != extended[s - 2]:
                options.append(alpha[t - 1, s - 2])
            options = [o for o in options if o > -np.inf]
            if options:
                alpha[t, s] = logsumexp(options) + log_p[t, extended[s]]
    return -np.logaddexp(alpha[-1, -1], alpha[-1, -2])


def kl_gaussians(q, p):
    """KL divergence of diagonal Gaussians given as dicts of mean and log variance."""
    ratio = np.exp(q["log_var"] - p["log_var"])
    shift = (p["mean"] - q["mean"]) ** 2 / np.exp(p["log_var"])
    return 0.5 * np.sum(ratio + shift - 1.0 - np.log(ratio))


NOISE = rng.standard_normal((3, 2))


def elbo(params, x):
    """Negative evidence lower bound of a tiny variational autoencoder, with frozen noise."""
    h = np.tanh(x @ params["enc"])
    mu, log_var = np.split(h, 2, axis=1)
    z = mu + np.exp(0.5 * log_var) * NOISE
    logits = z @ params["dec"] + params["b"]
    reconstruction = -np.sum(np.logaddexp(0, logits) - x * logits, axis=1)
    kl = -0.5 * np.sum(1 + log_var - mu**2 - np.exp(log_var), axis=1)
    return -(reconstruction - kl).mean()


def label_smoothing_cross_entropy(logits, labels, smoothing=0.1):
    """Cross entropy against softened one-hot targets."""
    n, k = logits.shape
    target = np.full((n, k), smoothing / (k - 1))
    target[range(n), labels] = 1.0 - smoothing
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_prob = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return -(target * log_prob).sum(1).mean()


def pinball(prediction, target, quantiles=(0.1, 0.5, 0.9)):
    """Quantile loss, one column of predictions for each quantile."""
    total = 0
    for j, q in enumerate(quantiles):
        e = target - prediction[:, j]
        total += np.maximum(q * e, (q - 1) * e).mean()
    return total


def soft_dtw(x, y, gamma=0.7):
    """Differentiable dynamic time warping of two series (Cuturi and Blondel)."""
    n, m = len(x), len(y)
    R = np.full((n + 1, m + 1), np.inf)
    R[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = (x[i - 1] - y[j - 1]) ** 2
            around = -np.array([R[i - 1, j - 1], R[i - 1, j], R[i, j - 1]]) / gamma
            biggest = np.max(around)
            R[i, j] = cost - gamma * (np.log(np.sum(np.exp(around - biggest))) + biggest)
    return R[n, m]


def wasserstein_1d(u, v, p=2):
    """Distance between two samples by sorting them."""
    return np.mean(np.abs(np.sort(u) - np.sort(v)) ** p) ** (1 / p)


def sinkhorn(x, y, reg=0.5, iterations=8):
    """Entropy-regularised optimal transport between two clouds of equal weights."""
    C = ((x[:, np.newaxis, :] - y[np.newaxis, :, :]) ** 2).sum(-1)
    K = np.exp(-C / reg)
    a, b = np.ones(len(x)) / len(x), np.ones(len(y)) / len(y)
    u, v = np.ones_like(a), np.ones_like(b)
    for _ in range(iterations):
        u = a / (K @ v)
        v = b / (K.T @ u)
    P = u[:, None] * K * v[None, :]
    return np.sum(P * C)


def giou(box_a, box_b):
    """Generalised intersection over union of boxes (x1, y1, x2, y2)."""
    ax1, ay1, ax2, ay2 = box_a
    bx1, by1, bx2, by2 = box_b
    iw = max(0, min(ax2, bx2) - max(ax1, bx1))
    ih = max(0, min(ay2, by2) - max(ay1, by1))
    inter = iw * ih
    union = (ax2 - ax1) * (ay2 - ay1) + (bx2 - bx1) * (by2 - by1) - inter
    hull = (max(ax2, bx2) - min(ax1, bx1)) * (max(ay2, by2) - min(ay1, by1))
    return 1 - inter / union + (hull - union) / hull


def binary_cross_entropy(p, y):
    """Cross entropy of probabilities, safe at targets of 0 and 1."""
    return -(xlogy(y, p) + xlogy(1 - y, 1 - p)).mean()


def ranknet(scores, relevance):
    """Pairwise ranking loss over all ordered pairs."""
    loss, pairs = 0.0, 0
    for i in range(len(scores)):
        for j in range(len(scores)):
            if relevance[i] > relevance[j]:
                loss += np.log1p(np.exp(-(scores[i] - scores[j])))
                pairs += 1
    return loss / pairs


def log_cosh(y_pred, y_true):
    """A smooth stand-in for the absolute error."""
    e = y_pred - y_true
    return np.sum(np.abs(e) + np.log1p(np.exp(-2 * np.abs(e))) - np.log(2.0))


def normal_points(*shape):
    """Random numbers for a point."""
    return rng.normal(size=shape)


POINTS = {
    focal_loss: {"logits": normal_points(6), "targets": np.array([1, 0, 0, 1, 1, 0])},
    huber_loss: {"prediction": np.array([0.3, 2.5, -1.7, 0.9]), "target": np.array([0.1, 0.2, 0.3, -0.4])},
    huber_where: {"prediction": np.array([0.3, 2.5, -1.7, 0.9]), "target": np.array([0.1, 0.2, 0.3, 0.4])},
    multiclass_hinge: {"scores": normal_points(4, 3), "labels": np.array([0, 2, 1, 1])},
    dice_loss: {"prediction": normal_points(3, 4), "mask": np.array([[0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 0]])},
    triplet_loss: {"anchor": normal_points(3, 2), "positive": normal_points(3, 2), "negative": normal_points(3, 2)},
    nt_xent: {"z": normal_points(4, 3)},
    info_nce: {"queries": normal_points(3, 2), "keys": normal_points(3, 2), "tau": 0.3},
    ctc_loss: {"logits": normal_points(6, 3)},
    kl_gaussians: {
        "q": {"mean": normal_points(3), "log_var": normal_points(3)},
        "p": {"mean": normal_points(3), "log_var": normal_points(3)},
    },
    elbo: {
        "params": {"enc": normal_points(3, 4), "dec": normal_points(2, 3), "b": normal_points(3)},
        "x": np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
    },
    label_smoothing_cross_entropy: {"logits": normal_points(3, 4), "labels": np.array([3, 0, 1])},
    pinball: {"prediction": normal_points(4, 3), "target": normal_points(4)},
    soft_dtw: {"x": normal_points(4), "y": normal_points(3)},
    wasserstein_1d: {"u": normal_points(5), "v": normal_points(5)},
    sinkhorn: {"x": normal_points(3, 2), "y": normal_points(4, 2)},
    giou: {"box_a": np.array([0.0, 0.1, 2.0, 1.9]), "box_b": np.array([0.7, 0.4, 2.6, 2.2])},
    binary_cross_entropy: {"p": np.array([0.2, 0.7, 0.9]), "y": np.array([0.0, 1.0, 0.3])},
    ranknet: {"scores": normal_points(4), "relevance": [3, 0, 1, 1]},
    log_cosh: {"y_pred": normal_points(4), "y_true": normal_points(4)},
}
