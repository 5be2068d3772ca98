// A tokenizer from a file's fields, and from fields that are wrong.
#include "engine/model/gguf.h"
#include "engine/model/read_vocabulary.h"
#include "engine/text/tokenizer.h"
#include "kernels/error.h"
#include "tests/support/gguf_writer.h"

#include <QtTest>

using namespace orrery;
using namespace orrery::test;

using Ids = std::vector<TokenId>;

namespace {

GgufWriter small_file() {
    GgufWriter file;
    file.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "gpt-2");
    file.strings("tokenizer.ggml.tokens", {"a", "b", "ab", "<|im_end|>"});
    file.i32s("tokenizer.ggml.token_type", {1, 1, 1, 3});
    file.strings("tokenizer.ggml.merges", {"a b"});
    file.u32("tokenizer.ggml.bos_token_id", 3).u32("tokenizer.ggml.eos_token_id", 3);
    return file;
}

std::shared_ptr<const Tokenizer> read(const GgufWriter& writer) {
    const std::vector<std::byte> bytes = writer.bytes();
    return read_tokenizer(*GgufFile::parse(bytes, "small.gguf"));
}

} // namespace

class tst_tokenizer_file : public QObject {
    Q_OBJECT

private slots:
    void reads_the_fields_of_a_file() {
        const auto tokenizer = read(small_file());
        QCOMPARE(tokenizer->encode("ab<|im_end|>", true, true), (Ids{2, 3}));
        QVERIFY(!tokenizer->adds_bos());
        QVERIFY(read(small_file().boolean("tokenizer.ggml.add_bos_token", true))->adds_bos());
        GgufWriter llama3 = small_file();
        llama3.drop("tokenizer.ggml.pre").string("tokenizer.ggml.pre", "llama-bpe");
        QVERIFY(read(llama3)->adds_bos());
        QVERIFY(!read(llama3.boolean("tokenizer.ggml.add_bos_token", false))->adds_bos());
        // How some converters say that there is none.
        GgufWriter none = small_file();
        QVERIFY(!read(none.drop("tokenizer.ggml.bos_token_id").u32("tokenizer.ggml.bos_token_id", UINT32_MAX))
                     ->bos());
    }

    void refuses_a_wrong_file_data() {
        QTest::addColumn<QString>("drop");
        QTest::addColumn<int>("replacement");
        QTest::addColumn<QString>("says");
        const QString g = "tokenizer.ggml.";
        QTest::newRow("no model") << g + "model" << 0 << "'tokenizer.ggml.model'";
        QTest::newRow("unknown model") << g + "model" << 1 << "'bert'";
        QTest::newRow("model is a number") << g + "model" << 2 << "'tokenizer.ggml.model'";
        QTest::newRow("no tokens") << g + "tokens" << 0 << "no tokens";
        QTest::newRow("empty tokens") << g + "tokens" << 3 << "no tokens";
        QTest::newRow("fewer tokens") << g + "tokens" << 4 << "";
        QTest::newRow("no merges") << g + "merges" << 0 << "'tokenizer.ggml.merges'";
        QTest::newRow("fewer types") << g + "token_type" << 5 << "types for 1";
        QTest::newRow("unknown type") << g + "token_type" << 6 << "the type 99";
        QTest::newRow("bos out of range")
            << g + "bos_token_id" << 7 << "is 4, but the vocabulary has 4 tokens";
        QTest::newRow("eos out of range") << g + "eos_token_id" << 8 << "is -2, but";
    }
    void refuses_a_wrong_file() {
        QFETCH(QString, drop);
        QFETCH(int, replacement);
        QFETCH(QString, says);
        const std::string key = drop.toStdString();
        GgufWriter file = small_file();
        file.drop(key);
        switch (replacement) {
        case 1:
            file.string(key, "bert");
            break;
        case 2:
            file.u32(key, 1);
            break;
        case 3:
            file.strings(key, {});
            break;
        case 4:
            file.strings(key, {"a"});
            break;
        case 5:
            file.i32s(key, {1});
            break;
        case 6:
            file.i32s(key, {1, 1, 1, 99});
            break;
        case 7:
            file.u32(key, 4);
            break;
        case 8:
            file.i32(key, -2);
            break;
        default:
            break;
        }
        try {
            read(file);
            QFAIL("it was read");
        } catch (const Error& error) {
            const QString text = error.what();
            QVERIFY2(text.contains(says) && text.startsWith("small.gguf"), error.what());
        }
    }
};

QTEST_GUILESS_MAIN(tst_tokenizer_file)
#include "tst_tokenizer_file.moc"
