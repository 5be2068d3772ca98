// The words for back ends, and what make_backend() answers where one is not there.
#include "kernels/error.h"
#include "kernels/make_backend.h"

#include <QtTest>

#include <cstring>

using namespace orrery;
using namespace orrery::kernels;

class TestBackend : public QObject {
    Q_OBJECT

private slots:
    void every_kind_has_a_word() {
        for (const BackendKind kind :
             {BackendKind::reference, BackendKind::cpu, BackendKind::cuda, BackendKind::automatic})
            QCOMPARE(backend_kind(backend_name(kind)), kind);
    }

    void other_words_are_refused_by_name() {
        for (const char* word : {"", "gpu", "CPU", "auto ", "automatic"})
            try {
                backend_kind(word);
                QFAIL(word);
            } catch (const Error& error) {
                QVERIFY(std::strstr(error.what(), (std::string("'") + word + "'").c_str()));
            }
    }

    void the_reference_is_always_there() {
        QCOMPARE(make_backend(BackendKind::reference, 0)->device().name, std::string("Reference"));
    }

    void automatic_works_everywhere_and_says_why() {
        const auto backend = make_backend(BackendKind::automatic, 1);
        QVERIFY(!backend->device().name.empty());
        QVERIFY(!backend->device().why.empty());
    }

    // Where a back end cannot be had, the answer is a sentence; where it can, it has a name.
    void what_is_missing_is_said_in_a_sentence() {
        for (const BackendKind kind : {BackendKind::cpu, BackendKind::cuda})
            try {
                QVERIFY(!make_backend(kind, 1)->device().name.empty());
            } catch (const Error& error) {
                const QString sentence = error.what();
                QVERIFY2(sentence.contains("back end") && sentence.endsWith('.'), error.what());
            }
    }
};

QTEST_GUILESS_MAIN(TestBackend)
#include "tst_backend.moc"
