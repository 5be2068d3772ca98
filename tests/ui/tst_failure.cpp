// Failures as codes with parameters: every one has its sentence in every language, with the parameters in it.
#include "ui/failure.h"
#include "ui/language.h"

#include <QLocale>
#include <QSet>
#include <QtTest>

#include <algorithm>

using namespace orrery;
using namespace orrery::ui;

namespace {

const QString detail = QStringLiteral("Detail of the engine.");

std::vector<LoadFailure> loadFailures() {
    using Code = LoadFailure::Code;
    std::vector<LoadFailure> all;
    for (const Code code : {Code::Missing, Code::NotReadable, Code::NoMemory, Code::NotUsable})
        all.push_back({code, QStringLiteral("/models/tiny.gguf"), detail});
    return all;
}

std::vector<AnswerFailure> answerFailures() {
    using Code = AnswerFailure::Code;
    std::vector<AnswerFailure> all;
    for (const Code code : {Code::NoModel, Code::ModelNotLoaded, Code::NoChatTemplate, Code::TemplateRefused,
                            Code::NoMemory, Code::PromptTooLong, Code::Refused, Code::EngineFailed})
        all.push_back({code, QStringLiteral("Tiny-1B"), 20'013, 8'192, detail});
    return all;
}

bool isChinese(const QString& text) {
    return std::any_of(text.begin(), text.end(), [](QChar c) { return c.script() == QChar::Script_Han; });
}

} // namespace

class TestFailure : public QObject {
    Q_OBJECT

private slots:
    void cleanup() { language::apply(QStringLiteral("en")); }

    void everyCodeHasItsSentence_data() {
        QTest::addColumn<QString>("code");
        QTest::newRow("English") << "en";
        QTest::newRow("Chinese") << "zh_CN";
    }
    void everyCodeHasItsSentence() {
        QFETCH(QString, code);
        language::apply(code);
        QSet<QString> sentences;
        for (const LoadFailure& failure : loadFailures()) {
            const QString text = sentence(failure);
            QVERIFY2(text.contains(QStringLiteral("tiny.gguf")), qPrintable(text));
            QVERIFY2(!text.contains(QLatin1Char('%')), qPrintable(text));
            sentences.insert(text);
        }
        for (const AnswerFailure& failure : answerFailures())
            sentences.insert(sentence(failure));
        QCOMPARE(size_t(sentences.size()), loadFailures().size() + answerFailures().size());
        for (const QString& text : std::as_const(sentences)) {
            QVERIFY2(text.size() > 12 && !text.contains(QLatin1Char('%')), qPrintable(text));
            QVERIFY2(text.endsWith(QLatin1Char('.')) || text.endsWith(QChar(0x3002)), qPrintable(text));
            QCOMPARE(isChinese(text), code == QStringLiteral("zh_CN"));
        }
    }

    /// The sentence follows the language that is in force when it is shown, not when it happened.
    void parametersStandInEveryLanguage() {
        const AnswerFailure failure = answerFailures()[5];
        QCOMPARE(failure.code, AnswerFailure::Code::PromptTooLong);
        for (const char* code : {"en", "zh_CN"}) {
            language::apply(QString::fromLatin1(code));
            QVERIFY(sentence(failure).contains(QLocale().toString(20'013)));
            QVERIFY(sentence(failure).contains(QLocale().toString(8'192)));
            QVERIFY(sentence(answerFailures()[2]).contains(QStringLiteral("Tiny-1B")));
        }
    }

    /// What the engine says stands behind our own sentence, as it is, where our own does not say it all.
    void theEnginesSentenceIsTheDetail() {
        QVERIFY(!sentence(loadFailures()[0]).contains(detail));
        QVERIFY(sentence(loadFailures()[2]).endsWith(detail));
        QVERIFY(sentence(loadFailures()[3]).endsWith(detail));
        QVERIFY(sentence(answerFailures()[3]).endsWith(detail));
        QVERIFY(sentence(answerFailures()[6]).endsWith(detail));
        QVERIFY(sentence(answerFailures()[7]).endsWith(detail));
        LoadFailure without = loadFailures()[3];
        without.detail.clear();
        QVERIFY(!sentence(without).endsWith(QLatin1Char(' ')));
    }

    void noFailureHasNoSentence() {
        const AnswerFailure none;
        QVERIFY(!none);
        QVERIFY(sentence(none).isEmpty());
    }

    /// Every end that is not the usual one and no failure has a word, in both languages.
    void endsHaveTheirWords() {
        using F = FinishReason;
        for (const char* code : {"en", "zh_CN"}) {
            language::apply(QString::fromLatin1(code));
            QSet<QString> words;
            for (const F reason : {F::stop_string, F::length, F::context_full, F::cancelled, F::time_limit}) {
                words.insert(endWord(reason));
                QCOMPARE(isChinese(endWord(reason)), QLatin1String(code) == QLatin1String("zh_CN"));
            }
            QCOMPARE(words.size(), 5);
            for (const F reason : {F::none, F::stop_token, F::disconnected, F::rejected, F::error})
                QVERIFY(endWord(reason).isEmpty());
        }
    }
};

QTEST_GUILESS_MAIN(TestFailure)
#include "tst_failure.moc"
