// The store against a model that can be read at a glance, under random operations: which prefixes are cached,
// which block holds what, and which events tell of it.
#include "engine/cache/block_store.h"
#include "kernels/error.h"
#include "tests/support/random.h"

#include <QtTest>

#include <algorithm>
#include <map>
#include <set>

using namespace orrery;

namespace {

using Tokens = std::vector<TokenId>;
using Event = std::tuple<BlockEventKind, int32_t, RequestId>;
using enum BlockEventKind;

constexpr int block_size = 4;

struct Sequence {
    BlockTable table;
    Tokens tokens;
    int computed = 0;
};

/// What a block that can be found holds: all tokens from the beginning of its sequence to its own end.
using Prefix = std::pair<uint64_t, Tokens>; // salt, tokens

struct Fixture {
    explicit Fixture(int blocks, bool prefix_cache) : store(blocks, block_size, prefix_cache) {
        store.record(&report);
    }

    BlockStore store;
    StepReport report;
    std::map<Prefix, int32_t> cached; ///< the model: prefix → block

    std::vector<Event> take_events() {
        std::vector<Event> events;
        for (const BlockEvent& event : report.block_events)
            events.emplace_back(event.kind, event.block, event.request);
        report.block_events.clear();
        return events;
    }

    void forget(int32_t block) {
        std::erase_if(cached, [&](const auto& entry) { return entry.second == block; });
    }

    bool has_content(int32_t block) const {
        return std::ranges::any_of(cached, [&](const auto& entry) { return entry.second == block; });
    }

    /// Blocks that were taken, with the events of it; updates the model.
    std::vector<int32_t> taken(const std::vector<Event>& events, RequestId request) {
        std::vector<int32_t> blocks;
        for (size_t i = 0; i < events.size(); ++i) {
            const auto& [kind, block, who] = events[i];
            if (who != request || (kind != evicted && kind != allocated))
                throw Error("an event that does not belong here");
            if (kind == evicted) {
                if (!has_content(block) || i + 1 == events.size() ||
                    events[i + 1] != Event(allocated, block, request))
                    throw Error("a block was evicted and not taken");
                forget(block);
                continue;
            }
            if (has_content(block))
                throw Error("a block with content was taken and not evicted");
            blocks.push_back(block);
        }
        return blocks;
    }
};

Prefix prefix_of(uint64_t salt, const Tokens& tokens, int blocks) {
    return {salt, Tokens(tokens.begin(), tokens.begin() + blocks * block_size)};
}

} // namespace

