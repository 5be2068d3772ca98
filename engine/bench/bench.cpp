#include "engine/bench/bench.h"

#include "kernels/error.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <unordered_map>

namespace orrery {

namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) {
    return std::chrono::duration<double>(duration).count();
}

/// One request while it runs, and what came of it.
struct Stream {
    const Arrival* arrival = nullptr;
    Clock::time_point added;
    std::vector<Clock::time_point> tokens; ///< when each came
    bool ended = false;
    Usage usage;
};

/// What a step of the engine read and computed.
struct StepCost {
    double seconds = 0.0;
    int64_t read_bytes = 0;
    int32_t prompt_tokens = 0;
    int32_t computed_tokens = 0;
    int32_t generated_tokens = 0;
    int32_t held_blocks = 0;
    int32_t unused_slots = 0;
};

/// A round as it went.
struct Outcome {
    std::vector<Stream> streams;
    std::vector<StepCost> steps;
    double wall_s = 0.0;
    int preemptions = 0;
    int max_running = 0;
    int max_waiting = 0;
};

/// Feeds an engine with the requests of rounds and watches what it does.
class Driver {
public:
    Driver(std::shared_ptr<Model> model, const EngineConfig& config, const std::atomic<bool>* cancel)
        : engine_(std::move(model), config), cancel_(cancel) {}

    const EngineConfig& config() const { return engine_.config(); }

    Outcome run(const Round& round) {
        Outcome outcome;
        outcome.streams.reserve(round.arrivals.size());
        const RequestId first = next_id_;
        const auto start = Clock::now();
        while (true) {
            while (outcome.streams.size() < round.arrivals.size() &&
                   (engine_.idle() || is_due(round.arrivals[outcome.streams.size()], outcome)))
                add(round.arrivals[outcome.streams.size()], outcome.streams);
            if (engine_.idle())
                break;
            step(first, outcome);
        }
        outcome.wall_s = seconds(Clock::now() - start);
        for (const Stream& stream : outcome.streams)
            if (!stream.ended)
                throw Error("The engine is idle, but a request of the benchmark has not ended.");
        return outcome;
    }

private:
    static bool is_due(const Arrival& arrival, const Outcome& outcome) {
        return outcome.steps.size() >= size_t(arrival.after_steps) &&
               std::ranges::all_of(outcome.streams, [&](const Stream& stream) {
                   return stream.ended || stream.tokens.size() >= size_t(arrival.after_tokens);
               });
    }

    void add(const Arrival& arrival, std::vector<Stream>& streams) {
        streams.push_back({&arrival, Clock::now(), {}, false, {}});
        streams.back().tokens.reserve(size_t(arrival.request.max_tokens));
        engine_.add(next_id_++, arrival.request);
    }

    void step(RequestId first, Outcome& outcome) {
        if (cancel_ != nullptr && *cancel_)
            throw Cancelled("The benchmark was stopped.");
        deltas_.clear();
        const StepReport& report = engine_.step(deltas_);
        const auto now = Clock::now();
        for (const TokenDelta& delta : deltas_)
            take(delta, now, outcome.streams[size_t(delta.request - first)]);
        outcome.steps.push_back({double(report.duration_ns) * 1e-9, report.weight_bytes + report.cache_bytes,
                                 report.prefill_tokens + report.recomputed_tokens,
                                 report.prefill_tokens + report.recomputed_tokens + report.decode_tokens +
                                     report.speculative_tokens,
                                 report.generated_tokens, report.blocks_held, report.slots_unused});
        outcome.preemptions += int(report.preemptions.size());
        // Those that were in a step together: a request that ended in it no longer counts as running.
        outcome.max_running = std::max(outcome.max_running, int(report.rows.size()));
        outcome.max_waiting = std::max(outcome.max_waiting, report.waiting + report.swapped);
    }

    static void take(const TokenDelta& delta, Clock::time_point now, Stream& stream) {
        if (delta.token)
            stream.tokens.push_back(now);
        if (delta.finish == FinishReason::none)
            return;
        if (delta.finish != FinishReason::length)
            throw Error(std::string("A request of the benchmark ended with '") +
                        finish_reason_name(delta.finish) + "' instead of 'length'. " + delta.error);
        stream.ended = true;
        stream.usage = delta.usage;
    }

    Engine engine_;
    const std::atomic<bool>* cancel_;
    RequestId next_id_ = 1;
    std::vector<TokenDelta> deltas_;
};

