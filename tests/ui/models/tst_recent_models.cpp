// The models that were opened last.
#include "ui/models/recent_models.h"

#include <QFile>
#include <QSettings>
#include <QTemporaryDir>
#include <QtTest>

using namespace orrery::ui;

class TestRecentModels : public QObject {
    Q_OBJECT

    QTemporaryDir folder_;

private slots:
    void initTestCase() {
        QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, folder_.path());
        QCoreApplication::setOrganizationName(QStringLiteral("orrery-test"));
        QCoreApplication::setApplicationName(QStringLiteral("recent"));
    }
    void init() { QSettings().clear(); }

    void newestFirstAndNoneTwice() {
        recent_models::add(QStringLiteral("/m/a.gguf"));
        recent_models::add(QStringLiteral("/m/b.gguf"));
        recent_models::add(QStringLiteral("/m/a.gguf"));
        QCOMPARE(recent_models::list(),
                 QStringList({QStringLiteral("/m/a.gguf"), QStringLiteral("/m/b.gguf")}));
        recent_models::remove(QStringLiteral("/m/a.gguf"));
        QCOMPARE(recent_models::list(), QStringList({QStringLiteral("/m/b.gguf")}));
        recent_models::clear();
        QVERIFY(recent_models::list().isEmpty());
    }

    void keepsTheLastTen() {
        for (int i = 0; i < 25; ++i)
            recent_models::add(QStringLiteral("/m/%1.gguf").arg(i));
        QCOMPARE(recent_models::list().size(), qsizetype(recent_models::max_models));
        QCOMPARE(recent_models::list().first(), QStringLiteral("/m/24.gguf"));
        QCOMPARE(recent_models::list().last(), QStringLiteral("/m/15.gguf"));
    }

    void startsWithTheLastOneThatIsThere() {
        const QString there = folder_.filePath(QStringLiteral("there.gguf"));
        QFile file(there);
        QVERIFY(file.open(QIODevice::WriteOnly));
        recent_models::add(there);
        QCOMPARE(recent_models::modelToStartWith(), there);
        recent_models::add(QStringLiteral("/m/gone.gguf"));
        QVERIFY(recent_models::modelToStartWith() != QStringLiteral("/m/gone.gguf"));
    }
};

QTEST_GUILESS_MAIN(TestRecentModels)
#include "tst_recent_models.moc"
