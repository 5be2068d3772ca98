// Every number of a StepReport beside a count of its own, from requests, deltas, rows and events alone, over
// random workloads: pictures draw these numbers (law 6).
#include "engine/engine.h"
#include "engine/model/gguf.h"
#include "kernels/error.h"
#include "tests/support/engine_run.h"
#include "tests/support/random.h"

#include <QtTest>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

using namespace orrery;

namespace {

/// Throws Error where two counts of a step differ.
void same(const StepReport& report, const char* what, long long reported, long long counted) {
    if (reported != counted)
        throw Error("step " + std::to_string(report.number) + ": " + what + " is " +
                    std::to_string(reported) + ", counted are " + std::to_string(counted));
}

void must(const StepReport& report, bool holds, const char* what) {
    if (!holds)
        throw Error("step " + std::to_string(report.number) + ": " + what);
}

/// The pool as its events tell of it.
class EventPool {
public:
    explicit EventPool(int blocks) : blocks_(size_t(blocks)) {}

    void take(const StepReport& report) {
        must(report, report.block_events_dropped == 0, "events are missing");
        for (const BlockEvent& event : report.block_events) {
            Block& block = blocks_.at(size_t(event.block));
            switch (event.kind) {
            case BlockEventKind::allocated:
                must(report, block.users.empty() && !block.content, "a block is allocated that is in use");
                block.users.insert(event.request);
                break;
            case BlockEventKind::filled:
                must(report, block.users.contains(event.request) && !block.content,
                     "a block is filled that its sequence does not have, or twice");
                block.content = true;
                break;
            case BlockEventKind::shared:
                block.users.insert(event.request);
                break;
            case BlockEventKind::freed: {
                const auto user = block.users.find(event.request);
                must(report, user != block.users.end(),
                     "a block is freed by a request that does not have it");
                block.users.erase(user);
                break;
            }
            case BlockEventKind::evicted:
                must(report, block.users.empty() && block.content, "a block is evicted that is not cached");
                block.content = false;
                break;
            case BlockEventKind::swapped_out:
                must(report, block.users.empty(), "a block is swapped out that is in use");
                break;
            case BlockEventKind::swapped_in:
                must(report, block.users.contains(event.request) && !block.content,
                     "a block is swapped in that its sequence has not taken");
                break;
            }
        }
        int free = 0, cached = 0, held = 0;
        for (const Block& block : blocks_) {
            held += !block.users.empty();
            cached += block.users.empty() && block.content;
            free += block.users.empty() && !block.content;
        }
        same(report, "blocks_total", report.blocks_total, (long long)(blocks_.size()));
        same(report, "blocks_free", report.blocks_free, free);
        same(report, "blocks_cached", report.blocks_cached, cached);
        same(report, "blocks_held", report.blocks_held, held);
    }

    /// Blocks that a request has, once for each of its samples that has it.
    int blocks_of(RequestId request) const {
        int count = 0;
        for (const Block& block : blocks_)
            count += int(block.users.count(request));
        return count;
    }

private:
    struct Block {
        std::multiset<RequestId> users;
        bool content = false;
    };
    std::vector<Block> blocks_;
};

/// One sample as rows and deltas tell of it.
struct Seen {
    int prompt_tokens = 0;
    int tokens = 0;      ///< that it has written
    int context = 0;     ///< in its last row
    int max_context = 0; ///< in all of its rows
    int blocks = 0;      ///< in its last row
    int preemptions = 0;
    std::optional<int> cached_tokens; ///< where its first row began
    enum class Place { waiting, running, swapped } place = Place::waiting;
};

class Counter {
public:
    Counter(const Model& model, const EngineConfig& config)
        : config_(config),
          pool_(config.blocks),
          // Keys and values in f16 (which the configuration asks for), of all layers.
          bytes_per_token_(bytes_per_token(model.config)) {
        for (const GgufTensor& tensor : model.file->tensors())
            if (tensor.shape.size() == 2 && tensor.name != "token_embd.weight")
                (tensor.name == "output.weight" ? output_bytes_ : layer_bytes_) +=
                    int64_t(tensor.bytes.size());
    }

    static int64_t bytes_per_token(const ModelConfig& config) {
        int64_t bytes = 0;
        for (const LayerConfig& layer : config.layers)
            bytes += int64_t(layer.kv_heads) * (layer.key_length + layer.value_length) * 2;
        return bytes;
    }

