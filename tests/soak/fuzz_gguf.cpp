// fuzz_gguf: spoils valid model files in many ways and opens what comes out.
//
//     fuzz_gguf [--count N] [--seed S] [--no-truncations] [FILE …]
//
// For every spoilt file, only two outcomes are right: a model, or orrery::Error. Anything else (another
// exception, a crash, a sanitizer's report, memory beyond a small multiple of the file's size) ends the
// program with status 1, the number of the case and a copy of the file. The same seed and count give the
// same cases.
#include "engine/model/config.h"
#include "engine/model/decoder.h"
#include "engine/model/describe.h"
#include "engine/model/gguf.h"
#include "engine/model/read_vocabulary.h"
#include "engine/model/wording.h"
#include "engine/text/tokenizer.h"
#include "kernels/error.h"
#include "kernels/reference/reference_backend.h"
#include "tests/support/forward.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/test_data.h"
#include "tests/support/tiny_model.h"

#include <CLI/CLI.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <random>

// --- what operator new has handed out

namespace {

struct Memory {
    size_t live = 0;
    size_t peak = 0;
} memory;

// In front of every piece of memory stands its size.
constexpr size_t prefix = alignof(std::max_align_t);

} // namespace

void* operator new(size_t size) {
    memory.live += size;
    memory.peak = std::max(memory.peak, memory.live);
    void* start = size <= SIZE_MAX - prefix ? std::malloc(size + prefix) : nullptr;
    if (!start) {
        memory.live -= size;
        throw std::bad_alloc();
    }
    *static_cast<size_t*>(start) = size;
    return static_cast<char*>(start) + prefix;
}

void operator delete(void* at) noexcept {
    if (!at)
        return;
    void* start = static_cast<char*>(at) - prefix;
    memory.live -= *static_cast<size_t*>(start);
    std::free(start);
}

void operator delete(void* at, size_t) noexcept {
    operator delete(at);
}

namespace {

using namespace orrery;
using test::GgufWriter;
using Bytes = std::vector<std::byte>;

// --- the valid files

/// A number in a header.
struct Mark {
    size_t offset = 0;
    size_t width = 0;
};

/// A field or a tensor of a header, from first to last byte.
struct Entry {
    size_t begin = 0;
    size_t end = 0;
};

struct Seed {
    std::string name;
    Bytes bytes;
    size_t header_bytes = 0;    ///< what stands before the data of the tensors
    std::vector<Mark> numbers;  ///< counts, lengths, types, offsets and values
    std::vector<Mark> contents; ///< values alone: whatever they say, the header stays whole
    std::vector<Entry> fields;
    std::vector<Entry> tensors;
};

/// Walks over the header of a valid file, by the specification and without the reader that is tested.
class Walk {
public:
    explicit Walk(Seed& seed) : seed_(seed) {
        at_ = 4;
        number(4);
        const uint64_t tensors = number(8), fields = number(8);
        for (uint64_t i = 0; i < fields; ++i) {
            const size_t begin = at_;
            text();
            value(static_cast<uint32_t>(number(4)));
            seed.fields.push_back({begin, at_});
        }
        for (uint64_t i = 0; i < tensors; ++i) {
            const size_t begin = at_;
            text();
            const uint64_t dimensions = number(4);
            for (uint64_t d = 0; d < dimensions; ++d)
                content(8);
            content(4);
            content(8);
            seed.tensors.push_back({begin, at_});
        }
        seed.header_bytes = at_;
    }

private:
    uint64_t number(size_t width, bool mark = true) {
        uint64_t value = 0;
        std::memcpy(&value, seed_.bytes.data() + at_, width);
        if (mark)
            seed_.numbers.push_back({at_, width});
        at_ += width;
        return value;
    }

    void text(bool mark = true) {
        const uint64_t length = number(8, mark);
        if (length > 0)
            seed_.contents.push_back({at_, length});
        at_ += length;
    }

    uint64_t content(size_t width, bool mark = true) {
        seed_.contents.push_back({at_, width});
        return number(width, mark);
    }

    static size_t width_of(uint32_t type) {
        switch (type) {
        case 0:
        case 1:
        case 7:
            return 1;
        case 2:
        case 3:
            return 2;
        case 4:
        case 5:
        case 6:
            return 4;
        default:
            return 8;
        }
    }

