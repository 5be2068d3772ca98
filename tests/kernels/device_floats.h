// Floats to a device and back, and weights that keep their own bytes.
#pragma once

#include "kernels/backend.h"

#include <algorithm>
#include <span>
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

/// The bytes of one block of a cache.
inline std::vector<std::byte> block_from_device(kernels::Backend& backend, kernels::KvCache cache,
                                                int32_t block, size_t bytes) {
    const kernels::HostMemory host = backend.allocate_host(bytes);
    const kernels::BlockTransfer transfer = {block, 0};
    backend.copy_kv_blocks_out(cache, {&transfer, 1}, host);
    backend.wait(backend.fence());
    std::vector<std::byte> content(host.bytes, host.bytes + bytes);
    backend.release(host);
    return content;
}

inline void block_to_device(kernels::Backend& backend, kernels::KvCache cache, int32_t block,
                            const std::vector<std::byte>& content) {
    const kernels::HostMemory host = backend.allocate_host(content.size());
    std::copy(content.begin(), content.end(), host.bytes);
    const kernels::BlockTransfer transfer = {block, 0};
    backend.copy_kv_blocks_in(cache, {&transfer, 1}, host);
    backend.release(host);
}

} // namespace orrery::test
