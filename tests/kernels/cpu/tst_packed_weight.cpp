#include "kernels/cpu/packed_weight.h"
#include "kernels/error.h"
#include "tests/kernels/cpu/random_weights.h"

#include <QTest>

#include <algorithm>
#include <cmath>

using namespace orrery::kernels;
using namespace orrery::kernels::cpu;

/// A packed weight stands for the number that the file's block stands for.
class PackedWeightTest : public QObject {
    Q_OBJECT

private slots:
    void keepsEveryWeight_data();
    void keepsEveryWeight();
    void takesNoOtherType();
};

void PackedWeightTest::keepsEveryWeight_data() {
    QTest::addColumn<int>("type");
    for (const TensorType type : all_tensor_types())
        if (is_packed_type(type))
            QTest::addRow("%s", info(type).name) << static_cast<int>(type);
}

void PackedWeightTest::keepsEveryWeight() {
    QFETCH(int, type);
    const auto tensor_type = static_cast<TensorType>(type);
    const auto seed = std::random_device{}();
    qInfo("seed %u", seed);
    std::mt19937 random(seed);
    const auto block = static_cast<int64_t>(info(tensor_type).block_elements);
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>{1, block}, {16, 3 * block}, {37, 5 * block}}) {
        const std::vector<std::byte> bytes = test::random_weights(tensor_type, rows, columns, random);
        PackedMatrix packed = make_packed(tensor_type, rows, columns);
        QVERIFY(packed.memory != nullptr);
        QCOMPARE(static_cast<int64_t>(packed.bytes()), packed_bytes(tensor_type, rows, columns));
        pack_tiles(packed, tensor_type, bytes.data(), row_bytes(tensor_type, static_cast<size_t>(columns)), 0,
                   packed.tiles());
        std::vector<float> want(static_cast<size_t>(columns)), got(want.size());
        const size_t stride = row_bytes(tensor_type, static_cast<size_t>(columns));
        for (int64_t row = 0; row < rows; ++row) {
            decode(tensor_type, bytes.data() + static_cast<size_t>(row) * stride, want.data(), want.size());
            unpack_row(packed, row, got.data());
            float largest = 0.0f;
            for (const float w : want)
                largest = std::max(largest, std::fabs(w));
            for (size_t i = 0; i < want.size(); ++i)
                // Equal but for the order of the multiplications.
                if (std::fabs(want[i] - got[i]) > 1e-6f * largest)
                    QFAIL(qPrintable(
                        QString("row %1, column %2: %3, not %4").arg(row).arg(i).arg(got[i]).arg(want[i])));
        }
    }
}

void PackedWeightTest::takesNoOtherType() {
    // Every id that is not one of the packed formats: float types and numbers that name none.
    for (uint32_t id = 0; id < 300; ++id) {
        const auto type = static_cast<TensorType>(id);
        if (tensor_type_info(id) != nullptr && is_packed_type(type))
            continue;
        QVERIFY_THROWS_EXCEPTION(orrery::Error, packed_bytes(type, 16, 256));
        QVERIFY_THROWS_EXCEPTION(orrery::Error, make_packed(type, 16, 256));
    }
}

QTEST_GUILESS_MAIN(PackedWeightTest)
#include "tst_packed_weight.moc"
