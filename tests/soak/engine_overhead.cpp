// Measures what the engine itself costs: steps on a device that computes nothing.
//
//     engine_overhead
//
// Prints the time of each phase of a step, how often memory is allocated, what 10,000 waiting requests add,
// and how long it takes to hash a long prompt and to find it in the cache.
#include "engine/cache/block_store.h"
#include "engine/engine.h"
#include "tests/support/engine_run.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <numeric>

namespace {
std::atomic<long long> allocations{0};
}

void* operator new(size_t size) {
    allocations += 1;
    if (void* memory = std::malloc(size))
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

namespace {

/// Takes everything, computes nothing, and answers with zeros.
class NullBackend : public kernels::Backend {
public:
    const kernels::DeviceInfo& device() const override { return device_; }
    std::unique_ptr<kernels::Backend> share() override { return std::make_unique<NullBackend>(); }
    kernels::Buffer allocate(size_t) override { return {++last_}; }
    void release(kernels::Buffer) override {}
    void upload(kernels::Buffer, size_t, std::span<const std::byte>) override {}
    void download(kernels::Buffer, size_t, std::span<std::byte>) override {}
    kernels::HostMemory allocate_host(size_t) override { return {++last_, nullptr, 0}; }
    void release(const kernels::HostMemory&) override {}
    kernels::Weight load_weight(std::span<const kernels::WeightPart>) override { return {++last_}; }
    void release(kernels::Weight) override {}
    size_t weight_bytes(kernels::Weight) const override { return 0; }
    kernels::KvCache create_kv_cache(const kernels::KvCacheSpec&) override { return {++last_}; }
    void release(kernels::KvCache) override {}
    size_t kv_block_bytes(const kernels::KvCacheSpec&) const override { return 64; }
    void copy_kv_blocks(kernels::KvCache, std::span<const kernels::BlockCopy>) override {}
    void copy_kv_blocks_out(kernels::KvCache, std::span<const kernels::BlockTransfer>,
                            const kernels::HostMemory&) override {}
    void copy_kv_blocks_in(kernels::KvCache, std::span<const kernels::BlockTransfer>,
                           const kernels::HostMemory&) override {}
    kernels::StateCache create_state_cache(const kernels::StateCacheSpec&) override { return {++last_}; }
    void release(kernels::StateCache) override {}
    size_t state_slot_bytes(const kernels::StateCacheSpec&) const override { return 64; }
    void copy_state_slots(kernels::StateCache, std::span<const kernels::BlockCopy>) override {}
    void copy_state_slots_out(kernels::StateCache, std::span<const kernels::BlockTransfer>,
                              const kernels::HostMemory&) override {}
    void copy_state_slots_in(kernels::StateCache, std::span<const kernels::BlockTransfer>,
                             const kernels::HostMemory&) override {}
    void begin(const kernels::ForwardBatch&) override {}
    void embed(const kernels::EmbedOp&) override {}
    void norm(const kernels::NormOp&) override {}
    void linear(const kernels::LinearOp&) override {}
    void gate(const kernels::GateOp&) override {}
    void add(const kernels::AddOp&) override {}
    void soft_cap(const kernels::SoftCapOp&) override {}
    void gather(const kernels::GatherOp&) override {}
    void rope_store(const kernels::RopeStoreOp&) override {}
    void attention(const kernels::AttentionOp&) override {}
    void route(const kernels::RouteOp&) override {}
    void expert_linear(const kernels::ExpertLinearOp&) override {}
    void combine_experts(const kernels::CombineExpertsOp&) override {}
    void convolve(const kernels::ConvolveOp&) override {}
    void ssm_scan(const kernels::SsmScanOp&) override {}
    void delta_rule(const kernels::DeltaRuleOp&) override {}
    void sample(const kernels::SampleOp&) override {}
    kernels::Fence fence() override { return {}; }
    void wait(kernels::Fence) override {}
    void synchronize() override {}
    void set_profiling(bool) override {}
    kernels::KernelProfile take_profile() override { return {}; }

private:
    kernels::DeviceInfo device_;
    uint32_t last_ = 0;
};

double median(std::vector<double> values) {
    std::ranges::nth_element(values, values.begin() + std::ptrdiff_t(values.size() / 2));
    return values[values.size() / 2];
}

void measure_steps(int running, int waiting) {
    EngineConfig config;
    config.context = 2048;
    config.blocks = running * 128;
    config.max_sequences = running;
    config.max_step_tokens = 16'384;
    Engine engine(test::load_tiny(std::make_unique<NullBackend>(), {.context_length = 2048}), config);
    for (int i = 0; i < running + waiting; ++i) {
        Request request;
        for (int n = 0; n < 200; ++n)
            request.prompt.push_back(TokenId(3 + (i * 7 + n) % 250));
        request.sampling.temperature = 0;
        request.ignore_eos = true;
        request.max_tokens = i < running ? 1200 : 1;
        engine.add(RequestId(i + 1), request);
    }
    std::vector<TokenDelta> deltas;
    for (int i = 0; i < 200; ++i) {
        deltas.clear();
        engine.step(deltas);
    }
    std::vector<double> schedule, prepare, forward, sample, publish, own;
    const long long before = allocations;
    constexpr int steps = 800;
    for (int i = 0; i < steps; ++i) {
        deltas.clear();
        const StepReport& r = engine.step(deltas);
        schedule.push_back(double(r.schedule_ns) / 1000);
        prepare.push_back(double(r.prepare_ns) / 1000);
        forward.push_back(double(r.forward_ns) / 1000);
        sample.push_back(double(r.sample_ns) / 1000);
        publish.push_back(double(r.publish_ns) / 1000);
        own.push_back(schedule.back() + prepare.back() + publish.back());
        if (r.running != running || r.decode_tokens != running)
            std::printf("step %d: %d run, %d tokens\n", i, r.running, r.decode_tokens);
    }
    std::printf("%d running, %d waiting: bookkeeping %.1f µs a step (schedule %.1f, prepare %.1f, publish "
                "%.1f); forward %.1f, "
                "sample %.1f; %.2f allocations a step\n",
                running, waiting, median(own), median(schedule), median(prepare), median(publish),
                median(forward), median(sample), double(allocations - before) / steps);
}

void measure_long_prompt() {
    constexpr int tokens = 32'000;
    std::vector<TokenId> prompt(tokens);
    std::iota(prompt.begin(), prompt.end(), 1);
    BlockStore store(4096, 16, true);
    BlockTable first;
    store.extend(first, tokens);
    store.fill(first, prompt, tokens);
    std::vector<double> times;
    for (int i = 0; i < 200; ++i) {
        BlockTable table;
        const auto start = std::chrono::steady_clock::now();
        const BlockStore::Match& match = store.match(table, prompt, tokens - 1);
        times.push_back(
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
        if (match.blocks.size() != (tokens - 1) / 16)
            std::printf("only %zu blocks were found\n", match.blocks.size());
    }
    std::printf("a prompt of %d tokens is hashed and found in %.3f ms\n", tokens, median(times));
}

} // namespace

int main() {
    measure_steps(1, 0);
    measure_steps(256, 0);
    measure_steps(256, 10'000);
    measure_long_prompt();
}
