// The selftest itself: every back end of this build passes it, and a back end with any one fault does not.
#include "kernels/error.h"
#include "kernels/make_backend.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/selftest.h"
#include "tests/support/watched_backend.h"

#include <QtTest>

#include <cmath>
#include <random>

using namespace orrery;
using namespace orrery::kernels;

namespace {

enum class Fault {
    linear_last_column, ///< the last output of the last row is wrong
    linear_neighbours,  ///< the last bit of the first row depends on whether there is a second one
    linear_no_bias,
    linear_no_norm,
    embed_scale,         ///< by 1 %
    attention_last_head, ///< the last element of the last row is off by a tenth
    attention_neighbours,
    rope_style, ///< always interleaved
    rope_neighbours,
    cache_ignores_copies,
    cache_ignores_uploads,
    gather_first_row,
    throws,
};

/// A reference back end with one fault.
class Faulty final : public test::WatchedBackend {
public:
    explicit Faulty(Fault fault)
        : WatchedBackend(std::make_unique<ReferenceBackend>(ReferenceOptions{.poison = true})),
          fault_(fault) {}

    void copy_kv_blocks(KvCache cache, std::span<const BlockCopy> copies) override {
        if (fault_ != Fault::cache_ignores_copies)
            WatchedBackend::copy_kv_blocks(cache, copies);
    }
    void copy_kv_blocks_in(KvCache cache, std::span<const BlockTransfer> transfers,
                           const HostMemory& from) override {
        if (fault_ != Fault::cache_ignores_uploads)
            WatchedBackend::copy_kv_blocks_in(cache, transfers, from);
    }
    void embed(const EmbedOp& op) override {
        EmbedOp changed = op;
        changed.scale = fault_ == Fault::embed_scale ? op.scale * 1.01f : op.scale;
        WatchedBackend::embed(changed);
    }
    void linear(const LinearOp& op) override {
        if (fault_ == Fault::throws)
            throw Error("this back end is broken");
        LinearOp changed = op;
        if (fault_ == Fault::linear_no_bias)
            changed.bias = {};
        if (fault_ == Fault::linear_no_norm)
            changed.norm = {};
        WatchedBackend::linear(changed);
        if (fault_ == Fault::linear_last_column)
            change_last(op.out, [](float value) { return value * 1.5f + 1.0f; });
        if (fault_ == Fault::linear_neighbours && op.out.rows > 1)
            change_first(op.out);
    }
    void rope_store(const RopeStoreOp& op) override {
        RopeStoreOp changed = op;
        if (fault_ == Fault::rope_style)
            changed.rope.style = RopeStyle::interleaved;
        WatchedBackend::rope_store(changed);
        if (fault_ == Fault::rope_neighbours && op.q.rows > 1)
            change_first(op.q);
    }
    void attention(const AttentionOp& op) override {
        WatchedBackend::attention(op);
        if (fault_ == Fault::attention_last_head)
            change_last(op.out, [](float value) { return value * 1.1f + 0.1f; });
        if (fault_ == Fault::attention_neighbours && op.out.rows > 1)
            change_first(op.out);
    }
    void gather(const GatherOp& op) override {
        WatchedBackend::gather(op);
        if (fault_ == Fault::gather_first_row)
            change_first(op.out);
    }

private:
    /// The next larger float.
    void change_first(const View& view) {
        change(view.buffer, view.offset, [](float value) { return std::nextafter(value, 1e30f); });
    }
    template <typename Change>
    void change_last(const View& view, Change by) {
        change(view.buffer, view.offset + (view.rows - 1) * view.row_stride + view.columns - 1, by);
    }
    template <typename Change>
    void change(Buffer buffer, int64_t element, Change by) {
        const auto offset = static_cast<size_t>(element) * sizeof(float);
        float value = 0.0f;
        download(buffer, offset, std::as_writable_bytes(std::span(&value, 1)));
        value = by(value);
        upload(buffer, offset, std::as_bytes(std::span(&value, 1)));
    }

    Fault fault_;
};

QString line(const SelftestResult& result) {
    return QString("%1, %2: error %3, bound %4 %5")
        .arg(QString::fromStdString(result.operation), QString::fromStdString(result.shape))
        .arg(result.error)
        .arg(result.bound)
        .arg(QString::fromStdString(result.note));
}

} // namespace

