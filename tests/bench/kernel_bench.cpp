// What the CPU kernels reach: single operations and the chain of a whole model, beside the bandwidth that
// the machine has at that moment. The environment variable ORRERY_BENCH_THREADS sets the threads (default:
// all cores).
#include "kernels/cpu/memory.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/make_backend.h"
#include "tests/kernels/cpu/random_weights.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

using namespace orrery::kernels;

namespace {

int bench_threads() {
    const char* wish = std::getenv("ORRERY_BENCH_THREADS");
    return wish != nullptr ? std::atoi(wish) : 0;
}

/// The shortest iteration: what the kernels can do when nobody else uses the machine's cores and caches.
class Best {
public:
    template <class Body>
    void time(Body body) {
        const auto start = std::chrono::steady_clock::now();
        body();
        seconds_ = std::min(seconds_,
                            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    double seconds() const { return seconds_; }

private:
    double seconds_ = 1e9;
};

/// The shape of SmolLM2-135M.
constexpr int layers = 30, hidden = 576, heads = 9, kv_heads = 3, head_size = 64, feed_forward = 1536,
              vocab = 49152;
constexpr int qkv_rows = (heads + 2 * kv_heads) * head_size;

struct LoadedWeight {
    std::vector<std::byte> bytes;
    Weight weight;
};

/// A model of random weights on the CPU back end, and batches for it.
class Model {
public:
    Model(TensorType type, TensorType head_type, KvType kv_type, int max_rows, int positions)
        : device_(make_backend(BackendKind::cpu, bench_threads())), random_(1) {
        for (int i = 0; i < layers; ++i) {
            qkv_.push_back(load(type, qkv_rows, hidden));
            out_.push_back(load(type, hidden, hidden));
            gate_up_.push_back(load(type, 2 * feed_forward, hidden));
            down_.push_back(load(type, hidden, feed_forward));
        }
        head_ = load(head_type, vocab, hidden);
        norm_ = floats(std::vector<float>(hidden, 1.0f));
        x_ = room(max_rows, hidden);
        qkv_out_ = room(max_rows, qkv_rows);
        values_ = room(max_rows, hidden);
        gated_ = room(max_rows, 2 * feed_forward);
        last_ = room(max_rows, hidden);
        logits_ = room(64, vocab);
        std::vector<float> rope;
        for (int p = 0; p < positions; ++p)
            for (int i = 0; i < head_size / 2; ++i) {
                const double angle = p * std::pow(10000.0, -2.0 * i / head_size);
                rope.push_back(static_cast<float>(std::cos(angle)));
                rope.push_back(static_cast<float>(std::sin(angle)));
            }
        rope_ = floats(rope);
        spec_ = {layers, kv_heads, head_size, head_size, 16, positions / 16 + 1, kv_type};
        cache_ = device_->create_kv_cache(spec_);
    }

    /// `sequences` sequences (sharing the same cached tokens) of `rows` rows at `position`.
    void step(int sequences, int rows, int position) {
        const int total = sequences * rows;
        std::vector<int32_t> ids(static_cast<size_t>(total)), positions, kv_slots, outputs;
        std::vector<int32_t> table(static_cast<size_t>(spec_.blocks));
        std::iota(table.begin(), table.end(), 0);
        std::vector<Span> spans;
        for (int s = 0; s < sequences; ++s) {
            spans.push_back({s * rows, rows, position});
            for (int r = 0; r < rows; ++r) {
                positions.push_back(position + r);
                kv_slots.push_back(position + r);
            }
            outputs.push_back((s + 1) * rows - 1);
        }
        const std::vector<int32_t> table_offsets(static_cast<size_t>(sequences), 0);
        const BlockLayout layout{kv_slots, table_offsets, table};
        device_->begin({ids, positions, spans, {&layout, 1}, outputs, {}});
        const View x = matrix(x_, total, hidden), qkv = matrix(qkv_out_, total, qkv_rows),
                   values = matrix(values_, total, hidden), gated = matrix(gated_, total, 2 * feed_forward),
                   last = matrix(last_, sequences, hidden);
        const Norm norm{.kind = NormKind::rms, .weight = norm_};
        const Activation silu{.kind = ActivationKind::silu, .gated = true};
        const View q = qkv.slice(0, heads * head_size);
        device_->embed({head_.weight, x});
        for (size_t i = 0; i < layers; ++i) {
            const int layer = static_cast<int>(i);
            device_->linear({.x = x, .weight = qkv_[i].weight, .out = qkv, .norm = norm});
            device_->rope_store({.q = q,
                                 .k = qkv.slice(heads * head_size, kv_heads * head_size),
                                 .v = qkv.slice((heads + kv_heads) * head_size, kv_heads * head_size),
                                 .cache = cache_,
                                 .layer = layer,
                                 .heads = heads,
                                 .rope = {.table = rope_, .dimensions = head_size}});
            device_->attention(
                {.q = q, .out = values, .cache = cache_, .layer = layer, .heads = heads, .scale = 0.125f});
            device_->linear({.x = values, .weight = out_[i].weight, .out = x, .accumulate = true});
            device_->linear({.x = x, .weight = gate_up_[i].weight, .out = gated, .norm = norm});
            device_->linear(
                {.x = gated, .weight = down_[i].weight, .out = x, .activation = silu, .accumulate = true});
        }
        device_->gather({x, last});
        device_->linear(
            {.x = last, .weight = head_.weight, .out = matrix(logits_, sequences, vocab), .norm = norm});
        device_->synchronize();
    }

    void profile(benchmark::State& state) {
        const KernelProfile p = device_->take_profile();
        const auto per_step = [&](uint64_t ns) {
            return benchmark::Counter(static_cast<double>(ns) * 1e-3, benchmark::Counter::kAvgIterations);
        };
        state.counters["attention_us"] = per_step(p.attention_ns);
        state.counters["matmul_us"] = per_step(p.matmul_ns);
        state.counters["norm_us"] = per_step(p.norm_ns);
        state.counters["other_us"] = per_step(p.other_ns);
    }

    Backend& device() { return *device_; }

private:
    LoadedWeight load(TensorType type, int64_t rows, int64_t columns) {
        LoadedWeight w;
        w.bytes = test::random_weights(type, rows, columns, random_);
        const WeightPart part{type, rows, columns, w.bytes.data()};
        w.weight = device_->load_weight({&part, 1});
        return w;
    }
    Buffer floats(const std::vector<float>& values) {
        const Buffer buffer = device_->allocate(values.size() * sizeof(float));
        device_->upload(buffer, 0, std::as_bytes(std::span(values)));
        return buffer;
    }
    Buffer room(int rows, int columns) {
        return device_->allocate(static_cast<size_t>(rows) * static_cast<size_t>(columns) * sizeof(float));
    }

    std::unique_ptr<Backend> device_;
    std::mt19937 random_;
    std::vector<LoadedWeight> qkv_, out_, gate_up_, down_;
    LoadedWeight head_;
    Buffer norm_, x_, qkv_out_, values_, gated_, last_, logits_, rope_;
    KvCacheSpec spec_;
    KvCache cache_;
};

void model_step(benchmark::State& state, TensorType type, TensorType head_type, KvType kv_type) {
    const int sequences = static_cast<int>(state.range(0));
    const int rows = static_cast<int>(state.range(1));
    const int position = static_cast<int>(state.range(2));
    Model model(type, head_type, kv_type, sequences * rows, position + rows);
    model.step(sequences, rows, position);
    model.device().set_profiling(true);
    for (auto _ : state)
        model.step(sequences, rows, position);
    state.counters["tok/s"] = benchmark::Counter(static_cast<double>(state.iterations() * sequences * rows),
                                                 benchmark::Counter::kIsRate);
    model.profile(state);
}

/// One linear operation, of fewer outputs for more rows so that it takes a few milliseconds.
void linear_op(benchmark::State& state, TensorType type) {
    const int rows = static_cast<int>(state.range(0));
    const int64_t columns = 2048, outputs = 2048 * 32 / std::max(rows, 2);
    std::mt19937 random(1);
    const auto device = make_backend(BackendKind::cpu, bench_threads());
    const auto bytes = test::random_weights(type, outputs, columns, random);
    const WeightPart part{type, outputs, columns, bytes.data()};
    LinearOp op;
    op.weight = device->load_weight({&part, 1});
    op.x = matrix(device->allocate(static_cast<size_t>(rows * columns) * sizeof(float)), rows, columns);
    const auto x = test::random_floats(static_cast<size_t>(rows * columns), random);
    device->upload(op.x.buffer, 0, std::as_bytes(std::span(x)));
    op.out = matrix(device->allocate(static_cast<size_t>(rows * outputs) * sizeof(float)), rows, outputs);
    Best best;
    for (auto _ : state)
        best.time([&] {
            device->linear(op);
            device->synchronize();
        });
    state.counters["best_GB/s"] =
        static_cast<double>(device->weight_bytes(op.weight)) * 1e-9 / best.seconds();
    state.counters["best_GOP/s"] = 2e-9 * rows * static_cast<double>(columns * outputs) / best.seconds();
    const auto times = static_cast<double>(state.iterations());
    state.counters["GB/s"] = benchmark::Counter(
        times * static_cast<double>(device->weight_bytes(op.weight)) * 1e-9, benchmark::Counter::kIsRate);
    state.counters["GOP/s"] =
        benchmark::Counter(times * 2e-9 * static_cast<double>(rows) * static_cast<double>(columns * outputs),
                           benchmark::Counter::kIsRate);
}

/// How fast all threads read memory: the limit of every decode.
void read_bandwidth(benchmark::State& state) {
    const auto bytes = static_cast<size_t>(state.range(0)) << 20;
    cpu::ThreadPool pool(make_backend(BackendKind::cpu, bench_threads())->device().threads);
    const cpu::Memory memory = cpu::allocate_memory(bytes);
    std::fill_n(memory.get(), bytes, std::byte{1});
    const auto* words = reinterpret_cast<const uint64_t*>(memory.get());
    static constexpr int64_t piece = 32768; // words: 256 KiB
    Best best;
    for (auto _ : state)
        best.time([&] {
            pool.parallel(static_cast<int64_t>(bytes / 8) / piece, 1,
                          [words](int64_t first, int64_t last, int) {
                              uint64_t sums[8] = {};
                              for (int64_t i = first * piece; i < last * piece; i += 8)
                                  for (int k = 0; k < 8; ++k)
                                      sums[k] += words[i + k];
                              benchmark::DoNotOptimize(sums);
                          });
        });
    state.counters["best_GB/s"] = static_cast<double>(bytes) * 1e-9 / best.seconds();
    state.counters["GB/s"] =
        benchmark::Counter(static_cast<double>(state.iterations()) * static_cast<double>(bytes) * 1e-9,
                           benchmark::Counter::kIsRate);
}

BENCHMARK(read_bandwidth)->Arg(8)->Arg(64)->Arg(1024)->UseRealTime();

// Arguments: sequences, rows of each, position of the first row.
#define MODEL(type, head, kv)                                                                                \
    BENCHMARK_CAPTURE(model_step, type##_##kv, TensorType::type, TensorType::head, KvType::kv)               \
        ->Args({1, 1, 128})                                                                                  \
        ->Args({1, 1, 4096})                                                                                 \
        ->Args({8, 1, 128})                                                                                  \
        ->Args({32, 1, 128})                                                                                 \
        ->Args({1, 512, 0})                                                                                  \
        ->Args({1, 512, 4096})                                                                               \
        ->UseRealTime()                                                                                      \
        ->Unit(benchmark::kMillisecond)
MODEL(Q4_1, Q8_0, f16);
MODEL(Q4_1, Q8_0, int8);
MODEL(Q4_1, Q8_0, int4);
MODEL(Q4_0, Q8_0, f16);
MODEL(Q8_0, Q8_0, f16);
MODEL(BF16, BF16, f16);

#define LINEAR(type)                                                                                         \
    BENCHMARK_CAPTURE(linear_op, type, TensorType::type)                                                     \
        ->Arg(1)                                                                                             \
        ->Arg(4)                                                                                             \
        ->Arg(128)                                                                                           \
        ->UseRealTime()                                                                                      \
        ->Unit(benchmark::kMillisecond)
LINEAR(Q4_0);
LINEAR(Q4_1);
LINEAR(Q5_0);
LINEAR(Q8_0);
LINEAR(IQ4_NL);
LINEAR(IQ4_XS);
LINEAR(MXFP4);
LINEAR(NVFP4);
LINEAR(Q2_K);
LINEAR(Q3_K);
LINEAR(Q4_K);
LINEAR(Q5_K);
LINEAR(Q6_K);
LINEAR(IQ3_S);
LINEAR(F16);
LINEAR(BF16);
LINEAR(F32);

} // namespace

BENCHMARK_MAIN();
