// A pass like the one before takes no memory from the system: every operator new of this program is counted.
#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/cpu/random_weights.h"
#include "tests/kernels/device_floats.h"

#include <QtTest>

#include <atomic>
#include <cstdlib>
#include <new>
#include <numeric>
#include <random>

namespace {

std::atomic<int64_t> allocations{0};

void* counted(size_t bytes, size_t alignment) {
    ++allocations;
    void* memory = nullptr;
    return posix_memalign(&memory, std::max(alignment, sizeof(void*)), bytes) == 0 ? memory : nullptr;
}

void* counted_or_throw(size_t bytes, size_t alignment) {
    void* memory = counted(bytes, alignment);
    if (memory == nullptr)
        throw std::bad_alloc();
    return memory;
}

} // namespace

// The other forms call these.
void* operator new(size_t bytes) {
    return counted_or_throw(bytes, alignof(std::max_align_t));
}
void* operator new(size_t bytes, std::align_val_t alignment) {
    return counted_or_throw(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
    return counted(bytes, alignof(std::max_align_t));
}
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return counted(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
    std::free(memory);
}

using namespace orrery;
using namespace orrery::kernels;
using namespace orrery::kernels::test;
using orrery::test::to_device;

namespace {

constexpr int columns = 64, heads = 4, kv_heads = 2, head_size = 16, feed_forward = 96, vocab = 100,
              layers = 2;
constexpr int queries = heads * head_size, keys = kv_heads * head_size;

/// A model of random weights, and decode steps of it.
class SmallModel {
public:
    SmallModel(int threads, TensorType type, KvType kv_type, int block_size, int sequences)
        : random_(1), sequences_(sequences) {
        std::string why_not;
        device_ = make_cpu_backend(threads, why_not);
        if (device_ == nullptr)
            return;
        qkv_ = load(type, queries + 2 * keys, columns);
        out_ = load(type, columns, queries);
        gate_up_ = load(type, 2 * feed_forward, columns);
        down_ = load(type, columns, feed_forward);
        head_ = load(type, vocab, columns);
        norm_ = {.kind = NormKind::rms, .weight = to_device(*device_, random_floats(columns, random_))};
        rope_ = {.table = to_device(*device_, random_floats(size_t{2000} * head_size, random_)),
                 .dimensions = head_size};
        x_ = room(sequences, columns);
        fused_ = room(sequences, queries + 2 * keys);
        values_ = room(sequences, queries);
        gated_ = room(sequences, 2 * feed_forward);
        last_ = room(sequences, columns);
        logits_ = room(sequences, vocab);
        const int blocks = 2000 / block_size * sequences;
        spec_ = {layers, kv_heads, head_size, head_size, block_size, blocks, kv_type};
        cache_ = device_->create_kv_cache(spec_);
        host_ = device_->allocate_host(2 * device_->kv_block_bytes(spec_));
        for (int s = 0; s < sequences; ++s) {
            ids_.push_back(s);
            offsets_.push_back(s * blocks / sequences);
        }
        tables_.resize(static_cast<size_t>(blocks));
        std::iota(tables_.begin(), tables_.end(), 0);
        positions_ = slots_ = ids_;
        spans_.resize(static_cast<size_t>(sequences));
    }

    bool is_there() const { return device_ != nullptr; }

    void step(int position) {
        for (int s = 0; s < sequences_; ++s) {
            const auto i = static_cast<size_t>(s);
            positions_[i] = position;
            slots_[i] = offsets_[i] * spec_.block_size + position;
            spans_[i] = {s, 1, position};
        }
        const BlockLayout layout{slots_, offsets_, tables_};
        device_->begin({ids_, positions_, spans_, {&layout, 1}, ids_, {}});
        const BlockCopy copy{1, 0};
        const BlockTransfer transfers[] = {{0, 0}, {1, device_->kv_block_bytes(spec_)}};
        device_->copy_kv_blocks_out(cache_, transfers, host_);
        device_->copy_kv_blocks_in(cache_, transfers, host_);
        device_->copy_kv_blocks(cache_, {&copy, 1});
        device_->embed({head_, x_});
        const View q = fused_.slice(0, queries);
        for (int layer = 0; layer < layers; ++layer) {
            device_->linear({.x = x_, .weight = qkv_, .out = fused_, .norm = norm_});
            device_->rope_store({.q = q,
                                 .k = fused_.slice(queries, keys),
                                 .v = fused_.slice(queries + keys, keys),
                                 .cache = cache_,
                                 .layer = layer,
                                 .heads = heads,
                                 .rope = rope_});
            AttentionOp attend{
                .q = q, .out = values_, .cache = cache_, .layer = layer, .heads = heads, .scale = 0.25f};
            if (layer == 1) { // a shape of its own
                attend.window = 70;
                attend.soft_cap = 30.0f;
            }
            device_->attention(attend);
            device_->linear({.x = values_, .weight = out_, .out = x_, .accumulate = true});
            device_->linear({.x = x_, .weight = gate_up_, .out = gated_, .norm = norm_});
            device_->linear({.x = gated_,
                             .weight = down_,
                             .out = x_,
                             .activation = {.kind = ActivationKind::silu, .gated = true},
                             .accumulate = true});
        }
        device_->gather({x_, last_});
        device_->linear({.x = last_, .weight = head_, .out = logits_, .norm = norm_});
        device_->wait(device_->fence());
    }

private:
    Weight load(TensorType type, int64_t rows, int64_t width) {
        bytes_.push_back(random_weights(type, rows, width, random_));
        const WeightPart part{type, rows, width, bytes_.back().data()};
        return device_->load_weight({&part, 1});
    }
    View room(int64_t rows, int64_t width) {
        return matrix(device_->allocate(static_cast<size_t>(rows * width) * sizeof(float)), rows, width);
    }

    std::mt19937 random_;
    int sequences_;
    std::unique_ptr<Backend> device_;
    std::vector<std::vector<std::byte>> bytes_;
    Weight qkv_, out_, gate_up_, down_, head_;
    Norm norm_;
    Rope rope_;
    View x_, fused_, values_, gated_, last_, logits_;
    KvCacheSpec spec_;
    KvCache cache_;
    HostMemory host_;
    std::vector<int32_t> ids_, positions_, slots_, offsets_, tables_;
    std::vector<Span> spans_;
};

} // namespace

class CpuAllocationsTest : public QObject {
    Q_OBJECT

private slots:
    void aRepeatedPassTakesNoMemory_data();
    void aRepeatedPassTakesNoMemory();
};

void CpuAllocationsTest::aRepeatedPassTakesNoMemory_data() {
    QTest::addColumn<int>("threads");
    QTest::addColumn<TensorType>("type");
    QTest::addColumn<KvType>("kv_type");
    QTest::addColumn<int>("block_size");
    QTest::addColumn<int>("sequences");
    QTest::addColumn<int>("position");
    const char* names[] = {"f32", "f16", "int8", "int4"};
    for (const KvType kv_type : {KvType::f32, KvType::f16, KvType::int8, KvType::int4}) {
        const char* name = names[static_cast<int>(kv_type)];
        QTest::addRow("alone, %s", name) << 2 << TensorType::Q8_0 << kv_type << 16 << 1 << 20;
        QTest::addRow("long context, %s", name) << 3 << TensorType::F16 << kv_type << 16 << 1 << 800;
        QTest::addRow("batch, %s", name) << 2 << TensorType::Q8_0 << kv_type << 16 << 40 << 300;
        QTest::addRow("odd blocks, %s", name) << 1 << TensorType::BF16 << kv_type << 5 << 3 << 300;
    }
}

void CpuAllocationsTest::aRepeatedPassTakesNoMemory() {
    QFETCH(int, threads);
    QFETCH(TensorType, type);
    QFETCH(KvType, kv_type);
    QFETCH(int, block_size);
    QFETCH(int, sequences);
    QFETCH(int, position);
    SmallModel model(threads, type, kv_type, block_size, sequences);
    if (!model.is_there())
        QSKIP("this processor has none of the code paths");
    for (int warm_up = 0; warm_up < 3; ++warm_up)
        model.step(position + warm_up);
    const int64_t before = allocations.load();
    for (int i = 3; i < 40; ++i)
        model.step(position + i);
    QCOMPARE(allocations.load() - before, int64_t{0});
    QVERIFY(before > 0); // the count counts
}

QTEST_GUILESS_MAIN(CpuAllocationsTest)
#include "tst_cpu_allocations.moc"
