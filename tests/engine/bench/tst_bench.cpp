// Every workload through a real engine, on a tiny model: its counts must be those that were asked for, and
// its figures must agree with each other. Speed is not tested here.
#include "engine/bench/bench.h"
#include "kernels/error.h"
#include "tests/support/tiny_model.h"

#include <QtTest>

#include <cmath>

using namespace orrery;

namespace {

std::shared_ptr<Model> model() {
    LoadOptions options;
    options.backend = kernels::BackendKind::reference;
    options.threads = 1;
    return load_model(test::tiny_model(), options);
}

/// Small enough for plain loops.
BenchOptions small() {
    BenchOptions options;
    options.limits = false;
    options.sizes.repeats = 2;
    options.sizes.decode_prompt = 8;
    options.sizes.decode_tokens = 12;
    options.sizes.prefill_prompt = 40;
    options.sizes.streams = 6;
    options.sizes.stream_prompt = 20;
    options.sizes.stream_tokens = 30;
    options.sizes.shared_prefix = 64;
    options.sizes.question = 5;
    options.sizes.chats = 3;
    options.sizes.chat_prompt = 10;
    options.sizes.chat_tokens = 24;
    options.sizes.long_prompt = 200;
    options.sizes.long_tokens = 4;
    options.sizes.questions = 6;
    options.engine.max_step_tokens = 48;
    options.engine.check = true;
    return options;
}

std::vector<BenchResult> run(WorkloadKind kind, BenchOptions options = small()) {
    options.workloads = {kind};
    return run_benchmark(model(), options);
}

void verify_order(const Percentiles& p) {
    QVERIFY(p.p50 > 0.0);
    QVERIFY(p.p50 <= p.p90);
    QVERIFY(p.p90 <= p.p99);
}

} // namespace

class TestBench : public QObject {
    Q_OBJECT

private slots:
    void one_stream_is_decoded();
    void a_prompt_is_read_once();
    void many_streams_run_at_once();
    void kv_waste_is_counted_slot_by_slot();
    void prefix_is_found_the_second_time();
    void chats_go_on_beside_a_long_prompt();
    void overload_waits_and_gives_way();
    void questions_are_answered_beside_a_long_prompt();
    void figures_agree();
    void json_and_table_show_every_result();
    void a_benchmark_can_be_stopped();
    void limits_are_those_of_a_machine();
};

void TestBench::one_stream_is_decoded() {
    const auto results = run(WorkloadKind::decode);
    QCOMPARE(results.size(), size_t(1));
    const BenchResult& r = results.front();
    QCOMPARE(r.workload, std::string("decode"));
    QCOMPARE(r.repeats, 2);
    QCOMPARE(r.requests, 2);
    QCOMPARE(r.prompt_tokens, 2 * 8);
    QCOMPARE(r.generated_tokens, 2 * 12);
    QCOMPARE(r.max_running, 1);
    QCOMPARE(r.cached_tokens, 0);
    // One stream: its speed is the inverse of the time between tokens, of which these are the extremes.
    QVERIFY(r.tokens_per_s * r.itl_ms.p99 >= 0.99e3);
    verify_order(r.ttft_ms);
    verify_order(r.itl_ms);
}

void TestBench::a_prompt_is_read_once() {
    const auto results = run(WorkloadKind::prefill);
    const BenchResult& r = results.front();
    QCOMPARE(r.requests, 2);
    QCOMPARE(r.prompt_tokens, 2 * 40);
    QCOMPARE(r.generated_tokens, 2);
    QCOMPARE(r.itl_ms.p99, 0.0); // there is nothing between one token
    // 40 tokens within the slower, and within the faster, of the two times to the first token.
    QVERIFY(r.tokens_per_s >= 0.99 * 40e3 / r.ttft_ms.p99);
    QVERIFY(r.ops_per_s > 0.0);
    QCOMPARE(r.max_running, 1);
}

void TestBench::many_streams_run_at_once() {
    const auto results = run(WorkloadKind::batch);
    const BenchResult& r = results.front();
    QCOMPARE(r.requests, 2 * 6);
    QCOMPARE(r.prompt_tokens, 2 * 6 * 20);
    QCOMPARE(r.generated_tokens, 2 * 6 * 30);
    QCOMPARE(r.max_running, 6);
    QCOMPARE(r.preemptions, 0);
    // Together: 30 new tokens each take far fewer steps than one after the other.
    QVERIFY2(r.steps < 2 * 2 * 30, qPrintable(QString::number(r.steps)));
    verify_order(r.ttft_ms);
    verify_order(r.itl_ms);
}

