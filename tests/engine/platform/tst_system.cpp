#include "engine/platform/system.h"

#include <QtTest>

#include <fstream>
#include <thread>

#ifdef __linux__
#include <sched.h>
#include <unistd.h>
#endif

using namespace orrery::platform;

class tst_system : public QObject {
    Q_OBJECT

private slots:
    void memory_is_plausible() {
        const MemoryInfo info = memory_info();
        QVERIFY(info.total_bytes > size_t{64} << 20);
        QVERIFY(info.available_bytes > 0);
        QVERIFY(info.available_bytes <= info.total_bytes);
#ifdef __linux__
        const auto machine =
            static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
        QVERIFY(info.total_bytes <= machine + machine / 100);
#endif
    }

#ifdef __linux__
    void cpus_follow_the_affinity_mask() {
        cpu_set_t all;
        QCOMPARE(sched_getaffinity(0, sizeof all, &all), 0);
        QVERIFY(usable_cpus() >= 1);
        QVERIFY(usable_cpus() <= CPU_COUNT(&all));
        cpu_set_t one;
        CPU_ZERO(&one);
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
            if (CPU_ISSET(cpu, &all) && CPU_COUNT(&one) == 0)
                CPU_SET(cpu, &one);
        QCOMPARE(sched_setaffinity(0, sizeof one, &one), 0);
        const int usable = usable_cpus();
        QCOMPARE(sched_setaffinity(0, sizeof all, &all), 0);
        QCOMPARE(usable, 1);
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
