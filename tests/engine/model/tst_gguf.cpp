#include "engine/model/gguf.h"
#include "kernels/error.h"
#include "kernels/quant/half.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"
#include "tests/support/tiny_model.h"

#include <QtTest>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

using namespace orrery;
using kernels::TensorType;
using test::GgufWriter;
using test::TemporaryFolder;

namespace {

using Bytes = std::vector<std::byte>;

std::string error_of(const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

std::string parse_error(const Bytes& bytes) {
    return error_of([&] { GgufFile::parse(bytes, "model.gguf"); });
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

const std::vector<float> four = {1.0f, 2.0f, 3.0f, 4.0f};

/// Two tensors of four floats and a field.
GgufWriter small_file() {
    GgufWriter file;
    file.string("general.architecture", "llama").tensor("a", {4}, four).tensor("b", {2, 2}, four);
    return file;
}

/// The first `count` bytes of a safetensors tensor, from its specification: the header's length, the
/// header as JSON, the data.
std::string safetensor(const std::string& file, const std::string& name) {
    uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    const auto header = nlohmann::json::parse(file.substr(8, length));
    const size_t begin = header.at(name).at("data_offsets").at(0),
                 end = header.at(name).at("data_offsets").at(1);
    return file.substr(8 + length + begin, end - begin);
}

} // namespace

class tst_gguf : public QObject {
    Q_OBJECT

private slots:
    // --- what is right

    // The float32 tensors of a converted model are the bfloat16 ones of the file it was made from.
    void reads_what_the_converter_wrote() {
        ORRERY_NEED_TEST_DATA();
        for (const std::string name : {"llama", "qwen2", "gemma2", "mixtral"}) {
            const auto folder = test::data_dir() / "golden" / name;
            const auto config = test::read_json(folder / "config.json");
            const auto file = GgufFile::open(test::data_dir() / "golden_gguf" / (name + ".gguf"));
            const std::string architecture = file->get_string("general.architecture");
            QCOMPARE(file->version(), 3u);
            QCOMPARE(file->get_int(architecture + ".block_count"),
                     config.at("num_hidden_layers").get<int64_t>());
            QCOMPARE(file->get_int(architecture + ".embedding_length"),
                     config.at("hidden_size").get<int64_t>());
            QCOMPARE(static_cast<float>(file->get_float(architecture + ".attention.layer_norm_rms_epsilon")),
                     config.at("rms_norm_eps").get<float>());
            QCOMPARE(file->get_strings("tokenizer.ggml.tokens").size(), size_t{256});

            const GgufTensor* table = file->find_tensor("token_embd.weight");
            QVERIFY(table);
            QCOMPARE(table->shape, (std::vector<int64_t>{config.at("vocab_size"),
                                                         config.at("hidden_size").get<int64_t>()}));
            const std::string bf16 =
                safetensor(test::read_file(folder / "model.safetensors"), "model.embed_tokens.weight");
            QCOMPARE(table->bytes.size(), bf16.size() * 2);
            for (size_t i = 0; i < bf16.size() / 2; ++i) {
                uint16_t half = 0;
                float value = 0;
                std::memcpy(&half, bf16.data() + 2 * i, 2);
                std::memcpy(&value, table->bytes.data() + 4 * i, 4);
                QCOMPARE(value, kernels::bf16_to_f32(half));
            }
        }
    }

    void opens_every_model_at_hand() {
        ORRERY_NEED_TEST_DATA();
        int files = 0;
        for (const char* folder : {"golden_gguf", "quant_models", "gguf_vocab"})
            for (const auto& entry : std::filesystem::directory_iterator(test::data_dir() / folder))
                if (entry.path().extension() == ".gguf") {
                    const auto file = GgufFile::open(entry.path());
                    QCOMPARE(file->file_bytes(), static_cast<size_t>(entry.file_size()));
                    QCOMPARE(file->tensors().empty(), std::string_view(folder) == "gguf_vocab");
                    ++files;
                }
        QVERIFY(files >= 50);
    }

    void values_keep_their_type_and_extremes() {
        GgufWriter writer;
        writer.u8("u8", 255).i8("i8", -128).u16("u16", 65535).i16("i16", -32768);
        writer.u32("u32", UINT32_MAX).i32("i32", INT32_MIN).u64("u64", UINT64_MAX).i64("i64", INT64_MIN);
        writer.f32("f32", 0.1f).f64("f64", 0.1).boolean("yes", true).boolean("no", false);
        writer.string("text", std::string("a\0b ä", 6)).string("empty", "");
        writer.u8s("u8s", {0, 255}).i32s("i32s", {INT32_MIN, INT32_MAX}).u32s("u32s", {UINT32_MAX});
        writer.f32s("f32s", {0.5f, -0.0f}).booleans("booleans", {true, false, true});
        writer.strings("strings", {"", "x", "ü"}).i32s("none", {});
        const Bytes bytes = writer.bytes();
        const auto file = GgufFile::parse(bytes, "model.gguf");

        QCOMPARE(file->metadata().size(), writer.field_count());
        QCOMPARE(file->metadata().front().first, std::string("u8"));
        QCOMPARE(file->metadata().back().first, std::string("none"));
        QCOMPARE(file->get_int("u8"), 255);
        QCOMPARE(file->get_int("i8"), -128);
        QCOMPARE(file->get_int("u16"), 65535);
        QCOMPARE(file->get_int("i16"), -32768);
        QCOMPARE(file->get_int("u32"), int64_t{UINT32_MAX});
        QCOMPARE(file->get_int("i32"), int64_t{INT32_MIN});
        QCOMPARE(std::get<uint64_t>(file->find("u64")->value), UINT64_MAX);
        QCOMPARE(file->get_int("i64"), INT64_MIN);
        QCOMPARE(file->get_float("f32"), double{0.1f});
        QCOMPARE(file->get_float("f64"), 0.1);
        QCOMPARE(file->get_float("u8"), 255.0);
        QVERIFY(file->get_bool("yes", false));
        QVERIFY(!file->get_bool("no", true));
        QCOMPARE(file->get_string("text"), std::string("a\0b ä", 6));
        QCOMPARE(file->get_string("empty"), std::string());
        QCOMPARE(file->get_ints("u8s"), (std::vector<int64_t>{0, 255}));
        QCOMPARE(file->get_ints("i32s"), (std::vector<int64_t>{INT32_MIN, INT32_MAX}));
        QCOMPARE(file->get_ints("booleans"), (std::vector<int64_t>{1, 0, 1}));
        QCOMPARE(file->get_ints("u8"), (std::vector<int64_t>{255}));
        QCOMPARE(file->get_floats("f32s"), (std::vector<double>{0.5, -0.0}));
        QVERIFY(std::signbit(file->get_floats("f32s")[1]));
        QCOMPARE(file->get_strings("strings"), (std::vector<std::string>{"", "x", "ü"}));
        QVERIFY(file->get_ints("none").empty());

        QCOMPARE(file->get_int("absent", 7), 7);
        QCOMPARE(file->get_string("absent", "x"), std::string("x"));
        QVERIFY(file->get_strings("absent").empty());
        QVERIFY(!file->find("absent"));
    }

    void tensors_have_the_outermost_dimension_first() {
        GgufWriter writer;
        writer.u32("general.alignment", 64).tensor("a", {4}, four).tensor("b", {2, 1, 2}, four);
        writer.alignment = 64;
        writer.tensors()[1].offset = 64;
        for (const uint32_t version : {2u, 3u}) {
            writer.version = version;
            const Bytes bytes = writer.bytes();
            const auto file = GgufFile::parse(bytes, "model.gguf");
            QCOMPARE(file->version(), version);
            const GgufTensor* b = file->find_tensor("b");
            QVERIFY(b && !file->find_tensor("c"));
            QCOMPARE(b->shape, (std::vector<int64_t>{2, 1, 2}));
            QCOMPARE(b->elements(), 4);
            QCOMPARE(b->bytes.size(), size_t{16});
            QVERIFY(std::memcmp(b->bytes.data(), four.data(), 16) == 0);
            QCOMPARE(static_cast<size_t>(b->bytes.data() - bytes.data()) % 64, size_t{0});
        }
    }

    void a_file_without_tensors_is_fine() {
        GgufWriter writer;
        writer.string("general.architecture", "llama");
        QCOMPARE(parse_error(writer.bytes()), std::string());
    }

    // The last tensor's padding is often missing, and a header without tensors need not be padded.
    void padding_at_the_end_may_be_missing() {
        Bytes bytes = small_file().bytes();
        bytes.resize(bytes.size() - 16);
        QCOMPARE(parse_error(bytes), std::string());
    }

    // --- what is wrong

    void every_truncation_is_noticed_and_named() {
        test::TinyModelOptions options;
        options.layers = 1;
        options.hidden = 32;
        options.feed_forward = 32;
        const Bytes whole = test::tiny_model_writer(options).bytes();
        const auto file = GgufFile::parse(whole, "model.gguf");
        size_t header = whole.size(), end = 0;
        for (const GgufTensor& tensor : file->tensors()) {
            const auto begin = static_cast<size_t>(tensor.bytes.data() - whole.data());
            header = std::min(header, begin);
            end = std::max(end, begin + tensor.bytes.size());
        }
        for (size_t size = 0; size < end; size += size < header + 64 ? 1 : 997) {
            // A copy of its own, so that a sanitizer sees one byte read too many.
            const Bytes cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
            const std::string error = parse_error(cut);
            QVERIFY2(error.starts_with("model.gguf: "), (std::to_string(size) + ": " + error).c_str());
            QVERIFY2(contains(error, "it was probably not downloaded completely"),
                     (std::to_string(size) + ": " + error).c_str());
        }
        // Once the header is whole, the sentence says how much is missing.
        const Bytes cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(header + 8192));
        const QLocale english(QLocale::English, QLocale::UnitedStates);
        QCOMPARE(QString::fromStdString(parse_error(cut)),
                 QString("model.gguf: the file ends at byte %1; its header promises %2: it was probably not "
                         "downloaded completely.")
                     .arg(english.toString(qulonglong(cut.size())), english.toString(qulonglong(end))));
    }

    // Whatever bit is wrong, the answer is a model or one sentence.
    void every_flipped_bit_of_the_header_is_survived() {
        test::TinyModelOptions options;
        options.layers = 1;
        options.hidden = 32;
        options.feed_forward = 32;
        Bytes bytes = test::tiny_model_writer(options).bytes();
        size_t header = bytes.size();
        const auto file = GgufFile::parse(bytes, "model.gguf");
        for (const GgufTensor& tensor : file->tensors())
            header = std::min(header, static_cast<size_t>(tensor.bytes.data() - bytes.data()));
        int refused = 0;
        for (size_t bit = 0; bit < header * 8; ++bit) {
            bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
            refused += !parse_error(bytes).empty();
            bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
        }
        QVERIFY(refused > 1000);
    }

    void says_what_is_wrong_data() {
        QTest::addColumn<QByteArray>("bytes");
        QTest::addColumn<QString>("sentence");
        const auto add = [](const char* name, const Bytes& bytes, const char* sentence) {
            QTest::newRow(name) << QByteArray(reinterpret_cast<const char*>(bytes.data()),
                                              static_cast<qsizetype>(bytes.size()))
                                << QString::fromUtf8(sentence);
        };
        const auto with = [](auto change) {
            GgufWriter file = small_file();
            change(file);
            return file.bytes();
        };
        const auto patched = [](size_t at, auto value) {
            Bytes bytes = small_file().bytes();
            std::memcpy(bytes.data() + at, &value, sizeof value);
            return bytes;
        };

        add("empty", {}, "the file is empty: it was probably not downloaded completely.");
        add("other magic", patched(0, uint32_t{0x12345678}), "no GGUF file");
        add("version 1", patched(4, uint32_t{1}), "version 1; versions 2 and 3");
        add("version 4", patched(4, uint32_t{4}), "version 4; versions 2 and 3");
        add("version 0", patched(4, uint32_t{0}), "version 0; versions 2 and 3");
        add("big endian", patched(4, uint32_t{0x03000000}), "big-endian");
        add("many tensors", patched(8, UINT64_MAX), "promises 18,446,744,073,709,551,615 tensors");
        add("many fields", patched(16, uint64_t{1} << 60), "promises 1,152,921,504,606,846,976 fields");
        add("long key", patched(24, uint64_t{65536}), "the name of a field at byte 32 is 65,536 bytes long");
        add("empty key", with([](auto& f) { f.u8("", 1); }), "is empty");
        add("binary key", with([](auto& f) { f.u8("a\xff", 1); }), "no printable UTF-8");
        add("overlong key", with([](auto& f) { f.u8("\xc0\xaf", 1); }), "no printable UTF-8");
        add("surrogate key", with([](auto& f) { f.u8("\xed\xa0\x80", 1); }), "no printable UTF-8");
        add("cut character", with([](auto& f) { f.u8("a\xe4\xb8", 1); }), "no printable UTF-8");
        add("control character", with([](auto& f) { f.u8("a\x1b[2J", 1); }), "no printable UTF-8");
        add("key twice", with([](auto& f) { f.u8("k", 1).string("k", "x"); }),
            "the field 'k' is there twice");
        const Bytes one = {std::byte{1}}, two = {std::byte{2}};
        add("unknown type", with([&](auto& f) { f.raw("k", 13, one); }), "the field 'k' is of type 13");
        add("truth value", with([&](auto& f) { f.raw("k", 7, two); }), "'k' is a truth value of 2");
        Bytes nested(12);
        nested[0] = std::byte{9};
        add("nested array", with([&](auto& f) { f.raw("k", 9, nested); }), "'k' is an array of arrays");
        nested[0] = std::byte{13};
        add("array type", with([&](auto& f) { f.raw("k", 9, nested); }), "'k' is an array of type 13");
        for (uint32_t type = 0; type <= 12; ++type) {
            if (type == 9)
                continue;
            Bytes array(12);
            array[0] = static_cast<std::byte>(type);
            array[11] = std::byte{0x7f};
            add(("array length " + std::to_string(type)).c_str(),
                with([&](auto& f) { f.raw("k", 9, array); }),
                "promises 9,151,314,442,816,847,872 elements of the field 'k'");
        }
        Bytes string(8, std::byte{0xff});
        add("string length", with([&](auto& f) { f.raw("k", 8, string); }),
            "the field 'k' takes 18,446,744,073,709,551,615 bytes");
        for (const uint32_t alignment : {0u, 3u, 33u, 1u << 31, UINT32_MAX})
            add(("alignment " + std::to_string(alignment)).c_str(),
                with([&](auto& f) { f.u32("general.alignment", alignment); }), "'general.alignment' is");
        add("alignment is text", with([](auto& f) { f.string("general.alignment", "32"); }),
            "'general.alignment' is no integer");

        add("tensor twice", with([](auto& f) { f.tensors()[1].name = "a"; }),
            "the tensor 'a' is there twice");
        add("empty name", with([](auto& f) { f.tensors()[1].name = ""; }), "the name of a tensor at byte");
        add("long name", with([](auto& f) { f.tensors()[1].name = std::string(65, 'n'); }),
            "is 65 bytes long; at most 64");
        add("binary name", with([](auto& f) { f.tensors()[1].name = "\x80"; }), "no printable UTF-8");
        add("five dimensions", with([](auto& f) {
                f.tensors()[1].dims = {1, 1, 2, 1, 2};
            }),
            "'b' has 5 dimensions");
        add("no elements", with([](auto& f) {
                f.tensors()[1].dims = {4, 0};
            }),
            "'b' has 0 elements in dimension 1");
        add("product overflows", with([](auto& f) {
                f.tensors()[1].dims = {uint64_t{1} << 32, uint64_t{1} << 32};
            }),
            "'b' has 4,294,967,296 elements in dimension 1, more in all");
        add("product overflows to little", with([](auto& f) {
                f.tensors()[1].dims = {(uint64_t{1} << 63) + 2, 2};
            }),
            "more in all");
        add("bytes overflow", with([](auto& f) { f.tensors()[1].dims = {uint64_t{1} << 61}; }),
            "more than any memory");
        add("unknown format", with([](auto& f) { f.tensors()[1].type = 4; }),
            "'b' is of type 4, a weight format");
        add("half a block", with([](auto& f) {
                f.tensors()[1].type = 2;
                f.tensors()[1].dims = {33, 2};
            }),
            "'b' has rows of 33 elements; its type Q4_0 packs them in blocks of 32");
        add("misaligned", with([](auto& f) { f.tensors()[1].offset = 16; }),
            "'b' begins at offset 16, which is no multiple");
        add("overlap", with([](auto& f) { f.tensors()[1].offset = 0; }), "inside of the tensor 'a'");
        add("overlap of two that begin together", with([](auto& f) {
                f.tensors()[0].dims = {12};
                f.tensors()[0].bytes.resize(48);
            }),
            "'b' begins at offset 32, inside of the tensor 'a', which ends at 48");
        add("far away", with([](auto& f) { f.tensors()[1].offset = uint64_t{1} << 40; }),
            "'b' lies at bytes 1,099,511,");
        add("farther", with([](auto& f) { f.tensors()[1].offset = UINT64_MAX - 31; }),
            "beyond the end of any file");
        add("one of several", with([](auto& f) { f.u16("split.count", 2).u16("split.no", 0); }),
            "one of 2 files of a model");
    }

    void says_what_is_wrong() {
        QFETCH(QByteArray, bytes);
        QFETCH(QString, sentence);
        const auto* at = reinterpret_cast<const std::byte*>(bytes.constData());
        const std::string error = parse_error(Bytes(at, at + bytes.size()));
        QVERIFY2(error.starts_with("model.gguf: ") && error.ends_with("."), error.c_str());
        QVERIFY2(contains(error, sentence.toStdString()), error.c_str());
    }

    void a_wrong_type_is_named() {
        GgufWriter writer;
        writer.string("text", "x").u64("large", UINT64_MAX).f32("real", 1.5f).boolean("flag", true);
        writer.strings("texts", {"x"}).f32s("reals", {1.0f});
        const Bytes bytes = writer.bytes();
        const auto file = GgufFile::parse(bytes, "model.gguf");
        const auto check = [&](const std::function<void()>& work, const std::string& sentence) {
            QCOMPARE(error_of(work), "model.gguf: the field " + sentence + ".");
        };
        check([&] { file->get_int("gone"); }, "'gone' is missing");
        check([&] { file->get_string("gone"); }, "'gone' is missing");
        check([&] { file->get_int("text"); }, "'text' is a text where an integer is needed");
        check([&] { file->get_int("text", 1); }, "'text' is a text where an integer is needed");
        check([&] { file->get_int("real"); },
              "'real' is a number with a fraction where an integer is needed");
        check([&] { file->get_int("large"); }, "'large' is 18,446,744,073,709,551,615, too large a number");
        check([&] { file->get_float("text"); }, "'text' is a text where a number is needed");
        check([&] { file->get_bool("real", true); },
              "'real' is a number with a fraction where a truth value is needed");
        check([&] { file->get_string("flag"); }, "'flag' is a truth value where a text is needed");
        check([&] { file->get_strings("text"); }, "'text' is a text where a list of texts is needed");
        check([&] { file->get_strings("reals"); },
              "'reals' is a list of numbers where a list of texts is needed");
        check([&] { file->get_ints("reals"); },
              "'reals' is a list of numbers with fractions where integers are needed");
        check([&] { file->get_floats("texts"); }, "'texts' is a list of texts where numbers are needed");
    }

    // --- several files

    void opens_all_parts_of_a_split_model() {
        const TemporaryFolder folder;
        write_parts(folder);
        for (const char* part : {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}) {
            const auto file = GgufFile::open(folder / part);
            QCOMPARE(file->tensors().size(), size_t{3});
            QCOMPARE(file->get_string("general.architecture"), std::string("llama"));
            QCOMPARE(file->path(), folder / "m-00001-of-00003.gguf");
            size_t bytes = 0;
            for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
                bytes += entry.file_size();
            QCOMPARE(file->file_bytes(), bytes);
            for (int i = 0; i < 3; ++i) {
                const GgufTensor* tensor = file->find_tensor("t" + std::to_string(i));
                QVERIFY(tensor);
                float value = 0;
                std::memcpy(&value, tensor->bytes.data(), 4);
                QCOMPARE(value, static_cast<float>(i));
                file->prefetch(*tensor);
            }
        }
    }

    void refuses_parts_that_do_not_belong_together() {
        const auto refused = [](const std::function<void(const TemporaryFolder&)>& spoil,
                                const std::string& name, const std::string& sentence) {
            const TemporaryFolder folder;
            write_parts(folder);
            spoil(folder);
            const std::string error = error_of([&] { GgufFile::open(folder / name); });
            QVERIFY2(contains(error, sentence), error.c_str());
        };
        const std::string first = "m-00001-of-00003.gguf";
        refused([](const auto& f) { std::filesystem::remove(f / "m-00003-of-00003.gguf"); }, first,
                "m-00003-of-00003.gguf cannot be opened: No such file");
        refused(
            [](const auto& f) { std::filesystem::rename(f / "m-00001-of-00003.gguf", f / "renamed.gguf"); },
            "renamed.gguf", "its name has to end with '-00001-of-00003.gguf'");
        refused([](const auto& f) { part(2, 3, 3).write(f / "m-00002-of-00003.gguf"); }, first,
                "the field 'split.no' is 2; a file that is one of several needs a number from 1 to 1");
        refused([](const auto& f) { part(1, 4, 3).write(f / "m-00002-of-00003.gguf"); }, first,
                "the field 'split.count' is 4");
        refused([](const auto& f) { part(0, 3, 5).write(f / "m-00001-of-00003.gguf"); }, first,
                "hold 3 tensors together; their field 'split.tensors.count' promises 5");
        refused(
            [](const auto& f) {
                GgufWriter writer = part(1, 3, 3);
                writer.tensors()[0].name = "t0";
                writer.write(f / "m-00002-of-00003.gguf");
            },
            first, "the tensor 't0' is there twice");
        refused([](const auto& f) { part(3, 3, 3).write(f / "m-00001-of-00003.gguf"); }, first,
                "the field 'split.no' is 3");
        refused([](const auto& f) { part(0, 0, 3).write(f / "m-00001-of-00003.gguf"); }, first,
                "the field 'split.count' is 0");
        refused(
            [](const auto& f) {
                GgufWriter writer = part(0, 3, 3);
                writer.drop("split.count").string("split.count", "3").write(f / "m-00001-of-00003.gguf");
            },
            first, "the field 'split.count' is no integer");
    }

private:
    static GgufWriter part(int number, int count, int tensors) {
        GgufWriter writer;
        writer.u16("split.no", static_cast<uint16_t>(number))
            .u16("split.count", static_cast<uint16_t>(count));
        writer.i32("split.tensors.count", tensors);
        if (number == 0)
            writer.string("general.architecture", "llama");
        const std::vector<float> values = {static_cast<float>(number), 0, 0, 0};
        writer.tensor("t" + std::to_string(number), {4}, values);
        return writer;
    }

    static void write_parts(const TemporaryFolder& folder) {
        for (int i = 0; i < 3; ++i)
            part(i, 3, 3).write(folder / ("m-0000" + std::to_string(i + 1) + "-of-00003.gguf"));
    }
};

QTEST_GUILESS_MAIN(tst_gguf)
#include "tst_gguf.moc"
