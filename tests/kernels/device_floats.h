// Floats to a device and back, and weights that keep their own bytes.
#pragma once

#include "kernels/backend.h"

#include <vector>

namespace orrery::test {

inline kernels::Buffer to_device(kernels::Backend& backend, const std::vector<float>& values) {
    const kernels::Buffer buffer = backend.allocate(values.size() * sizeof(float));
    backend.upload(buffer, 0, std::as_bytes(std::span(values)));
    return buffer;
}

inline std::vector<float> from_device(kernels::Backend& backend, kernels::Buffer buffer, size_t count) {
    std::vector<float> values(count);
    backend.download(buffer, 0, std::as_writable_bytes(std::span(values)));
    return values;
}

/// `weights`, which must outlive the handle, as a float32 matrix of `columns`.
inline kernels::Weight load_f32(kernels::Backend& backend, const std::vector<float>& weights,
                                int64_t columns) {
    const kernels::WeightPart part = {kernels::TensorType::F32,
                                      static_cast<int64_t>(weights.size()) / columns, columns,
                                      reinterpret_cast<const std::byte*>(weights.data())};
    return backend.load_weight({&part, 1});
}

} // namespace orrery::test
