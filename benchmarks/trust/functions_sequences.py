"""Networks over sequences and images: attention, recurrent cells, convolution by slices, embeddings."""

import numpy as np
from cases import Case, Slip

rng = np.random.default_rng(13)
TARGET = rng.normal(size=(4, 4))
SEQ = rng.normal(size=(5, 3))
STEER = rng.normal(size=(5, 3))
PAIRS = rng.normal(size=(4, 2))
GOAL = rng.normal(size=2)
TOKENS = np.array([[0, 3, 3], [5, 1, 0], [2, 2, 4], [1, 5, 3]])
CLASSES = np.array([0, 2, 1, 2])
MAP = rng.normal(size=(5, 5))
CAUSAL = np.tril(np.ones((4, 4)))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def attention(x, Wq, Wk, Wv):
    q = x @ Wq
    k = x @ Wk
    v = x @ Wv
    scores = q @ k.T / np.sqrt(q.shape[1])
    e = np.exp(scores - np.max(scores, axis=1, keepdims=True)) * CAUSAL
    weights = e / np.sum(e, axis=1, keepdims=True)
    out = x + weights @ v
    return 0.5 * np.sum((out - TARGET) ** 2)


def attention_gradient(x, Wq, Wk, Wv):
    q = x @ Wq
    k = x @ Wk
    v = x @ Wv
    scores = q @ k.T / np.sqrt(q.shape[1])
    e = np.exp(scores - np.max(scores, axis=1, keepdims=True)) * CAUSAL
    weights = e / np.sum(e, axis=1, keepdims=True)
    out = x + weights @ v
    dout = out - TARGET
    dx = dout.copy()
    dweights = dout @ v.T
    dv = weights.T @ dout
    dscores = weights * (dweights - np.sum(weights * dweights, axis=1, keepdims=True))
    dscores = dscores / np.sqrt(q.shape[1])
    dq = dscores @ k
    dk = dscores.T @ q
    dWq = x.T @ dq
    dWk = x.T @ dk
    dWv = x.T @ dv
    dx += dq @ Wq.T
    dx += dk @ Wk.T
    dx += dv @ Wv.T
    return dx, dWq, dWk, dWv


def rnn(Wx, Wh, b, h0):
    h = h0
    loss = 0.0
    for x, want in zip(SEQ, STEER, strict=True):
        a = Wx @ x + Wh @ h + b
        h = np.tanh(a)
        error = h - want
        loss += 0.5 * np.sum(error**2)
    return loss


def rnn_gradient(Wx, Wh, b, h0):
    hs = [h0]
    for x in SEQ:
        hs.append(np.tanh(Wx @ x + Wh @ hs[-1] + b))
    dWx = np.zeros_like(Wx)
    dWh = np.zeros_like(Wh)
    db = np.zeros_like(b)
    dh = np.zeros_like(h0)
    for t in reversed(range(len(SEQ))):
        dh += hs[t + 1] - STEER[t]
        da = dh * (1 - hs[t + 1] ** 2)
        dWx += np.outer(da, SEQ[t])
        dWh += np.outer(da, hs[t])
        db += da
        dh = Wh.T @ da
    return dWx, dWh, db, dh


def lstm(W, b, h0, c0):
    h, c = h0, c0
    for x in PAIRS:
        a = W @ np.concatenate([x, h]) + b
        i = sigmoid(a[:2])
        f = sigmoid(a[2:4])
        o = sigmoid(a[4:6])
        g = np.tanh(a[6:])
        c = f * c + i * g
        h = o * np.tanh(c)
    return np.sum((h - GOAL) ** 2)


def lstm_gradient(W, b, h0, c0):
    h, c, tape = h0, c0, []
    for x in PAIRS:
        joined = np.concatenate([x, h])
        a = W @ joined + b
        i, f, o, g = sigmoid(a[:2]), sigmoid(a[2:4]), sigmoid(a[4:6]), np.tanh(a[6:])
        before = c
        c = f * before + i * g
        h = o * np.tanh(c)
        tape.append((joined, i, f, o, g, before, c))
    dW, db = np.zeros_like(W), np.zeros_like(b)
    dh = 2 * (h - GOAL)
    dc = np.zeros_like(c0)
    for joined, i, f, o, g, before, after in reversed(tape):
        do = dh * np.tanh(after)
        dc += dh * o * (1 - np.tanh(after) ** 2)
        di = dc * g
        dg = dc * i
        df = dc * before
        dc = dc * f
        da = np.concatenate([di * i * (1 - i), df * f * (1 - f), do * o * (1 - o), dg * (1 - g**2)])
        dW += np.outer(da, joined)
        db += da
        dh = W[:, 2:].T @ da
    return dW, db, dh, dc


