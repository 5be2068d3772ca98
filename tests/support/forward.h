// Runs a decoder by hand: one sequence, its blocks scattered over the cache, no engine.
#pragma once

#include "engine/model/decoder.h"
#include "kernels/backend.h"

#include <cstdint>
#include <vector>

namespace orrery::test {

class Forward {
public:
    /// Room for `max_positions` tokens, and for `max_rows` of them in a pass (0: all). The decoder and its
    /// back end have to outlive the object.
    Forward(Decoder& decoder, kernels::Backend& backend, int max_positions,
            kernels::KvType kv_type = kernels::KvType::f32, int block_size = 16, int max_rows = 0);
    ~Forward();
    Forward(const Forward&) = delete;
    Forward& operator=(const Forward&) = delete;

    enum class Outputs { all, last };
    /// Appends tokens to the sequence in one pass. The logits of all of them or of the last, [.., vocab].
    std::vector<float> run(const std::vector<int32_t>& ids, Outputs outputs = Outputs::all);

    /// Forgets all tokens.
    void reset() { length_ = 0; }

private:
    Decoder& decoder_;
    kernels::Backend& backend_;
    std::vector<kernels::KvCache> caches_;
    int max_positions_;
    int block_size_;
    int length_ = 0;
    std::vector<int32_t> table_;
};

/// The most likely of one row of logits; the first of several equals.
int32_t most_likely(std::span<const float> logits);

} // namespace orrery::test
