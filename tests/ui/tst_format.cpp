// Numbers as the window writes them. The expected texts are written by hand from the rule: three significant
// digits, whole numbers never cut, thousands separated, a unit always.
#include "ui/format.h"

#include <QRandomGenerator>
#include <QtTest>

using namespace orrery::ui;

class TestFormat : public QObject {
    Q_OBJECT

private:
    const QLocale english_{QLocale::English, QLocale::UnitedStates};

private slots:
    void number_data() {
        QTest::addColumn<double>("value");
        QTest::addColumn<QString>("text");
        const std::pair<double, const char*> rows[] = {
            {0, "0"},         {1, "1.00"},       {0.0123, "0.0123"}, {1.234, "1.23"},     {12.34, "12.3"},
            {123.4, "123"},   {1234.4, "1,234"}, {9.994, "9.99"},    {9.996, "10.0"},     {99.96, "100"},
            {999.6, "1,000"}, {-58.04, "-58.0"}, {1e-3, "0.00100"},  {123456, "123,456"}, {0.99996, "1.00"},
        };
        for (const auto& [value, text] : rows)
            QTest::addRow("%.6g", value) << value << text;
    }
    void number() {
        QFETCH(double, value);
        QFETCH(QString, text);
        QCOMPARE(format::number(value, english_), text);
    }

    void noNumber() {
        QCOMPARE(format::number(qQNaN(), english_), QStringLiteral("–"));
        QCOMPARE(format::number(qInf(), english_), QStringLiteral("–"));
    }

    void duration_data() {
        QTest::addColumn<qint64>("ns");
        QTest::addColumn<QString>("text");
        QTest::newRow("ns") << qint64(310) << "310 ns";
        QTest::newRow("to µs") << qint64(1000) << "1.00 µs";
        QTest::newRow("ms") << qint64(4'200'000) << "4.20 ms";
        QTest::newRow("never 1,000 µs") << qint64(999'600) << "1.00 ms";
        QTest::newRow("s") << qint64(1'250'000'000) << "1.25 s";
        QTest::newRow("minutes stay seconds") << qint64(754'000'000'000) << "754 s";
    }
    void duration() {
        QFETCH(qint64, ns);
        QFETCH(QString, text);
        QCOMPARE(format::duration(ns, english_), text);
    }

    void bytes_data() {
        QTest::addColumn<qint64>("bytes");
        QTest::addColumn<QString>("text");
        QTest::newRow("bytes") << qint64(512) << "512 B";
        QTest::newRow("never 1,023 KiB") << qint64(1023 * 1024) << "0.999 MiB";
        QTest::newRow("the default model") << qint64(98'362'432) << "93.8 MiB";
        QTest::newRow("GiB") << (qint64(24) << 30) << "24.0 GiB";
    }
    void bytes() {
        QFETCH(qint64, bytes);
        QFETCH(QString, text);
        QCOMPARE(format::bytes(bytes, english_), text);
    }

    /// Another language's marks are taken, not only the English ones.
    void germanMarks() {
        const QLocale german(QLocale::German, QLocale::Germany);
        QCOMPARE(format::number(12.34, german), QStringLiteral("12,3"));
        QCOMPARE(format::count(98'362'432, german), QStringLiteral("98.362.432"));
    }

    void shortened_data() {
        QTest::addColumn<QString>("text");
        QTest::addColumn<int>("length");
        QTest::addColumn<QString>("result");
        const auto row = [](const char* name, const char* text, int length, const char* result) {
            QTest::newRow(name) << QString::fromUtf8(text) << length << QString::fromUtf8(result);
        };
        row("short enough", "abc", 3, "abc");
        row("plain", "abcdef", 3, "abc");
        row("nothing", "abc", 0, "");
        row("Chinese", "内存共享", 2, "内存");
        row("surrogate pair", "ab😀", 3, "ab");
        row("family", "a👨‍👩‍👧‍👦b", 8, "a");
        row("whole family", "a👨‍👩‍👧‍👦b", 12, "a👨‍👩‍👧‍👦");
        row("skin tone", "👍🏽👍🏽", 6, "👍🏽");
        row("flags", "🇩🇪🇨🇳", 6, "🇩🇪");
        row("combining mark", "ae\u0301", 2, "a");
        row("Hangul jamo", "\u1112\u1161\u11ab\u1100", 2, "\u1112\u1161");
        row("emoji behind Devanagari", "नि👍🏽👩‍👦", 7, "नि👍🏽");
        row("flags behind Devanagari", "नि🇩🇪🇨🇳", 8, "नि🇩🇪");
        row("Devanagari", "नि", 1, "न");
        row("line ending", "a\r\nb", 2, "a");
    }
    void shortened() {
        QFETCH(QString, text);
        QFETCH(int, length);
        QFETCH(QString, result);
        QCOMPARE(format::shortened(text, length), result);
    }

    /// Whatever the text and the length: a beginning of it, no longer than asked, that never ends within a
    /// code point nor (but where the first one is longer than all) within a cluster.
    void shortenedTextsEndBetweenCharacters() {
        static const QStringList clusters = {
            QStringLiteral("a"),
            QStringLiteral(" "),
            QString::fromUtf8("é"),
            QString::fromUtf8("e\u0301"),
            QString::fromUtf8("👩‍👩‍👦"),
            QString::fromUtf8("🏴‍☠️"),
            QString::fromUtf8("🇨🇳"),
            QString::fromUtf8("1️⃣"),
            QString::fromUtf8("👍🏽"),
            QString::fromUtf8("各"),
            QString::fromUtf8("𠮷"),
            QString::fromUtf8("a\u0300\u0301\u0302"),
            QString::fromUtf8("한"),
            QString::fromUtf8("नि"),
        };
        const quint32 seed = QRandomGenerator::global()->generate();
        qInfo("seed %u", seed);
        QRandomGenerator random(seed);
        for (int round = 0; round < 2'000; ++round) {
            QString text;
            QList<qsizetype> bounds = {0};
            const int count = random.bounded(1, 30);
            for (int i = 0; i < count; ++i) {
                QString next = clusters[random.bounded(clusters.size())];
                // Two flags in a row would be one sequence of letters to pair: a space between them.
                if (text.endsWith(next) && next == clusters[6])
                    next = QStringLiteral(" ");
                text += next;
                bounds << text.size();
            }
            const int length = random.bounded(0, 60);
            const QString cut = format::shortened(text, length);
            QVERIFY(text.startsWith(cut));
            qsizetype longest = 0;
            for (const qsizetype bound : std::as_const(bounds))
                if (bound <= length)
                    longest = bound;
            if (longest > 0 || length == 0) {
                QCOMPARE(cut, text.first(longest));
            } else {
                QVERIFY(cut.size() <= length);
                QVERIFY2(cut.isEmpty() || !cut.back().isHighSurrogate(),
                         qPrintable(QStringLiteral("%1 units of '%2'").arg(length).arg(text)));
            }
        }
    }

    void rate() { QCOMPARE(format::rate(58.04, english_), QStringLiteral("58.0 tok/s")); }
};

QTEST_GUILESS_MAIN(TestFormat)
#include "tst_format.moc"
