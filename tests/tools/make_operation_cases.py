#!/usr/bin/env python3
"""Writes tests/kernels/reference/operation_cases.h: small inputs of the operations of a transformer and
what numpy makes of them in float64. Run it again only to add a case.

    python3 tests/tools/make_operation_cases.py > tests/kernels/reference/operation_cases.h
"""
import numpy as np

random = np.random.default_rng(20240607)


def numbers(*shape):
    """Random values with few digits, exact in float32."""
    return np.round(random.normal(size=shape) * 64) / 64


def show(name, values):
    flat = ", ".join(f'{float(v):.9g}' for v in np.ravel(values))
    print(f"inline const std::vector<float> {name} = {{{flat}}};")


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


print("// Written by tests/tools/make_operation_cases.py: inputs, and results of numpy in float64.")
print("#pragma once\n\n#include <vector>\n\nnamespace orrery::test::cases {\n\n// clang-format off")

x, norm, weight, bias = numbers(2, 6), numbers(6), numbers(3, 6), numbers(3)
show("x", x)
show("norm", norm)
show("weight", weight)
show("bias", bias)
show("linear", x @ weight.T + bias)
normed = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5) * norm
show("norm_linear", normed @ weight.T)

gated = numbers(2, 12) * 3
gate, up = gated[:, :6], gated[:, 6:]
show("gated", gated)
show("gated_linear", (gate / (1 + np.exp(-gate)) * up) @ weight.T)

# Rotation as a product of complex numbers. One query head and one key head of 6 elements, of which 4
# turn; a value head of 2; rows at positions 0, 1 and 2 with angles position / 100^(pair / 2).
qkv = numbers(3, 6 + 6 + 2)
angles = np.arange(3)[:, None] * 100.0 ** (-np.arange(2) / 2)
show("qkv", qkv)
show("rope", np.stack([np.cos(angles), np.sin(angles)], axis=-1))
for style in ("interleaved", "halves"):
    turned = qkv.copy()
    for start in (0, 6):
        pairs = [(0, 1), (2, 3)] if style == "interleaved" else [(0, 2), (1, 3)]
        for p, (i, j) in enumerate(pairs):
            z = (qkv[:, start + i] + 1j * qkv[:, start + j]) * np.exp(1j * angles[:, p])
            turned[:, start + i], turned[:, start + j] = z.real, z.imag
    show(f"turned_{style}", turned)

# Causal attention without rotation: 4 query heads over 2 key/value heads, keys of 4, values of 3, 7 tokens.
many = numbers(7, 4 * 4 + 2 * 4 + 2 * 3)
q, k, v = many[:, :16].reshape(7, 4, 4), many[:, 16:24].reshape(7, 2, 4), many[:, 24:].reshape(7, 2, 3)
k, v = k.repeat(2, axis=1), v.repeat(2, axis=1)
scores = np.einsum("qhd,khd->hqk", q, k) * 0.5
scores[:, np.triu_indices(7, 1)[0], np.triu_indices(7, 1)[1]] = -np.inf
show("attention_qkv", many)
show("attention", np.einsum("hqk,khd->qhd", softmax(scores), v))

print("// clang-format on\n\n} // namespace orrery::test::cases")