class tst_block_store : public QObject {
    Q_OBJECT

private slots:
    void behaves_like_the_model_data() {
        QTest::addColumn<int>("blocks");
        QTest::addColumn<bool>("prefix_cache");
        for (const int blocks : {1, 5, 12, 40})
            for (const bool prefix_cache : {true, false})
                QTest::addRow("%d, %s", blocks, prefix_cache ? "cache" : "no cache")
                    << blocks << prefix_cache;
    }
    void behaves_like_the_model() {
        QFETCH(int, blocks);
        QFETCH(bool, prefix_cache);
        test::Random random(test::test_seed() + uint64_t(blocks));
        Fixture f(blocks, prefix_cache);
        BlockStore& store = f.store;
        std::vector<Sequence> sequences(5);
        for (size_t i = 0; i < sequences.size(); ++i) {
            sequences[i].table.request = 100 + i;
            sequences[i].table.salt = i % 3 == 0;
        }
        const auto check = [&] {
            std::vector<const BlockTable*> tables;
            std::map<int32_t, int> users;
            for (const Sequence& sequence : sequences) {
                tables.push_back(&sequence.table);
                for (const int32_t block : sequence.table.blocks)
                    users[block] += 1;
            }
            store.check_integrity(tables);
            for (int32_t block = 0; block < blocks; ++block) {
                QCOMPARE(store.pool().users(block), users[block]);
                QCOMPARE(store.pool().has_content(block), f.has_content(block));
            }
            QCOMPARE(store.pool().held(),
                     int(users.size()) -
                         int(std::ranges::count_if(users, [](auto& entry) { return entry.second == 0; })));
        };
        int hits = 0, partials = 0, refused = 0;
        for (int round = 0; round < 6000; ++round) {
            Sequence& sequence = sequences[size_t(random.below(int(sequences.size())))];
            BlockTable& table = sequence.table;
            const RequestId who = table.request;
            switch (random.below(6)) {
            case 0: { // a new prompt looks for its beginning
                if (!table.blocks.empty())
                    break;
                table.chain.clear();
                sequence.tokens.clear();
                for (int n = 1 + int(random.below(18)); n > 0; --n)
                    sequence.tokens.push_back(TokenId(random.below(2)));
                const int limit = int(sequence.tokens.size()) - 1;
                const BlockStore::Match& match = store.match(table, sequence.tokens, limit);
                std::vector<int32_t> expected;
                int unheld = 0;
                while (int(expected.size() + 1) * block_size <= limit) {
                    const auto found =
                        f.cached.find(prefix_of(table.salt, sequence.tokens, int(expected.size()) + 1));
                    if (found == f.cached.end())
                        break;
                    expected.push_back(found->second);
                    unheld += store.pool().users(found->second) == 0;
                }
                QCOMPARE(match.blocks, expected);
                QCOMPARE(match.unheld, unheld);
                // The block after them that agrees the longest.
                const int whole = int(expected.size()) * block_size;
                int agree = 0;
                std::set<int32_t> best;
                for (const auto& [prefix, block] : f.cached) {
                    const auto& [salt, tokens] = prefix;
                    if (salt != table.salt || int(tokens.size()) != whole + block_size)
                        continue;
                    int same = 0;
                    while (same < int(tokens.size()) && same < limit &&
                           tokens[size_t(same)] == sequence.tokens[size_t(same)])
                        ++same;
                    if (same - whole <= 0 || same - whole < agree)
                        continue;
                    if (same - whole > agree)
                        best.clear();
                    agree = same - whole;
                    best.insert(block);
                }
                QCOMPARE(match.partial.tokens, agree);
                QVERIFY(agree > 0 ? best.contains(match.partial.block) : match.partial.block < 0);
                QVERIFY(f.take_events().empty());
                hits += !expected.empty();
                partials += agree > 0;
                store.adopt(table, match);
                std::vector<Event> shares;
                for (const int32_t block : expected)
                    shares.emplace_back(shared, block, who);
                QVERIFY(f.take_events() == shares);
                QCOMPARE(table.blocks, expected);
                QCOMPARE(table.indexed, int(expected.size()));
                sequence.computed = int(expected.size()) * block_size;
                break;
            }
            case 1: { // grows
                const int wanted = int(random.below(int(sequence.tokens.size()) + 1));
                const auto before = table.blocks;
                const int missing = std::max((wanted + block_size - 1) / block_size - int(before.size()), 0);
                const bool possible = missing <= store.pool().available();
                QCOMPARE(store.extend(table, wanted), possible);
                const auto fresh = f.taken(f.take_events(), who);
                QCOMPARE(int(fresh.size()), possible ? missing : 0);
                auto expected = before;
                expected.insert(expected.end(), fresh.begin(), fresh.end());
                QCOMPARE(table.blocks, expected);
                refused += !possible;
                break;
            }
            case 2: { // is computed further
                const int room = std::min(int(table.blocks.size()) * block_size, int(sequence.tokens.size()));
                sequence.computed += int(random.below(std::max(room - sequence.computed, 0) + 1));
                std::vector<Event> expected;
                for (int block = table.indexed; prefix_cache && (block + 1) * block_size <= sequence.computed;
                     ++block) {
                    const int32_t number = table.blocks[size_t(block)];
                    const Prefix prefix = prefix_of(table.salt, sequence.tokens, block + 1);
                    if (f.has_content(number) || !f.cached.emplace(prefix, number).second)
                        continue;
                    expected.emplace_back(filled, number, who);
                }
                store.fill(table, sequence.tokens, sequence.computed);
                QVERIFY(f.take_events() == expected);
                if (prefix_cache)
                    QCOMPARE(table.indexed, std::max(table.indexed, sequence.computed / block_size));
                break;
            }
            case 3: { // ends
                std::vector<Event> expected;
                for (auto block = table.blocks.rbegin(); block != table.blocks.rend(); ++block)
                    expected.emplace_back(freed, *block, who);
                store.release(table);
                QVERIFY(f.take_events() == expected);
                QVERIFY(table.blocks.empty());
                QCOMPARE(table.indexed, 0);
                sequence.computed = 0;
                break;
            }
            case 4: { // a second sample
                Sequence& other = sequences[size_t(random.below(int(sequences.size())))];
                if (!other.table.blocks.empty() || &other == &sequence || table.blocks.empty())
                    break;
                other.table.salt = table.salt;
                store.fork(table, other.table);
                other.tokens = sequence.tokens;
                other.computed = sequence.computed;
                std::vector<Event> expected;
                for (const int32_t block : table.blocks)
                    expected.emplace_back(shared, block, other.table.request);
                QVERIFY(f.take_events() == expected);
                QCOMPARE(other.table.blocks, table.blocks);
                QCOMPARE(other.table.indexed, table.indexed);
                QVERIFY(other.table.chain == table.chain);
                break;
            }
            case 5: { // a block of its own in the place of the last one
                if (table.blocks.empty() || store.pool().available() == 0)
                    break;
                const int last = int(table.blocks.size()) - 1;
                const int32_t old = table.blocks.back();
                QCOMPARE(store.replace(table, last), old);
                const auto fresh = f.taken(f.take_events(), who);
                QCOMPARE(fresh.size(), size_t(1));
                QCOMPARE(table.blocks.back(), fresh[0]);
                if (random.below(2) || sequence.computed > last * block_size) {
                    store.undo_replace(table, last, old);
                    QVERIFY(f.take_events() == (std::vector<Event>{{freed, fresh[0], who}}));
                    QCOMPARE(table.blocks.back(), old);
                } else {
                    store.unpin(old); // once it has been copied
                }
                break;
            }
            }
            if (QTest::currentTestFailed())
                return;
            check();
            if (QTest::currentTestFailed())
                return;
        }
        QCOMPARE(hits > 0 && partials > 0, prefix_cache);
        QVERIFY(refused > 0 || blocks == 40);
        QCOMPARE(f.report.block_events_dropped, 0);
    }

