// A steady decode step takes no memory from the heap: lists have the sizes that they need, and keep them.
//
// The device computes nothing here, so that the engine's part is counted and not that of the kernels.
#include "engine/engine.h"
#include "tests/support/engine_run.h"
#include "tests/support/null_backend.h"
#include "tests/support/random.h"

#include <QtTest>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<long long> allocations{0};
}

// Arrays and the forms that do not throw come here by themselves.
void* operator new(size_t bytes) {
    allocations += 1;
    if (void* memory = std::malloc(bytes ? bytes : 1))
        return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
    std::free(memory);
}

using namespace orrery;

class TestStepAllocations : public QObject {
    Q_OBJECT

private slots:
    void a_steady_decode_step_allocates_nothing_data();
    void a_steady_decode_step_allocates_nothing();
};

void TestStepAllocations::a_steady_decode_step_allocates_nothing_data() {
    QTest::addColumn<int>("sequences");
    QTest::addColumn<bool>("prefix_cache");
    QTest::addColumn<bool>("sampled");
    QTest::newRow("one") << 1 << true << false;
    QTest::newRow("eight, greedy") << 8 << true << false;
    QTest::newRow("eight, sampled") << 8 << true << true;
    QTest::newRow("eight without prefixes") << 8 << false << false;
}

void TestStepAllocations::a_steady_decode_step_allocates_nothing() {
    QFETCH(int, sequences);
    QFETCH(bool, prefix_cache);
    QFETCH(bool, sampled);
    EngineConfig config;
    config.context = 512;
    config.blocks = sequences * 32;
    config.max_sequences = sequences;
    config.max_step_tokens = 256;
    config.prefix_cache = prefix_cache;
    Engine engine(test::load_tiny(std::make_unique<test::NullBackend>(), {.context_length = 512}), config);
    for (int i = 0; i < sequences; ++i) {
        Request request;
        for (int n = 0; n < 40; ++n)
            request.prompt.push_back(TokenId(3 + (i * 7 + n) % 250));
        request.sampling.temperature = sampled ? 0.8f : 0.0f;
        request.sampling.seed = uint64_t(i);
        request.ignore_eos = true;
        engine.add(RequestId(i + 1), request);
    }
    std::vector<TokenDelta> deltas;
    deltas.reserve(size_t(sequences) * 2);
    for (int step = 0; step < 20; ++step) { // prompts are read, and lists grow to their sizes
        deltas.clear();
        engine.step(deltas);
    }
    // Four blocks of 16 tokens are begun and filled on the way.
    for (int step = 0; step < 64; ++step) {
        deltas.clear();
        const long long before = allocations;
        const StepReport& report = engine.step(deltas);
        const long long taken = allocations - before;
        QCOMPARE(report.decode_tokens, sequences);
        QCOMPARE(deltas.size(), size_t(sequences));
        QVERIFY2(taken == 0, qPrintable(QString("step %1 allocates %2 times").arg(report.number).arg(taken)));
    }
}

QTEST_GUILESS_MAIN(TestStepAllocations)
#include "tst_step_allocations.moc"
