// What the benchmark asks of an engine, before any engine is there.
#include "engine/bench/workload.h"
#include "kernels/error.h"

#include <QtTest>

#include <map>
#include <set>

using namespace orrery;

namespace {

constexpr int vocabulary = 1000;

int needed_blocks(const Round& round, int block_size) {
    int blocks = 0;
    for (const Arrival& arrival : round.arrivals) {
        const int tokens = int(arrival.request.prompt.size()) + arrival.request.max_tokens;
        blocks += (tokens + block_size - 1) / block_size;
    }
    return blocks;
}

} // namespace

class TestWorkload : public QObject {
    Q_OBJECT

private slots:
    void names_lead_back_to_their_workloads();
    void requests_are_fit_to_measure_data();
    void requests_are_fit_to_measure();
    void sizes_are_those_asked_for();
    void prompts_share_the_prefix_and_nothing_else();
    void the_long_prompt_comes_while_chats_run();
    void seeds_make_other_prompts();
    void a_tiny_context_is_refused();
};

void TestWorkload::names_lead_back_to_their_workloads() {
    QCOMPARE(all_workloads().size(), size_t(7));
    for (const WorkloadKind kind : all_workloads())
        QVERIFY(workload_kind(workload_name(kind)) == kind);
    QVERIFY_EXCEPTION_THROWN(workload_kind("speed"), Error);
}

void TestWorkload::requests_are_fit_to_measure_data() {
    QTest::addColumn<int>("kind");
    QTest::addColumn<int>("longest");
    QTest::addColumn<int>("block_size");
    for (size_t kind = 0; kind < all_workloads().size(); ++kind)
        for (const int longest : {8, 17, 100, 512, 8192})
            for (const int block_size : {1, 16, 64})
                QTest::addRow("%s, context %d, blocks of %d", workload_name(all_workloads()[kind]), longest,
                              block_size)
                    << int(kind) << longest << block_size;
}

void TestWorkload::requests_are_fit_to_measure() {
    QFETCH(int, kind);
    QFETCH(int, longest);
    QFETCH(int, block_size);
    EngineConfig config;
    config.block_size = block_size;
    config.max_chunk = 99;
    const Workload workload =
        make_workload(all_workloads()[size_t(kind)], WorkloadSizes(), config, vocabulary, longest, 1);
    QCOMPARE(workload.config.block_size, block_size);
    QCOMPARE(workload.config.max_chunk, 99); // what is not the workload's is the caller's
    QVERIFY(workload.config.context <= longest);
    QVERIFY(workload.rounds.size() >= 2);
    QVERIFY(!workload.rounds.front().measured);
    for (const Round& round : workload.rounds) {
        QVERIFY(!round.arrivals.empty());
        QVERIFY(workload.config.max_sequences >= int(round.arrivals.size()));
        for (const Arrival& arrival : round.arrivals) {
            const Request& request = arrival.request;
            QVERIFY(!request.prompt.empty());
            QVERIFY(request.max_tokens >= 1);
            for (const TokenId token : request.prompt)
                QVERIFY(token >= 0 && token < vocabulary);
            const int tokens = int(request.prompt.size()) + request.max_tokens;
            QVERIFY(tokens <= workload.config.context);
            QVERIFY((tokens + block_size - 1) / block_size <= workload.config.blocks);
            QVERIFY(request.ignore_eos);
            QCOMPARE(request.sampling.temperature, 0.0f);
            QVERIFY(request.stop.empty());
        }
        // Everything fits at once, but for the workload that is made not to.
        if (workload.kind != WorkloadKind::overload)
            QVERIFY(needed_blocks(round, block_size) <= workload.config.blocks);
        else if (round.measured && longest >= 100 && block_size <= 16)
            QVERIFY(needed_blocks(round, block_size) > 2 * workload.config.blocks);
    }
}

void TestWorkload::sizes_are_those_asked_for() {
    WorkloadSizes sizes;
    sizes.repeats = 2;
    sizes.decode_prompt = 10;
    sizes.decode_tokens = 20;
    sizes.prefill_prompt = 30;
    sizes.streams = 4;
    sizes.stream_prompt = 5;
    sizes.stream_tokens = 6;
    const auto make = [&](WorkloadKind kind) { return make_workload(kind, sizes, {}, vocabulary, 8192, 1); };
    const Workload decode = make(WorkloadKind::decode);
    QCOMPARE(decode.rounds.size(), size_t(3));
    QCOMPARE(decode.rounds[2].arrivals.size(), size_t(1));
    QCOMPARE(decode.rounds[2].arrivals[0].request.prompt.size(), size_t(10));
    QCOMPARE(decode.rounds[2].arrivals[0].request.max_tokens, 20);
    const Workload prefill = make(WorkloadKind::prefill);
    QCOMPARE(prefill.rounds[1].arrivals[0].request.prompt.size(), size_t(30));
    QCOMPARE(prefill.rounds[1].arrivals[0].request.max_tokens, 1);
    const Workload batch = make(WorkloadKind::batch);
    QCOMPARE(batch.rounds.size(), size_t(3));
    QCOMPARE(batch.rounds[1].arrivals.size(), size_t(4));
    QCOMPARE(batch.rounds[1].arrivals[3].request.prompt.size(), size_t(5));
    QCOMPARE(batch.rounds[1].arrivals[3].request.max_tokens, 6);
}

