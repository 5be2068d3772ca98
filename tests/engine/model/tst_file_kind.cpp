#include "engine/model/file_kind.h"
#include "engine/model/gguf.h"
#include "kernels/error.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"
#include "tests/support/tiny_model.h"

#include <QtTest>

#include <random>

using namespace orrery;
using namespace orrery::test;
using namespace std::string_literals;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

std::string error_of(const std::filesystem::path& path) {
    try {
        GgufFile::open(path);
        return {};
    } catch (const Error& error) {
        return error.what();
    }
}

std::string little_endian(uint64_t value) {
    std::string out(8, '\0');
    for (char& c : out) {
        c = static_cast<char>(value & 0xFF);
        value >>= 8;
    }
    return out;
}

} // namespace

class tst_file_kind : public QObject {
    Q_OBJECT

private slots:
    void says_what_a_file_is_data() {
        QTest::addColumn<QByteArray>("content");
        QTest::addColumn<QString>("says");
        const auto row = [](const char* name, const std::string& content, const char* says) {
            QTest::newRow(name) << QByteArray::fromStdString(content) << says;
        };
        row("empty", "", "the file is empty: it was probably not downloaded completely.");
        row("one byte", "G", "it was probably not downloaded completely");
        row("three bytes", "GGU", "the file ends after 3 bytes: it was probably not downloaded completely.");
        row("magic alone", "GGUF", "it was probably not downloaded completely");
        row("half a version", "GGUF\3\0"s, "it was probably not downloaded completely");
        row("zeros", std::string(100000, '\0'), "begins with zeros: it was probably not downloaded");
        for (const char* page : {"<!DOCTYPE html><html>", "<!doctype HTML>\n", "<html lang=\"en\">",
                                 "\n\n  <HTML><HEAD>", "\xEF\xBB\xBF<!DOCTYPE html>", "<head></head>"})
            row(page, page, "this is an HTML page");
        row("s3 error", "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "an XML text");
        row("json error", "{\"error\":\"Repository not found\"}", "a JSON text");
        row("plain text", "Entry not found", "this is a text");
        row("lfs pointer",
            "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') +
                "\nsize 98362432\n",
            "this is a Git LFS pointer, which stands for the model of 93.8 MiB; 'git lfs pull'");
        row("lfs pointer cut", "version https://git-lfs.github.com/spec/v1\noid sha", "a Git LFS pointer");
        row("lfs pointer of a wrong size",
            "version https://git-lfs.github.com/spec/v1\nsize 99999999999999999999999\n",
            "a Git LFS pointer, which stands for the model; ");
        row("safetensors",
            little_endian(60) + R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32"}})" +
                std::string(100, '\0'),
            "this is a safetensors file");
        row("safetensors cut", little_endian(30000) + "{\"a\"", "this is a safetensors file");
        row("zip", "PK\x03\x04\0\0"s, "a zip archive, as PyTorch writes its checkpoints");
        row("pickle", "\x80\x02\x8a\nl\xfc"s, "a Python pickle, as PyTorch writes");
        row("gzip", "\x1f\x8b\x08\0\0\0\0\0"s, "a compressed archive");
        row("tar", "model.gguf" + std::string(247, '\0') + "ustar\0"s + std::string(300, '\0'),
            "a compressed archive");
        row("ggml", "lmgg\1\0\0\0"s, "before GGUF");
        row("ggjt", "tjgg\3\0\0\0"s, "before GGUF");
        row("hdf5", "\x89HDF\r\n\x1a\n\0"s, "an HDF5 file");
        row("noise", "\xC1\x02\x03\xFFnothing known"s, "this is no GGUF file");
    }
    void says_what_a_file_is() {
        QFETCH(QByteArray, content);
        QFETCH(QString, says);
        const TemporaryFolder folder;
        const auto path = folder / "model.gguf";
        const std::string text = content.toStdString();
        write_file(path, bytes_of(text));
        const QString error = QString::fromStdString(error_of(path));
        QVERIFY2(error.contains(says), qPrintable(error));
        QVERIFY2(error.startsWith(QString::fromStdString(path.string()) + ": "), qPrintable(error));
        // One sentence.
        QVERIFY2(error.endsWith('.') && !error.contains(". ") && !error.contains('\n'), qPrintable(error));
    }

    void every_safetensors_of_the_test_data() {
        ORRERY_NEED_TEST_DATA();
        int files = 0;
        for (const auto& entry : std::filesystem::recursive_directory_iterator(data_dir() / "golden"))
            if (entry.path().extension() == ".safetensors") {
                const std::string error = error_of(entry.path());
                QVERIFY2(error.find("this is a safetensors file") != std::string::npos, error.c_str());
                ++files;
            }
        QVERIFY(files > 0);
    }

    /// A download that ended early, wherever that was.
    void a_cut_model_is_told() {
        const std::vector<std::byte> whole = tiny_model_writer().bytes();
        std::mt19937_64 random(7);
        for (int i = 0; i < 300; ++i) {
            const size_t size = i < 100 ? size_t(i) : random() % whole.size();
            try {
                GgufFile::parse(std::span(whole).first(size), "cut.gguf");
                QFAIL("it was read");
            } catch (const Error& error) {
                const std::string text = error.what();
                QVERIFY2(text.find("it was probably not downloaded completely") != std::string::npos,
                         text.c_str());
            }
        }
    }

    void any_bytes_give_a_sentence() {
        const uint64_t seed = std::random_device()();
        qInfo("seed %llu", static_cast<unsigned long long>(seed));
        std::mt19937_64 random(seed);
        const std::string beginnings[] = {"",
                                          "<",
                                          "{",
                                          "PK",
                                          "version https://git-lfs.github.com/spec/",
                                          std::string(8, '\1') + "{",
                                          "\xEF\xBB\xBF",
                                          "\xE4\xBD"};
        for (int i = 0; i < 5000; ++i) {
            std::string text = beginnings[random() % std::size(beginnings)];
            for (size_t n = random() % 300; n > 0; --n)
                text += static_cast<char>(random() % 3 ? ' ' + random() % 95 : random());
            const std::string sentence = foreign_file_sentence(bytes_of(text));
            QVERIFY(sentence.ends_with('.') && sentence.find('\n') == std::string::npos);
        }
    }
};

QTEST_GUILESS_MAIN(tst_file_kind)
#include "tst_file_kind.moc"
