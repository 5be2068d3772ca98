#include "engine/model/gguf.h"

#include "engine/model/gguf_part.h"
#include "engine/model/wording.h"
#include "engine/platform/mapped_file.h"
#include "engine/platform/paths.h"
#include "kernels/error.h"

#include <algorithm>
#include <cstdio>

namespace orrery {

using platform::from_utf8;
using platform::MappedFile;
using platform::to_utf8;

namespace {

// What a split file says about itself, as llama.cpp's splitter writes it.
constexpr std::string_view split_number = "split.no";
constexpr std::string_view split_count = "split.count";
constexpr std::string_view split_tensors = "split.tensors.count";
// More parts than a name of the form NAME-00001-of-00003.gguf can count.
constexpr int64_t max_parts = 99999;

std::string part_suffix(int64_t number, int64_t count) {
    char text[32];
    std::snprintf(text, sizeof text, "-%05d-of-%05d.gguf", static_cast<int>(number + 1),
                  static_cast<int>(count));
    return text;
}

const GgufValue* find_in(const GgufPart& part, std::string_view key) {
    for (const auto& [name, value] : part.metadata)
        if (name == key)
            return &value;
    return nullptr;
}

/// An integer field of a split file, within [least, most].
int64_t split_field(const GgufPart& part, std::string_view key, int64_t least, int64_t most) {
    const GgufValue* value = find_in(part, key);
    const auto number = value ? as_int(*value) : std::nullopt;
    if (!number || *number < least || *number > most)
        throw Error(part.name + ": the field '" + std::string(key) + "' " +
                    (!value    ? "is missing"
                     : !number ? "is no integer"
                               : "is " + std::to_string(*number)) +
                    "; a file that is one of several needs a number from " + std::to_string(least) + " to " +
                    std::to_string(most) + " there.");
    return *number;
}

/// Parts of the whole model; 1 for a file that stands alone.
int64_t parts_of(const GgufPart& part) {
    return find_in(part, split_count) ? split_field(part, split_count, 1, max_parts) : 1;
}

const char* kind_of(const GgufValue& value) {
    struct Visitor {
        const char* operator()(int64_t) const { return "an integer"; }
        const char* operator()(uint64_t) const { return "an integer"; }
        const char* operator()(double) const { return "a number with a fraction"; }
        const char* operator()(bool) const { return "a truth value"; }
        const char* operator()(const std::string&) const { return "a text"; }
        const char* operator()(const GgufValue::Array& array) const {
            return std::holds_alternative<std::vector<std::string>>(array) ? "a list of texts"
                                                                           : "a list of numbers";
        }
    };
    return std::visit(Visitor{}, value.value);
}

} // namespace

int64_t GgufTensor::elements() const {
    int64_t count = 1;
    for (const int64_t size : shape)
        count *= size; // the reader has checked that it fits
    return count;
}

struct GgufFile::Impl {
    std::filesystem::path path;
    std::string name; ///< in errors
    uint32_t version = 0;
    size_t file_bytes = 0;
    std::vector<MappedFile> files;
    std::vector<std::pair<std::string, GgufValue>> metadata;
    std::vector<GgufTensor> tensors;
    std::map<std::string_view, const GgufValue*> fields;
    std::map<std::string_view, const GgufTensor*> tensor_names;

    [[noreturn]] void fail(std::string_view key, const std::string& what) const {
        throw Error(name + ": the field '" + std::string(key) + "' " + what + ".");
    }

    const GgufValue& need(std::string_view key) const {
        const auto it = fields.find(key);
        if (it == fields.end())
            fail(key, "is missing");
        return *it->second;
    }

    template <typename T>
    const T& as(std::string_view key, const GgufValue& value, const char* wanted) const {
        if (const T* typed = std::get_if<T>(&value.value))
            return *typed;
        fail(key, std::string("is ") + kind_of(value) + " where " + wanted + " is needed");
    }

    int64_t integer(std::string_view key, const GgufValue& value) const {
        if (const auto number = as_int(value))
            return *number;
        if (const auto* number = std::get_if<uint64_t>(&value.value))
            fail(key, "is " + grouped(*number) + ", too large a number");
        fail(key, std::string("is ") + kind_of(value) + " where an integer is needed");
    }

    double real(std::string_view key, const GgufValue& value) const {
        if (const auto* number = std::get_if<double>(&value.value))
            return *number;
        if (const auto* number = std::get_if<int64_t>(&value.value))
            return static_cast<double>(*number);
        if (const auto* number = std::get_if<uint64_t>(&value.value))
            return static_cast<double>(*number);
        fail(key, std::string("is ") + kind_of(value) + " where a number is needed");
    }

