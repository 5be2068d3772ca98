// Reader of GGUF model files, versions 2 and 3, single or split, memory-mapped.
//
// A model file is hostile until proven otherwise: every count, length, offset, type, alignment and string
// is checked against the file's size before it is used, so that no file can make the reader crash, hang
// or allocate more than a small multiple of the file's own size.
//
// Source: the GGUF specification (ggml).
#pragma once

#include "kernels/quant/tensor_type.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace orrery {

/// A metadata value. Integers are widened, arrays are homogeneous.
struct GgufValue {
    using Array = std::variant<std::vector<int64_t>, std::vector<uint64_t>, std::vector<double>,
                               std::vector<bool>, std::vector<std::string>>;
    std::variant<int64_t, uint64_t, double, bool, std::string, Array> value;
};

struct GgufTensor {
    std::string name;
    kernels::TensorType type = kernels::TensorType::F32;
    std::vector<int64_t>
        shape; ///< outermost first: a weight matrix is [rows, columns] (the file has it reversed)
    std::span<const std::byte> bytes; ///< in the mapped file
    int64_t elements() const;
};

class GgufFile {
public:
    /// Opens a file and, where its metadata says that it is one of several, all of its siblings.
    /// Throws Error with the file, the field and the value where anything is wrong.
    static std::shared_ptr<const GgufFile> open(const std::filesystem::path& path);

    /// The same for bytes that lie in memory already and outlive the object; `name` stands in errors. A file
    /// that is one of several is refused here.
    static std::shared_ptr<const GgufFile> parse(std::span<const std::byte> bytes, const std::string& name);

    ~GgufFile();

    const std::filesystem::path& path() const; ///< of the first part
    uint32_t version() const;
    size_t file_bytes() const; ///< of all parts

    /// Metadata in the order of the file, without the tensors' own.
    const std::vector<std::pair<std::string, GgufValue>>& metadata() const;
    const std::vector<GgufTensor>& tensors() const;

    const GgufValue* find(std::string_view key) const;
    const GgufTensor* find_tensor(std::string_view name) const;

    /// Throws Error where a file has been cut or written to since it was opened: what has been read of its
    /// tensors, or computed with them, may be wrong.
    void check_intact() const;

    /// Asks the system to begin reading a tensor's bytes. Only a hint.
    void prefetch(const GgufTensor& tensor) const;

    // Typed access. `get_…` without a default throws Error ("FILE: the field 'KEY' is missing" / "… is a
    // string where a number is needed"); with a default, only where the field is there with a wrong type.
    std::string get_string(std::string_view key) const;
    std::string get_string(std::string_view key, const std::string& otherwise) const;
    int64_t get_int(std::string_view key) const;
    int64_t get_int(std::string_view key, int64_t otherwise) const;
    double get_float(std::string_view key) const;
    double get_float(std::string_view key, double otherwise) const;
    bool get_bool(std::string_view key, bool otherwise) const;
    /// Empty where the field is missing. Lives as long as the file.
    const std::vector<std::string>& get_strings(std::string_view key) const;
    // A lone number counts as a list of one: some fields are either one value or one for each layer.
    std::vector<int64_t> get_ints(std::string_view key) const;
    std::vector<double> get_floats(std::string_view key) const;
    /// Empty where the field is missing or a single number.
    std::vector<bool> get_bools(std::string_view key) const;

private:
    struct Impl;
    static void read_files(Impl& impl, const std::filesystem::path& path);
    explicit GgufFile(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

} // namespace orrery