def gru(Wz, Wn, h0):
    h = h0
    for x in PAIRS:
        z = sigmoid(Wz @ np.concatenate([x, h]))
        n = np.tanh(Wn @ np.concatenate([x, z * h]))
        h = (1 - z) * n + z * h
    return np.dot(h, GOAL) + 0.1 * np.sum(h**2)


def gru_gradient(Wz, Wn, h0):
    hs, zs, ns = [h0], [], []
    for x in PAIRS:
        zs.append(sigmoid(Wz @ np.concatenate([x, hs[-1]])))
        ns.append(np.tanh(Wn @ np.concatenate([x, zs[-1] * hs[-1]])))
        hs.append((1 - zs[-1]) * ns[-1] + zs[-1] * hs[-1])
    dWz, dWn = np.zeros_like(Wz), np.zeros_like(Wn)
    dh = GOAL + 0.2 * hs[-1]
    for t in reversed(range(len(PAIRS))):
        x, h, z, n = PAIRS[t], hs[t], zs[t], ns[t]
        dn = dh * (1 - z)
        dz = dh * (h - n)
        dprev = dh * z
        dan = dn * (1 - n**2)
        dWn += np.outer(dan, np.concatenate([x, z * h]))
        dgated = Wn[:, 2:].T @ dan
        dz += dgated * h
        dprev += dgated * z
        daz = dz * z * (1 - z)
        dWz += np.outer(daz, np.concatenate([x, h]))
        dprev += Wz[:, 2:].T @ daz
        dh = dprev
    return dWz, dWn, dh


def convolution(image, kernel, bias):
    out = bias * np.ones((5, 5))
    for i in range(3):
        for j in range(3):
            out = out + kernel[i, j] * image[i : i + 5, j : j + 5]
    active = np.where(out > 0, out, 0.1 * out)
    pooled = np.mean(active, axis=0)
    return np.sum(MAP * active) + np.sum(pooled**2)


def convolution_gradient(image, kernel, bias):
    out = bias * np.ones((5, 5))
    for i in range(3):
        for j in range(3):
            out = out + kernel[i, j] * image[i : i + 5, j : j + 5]
    active = np.where(out > 0, out, 0.1 * out)
    pooled = np.mean(active, axis=0)
    dactive = MAP.copy()
    dpooled = 2 * pooled
    dactive += np.broadcast_to(dpooled, (5, 5)) / 5
    dout = np.where(out > 0, dactive, 0.1 * dactive)
    dimage = np.zeros_like(image)
    dkernel = np.zeros_like(kernel)
    for i in range(3):
        for j in range(3):
            dkernel[i, j] = np.sum(dout * image[i : i + 5, j : j + 5])
            dimage[i : i + 5, j : j + 5] += kernel[i, j] * dout
    dbias = np.sum(dout)
    return dimage, dkernel, dbias


def text_classifier(table, W):
    vectors = table[TOKENS]
    mean = np.mean(vectors, axis=1)
    hidden = np.tanh(mean)
    scores = hidden @ W
    top = np.max(scores, axis=1)
    lse = top + np.log(np.sum(np.exp(scores - top[:, None]), axis=1))
    right = scores[np.arange(len(CLASSES)), CLASSES]
    return np.mean(lse - right)


def text_classifier_gradient(table, W):
    vectors = table[TOKENS]
    mean = np.mean(vectors, axis=1)
    hidden = np.tanh(mean)
    scores = hidden @ W
    e = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    dscores = e / np.sum(e, axis=1, keepdims=True)
    dscores[np.arange(len(CLASSES)), CLASSES] -= 1
    dscores /= len(CLASSES)
    dW = hidden.T @ dscores
    dhidden = dscores @ W.T
    dmean = dhidden * (1 - hidden**2)
    dvectors = np.repeat(dmean[:, None, :], TOKENS.shape[1], axis=1) / TOKENS.shape[1]
    dtable = np.zeros_like(table)
    np.add.at(dtable, TOKENS, dvectors)
    return dtable, dW


def normal(*shape, scale=0.6):
    return scale * rng.normal(size=shape)


