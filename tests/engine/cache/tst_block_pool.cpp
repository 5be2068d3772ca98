// The pool against a model of lists that can be read at a glance, under random operations.
#include "engine/cache/block_pool.h"
#include "kernels/error.h"
#include "tests/support/random.h"

#include <QtTest>

#include <algorithm>
#include <deque>

using namespace orrery;

class TestBlockPool : public QObject {
    Q_OBJECT

private slots:
    void random_operations_agree_with_a_model_data();
    void random_operations_agree_with_a_model();
    void cached_blocks_are_taken_last_and_the_oldest_first();
    void the_integrity_check_finds_a_wrong_count();
};

void TestBlockPool::random_operations_agree_with_a_model_data() {
    QTest::addColumn<int>("blocks");
    for (const int blocks : {1, 2, 7, 64})
        QTest::addRow("%d", blocks) << blocks;
}

void TestBlockPool::random_operations_agree_with_a_model() {
    QFETCH(int, blocks);
    test::Random random(test::test_seed() + uint64_t(blocks));
    BlockPool pool(blocks);
    std::vector<int32_t> users(size_t(blocks), 0);
    std::vector<bool> content(size_t(blocks), false);
    std::deque<int32_t> cached; // the one to go first in front
    int free = blocks;

    for (int i = 0; i < 20'000; ++i) {
        const auto block = int32_t(random.below(blocks));
        const auto at = size_t(block);
        switch (random.below(4)) {
        case 0:
            if (free + int(cached.size()) == 0)
                break;
            {
                const BlockPool::Taken taken = pool.take();
                QCOMPARE(users[size_t(taken.block)], 0);
                QCOMPARE(taken.had_content, free == 0);
                if (free > 0) {
                    QVERIFY(!content[size_t(taken.block)]);
                    free -= 1;
                } else {
                    QCOMPARE(taken.block, cached.front());
                    cached.pop_front();
                }
                users[size_t(taken.block)] = 1;
                content[size_t(taken.block)] = false;
            }
            break;
        case 1:
            if (users[at] == 0 && !content[at])
                break;
            pool.share(block);
            std::erase(cached, block);
            users[at] += 1;
            break;
        case 2:
            if (users[at] == 0)
                break;
            QCOMPARE(pool.release(block), users[at] == 1);
            if (--users[at] == 0) {
                if (content[at])
                    cached.push_back(block);
                else
                    free += 1;
            }
            break;
        case 3:
            if (users[at] == 0)
                break;
            pool.set_content(block);
            content[at] = true;
            break;
        }
        QCOMPARE(pool.free(), free);
        QCOMPARE(pool.cached(), int(cached.size()));
        QCOMPARE(pool.free() + pool.cached() + pool.held(), blocks);
        QCOMPARE(pool.users(block), users[at]);
        QCOMPARE(pool.has_content(block), bool(content[at]));
        pool.check_integrity(users);
    }
}

void TestBlockPool::cached_blocks_are_taken_last_and_the_oldest_first() {
    BlockPool pool(4);
    std::vector<int32_t> table;
    for (int i = 0; i < 3; ++i) {
        table.push_back(pool.take().block);
        pool.set_content(table.back());
    }
    for (auto block = table.rbegin(); block != table.rend(); ++block)
        pool.release(*block);
    QCOMPARE(pool.free(), 1);
    QCOMPARE(pool.cached(), 3);
    QVERIFY(!pool.take().had_content);
    QCOMPARE(pool.take().block, table[2]); // the tail goes before the beginning
    pool.share(table[1]);                  // and what is in use does not go
    QCOMPARE(pool.take().block, table[0]);
    QCOMPARE(pool.available(), 0);
}

void TestBlockPool::the_integrity_check_finds_a_wrong_count() {
    BlockPool pool(3);
    const int32_t block = pool.take().block;
    std::vector<int32_t> users(3, 0);
    QVERIFY_EXCEPTION_THROWN(pool.check_integrity(users), Error);
    users[size_t(block)] = 2;
    QVERIFY_EXCEPTION_THROWN(pool.check_integrity(users), Error);
    users[size_t(block)] = 1;
    pool.check_integrity(users);
}

QTEST_GUILESS_MAIN(TestBlockPool)
#include "tst_block_pool.moc"
