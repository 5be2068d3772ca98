// A tiny random llama model, made on the spot: for tests that need a model that runs, where no test data
// exists. Its answers make no sense, but they are the same on every machine.
#pragma once

#include "kernels/quant/tensor_type.h"
#include "tests/support/gguf_writer.h"

#include <cstdint>
#include <filesystem>

namespace orrery::test {

struct TinyModelOptions {
    uint64_t seed = 1;
    int layers = 2;
    int hidden = 64;
    int heads = 4;
    int kv_heads = 2;
    int key_length = 0; ///< elements of a head; 0: hidden / heads
    int feed_forward = 96;
    int context_length = 512;
    int window = 0;       ///< tokens that a row of any layer sees; 0: all before it
    int experts = 0;      ///< in the place of one feed-forward part; 0: none
    int experts_used = 2; ///< by a token
    /// Of all matrices: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K or Q6_K. `hidden`, heads · key_length and
    /// `feed_forward` have to be multiples of its block: 256 for the last two.
    kernels::TensorType weights = kernels::TensorType::F32;
    bool tied = false;   ///< no output.weight: the embedding serves as one
    bool biases = false; ///< attn_q.bias, attn_k.bias, attn_v.bias and attn_output.bias
    bool chat_template = true;
    bool sentencepiece = false; ///< the vocabulary is a SentencePiece one of the same size

    bool operator==(const TinyModelOptions&) const = default;
};

/// The vocabulary: 0 <|endoftext|>, 1 <|im_start|>, 2 <|im_end|> (which ends an answer), 3 + b for each
/// byte b, and then one token for each merge. With `sentencepiece`: 0 <unk>, 1 <s>, 2 </s> (which ends an
/// answer), 3 + b for each byte b, and then pieces, some of which begin with a space.
inline constexpr int tiny_first_byte = 3;

/// The file's content, for tests that change it first.
GgufWriter tiny_model_writer(const TinyModelOptions& options = {});

/// The file. It is made once per process and set of options, and removed when the process ends.
std::filesystem::path tiny_model(const TinyModelOptions& options = {});

} // namespace orrery::test