    void value(uint32_t type) {
        if (type == 8) {
            text();
        } else if (type == 9) {
            const auto element = static_cast<uint32_t>(number(4));
            const uint64_t count = number(8);
            // The first elements stand for all: a vocabulary would drown the other numbers.
            for (uint64_t i = 0; i < count; ++i)
                if (element == 8)
                    text(i < 4);
                else
                    content(width_of(element), i < 4);
        } else {
            content(width_of(type));
        }
    }

    Seed& seed_;
    size_t at_ = 0;
};

Seed make_seed(const std::string& name, Bytes bytes) {
    Seed seed;
    seed.name = name;
    seed.bytes = std::move(bytes);
    const Walk walk(seed);
    return seed;
}

Bytes read_bytes(const std::filesystem::path& path) {
    const std::string text = test::read_file(path);
    const auto* at = reinterpret_cast<const std::byte*>(text.data());
    return {at, at + text.size()};
}

std::vector<Seed> make_seeds(const std::vector<std::string>& files) {
    std::vector<Seed> seeds;
    for (const std::string& file : files)
        seeds.push_back(make_seed(file, read_bytes(file)));
    if (!files.empty())
        return seeds;

    test::TinyModelOptions small{.layers = 1, .hidden = 32, .heads = 2, .kv_heads = 1, .feed_forward = 32};
    seeds.push_back(make_seed("tiny", test::tiny_model_writer(small).bytes()));
    small.weights = kernels::TensorType::Q8_0;
    small.tied = small.biases = true;
    seeds.push_back(make_seed("tiny Q8_0", test::tiny_model_writer(small).bytes()));
    GgufWriter linear = test::tiny_model_writer(small);
    linear.string("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 2);
    linear.tensor("rope_freqs.weight", {8}, std::vector<float>(8, 1.0f));
    seeds.push_back(make_seed("tiny scaled", linear.bytes()));

    GgufWriter all;
    all.string("general.architecture", "llama")
        .u8("u8", 1)
        .i8("i8", 1)
        .u16("u16", 1)
        .i16("i16", 1)
        .u32("u32", 1);
    all.i32("i32", 1).u64("u64", 1).i64("i64", 1).f32("f32", 1).f64("f64", 1).boolean("boolean", true);
    all.u8s("u8s", {1, 2})
        .i32s("i32s", {1, 2})
        .u32s("u32s", {1})
        .f32s("f32s", {1})
        .booleans("booleans", {true});
    all.strings("strings", {"a", "b"}).u32("general.alignment", 32).u16("split.count", 1).u16("split.no", 0);
    for (const kernels::TensorType type : kernels::all_tensor_types())
        all.tensor(std::string("t.") + kernels::info(type).name, {2, 256}, type,
                   Bytes(2 * kernels::row_bytes(type, 256)));
    seeds.push_back(make_seed("all types", all.bytes()));

    if (const auto data = test::data_dir(); !data.empty()) {
        for (const char* name : {"golden_gguf/llama.gguf", "golden_gguf/llama3_rope.gguf",
                                 "golden_gguf/gemma3.gguf", "quant_models/llama256-Q4_K.gguf",
                                 "gguf_vocab/ggml-vocab-llama-spm.gguf", "gguf_vocab/ggml-vocab-gpt-2.gguf"})
            seeds.push_back(make_seed(name, read_bytes(data / name)));
    }
    return seeds;
}

// --- how they are spoilt

class Spoiler {
public:
    explicit Spoiler(uint64_t seed) : random_(seed) {}

    uint64_t below(uint64_t count) { return count ? random_() % count : 0; }

    Bytes spoil(const Seed& seed) {
        Bytes bytes = seed.bytes;
        const uint64_t changes = 1 + below(4);
        // Half of the files keep a header that can be read, so that what reads its fields gets its share.
        const bool readable = below(2) == 0;
        for (uint64_t i = 0; i < changes; ++i)
            readable ? change_content(seed, bytes) : change(seed, bytes);
        if (readable && below(4) == 0)
            drop_field(seed, bytes);
        return bytes;
    }

private:
    size_t in_header(const Seed& seed, const Bytes& bytes) {
        return static_cast<size_t>(below(std::min(seed.header_bytes, bytes.size())));
    }

    void change(const Seed& seed, Bytes& bytes) {
        if (bytes.empty())
            return;
        switch (below(10)) {
        case 0: // one bit
            bytes[in_header(seed, bytes)] ^= static_cast<std::byte>(1 << below(8));
            break;
        case 1: { // a few bytes
            const size_t begin = in_header(seed, bytes);
            for (size_t i = begin; i < std::min(bytes.size(), begin + 1 + below(16)); ++i)
                bytes[i] = static_cast<std::byte>(below(256));
            break;
        }
        case 2:
        case 3:
        case 4: // a number that matters
            set_number(seed.numbers, bytes);
            break;
        case 5: // the end is missing
            bytes.resize(below(4) ? in_header(seed, bytes) : static_cast<size_t>(below(bytes.size())));
            break;
        case 6: // two pieces of the header change places
            swap(bytes, in_header(seed, bytes), in_header(seed, bytes), 1 + static_cast<size_t>(below(64)));
            break;
        case 7: // an entry stands where another stood: names that are there twice, fields of other types
            if (!seed.fields.empty() && !(below(2) && !seed.tensors.empty()))
                copy_entry(bytes, seed.fields);
            else if (!seed.tensors.empty())
                copy_entry(bytes, seed.tensors);
            break;
        case 8: { // bytes too many
            const size_t at = in_header(seed, bytes);
            bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(at), static_cast<size_t>(1 + below(32)),
                         static_cast<std::byte>(below(256)));
            break;
        }
        default: { // bytes too few
            const size_t at = in_header(seed, bytes);
            const size_t count = std::min(bytes.size() - at, static_cast<size_t>(1 + below(32)));
            bytes.erase(bytes.begin() + static_cast<ptrdiff_t>(at),
                        bytes.begin() + static_cast<ptrdiff_t>(at + count));
        }
        }
    }

    void change_content(const Seed& seed, Bytes& bytes) {
        // Fields of a model's shape are few among tokens and names: numbers that are marked come first.
        const auto& marks = below(2) ? seed.contents : seed.numbers;
        const Mark mark = marks[below(marks.size())];
        const bool is_content = std::ranges::binary_search(seed.contents, mark.offset, {}, &Mark::offset);
        if (!is_content || mark.offset + mark.width > bytes.size())
            return;
        if (mark.width <= 8 && below(4) != 0)
            set_number({mark}, bytes);
        else
            for (uint64_t i = 0; i < 1 + below(3); ++i)
                bytes[mark.offset + below(mark.width)] =
                    static_cast<std::byte>(below(2) ? below(256) : 32 + below(95));
    }

    /// Takes a field out and corrects the count.
    void drop_field(const Seed& seed, Bytes& bytes) {
        if (seed.fields.empty() || bytes.size() != seed.bytes.size())
            return;
        const Entry entry = seed.fields[below(seed.fields.size())];
        // The data of the tensors begins at the next multiple of 32 behind the header.
        const size_t length = entry.end - entry.begin;
        bytes.erase(bytes.begin() + static_cast<ptrdiff_t>(entry.begin),
                    bytes.begin() + static_cast<ptrdiff_t>(entry.end));
        const size_t header = seed.header_bytes - length;
        const size_t padding = (seed.header_bytes + 31) / 32 * 32 - seed.header_bytes;
        const size_t wanted = (header + 31) / 32 * 32 - header;
        if (wanted > padding)
            bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(header), wanted - padding, std::byte{0});
        else if (header + padding <= bytes.size())
            bytes.erase(bytes.begin() + static_cast<ptrdiff_t>(header),
                        bytes.begin() + static_cast<ptrdiff_t>(header + padding - wanted));
        uint64_t fields = 0;
        std::memcpy(&fields, bytes.data() + 16, 8);
        --fields;
        std::memcpy(bytes.data() + 16, &fields, 8);
    }

