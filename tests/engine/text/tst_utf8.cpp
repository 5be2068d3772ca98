#include "engine/text/utf8.h"

#include <QtTest>

#include <random>
#include <set>
#include <string>
#include <vector>

using namespace orrery;

namespace {

const std::string replacement = "\xEF\xBF\xBD";

std::string qt_encodes(char32_t code) {
    // Not QString::fromUcs4, which takes U+FEFF for a byte order mark.
    return QStringView(QChar::fromUcs4(code)).toUtf8().toStdString();
}

/// All proper prefixes of well-formed characters, and the characters themselves, from Qt's encoder.
struct WellFormed {
    std::set<std::string> prefixes, characters;

    WellFormed() {
        for (char32_t code = 0; code <= 0x10FFFF; ++code) {
            if (code >= 0xD800 && code <= 0xDFFF)
                continue;
            const std::string character = qt_encodes(code);
            // All that begin alike have the same prefixes; the last byte alone differs within 64.
            if (character.size() > 1 && code % 64 != 0)
                continue;
            characters.insert(character);
            for (size_t length = 1; length < character.size(); ++length)
                prefixes.insert(character.substr(0, length));
        }
    }

    bool whole(std::string bytes) const {
        if (bytes.size() > 1) {
            if ((bytes.back() & 0xC0) != 0x80)
                return false;
            bytes.back() = '\x80';
        }
        return characters.contains(bytes);
    }

    /// Unicode 3.9: what is no character becomes one U+FFFD for each maximal subpart: the longest part that
    /// begins a character, or else one byte. `open` tells whether the text ends inside of a character.
    std::string repair(const std::string& text, bool* open) const {
        std::string out;
        *open = false;
        for (size_t at = 0; at < text.size();) {
            size_t length = 1;
            while (at + length <= text.size() && prefixes.contains(text.substr(at, length)))
                ++length;
            if (at + length <= text.size() && whole(text.substr(at, length))) {
                out += text.substr(at, length);
            } else {
                length = std::max<size_t>(length - 1, 1);
                out += replacement;
                *open = at + length == text.size() && prefixes.contains(text.substr(at));
            }
            at += length;
        }
        return out;
    }
};

} // namespace

class tst_utf8 : public QObject {
    Q_OBJECT

    WellFormed well_formed_;

    void check(const std::string& text) {
        bool open = false;
        const std::string expected = well_formed_.repair(text, &open);
        std::string whole, growing;
        const size_t used = utf8::append_repaired(whole, text, true);
        QCOMPARE(QByteArray::fromStdString(whole), QByteArray::fromStdString(expected));
        QCOMPARE(used, text.size());
        const size_t kept = utf8::append_repaired(growing, text, false);
        QCOMPARE(kept < text.size(), open);
        QCOMPARE(QByteArray::fromStdString(growing + (open ? replacement : "")),
                 QByteArray::fromStdString(expected));
        QCOMPARE(utf8::is_valid(text), expected == text && !open && well_formed_.repair(text, &open) == text);
        QVERIFY(utf8::is_valid(whole));
    }

private slots:
    void encodes_like_qt() {
        for (char32_t code = 0; code <= 0x10FFFF; ++code) {
            if (code >= 0xD800 && code <= 0xDFFF)
                continue;
            std::string bytes;
            utf8::append(bytes, code);
            QCOMPARE(bytes, qt_encodes(code));
            const utf8::Sequence sequence = utf8::first(bytes + "x");
            QVERIFY(sequence.form == utf8::Form::whole && sequence.length == bytes.size() &&
                    sequence.code == code);
        }
    }

    /// All sequences of up to four bytes at which the rules change.
    void repairs_every_boundary() {
        const std::vector<uint8_t> bytes = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1,
                                            0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF};
        size_t count = 1;
        for (int length = 1; length <= 4; ++length) {
            count *= bytes.size();
            for (size_t n = 0; n < count; ++n) {
                std::string text;
                for (size_t rest = n, i = 0; i < static_cast<size_t>(length); ++i, rest /= bytes.size())
                    text += static_cast<char>(bytes[rest % bytes.size()]);
                check(text);
                if (QTest::currentTestFailed())
                    return;
            }
        }
    }

    void repairs_random_bytes() {
        const uint64_t seed = std::random_device()();
        qInfo("seed %llu", static_cast<unsigned long long>(seed));
        std::mt19937_64 random(seed);
        for (int i = 0; i < 20000; ++i) {
            std::string text(random() % 40, ' ');
            for (char& c : text)
                c = static_cast<char>(random() % 3 ? 0x80 + random() % 0x80 : random());
            check(text);
            if (QTest::currentTestFailed())
                return;
        }
    }

    /// The examples of the Unicode Standard, tables 3-8 to 3-11.
    void repairs_the_standards_examples() {
        const std::vector<std::pair<std::string, std::string>> examples = {
            {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", "????????A"},
            {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", "????????A"},
            {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", "?????A??B"},
            {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", "????A"}};
        for (const auto& [bytes, expected] : examples) {
            std::string repaired;
            utf8::append_repaired(repaired, bytes, true);
            QCOMPARE(QString::fromStdString(repaired).replace(QChar(0xFFFD), '?'),
                     QString::fromStdString(expected));
        }
    }
};

QTEST_GUILESS_MAIN(tst_utf8)
#include "tst_utf8.moc"