    void add(RequestId id, const Request& request) {
        for (int sample = 0; sample < request.samples; ++sample)
            open_[{id, sample}].prompt_tokens = int(request.prompt.size());
        many_samples_ |= request.samples > 1;
    }

    void take(const StepReport& r, const std::vector<TokenDelta>& deltas) {
        same(r, "number", (long long)r.number, ++steps_);
        must(r, r.start_ns >= last_end_ns_, "it starts before the last one ends");
        last_end_ns_ = r.start_ns + r.duration_ns;
        const int64_t phases = r.schedule_ns + r.prepare_ns + r.forward_ns + r.sample_ns + r.publish_ns;
        must(r, phases <= r.duration_ns, "its phases take longer than the step");
        must(r, r.attention_ns + r.matmul_ns + r.norm_ns + r.other_ns <= r.prepare_ns + r.forward_ns,
             "its kernels take longer than the pass");

        const std::map<RequestId, int> before = blocks_by_request();
        pool_.take(r);
        take_preemptions(r, before);
        take_rows(r, deltas);
        take_deltas(r, deltas);

        std::map<Seen::Place, int> queue;
        int unused = 0;
        for (const auto& [key, seen] : open_) {
            queue[seen.place] += 1;
            if (seen.place == Seen::Place::running)
                unused += seen.blocks * config_.block_size - seen.context;
        }
        same(r, "running + waiting + swapped", r.running + r.waiting + r.swapped, (long long)(open_.size()));
        if (!many_samples_) { // else some of them run without a row of their own so far
            same(r, "running", r.running, queue[Seen::Place::running]);
            same(r, "waiting", r.waiting, queue[Seen::Place::waiting]);
            same(r, "swapped", r.swapped, queue[Seen::Place::swapped]);
            same(r, "slots_unused", r.slots_unused, unused);
        }
        must(r, (r.blocks_swapped > 0) == (r.swapped > 0),
             "swapped blocks without swapped sequences, or none");
        happened.steps += 1;
        happened.shared += std::ranges::count(r.block_events, BlockEventKind::shared, &BlockEvent::kind);
    }

    bool idle() const { return open_.empty(); }

    struct Happened {
        long long steps = 0, recomputed = 0, saved = 0, swaps = 0, recomputes = 0, shared = 0, outs = 0,
                  ins = 0;
    };
    Happened happened;

private:
    std::map<RequestId, int> blocks_by_request() const {
        std::map<RequestId, int> blocks;
        for (const auto& [key, seen] : open_)
            blocks[key.first] = pool_.blocks_of(key.first);
        return blocks;
    }

    void take_preemptions(const StepReport& r, const std::map<RequestId, int>& before) {
        for (const Preemption& preemption : r.preemptions) {
            const bool swap = preemption.kind == PreemptionKind::swap;
            (swap ? happened.swaps : happened.recomputes) += 1;
            must(r, many_samples_ || preemption.victim != preemption.beneficiary,
                 "a sequence gives way to itself");
            if (many_samples_)
                continue;
            Seen& victim = open_.at({preemption.victim, 0});
            must(r, victim.place == Seen::Place::running, "a sequence gives way that does not run");
            victim.place = swap ? Seen::Place::swapped : Seen::Place::waiting;
            victim.preemptions += 1;
            // It gives back what it had, and what it had been given in this step.
            int blocks = before.at(preemption.victim);
            for (const BlockEvent& event : r.block_events)
                blocks += event.request == preemption.victim &&
                          (event.kind == BlockEventKind::allocated || event.kind == BlockEventKind::shared);
            same(r, "the blocks of a victim", preemption.blocks, blocks);
        }
        happened.outs += std::ranges::count(r.block_events, BlockEventKind::swapped_out, &BlockEvent::kind);
        happened.ins += std::ranges::count(r.block_events, BlockEventKind::swapped_in, &BlockEvent::kind);
    }