    void set_number(const std::vector<Mark>& marks, Bytes& bytes) {
        const Mark mark = marks[below(marks.size())];
        if (mark.offset + mark.width > bytes.size())
            return;
        uint64_t value = 0;
        std::memcpy(&value, bytes.data() + mark.offset, mark.width);
        const std::array<uint64_t, 26> extremes = {0,
                                                   1,
                                                   2,
                                                   3,
                                                   4,
                                                   7,
                                                   8,
                                                   9,
                                                   12,
                                                   13,
                                                   31,
                                                   32,
                                                   33,
                                                   255,
                                                   65535,
                                                   0x7fffffff,
                                                   0x80000000,
                                                   0xffffffff,
                                                   uint64_t{1} << 32,
                                                   uint64_t{1} << 40,
                                                   uint64_t{1} << 62,
                                                   (uint64_t{1} << 63) - 1,
                                                   uint64_t{1} << 63,
                                                   UINT64_MAX,
                                                   bytes.size(),
                                                   bytes.size() - mark.offset};
        switch (below(4)) {
        case 0:
            value += 1 + below(3);
            break;
        case 1:
            value -= 1 + below(3);
            break;
        case 2:
            value = below(300);
            break;
        default:
            value = extremes[below(extremes.size())];
        }
        std::memcpy(bytes.data() + mark.offset, &value, mark.width);
    }

