#include "engine/platform/system.h"

#include <QtTest>

#include <fstream>
#include <thread>

using namespace orrery::platform;

class tst_system : public QObject {
    Q_OBJECT

private slots:
#ifdef __linux__
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
