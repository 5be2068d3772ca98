#!/usr/bin/env python3
"""Writes tests/kernels/reference/operation_cases.h: small inputs of the operations of a transformer and
what numpy makes of them in float64. Run it again only to add a case.

    python3 tests/tools/make_operation_cases.py > tests/kernels/reference/operation_cases.h
"""
import math

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


def literal(value):
    if isinstance(value, (np.ndarray, list)):
        return "{" + ", ".join(f"{float(v):.9g}" for v in np.ravel(np.asarray(value))) + "}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.9g}f" if "e" in f"{value:.9g}" or "." in f"{value:.9g}" else f"{value:.9g}.0f"
    if isinstance(value, str) and "::" not in value and not value.startswith("{"):
        return '"' + value + '"'
    return str(value)


def table(kind, name, cases):
    """A vector of structs of operation_case.h; fields that are missing keep their defaults."""
    print(f"inline const std::vector<{kind}> {name} = {{")
    for case in cases:
        print("    {" + ", ".join(f".{field} = {literal(value)}" for field, value in case.items()) + "},")
    print("};")


print("// Written by tests/tools/make_operation_cases.py: inputs, and results of numpy in float64.")
print('#pragma once\n\n#include "tests/kernels/reference/operation_case.h"\n')
print("#include <vector>\n\nnamespace orrery::test::cases {\n\n// clang-format off")

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



# ---------------------------------------------------------------- norms and activations

def rms(x, weight=1.0, bias=0.0, eps=1e-5):
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * weight + bias


def layer(x, weight=1.0, bias=0.0, eps=1e-5):
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + eps) * weight + bias


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


erf = np.vectorize(math.erf)
ACTIVATIONS = {
    "none": lambda z: z,
    "silu": lambda z: z * sigmoid(z),
    "gelu": lambda z: 0.5 * z * (1 + erf(z / np.sqrt(2))),
    "gelu_tanh": lambda z: 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
    "relu2": lambda z: np.where(z > 0, z, 0) ** 2,
    "sigmoid": sigmoid,
}
NORMS = {"rms": rms, "layer": layer}


def norm_case(name, kind, rows=3, columns=8, groups=1, shared=True, weight=False, bias=False, offset=0.0, add=None,
              scale=1.0, accumulate=False, gate=None):
    case = {"name": name, "kind": f"NormKind::{kind}", "rows": rows, "columns": columns}
    x = numbers(rows, columns)
    case["x"] = x
    width = columns // groups
    w, b = np.ones(columns), np.zeros(columns)
    if weight:
        case["weight"] = numbers(width if shared else columns)
        w = np.resize(case["weight"], columns) + offset
        case["weight_offset"] = float(offset)
    if bias:
        case["bias"] = numbers(width if shared else columns)
        b = np.resize(case["bias"], columns)
    case["groups"], case["weight_shared"] = groups, shared
    if add is not None:
        case["add"], case["add_scale"] = numbers(rows, columns), float(add)
        x = x + add * case["add"]
        case["x_after"] = x
    factor = 1.0
    if gate:
        case["gate"] = numbers(rows, columns) * 2
        case["gate_order"] = f"GateOrder::{gate}"
        factor = ACTIVATIONS["silu"](case["gate"])
        if gate == "before":
            x = x * factor
    y = x if kind == "none" else np.concatenate(
        [NORMS[kind](x[:, g * width:(g + 1) * width], w[g * width:(g + 1) * width], b[g * width:(g + 1) * width])
         for g in range(groups)], axis=1)
    if gate == "after":
        y = y * factor
    y = scale * y
    case["scale"], case["accumulate"] = float(scale), accumulate
    if accumulate:
        case["before"] = numbers(rows, columns)
        y = y + case["before"]
    case["out"] = y
    return case