    static void swap(Bytes& bytes, size_t a, size_t b, size_t length) {
        if (a > b)
            std::swap(a, b);
        length = std::min({length, b - a, bytes.size() - b});
        std::swap_ranges(bytes.begin() + static_cast<ptrdiff_t>(a),
                         bytes.begin() + static_cast<ptrdiff_t>(a + length),
                         bytes.begin() + static_cast<ptrdiff_t>(b));
    }

    void copy_entry(Bytes& bytes, const std::vector<Entry>& entries) {
        const Entry from = entries[below(entries.size())], to = entries[below(entries.size())];
        if (std::max(from.end, to.end) > bytes.size())
            return;
        const Bytes copy(bytes.begin() + static_cast<ptrdiff_t>(from.begin),
                         bytes.begin() + static_cast<ptrdiff_t>(from.end));
        bytes.erase(bytes.begin() + static_cast<ptrdiff_t>(to.begin),
                    bytes.begin() + static_cast<ptrdiff_t>(to.end));
        bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(to.begin), copy.begin(), copy.end());
    }

    std::mt19937_64 random_;
};

// --- what is done with them

// The reader's own promise: an element of an array takes one byte in a file and at most eight here, a text
// 8 and 32, a field 14 and about 250, a tensor 25 and about 300, with their entries in the index.
constexpr size_t reader_factor = 24;
// A vocabulary's tables: each token is kept by name in an index, and each merge by its pair.
constexpr size_t tokenizer_factor = 100;
// What any case may take, whatever its size: sentences, small tables, all 256 bytes.
constexpr size_t base_bytes = 256 * 1024;

/// How far cases came.
struct Counts {
    std::map<std::string, size_t> stages;
    double slowest_s = 0;
};

/// Thrown for what must not happen.
struct Wrong {
    std::string what;
};

template <typename Work>
auto bounded(const char* what, size_t limit, Work work) {
    const size_t before = memory.live;
    memory.peak = before;
    auto check = [&] {
        if (memory.peak - before > limit)
            throw Wrong{std::string(what) + " took " + grouped(memory.peak - before) + " bytes, more than " +
                        grouped(limit)};
    };
    try {
        auto result = work();
        check();
        return result;
    } catch (const Error&) {
        check();
        throw;
    }
}

/// What holds for every file that was opened, however spoilt.
void check_promises(const GgufFile& file, const Bytes& bytes) {
    std::multimap<const std::byte*, const GgufTensor*> places;
    for (const GgufTensor& tensor : file.tensors()) {
        if (tensor.bytes.data() < bytes.data() ||
            tensor.bytes.data() + tensor.bytes.size() > bytes.data() + bytes.size())
            throw Wrong{"the tensor " + tensor.name + " lies outside of the file"};
        if (file.find_tensor(tensor.name) != &tensor)
            throw Wrong{"the tensor " + tensor.name + " is there twice"};
        places.emplace(tensor.bytes.data(), &tensor);
    }
    const std::byte* end = bytes.data();
    for (const auto& [begin, tensor] : places) {
        if (begin < end)
            throw Wrong{"the tensor " + tensor->name + " lies on another"};
        end = begin + tensor->bytes.size();
    }
    for (const auto& [key, value] : file.metadata())
        if (file.find(key) != &value)
            throw Wrong{"the field " + key + " is there twice"};
}

/// Opens one file and does with it what the program would do. Returns how far it came.
std::string try_file(const Bytes& bytes, bool run) {
    const char* stage = "reader";
    try {
        const auto file = bounded("the reader", base_bytes + reader_factor * bytes.size(),
                                  [&] { return GgufFile::parse(bytes, "model.gguf"); });
        check_promises(*file, bytes);
        stage = "configuration";
        bounded("the description", base_bytes + 8 * tokenizer_factor * bytes.size(),
                [&] { return describe(*file).dump().size(); });
        const ModelConfig config =
            bounded("the configuration", base_bytes + bytes.size(), [&] { return read_config(*file); });
        stage = "tokenizer";
        const auto tokenizer = bounded("the tokenizer", base_bytes + tokenizer_factor * bytes.size(),
                                       [&] { return read_tokenizer(*file); });
        const auto ids = tokenizer->encode("Hello, the world <|im_end|> \xe6\xa8\xa1\xff", true, true);
        tokenizer->decode(ids, true);
        stage = "weights";
        if (!run || file->tensors().empty())
            return "opened";
        kernels::ReferenceBackend backend({.memory_bytes = size_t{64} << 20});
        Decoder decoder(std::make_shared<ModelWeights>(file, config, backend), backend);
        stage = "pass";
        test::Forward forward(decoder, backend, 2);
        forward.run({0, config.vocab - 1});
        return "ran";
    } catch (const Error& error) {
        if (std::string_view(error.what()).empty())
            throw Wrong{"an error without a sentence"};
        return std::string("refused by the ") + stage;
    }
}

} // namespace

