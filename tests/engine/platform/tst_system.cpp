#include "engine/platform/system.h"

#include <QtTest>

#include <fstream>
#include <thread>
#include <vector>

using namespace orrery::platform;

class tst_system : public QObject {
    Q_OBJECT

private slots:
#ifdef __linux__
    void resident_memory_follows_what_is_touched() {
        constexpr size_t size = size_t{64} << 20;
        const size_t before = resident_bytes();
        QVERIFY(before > 0);
        std::vector<char> memory(size, 1);
        const size_t with = resident_bytes();
        QVERIFY2(with > before + size / 2, qPrintable(QString::number(with)));
        memory = std::vector<char>();
        const size_t after = resident_bytes();
        QVERIFY2(after < before + size / 2, qPrintable(QString::number(after)));
    }

    void a_thread_gets_its_name() {
        std::string name;
        std::thread([&] {
            set_thread_name("orrery-engine-thread");
            std::ifstream("/proc/thread-self/comm") >> name;
        }).join();
        QCOMPARE(name, std::string("orrery-engine-t"));
    }
#endif
};

QTEST_GUILESS_MAIN(tst_system)
#include "tst_system.moc"
