// SipHash-2-4-128 against values of OpenSSL's implementation, and the chain of blocks against its definition.
#include "engine/cache/block_hash.h"
#include "tests/support/random.h"

#include <QtTest>

using namespace orrery;

namespace {

/// Little-endian, as the algorithm's authors write it.
QByteArray hex(const Hash128& hash) {
    QByteArray bytes;
    for (const uint64_t word : {hash.low, hash.high})
        for (int i = 0; i < 8; ++i)
            bytes.append(char(word >> (8 * i)));
    return bytes.toHex();
}

constexpr HashKey authors_key = {0x0706050403020100, 0x0f0e0d0c0b0a0908};

} // namespace

class TestBlockHash : public QObject {
    Q_OBJECT

private slots:
    void hashes_have_the_values_of_openssl_data();
    void hashes_have_the_values_of_openssl();
    void a_chain_is_the_hash_of_its_bytes();
    void every_input_changes_the_hash();
};

void TestBlockHash::hashes_have_the_values_of_openssl_data() {
    QTest::addColumn<int>("length");
    QTest::addColumn<QByteArray>("expected");
    // openssl mac -macopt size:16 -macopt hexkey:000102030405060708090a0b0c0d0e0f SipHash, of the bytes 0, 1,
    // 2, …
    QTest::newRow("0") << 0 << QByteArray("a3817f04ba25a8e66df67214c7550293");
    QTest::newRow("1") << 1 << QByteArray("da87c1d86b99af44347659119b22fc45");
    QTest::newRow("2") << 2 << QByteArray("8177228da4a45dc7fca38bdef60affe4");
    QTest::newRow("7") << 7 << QByteArray("a1f1ebbed8dbc153c0b84aa61ff08239");
    QTest::newRow("8") << 8 << QByteArray("3b62a9ba6258f5610f83e264f31497b4");
    QTest::newRow("15") << 15 << QByteArray("5493e99933b0a8117e08ec0f97cfc3d9");
    QTest::newRow("16") << 16 << QByteArray("6ee2a4ca67b054bbfd3315bf85230577");
    QTest::newRow("63") << 63 << QByteArray("5150d1772f50834a503e069a973fbd7c");
    QTest::newRow("88") << 88 << QByteArray("84faec6f8a6e5b5b0d4cff980f6a16e9");
}

void TestBlockHash::hashes_have_the_values_of_openssl() {
    QFETCH(int, length);
    QFETCH(QByteArray, expected);
    std::vector<std::byte> bytes;
    for (int i = 0; i < length; ++i)
        bytes.push_back(std::byte(i));
    QCOMPARE(hex(siphash128(authors_key, bytes)), expected);
}

void TestBlockHash::a_chain_is_the_hash_of_its_bytes() {
    test::Random random(test::test_seed());
    for (int tokens = 0; tokens <= 33; ++tokens) {
        const HashKey key = {random.bits(), random.bits()};
        const Hash128 parent = {random.bits(), random.bits()};
        std::vector<TokenId> ids;
        std::vector<std::byte> bytes;
        const auto put = [&](uint64_t value, int count) {
            for (int i = 0; i < count; ++i)
                bytes.push_back(std::byte(value >> (8 * i)));
        };
        put(parent.low, 8);
        put(parent.high, 8);
        for (int i = 0; i < tokens; ++i) {
            ids.push_back(TokenId(random.bits()));
            put(uint32_t(ids.back()), 4);
        }
        QCOMPARE(hex(hash_block(key, parent, ids)), hex(siphash128(key, bytes)));
    }
}

void TestBlockHash::every_input_changes_the_hash() {
    const HashKey key = random_hash_key();
    QVERIFY(key != random_hash_key());
    const Hash128 root = hash_root(key, 0);
    QVERIFY(root != hash_root(key, 1));
    QVERIFY(root != hash_root(random_hash_key(), 0));
    const std::vector<TokenId> tokens = {1, 2, 3, 4}, others = {1, 2, 3, 5}, swapped = {2, 1, 3, 4};
    const Hash128 hash = hash_block(key, root, tokens);
    QVERIFY(hash != hash_block(key, root, others));
    QVERIFY(hash != hash_block(key, root, swapped));
    QVERIFY(hash != hash_block(key, hash, tokens));
}

QTEST_GUILESS_MAIN(TestBlockHash)
#include "tst_block_hash.moc"
