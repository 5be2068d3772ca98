#include "engine/text/pre_tokenizer.h"
#include "tests/engine/text/small_vocabularies.h"
#include "tests/support/test_data.h"

#include <random>
#include <set>
#include <string>
#include <vector>

using namespace orrery;
using namespace orrery::test;

namespace {

std::vector<std::string> split(const PreTokenizer& pre_tokenizer, const std::string& text) {
    std::vector<size_t> ends;
    pre_tokenizer.split(text, ends);
    std::vector<std::string> pieces;
    size_t begin = 0;
    for (const size_t end : ends) {
        pieces.push_back(text.substr(begin, end - begin));
        begin = end;
    }
    return pieces;
}

std::vector<nlohmann::json> cases() {
    return read_json_lines(std::filesystem::path(PRE_TOKENIZER_CASES));
}

} // namespace

class tst_pre_tokenizer : public QObject {
    Q_OBJECT

    uint64_t seed_ = std::random_device()();

private slots:
    void initTestCase() { qInfo("seed %llu", static_cast<unsigned long long>(seed_)); }

    /// The rules that models' authors publish, run by another regular expression engine.
    void cuts_like_the_authors_rules_data() {
        QTest::addColumn<QString>("pre");
        std::set<std::string> names;
        for (const auto& line : cases())
            names.insert(line["pre"]);
        QVERIFY(names.size() > 10);
        for (const std::string& name : names)
            QTest::newRow(name.c_str()) << QString::fromStdString(name);
    }
    void cuts_like_the_authors_rules() {
        QFETCH(QString, pre);
        const PreTokenizer pre_tokenizer(pre.toStdString());
        for (const auto& line : cases()) {
            if (line["pre"].get<std::string>() != pre.toStdString())
                continue;
            const std::vector<std::string> got = split(pre_tokenizer, line["text"]);
            QVERIFY2(got == line["pieces"],
                     qPrintable(QString::fromStdString("got " + nlohmann::json(got).dump() + "\nwant " +
                                                       line["pieces"].dump())));
        }
    }

    void covers_any_bytes() {
        Random random(seed_);
        for (const char* name : {"gpt-2", "smollm", "default", "falcon", "llama-bpe", "qwen2", "deepseek-llm",
                                 "deepseek-v3", "tekken", "gpt-4o", "bloom", "viking"}) {
            QVERIFY(PreTokenizer::knows(name));
            const PreTokenizer pre_tokenizer(name);
            for (int i = 0; i < 300; ++i) {
                std::string text = random_text(random, below(random, 100));
                if (i % 2)
                    text.insert(below(random, text.size() + 1), random_bytes(random, below(random, 9)));
                std::string joined;
                for (const std::string& piece : split(pre_tokenizer, text)) {
                    QVERIFY(!piece.empty());
                    joined += piece;
                }
                QCOMPARE(QByteArray::fromStdString(joined), QByteArray::fromStdString(text));
            }
        }
    }

    /// Runs that make a careless pattern look at each byte again from each byte; 10^10 steps would be
    /// noticed.
    void long_runs_take_linear_work_data() {
        QTest::addColumn<QString>("pre");
        for (const char* name : {"gpt-2", "smollm", "default", "falcon", "llama-bpe", "qwen2", "qwen35",
                                 "seed-coder", "bailingmoe", "deepseek-llm", "deepseek-coder", "deepseek-v3",
                                 "tekken", "gpt-4o", "bloom", "viking"})
            QTest::newRow(name) << name;
    }
    void long_runs_take_linear_work() {
        QFETCH(QString, pre);
        const PreTokenizer pre_tokenizer(pre.toStdString());
        for (const char* unit :
             {" ", "\n", "\t ", "a", "A", "字", "1", ".", "é", "\u0301", "aA", " \n", "'", "/", "\xFF"}) {
            std::string run;
            while (run.size() < 200000)
                run += unit;
            for (const char* end : {"", "x", "\n", "."}) {
                std::vector<size_t> ends;
                pre_tokenizer.split(run + end, ends);
                QCOMPARE(ends.back(), run.size() + std::string(end).size());
            }
        }
    }

    void an_unknown_name_gives_the_default() {
        QVERIFY(!PreTokenizer::knows("no such name"));
        QVERIFY(!PreTokenizer::knows(""));
        const std::string text = "It's 12345 $x, a  b\n";
        QCOMPARE(split(PreTokenizer("no such name"), text), split(PreTokenizer("default"), text));
        QCOMPARE(split(PreTokenizer(""), text), split(PreTokenizer("default"), text));
    }
};

QTEST_GUILESS_MAIN(tst_pre_tokenizer)
#include "tst_pre_tokenizer.moc"
