// Swap slots beside a plain model of them, in which every block and slot says what it contains.
#include "engine/cache/host_swap.h"
#include "kernels/error.h"
#include "kernels/make_backend.h"
#include "tests/support/random.h"

#include <QtTest>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

using namespace orrery;

class TestHostSwap : public QObject {
    Q_OBJECT

private slots:
    void there_are_as_many_slots_as_fit();
    void nothing_is_copied_before_a_block_is_taken();
    void a_block_that_several_hold_has_one_slot();
    void what_is_lost_is_not_on_the_host();
    void random_operations_keep_every_content();

private:
    std::unique_ptr<kernels::Backend> backend_ = kernels::make_backend(kernels::BackendKind::reference, 1);
};

void TestHostSwap::there_are_as_many_slots_as_fit() {
    QCOMPARE(HostSwap(*backend_, 99, 10, 50).total(), 9);
    QCOMPARE(HostSwap(*backend_, 100, 10, 50).total(), 10);
    HostSwap swap(*backend_, 30, 10, 50);
    std::vector<int32_t> first, second;
    QVERIFY(!swap.hold(std::vector{1, 2, 3, 4}, 1, first));
    QVERIFY(first.empty());
    QCOMPARE(swap.used(), 0);
    QVERIFY(swap.hold(std::vector{1, 2}, 1, first));
    QVERIFY(!swap.hold(std::vector{3, 4}, 2, second));
    QVERIFY(swap.hold(std::vector{3}, 2, second));
    QCOMPARE(swap.used(), 3);
    swap.release(first);
    QVERIFY(first.empty());
    QCOMPARE(swap.used(), 1);
    QVERIFY(swap.hold(std::vector{7, 8}, 3, first)); // what was given back is there again
    for (const int32_t slot : first)
        QVERIFY(swap.offset_of(slot) + 10 <= swap.chunk(swap.chunk_of(slot)).size);
    QVERIFY(swap.offset_of(first[0]) != swap.offset_of(first[1]));
}

void TestHostSwap::nothing_is_copied_before_a_block_is_taken() {
    HostSwap swap(*backend_, 100, 10, 20);
    std::vector<int32_t> kept;
    QVERIFY(swap.hold(std::vector{4, 7, 9}, 42, kept));
    QVERIFY(swap.pending().empty());
    QCOMPARE(swap.block_of(kept[1]), 7);
    QVERIFY(!swap.on_host(kept[1]));
    QCOMPARE(swap.evict(5), -1); // not held
    QCOMPARE(swap.evict(7), kept[1]);
    QCOMPARE(swap.owner(kept[1]), RequestId(42));
    QCOMPARE(swap.pending().size(), size_t(1));
    QCOMPARE(swap.pending()[0].block, 7);
    QCOMPARE(swap.pending()[0].slot, kept[1]);
    QCOMPARE(swap.block_of(kept[1]), -1);
    QVERIFY(swap.on_host(kept[1]));
    QCOMPARE(swap.evict(7), -1); // it has another content by now
    swap.copied();
    QVERIFY(swap.pending().empty() && swap.on_host(kept[1]));
    QCOMPARE(swap.block_of(kept[0]), 4);
}

void TestHostSwap::a_block_that_several_hold_has_one_slot() {
    HostSwap swap(*backend_, 40, 10, 20);
    std::vector<int32_t> first, second, third;
    QVERIFY(swap.hold(std::vector{1, 2, 3}, 1, first));
    QVERIFY(swap.hold(std::vector{1, 2, 4}, 2, second)); // one slot more is enough
    QCOMPARE(swap.used(), 4);
    QCOMPARE(second[0], first[0]);
    QVERIFY(!swap.hold(std::vector{5}, 3, third));
    swap.release(first);
    QCOMPARE(swap.used(), 3);
    QCOMPARE(swap.evict(3), -1);
    QCOMPARE(swap.evict(1), second[0]);
    swap.check_integrity(second);
    QVERIFY_EXCEPTION_THROWN(swap.check_integrity(std::vector<int32_t>{}), Error);
    swap.release(second);
    QCOMPARE(swap.used(), 0);
    swap.check_integrity({});
}

void TestHostSwap::what_is_lost_is_not_on_the_host() {
    HostSwap swap(*backend_, 40, 10, 20);
    std::vector<int32_t> kept;
    QVERIFY(swap.hold(std::vector{1, 2}, 1, kept));
    swap.evict(1);
    swap.copied();
    swap.evict(2);
    swap.lost();
    QVERIFY(swap.pending().empty());
    QVERIFY(swap.on_host(kept[0]));
    QVERIFY(!swap.on_host(kept[1]) && swap.block_of(kept[1]) < 0);
    swap.release(kept);
    QVERIFY(swap.hold(std::vector{3, 4}, 1, kept));
    QVERIFY(!swap.on_host(kept[0]) && !swap.on_host(kept[1])); // nothing of an earlier use
}

void TestHostSwap::random_operations_keep_every_content() {
    const uint64_t seed = test::test_seed();
    for (int round = 0; round < 50; ++round) {
        test::Random random(seed + uint64_t(round));
        const int blocks = random.between(5, 30);
        HostSwap swap(*backend_, size_t(random.between(1, 40)), 1, blocks);
        struct Holder {
            std::vector<int32_t> held;
            std::vector<int> contents; ///< that it was promised
        };
        std::vector<Holder> holders;
        std::vector<int> device(static_cast<size_t>(blocks)); ///< content of each block
        std::map<int32_t, int> host;                          ///< of each slot
        int next_content = 1;
        for (int& content : device)
            content = next_content++;
        for (int i = 0; i < 500; ++i) {
            const int choice = random.below(10);
            if (choice < 3) {
                std::vector<int32_t> chosen;
                for (int32_t block = 0; block < blocks; ++block)
                    if (random.chance(0.2))
                        chosen.push_back(block);
                Holder holder;
                if (swap.hold(chosen, 1, holder.held)) {
                    for (const int32_t block : chosen)
                        holder.contents.push_back(device[size_t(block)]);
                    holders.push_back(std::move(holder));
                } else {
                    QVERIFY(holder.held.empty());
                }
            } else if (choice < 5 && !holders.empty()) {
                const size_t which = size_t(random.below(int(holders.size())));
                swap.release(holders[which].held);
                holders.erase(holders.begin() + std::ptrdiff_t(which));
            } else {
                // A step: some blocks are taken, what is pending is copied, and they are written.
                std::vector<int32_t> taken;
                for (int n = random.between(1, 4); n > 0; --n) {
                    taken.push_back(random.below(blocks));
                    swap.evict(taken.back());
                }
                for (const BlockSwap& copy : swap.pending())
                    host[copy.slot] = device[size_t(copy.block)];
                swap.copied();
                for (const int32_t block : taken)
                    device[size_t(block)] = next_content++;
            }
            std::vector<int32_t> all;
            for (const Holder& holder : holders) {
                all.insert(all.end(), holder.held.begin(), holder.held.end());
                for (size_t k = 0; k < holder.held.size(); ++k) {
                    const int32_t slot = holder.held[k], block = swap.block_of(slot);
                    QVERIFY((block >= 0) != swap.on_host(slot)); // in one place
                    QCOMPARE(block >= 0 ? device[size_t(block)] : host.at(slot), holder.contents[k]);
                }
            }
            swap.check_integrity(all);
            QVERIFY(swap.used() <= swap.total());
        }
    }
}

QTEST_GUILESS_MAIN(TestHostSwap)
#include "tst_host_swap.moc"