class TestSelftest : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() {
        seed_ = std::random_device()();
        qInfo("seed %u", seed_);
    }

    void every_back_end_of_this_build_passes_data() {
        QTest::addColumn<BackendKind>("kind");
        for (const BackendKind kind : {BackendKind::reference, BackendKind::cpu, BackendKind::cuda})
            QTest::newRow(backend_name(kind)) << kind;
    }
    void every_back_end_of_this_build_passes() {
        QFETCH(BackendKind, kind);
        std::unique_ptr<Backend> backend;
        try {
            backend = make_backend(kind, 2);
        } catch (const Error& error) {
            QSKIP(error.what());
        }
        size_t seen = 0;
        const auto results = run_selftest(*backend, {.seed = seed_}, [&](const SelftestResult&) { ++seen; });
        QCOMPARE(seen, results.size());
        for (const SelftestResult& result : results)
            QVERIFY2(result.passed, qPrintable(line(result)));
        // 26 formats, twice as a weight, once as a table and once as experts; six operations on rows, eight
        // times; four kinds of cache, three times.
        QCOMPARE(results.size(), size_t{26 * (2 * 2 + 1 + 2) + 6 * 8 * 2 + 2 + 4 * 3 * 5});
    }

    void the_same_seed_tests_the_same_shapes() {
        ReferenceBackend backend;
        const SelftestOptions options = {.seed = seed_, .repeats = 1, .long_contexts = false};
        const auto once = run_selftest(backend, options);
        const auto twice = run_selftest(backend, options);
        QCOMPARE(once.size(), twice.size());
        for (size_t i = 0; i < once.size(); ++i)
            QCOMPARE(once[i].shape, twice[i].shape);
    }

    void a_fault_is_found_data() {
        QTest::addColumn<Fault>("fault");
        QTest::addColumn<QString>("family");
        QTest::addColumn<QString>("operation");
        QTest::newRow("linear: last column") << Fault::linear_last_column << "linear"
                                             << "linear";
        QTest::newRow("linear: neighbours") << Fault::linear_neighbours << "linear"
                                            << "rows alone";
        QTest::newRow("linear: no bias") << Fault::linear_no_bias << "linear"
                                         << "linear";
        QTest::newRow("linear: no norm") << Fault::linear_no_norm << "linear"
                                         << "linear";
        QTest::newRow("linear: throws") << Fault::throws << "linear"
                                        << "linear";
        QTest::newRow("embed: scale") << Fault::embed_scale << "embed"
                                      << "embed";
        QTest::newRow("attention: last head") << Fault::attention_last_head << "attention"
                                              << "attention";
        QTest::newRow("attention: neighbours") << Fault::attention_neighbours << "attention"
                                               << "rows alone";
        QTest::newRow("rope: style") << Fault::rope_style << "attention"
                                     << "rope_store";
        QTest::newRow("rope: neighbours") << Fault::rope_neighbours << "attention"
                                          << "rope_store";
        QTest::newRow("cache: no copies") << Fault::cache_ignores_copies << "attention"
                                          << "moved blocks";
        QTest::newRow("cache: no uploads") << Fault::cache_ignores_uploads << "attention"
                                           << "moved blocks";
        QTest::newRow("gather: first row") << Fault::gather_first_row << "gather"
                                           << "gather";
    }
    void a_fault_is_found() {
        QFETCH(Fault, fault);
        QFETCH(QString, family);
        QFETCH(QString, operation);
        Faulty backend(fault);
        size_t found = 0;
        // A fixed seed: a fault in a rare shape must not be missed by chance.
        const SelftestOptions options = {.seed = 1, .long_contexts = false, .only = family.toStdString()};
        for (const SelftestResult& result : run_selftest(backend, options))
            if (!result.passed && QString::fromStdString(result.operation).contains(operation)) {
                ++found;
                if (fault == Fault::throws)
                    QCOMPARE(result.note, std::string("this back end is broken"));
            }
        QVERIFY(found > 0);
    }

private:
    unsigned seed_ = 0;
};

QTEST_GUILESS_MAIN(TestSelftest)
#include "tst_selftest.moc"
