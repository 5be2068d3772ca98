#include "tests/support/gguf_writer.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace orrery::test {

namespace {

using Bytes = std::vector<std::byte>;

template <typename T>
void put(Bytes& out, const T& value) {
    const auto* at = reinterpret_cast<const std::byte*>(&value);
    out.insert(out.end(), at, at + sizeof value);
}

void put_text(Bytes& out, std::string_view text) {
    put(out, static_cast<uint64_t>(text.size()));
    const auto* at = reinterpret_cast<const std::byte*>(text.data());
    out.insert(out.end(), at, at + text.size());
}

template <typename T>
Bytes one(const T& value) {
    Bytes out;
    put(out, value);
    return out;
}

template <typename T>
Bytes array(uint32_t type, const std::vector<T>& values) {
    Bytes out;
    put(out, type);
    put(out, static_cast<uint64_t>(values.size()));
    for (const auto& value : values) {
        if constexpr (std::is_same_v<T, std::string>)
            put_text(out, value);
        else if constexpr (std::is_same_v<T, bool>)
            put(out, static_cast<uint8_t>(value ? 1 : 0));
        else
            put(out, value);
    }
    return out;
}

void pad(Bytes& out, size_t alignment) {
    if (alignment > 0)
        out.resize((out.size() + alignment - 1) / alignment * alignment);
}

} // namespace

GgufWriter& GgufWriter::raw(std::string_view key, uint32_t type, std::span<const std::byte> value) {
    fields_.push_back({std::string(key), type, {value.begin(), value.end()}});
    return *this;
}

GgufWriter& GgufWriter::u8(std::string_view key, uint8_t value) {
    return raw(key, 0, one(value));
}
GgufWriter& GgufWriter::i8(std::string_view key, int8_t value) {
    return raw(key, 1, one(value));
}
GgufWriter& GgufWriter::u16(std::string_view key, uint16_t value) {
    return raw(key, 2, one(value));
}
GgufWriter& GgufWriter::i16(std::string_view key, int16_t value) {
    return raw(key, 3, one(value));
}
GgufWriter& GgufWriter::u32(std::string_view key, uint32_t value) {
    return raw(key, 4, one(value));
}
GgufWriter& GgufWriter::i32(std::string_view key, int32_t value) {
    return raw(key, 5, one(value));
}
GgufWriter& GgufWriter::f32(std::string_view key, float value) {
    return raw(key, 6, one(value));
}
GgufWriter& GgufWriter::boolean(std::string_view key, bool value) {
    return raw(key, 7, one(static_cast<uint8_t>(value ? 1 : 0)));
}
GgufWriter& GgufWriter::string(std::string_view key, std::string_view value) {
    Bytes out;
    put_text(out, value);
    return raw(key, 8, out);
}
GgufWriter& GgufWriter::u64(std::string_view key, uint64_t value) {
    return raw(key, 10, one(value));
}
GgufWriter& GgufWriter::i64(std::string_view key, int64_t value) {
    return raw(key, 11, one(value));
}
GgufWriter& GgufWriter::f64(std::string_view key, double value) {
    return raw(key, 12, one(value));
}
GgufWriter& GgufWriter::u8s(std::string_view key, const std::vector<uint8_t>& values) {
    return raw(key, 9, array(0, values));
}
GgufWriter& GgufWriter::u32s(std::string_view key, const std::vector<uint32_t>& values) {
    return raw(key, 9, array(4, values));
}
GgufWriter& GgufWriter::i32s(std::string_view key, const std::vector<int32_t>& values) {
    return raw(key, 9, array(5, values));
}
GgufWriter& GgufWriter::f32s(std::string_view key, const std::vector<float>& values) {
    return raw(key, 9, array(6, values));
}
GgufWriter& GgufWriter::booleans(std::string_view key, const std::vector<bool>& values) {
    return raw(key, 9, array(7, values));
}
GgufWriter& GgufWriter::strings(std::string_view key, const std::vector<std::string>& values) {
    return raw(key, 9, array(8, values));
}

GgufWriter& GgufWriter::tensor(std::string_view name, const std::vector<int64_t>& shape,
                               kernels::TensorType type, std::vector<std::byte> bytes) {
    Tensor tensor;
    tensor.name = name;
    tensor.dims.assign(shape.rbegin(), shape.rend());
    tensor.type = static_cast<uint32_t>(type);
    if (!tensors_.empty()) {
        const uint64_t end = tensors_.back().offset + tensors_.back().bytes.size();
        tensor.offset = (end + alignment - 1) / alignment * alignment;
    }
    tensor.bytes = std::move(bytes);
    tensors_.push_back(std::move(tensor));
    return *this;
}

GgufWriter& GgufWriter::tensor(std::string_view name, const std::vector<int64_t>& shape,
                               std::span<const float> values) {
    const auto bytes = std::as_bytes(values);
    return tensor(name, shape, kernels::TensorType::F32, {bytes.begin(), bytes.end()});
}

GgufWriter& GgufWriter::drop(std::string_view key) {
    std::erase_if(fields_, [&](const Field& field) { return field.key == key; });
    return *this;
}

GgufWriter& GgufWriter::drop_tensor(std::string_view name) {
    std::erase_if(tensors_, [&](const Tensor& tensor) { return tensor.name == name; });
    uint64_t end = 0;
    for (Tensor& tensor : tensors_) {
        tensor.offset = end;
        end = (end + tensor.bytes.size() + alignment - 1) / alignment * alignment;
    }
    return *this;
}

std::vector<std::byte> GgufWriter::bytes() const {
    Bytes out;
    for (const char letter : {'G', 'G', 'U', 'F'})
        put(out, letter);
    put(out, version);
    put(out, static_cast<uint64_t>(tensors_.size()));
    put(out, static_cast<uint64_t>(fields_.size()));
    for (const Field& field : fields_) {
        put_text(out, field.key);
        put(out, field.type);
        out.insert(out.end(), field.value.begin(), field.value.end());
    }
    for (const Tensor& tensor : tensors_) {
        put_text(out, tensor.name);
        put(out, static_cast<uint32_t>(tensor.dims.size()));
        for (const uint64_t size : tensor.dims)
            put(out, size);
        put(out, tensor.type);
        put(out, tensor.offset);
    }
    pad(out, alignment);
    for (const Tensor& tensor : tensors_) {
        out.insert(out.end(), tensor.bytes.begin(), tensor.bytes.end());
        pad(out, alignment);
    }
    return out;
}

void GgufWriter::write(const std::filesystem::path& path) const {
    write_file(path, bytes());
}

void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush())
        throw std::runtime_error("cannot write the test file " + path.string());
}

} // namespace orrery::test