/// The value that `share` of all values do not exceed.
double percentile(std::vector<double>& values, double share) {
    const auto rank = size_t(std::ceil(share * double(values.size())));
    const auto place = values.begin() + ptrdiff_t(std::max<size_t>(rank, 1) - 1);
    std::nth_element(values.begin(), place, values.end());
    return *place;
}

Percentiles percentiles_ms(std::vector<double> values) {
    if (values.empty())
        return {};
    return {percentile(values, 0.5) * 1e3, percentile(values, 0.9) * 1e3, percentile(values, 0.99) * 1e3};
}

double median(std::vector<double> values) {
    return values.empty() ? 0.0 : percentile(values, 0.5);
}

double tokens_per_s(WorkloadKind kind, const Outcome& outcome) {
    const Stream& stream = outcome.streams.front();
    if (kind == WorkloadKind::decode)
        return double(stream.tokens.size() - 1) / seconds(stream.tokens.back() - stream.tokens.front());
    if (kind == WorkloadKind::prefill)
        return double(stream.arrival->request.prompt.size()) / seconds(stream.tokens.front() - stream.added);
    size_t tokens = 0;
    for (const Stream& each : outcome.streams)
        tokens += each.tokens.size();
    return double(tokens) / outcome.wall_s;
}

/// Seconds from each arrival to the first token, and between tokens: of all requests or, where the round is
/// about some of them, the first of these, and the second of the others while the first of these is waited
/// for.
void collect_latencies(const Outcome& outcome, std::vector<double>& first, std::vector<double>& between) {
    const auto probe =
        std::ranges::find_if(outcome.streams, [](const Stream& s) { return s.arrival->probe; });
    const bool has_probe = probe != outcome.streams.end();
    for (const Stream& stream : outcome.streams) {
        const bool is_probe = stream.arrival->probe;
        if (!stream.tokens.empty() && is_probe == has_probe)
            first.push_back(seconds(stream.tokens.front() - stream.added));
        if (is_probe)
            continue;
        for (size_t i = 1; i < stream.tokens.size(); ++i)
            if (!has_probe || (stream.tokens[i] > probe->added && stream.tokens[i] <= probe->tokens.front()))
                between.push_back(seconds(stream.tokens[i] - stream.tokens[i - 1]));
    }
}

/// How long the request took that its round is not about; 0 where there is none.
double long_prompt_ms(const std::vector<Outcome>& outcomes) {
    std::vector<double> times;
    for (const Outcome& outcome : outcomes)
        for (const Stream& stream : outcome.streams)
            if (!stream.arrival->probe)
                times.push_back(seconds(stream.tokens.back() - stream.added));
    return median(times) * 1e3;
}

/// Operations of the weight matrices for one token through all layers; a multiply-add counts as two.
double layer_ops(const ModelConfig& config) {
    const double heads = config.heads;
    const double kv_heads = config.kv_heads;
    const double attention = heads * config.key_length +
                             kv_heads * (config.key_length + config.value_length) +
                             heads * config.value_length;
    return 2.0 * config.layers * config.hidden * (attention + 3.0 * config.feed_forward);
}

double head_ops(const ModelConfig& config) {
    return 2.0 * config.hidden * config.vocab;
}

/// Measures the machine once for each size of working set; sizes within a quarter of each other are one.
class LimitsOf {
public:
    explicit LimitsOf(int threads) : threads_(threads) {}

    MachineLimits at(double working_set_bytes) {
        if (fp32_.by.empty()) {
            fp32_ = measure_fp32_peak(threads_);
            int8_ = measure_int8_peak(threads_);
        }
        const int key = int(std::lround(std::log(std::max(working_set_bytes, 1.0)) / std::log(1.25)));
        const auto [entry, is_new] = bandwidth_.try_emplace(key);
        if (is_new)
            entry->second = measure_read_bandwidth(threads_, size_t(working_set_bytes));
        return {threads_, size_t(working_set_bytes), entry->second, fp32_, int8_};
    }

private:
    int threads_;
    ComputePeak fp32_;
    ComputePeak int8_;
    std::map<int, double> bandwidth_;
};

void summarise_cache(const std::vector<Outcome>& outcomes, const EngineConfig& config, BenchResult& result) {
    result.blocks = config.blocks;
    result.block_size = config.block_size;
    int64_t held = 0;
    int64_t unused = 0;
    for (const Outcome& outcome : outcomes)
        for (const StepCost& step : outcome.steps) {
            held += step.held_blocks;
            unused += step.unused_slots;
            result.peak_blocks = std::max(result.peak_blocks, step.held_blocks);
        }
    if (held > 0)
        result.kv_waste = double(unused) / (double(held) * config.block_size);
}