int main(int argc, char** argv) {
    CLI::App app{"Spoils valid model files in many ways and opens what comes out."};
    uint64_t count = 10000, seed = 1;
    bool no_truncations = false;
    std::vector<std::string> files;
    app.add_option("--count", count, "cases besides the truncations");
    app.add_option("--seed", seed, "of the random cases");
    app.add_flag("--no-truncations", no_truncations,
                 "leave out the files that are cut, which are the same for every seed");
    app.add_option("FILE", files, "valid files to spoil, instead of the ones made here")
        ->check(CLI::ExistingFile);
    CLI11_PARSE(app, argc, argv);

    spdlog::set_level(spdlog::level::off); // spoilt vocabularies earn warnings by the thousand
    const std::vector<Seed> seeds = make_seeds(files);
    Counts counts;
    uint64_t number = 0;
    const auto start = std::chrono::steady_clock::now();
    const auto one = [&](const Seed& from, const Bytes& bytes, bool run) {
        const auto begin = std::chrono::steady_clock::now();
        std::string wrong;
        try {
            ++counts.stages[try_file(bytes, run)];
        } catch (const Wrong& error) {
            wrong = error.what;
        } catch (const std::exception& error) {
            wrong = std::string("an exception that is no orrery::Error: ") + error.what();
        }
        counts.slowest_s =
            std::max(counts.slowest_s,
                     std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        ++number;
        if (wrong.empty())
            return true;
        const auto copy = std::filesystem::temp_directory_path() /
                          ("fuzz_gguf-" + std::to_string(seed) + "-" + std::to_string(number) + ".gguf");
        test::write_file(copy, bytes);
        std::fprintf(stderr, "case %llu (seed %llu, from %s): %s\nThe file is kept as %s\n",
                     static_cast<unsigned long long>(number), static_cast<unsigned long long>(seed),
                     from.name.c_str(), wrong.c_str(), copy.c_str());
        return false;
    };

    // The files themselves, which have to be opened.
    for (const Seed& each : seeds)
        if (!one(each, each.bytes, true))
            return 1;
    if (counts.stages["refused by the reader"] > 0) {
        std::fprintf(stderr, "a file that should be valid was refused\n");
        return 1;
    }
    // Every truncation within the header, but for long vocabularies, which are cut here and there.
    for (const Seed& each : seeds) {
        const size_t step = 1 + each.header_bytes / 4096;
        for (size_t size = 0; size < each.header_bytes && !no_truncations; size += step)
            if (!one(each, Bytes(each.bytes.begin(), each.bytes.begin() + static_cast<ptrdiff_t>(size)),
                     false))
                return 1;
    }
    const uint64_t truncations = number - seeds.size();
    Spoiler spoiler(seed);
    for (uint64_t i = 0; i < count; ++i) {
        // Large files cost as much as a hundred small ones.
        const Seed* from = &seeds[spoiler.below(seeds.size())];
        if (from->bytes.size() > 400000 && spoiler.below(20) != 0)
            from = &seeds[spoiler.below(std::min<size_t>(4, seeds.size()))];
        if (!one(*from, spoiler.spoil(*from), spoiler.below(4) == 0))
            return 1;
    }
    std::printf("%llu cases: %llu truncations and %llu spoilt files of %zu, seed %llu, %.1f s\n",
                static_cast<unsigned long long>(number), static_cast<unsigned long long>(truncations),
                static_cast<unsigned long long>(count), seeds.size(), static_cast<unsigned long long>(seed),
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    for (const auto& [stage, cases] : counts.stages)
        std::printf("%10zu %s\n", cases, stage.c_str());
    std::printf("slowest case %.3f s\n", counts.slowest_s);
    return 0;
}