table("NormCase", "norms", [
    norm_case("rms", "rms", weight=True),
    norm_case("rms without weight", "rms"),
    norm_case("rms, 1 + weight (Gemma)", "rms", weight=True, offset=1.0),
    norm_case("rms with bias", "rms", weight=True, bias=True),
    norm_case("layer", "layer", weight=True, bias=True),
    norm_case("layer without bias (Cohere)", "layer", weight=True),
    norm_case("layer, 1 + weight (Nemotron)", "layer", weight=True, bias=True, offset=1.0),
    norm_case("per head", "rms", groups=4, weight=True),
    norm_case("per head, each its own weight (StableLM)", "layer", groups=2, shared=False, weight=True, bias=True),
    norm_case("after the residual's addition", "rms", weight=True, add=1.0),
    norm_case("after a scaled addition (Granite)", "rms", weight=True, add=0.25),
    norm_case("added to the residual (Gemma 2)", "rms", weight=True, offset=1.0, scale=0.5, accumulate=True),
    norm_case("gate before, in groups (Mamba-2)", "rms", groups=2, shared=False, weight=True, gate="before"),
    norm_case("gate after, per head (gated delta rule)", "rms", groups=2, weight=True, gate="after"),
    norm_case("no norm", "none", add=2.0, scale=3.0),
    norm_case("one column", "layer", rows=2, columns=1, weight=True, bias=True),
])


def activation_of(kind, x, gated=False, alpha=1.0, limit=0.0, up_offset=0.0):
    f = (lambda z: z * sigmoid(alpha * z)) if kind == "silu" else ACTIVATIONS[kind]
    if not gated:
        return f(x)
    gate, up = np.split(x, 2, axis=1)
    if limit > 0:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    return f(gate) * (up + up_offset)


def linear_case(name, rows=3, columns=6, height=4, groups=1, norm=None, activation=None, bias=False, scale=1.0,
                accumulate=False):
    case = {"name": name, "rows": rows, "columns": columns, "groups": groups}
    wide = 2 * columns if activation and activation.get("gated") else columns
    case["x"] = x = numbers(rows, wide) * (3 if activation else 1)
    case["weight"] = weight = numbers(height * groups, columns)
    if norm:
        case["norm"] = f"NormKind::{norm}"
        case["norm_weight"], case["norm_bias"] = numbers(columns), numbers(columns)
        x = NORMS[norm](x, case["norm_weight"], case["norm_bias"])
    if activation:
        fields = ", ".join(f".{k} = " + (f"ActivationKind::{v}" if k == "kind" else literal(v))
                           for k, v in activation.items())
        case["activation"] = "{" + fields + "}"
        x = activation_of(x=x, **activation)
    y = np.stack([x[r] @ weight[(r % groups) * height:(r % groups + 1) * height].T for r in range(rows)])
    if bias:
        case["bias"] = numbers(height * groups)
        y = y + np.stack([case["bias"][(r % groups) * height:(r % groups + 1) * height] for r in range(rows)])
    y = scale * y
    case["scale"], case["accumulate"] = float(scale), accumulate
    if accumulate:
        case["before"] = numbers(rows, height)
        y = y + case["before"]
    case["out"] = y
    return case


table("LinearCase", "linears", [
    linear_case("plain"),
    linear_case("scaled with bias", bias=True, scale=0.5),
    linear_case("scaled, added to the residual", bias=True, scale=0.25, accumulate=True),
    linear_case("rms", norm="rms"),
    linear_case("layer norm", norm="layer", bias=True),
    linear_case("a matrix for each head", rows=6, groups=3, height=2, bias=True),
    linear_case("a matrix for each head, scaled sum", rows=4, groups=2, scale=2.0, accumulate=True),
] + [linear_case(kind, activation={"kind": kind, "gated": False}) for kind in ACTIVATIONS if kind != "none"]
  + [linear_case("gated " + kind, activation={"kind": kind, "gated": True}) for kind in ACTIVATIONS]
  + [linear_case("clamped (gpt-oss)",
                 activation={"kind": "silu", "gated": True, "alpha": 1.702, "limit": 2.5, "up_offset": 1.0})])


