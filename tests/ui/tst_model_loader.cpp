// Loading a model: one load at a time, which ends exactly once, with a model, a failure or a cancellation.
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"
#include "tests/support/tiny_model.h"
#include "ui/frame_clock.h"
#include "ui/model_loader.h"

#include <QFile>
#include <QFileInfo>
#include <QSignalSpy>
#include <QtTest>

#include <fstream>

using namespace orrery;
using namespace orrery::ui;
using namespace std::chrono_literals;

namespace {

QString tinyPath(uint64_t seed = 1) {
    return QString::fromStdString(test::tiny_model({.seed = seed, .context_length = 2048}).string());
}

/// A loader and all that it said.
struct Fixture {
    FrameClock clock;
    ModelLoader loader;
    QSignalSpy started{&loader, &ModelLoader::started};
    QSignalSpy progress{&loader, &ModelLoader::progress};
    QSignalSpy cancelled{&loader, &ModelLoader::cancelled};
    QSignalSpy failed{&loader, &ModelLoader::failed};
    QSignalSpy loaded{&loader, &ModelLoader::loaded};

    explicit Fixture(SessionOptions options = {}) : loader(&clock, std::move(options)) {}

    qsizetype ends() const { return cancelled.count() + failed.count() + loaded.count(); }
    std::shared_ptr<LoadedModel> model() const {
        return loaded.last().at(0).value<std::shared_ptr<LoadedModel>>();
    }
    LoadFailure failure() const { return failed.last().at(0).value<LoadFailure>(); }
};

} // namespace

