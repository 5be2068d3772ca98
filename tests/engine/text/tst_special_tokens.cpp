#include "engine/text/special_tokens.h"
#include "tests/engine/text/small_vocabularies.h"

#include <QtTest>

#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace orrery;
using namespace orrery::test;
using namespace std::string_literals;

namespace {

struct Names {
    std::vector<std::string> names;
    std::vector<TokenKind> kinds;

    void add(const std::string& name, TokenKind kind) {
        names.push_back(name);
        kinds.push_back(kind);
    }
};

bool lies_in(const std::vector<TextRange>& ranges, size_t begin, size_t end) {
    return std::ranges::any_of(
        ranges, [&](const TextRange& range) { return range.begin <= begin && end <= range.end; });
}

/// The rule in its plainest form: one pass over the text for each length, longest first.
std::vector<TextFragment> split_slowly(const Names& names, std::string_view text,
                                       const std::vector<TextRange>& trusted) {
    std::map<std::string, TokenId, std::less<>> tokens; // the first of each name
    std::set<size_t, std::greater<>> lengths;
    for (size_t i = 0; i < names.names.size(); ++i)
        if (names.kinds[i] != TokenKind::normal && !names.names[i].empty()) {
            tokens.emplace(names.names[i], static_cast<TokenId>(i));
            lengths.insert(names.names[i].size());
        }
    std::vector<bool> taken(text.size());
    std::map<size_t, TextFragment> found;
    for (const size_t length : lengths)
        for (size_t begin = 0; begin + length <= text.size(); ++begin) {
            const auto token = tokens.find(text.substr(begin, length));
            if (token == tokens.end())
                continue;
            const bool anywhere = names.kinds[size_t(token->second)] == TokenKind::user_defined;
            const auto first = taken.begin() + begin;
            if ((anywhere || lies_in(trusted, begin, begin + length)) &&
                std::none_of(first, first + length, [](bool is) { return is; })) {
                std::fill(first, first + length, true);
                found[begin] = {begin, begin + length, token->second};
            }
        }
    std::vector<TextFragment> fragments;
    size_t at = 0;
    for (const auto& [begin, fragment] : found) {
        if (at < begin)
            fragments.push_back({at, begin, -1});
        fragments.push_back(fragment);
        at = fragment.end;
    }
    if (at < text.size())
        fragments.push_back({at, text.size(), -1});
    return fragments;
}

std::string show(const std::vector<TextFragment>& fragments) {
    std::string out;
    for (const TextFragment& f : fragments)
        out += std::to_string(f.begin) + "-" + std::to_string(f.end) + ":" + std::to_string(f.token) + " ";
    return out;
}

} // namespace

class tst_special_tokens : public QObject {
    Q_OBJECT

    uint64_t seed_ = std::random_device()();

private slots:
    void initTestCase() { qInfo("seed %llu", static_cast<unsigned long long>(seed_)); }

    void agrees_with_the_rule() {
        Random random(seed_);
        for (int round = 0; round < 3000; ++round) {
            const std::string alphabet = round % 3 == 0 ? "a" : round % 3 == 1 ? "ab" : "a\xFF\x80\0b"s;
            const auto letters = [&](size_t count) {
                std::string out(count, 'a');
                for (char& c : out)
                    c = alphabet[below(random, alphabet.size())];
                return out;
            };
            Names names;
            const TokenKind kinds[] = {TokenKind::control, TokenKind::unknown, TokenKind::user_defined,
                                       TokenKind::user_defined, TokenKind::normal};
            for (size_t n = below(random, 14); n > 0; --n)
                names.add(letters(below(random, below(random, 4) ? 5 : 12)), kinds[below(random, 5)]);
            const SpecialTokens special(names.names, names.kinds);
            for (int i = 0; i < 8; ++i) {
                const std::string text = letters(below(random, 40));
                std::vector<TextRange> trusted;
                for (size_t at = below(random, 6); at < text.size();) {
                    const size_t end = std::min(text.size(), at + 1 + below(random, 20));
                    trusted.push_back({at, end});
                    at = end + 1 + below(random, 5);
                }
                const std::string expected = show(split_slowly(names, text, trusted));
                const std::string got = show(special.split(text, trusted));
                QVERIFY2(got == expected, (text + ": got " + got + ", want " + expected).c_str());
            }
        }
    }

    /// Work is counted, not timed: it grows with the text, however the names nest.
    void work_is_linear_data() {
        QTest::addColumn<QString>("names");
        for (const char* name : {"runs", "runs of two kinds", "runs and an end", "beginnings", "random"})
            QTest::newRow(name) << name;
    }
    void work_is_linear() {
        QFETCH(QString, names);
        const std::string kind = names.toStdString();
        Random random(seed_);
        Names nested;
        std::string noise(4000, 'a');
        for (char& c : noise)
            c = static_cast<char>('a' + below(random, 2));
        for (size_t length = 1; length <= 4000; ++length) {
            const TokenKind type =
                kind == "runs of two kinds" && length % 2 ? TokenKind::control : TokenKind::user_defined;
            if (kind == "beginnings")
                nested.add(noise.substr(0, length), type);
            else if (kind == "random")
                nested.add(noise.substr(below(random, 3990), 1 + below(random, 10)), type);
            else
                nested.add(std::string(length, 'a') + (kind == "runs and an end" ? "b" : ""), type);
        }
        const SpecialTokens special(nested.names, nested.kinds);
        uint64_t before = 0;
        for (const size_t size : {32000, 64000, 128000, 1024000}) {
            std::string text(size, 'a');
            for (size_t i = 0; i < size; ++i)
                text[i] = kind == "beginnings" || kind == "random" ? noise[i % 3999] : 'a';
            uint64_t steps = 0;
            const auto fragments = special.split(text, {{0, size / 2}}, &steps);
            QVERIFY(kind == "runs and an end" || fragments.size() >= size / 4000);
            // A byte's names are a list of at most 4,000, walked in steps of the binary logarithm.
            QVERIFY2(steps <= 8 * 12 * size,
                     qPrintable(QString("%1 steps for %2 bytes").arg(steps).arg(size)));
            before = steps;
        }
        QVERIFY(before >= 1024000); // they are counted
    }
};

QTEST_GUILESS_MAIN(tst_special_tokens)
#include "tst_special_tokens.moc"
