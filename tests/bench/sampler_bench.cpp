// What one draw costs, by vocabulary and by what is switched on. SmolLM2 has 49,152 tokens, Llama 3 128,256,
// Gemma 3 262,144.
#include "engine/sample/sampler.h"

#include <benchmark/benchmark.h>

#include <random>

namespace {

using namespace orrery;

/// Logits like a language model's: a normal bulk, and a few dozen tokens that stand out.
std::vector<float> model_logits(size_t vocabulary) {
    std::mt19937 engine(1);
    std::normal_distribution<float> bulk(0.0f, 2.0f);
    std::vector<float> logits(vocabulary);
    for (float& logit : logits)
        logit = bulk(engine);
    for (int i = 0; i < 50; ++i)
        logits[engine() % vocabulary] += 20.0f - 0.25f * float(i);
    return logits;
}

/// The default chain, changed by `change`.
template <class Change>
void measure(benchmark::State& state, Change&& change, bool masked = false) {
    const std::vector<float> logits = model_logits(size_t(state.range(0)));
    std::vector<TokenId> tokens(4096);
    std::mt19937 engine(2);
    for (TokenId& token : tokens)
        token = TokenId(engine() % 1000);
    const std::vector<uint64_t> mask(masked ? logits.size() / 64 : 0, 0x00F0'0F00'FFFF'0001);
    SamplingParams params;
    change(params);
    Sampler sampler(params, 1, 0);
    size_t position = 1024;
    for (auto _ : state) {
        benchmark::DoNotOptimize(sampler.draw(logits, std::span(tokens).first(position), 1024, mask));
        position = position + 1 < tokens.size() ? position + 1 : 1024;
    }
}

void plain(SamplingParams& params) {
    params.top_k = 0;
    params.top_p = 1.0f;
    params.min_p = 0.0f;
}

void greedy(benchmark::State& state) {
    measure(state, [](SamplingParams& p) { p.temperature = 0.0f; });
}
void default_chain(benchmark::State& state) {
    measure(state, [](SamplingParams&) {});
}
void default_chain_with_logprobs(benchmark::State& state) {
    measure(state, [](SamplingParams& p) { p.logprobs = 5; });
}
void default_chain_with_mask(benchmark::State& state) {
    measure(
        state, [](SamplingParams&) {}, true);
}
void default_chain_with_repetition_penalty(benchmark::State& state) {
    measure(state, [](SamplingParams& p) { p.repetition_penalty = 1.1f; });
}
void default_chain_with_frequency_penalty(benchmark::State& state) {
    measure(state, [](SamplingParams& p) { p.frequency_penalty = 0.2f; });
}
void default_chain_with_dry(benchmark::State& state) {
    measure(state, [](SamplingParams& p) { p.dry_multiplier = 0.8f; });
}
void whole_distribution(benchmark::State& state) {
    measure(state, plain);
}
void top_p_alone(benchmark::State& state) {
    measure(state, [](SamplingParams& p) { plain(p), p.top_p = 0.95f; });
}
void min_p_alone(benchmark::State& state) {
    measure(state, [](SamplingParams& p) { plain(p), p.min_p = 0.05f; });
}
void typical_alone(benchmark::State& state) {
    measure(state, [](SamplingParams& p) { plain(p), p.typical_p = 0.9f; });
}
void top_n_sigma_alone(benchmark::State& state) {
    measure(state, [](SamplingParams& p) { plain(p), p.top_n_sigma = 1.0f; });
}
void mirostat(benchmark::State& state) {
    measure(state, [](SamplingParams& p) { p.mirostat = 2; });
}

void vocabularies(benchmark::internal::Benchmark* bench) {
    bench->Arg(49'152)->Arg(128'256)->Arg(262'144)->Unit(benchmark::kMicrosecond);
}

} // namespace

BENCHMARK(greedy)->Apply(vocabularies);
BENCHMARK(default_chain)->Apply(vocabularies);
BENCHMARK(default_chain_with_logprobs)->Apply(vocabularies);
BENCHMARK(default_chain_with_mask)->Apply(vocabularies);
BENCHMARK(default_chain_with_repetition_penalty)->Apply(vocabularies);
BENCHMARK(default_chain_with_frequency_penalty)->Apply(vocabularies);
BENCHMARK(default_chain_with_dry)->Apply(vocabularies);
BENCHMARK(whole_distribution)->Apply(vocabularies);
BENCHMARK(top_p_alone)->Apply(vocabularies);
BENCHMARK(min_p_alone)->Apply(vocabularies);
BENCHMARK(typical_alone)->Apply(vocabularies);
BENCHMARK(top_n_sigma_alone)->Apply(vocabularies);
BENCHMARK(mirostat)->Apply(vocabularies);
