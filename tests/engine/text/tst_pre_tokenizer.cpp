#include "engine/text/pre_tokenizer.h"
#include "tests/engine/text/small_vocabularies.h"
#include "tests/support/test_data.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

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

/// Counts what matching looks at: each step of the matcher, and how far it moves in the text.
struct Work {
    uint64_t steps = 0;
    size_t at = 0;

    static int count(pcre2_callout_block* block, void* data) {
        Work& work = *static_cast<Work*>(data);
        const size_t now = block->current_position;
        work.steps += 1 + (now > work.at ? now - work.at : work.at - now);
        work.at = now;
        return 0;
    }
};

/// The steps that a pre-tokenizer's patterns take on a text, run one after the other on the pieces that are
/// left. The interpreter does at least the work of the compiled code.
uint64_t steps_of(const std::vector<pcre2_code*>& stages, const std::string& text) {
    Work work;
    pcre2_match_context* context = pcre2_match_context_create(nullptr);
    pcre2_set_match_limit(context, UINT32_MAX);
    pcre2_set_callout(context, Work::count, &work);
    pcre2_match_data* result = pcre2_match_data_create(1, nullptr);
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(result);
    std::vector<size_t> before = {text.size()}, after;
    for (const pcre2_code* code : stages) {
        after.clear();
        size_t begin = 0;
        for (const size_t end : before) {
            const auto* piece = reinterpret_cast<PCRE2_SPTR>(text.data() + begin);
            const size_t size = end - begin;
            for (size_t done = 0; done < size;) {
                work.at = done;
                if (pcre2_match(code, piece, size, done, PCRE2_NO_UTF_CHECK, result, context) < 0) {
                    after.push_back(end);
                    break;
                }
                if (found[0] > done)
                    after.push_back(begin + found[0]);
                after.push_back(begin + found[1]);
                done = found[1];
            }
            begin = end;
        }
        before.swap(after);
    }
    pcre2_match_data_free(result);
    pcre2_match_context_free(context);
    return work.steps;
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

    /// Long runs of anything take work that grows with their length and not with its square: counted, not
    /// timed.
    void long_runs_take_linear_work_data() {
        QTest::addColumn<QString>("pre");
        std::set<std::vector<const char*>> seen;
        for (const std::string_view name : PreTokenizer::names())
            if (seen.insert(PreTokenizer::patterns(name)).second)
                QTest::newRow(std::string(name).c_str())
                    << QString::fromUtf8(name.data(), qsizetype(name.size()));
        QVERIFY(seen.size() > 10);
    }
    void long_runs_take_linear_work() {
        QFETCH(QString, pre);
        std::vector<pcre2_code*> stages;
        for (const char* pattern : PreTokenizer::patterns(pre.toStdString())) {
            int error = 0;
            PCRE2_SIZE at = 0;
            stages.push_back(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                                           PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_AUTO_CALLOUT,
                                           &error, &at, nullptr));
            QVERIFY(stages.back());
        }
        const char* units[] = {"a",      "A",  "1",  " ",  "\n",     "\r",     "\t",     ".",
                               "'",      "/",  "字", "é",  "\u0301", "\u00A0", "\u3000", "\u01C5",
                               "\u02B0", "😀",  "aA", "Aa", " a",     "a ",     " \n",    "' ",
                               "a1",     "'s", ". ", "1 ", "字a",    "\x01"};
        const char* tails[] = {"", "a", ".", "\n", "1", "字", " a"};
        for (const char* unit : units)
            for (const char* tail : tails) {
                const auto steps = [&](int count) {
                    std::string text;
                    for (int i = 0; i < count; ++i)
                        text += unit;
                    return steps_of(stages, text + tail);
                };
                const uint64_t once = steps(400), twice = steps(800);
                QVERIFY2(twice <= 2 * once + 200,
                         qPrintable(QString("'%1' repeated, then '%2': %3 steps, %4 for twice as many")
                                        .arg(unit, tail)
                                        .arg(once)
                                        .arg(twice)));
            }
        for (pcre2_code* code : stages)
            pcre2_code_free(code);
    }

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

    /// The compiled patterns need no stack that grows with the text.
    void long_runs_come_through_data() {
        QTest::addColumn<QString>("pre");
        for (const char* name : {"gpt-2", "smollm", "default", "falcon", "llama-bpe", "qwen2", "qwen35",
                                 "seed-coder", "bailingmoe", "deepseek-llm", "deepseek-coder", "deepseek-v3",
                                 "tekken", "gpt-4o", "bloom", "viking"})
            QTest::newRow(name) << name;
    }
    void long_runs_come_through() {
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
