#include "engine/model/wording.h"

#include <QtTest>

using namespace orrery;

class tst_wording : public QObject {
    Q_OBJECT

private slots:
    void numbers_are_grouped_by_thousands() {
        QCOMPARE(grouped(0), std::string("0"));
        QCOMPARE(grouped(999), std::string("999"));
        QCOMPARE(grouped(1000), std::string("1,000"));
        QCOMPARE(grouped(98362432), std::string("98,362,432"));
        QCOMPARE(grouped(UINT64_MAX), std::string("18,446,744,073,709,551,615"));
    }

    void bytes_have_three_digits_and_a_unit() {
        QCOMPARE(byte_text(0), std::string("0 bytes"));
        QCOMPARE(byte_text(1), std::string("1 byte"));
        QCOMPARE(byte_text(1023), std::string("1023 bytes"));
        QCOMPARE(byte_text(1024), std::string("1.00 KiB"));
        QCOMPARE(byte_text(98362432), std::string("93.8 MiB"));
        QCOMPARE(byte_text(uint64_t{1} << 40), std::string("1.00 TiB"));
        QCOMPARE(byte_text((uint64_t{1} << 20) - 1), std::string("1.00 MiB"));
        QCOMPARE(byte_text(UINT64_MAX), std::string("16.0 EiB"));
    }

    void shapes_are_lists() {
        QCOMPARE(shape_text({49152, 576}), std::string("[49152, 576]"));
        QCOMPARE(shape_text({}), std::string("[]"));
    }
};

QTEST_GUILESS_MAIN(tst_wording)
#include "tst_wording.moc"
