// Writes GGUF files for tests: valid ones, and ones that are wrong in a chosen way.
//
// Source: the GGUF specification.
#pragma once

#include "kernels/quant/tensor_type.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::test {

/// Collects fields and tensors in the order in which they will stand in the file. Nothing is checked: a
/// key may be given twice, a tensor may be too short.
class GgufWriter {
public:
    uint32_t version = 3;
    uint32_t alignment = 32; ///< of tensors; a value other than 32 also needs its field, general.alignment

    // Each stores the value with the GGUF type that is named.
    GgufWriter& u8(std::string_view key, uint8_t value);
    GgufWriter& i8(std::string_view key, int8_t value);
    GgufWriter& u16(std::string_view key, uint16_t value);
    GgufWriter& i16(std::string_view key, int16_t value);
    GgufWriter& u32(std::string_view key, uint32_t value);
    GgufWriter& i32(std::string_view key, int32_t value);
    GgufWriter& u64(std::string_view key, uint64_t value);
    GgufWriter& i64(std::string_view key, int64_t value);
    GgufWriter& f32(std::string_view key, float value);
    GgufWriter& f64(std::string_view key, double value);
    GgufWriter& boolean(std::string_view key, bool value);
    GgufWriter& string(std::string_view key, std::string_view value);
    GgufWriter& strings(std::string_view key, const std::vector<std::string>& values);
    GgufWriter& i32s(std::string_view key, const std::vector<int32_t>& values);
    GgufWriter& u32s(std::string_view key, const std::vector<uint32_t>& values);
    GgufWriter& u8s(std::string_view key, const std::vector<uint8_t>& values);
    GgufWriter& f32s(std::string_view key, const std::vector<float>& values);
    GgufWriter& booleans(std::string_view key, const std::vector<bool>& values);
    /// Any type id with any bytes.
    GgufWriter& raw(std::string_view key, uint32_t type, std::span<const std::byte> value);

    /// `shape` outermost first, as GgufTensor has it. The tensor is placed after the one before it.
    GgufWriter& tensor(std::string_view name, const std::vector<int64_t>& shape, kernels::TensorType type,
                       std::vector<std::byte> bytes);
    /// The same with float32 values.
    GgufWriter& tensor(std::string_view name, const std::vector<int64_t>& shape,
                       std::span<const float> values);

    /// Removes all fields of this key.
    GgufWriter& drop(std::string_view key);
    /// Removes a tensor and closes the gap.
    GgufWriter& drop_tensor(std::string_view name);

    // What the file will say instead of the truth.
    struct Tensor {
        std::string name;
        std::vector<uint64_t> dims; ///< innermost first, as in the file
        uint32_t type = 0;
        uint64_t offset = 0; ///< set when it is added
        std::vector<std::byte> bytes;
    };
    std::vector<Tensor>& tensors() { return tensors_; }

    size_t field_count() const { return fields_.size(); }

    std::vector<std::byte> bytes() const;
    void write(const std::filesystem::path& path) const;

private:
    struct Field {
        std::string key;
        uint32_t type = 0;
        std::vector<std::byte> value;
    };
    std::vector<Field> fields_;
    std::vector<Tensor> tensors_;
};

void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);

} // namespace orrery::test