    void take_rows(const StepReport& r, const std::vector<TokenDelta>& deltas) {
        int prefill = 0, decode = 0, recomputed = 0, saved = 0, due = 0;
        int64_t cache_bytes = 0;
        std::set<std::pair<RequestId, int>> rows;
        for (const ReportRow& row : r.rows) {
            const std::pair key(row.request, int(row.sample));
            must(r, rows.insert(key).second, "a sequence has two rows");
            Seen& seen = open_.at(key);
            const int first = row.context - row.tokens;
            same(r, "a row's prompt_tokens", row.prompt_tokens, seen.prompt_tokens);
            must(r, row.tokens > 0 && first >= 0, "a row has no tokens");
            must(r, row.context <= seen.prompt_tokens + seen.tokens, "a row passes its sequence's end");
            same(r, "a row's blocks", row.blocks,
                 (row.context + config_.block_size - 1) / config_.block_size);

            int again = 0, fresh = 0;
            for (int position = first; position < row.context; ++position) {
                if (position < seen.max_context)
                    again += 1;
                else if (position >= seen.prompt_tokens)
                    fresh += 1;
                else
                    prefill += 1;
            }
            recomputed += again;
            decode += fresh;
            must(r,
                 row.kind == (again > 0   ? RowKind::recompute
                              : fresh > 0 ? RowKind::decode
                                          : RowKind::prefill),
                 "a row is of another kind");

            // A sample that is forked begins with its whole prompt, and that is not a hit of the cache.
            const bool forked = !seen.cached_tokens && first == seen.prompt_tokens;
            if (seen.place == Seen::Place::waiting && !forked)
                saved += first;
            if (seen.place == Seen::Place::running && !many_samples_)
                same(r, "where a row begins", first, seen.context);
            if (!seen.cached_tokens)
                seen.cached_tokens = first;
            seen.place = Seen::Place::running;
            seen.context = row.context;
            seen.max_context = std::max(seen.max_context, row.context);
            seen.blocks = row.blocks;
            cache_bytes += bytes_per_token_ * row.context;
            const bool reaches_end = row.context == seen.prompt_tokens + seen.tokens;
            due += reaches_end;
            if (reaches_end)
                must(r,
                     std::ranges::any_of(deltas,
                                         [&](const TokenDelta& delta) {
                                             return delta.request == row.request &&
                                                    delta.sample == row.sample && delta.token;
                                         }),
                     "a sequence is complete and gets no token");
        }
        same(r, "prefill_tokens", r.prefill_tokens, prefill);
        same(r, "decode_tokens", r.decode_tokens, decode);
        same(r, "recomputed_tokens", r.recomputed_tokens, recomputed);
        same(r, "speculative_tokens", r.speculative_tokens, 0);
        if (!many_samples_) {
            same(r, "saved_tokens", r.saved_tokens, saved);
            same(r, "generated_tokens", r.generated_tokens, due);
        }
        same(r, "cache_bytes", r.cache_bytes, cache_bytes);
        // The output matrix is read only where a token is drawn.
        same(r, "weight_bytes", r.weight_bytes,
             (r.rows.empty() ? 0 : layer_bytes_) + (due > 0 ? output_bytes_ : 0));
        happened.recomputed += recomputed;
        happened.saved += saved;
    }

    void take_deltas(const StepReport& r, const std::vector<TokenDelta>& deltas) {
        int generated = 0;
        for (const TokenDelta& delta : deltas) {
            const auto found = open_.find({delta.request, delta.sample});
            must(r, found != open_.end(), "a delta of a sample that has ended");
            Seen& seen = found->second;
            same(r, "a delta's step", (long long)delta.step, (long long)r.number);
            generated += delta.token.has_value();
            // A sample that gets a token without a row of its own was forked: it found its whole prompt
            // computed.
            if (delta.token && seen.max_context == 0) {
                seen.max_context = seen.prompt_tokens;
                seen.cached_tokens = seen.prompt_tokens;
            }
            seen.tokens += delta.token.has_value();
            if (delta.finish == FinishReason::none)
                continue;
            same(r, "usage.prompt_tokens", delta.usage.prompt_tokens, seen.prompt_tokens);
            same(r, "usage.completion_tokens", delta.usage.completion_tokens, seen.tokens);
            if (seen.cached_tokens || !many_samples_) // else it was forked, and had no row of its own
                same(r, "usage.cached_tokens", delta.usage.cached_tokens, seen.cached_tokens.value_or(0));
            if (!many_samples_)
                same(r, "usage.preemptions", delta.usage.preemptions, seen.preemptions);
            must(r, delta.timings.first_scheduled_ns <= delta.timings.first_token_ns || seen.tokens == 0,
                 "a token comes before its sequence is scheduled");
            must(r, delta.timings.finished_ns >= delta.timings.first_token_ns,
                 "the end comes before a token");
            open_.erase(found);
        }
        same(r, "generated_tokens", r.generated_tokens, generated);
    }

    EngineConfig config_;
    EventPool pool_;
    int64_t bytes_per_token_;
    int64_t layer_bytes_ = 0, output_bytes_ = 0; ///< of matrices, as they stand in the file
    std::map<std::pair<RequestId, int>, Seen> open_;
    bool many_samples_ = false;
    long long steps_ = 0;
    int64_t last_end_ns_ = 0;
};

} // namespace