BenchResult summarise(WorkloadKind kind, const std::string& variant, const std::vector<Outcome>& outcomes,
                      const ModelConfig& model, const EngineConfig& config, LimitsOf* limits) {
    BenchResult result;
    result.workload = workload_name(kind);
    result.variant = variant;
    result.repeats = int(outcomes.size());

    std::vector<double> rates;
    std::vector<double> first;
    std::vector<double> between;
    std::vector<const StepCost*> decoding;
    std::vector<const StepCost*> reading;
    for (const Outcome& outcome : outcomes) {
        rates.push_back(tokens_per_s(kind, outcome));
        collect_latencies(outcome, first, between);
        result.requests += int(outcome.streams.size());
        for (const Stream& stream : outcome.streams) {
            result.prompt_tokens += stream.usage.prompt_tokens;
            result.cached_tokens += stream.usage.cached_tokens;
            result.generated_tokens += int64_t(stream.tokens.size());
        }
        for (const StepCost& step : outcome.steps)
            if (step.computed_tokens > 0)
                (step.prompt_tokens > 0 ? reading : decoding).push_back(&step);
        result.steps += int64_t(outcome.steps.size());
        result.preemptions += outcome.preemptions;
        result.max_running = std::max(result.max_running, outcome.max_running);
        result.max_waiting = std::max(result.max_waiting, outcome.max_waiting);
        result.wall_s += outcome.wall_s;
    }
    result.tokens_per_s = median(rates);
    result.ttft_ms = percentiles_ms(std::move(first));
    result.itl_ms = percentiles_ms(std::move(between));
    result.cache_hit_rate =
        result.prompt_tokens > 0 ? double(result.cached_tokens) / double(result.prompt_tokens) : 0.0;

    if (kind == WorkloadKind::fairness)
        result.long_prompt_ms = long_prompt_ms(outcomes);
    summarise_cache(outcomes, config, result);

    double time = 0.0;
    int64_t tokens = 0;
    for (const StepCost* step : decoding) {
        tokens += step->generated_tokens;
        time += step->seconds;
    }
    result.decode_tokens_per_s = time > 0.0 ? double(tokens) / time : 0.0;

    double bytes = 0.0;
    time = 0.0;
    const auto& readers = decoding.empty() ? reading : decoding;
    for (const StepCost* step : readers) {
        bytes += double(step->read_bytes);
        time += step->seconds;
    }
    const double working_set = bytes / double(std::max<size_t>(readers.size(), 1));
    result.read_bytes_per_s = time > 0.0 ? bytes / time : 0.0;

    double ops = 0.0;
    time = 0.0;
    for (const StepCost* step : reading) {
        ops += layer_ops(model) * step->computed_tokens + head_ops(model) * step->generated_tokens;
        time += step->seconds;
    }
    result.ops_per_s = time > 0.0 ? ops / time : 0.0;

    if (limits != nullptr) {
        result.limits = limits->at(working_set);
        result.bandwidth_share = result.read_bytes_per_s / result.limits->read_bytes_per_s;
        if (result.limits->int8.ops_per_s > 0.0)
            result.int8_share = result.ops_per_s / result.limits->int8.ops_per_s;
    }
    return result;
}

} // namespace

std::vector<BenchResult> run_benchmark(std::shared_ptr<Model> model, const BenchOptions& options) {
    const ModelConfig& config = model->config;
    LimitsOf limits(std::max(1, model->backend->device().threads));
    std::vector<BenchResult> results;
    for (const WorkloadKind kind : options.workloads) {
        if (options.progress)
            options.progress(workload_name(kind));
        const int longest = options.engine.context > 0
                                ? std::min(options.engine.context, config.context_length)
                                : config.context_length;
        const Workload workload =
            make_workload(kind, options.sizes, options.engine, config.vocab, longest, options.seed);
        // Results in the order in which their variants first appear.
        std::vector<std::pair<std::string, std::vector<Outcome>>> variants;
        EngineConfig in_force;
        {
            Driver driver(model, workload.config, options.cancel);
            in_force = driver.config();
            for (const Round& round : workload.rounds) {
                Outcome outcome = driver.run(round);
                if (!round.measured)
                    continue;
                auto entry =
                    std::ranges::find(variants, round.variant, [](const auto& v) { return v.first; });
                if (entry == variants.end())
                    entry = variants.insert(variants.end(), {round.variant, {}});
                entry->second.push_back(std::move(outcome));
            }
        }
        for (const auto& [variant, outcomes] : variants)
            results.push_back(
                summarise(kind, variant, outcomes, config, in_force, options.limits ? &limits : nullptr));
    }
    return results;
}

} // namespace orrery
