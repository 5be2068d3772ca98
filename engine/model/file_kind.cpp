#include "engine/model/file_kind.h"

#include "engine/model/wording.h"
#include "engine/text/utf8.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace orrery {
namespace {

using namespace std::string_view_literals;

// Enough of a file to tell a text from other bytes.
constexpr size_t beginning_bytes = 1024;

// What safetensors allows for its header (its own limit is 100 MB).
constexpr uint64_t max_safetensors_header = 100'000'000;

struct Mark {
    std::string_view bytes;
    const char* sentence;
};

constexpr const char* zip_sentence =
    "this is a zip archive, as PyTorch writes its checkpoints; a GGUF file of the same model is needed.";
constexpr const char* packed_sentence =
    "this is a compressed archive; the GGUF file in it has to be unpacked first.";
constexpr const char* older_sentence =
    "this is a model of a format that came before GGUF; a GGUF file of the same model is needed.";
constexpr const char* pickle_sentence =
    "this is a Python pickle, as PyTorch writes its checkpoints; a GGUF file of the same model is needed.";

constexpr Mark marks[] = {
    {"PK\x03\x04"sv, zip_sentence},
    {"PK\x05\x06"sv, zip_sentence},
    {"\x80\x02"sv, pickle_sentence},
    {"\x80\x03"sv, pickle_sentence},
    {"\x80\x04"sv, pickle_sentence},
    {"\x80\x05"sv, pickle_sentence},
    {"\x1F\x8B"sv, packed_sentence},
    {"\xFD"
     "7zXZ\0"sv,
     packed_sentence},
    {"\x28\xB5\x2F\xFD"sv, packed_sentence},
    {"BZh"sv, packed_sentence},
    {"7z\xBC\xAF\x27\x1C"sv, packed_sentence},
    {"Rar!\x1A"sv, packed_sentence},
    {"lmgg"sv, older_sentence}, // ggml, ggmf, ggjt and ggla as little-endian numbers
    {"fmgg"sv, older_sentence},
    {"tjgg"sv, older_sentence},
    {"algg"sv, older_sentence},
    {"\x89HDF\r\n\x1A\n"sv,
     "this is an HDF5 file, as Keras writes its models; a GGUF file of the same model is needed."},
};

bool begins_with(std::string_view text, std::string_view lower_case) {
    return text.size() >= lower_case.size() &&
           std::equal(lower_case.begin(), lower_case.end(), text.begin(), [](char wanted, char c) {
               return wanted == (c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
           });
}

/// Whether the bytes begin with the length of a header and a JSON object of at most that length.
bool is_safetensors(std::string_view bytes) {
    if (bytes.size() < 10 || bytes[8] != '{')
        return false;
    uint64_t length = 0;
    for (size_t i = 8; i-- > 0;)
        length = length << 8 | static_cast<uint8_t>(bytes[i]);
    return length >= 2 && length <= max_safetensors_header;
}

/// The size of the file that a Git LFS pointer stands for.
std::optional<uint64_t> size_in_pointer(std::string_view text) {
    const size_t at = text.find("\nsize ");
    if (at == std::string_view::npos)
        return std::nullopt;
    uint64_t size = 0;
    const char* begin = text.data() + at + 6;
    const auto [end, failure] = std::from_chars(begin, text.data() + text.size(), size);
    return failure == std::errc() && end != begin ? std::optional(size) : std::nullopt;
}

bool is_text(std::string_view beginning) {
    std::string repaired;
    const size_t whole = utf8::append_repaired(repaired, beginning, false);
    return utf8::is_valid(beginning.substr(0, whole)) && std::ranges::none_of(beginning, [](char c) {
               return static_cast<uint8_t>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f';
           });
}

} // namespace

std::string foreign_file_sentence(std::span<const std::byte> bytes) {
    const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::string_view beginning = all.substr(0, beginning_bytes);
    if (all.empty())
        return "the file is empty: it was probably not downloaded completely.";
    if ("GGUF"sv.starts_with(all))
        return "the file ends after " + byte_text(all.size()) +
               ": it was probably not downloaded completely.";
    if (std::ranges::all_of(beginning, [](char c) { return c == 0; }))
        return "the file begins with zeros: it was probably not downloaded completely.";
    if (all.starts_with("version https://git-lfs.github.com/spec/")) {
        const auto size = size_in_pointer(beginning);
        return "this is a Git LFS pointer, which stands for the model" +
               (size ? " of " + byte_text(*size) : std::string()) +
               "; 'git lfs pull' brings the model itself.";
    }
    for (const Mark& mark : marks)
        if (all.starts_with(mark.bytes))
            return mark.sentence;
    if (is_safetensors(all))
        return "this is a safetensors file; a GGUF file of the same model is needed.";
    if (all.size() > 262 && all.substr(257, 5) == "ustar")
        return packed_sentence;

    std::string_view text = beginning;
    if (text.starts_with("\xEF\xBB\xBF")) // a byte order mark
        text.remove_prefix(3);
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    for (const std::string_view tag : {"<!doctype html", "<html", "<head", "<body"})
        if (begins_with(text, tag))
            return "this is an HTML page, not a model: the download has probably brought a message instead, "
                   "which a "
                   "browser shows.";
    if (begins_with(text, "<?xml") || begins_with(text, "<error"))
        return "this is an XML text, not a model: the download has probably brought a message instead.";
    if (text.starts_with('{') && is_text(beginning))
        return "this is a JSON text, not a model.";
    if (is_text(beginning))
        return "this is a text, not a model.";
    return "this is no GGUF file: it does not begin with the letters GGUF.";
}

} // namespace orrery