void TestWorkload::prompts_share_the_prefix_and_nothing_else() {
    WorkloadSizes sizes;
    sizes.shared_prefix = 48;
    const Workload workload = make_workload(WorkloadKind::prefix, sizes, {}, vocabulary, 8192, 1);
    // Prefixes by the variants in which they come: one stream's is fresh in each repeat, and comes twice.
    std::map<std::vector<TokenId>, std::vector<std::string>> variants;
    std::set<std::vector<TokenId>> rests;
    size_t requests = 0;
    for (const Round& round : workload.rounds) {
        if (!round.measured)
            continue;
        const bool one = round.variant.starts_with("one stream");
        QCOMPARE(round.arrivals.size(), one ? size_t(1) : size_t(sizes.streams));
        for (const Arrival& arrival : round.arrivals) {
            const Request& request = arrival.request;
            variants[{request.prompt.begin(), request.prompt.begin() + 48}].push_back(round.variant);
            rests.insert({request.prompt.begin() + 48, request.prompt.end()});
            QCOMPARE(request.prompt.size(), size_t(48 + (one ? sizes.question : sizes.stream_prompt)));
            ++requests;
        }
    }
    QCOMPARE(variants.size(), size_t(sizes.repeats));
    QCOMPARE(requests, size_t(2 * sizes.repeats + sizes.streams));
    QCOMPARE(rests.size(), requests);
    size_t known_to_many = 0;
    for (const auto& [prefix, of_prefix] : variants) {
        QCOMPARE(of_prefix[0], std::string("one stream, cold"));
        QCOMPARE(of_prefix[1], std::string("one stream, warm"));
        for (size_t i = 2; i < of_prefix.size(); ++i)
            QCOMPARE(of_prefix[i], std::string("32 streams, warm"));
        known_to_many += of_prefix.size() > 2;
    }
    QCOMPARE(known_to_many, size_t(1));
    // Elsewhere nothing is shared, so that nothing is found in the cache.
    for (const WorkloadKind kind : {WorkloadKind::decode, WorkloadKind::prefill, WorkloadKind::batch}) {
        std::set<std::vector<TokenId>> beginnings;
        size_t all = 0;
        for (const Round& round : make_workload(kind, sizes, {}, vocabulary, 8192, 1).rounds)
            for (const Arrival& arrival : round.arrivals) {
                beginnings.insert({arrival.request.prompt.begin(), arrival.request.prompt.begin() + 16});
                ++all;
            }
        QCOMPARE(beginnings.size(), all);
    }
}

void TestWorkload::the_long_prompt_comes_while_chats_run() {
    const Workload workload = make_workload(WorkloadKind::mixed, WorkloadSizes(), {}, vocabulary, 8192, 1);
    QCOMPARE(workload.rounds.size(), size_t(3));
    const Round& alone = workload.rounds[1];
    const Round& beside = workload.rounds[2];
    QCOMPARE(alone.arrivals.size() + 1, beside.arrivals.size());
    for (size_t i = 0; i < alone.arrivals.size(); ++i) {
        QVERIFY(!beside.arrivals[i].probe);
        QCOMPARE(beside.arrivals[i].after_tokens, 0);
    }
    const Arrival& probe = beside.arrivals.back();
    QVERIFY(probe.probe);
    QCOMPARE(probe.request.prompt.size(), size_t(4096));
    QVERIFY(probe.after_tokens > 0 && probe.after_tokens < alone.arrivals.front().request.max_tokens);
}

void TestWorkload::seeds_make_other_prompts() {
    const auto prompt = [](uint64_t seed) {
        return make_workload(WorkloadKind::prefill, WorkloadSizes(), {}, vocabulary, 8192, seed)
            .rounds[1]
            .arrivals[0]
            .request.prompt;
    };
    QCOMPARE(prompt(1), prompt(1));
    QVERIFY(prompt(1) != prompt(2));
}

void TestWorkload::a_tiny_context_is_refused() {
    QVERIFY_EXCEPTION_THROWN(make_workload(WorkloadKind::decode, WorkloadSizes(), {}, vocabulary, 7, 1),
                             Error);
}

QTEST_GUILESS_MAIN(TestWorkload)
#include "tst_workload.moc"
