// The index against an ordered map, under random operations with hashes that meet on purpose.
#include "engine/cache/prefix_index.h"
#include "tests/support/random.h"

#include <QtTest>

#include <algorithm>
#include <list>
#include <map>

using namespace orrery;

namespace {

struct Block {
    Hash128 parent, hash;
    std::vector<TokenId> tokens;
};

auto key(const Hash128& hash) {
    return std::pair(hash.low, hash.high);
}

} // namespace

class TestPrefixIndex : public QObject {
    Q_OBJECT

private slots:
    void random_operations_agree_with_a_model_data();
    void random_operations_agree_with_a_model();
    void equal_hashes_are_not_trusted();
    void the_best_of_many_siblings_is_found();
};

void TestPrefixIndex::random_operations_agree_with_a_model_data() {
    QTest::addColumn<int>("blocks");
    QTest::addColumn<int>("hashes");
    // Few different hashes fill the same slots of the tables again and again, so that probes run into each
    // other and around the end; with very many, entries are alone.
    QTest::newRow("one block") << 1 << 4;
    QTest::newRow("crowded") << 8 << 24;
    QTest::newRow("usual") << 100 << 1'000'000;
}

void TestPrefixIndex::random_operations_agree_with_a_model() {
    QFETCH(int, blocks);
    QFETCH(int, hashes);
    constexpr int block_size = 4;
    test::Random random(test::test_seed() + uint64_t(blocks));
    PrefixIndex index(blocks, block_size);
    std::map<int32_t, Block> entered;
    std::map<std::pair<uint64_t, uint64_t>, int32_t> by_hash;
    std::map<std::pair<uint64_t, uint64_t>, std::list<int32_t>> children; // newest first

    const auto any_hash = [&] { return Hash128{uint64_t(random.below(hashes)), uint64_t(random.below(2))}; };
    const auto any_tokens = [&] {
        std::vector<TokenId> tokens;
        for (int i = 0; i < block_size; ++i)
            tokens.push_back(random.below(2));
        return tokens;
    };

    for (int i = 0; i < 20'000; ++i) {
        const auto block = int32_t(random.below(blocks));
        if (const auto found = entered.find(block); found != entered.end()) {
            const Block old = found->second;
            QVERIFY(index.contains(block));
            QCOMPARE(index.find(old.hash, old.tokens), block);
            index.erase(block);
            entered.erase(block);
            by_hash.erase(key(old.hash));
            children[key(old.parent)].remove(block);
        } else {
            const Block fresh = {any_hash(), any_hash(), any_tokens()};
            const bool taken = by_hash.contains(key(fresh.hash));
            QCOMPARE(index.insert(block, fresh.parent, fresh.hash, fresh.tokens), !taken);
            if (!taken) {
                entered[block] = fresh;
                by_hash[key(fresh.hash)] = block;
                children[key(fresh.parent)].push_front(block);
            }
        }
        QCOMPARE(index.size(), int(entered.size()));

        const Hash128 hash = entered.empty() || random.chance(0.5)
                                 ? any_hash()
                                 : std::next(entered.begin(), random.below(int(entered.size())))->second.hash;
        const std::vector<TokenId> tokens = any_tokens();
        const auto same = by_hash.find(key(hash));
        const bool hit = same != by_hash.end() && entered[same->second].tokens == tokens;
        QCOMPARE(index.find(hash, tokens), hit ? same->second : -1);

        // The first of those that agree the longest, among the 32 newest.
        PrefixIndex::Partial expected;
        const auto wanted = std::span(tokens).first(size_t(random.between(1, block_size)));
        const auto& family = children[key(hash)];
        int looked_at = 0;
        for (const int32_t child : family) {
            if (looked_at++ == 32)
                break;
            int agree = 0;
            while (agree < int(wanted.size()) &&
                   entered[child].tokens[size_t(agree)] == wanted[size_t(agree)])
                ++agree;
            if (agree > expected.tokens)
                expected = {child, agree};
        }
        const PrefixIndex::Partial partial = index.find_partial(hash, wanted);
        QCOMPARE(partial.block, expected.block);
        QCOMPARE(partial.tokens, expected.tokens);
        index.check_integrity();
    }
}

void TestPrefixIndex::equal_hashes_are_not_trusted() {
    PrefixIndex index(4, 2);
    const Hash128 parent = {1, 1}, hash = {2, 2};
    const std::vector<TokenId> mine = {5, 6}, other = {5, 7};
    QVERIFY(index.insert(0, parent, hash, mine));
    QCOMPARE(index.find(hash, mine), 0);
    QCOMPARE(index.find(hash, other), -1);
    QVERIFY(!index.insert(1, parent, hash, other));
    QCOMPARE(index.find(hash, mine), 0);
}

void TestPrefixIndex::the_best_of_many_siblings_is_found() {
    PrefixIndex index(20, 4);
    const Hash128 parent = {9, 9};
    for (int32_t i = 0; i < 20; ++i) {
        const std::vector<TokenId> tokens = {7, i / 5, i, i};
        QVERIFY(index.insert(i, parent, Hash128{uint64_t(i), 3}, tokens));
    }
    const std::vector<TokenId> wanted = {7, 2, 12, 99};
    QCOMPARE(index.find_partial(parent, wanted).block, 12);
    QCOMPARE(index.find_partial(parent, wanted).tokens, 3);
    QCOMPARE(index.find_partial(Hash128{8, 8}, wanted).block, -1);
}

QTEST_GUILESS_MAIN(TestPrefixIndex)
#include "tst_prefix_index.moc"