class TestModelLoader : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() {
        for (uint64_t seed = 1; seed <= 3; ++seed)
            tinyPath(seed); // made before anything is waited for
    }

    void loads() {
        Fixture f;
        QVERIFY(!f.loader.loading());
        QVERIFY(f.loader.path().isEmpty());
        f.loader.load(tinyPath());
        QVERIFY(f.loader.loading());
        QVERIFY(f.clock.running());
        QCOMPARE(f.loader.path(), tinyPath());
        QCOMPARE(f.started.count(), 1);
        QTRY_COMPARE_WITH_TIMEOUT(f.loaded.count(), 1, 20'000);
        QVERIFY(!f.loader.loading());
        QVERIFY(f.loader.path().isEmpty());
        QCOMPARE(f.ends(), 1);
        const auto model = f.model();
        QVERIFY(model && model->model && model->loop);
        QCOMPARE(model->info.path, tinyPath());
        QCOMPARE(model->info.contextTokens, 2048);
        QCOMPARE(model->info.fileBytes, QFileInfo(tinyPath()).size());

        // Progress only grows, and it ends at all bytes.
        QVERIFY(f.progress.count() > 0);
        qint64 before = 0;
        for (const QList<QVariant>& step : std::as_const(f.progress)) {
            QVERIFY(step.at(0).toLongLong() > before);
            before = step.at(0).toLongLong();
        }
        QCOMPARE(f.progress.last().at(0), f.progress.last().at(1));
        QTRY_VERIFY(!f.clock.running());
    }

    void takesTheFolderOfAModel() {
        test::TemporaryFolder folder;
        std::filesystem::copy_file(tinyPath().toStdString(), folder / "one.gguf");
        Fixture f;
        f.loader.load(QString::fromStdString(folder.path().string()));
        QTRY_COMPARE_WITH_TIMEOUT(f.loaded.count(), 1, 20'000);
        QCOMPARE(f.model()->info.name, QStringLiteral("one"));
    }

    void failuresCarryTheirCode_data() {
        QTest::addColumn<QString>("name");
        QTest::addColumn<int>("code");
        using Code = LoadFailure::Code;
        QTest::newRow("cut") << "cut.gguf" << int(Code::NotUsable);
        QTest::newRow("no model") << "text.gguf" << int(Code::NotUsable);
        QTest::newRow("empty folder") << "empty" << int(Code::NotUsable);
        QTest::newRow("not there") << "gone.gguf" << int(Code::Missing);
        QTest::newRow("in no folder") << "nowhere/gone.gguf" << int(Code::Missing);
    }
    void failuresCarryTheirCode() {
        QFETCH(QString, name);
        QFETCH(int, code);
        test::TemporaryFolder folder;
        const std::string whole = test::read_file(tinyPath().toStdString());
        std::ofstream(folder / "cut.gguf", std::ios::binary) << whole.substr(0, whole.size() / 2);
        std::ofstream(folder / "text.gguf") << "this is no model";
        std::filesystem::create_directory(folder / "empty");
        const QString path = QString::fromStdString((folder / name.toStdString()).string());

        Fixture f;
        f.loader.load(path);
        QTRY_COMPARE_WITH_TIMEOUT(f.failed.count(), 1, 20'000);
        QCOMPARE(f.ends(), 1);
        QCOMPARE(int(f.failure().code), code);
        QCOMPARE(f.failure().path, path);
        QVERIFY(!f.failure().detail.isEmpty());
        QVERIFY(!f.loader.loading());
        // And another load works after it.
        f.loader.load(tinyPath());
        QTRY_COMPARE_WITH_TIMEOUT(f.loaded.count(), 1, 20'000);
    }

    void whatMayNotBeReadIsTold() {
        test::TemporaryFolder folder;
        const QString path = QString::fromStdString((folder / "locked.gguf").string());
        QVERIFY(QFile::copy(tinyPath(), path));
        QVERIFY(QFile::setPermissions(path, QFileDevice::WriteOwner));
        if (QFileInfo(path).isReadable())
            QSKIP("this user may read everything");
        Fixture f;
        f.loader.load(path);
        QTRY_COMPARE_WITH_TIMEOUT(f.failed.count(), 1, 20'000);
        QCOMPARE(f.failure().code, LoadFailure::Code::NotReadable);
    }

    void lackOfMemoryIsNoFaultOfTheFile() {
        SessionOptions options;
        options.engine.cache_bytes = size_t(1) << 46; // 64 TiB
        Fixture f(options);
        f.loader.load(tinyPath());
        QTRY_COMPARE_WITH_TIMEOUT(f.failed.count(), 1, 20'000);
        QCOMPARE(f.failure().code, LoadFailure::Code::NoMemory);
        QVERIFY(f.failure().detail.contains(QStringLiteral("available"))); // with the numbers
    }

    void cancelEndsTheLoadAtOnce() {
        Fixture f;
        f.loader.cancel(); // nothing loads: nothing happens
        QCOMPARE(f.ends(), 0);
        f.loader.load(tinyPath());
        f.loader.cancel();
        QCOMPARE(f.cancelled.count(), 1);
        QCOMPARE(f.cancelled.last().at(0).toString(), tinyPath());
        QVERIFY(!f.loader.loading());
        f.loader.cancel();
        // The next load begins where the thread has noticed; until then it would have said more.
        f.loader.load(tinyPath(2));
        QTRY_COMPARE_WITH_TIMEOUT(f.loaded.count(), 1, 20'000);
        QCOMPARE(f.model()->info.path, tinyPath(2));
        QCOMPARE(f.ends(), 2);
        QCOMPARE(f.failed.count(), 0);
    }

    void aLoadTakesTheOthersPlace() {
        Fixture f;
        bool loadingWhenCancelled = false;
        connect(&f.loader, &ModelLoader::cancelled, &f.clock,
                [&] { loadingWhenCancelled = f.loader.loading(); });
        f.loader.load(tinyPath(1));
        f.loader.load(tinyPath(2));
        f.loader.load(tinyPath(3));
        QCOMPARE(f.cancelled.count(), 2);
        QVERIFY(loadingWhenCancelled);
        QCOMPARE(f.loader.path(), tinyPath(3));
        QTRY_COMPARE_WITH_TIMEOUT(f.loaded.count(), 1, 20'000);
        QTest::qWait(50);
        QCOMPARE(f.ends(), 3);
        QCOMPARE(f.model()->info.path, tinyPath(3));
    }

    /// At every moment of a load.
    void theLoadersEndSaysNothingAndWaitsForNothing() {
        for (int ms = 0; ms < 12; ++ms) {
            Fixture f;
            f.loader.load(tinyPath(1 + ms % 3));
            QTest::qWait(ms);
        }
        QVERIFY(Worker::waitForEnded(20s));
    }

    void disposesElsewhere() {
        Fixture f;
        f.loader.load(tinyPath());
        QTRY_COMPARE_WITH_TIMEOUT(f.loaded.count(), 1, 20'000);
        std::shared_ptr<LoadedModel> model = f.model();
        const std::weak_ptr<Model> watched = model->model;
        f.loaded.clear();
        f.loader.dispose(std::move(model));
        QTRY_VERIFY(watched.expired());
    }

    /// The loader keeps nothing of a model that it has handed over.
    void whatIsNotTakenIsLetGo() {
        FrameClock clock;
        ModelLoader loader(&clock);
        std::weak_ptr<Model> watched;
        bool came = false;
        connect(&loader, &ModelLoader::loaded, &clock, [&](const std::shared_ptr<LoadedModel>& model) {
            watched = model->model;
            came = true;
        });
        loader.load(tinyPath());
        QTRY_VERIFY_WITH_TIMEOUT(came, 20'000);
        QTRY_VERIFY(watched.expired());
    }

    void cleanupTestCase() { QVERIFY(Worker::waitForEnded(20s)); }
};

QTEST_GUILESS_MAIN(TestModelLoader)
#include "tst_model_loader.moc"
