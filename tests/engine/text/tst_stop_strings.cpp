#include "engine/text/stop_strings.h"

#include <QtTest>

#include <random>
#include <string>
#include <vector>

using namespace orrery;

namespace {

using Strings = std::vector<std::string>;

/// What must have been shown of a text: the rule in its plainest form.
struct Oracle {
    std::string shown; ///< given out so far
    std::string held;
    bool stopped = false;

    /// The first `ignored` bytes came with `ignore`.
    Oracle(const Strings& stops, const std::string& text, size_t ignored) {
        for (size_t end = ignored + 1; end <= text.size() && !stopped; ++end) {
            size_t longest = 0;
            for (const std::string& stop : stops)
                if (!stop.empty() && text.substr(0, end).ends_with(stop))
                    longest = std::max(longest, stop.size());
            if (longest > 0) {
                stopped = true;
                shown = text.substr(0, end - longest);
            }
        }
        if (stopped)
            return;
        size_t keep = 0;
        for (const std::string& stop : stops)
            for (size_t length = 1; length < stop.size(); ++length)
                if (text.ends_with(stop.substr(0, length)))
                    keep = std::max(keep, length);
        shown = text.substr(0, text.size() - keep);
        held = text.substr(text.size() - keep);
    }
};

void check(const Strings& stops, const Strings& chunks, size_t ignored_chunks) {
    StopStrings watcher(stops);
    std::string text, shown;
    size_t ignored = 0;
    bool stopped = false;
    for (size_t i = 0; i < chunks.size(); ++i) {
        text += chunks[i];
        if (i < ignored_chunks)
            ignored = text.size();
        const StopStrings::Result result = watcher.add(chunks[i], i < ignored_chunks);
        QVERIFY(!stopped || (result.stopped && result.text.empty())); // nothing follows
        shown += result.text;
        stopped = result.stopped;
        const Oracle oracle(stops, text, ignored);
        QVERIFY2(stopped == oracle.stopped && shown == oracle.shown,
                 qPrintable(
                     QString::fromStdString("stops " + stops[0] + (stops.size() > 1 ? ", " + stops[1] : "") +
                                            "; text " + text + ", " + std::to_string(ignored) +
                                            " ignored; shown '" + shown + "', not '" + oracle.shown + "'")));
    }
    QCOMPARE(watcher.finish(), Oracle(stops, text, ignored).held);
    QCOMPARE(watcher.finish(), std::string());
}

Strings all_strings(const std::string& alphabet, size_t longest) {
    Strings all = {""};
    for (size_t i = 0; i < all.size(); ++i)
        if (all[i].size() < longest)
            for (const char c : alphabet)
                all.push_back(all[i] + c);
    return {all.begin() + 1, all.end()};
}

} // namespace

class tst_stop_strings : public QObject {
    Q_OBJECT
private slots:
    /// Every text of up to six letters in every split, with every pair of stop strings of up to three.
    void agrees_with_the_rule_on_small_alphabets() {
        const Strings texts = all_strings("ab", 6), stops = all_strings("ab", 3);
        for (size_t first = 0; first < stops.size(); ++first)
            for (size_t second = first; second < stops.size(); ++second)
                for (const std::string& text : texts)
                    for (size_t cuts = 0; cuts < size_t{1} << (text.size() - 1); ++cuts) {
                        Strings chunks(1);
                        for (size_t i = 0; i < text.size(); ++i) {
                            chunks.back() += text[i];
                            if (i + 1 < text.size() && cuts >> i & 1)
                                chunks.emplace_back();
                        }
                        check({stops[first], stops[second]}, chunks, cuts % (chunks.size() + 1));
                        if (QTest::currentTestFailed())
                            return;
                    }
    }

    /// Stop strings that overlap themselves more than once: after a mismatch, several shorter beginnings of
    /// the stop string may still be right, and the longest has to be tried first.
    void a_stop_string_may_overlap_itself() {
        // Fibonacci words and their like have the most such beginnings.
        Strings stops = {"aabaaab",  "abaababaab", "aabaaabaab",     "ababab",
                         "aabaabaa", "aaaaab",     "abacabadabacaba"};
        for (const std::string& word : all_strings("ab", 8))
            if (word.size() >= 5)
                stops.push_back(word);
        for (const std::string& stop : stops)
            for (size_t first = 1; first < stop.size(); ++first)
                for (size_t second = 1; second < stop.size(); second += 2) {
                    // Two beginnings, then the whole: where one ends, the next has begun already.
                    const std::string text = stop.substr(0, first) + stop.substr(0, second) + stop + "a";
                    Strings letters;
                    for (const char c : text)
                        letters.emplace_back(1, c);
                    check({stop}, letters, 0);
                    if (QTest::currentTestFailed())
                        return;
                }
    }

    void agrees_with_the_rule_on_random_texts() {
        const uint64_t seed = std::random_device()();
        qInfo("seed %llu", static_cast<unsigned long long>(seed));
        std::mt19937_64 random(seed);
        const auto letters = [&](size_t count) {
            std::string out(count, 'a');
            for (char& c : out)
                c = static_cast<char>('a' + random() % 3);
            return out;
        };
        for (int i = 0; i < 20000; ++i) {
            Strings stops, chunks;
            for (size_t n = 1 + random() % 5; n > 0; --n)
                stops.push_back(letters(1 + random() % 8));
            for (size_t n = 1 + random() % 12; n > 0; --n)
                chunks.push_back(letters(random() % 6));
            check(stops, chunks, random() % (chunks.size() + 1));
            if (QTest::currentTestFailed())
                return;
        }
    }

    void the_first_complete_string_wins() {
        const auto result = StopStrings({"bcd", "c"}).add("abcd");
        QVERIFY(result.stopped);
        QCOMPARE(result.text, "ab");
        QCOMPARE(StopStrings({"c", "bc"}).add("abcd").text, "a"); // complete at the same byte: the longest
        QCOMPARE(StopStrings({"bc", "bcd"}).add("abcd").text, "a");
    }

    void cuts_no_character() {
        const std::string text = "你好。<终止>";
        StopStrings watcher({"<终止>", "好!"});
        std::string shown;
        for (size_t i = 0; i < text.size(); i += text[i] == '<' || text[i] == '>' ? 1 : 3) {
            const std::string character = text.substr(i, text[i] == '<' || text[i] == '>' ? 1 : 3);
            const auto result = watcher.add(character);
            QCOMPARE(QString::fromUtf8(result.text.c_str()).toStdString(), result.text);
            shown += result.text;
        }
        QCOMPARE(shown, "你好。");
        // Bytes that are no characters cannot appear in text and would cut one.
        QVERIFY(!StopStrings({"\xBD", "", "\xE4\xBD"}).add("你好").stopped);
        QCOMPARE(StopStrings({"\xBD", "", "\xE4\xBD"}).add("你好").text, "你好");
    }

    void long_stop_strings_take_linear_work() {
        // Quadratic work would be 10^12 steps here.
        const std::string run(1000000, 'a');
        StopStrings watcher({run + "b"});
        std::string shown;
        for (int i = 0; i < 3; ++i)
            shown += watcher.add(run).text;
        QCOMPARE(shown.size(), size_t{2000000});
        QVERIFY(watcher.add("b").stopped);
    }
};

QTEST_GUILESS_MAIN(tst_stop_strings)
#include "tst_stop_strings.moc"
