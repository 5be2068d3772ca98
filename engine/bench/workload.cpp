#include "engine/bench/workload.h"

#include "engine/sample/random.h"
#include "kernels/error.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace orrery {

namespace {

constexpr std::array kinds = {WorkloadKind::decode,  WorkloadKind::prefill, WorkloadKind::batch,
                              WorkloadKind::prefix,  WorkloadKind::mixed,   WorkloadKind::overload,
                              WorkloadKind::fairness};
constexpr std::array names = {"decode", "prefill", "batch", "prefix", "mixed", "overload", "fairness"};

/// Makes requests of random tokens, no two alike, and keeps account of what they need.
class Maker {
public:
    Maker(const EngineConfig& config, int vocabulary, int longest, uint64_t seed)
        : vocabulary_(vocabulary), longest_(longest), seed_(seed), config_(config) {
        if (longest_ < 8)
            throw Error("A context of " + std::to_string(longest_) +
                        " tokens is too small for a benchmark: it needs 8.");
    }

    /// `prefix` + `prompt` random tokens, cut so that `tokens` new ones fit.
    Request request(const std::vector<TokenId>& prefix, int prompt, int tokens) {
        tokens = std::min(tokens, longest_ / 2);
        const int room = longest_ - tokens;
        const int kept = std::min(int(prefix.size()), room - 1);
        Request request;
        request.prompt.assign(prefix.begin(), prefix.begin() + kept);
        for (const TokenId token : random_tokens(std::clamp(prompt, 1, room - kept)))
            request.prompt.push_back(token);
        request.sampling.temperature = 0.0f;
        request.sampling.seed = 0;
        request.max_tokens = tokens;
        request.ignore_eos = true;
        return request;
    }
    Request request(int prompt, int tokens) { return request({}, prompt, tokens); }

    std::vector<TokenId> random_tokens(int n) {
        std::vector<TokenId> tokens(static_cast<size_t>(n));
        for (TokenId& token : tokens)
            token = TokenId(uniform(seed_, 0, drawn_++, 0) * vocabulary_);
        return tokens;
    }

    /// The configuration with the context and the blocks that the rounds need. `share` of the blocks: 1 holds
    /// all of a round's requests at once.
    EngineConfig config(const std::vector<Round>& rounds, double share = 1.0) const {
        EngineConfig config = config_;
        int longest = 0;
        int most = 0;
        int largest = 0;
        size_t streams = 1;
        for (const Round& round : rounds) {
            int blocks = 0;
            for (const Arrival& arrival : round.arrivals) {
                const int tokens = int(arrival.request.prompt.size()) + arrival.request.max_tokens;
                // One more than it takes: the last token may open a block before the request ends.
                const int own = tokens / config.block_size + 2;
                longest = std::max(longest, tokens);
                largest = std::max(largest, own);
                blocks += own;
            }
            most = std::max(most, blocks);
            streams = std::max(streams, round.arrivals.size());
        }
        config.context = std::min(longest_, longest + 1);
        config.blocks = std::max(int(most * share), largest);
        config.cache_bytes = 0;
        config.max_sequences = std::max(config.max_sequences, int(streams));
        return config;
    }

private:
    int vocabulary_;
    int longest_;
    uint64_t seed_;
    uint32_t drawn_ = 0;
    EngineConfig config_;
};

Round streams(Maker& maker, const WorkloadSizes& sizes, const std::string& variant = {},
              const std::vector<TokenId>& prefix = {}) {
    Round round{variant, {}};
    for (int i = 0; i < sizes.streams; ++i)
        round.arrivals.push_back({maker.request(prefix, sizes.stream_prompt, sizes.stream_tokens)});
    return round;
}

/// What a prefix in the cache is worth: to one stream, which waits for nothing else, with a fresh prefix for
/// each repeat; then to all of them at once.
std::vector<Round> prefix_rounds(Maker& maker, const WorkloadSizes& sizes) {
    std::vector<Round> rounds;
    std::vector<TokenId> prefix;
    for (int i = 0; i < sizes.repeats; ++i) {
        prefix = maker.random_tokens(sizes.shared_prefix);
        for (const char* variant : {"one stream, cold", "one stream, warm"})
            rounds.push_back({variant, {{maker.request(prefix, sizes.question, sizes.question)}}});
    }
    rounds.push_back(streams(maker, sizes, std::to_string(sizes.streams) + " streams, warm", prefix));
    return rounds;
}

std::vector<Round> mixed_rounds(Maker& maker, const WorkloadSizes& sizes) {
    std::vector<Round> rounds;
    for (const bool with_prompt : {false, true}) {
        Round round{with_prompt ? "beside a long prompt" : "chats alone", {}};
        for (int i = 0; i < sizes.chats; ++i)
            round.arrivals.push_back({maker.request(sizes.chat_prompt, sizes.chat_tokens)});
        if (with_prompt) {
            // A quarter of the way, so that the chats go on while it is read.
            const int after = std::max(1, round.arrivals.front().request.max_tokens / 4);
            round.arrivals.push_back({maker.request(sizes.long_prompt, sizes.long_tokens), after, true});
        }
        rounds.push_back(std::move(round));
    }
    return rounds;
}

/// Short questions by themselves, a long prompt by itself, and both together.
std::vector<Round> fairness_rounds(Maker& maker, const WorkloadSizes& sizes) {
    std::vector<Round> rounds;
    for (const char* variant : {"questions alone", "long prompt alone", "both together"}) {
        Round round{variant, {}};
        if (variant != std::string("questions alone"))
            round.arrivals.push_back({maker.request(sizes.long_prompt, sizes.long_tokens)});
        for (int i = 0; variant != std::string("long prompt alone") && i < sizes.questions; ++i)
            round.arrivals.push_back({maker.request(sizes.question, sizes.question), 0, true, 1 + i / 2});
        rounds.push_back(std::move(round));
    }
    return rounds;
}

} // namespace