    /// Takes over what a part holds.
    void add(GgufPart&& part, size_t bytes) {
        file_bytes += bytes;
        if (metadata.empty() && tensors.empty() && version == 0) {
            version = part.version;
            metadata = std::move(part.metadata);
            tensors = std::move(part.tensors);
        } else {
            for (GgufTensor& tensor : part.tensors)
                tensors.push_back(std::move(tensor));
        }
    }

    void check_intact() const {
        if (std::ranges::any_of(files, [](const MappedFile& file) { return file.changed(); }))
            throw Error(name + " was changed or cut while it was open: load it again.");
    }

    /// Once everything has been added.
    void make_index() {
        for (const auto& [key, value] : metadata)
            fields.emplace(key, &value);
        for (const GgufTensor& tensor : tensors)
            if (!tensor_names.emplace(tensor.name, &tensor).second)
                throw Error(name + ": the tensor '" + tensor.name + "' is there twice.");
    }
};

GgufFile::GgufFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GgufFile::~GgufFile() = default;

std::shared_ptr<const GgufFile> GgufFile::parse(std::span<const std::byte> bytes, const std::string& name) {
    auto impl = std::make_unique<Impl>();
    impl->path = from_utf8(name);
    impl->name = name;
    GgufPart part(bytes, name);
    if (const int64_t count = parts_of(part); count > 1)
        throw Error(name + ": this is one of " + grouped(static_cast<uint64_t>(count)) +
                    " files of a model; it can only be opened together with the others.");
    impl->add(std::move(part), bytes.size());
    impl->make_index();
    return std::shared_ptr<const GgufFile>(new GgufFile(std::move(impl)));
}

std::shared_ptr<const GgufFile> GgufFile::open(const std::filesystem::path& path) {
    auto impl = std::make_unique<Impl>();
    impl->path = path;
    impl->name = to_utf8(path);
    try {
        read_files(*impl, path);
    } catch (const Error&) {
        impl->check_intact(); // then nothing else is to be said about it
        throw;
    }
    impl->make_index();
    return std::shared_ptr<const GgufFile>(new GgufFile(std::move(impl)));
}

/// Reads a file and, where it is one of several, all of them.
void GgufFile::read_files(Impl& impl, const std::filesystem::path& path) {
    impl.files.emplace_back(path);
    GgufPart opened(impl.files.back().bytes(), to_utf8(path));
    const int64_t count = parts_of(opened);
    if (count == 1)
        return impl.add(std::move(opened), impl.files.back().size());

    // One of several: all of them lie in the same folder under numbered names. The first holds the metadata.
    const int64_t number = split_field(opened, split_number, 0, count - 1);
    const std::string file_name = to_utf8(path.filename());
    const std::string suffix = part_suffix(number, count);
    if (!file_name.ends_with(suffix))
        throw Error(to_utf8(path) + ": this is file " + std::to_string(number + 1) + " of " +
                    std::to_string(count) + " of a model, so its name has to end with '" + suffix +
                    "' for the others to be found.");
    const std::string stem = file_name.substr(0, file_name.size() - suffix.size());
    impl.files.clear();
    uint64_t promised = 0;
    for (int64_t i = 0; i < count; ++i) {
        const std::filesystem::path sibling = path.parent_path() / from_utf8(stem + part_suffix(i, count));
        if (i == 0)
            impl.path = sibling;
        impl.files.emplace_back(sibling);
        GgufPart part(impl.files.back().bytes(), to_utf8(sibling));
        split_field(part, split_count, count, count);
        split_field(part, split_number, i, i);
        if (i == 0 && find_in(part, split_tensors))
            promised = static_cast<uint64_t>(split_field(part, split_tensors, 0, INT32_MAX));
        impl.add(std::move(part), impl.files.back().size());
    }
    if (promised != 0 && promised != impl.tensors.size())
        throw Error(impl.name + ": the " + std::to_string(count) + " files of the model hold " +
                    grouped(impl.tensors.size()) + " tensors together; their field '" +
                    std::string(split_tensors) + "' promises " + grouped(promised) + ".");
}

const std::filesystem::path& GgufFile::path() const {
    return impl_->path;
}

uint32_t GgufFile::version() const {
    return impl_->version;
}

size_t GgufFile::file_bytes() const {
    return impl_->file_bytes;
}

const std::vector<std::pair<std::string, GgufValue>>& GgufFile::metadata() const {
    return impl_->metadata;
}

const std::vector<GgufTensor>& GgufFile::tensors() const {
    return impl_->tensors;
}

const GgufValue* GgufFile::find(std::string_view key) const {
    const auto it = impl_->fields.find(key);
    return it == impl_->fields.end() ? nullptr : it->second;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
    const auto it = impl_->tensor_names.find(name);
    return it == impl_->tensor_names.end() ? nullptr : it->second;
}

void GgufFile::check_intact() const {
    impl_->check_intact();
}

void GgufFile::prefetch(const GgufTensor& tensor) const {
    for (const MappedFile& file : impl_->files) {
        const std::span<const std::byte> all = file.bytes();
        const std::less_equal<const std::byte*> before;
        if (!all.empty() && before(all.data(), tensor.bytes.data()) &&
            before(tensor.bytes.data(), all.data() + all.size() - 1))
            file.advise(MappedFile::Advice::will_need, static_cast<size_t>(tensor.bytes.data() - all.data()),
                        tensor.bytes.size());
    }
}

std::string GgufFile::get_string(std::string_view key) const {
    return impl_->as<std::string>(key, impl_->need(key), "a text");
}

std::string GgufFile::get_string(std::string_view key, const std::string& otherwise) const {
    return find(key) ? get_string(key) : otherwise;
}

int64_t GgufFile::get_int(std::string_view key) const {
    return impl_->integer(key, impl_->need(key));
}

int64_t GgufFile::get_int(std::string_view key, int64_t otherwise) const {
    return find(key) ? get_int(key) : otherwise;
}

double GgufFile::get_float(std::string_view key) const {
    return impl_->real(key, impl_->need(key));
}

double GgufFile::get_float(std::string_view key, double otherwise) const {
    return find(key) ? get_float(key) : otherwise;
}

bool GgufFile::get_bool(std::string_view key, bool otherwise) const {
    const GgufValue* value = find(key);
    return value ? impl_->as<bool>(key, *value, "a truth value") : otherwise;
}

const std::vector<std::string>& GgufFile::get_strings(std::string_view key) const {
    static const std::vector<std::string> none;
    const GgufValue* value = find(key);
    if (!value)
        return none;
    const auto& array = impl_->as<GgufValue::Array>(key, *value, "a list of texts");
    if (const auto* texts = std::get_if<std::vector<std::string>>(&array))
        return *texts;
    impl_->fail(key, "is a list of numbers where a list of texts is needed");
}

std::vector<int64_t> GgufFile::get_ints(std::string_view key) const {
    const GgufValue* value = find(key);
    if (!value)
        return {};
    if (!std::holds_alternative<GgufValue::Array>(value->value))
        return {impl_->integer(key, *value)};
    struct Visitor {
        const Impl& impl;
        std::string_view key;
        std::vector<int64_t> operator()(const std::vector<int64_t>& array) const { return array; }
        std::vector<int64_t> operator()(const std::vector<uint64_t>& array) const {
            for (const uint64_t number : array)
                if (number > static_cast<uint64_t>(INT64_MAX))
                    impl.fail(key, "holds " + grouped(number) + ", too large a number");
            return {array.begin(), array.end()};
        }
        std::vector<int64_t> operator()(const std::vector<bool>& array) const {
            return {array.begin(), array.end()};
        }
        std::vector<int64_t> operator()(const std::vector<double>&) const {
            impl.fail(key, "is a list of numbers with fractions where integers are needed");
        }
        std::vector<int64_t> operator()(const std::vector<std::string>&) const {
            impl.fail(key, "is a list of texts where integers are needed");
        }
    };
    return std::visit(Visitor{*impl_, key}, std::get<GgufValue::Array>(value->value));
}

std::vector<double> GgufFile::get_floats(std::string_view key) const {
    const GgufValue* value = find(key);
    if (!value)
        return {};
    if (!std::holds_alternative<GgufValue::Array>(value->value))
        return {impl_->real(key, *value)};
    struct Visitor {
        const Impl& impl;
        std::string_view key;
        std::vector<double> operator()(const std::vector<double>& array) const { return array; }
        std::vector<double> operator()(const std::vector<int64_t>& array) const {
            return {array.begin(), array.end()};
        }
        std::vector<double> operator()(const std::vector<uint64_t>& array) const {
            return {array.begin(), array.end()};
        }
        std::vector<double> operator()(const std::vector<bool>&) const {
            impl.fail(key, "is a list of truth values where numbers are needed");
        }
        std::vector<double> operator()(const std::vector<std::string>&) const {
            impl.fail(key, "is a list of texts where numbers are needed");
        }
    };
    return std::visit(Visitor{*impl_, key}, std::get<GgufValue::Array>(value->value));
}

std::vector<bool> GgufFile::get_bools(std::string_view key) const {
    const GgufValue* value = find(key);
    if (!value || !std::holds_alternative<GgufValue::Array>(value->value))
        return {};
    const auto& array = std::get<GgufValue::Array>(value->value);
    if (const auto* bools = std::get_if<std::vector<bool>>(&array))
        return *bools;
    impl_->fail(key, "is a list where a list of truth values is needed");
}

} // namespace orrery