def gate_case(name, kind, columns=5, wide=True, alpha=1.0):
    gate, x = numbers(3, columns if wide else 1) * 2, numbers(3, columns)
    return {"name": name, "activation": "{" + f".kind = ActivationKind::{kind}, .alpha = {literal(float(alpha))}" + "}",
            "columns": columns, "gate_columns": gate.shape[1], "gate": gate, "x": x,
            "out": activation_of(kind, gate, alpha=alpha) * x}


table("GateCase", "gates", [gate_case(kind, kind) for kind in ACTIVATIONS] + [
    gate_case("one for a row (shared expert)", "sigmoid", wide=False),
    gate_case("silu with alpha", "silu", alpha=1.5),
])

soft_capped = numbers(2, 5) * 30
show("soft_capped", soft_capped)
show("soft_cap_30", 30 * np.tanh(0.5 * soft_capped / 30))

# ---------------------------------------------------------------- attention


def rope_case(name, heads=2, kv_heads=1, length=8, value_length=6, dimensions=0, first=0, style="halves", norm=None,
              v_norm=False, after=False, query_scale=False, store=True, value_in_key=False, tokens=3):
    case = {"name": name, "heads": heads, "kv_heads": kv_heads, "key_length": length, "value_length": value_length,
            "dimensions": dimensions, "first": first, "style": f"RopeStyle::{style}", "after": after,
            "value_in_key": value_in_key}
    q, k, v = numbers(tokens, heads, length), numbers(tokens, kv_heads, length), numbers(tokens, kv_heads, value_length)
    case["q"] = q
    if store:
        case["k"] = k
        if not value_in_key:
            case["v"] = v
    if norm:
        case["norm"] = f"NormKind::{norm}"
        case["q_weight"], case["k_weight"] = numbers(length), numbers(length)
        q_norm = lambda z: NORMS[norm](z, case["q_weight"])
        k_norm = lambda z: NORMS[norm](z, case["k_weight"])
    else:
        q_norm = k_norm = lambda z: z
    angles = np.arange(tokens)[:, None] * 100.0 ** (-np.arange(dimensions // 2) * 2 / max(dimensions, 1))
    if dimensions:
        case["rope"] = np.stack([np.cos(angles), np.sin(angles)], axis=-1)

    def turn(z):
        turned = z.copy()
        for p in range(dimensions // 2):
            i, j = (2 * p, 2 * p + 1) if style == "interleaved" else (p, p + dimensions // 2)
            pair = (z[..., first + i] + 1j * z[..., first + j]) * np.exp(1j * angles[:, p])[:, None]
            turned[..., first + i], turned[..., first + j] = pair.real, pair.imag
        return turned

    prepare = (lambda z, n: n(turn(z))) if after else (lambda z, n: turn(n(z)))
    case["q_out"] = prepare(q, q_norm)
    if query_scale:
        case["query_scale"] = np.abs(numbers(tokens)) + 0.5
        case["q_out"] = case["q_out"] * case["query_scale"][:, None, None]
    if store:
        case["k_out"] = prepare(k, k_norm)
        if not value_in_key:
            case["v_norm"] = v_norm
            case["v_out"] = rms(v) if v_norm else v
    return case


table("RopeCase", "ropes", [
    rope_case("no rotation"),
    rope_case("halves", dimensions=8),
    rope_case("interleaved", dimensions=8, style="interleaved"),
    rope_case("partial (Phi)", dimensions=4),
    rope_case("partial from an element on (DeepSeek)", dimensions=4, first=4, style="interleaved"),
    rope_case("norms before (Qwen 3)", dimensions=8, norm="rms"),
    rope_case("norms after (Hunyuan)", dimensions=8, norm="rms", after=True),
    rope_case("layer norms before a partial rotation", dimensions=4, norm="layer", kv_heads=2),
    rope_case("scaled by position (Llama 4)", norm="rms", query_scale=True),
    rope_case("values normed, too (Gemma 4)", dimensions=8, norm="rms", v_norm=True, heads=4, kv_heads=2),
    rope_case("queries alone (a shared cache)", dimensions=8, norm="rms", store=False),
    rope_case("values in their keys (latent attention)", dimensions=2, first=6, style="interleaved", value_in_key=True),
])


def attention_case(name, tokens=9, heads=4, kv_heads=2, length=4, value_length=3, scale=0.5, soft_cap=0.0, window=0,
                   chunked=False, sinks=False, alibi=False, value_in_key=False):
    case = {"name": name, "tokens": tokens, "heads": heads, "kv_heads": kv_heads, "key_length": length,
            "value_length": value_length, "scale": float(scale), "soft_cap": float(soft_cap), "window": window,
            "chunked": chunked, "value_in_key": value_in_key}
    q, k, v = numbers(tokens, heads, length), numbers(tokens, kv_heads, length), numbers(tokens, kv_heads, value_length)
    case["q"], case["k"] = q, k
    if value_in_key:
        v = k[..., :value_length]
    else:
        case["v"] = v
    k, v = k.repeat(heads // kv_heads, axis=1), v.repeat(heads // kv_heads, axis=1)
    scores = np.einsum("qhd,khd->hqk", q, k) * scale
    if soft_cap:
        scores = np.tanh(scores / soft_cap) * soft_cap
    i, j = np.arange(tokens)[:, None], np.arange(tokens)[None, :]
    if alibi:
        case["alibi"] = np.abs(numbers(heads))
        scores = scores + case["alibi"][:, None, None] * (j - i)
    seen = j <= i
    if window:
        seen = seen & ((i // window == j // window) if chunked else (j > i - window))
    scores = np.where(seen, scores, -np.inf)
    if sinks:
        case["sinks"] = numbers(heads)
        scores = np.concatenate([scores, np.broadcast_to(case["sinks"][:, None, None], (heads, tokens, 1))], axis=-1)
    weights = softmax(scores)[..., :tokens]
    case["out"] = np.einsum("hqk,khd->qhd", weights, v)
    return case


table("AttentionCase", "attentions", [
    attention_case("grouped queries"),
    attention_case("one head", heads=1, kv_heads=1),
    attention_case("soft cap (Gemma 2)", soft_cap=1.5, scale=2.0),
    attention_case("window (Mistral)", window=3),
    attention_case("window of one token", window=1),
    attention_case("window longer than the sequence", window=100),
    attention_case("chunks (Llama 4)", window=4, chunked=True),
    attention_case("sinks and window (gpt-oss)", sinks=True, window=5),
    attention_case("ALiBi", alibi=True),
    attention_case("ALiBi, soft cap, sinks, window", alibi=True, soft_cap=2.0, sinks=True, window=6),
    attention_case("values in their keys (latent attention)", kv_heads=1, length=6, value_length=4, value_in_key=True),
])

# ---------------------------------------------------------------- experts


def route_case(name, rows=4, experts=8, top_k=3, score="softmax", bias=False, groups=1, top_groups=1,
               group_score="largest", normalize=False, sum_floor=0.0, scale=1.0):
    case = {"name": name, "experts": experts, "top_k": top_k, "score": f"RouterScore::{score}", "groups": groups,
            "top_groups": top_groups, "group_score": f"GroupScore::{group_score}", "normalize": normalize,
            "sum_floor": float(sum_floor), "scale": float(scale)}
    case["logits"] = logits = numbers(rows, experts) * 2
    p = softmax(logits) if score == "softmax" else sigmoid(logits)
    choice = p
    if bias:
        case["bias"] = numbers(experts) * 0.25
        choice = p + case["bias"]
    if groups > 1:
        by_group = np.sort(choice.reshape(rows, groups, -1), axis=-1)[..., ::-1]
        worth = by_group[..., 0] if group_score == "largest" else by_group[..., :2].sum(axis=-1)
        kept = np.argsort(-worth, axis=1, kind="stable")[:, :top_groups]
        mask = np.zeros((rows, groups), dtype=bool)
        np.put_along_axis(mask, kept, True, axis=1)
        choice = np.where(mask.repeat(experts // groups, axis=1), choice, -np.inf)
    chosen = np.argsort(-choice, axis=1, kind="stable")[:, :top_k]
    weights = np.take_along_axis(p, chosen, axis=1)
    if normalize:
        weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), sum_floor)
    case["chosen"], case["weights"] = chosen, weights * scale
    return case


table("RouteCase", "routes", [
    route_case("softmax (OLMoE)"),
    route_case("softmax of the chosen (Mixtral)", top_k=2, normalize=True),
    route_case("sigmoid, one expert (Llama 4)", top_k=1, score="sigmoid"),
    route_case("sigmoid, bias, groups (DeepSeek V3)", score="sigmoid", bias=True, groups=4, top_groups=2,
               group_score="two_largest", normalize=True, scale=2.5),
    route_case("groups by their largest (DeepSeek V2)", groups=4, top_groups=2, scale=16.0),
    route_case("softmax, bias, floor (Ernie 4.5)", bias=True, normalize=True, sum_floor=0.5),
    route_case("all experts", experts=3, top_k=3),
])


def expert_case(name, rows=3, columns=5, height=4, experts=4, top_k=2, per_slot=False, activation=None, bias=False,
                input_scale=False):
    case = {"name": name, "rows": rows, "columns": columns, "height": height, "experts": experts, "top_k": top_k,
            "per_slot": per_slot}
    wide = 2 * columns if activation and activation.get("gated") else columns
    case["x"] = x = numbers(rows * (top_k if per_slot else 1), wide) * 2
    case["weight"] = weight = numbers(experts, height, columns)
    chosen = np.stack([random.permutation(experts)[:top_k] for _ in range(rows)])
    case["chosen"] = chosen
    if activation:
        fields = ", ".join(f".{k} = " + (f"ActivationKind::{v}" if k == "kind" else literal(v))
                           for k, v in activation.items())
        case["activation"] = "{" + fields + "}"
        x = activation_of(x=x, **activation)
    x = x.reshape(rows, top_k, columns) if per_slot else x[:, None, :].repeat(top_k, axis=1)
    if input_scale:
        case["input_scale"] = numbers(rows, top_k)
        x = x * case["input_scale"][:, :, None]
    y = np.einsum("rjc,rjhc->rjh", x, weight[chosen])
    if bias:
        case["bias"] = numbers(experts, height)
        y = y + case["bias"][chosen]
    case["out"] = y
    return case


table("ExpertCase", "experts", [
    expert_case("first matrices"),
    expert_case("second matrices, gated", per_slot=True, activation={"kind": "silu", "gated": True}),
    expert_case("biases, clamped gate (gpt-oss)", per_slot=True, bias=True,
                activation={"kind": "silu", "gated": True, "alpha": 1.702, "limit": 2.5, "up_offset": 1.0}),
    expert_case("weighed inputs (Llama 4)", top_k=1, input_scale=True),
    expert_case("weighed inputs with biases", input_scale=True, bias=True),
])

parts, part_weights = numbers(6, 4), numbers(2, 3)
show("parts", parts)
show("part_weights", part_weights)
show("combined", 0.5 * np.einsum("rj,rjc->rc", part_weights, parts.reshape(2, 3, 4)))
show("summed", parts.reshape(2, 3, 4).sum(axis=1))

# ---------------------------------------------------------------- recurrences


def convolve_case(name, tokens=7, channels=3, kernel=4, bias=False, activation="silu"):
    x, weight = numbers(tokens, channels), numbers(channels, kernel)
    case = {"name": name, "tokens": tokens, "channels": channels, "kernel": kernel, "x": x, "weight": weight,
            "activation": f"ActivationKind::{activation}"}
    y = np.stack([np.convolve(x[:, c], weight[c, ::-1])[:tokens] for c in range(channels)], axis=1)
    if bias:
        case["bias"] = numbers(channels)
        y = y + case["bias"]
    case["out"] = ACTIVATIONS[activation](y)
    return case


table("ConvolveCase", "convolutions", [
    convolve_case("silu with bias (Mamba-2)", bias=True),
    convolve_case("silu (gated delta rule)"),
    convolve_case("three taps (LFM2)", kernel=3, activation="none"),
    convolve_case("shorter than its taps", tokens=2),
    convolve_case("one tap", kernel=1),
])


def softplus(z):
    return np.log1p(np.exp(z))


def ssm_case(name, tokens=6, heads=4, groups=2, length=3, state=5, dt_min=0.0, dt_max=3.4e38):
    """In the paper's dual form: y = (L ∘ C Bᵀ) Δx with L the products of decays between two tokens."""
    x, dt = numbers(tokens, heads, length), numbers(tokens, heads)
    b, c = numbers(tokens, groups, state), numbers(tokens, groups, state)
    a, d, dt_bias = -np.exp(numbers(heads)), numbers(heads), numbers(heads)
    a = np.round(a * 64) / 64 - 0.125
    delta = np.clip(softplus(dt + dt_bias), dt_min, dt_max)
    out = np.empty_like(x)
    for h in range(heads):
        g = h * groups // heads
        log_decay = np.cumsum(delta[:, h] * a[h])
        lower = np.tril(np.exp(log_decay[:, None] - log_decay[None, :]))
        out[:, h] = (lower * (c[:, g] @ b[:, g].T)) @ (delta[:, h, None] * x[:, h]) + d[h] * x[:, h]
    return {"name": name, "tokens": tokens, "heads": heads, "groups": groups, "head_length": length,
            "state_length": state, "dt_min": float(dt_min), "dt_max": float(dt_max), "x": x, "b": b, "c": c, "dt": dt,
            "a": a, "d": d, "dt_bias": dt_bias, "out": out}


table("SsmCase", "scans", [
    ssm_case("grouped heads"),
    ssm_case("one group", groups=1),
    ssm_case("limited steps", dt_min=0.5, dt_max=0.9),
])


def delta_case(name, tokens=6, heads=4, key_heads=2, length=4, value_length=3):
    """In the paper's form: S_t = α_t (I − β_t k_t k_tᵀ) S_{t−1} + β_t k_t v_tᵀ."""
    q, k, v = numbers(tokens, key_heads, length), numbers(tokens, key_heads, length), numbers(tokens, heads, value_length)
    decay, beta = numbers(tokens, heads), numbers(tokens, heads)
    a, dt_bias = -np.abs(numbers(heads)) - 0.125, numbers(heads)
    unit = lambda z: z / np.sqrt((z**2).sum(axis=-1, keepdims=True) + 1e-6)
    qs, ks = unit(q) / np.sqrt(length), unit(k)
    out = np.empty_like(v)
    for h in range(heads):
        g = h * key_heads // heads
        s = np.zeros((length, value_length))
        for t in range(tokens):
            alpha, b = np.exp(a[h] * softplus(decay[t, h] + dt_bias[h])), sigmoid(beta[t, h])
            outer = np.outer(ks[t, g], ks[t, g])
            s = alpha * (np.eye(length) - b * outer) @ s + b * np.outer(ks[t, g], v[t, h])
            out[t, h] = qs[t, g] @ s
    return {"name": name, "tokens": tokens, "heads": heads, "key_heads": key_heads, "key_length": length,
            "value_length": value_length, "q": q, "k": k, "v": v, "decay": decay, "beta": beta, "a": a,
            "dt_bias": dt_bias, "out": out}


table("DeltaCase", "deltas", [
    delta_case("two value heads for each key head"),
    delta_case("as many of each", heads=2, value_length=5),
])

print("// clang-format on\n\n} // namespace orrery::test::cases")
