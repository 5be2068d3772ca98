// The one forward pass: tokens in, logits out, as a sequence of fused operations on a device.
#pragma once

#include "engine/model/model_weights.h"
#include "engine/model/rope_table.h"
#include "kernels/backend.h"

#include <array>
#include <deque>
#include <memory>
#include <span>
#include <string>

namespace orrery {

/// Carries out a model's plan with scratch memory of its own. Decoders that share weights may run at the same
/// time, each with a back end of its own (Backend::share).
class Decoder {
public:
    /// `backend` is the one that holds the weights, or shares them, and has to outlive the object.
    Decoder(std::shared_ptr<const ModelWeights> weights, kernels::Backend& backend);
    ~Decoder();
    Decoder(const Decoder&) = delete;
    Decoder& operator=(const Decoder&) = delete;

    /// Sets up scratch memory: at most `max_rows` rows and `max_outputs` rows of logits in a pass, positions
    /// below `max_positions`. What is larger already stays. Throws OutOfMemory, and Error for more positions
    /// than the model can tell apart; then nothing is changed.
    void reserve(int max_rows, int max_outputs, int max_positions);

    /// Queues one pass. Keys and values go to `caches`, one for each of ModelConfig::caches. Throws Error for
    /// a token, a position or a size that does not fit, OutOfMemory where the table of rotations cannot grow
    /// to a position that it meets for the first time.
    void forward(const kernels::ForwardBatch& batch, std::span<const kernels::KvCache> caches);

    /// Waits for the pass; the logits of its output rows from `first_row` on, [rows, vocab].
    void read_logits(int first_row, std::span<float> logits);
    /// Where they lie on the device, [output_rows, vocab].
    kernels::View logits() const;

    const ModelConfig& config() const { return weights_->config(); }
    const ModelWeights& weights() const { return *weights_; }

private:
    struct Scratch {
        int max_rows = 0;
        int max_outputs = 0;
        std::array<kernels::Buffer, slot_count> buffers = {};
    };

    [[noreturn]] void fail(const std::string& sentence) const;
    void check(const kernels::ForwardBatch& batch) const;
    void release_all_but(const Scratch& kept, const Scratch& old);

    std::shared_ptr<const ModelWeights> weights_;
    kernels::Backend& backend_;
    Scratch scratch_;
    int max_positions_ = 0;
    std::deque<RopeTable> ropes_; ///< of ModelConfig::ropes
    int output_rows_ = 0;         ///< of the last pass
};

} // namespace orrery