class TestStepReports : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() { model_ = test::load_tiny(); }

    void every_number_is_that_of_an_independent_count_data();
    void every_number_is_that_of_an_independent_count();

private:
    std::shared_ptr<Model> model_;
};

void TestStepReports::every_number_is_that_of_an_independent_count_data() {
    QTest::addColumn<int>("preemption");
    QTest::addColumn<bool>("prefix_cache");
    QTest::addColumn<int>("samples");
    using enum PreemptionMode;
    QTest::newRow("recompute") << int(recompute) << true << 1;
    QTest::newRow("recompute without prefixes") << int(recompute) << false << 1;
    QTest::newRow("swap") << int(swap) << true << 1;
    QTest::newRow("swap without prefixes") << int(swap) << false << 1;
    QTest::newRow("the cheaper of the two") << int(cheapest) << true << 1;
    QTest::newRow("samples") << int(recompute) << true << 4;
    QTest::newRow("samples, swap") << int(swap) << true << 4;
}

void TestStepReports::every_number_is_that_of_an_independent_count() {
    QFETCH(int, preemption);
    QFETCH(bool, prefix_cache);
    QFETCH(int, samples);
    const uint64_t seed = test::test_seed();
    Counter::Happened happened;
    for (int round = 0; round < 12; ++round) {
        test::Random random(seed + uint64_t(round));
        EngineConfig config;
        config.context = 96;
        config.block_size = random.between(2, 8);
        config.blocks = 96 / config.block_size + random.between(2, 12);
        config.max_step_tokens = random.between(2, 48);
        config.max_sequences = random.between(2, 8);
        config.max_chunk = random.chance(0.3) ? random.between(1, 12) : 0;
        config.policy = random.chance(0.5) ? SchedulerPolicy::first_come : SchedulerPolicy::priority;
        config.preemption = PreemptionMode(preemption);
        config.prefix_cache = prefix_cache;
        config.kv_type = kernels::KvType::f16;
        config.check = true;
        Engine engine(model_, config);
        engine.set_profiling(true);
        Counter counter(*model_, config);
        std::vector<TokenDelta> deltas;
        std::vector<std::vector<TokenId>> prompts;
        RequestId last = 0;
        try {
            for (int step = 0; step < 150 || !engine.idle(); ++step) {
                if (step < 150 && random.chance(0.3)) {
                    Request request;
                    if (!prompts.empty() && random.chance(0.5))
                        request.prompt = prompts[size_t(random.below(int(prompts.size())))];
                    for (int n = random.between(1, 30); n > 0; --n)
                        request.prompt.push_back(random.between(3, 90));
                    request.prompt.resize(std::min<size_t>(request.prompt.size(), 70));
                    prompts.push_back(request.prompt);
                    request.max_tokens = random.between(1, 24);
                    request.ignore_eos = true;
                    request.samples = random.between(1, samples);
                    request.priority = random.below(3);
                    request.sampling.seed = uint64_t(step);
                    counter.add(++last, request);
                    engine.add(last, request);
                }
                if (last > 0 && random.chance(0.05))
                    engine.cancel(RequestId(random.between(1, int(last))));
                deltas.clear();
                const StepReport* const report =
                    random.chance(0.1) ? engine.end_due(deltas) : &engine.step(deltas);
                if (report)
                    counter.take(*report, deltas);
            }
        } catch (const Error& error) {
            QFAIL(qPrintable(QString("seed %1: %2").arg(seed + uint64_t(round)).arg(error.what())));
        }
        QVERIFY(counter.idle());
        happened.recomputed += counter.happened.recomputed;
        happened.saved += counter.happened.saved;
        happened.swaps += counter.happened.swaps;
        happened.recomputes += counter.happened.recomputes;
        happened.outs += counter.happened.outs;
        happened.ins += counter.happened.ins;
    }
    const auto mode = PreemptionMode(preemption);
    QCOMPARE(happened.saved > 0, prefix_cache);
    QVERIFY(happened.swaps + happened.recomputes > 0);
    QVERIFY(mode != PreemptionMode::swap || (happened.swaps > 0 && happened.outs > 0 && happened.ins > 0));
    QVERIFY(mode != PreemptionMode::recompute || (happened.swaps == 0 && happened.recomputed > 0));
}

QTEST_GUILESS_MAIN(TestStepReports)
#include "tst_step_reports.moc"