std::span<const WorkloadKind> all_workloads() {
    return kinds;
}

const char* workload_name(WorkloadKind kind) {
    return names[static_cast<size_t>(kind)];
}

WorkloadKind workload_kind(const std::string& name) {
    const auto* const found = std::ranges::find(names, name);
    if (found == names.end())
        throw Error(
            "'" + name +
            "' is no workload: there are decode, prefill, batch, prefix, mixed, overload and fairness.");
    return kinds[size_t(found - names.begin())];
}

Workload make_workload(WorkloadKind kind, const WorkloadSizes& sizes, EngineConfig config, int vocabulary,
                       int longest, uint64_t seed) {
    Maker maker(config, vocabulary, longest, seed);
    Workload workload{kind, {}, {}};
    std::vector<Round>& rounds = workload.rounds;
    // The first pass touches memory, wakes threads and settles the clock.
    rounds.push_back({"", {{maker.request(64, 8)}}, false});

    switch (kind) {
    case WorkloadKind::decode:
        for (int i = 0; i < sizes.repeats; ++i)
            rounds.push_back({"", {{maker.request(sizes.decode_prompt, sizes.decode_tokens)}}});
        break;
    case WorkloadKind::prefill:
        for (int i = 0; i < sizes.repeats; ++i)
            rounds.push_back({"", {{maker.request(sizes.prefill_prompt, 1)}}});
        break;
    case WorkloadKind::batch:
        for (int i = 0; i < sizes.repeats; ++i)
            rounds.push_back(streams(maker, sizes));
        break;
    case WorkloadKind::prefix:
        std::ranges::move(prefix_rounds(maker, sizes), std::back_inserter(rounds));
        break;
    case WorkloadKind::mixed:
        std::ranges::move(mixed_rounds(maker, sizes), std::back_inserter(rounds));
        break;
    case WorkloadKind::overload:
        rounds.push_back(streams(maker, sizes));
        break;
    case WorkloadKind::fairness:
        std::ranges::move(fairness_rounds(maker, sizes), std::back_inserter(rounds));
        break;
    }
    // A third of what the streams come to need, though most of what they need at first: so some wait, and of
    // those that run some have to give way.
    workload.config = maker.config(rounds, kind == WorkloadKind::overload ? 1.0 / 3 : 1.0);
    return workload;
}

} // namespace orrery