CASES = (
    Case("causal attention", attention, attention_gradient,
         {"x": normal(4, 4, scale=1), "Wq": normal(4, 3), "Wk": normal(4, 3), "Wv": normal(4, 4)}, (
        Slip("slip", "weights * (dweights - np.sum(weights * dweights, axis=1, keepdims=True))",
             "weights * (1 - weights) * dweights"),
        Slip("axis", "np.sum(weights * dweights, axis=1", "np.sum(weights * dweights, axis=0"),
        Slip("slip", "    dscores = dscores / np.sqrt(q.shape[1])\n", ""),
        Slip("slip", "dscores.T @ q", "dscores @ q"),
        Slip("swapped", "dq = dscores @ k", "dq = dscores @ q"),
        Slip("overwritten", "dx += dq @ Wq.T", "dx = dq @ Wq.T"),
        Slip("left-out", "    dx += dk @ Wk.T\n", ""),
        Slip("slip", "dv @ Wv.T", "dv @ Wv"),
        Slip("slip", "weights.T @ dout", "weights @ dout"),
        Slip("broadcast", "np.sum(weights * dweights", "np.mean(weights * dweights"),
    )),
    Case("RNN", rnn, rnn_gradient,
         {"Wx": normal(3, 3), "Wh": normal(3, 3), "b": normal(3), "h0": normal(3)}, (
        Slip("stale", "(1 - hs[t + 1] ** 2)", "(1 - hs[t] ** 2)"),
        Slip("stale", "np.outer(da, hs[t])", "np.outer(da, hs[t + 1])"),
        Slip("slip", "(1 - hs[t + 1] ** 2)", "(1 - hs[t + 1])"),
        Slip("overwritten", "dh += hs", "dh = hs"),
        Slip("overwritten", "dWh += ", "dWh = "),
        Slip("overwritten", "db += da", "db = da"),
        Slip("slip", "Wh.T @ da", "Wh @ da"),
        Slip("swapped", "np.outer(da, SEQ[t])", "np.outer(SEQ[t], da)"),
        Slip("left-out", "    dh = Wh.T @ da", "    dh = np.zeros_like(dh)"),
    )),
    Case("LSTM", lstm, lstm_gradient, {"W": normal(8, 4), "b": normal(8), "h0": normal(2), "c0": normal(2)}, (
        Slip("stale", "dc * before", "dc * after"),
        Slip("stale", "do = dh * np.tanh(after)", "do = dh * np.tanh(before)"),
        Slip("overwritten", "dc += dh * o", "dc = dh * o"),
        Slip("slip", "do * o * (1 - o)", "do * o"),
        Slip("swapped", "di * i * (1 - i), df * f * (1 - f)", "df * f * (1 - f), di * i * (1 - i)"),
        Slip("slip", "dg * (1 - g**2)", "dg * (1 - g)"),
        Slip("left-out", "dc += dh * o * (1 - np.tanh(after) ** 2)", "dc += dh * 0"),
        Slip("overwritten", "db += da", "db = da"),
    )),
    Case("GRU", gru, gru_gradient, {"Wz": normal(2, 4), "Wn": normal(2, 4), "h0": normal(2)}, (
        Slip("stale", "h, z, n = PAIRS[t], hs[t],", "h, z, n = PAIRS[t], hs[t + 1],"),
        Slip("swapped", "dh * (h - n)", "dh * (n - h)"),
        Slip("left-out", "        dz += dgated * h\n", ""),
        Slip("overwritten", "dprev += dgated * z", "dprev = dgated * z"),
        Slip("overwritten", "dprev += Wz", "dprev = Wz"),
        Slip("slip", "dz * z * (1 - z)", "dz * z * (1 + z)"),
        Slip("swapped", "dn = dh * (1 - z)", "dn = dh * z"),
    )),
    Case("convolution by slices", convolution, convolution_gradient,
         {"image": normal(7, 7, scale=1), "kernel": normal(3, 3), "bias": 0.2}, (
        Slip("overwritten", "dimage[i : i + 5, j : j + 5] +=", "dimage[i : i + 5, j : j + 5] ="),
        Slip("overwritten", "dactive += np", "dactive = np"),
        Slip("axis", "np.broadcast_to(dpooled, (5, 5))", "np.broadcast_to(dpooled[:, None], (5, 5))"),
        Slip("swapped", "kernel[i, j] * dout", "kernel[j, i] * dout"),
        Slip("slip", "np.where(out > 0, dactive, 0.1 * dactive)", "dactive"),
        Slip("broadcast", "(5, 5)) / 5", "(5, 5))"),
        Slip("term", "    dactive += np.broadcast_to(dpooled, (5, 5)) / 5\n", ""),
        Slip("broadcast", "dkernel[i, j] = np.sum", "dkernel[i, j] = np.mean"),
    )),
    Case("embedding classifier", text_classifier, text_classifier_gradient,
         {"table": normal(6, 4, scale=1), "W": normal(4, 3)}, (
        Slip("overwritten", "np.add.at(dtable, TOKENS, dvectors)", "dtable[TOKENS] += dvectors"),
        Slip("term", "    dscores[np.arange(len(CLASSES)), CLASSES] -= 1\n", ""),
        Slip("negated", "CLASSES] -= 1", "CLASSES] += 1"),
        Slip("slip", "(1 - hidden**2)", "(1 - hidden)"),
        Slip("broadcast", ", axis=1) / TOKENS.shape[1]", ", axis=1)"),
        Slip("slip", "    dscores /= len(CLASSES)\n", ""),
    )),
)  # fmt: skip