// One sequence in blocks of 16: its own arithmetic says after each step what is held and what is written. The
// step that ends it leaves nothing held.
void TestBench::kv_waste_is_counted_slot_by_slot() {
    BenchOptions options = small();
    for (const int block_size : {1, 5, 16, 64}) {
        options.engine.block_size = block_size;
        int held = 0;
        int written = 0;
        int peak = 0;
        for (int computed = 8; computed < 8 + 12 - 1; ++computed) {
            const int blocks = (computed + block_size - 1) / block_size;
            held += blocks;
            written += computed;
            peak = std::max(peak, blocks);
        }
        const BenchResult r = run(WorkloadKind::decode, options).front();
        QCOMPARE(r.block_size, block_size);
        QCOMPARE(r.peak_blocks, peak);
        QVERIFY(r.blocks >= peak);
        const double waste = 1.0 - double(written) / (double(held) * block_size);
        QVERIFY2(std::abs(r.kv_waste - waste) < 1e-12,
                 qPrintable(QString("blocks of %1: %2, not %3").arg(block_size).arg(r.kv_waste).arg(waste)));
    }
}

void TestBench::prefix_is_found_the_second_time() {
    const auto results = run(WorkloadKind::prefix);
    QCOMPARE(results.size(), size_t(3));
    const std::vector<std::string> variants = {"one stream, cold", "one stream, warm", "6 streams, warm"};
    for (size_t i = 0; i < 3; ++i) {
        const BenchResult& r = results[i];
        const bool many = i == 2;
        QCOMPARE(r.variant, variants[i]);
        QCOMPARE(r.repeats, many ? 1 : 2);
        QCOMPARE(r.requests, many ? 6 : 2);
        QCOMPARE(r.max_running, many ? 6 : 1);
        QCOMPARE(r.prompt_tokens, many ? 6 * (64 + 20) : 2 * (64 + 5));
        QCOMPARE(r.generated_tokens, many ? 6 * 30 : 2 * 5);
        // Cold, nothing is found; warm, each finds exactly the prefix.
        QCOMPARE(r.cached_tokens, i == 0 ? 0 : r.requests * 64);
        QCOMPARE(r.cache_hit_rate, double(r.cached_tokens) / double(r.prompt_tokens));
    }
    BenchOptions off = small();
    off.engine.prefix_cache = false;
    for (const BenchResult& r : run(WorkloadKind::prefix, off))
        QCOMPARE(r.cached_tokens, 0);
}

void TestBench::chats_go_on_beside_a_long_prompt() {
    const auto results = run(WorkloadKind::mixed);
    QCOMPARE(results.size(), size_t(2));
    QCOMPARE(results[0].requests, 3);
    QCOMPARE(results[0].generated_tokens, 3 * 24);
    QCOMPARE(results[1].requests, 4);
    QCOMPARE(results[1].prompt_tokens, 3 * 10 + 200);
    QCOMPARE(results[1].generated_tokens, 3 * 24 + 4);
    QCOMPARE(results[1].max_running, 4);
    // The long prompt takes several steps of the budget, and chats went on in them.
    verify_order(results[1].itl_ms);
    verify_order(results[1].ttft_ms);
    QCOMPARE(results[1].ttft_ms.p50, results[1].ttft_ms.p99); // one request's alone
}

void TestBench::overload_waits_and_gives_way() {
    BenchOptions options = small();
    options.sizes.streams = 12;
    const auto results = run(WorkloadKind::overload, options);
    const BenchResult& r = results.front();
    // Nothing is lost.
    QCOMPARE(r.requests, 12);
    QCOMPARE(r.generated_tokens, 12 * 30);
    QVERIFY(r.max_running < 12);
    QVERIFY(r.max_waiting > 0);
    QVERIFY(r.preemptions > 0);
}

void TestBench::questions_are_answered_beside_a_long_prompt() {
    const auto results = run(WorkloadKind::fairness);
    QCOMPARE(results.size(), size_t(3));
    const BenchResult &questions = results[0], &alone = results[1], &both = results[2];
    QCOMPARE(questions.requests, 6);
    QCOMPARE(questions.long_prompt_ms, 0.0);
    QCOMPARE(alone.requests, 1);
    QCOMPARE(both.requests, 7);
    QCOMPARE(both.prompt_tokens, questions.prompt_tokens + alone.prompt_tokens);
    QCOMPARE(both.generated_tokens, questions.generated_tokens + alone.generated_tokens);
    QVERIFY(alone.long_prompt_ms > 0.0 && both.long_prompt_ms > 0.0);
    verify_order(questions.ttft_ms);
    verify_order(both.ttft_ms);
    // The questions are answered while the long prompt is read.
    QVERIFY(both.max_running > 2);
}

