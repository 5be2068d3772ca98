#include "engine/model/gguf_part.h"

#include "engine/model/file_kind.h"
#include "engine/model/wording.h"
#include "engine/text/utf8.h"
#include "kernels/error.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>

namespace orrery {

static_assert(std::endian::native == std::endian::little,
              "GGUF is read as little endian, byte by byte as it lies");

namespace {

// The specification's limits.
constexpr uint64_t max_key_bytes = 65535;
constexpr uint64_t max_tensor_name_bytes = 64;
constexpr uint32_t max_dimensions = 4;
constexpr uint64_t default_alignment = 32;
constexpr int64_t max_alignment = int64_t{1} << 30; // ours: keeps sums far from overflow

// The least that an entry can take in a file: bounds for counts.
constexpr uint64_t min_field_bytes = 8 + 1 + 4 + 1;      // key's length, key, type, a byte
constexpr uint64_t min_tensor_bytes = 8 + 1 + 4 + 4 + 8; // name's length, name, dimensions, type, offset

enum class FieldType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

uint64_t min_bytes(FieldType type) {
    switch (type) {
    case FieldType::u8:
    case FieldType::i8:
    case FieldType::boolean:
        return 1;
    case FieldType::u16:
    case FieldType::i16:
        return 2;
    case FieldType::u32:
    case FieldType::i32:
    case FieldType::f32:
        return 4;
    default:
        return 8;
    }
}

/// Whether a name can be shown and compared safely.
bool printable_utf8(std::string_view text) {
    const auto control = [](char letter) { return static_cast<uint8_t>(letter) < 0x20 || letter == 0x7f; };
    return utf8::is_valid(text) && std::ranges::none_of(text, control);
}

/// Reads the header front to back. `what` names the thing being read for errors.
class Cursor {
public:
    Cursor(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

    uint64_t position() const { return position_; }
    uint64_t left() const { return bytes_.size() - position_; }

    [[noreturn]] void fail(const std::string& sentence) const { throw Error(name_ + ": " + sentence); }

    template <typename T>
    T number(const std::string& what) {
        T value;
        std::memcpy(&value, take(sizeof(T), what), sizeof(T));
        return value;
    }

    std::string_view text(uint64_t limit, const std::string& what) {
        const auto length = number<uint64_t>(what);
        if (length > limit)
            fail(what + " at byte " + grouped(position_) + " is " + grouped(length) +
                 " bytes long; at most " + grouped(limit) + " are allowed.");
        return {reinterpret_cast<const char*>(take(length, what)), static_cast<size_t>(length)};
    }

    /// A name that is shown to people and compared: not empty, printable.
    std::string identifier(uint64_t limit, const std::string& what) {
        const uint64_t start = position_;
        const std::string_view name = text(limit, what);
        if (name.empty())
            fail(what + " at byte " + grouped(start) + " is empty.");
        if (!printable_utf8(name))
            fail(what + " at byte " + grouped(start) + " is no printable UTF-8 text. The file is damaged.");
        return std::string(name);
    }

    /// Throws where `count` entries of at least `each` bytes cannot follow.
    void check_count(uint64_t count, uint64_t each, const std::string& what) const {
        if (count > left() / each)
            fail("the header promises " + grouped(count) + " " + what + ", but the file has only " +
                 grouped(left()) +
                 " bytes left for them: it was probably not downloaded completely, or it is "
                 "damaged.");
    }

private:
    const std::byte* take(uint64_t count, const std::string& what) {
        if (count > left())
            fail("the file ends at byte " + grouped(bytes_.size()) + ", but " + what + " takes " +
                 grouped(count) + " bytes from byte " + grouped(position_) +
                 ": it was probably not downloaded completely, or it is damaged.");
        const std::byte* at = bytes_.data() + position_;
        position_ += count;
        return at;
    }

    std::span<const std::byte> bytes_;
    const std::string& name_;
    uint64_t position_ = 0;
};

// --- metadata

template <typename Out, typename In>
GgufValue::Array numbers(Cursor& in, uint64_t count, const std::string& what) {
    std::vector<Out> values(count);
    for (Out& value : values)
        value = in.number<In>(what);
    return values;
}

bool read_bool(Cursor& in, const std::string& what) {
    const auto byte = in.number<uint8_t>(what);
    if (byte > 1)
        in.fail(what + " is a truth value of " + std::to_string(byte) + "; only 0 and 1 are allowed.");
    return byte == 1;
}

GgufValue::Array read_array(Cursor& in, const std::string& what) {
    const auto id = in.number<uint32_t>("the element type of " + what);
    const auto count = in.number<uint64_t>("the length of " + what);
    const auto type = static_cast<FieldType>(id);
    if (type == FieldType::array)
        in.fail(what + " is an array of arrays, which no model needs and this program does not read.");
    if (type > FieldType::f64)
        in.fail(what + " is an array of type " + grouped(id) + "; types go from 0 to 12.");
    in.check_count(count, min_bytes(type), "elements of " + what);
    switch (type) {
    case FieldType::u8:
        return numbers<uint64_t, uint8_t>(in, count, what);
    case FieldType::i8:
        return numbers<int64_t, int8_t>(in, count, what);
    case FieldType::u16:
        return numbers<uint64_t, uint16_t>(in, count, what);
    case FieldType::i16:
        return numbers<int64_t, int16_t>(in, count, what);
    case FieldType::u32:
        return numbers<uint64_t, uint32_t>(in, count, what);
    case FieldType::i32:
        return numbers<int64_t, int32_t>(in, count, what);
    case FieldType::u64:
        return numbers<uint64_t, uint64_t>(in, count, what);
    case FieldType::i64:
        return numbers<int64_t, int64_t>(in, count, what);
    case FieldType::f32:
        return numbers<double, float>(in, count, what);
    case FieldType::f64:
        return numbers<double, double>(in, count, what);
    case FieldType::boolean: {
        std::vector<bool> values(count);
        for (uint64_t i = 0; i < count; ++i)
            values[i] = read_bool(in, what);
        return values;
    }
    default: {
        std::vector<std::string> values;
        values.reserve(count);
        for (uint64_t i = 0; i < count; ++i)
            values.emplace_back(in.text(std::numeric_limits<uint64_t>::max(), what));
        return values;
    }
    }
}

GgufValue read_value(Cursor& in, const std::string& what) {
    const auto id = in.number<uint32_t>("the type of " + what);
    switch (static_cast<FieldType>(id)) {
    case FieldType::u8:
        return {uint64_t{in.number<uint8_t>(what)}};
    case FieldType::i8:
        return {int64_t{in.number<int8_t>(what)}};
    case FieldType::u16:
        return {uint64_t{in.number<uint16_t>(what)}};
    case FieldType::i16:
        return {int64_t{in.number<int16_t>(what)}};
    case FieldType::u32:
        return {uint64_t{in.number<uint32_t>(what)}};
    case FieldType::i32:
        return {int64_t{in.number<int32_t>(what)}};
    case FieldType::u64:
        return {in.number<uint64_t>(what)};
    case FieldType::i64:
        return {in.number<int64_t>(what)};
    case FieldType::f32:
        return {double{in.number<float>(what)}};
    case FieldType::f64:
        return {in.number<double>(what)};
    case FieldType::boolean:
        return {read_bool(in, what)};
    case FieldType::string:
        return {std::string(in.text(std::numeric_limits<uint64_t>::max(), what))};
    case FieldType::array:
        return {read_array(in, what)};
    }
    in.fail(what + " is of type " + grouped(id) + "; types go from 0 to 12.");
}

// --- tensors

/// What the header says about a tensor; offsets are relative to the data section until it is known.
struct Extent {
    uint64_t offset = 0;
    uint64_t bytes = 0;
};

uint64_t checked_product(uint64_t a, uint64_t b, uint64_t limit) {
    return b != 0 && a > limit / b ? 0 : a * b; // 0: it does not fit
}

std::pair<GgufTensor, Extent> read_tensor(Cursor& in) {
    GgufTensor tensor;
    tensor.name = in.identifier(max_tensor_name_bytes, "the name of a tensor");
    const std::string what = "the tensor '" + tensor.name + "'";
    const auto dimensions = in.number<uint32_t>(what);
    if (dimensions > max_dimensions)
        in.fail(what + " has " + grouped(dimensions) + " dimensions; at most 4 are allowed.");
    // Elements and bytes are kept below 2^62, so that sums of two of them never overflow.
    constexpr uint64_t limit = uint64_t{1} << 62;
    uint64_t elements = 1;
    for (uint32_t i = 0; i < dimensions; ++i) {
        const auto size = in.number<uint64_t>(what);
        elements = checked_product(elements, size, limit);
        if (size == 0 || elements == 0)
            in.fail(what + " has " + grouped(size) + " elements in dimension " + std::to_string(i) +
                    (size == 0 ? "." : ", more in all than any memory holds."));
        tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
    }
    if (tensor.shape.empty())
        tensor.shape = {1};
    const auto type = in.number<uint32_t>(what);
    const kernels::TensorTypeInfo* layout = kernels::tensor_type_info(type);
    if (!layout)
        in.fail(what + " is of type " + grouped(type) + ", a weight format that this program does not know.");
    tensor.type = static_cast<kernels::TensorType>(type);
    const auto columns = static_cast<uint64_t>(tensor.shape.back());
    if (columns % layout->block_elements != 0)
        in.fail(what + " has rows of " + grouped(columns) + " elements; its type " + layout->name +
                " packs them in blocks of " + std::to_string(layout->block_elements) + ".");
    const uint64_t bytes = checked_product(elements / layout->block_elements, layout->block_bytes, limit);
    if (bytes == 0)
        in.fail(what + " has the shape " + shape_text(tensor.shape) + ", more than any memory holds.");
    return {std::move(tensor), {in.number<uint64_t>(what), bytes}};
}

/// Checks where tensors lie and gives them their bytes. `data` is the file from the data section on.
void place(Cursor& in, std::vector<GgufTensor>& tensors, const std::vector<Extent>& extents,
           uint64_t alignment, std::span<const std::byte> bytes) {
    const uint64_t start = (in.position() + alignment - 1) / alignment * alignment;
    std::vector<size_t> order(tensors.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return extents[a].offset < extents[b].offset; });

