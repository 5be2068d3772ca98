// The arithmetic of a transformer, one row at a time, as a textbook would write it. Sums are taken in
// double and in an order that depends on their length alone, so a row's result never depends on other rows.
#pragma once

#include "kernels/backend.h"

#include <span>

namespace orrery::kernels::reference {

/// Σ a[i] · b[i], both of the same length.
double dot(std::span<const float> a, std::span<const float> b);

/// out = x / √(mean(x²) + eps) · norm   (Zhang & Sennrich 2019)
void rms_norm(std::span<const float> x, std::span<const float> norm, float eps, std::span<float> out);

/// out = silu(gate) · up with silu(z) = z / (1 + e^−z)   (Shazeer 2020)
void silu_gate(std::span<const float> gate, std::span<const float> up, std::span<float> out);

/// Turns the pairs of `head` by the angles whose cosines and sines are given, [pairs, 2] (Su et al. 2021):
/// (a, b) ← (a·cos − b·sin, a·sin + b·cos). Only the first 2·pairs elements take part.
void turn(std::span<float> head, std::span<const float> cosines_and_sines, RopeStyle style);

/// One query over the tokens it may see: out = softmax(scale · keys · query) · values.
/// keys is [tokens, key_length], values [tokens, value_length]; tokens = keys.size() / query.size() > 0.
void attend(std::span<const float> query, std::span<const float> keys, std::span<const float> values,
            float scale, std::span<float> out);

} // namespace orrery::kernels::reference