void TestBench::figures_agree() {
    BenchOptions options = small();
    const auto results = run_benchmark(model(), options);
    QCOMPARE(results.size(), size_t(12)); // prefix and fairness have three variants, mixed has two
    for (const BenchResult& r : results) {
        // Where a step writes and reads no prompt, it writes at some speed; and then faster than with
        // prompts.
        QCOMPARE(r.decode_tokens_per_s > 0.0, r.workload != "prefill");
        if (r.workload == "batch" || r.workload == "overload")
            QVERIFY(r.decode_tokens_per_s > r.tokens_per_s);
        // A prompt that is read in one step and gets one token holds nothing after it.
        QCOMPARE(r.peak_blocks > 0, r.workload != "prefill");
        QVERIFY(r.peak_blocks <= r.blocks);
        QCOMPARE(r.kv_waste > 0.0, r.workload != "prefill");
        QVERIFY(r.kv_waste < 1.0);
        QVERIFY2(r.tokens_per_s > 0.0, r.workload.c_str());
        QVERIFY(r.wall_s > 0.0);
        QVERIFY(r.steps > 0);
        QVERIFY(r.read_bytes_per_s > 0.0);
        QVERIFY(!r.limits);
        // No request waits longer for its first token than all rounds together take.
        QVERIFY(r.ttft_ms.p50 * 1e-3 <= r.wall_s);
    }
}

void TestBench::json_and_table_show_every_result() {
    BenchOptions options = small();
    options.workloads = {WorkloadKind::decode, WorkloadKind::prefix};
    options.limits = true;
    const auto results = run_benchmark(model(), options);
    const nlohmann::json json = bench_to_json(results);
    QCOMPARE(json.at("results").size(), size_t(4));
    for (size_t i = 0; i < results.size(); ++i) {
        const nlohmann::json& entry = json["results"][i];
        const BenchResult& r = results[i];
        QCOMPARE(entry.at("workload").get<std::string>(), r.workload);
        QCOMPARE(entry.at("tokens_per_s").get<double>(), r.tokens_per_s);
        QCOMPARE(entry.at("decode_tokens_per_s").get<double>(), r.decode_tokens_per_s);
        QCOMPARE(entry.at("kv_waste").get<double>(), r.kv_waste);
        QCOMPARE(entry.at("peak_blocks").get<int>(), r.peak_blocks);
        QCOMPARE(entry.at("generated_tokens").get<int64_t>(), r.generated_tokens);
        QCOMPARE(entry.at("itl_ms").at("p99").get<double>(), r.itl_ms.p99);
        QVERIFY(r.limits.has_value());
        QCOMPARE(entry.at("limits").at("read_bytes_per_s").get<double>(), r.limits->read_bytes_per_s);
        QVERIFY(std::abs(r.bandwidth_share * r.limits->read_bytes_per_s - r.read_bytes_per_s) <
                1e-6 * r.read_bytes_per_s);
    }
    const std::string table = bench_to_table(results);
    for (const char* word : {"decode", "prefix, one stream, cold", "prefix, one stream, warm",
                             "prefix, 6 streams, warm", "tokens/s", "decoding", "KV waste", "Limits"})
        QVERIFY2(table.find(word) != std::string::npos, table.c_str());
    // All rows are equally wide.
    const QStringList lines = QString::fromStdString(table).split('\n');
    for (qsizetype i = 1; i <= 4; ++i)
        QCOMPARE(lines[i].size(), lines[0].size());
}

void TestBench::a_benchmark_can_be_stopped() {
    BenchOptions options = small();
    std::atomic<bool> cancel = false;
    options.cancel = &cancel;
    int begun = 0;
    options.progress = [&](const char*) { cancel = ++begun == 2; };
    QVERIFY_EXCEPTION_THROWN(run_benchmark(model(), options), Cancelled);
    QCOMPARE(begun, 2);
}

void TestBench::limits_are_those_of_a_machine() {
    // Wide bounds: no machine that runs this reads less than 10 MB or more than 100 TB a second.
    for (const size_t bytes : {size_t(1), size_t(100'000), size_t(30) << 20}) {
        const double rate = measure_read_bandwidth(2, bytes);
        QVERIFY2(rate > 1e7 && rate < 1e14, qPrintable(QString::number(rate)));
    }
    for (const ComputePeak& peak : {measure_fp32_peak(1), measure_int8_peak(1)}) {
        QCOMPARE(peak.by.empty(), peak.ops_per_s == 0.0);
        if (!peak.by.empty())
            QVERIFY2(peak.ops_per_s > 1e8 && peak.ops_per_s < 1e16,
                     qPrintable(QString::number(peak.ops_per_s)));
    }
}

QTEST_GUILESS_MAIN(TestBench)
#include "tst_bench.moc"
