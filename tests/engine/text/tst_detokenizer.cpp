#include "engine/model/gguf.h"
#include "engine/model/read_vocabulary.h"
#include "engine/text/detokenizer.h"
#include "engine/text/tokenizer.h"
#include "tests/engine/text/small_vocabularies.h"
#include "tests/support/test_data.h"

#include <random>

using namespace orrery;
using namespace orrery::test;
using namespace std::string_literals;

using Ids = std::vector<TokenId>;

namespace {

/// Streams the tokens: what is given out must be whole characters, as early as they are whole, and in all the
/// decoded text.
void check(const std::shared_ptr<const Tokenizer>& tokenizer, const Ids& ids, bool keep_special) {
    Detokenizer detokenizer(tokenizer, keep_special);
    std::string given;
    for (size_t i = 0; i < ids.size(); ++i) {
        const std::string piece = detokenizer.add(ids[i]);
        QVERIFY(utf8::is_valid(piece));
        given += piece;
        if (i % 7 == 0) { // the whole decoding of each prefix would take the square of the length
            const std::string whole = tokenizer->decode(Ids(ids.begin(), ids.begin() + i + 1), keep_special);
            QVERIFY(given == whole || given + "\uFFFD" == whole);
        }
    }
    given += detokenizer.finish();
    QCOMPARE(QByteArray::fromStdString(given),
             QByteArray::fromStdString(tokenizer->decode(ids, keep_special)));
    QCOMPARE(detokenizer.finish(), std::string());
}

} // namespace

class tst_detokenizer : public QObject {
    Q_OBJECT

    uint64_t seed_ = std::random_device()();

private slots:
    void initTestCase() { qInfo("seed %llu", static_cast<unsigned long long>(seed_)); }

    void streams_what_decode_gives_data() {
        ORRERY_NEED_TEST_DATA();
        QTest::addColumn<QString>("cases");
        QTest::addColumn<QString>("model");
        const QString folder = QString::fromStdString((data_dir() / "gguf_vocab").string()) + "/";
        for (const char* name : {"deepseek-llm", "falcon", "gpt-2", "llama-spm"})
            QTest::newRow(name) << folder + name + ".jsonl" << folder + "ggml-vocab-" + name + ".gguf";
        if (!default_model().empty())
            QTest::newRow("smollm2") << folder + "smollm2.jsonl"
                                     << QString::fromStdString(default_model().string());
    }
    void streams_what_decode_gives() {
        QFETCH(QString, cases);
        QFETCH(QString, model);
        const auto tokenizer = read_tokenizer(*GgufFile::open(model.toStdString()));
        for (const auto& line : read_json_lines(cases.toStdString()))
            for (const char* key : {"ids", "ids_special"})
                for (const bool keep_special : {false, true}) {
                    check(tokenizer, line[key].get<Ids>(), keep_special);
                    if (QTest::currentTestFailed())
                        return;
                }
        // Random tokens make all kinds of broken characters, and control tokens between their bytes.
        Random random(seed_);
        for (int i = 0; i < 500; ++i) {
            Ids ids(below(random, 30));
            for (TokenId& id : ids)
                id = static_cast<TokenId>(below(random, below(random, 2) ? 600 : tokenizer->size()));
            check(tokenizer, ids, i % 2);
            if (QTest::currentTestFailed())
                return;
        }
    }

    void streams_any_bytes() {
        Vocabulary vocabulary = byte_vocabulary();
        const TokenId control = add_token(vocabulary, "<|im_end|>", TokenKind::control);
        const auto tokenizer = make_tokenizer(vocabulary);
        Random random(seed_);
        for (int i = 0; i < 5000; ++i) {
            // Bytes of characters, some lost, some foreign.
            std::string bytes = random_text(random, 1 + below(random, 10));
            for (size_t n = below(random, 4); n > 0 && !bytes.empty(); --n)
                bytes.erase(below(random, bytes.size()), 1);
            for (size_t n = below(random, 3); n > 0; --n)
                bytes.insert(below(random, bytes.size() + 1), random_bytes(random, 1));
            Ids ids;
            for (const char c : bytes) {
                ids.push_back(static_cast<uint8_t>(c));
                if (below(random, 10) == 0)
                    ids.push_back(control);
            }
            check(tokenizer, ids, i % 2);
            if (QTest::currentTestFailed())
                return;
        }
    }

    /// Characters come whole, and at once with their last byte.
    void waits_for_whole_characters() {
        const auto tokenizer = make_tokenizer(byte_vocabulary());
        for (const std::string text : {"👩‍👩‍👧‍👦 🏳️‍🌈", "从零构建推理引擎",
                                       "é a\u0301", "\U0010FFFF\uFFFF"}) {
            Detokenizer detokenizer(tokenizer);
            for (size_t i = 0, begin = 0; i < text.size(); ++i) {
                const std::string piece = detokenizer.add(static_cast<uint8_t>(text[i]));
                const bool last = i + 1 == text.size() || (text[i + 1] & 0xC0) != 0x80;
                QCOMPARE(piece, last ? text.substr(begin, i + 1 - begin) : std::string());
                if (last)
                    begin = i + 1;
            }
            QCOMPARE(detokenizer.finish(), std::string());
        }
        Detokenizer detokenizer(tokenizer);
        QCOMPARE(detokenizer.add(0xF0), "");
        QCOMPARE(detokenizer.add(0x9F), "");
        QCOMPARE(detokenizer.add(0x98), "");
        QCOMPARE(detokenizer.finish(), "\uFFFD"); // what is cut off is one character
        QCOMPARE(detokenizer.add(0xE2), "");
        QCOMPARE(detokenizer.add('a'), "\uFFFDa");
    }

    /// What is added to a text, whole characters long, is what the decoded text grows by.
    void continues_a_text() {
        Random random(seed_);
        const std::vector<Vocabulary> vocabularies = {
            random_sentencepiece_vocabulary(random, 60, {"a", "b", "é", "▁"}), byte_vocabulary()};
        for (const Vocabulary& vocabulary : vocabularies) {
            const auto tokenizer = make_tokenizer(vocabulary);
            for (int i = 0; i < 500; ++i) {
                const Ids before = tokenizer->encode("ab é"s.substr(0, 1 + below(random, 3)), false, true);
                Ids all = before;
                Detokenizer detokenizer(tokenizer, false, true);
                std::string given;
                for (size_t n = below(random, 8); n > 0; --n) {
                    all.push_back(static_cast<TokenId>(below(random, tokenizer->size())));
                    given += detokenizer.add(all.back());
                }
                given += detokenizer.finish();
                QCOMPARE(QByteArray::fromStdString(tokenizer->decode(before, false) + given),
                         QByteArray::fromStdString(tokenizer->decode(all, false)));
            }
        }
    }

    void drops_one_leading_space() {
        Random random(seed_);
        const Vocabulary vocabulary = random_sentencepiece_vocabulary(random, 0, {"a", "▁"});
        const auto tokenizer = make_tokenizer(vocabulary);
        const TokenId a = *tokenizer->find("a"), space = *tokenizer->find("▁"), bos = *tokenizer->bos();
        for (const Ids& ids : {Ids{bos, space, space, a, space, a},
                               {space, space, a, space, a},
                               {3 + ' ', space, a, space, a}}) {
            Detokenizer detokenizer(tokenizer);
            std::string given;
            for (const TokenId id : ids)
                given += detokenizer.add(id);
            QCOMPARE(given, " a a");
            QCOMPARE(tokenizer->decode(ids, false), " a a");
        }
    }
};

QTEST_GUILESS_MAIN(tst_detokenizer)
#include "tst_detokenizer.moc"