    void a_pinned_block_keeps_its_content() {
        Fixture f(2, true);
        BlockTable table, other;
        const Tokens tokens = {1, 2, 3, 4};
        QVERIFY(f.store.extend(table, 4));
        f.store.fill(table, tokens, 4);
        const int32_t block = table.blocks[0];
        f.store.pin(block);
        f.store.release(table);
        QCOMPARE(f.store.pool().available(), 1);
        QVERIFY(!f.store.extend(other, 8));
        QVERIFY(f.store.extend(other, 4));
        QVERIFY(other.blocks[0] != block);
        f.store.unpin(block);
        QCOMPARE(f.store.pool().cached(), 1);
        QCOMPARE(f.store.match(table, tokens, 4).blocks, std::vector<int32_t>{block});
    }

    /// A prefix ends where its limit says, to the token.
    void the_limit_of_a_match_is_exact() {
        Fixture f(4, true);
        BlockTable table;
        const Tokens tokens = {1, 2, 3, 4, 5, 6, 7, 8};
        QVERIFY(f.store.extend(table, 8));
        f.store.fill(table, tokens, 8);
        f.store.release(table);
        for (int limit = 0; limit <= 8; ++limit) {
            BlockTable fresh;
            const BlockStore::Match& match = f.store.match(fresh, tokens, limit);
            QCOMPARE(int(match.blocks.size()), limit / block_size);
            QCOMPARE(match.partial.tokens, limit % block_size);
        }
    }

    /// The list of events has a fixed size; what is past it is counted.
    void events_beyond_the_list_are_counted() {
        Fixture f(1, false);
        const size_t room = f.report.block_events.capacity();
        QVERIFY(room >= 1024);
        for (size_t i = 0; i < room + 5; ++i)
            f.store.event(allocated, 0, 1);
        QCOMPARE(f.report.block_events.size(), room);
        QCOMPARE(f.report.block_events.capacity(), room);
        QCOMPARE(f.report.block_events_dropped, 5);
        // Nowhere: nothing is recorded, and the place before is told.
        QCOMPARE(f.store.record(nullptr), &f.report);
        f.store.event(allocated, 0, 1);
        QCOMPARE(f.report.block_events_dropped, 5);
        QVERIFY(f.store.record(&f.report) == nullptr);
    }

    void integrity_check_finds_what_is_wrong() {
        Fixture f(3, true);
        BlockTable table, unknown;
        QVERIFY(f.store.extend(table, 8));
        f.store.check_integrity(std::vector<const BlockTable*>{&table});
        QVERIFY_EXCEPTION_THROWN(f.store.check_integrity({}), Error);
        unknown.blocks = {table.blocks[0]};
        QVERIFY_EXCEPTION_THROWN(f.store.check_integrity(std::vector<const BlockTable*>{&table, &unknown}),
                                 Error);
    }
};

QTEST_GUILESS_MAIN(tst_block_store)
#include "tst_block_store.moc"
