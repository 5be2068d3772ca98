// A model's file that is cut or rewritten while the model is open.
#include "engine/engine.h"
#include "kernels/error.h"
#include "tests/support/engine_run.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"
#include "tests/support/tiny_model.h"

#include <QtTest>

#include <fstream>

using namespace orrery;
using namespace orrery::test;

namespace {

namespace fs = std::filesystem;

std::shared_ptr<Model> load(const fs::path& path, kernels::BackendKind backend) {
    LoadOptions options;
    options.backend = backend;
    options.threads = 2;
    return load_model(path, options);
}

Request greedy(int tokens) {
    Request request;
    request.prompt = {10, 20, 30};
    request.sampling.temperature = 0;
    request.max_tokens = tokens;
    request.ignore_eos = true;
    return request;
}

/// What another program does to the file.
void disturb(const fs::path& path, const QString& how) {
    if (how == "emptied") {
        fs::resize_file(path, 0);
    } else if (how == "halved") {
        fs::resize_file(path, fs::file_size(path) / 2);
    } else if (how == "copied over") {
        TinyModelOptions other;
        other.seed = 2;
        fs::copy_file(tiny_model(other), path, fs::copy_options::overwrite_existing);
    } else if (how == "overwritten") {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(-64, std::ios::end);
        file << std::string(64, '\x7F');
    } else if (how == "removed") {
        fs::remove(path);
    } else if (how == "renamed") {
        fs::rename(path, path.string() + ".old");
    } else if (how == "replaced") {
        tiny_model_writer().write(path.string() + ".new");
        fs::rename(path.string() + ".new", path);
    }
}

} // namespace

class tst_changed_file : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() {
#ifdef _WIN32
        QSKIP("Windows does not let a mapped file be changed.");
#endif
    }

    void every_request_ends_once_data() {
        QTest::addColumn<kernels::BackendKind>("backend");
        QTest::addColumn<QString>("how");
        QTest::addColumn<bool>("is_changed");
        for (const auto& [name, backend] : {std::pair("reference", kernels::BackendKind::reference),
                                            std::pair("cpu", kernels::BackendKind::cpu)})
            for (const char* how :
                 {"emptied", "halved", "copied over", "overwritten", "removed", "renamed", "replaced"}) {
                const bool stays = std::string_view(how).starts_with("re");
                QTest::addRow("%s, %s", name, how) << backend << how << !stays;
            }
    }
    void every_request_ends_once() {
        QFETCH(kernels::BackendKind, backend);
        QFETCH(QString, how);
        QFETCH(bool, is_changed);
        const TemporaryFolder folder;
        const fs::path path = folder / "live.gguf";
        fs::copy_file(tiny_model(), path);
        const auto model = load(path, backend);
        const Answers undisturbed = [&] {
            Engine engine(model, {});
            return run_all(engine, {greedy(12), greedy(20)});
        }();

        Engine engine(model, {});
        const Answers answers = run_all(engine, {greedy(12), greedy(20)}, [&](int step) {
            if (step == 5)
                disturb(path, how);
        });
        if (!is_changed) {
            QVERIFY(answers == undisturbed);
            return;
        }
        const std::string sentence = path.string() + " was changed or cut while it was open: load it again.";
        for (const auto& [key, answer] : answers) {
            QVERIFY(answer.finish == FinishReason::error);
            QVERIFY2(answer.error.ends_with(sentence), answer.error.c_str());
            QVERIFY(answer.begins(undisturbed.at(key)));
        }
        // It does not come right by itself, and the engine goes on saying so.
        for (const auto& [key, answer] : run_all(engine, {greedy(3)})) {
            QVERIFY(answer.finish == FinishReason::error);
            QVERIFY2(answer.error.ends_with(sentence), answer.error.c_str());
        }
        QVERIFY_EXCEPTION_THROWN(engine.score({1, 2, 3}), Error);
    }

    void a_load_says_so_data() {
        QTest::addColumn<QString>("how");
        for (const char* how : {"emptied", "halved", "copied over", "overwritten"})
            QTest::newRow(how) << how;
    }
    void a_load_says_so() {
        QFETCH(QString, how);
        const TemporaryFolder folder;
        const fs::path path = folder / "live.gguf";
        fs::copy_file(tiny_model(), path);
        LoadOptions options;
        options.backend = kernels::BackendKind::reference;
        int calls = 0;
        options.progress = [&](size_t, size_t) {
            if (++calls == 2)
                disturb(path, how);
        };
        try {
            load_model(path, options);
            QFAIL("it was loaded");
        } catch (const Error& error) {
            QCOMPARE(std::string(error.what()),
                     path.string() + " was changed or cut while it was open: load it again.");
        }
        QCOMPARE(calls, 2); // at the next tensor
    }
};

QTEST_GUILESS_MAIN(tst_changed_file)
#include "tst_changed_file.moc"
