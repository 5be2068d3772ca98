#include "engine/bench/bench.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace orrery {

namespace {

nlohmann::json to_json(const Percentiles& percentiles) {
    return {{"p50", percentiles.p50}, {"p90", percentiles.p90}, {"p99", percentiles.p99}};
}

nlohmann::json to_json(const ComputePeak& peak) {
    return {{"ops_per_s", peak.ops_per_s}, {"by", peak.by}};
}

template <class... Values>
std::string format(const char* pattern, Values... values) {
    std::array<char, 128> text{};
    std::snprintf(text.data(), text.size(), pattern, values...);
    return text.data();
}

/// Three figures or more: "12.3", "2710"
std::string show(double value) {
    return value == 0.0 ? "-" : format(value < 99.95 ? "%.1f" : "%.0f", value);
}

/// "12.3 / 15.0 / 217"
std::string show(const Percentiles& percentiles) {
    if (percentiles.p99 == 0.0)
        return "-";
    return show(percentiles.p50) + " / " + show(percentiles.p90) + " / " + show(percentiles.p99);
}

/// A figure in billions beside its limit: "12.3 of 29.0 (42 %)"
std::string show_beside(double value, double limit) {
    if (value == 0.0)
        return "-";
    if (limit == 0.0)
        return show(value * 1e-9);
    return show(value * 1e-9) + " of " + show(limit * 1e-9) + format(" (%.0f %%)", 100.0 * value / limit);
}

using Row = std::vector<std::string>;

/// Columns as wide as their widest cell, the first to the left, the others to the right. Every cell is ASCII.
std::string align(const std::vector<Row>& rows) {
    std::vector<size_t> widths(rows.front().size(), 0);
    for (const Row& row : rows)
        for (size_t i = 0; i < row.size(); ++i)
            widths[i] = std::max(widths[i], row[i].size());
    std::string text;
    for (const Row& row : rows) {
        for (size_t i = 0; i < row.size(); ++i) {
            const std::string padding(widths[i] - row[i].size(), ' ');
            text += i == 0 ? row[i] + padding : "  " + padding + row[i];
        }
        text += '\n';
    }
    return text;
}

} // namespace

nlohmann::json bench_to_json(const std::vector<BenchResult>& results) {
    nlohmann::json list = nlohmann::json::array();
    for (const BenchResult& r : results) {
        nlohmann::json entry = {
            {"workload", r.workload},
            {"variant", r.variant},
            {"repeats", r.repeats},
            {"tokens_per_s", r.tokens_per_s},
            {"decode_tokens_per_s", r.decode_tokens_per_s},
            {"ttft_ms", to_json(r.ttft_ms)},
            {"itl_ms", to_json(r.itl_ms)},
            {"long_prompt_ms", r.long_prompt_ms},
            {"requests", r.requests},
            {"prompt_tokens", r.prompt_tokens},
            {"cached_tokens", r.cached_tokens},
            {"generated_tokens", r.generated_tokens},
            {"cache_hit_rate", r.cache_hit_rate},
            {"blocks", r.blocks},
            {"peak_blocks", r.peak_blocks},
            {"block_size", r.block_size},
            {"kv_waste", r.kv_waste},
            {"preemptions", r.preemptions},
            {"max_running", r.max_running},
            {"max_waiting", r.max_waiting},
            {"steps", r.steps},
            {"wall_s", r.wall_s},
            {"read_bytes_per_s", r.read_bytes_per_s},
            {"ops_per_s", r.ops_per_s},
        };
        if (r.limits) {
            entry["bandwidth_share"] = r.bandwidth_share;
            entry["int8_share"] = r.int8_share;
            entry["limits"] = {{"threads", r.limits->threads},
                               {"working_set_bytes", r.limits->working_set_bytes},
                               {"read_bytes_per_s", r.limits->read_bytes_per_s},
                               {"fp32", to_json(r.limits->fp32)},
                               {"int8", to_json(r.limits->int8)}};
        }
        list.push_back(std::move(entry));
    }
    return {{"results", std::move(list)}};
}

std::string bench_to_table(const std::vector<BenchResult>& results) {
    std::vector<Row> rows = {{"workload", "tokens/s", "decoding", "TTFT ms p50/p90/p99", "ITL ms p50/p90/p99",
                              "long prompt ms", "cached", "running", "waiting", "preempted", "KV blocks",
                              "KV waste", "read GB/s of limit", "GOP/s of int8 peak"}};
    for (const BenchResult& r : results) {
        rows.push_back({r.workload + (r.variant.empty() ? "" : ", " + r.variant), show(r.tokens_per_s),
                        show(r.decode_tokens_per_s), show(r.ttft_ms), show(r.itl_ms), show(r.long_prompt_ms),
                        format("%.0f %%", 100.0 * r.cache_hit_rate), std::to_string(r.max_running),
                        std::to_string(r.max_waiting), std::to_string(r.preemptions),
                        format("%d of %d", r.peak_blocks, r.blocks), format("%.1f %%", 100.0 * r.kv_waste),
                        show_beside(r.read_bytes_per_s, r.limits ? r.limits->read_bytes_per_s : 0.0),
                        show_beside(r.ops_per_s, r.limits ? r.limits->int8.ops_per_s : 0.0)});
    }
    std::string text = align(rows);
    text +=
        "\nTokens/s: new tokens in all the time, the prompts' included; decode: without the prompt; "
        "prefill: the prompt's\ntokens until the first new one. Decoding: new tokens a second in the steps "
        "that read no prompt. KV blocks: the most\nin use at once; waste: the share of their slots that "
        "held no token, over all steps.\n";
    if (!results.empty() && results.front().limits) {
        const MachineLimits& limits = *results.front().limits;
        text += format("Limits, measured now with %d threads: ", limits.threads);
        text += "reads at the size of what a step reads";
        if (limits.fp32.ops_per_s > 0.0)
            text += format("; fp32 %.0f GFLOP/s (%s)", limits.fp32.ops_per_s * 1e-9, limits.fp32.by.c_str());
        if (limits.int8.ops_per_s > 0.0)
            text += format("; int8 %.0f GOP/s (%s)", limits.int8.ops_per_s * 1e-9, limits.int8.by.c_str());
        text += ".\n";
    }
    return text;
}

} // namespace orrery