    constexpr uint64_t limit = uint64_t{1} << 62;
    uint64_t end = 0; // of the tensors so far, relative to the data section
    bool gapless = true;
    const GgufTensor* before = nullptr;
    for (const size_t i : order) {
        const auto [offset, size] = extents[i];
        const std::string what = "the tensor '" + tensors[i].name + "'";
        if (offset % alignment != 0)
            in.fail(what + " begins at offset " + grouped(offset) +
                    ", which is no multiple of the file's alignment, " + grouped(alignment) + ".");
        if (offset > limit)
            in.fail(what + " begins at offset " + grouped(offset) + ", beyond the end of any file.");
        if (before && offset < end)
            in.fail(what + " begins at offset " + grouped(offset) + ", inside of the tensor '" +
                    before->name + "', which ends at " + grouped(end) + ".");
        gapless = gapless && offset == (end + alignment - 1) / alignment * alignment;
        end = offset + size;
        before = &tensors[i];
        // A file whose tensors follow each other without a gap and that ends too early was cut off: the
        // sentence below says so once for all. A lone tensor far away is damage.
        if (!gapless && (start > bytes.size() || end > bytes.size() - start))
            in.fail(what + " lies at bytes " + grouped(start + offset) + " to " + grouped(start + end) +
                    ", but the file has only " + grouped(bytes.size()) + ". The file is damaged.");
    }
    if (!tensors.empty() && (start > bytes.size() || end > bytes.size() - start))
        in.fail("the file ends at byte " + grouped(bytes.size()) + "; its header promises " +
                grouped(start + end) + ": it was probably not downloaded completely.");
    for (size_t i = 0; i < tensors.size(); ++i)
        tensors[i].bytes = bytes.subspan(start + extents[i].offset, extents[i].bytes);
}

uint32_t read_version(Cursor& in, std::span<const std::byte> bytes) {
    constexpr std::string_view magic = "GGUF";
    if (bytes.size() < magic.size() || std::memcmp(bytes.data(), magic.data(), magic.size()) != 0)
        in.fail(foreign_file_sentence(bytes));
    in.number<std::array<char, magic.size()>>("the mark of a GGUF file");
    const auto version = in.number<uint32_t>("the version");
    if (version != 0 && (version & 0xffff) == 0)
        in.fail(
            "the file is in big-endian byte order, for other machines than this one. A little-endian file of "
            "the same model is needed.");
    if (version != 2 && version != 3)
        in.fail("the file is of GGUF version " + grouped(version) + "; versions 2 and 3 can be read." +
                (version > 3 ? " A newer version of this program may read it." : ""));
    return version;
}

} // namespace

std::optional<int64_t> as_int(const GgufValue& value) {
    if (const auto* number = std::get_if<int64_t>(&value.value))
        return *number;
    if (const auto* number = std::get_if<uint64_t>(&value.value))
        if (*number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
            return static_cast<int64_t>(*number);
    return std::nullopt;
}

GgufPart::GgufPart(std::span<const std::byte> bytes, std::string part_name) : name(std::move(part_name)) {
    Cursor in(bytes, name);
    version = read_version(in, bytes);
    const auto tensor_count = in.number<uint64_t>("the number of tensors");
    const auto field_count = in.number<uint64_t>("the number of fields");

    in.check_count(field_count, min_field_bytes, "fields");
    metadata.reserve(field_count);
    std::set<std::string_view> seen;
    uint64_t alignment = default_alignment;
    for (uint64_t i = 0; i < field_count; ++i) {
        std::string key = in.identifier(max_key_bytes, "the name of a field");
        const std::string what = "the field '" + key + "'";
        metadata.emplace_back(std::move(key), read_value(in, what));
        const auto& [name_of_field, value] = metadata.back(); // reserved: it stays where it is
        if (!seen.insert(name_of_field).second)
            in.fail(what + " is there twice.");
        if (name_of_field == "general.alignment") {
            const auto number = as_int(value);
            if (!number || *number < 1 || *number > max_alignment ||
                !std::has_single_bit(static_cast<uint64_t>(*number)))
                in.fail(what + " is " + (number ? std::to_string(*number) : "no integer") +
                        "; it has to be a power of two of at most one GiB.");
            alignment = static_cast<uint64_t>(*number);
        }
    }

    in.check_count(tensor_count, min_tensor_bytes, "tensors");
    tensors.reserve(tensor_count);
    std::vector<Extent> extents;
    extents.reserve(tensor_count);
    seen.clear();
    for (uint64_t i = 0; i < tensor_count; ++i) {
        auto [tensor, extent] = read_tensor(in);
        tensors.push_back(std::move(tensor));
        extents.push_back(extent);
        if (!seen.insert(tensors.back().name).second)
            in.fail("the tensor '" + tensors.back().name + "' is there twice.");
    }
    place(in, tensors, extents, alignment, bytes);
}

} // namespace orrery
