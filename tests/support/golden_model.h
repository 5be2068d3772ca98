// The tiny models of the test data's golden/ folder as GGUF files, whose logits are known.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace orrery::test {

/// The model as float32 GGUF file: the one that lies in golden_gguf/, or one that is converted here, once per
/// process, with the names and conventions of llama.cpp's converter. There has to be test data. Throws
/// std::runtime_error for a model that neither is there nor is known to the converter.
std::filesystem::path golden_model(const std::string& name);

/// What golden.json says of it.
struct Golden {
    std::vector<int32_t> ids;
    std::vector<float> logits;   ///< of every position, [ids, vocab]
    std::vector<int32_t> greedy; ///< tokens that continue the ids
    std::vector<double> margins; ///< of each, between the two largest logits
};
Golden golden(const std::string& name);

} // namespace orrery::test
