// The one forward pass: tokens in, logits out, as a sequence of fused operations on a device.
#pragma once

#include "engine/model/config.h"
#include "kernels/backend.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace orrery {

class GgufFile;

/// Loads the weights of a model onto a device and runs it. The decoder keeps the file mapped for as long
/// as it lives.
class Decoder {
public:
    using Progress = std::function<void(size_t bytes_done, size_t bytes_total)>;

    /// Throws Error for a tensor that is missing or has a wrong shape, Cancelled once `*cancel` is true.
    Decoder(std::shared_ptr<const GgufFile> file, const ModelConfig& config, kernels::Backend& backend,
            const Progress& progress, const std::atomic<bool>* cancel);
    ~Decoder();

    /// Sets up scratch memory and rotations: at most `max_rows` rows and `max_outputs` rows of logits in a
    /// pass, positions below `max_positions`. What is larger already stays. Throws OutOfMemory; then nothing
    /// is changed.
    void reserve(int max_rows, int max_outputs, int max_positions);

    /// Queues one pass. Keys and values go to `cache`.
    void forward(const kernels::ForwardBatch& batch, kernels::KvCache cache);

    /// Waits for the pass; the logits of its output rows, [output_rows, vocab].
    void read_logits(std::span<float> logits);

    const ModelConfig& config() const;
    /// Bytes of weights that one pass reads on this device.
    size_t weight_bytes() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace orrery
