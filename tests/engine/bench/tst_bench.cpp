// Every workload through a real engine, on a tiny model: its counts must be those that were asked for, and
// its figures must agree with each other. How fast it was is nobody's business here.
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
    options.sizes.chats = 3;
    options.sizes.chat_prompt = 10;
    options.sizes.chat_tokens = 24;
    options.sizes.long_prompt = 200;
    options.sizes.long_tokens = 4;
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
    void decode();
    void prefill();
    void batch();
    void prefix_is_found_the_second_time();
    void mixed();
    void overload_waits_and_gives_way();
    void figures_agree();
    void json_and_table();
    void it_can_be_stopped();
    void limits_are_those_of_a_machine();
};

void TestBench::decode() {
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

void TestBench::prefill() {
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

void TestBench::batch() {
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

void TestBench::prefix_is_found_the_second_time() {
    const auto results = run(WorkloadKind::prefix);
    QCOMPARE(results.size(), size_t(2));
    const BenchResult& cold = results[0];
    const BenchResult& warm = results[1];
    QCOMPARE(cold.variant, std::string("cold"));
    QCOMPARE(warm.variant, std::string("warm"));
    for (const BenchResult* r : {&cold, &warm}) {
        QCOMPARE(r->requests, 6);
        QCOMPARE(r->prompt_tokens, 6 * (64 + 20));
        QCOMPARE(r->generated_tokens, 6 * 30);
        QVERIFY(std::abs(r->cache_hit_rate - double(r->cached_tokens) / double(r->prompt_tokens)) < 1e-12);
    }
    QVERIFY(cold.cached_tokens <= 5 * 64); // the first one can find nothing
    QCOMPARE(warm.cached_tokens, 6 * 64);  // everybody finds exactly the prefix
    BenchOptions off = small();
    off.engine.prefix_cache = false;
    for (const BenchResult& r : run(WorkloadKind::prefix, off))
        QCOMPARE(r.cached_tokens, 0);
}

void TestBench::mixed() {
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

void TestBench::figures_agree() {
    BenchOptions options = small();
    const auto results = run_benchmark(model(), options);
    QCOMPARE(results.size(), size_t(8)); // two of them have two variants
    for (const BenchResult& r : results) {
        QVERIFY2(r.tokens_per_s > 0.0, r.workload.c_str());
        QVERIFY(r.wall_s > 0.0);
        QVERIFY(r.steps > 0);
        QVERIFY(r.read_bytes_per_s > 0.0);
        QVERIFY(!r.limits);
        // No request waits longer for its first token than all rounds together take.
        QVERIFY(r.ttft_ms.p50 * 1e-3 <= r.wall_s);
    }
}

void TestBench::json_and_table() {
    BenchOptions options = small();
    options.workloads = {WorkloadKind::decode, WorkloadKind::prefix};
    options.limits = true;
    const auto results = run_benchmark(model(), options);
    const nlohmann::json json = bench_to_json(results);
    QCOMPARE(json.at("results").size(), size_t(3));
    for (size_t i = 0; i < results.size(); ++i) {
        const nlohmann::json& entry = json["results"][i];
        const BenchResult& r = results[i];
        QCOMPARE(entry.at("workload").get<std::string>(), r.workload);
        QCOMPARE(entry.at("tokens_per_s").get<double>(), r.tokens_per_s);
        QCOMPARE(entry.at("generated_tokens").get<int64_t>(), r.generated_tokens);
        QCOMPARE(entry.at("itl_ms").at("p99").get<double>(), r.itl_ms.p99);
        QVERIFY(r.limits.has_value());
        QCOMPARE(entry.at("limits").at("read_bytes_per_s").get<double>(), r.limits->read_bytes_per_s);
        QVERIFY(std::abs(r.bandwidth_share * r.limits->read_bytes_per_s - r.read_bytes_per_s) <
                1e-6 * r.read_bytes_per_s);
    }
    const std::string table = bench_to_table(results);
    for (const char* word : {"decode", "prefix, cold", "prefix, warm", "tokens/s", "Limits"})
        QVERIFY2(table.find(word) != std::string::npos, table.c_str());
    // All rows are equally wide.
    const QStringList lines = QString::fromStdString(table).split('\n');
    for (qsizetype i = 1; i <= 3; ++i)
        QCOMPARE(lines[i].size(), lines[0].size());
}

void TestBench::it_can_be_stopped() {
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
