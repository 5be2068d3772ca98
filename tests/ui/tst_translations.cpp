// Every text of the window has its Chinese: the file is complete, its placeholders agree, and the program
// finds the words.
#include "ui/knobs/knob_table.h"
#include "ui/language.h"
#include "ui/main_window.h"
#include "ui/theme.h"
#include "ui/workbench.h"

#include <QApplication>
#include <QDirIterator>
#include <QFile>
#include <QLocale>
#include <QMenuBar>
#include <QRegularExpression>
#include <QSettings>
#include <QTemporaryDir>
#include <QXmlStreamReader>
#include <QtTest>

using namespace orrery::ui;

namespace {

struct Entry {
    QString context, source;
    QStringList translations;
    QString type;
};

QList<Entry> readTs(const QString& path) {
    QList<Entry> entries;
    QFile file(path);
    if (!file.open(QIODevice::ReadOnly))
        return entries;
    QXmlStreamReader xml(&file);
    QString context;
    while (!xml.atEnd()) {
        if (xml.readNext() != QXmlStreamReader::StartElement)
            continue;
        if (xml.name() == QLatin1String("name")) {
            context = xml.readElementText();
        } else if (xml.name() == QLatin1String("source")) {
            entries.append({context, xml.readElementText(), {}, {}});
        } else if (xml.name() == QLatin1String("translation")) {
            Entry& entry = entries.last();
            entry.type = xml.attributes().value(QLatin1String("type")).toString();
            const QString text = xml.readElementText(QXmlStreamReader::IncludeChildElements);
            entry.translations.append(text.trimmed());
        }
    }
    return entries;
}

QSet<QString> placeholders(const QString& text) {
    static const QRegularExpression pattern(QStringLiteral("%(\\d|n)"));
    QSet<QString> found;
    for (auto it = pattern.globalMatch(text); it.hasNext();)
        found.insert(it.next().captured());
    return found;
}

} // namespace

class TestTranslations : public QObject {
    Q_OBJECT

private:
    QTemporaryDir settings_;
    QList<Entry> chinese_;

private slots:
    void initTestCase() {
        QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, settings_.path());
        QCoreApplication::setOrganizationName(QStringLiteral("orrery-test"));
        QCoreApplication::setApplicationName(QStringLiteral("translations"));
        chinese_ = readTs(QStringLiteral(ORRERY_SOURCE_DIR "/resources/translations/orrery_zh_CN.ts"));
    }

    void everyEntryIsFinished() {
        QVERIFY(chinese_.size() > 150);
        for (const Entry& entry : chinese_) {
            const QString what = entry.context + QStringLiteral(": ") + entry.source;
            QVERIFY2(entry.type.isEmpty(), qPrintable(what + QStringLiteral(" is ") + entry.type));
            QVERIFY2(!entry.translations.isEmpty() && !entry.translations.first().isEmpty(),
                     qPrintable(what));
            QCOMPARE(placeholders(entry.translations.first()), placeholders(entry.source));
            // A mnemonic stays one: without it the menu could not be reached by Alt and a letter.
            QCOMPARE(entry.translations.first().contains(QLatin1Char('&')),
                     entry.source.contains(QLatin1Char('&')));
        }
    }

    /// Every tr() of the sources is in the file: lupdate finds nothing new. Here, without lupdate: each
    /// string literal directly inside of tr( … ) is one of the file's sources.
    void everyTextOfTheSourcesIsInTheFile() {
        QSet<QString> known;
        for (const Entry& entry : chinese_)
            known.insert(entry.source);
        static const QRegularExpression call(
            QStringLiteral("\\b(?:Words::)?tr\\(\\s*((?:\"(?:[^\"\\\\]|\\\\.)*\"\\s*)+)"));
        static const QRegularExpression literal(QStringLiteral("\"((?:[^\"\\\\]|\\\\.)*)\""));
        int found = 0;
        QDirIterator files(QStringLiteral(ORRERY_SOURCE_DIR "/ui"),
                           {QStringLiteral("*.cpp"), QStringLiteral("*.h")}, QDir::Files,
                           QDirIterator::Subdirectories);
        while (files.hasNext()) {
            QFile file(files.next());
            QVERIFY(file.open(QIODevice::ReadOnly));
            const QString code = QString::fromUtf8(file.readAll());
            for (auto calls = call.globalMatch(code); calls.hasNext();) {
                QString text;
                const QString literals = calls.next().captured(1);
                for (auto parts = literal.globalMatch(literals); parts.hasNext();)
                    text += parts.next().captured(1);
                text.replace(QLatin1String("\\n"), QLatin1String("\n"))
                    .replace(QLatin1String("\\\""), QLatin1String("\""));
                ++found;
                QVERIFY2(known.contains(text), qPrintable(file.fileName() + QStringLiteral(": ") + text));
            }
        }
        QVERIFY(found > 150);
    }

    void languageChangesTheWindow() {
        language::choose(QStringLiteral("en"));
        Workbench bench;
        bench.show();
        const auto firstMenu = [&] { return bench.window()->menuBar()->actions().first()->text(); };
        QCOMPARE(firstMenu(), QStringLiteral("&File"));
        bench.window()->chat()->setDraft(QStringLiteral("half a thought"));
        ChatModel* chat = bench.window()->chat();

        bench.setLanguage(QStringLiteral("zh_CN"));
        QCOMPARE(firstMenu(), QStringLiteral("文件(&F)"));
        QVERIFY(bench.window()->isVisible());
        QCOMPARE(bench.window()->chat(), chat);
        QCOMPARE(bench.window()->chat()->draft(), QStringLiteral("half a thought"));
        QCOMPARE(makeKnobs().front().label, QStringLiteral("温度"));
        QCOMPARE(language::chosen(), QStringLiteral("zh_CN"));

        bench.setLanguage(QStringLiteral("en"));
        QCOMPARE(firstMenu(), QStringLiteral("&File"));
        QCOMPARE(makeKnobs().front().label, QStringLiteral("Temperature"));
    }

    void englishPlurals() {
        language::apply(QStringLiteral("en"));
        const auto threads = [](int n) {
            return QCoreApplication::translate("orrery::ui::StatusLine", "%1, %n thread(s)", nullptr, n)
                .arg(QStringLiteral("CPU"));
        };
        QCOMPARE(threads(1), QStringLiteral("CPU, 1 thread"));
        QCOMPARE(threads(2), QStringLiteral("CPU, 2 threads"));
        language::apply(QStringLiteral("zh_CN"));
        QCOMPARE(threads(2), QStringLiteral("CPU，2 个线程"));
    }
};

QTEST_MAIN(TestTranslations)
#include "tst_translations.moc"
