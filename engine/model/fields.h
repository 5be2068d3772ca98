// The metadata fields of one architecture, range-checked: "llama.block_count" as "block_count".
#pragma once

#include "engine/model/gguf.h"

#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// Everything here throws Error with the file, the field and the value.
class Fields {
public:
    /// The file has to outlive the object.
    Fields(const GgufFile& file, std::string_view architecture);

    const GgufFile& file() const { return file_; }
    std::string key(std::string_view field) const { return prefix_ + std::string(field); }
    bool has(std::string_view field) const { return file_.find(key(field)) != nullptr; }

    [[noreturn]] void fail(const std::string& sentence) const;
    int checked(std::string_view field, int64_t value, int min, int max) const;
    int integer(std::string_view field, int min, int max) const;
    int integer(std::string_view field, int min, int max, int otherwise) const;
    bool boolean(std::string_view field, bool otherwise) const;
    /// A field that is one number, or one for each layer: [layers]. `otherwise` < 0: it has to be there.
    std::vector<int> per_layer(std::string_view field, int layers, int min, int max,
                               int otherwise = -1) const;
    double positive(std::string_view field) const;
    double positive(std::string_view field, double otherwise) const;
    /// As positive(); 0, like a missing field, means `none`.
    double positive_or_none(std::string_view field, double none) const;

private:
    const GgufFile& file_;
    std::string prefix_;
};

/// A number in as few digits as tell it: 0.1, 1e-05.
std::string number_text(double value);

} // namespace orrery
