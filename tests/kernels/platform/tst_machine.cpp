// What the machine gives this process: as it is here, and in containers of several kinds.
#include "kernels/make_backend.h"
#include "kernels/platform/machine.h"
#include "tests/support/temporary_folder.h"

#include <QtTest>

#include <fstream>
#include <map>

#ifdef __linux__
#include <sched.h>
#include <unistd.h>
#endif

using namespace orrery::kernels;
using namespace orrery::kernels::platform;
namespace fs = std::filesystem;

namespace {

constexpr size_t mebibyte = size_t{1} << 20;

/// A machine of 64 GiB, 32 of them available, whose files under /proc and /sys say what a container's would.
class Container {
public:
    explicit Container(const std::map<std::string, std::string>& files) {
        write("proc/meminfo", "MemTotal:       67108864 kB\nMemFree:         1000000 kB\n"
                              "MemAvailable:   33554432 kB\n");
        for (const auto& [path, content] : files)
            write(path, content);
    }
    const fs::path& root() const { return folder_.path(); }

private:
    void write(const fs::path& path, const std::string& content) {
        fs::create_directories((root() / path).parent_path());
        std::ofstream(root() / path) << content;
    }

    orrery::test::TemporaryFolder folder_;
};

} // namespace

class tst_machine : public QObject {
    Q_OBJECT

private slots:
    void memory_is_plausible() {
        const MemoryInfo info = memory_info();
        QVERIFY(info.total_bytes > 64 * mebibyte);
        QVERIFY(info.available_bytes > 0);
        QVERIFY(info.available_bytes <= info.total_bytes);
#ifdef __linux__
        const auto machine =
            static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
        QVERIFY(info.total_bytes <= machine + machine / 100);
#endif
    }

    void threads_fill_cores_and_no_more_than_the_share() {
        QCOMPARE(usable_cores({1, 1}, 1), 1);
        QCOMPARE(usable_cores({1, 1}, 2), 1); // half of a core is one thread's
        QCOMPARE(usable_cores({16, 16}, 1), 16);
        QCOMPARE(usable_cores({16, 16}, 2), 8);
        QCOMPARE(usable_cores({64, 2}, 2), 2); // two of 32 cores
        QCOMPARE(usable_cores({64, 40}, 2), 32);
    }

#ifdef __linux__
    void processors_follow_the_affinity_mask() {
        cpu_set_t all;
        QCOMPARE(sched_getaffinity(0, sizeof all, &all), 0);
        const ProcessorShare whole = processor_share();
        QCOMPARE(whole.allowed, CPU_COUNT(&all));
        QVERIFY(whole.granted >= 1 && whole.granted <= whole.allowed);
        cpu_set_t one;
        CPU_ZERO(&one);
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
            if (CPU_ISSET(cpu, &all) && CPU_COUNT(&one) == 0)
                CPU_SET(cpu, &one);
        QCOMPARE(sched_setaffinity(0, sizeof one, &one), 0);
        const ProcessorShare share = processor_share();
        const int threads = make_backend(BackendKind::automatic, 0)->device().threads;
        QCOMPARE(sched_setaffinity(0, sizeof all, &all), 0);
        QCOMPARE(share.allowed, 1);
        QCOMPARE(share.granted, 1);
        QCOMPARE(threads, 1);
    }

    void memory_follows_the_containers_limit_data() {
        QTest::addColumn<QStringList>("files");
        QTest::addColumn<quint64>("total");
        QTest::addColumn<quint64>("available");
        const quint64 gibibyte = 1024 * mebibyte;
        QTest::newRow("no container") << QStringList{} << 64 * gibibyte << 32 * gibibyte;
        QTest::newRow("no limit") << QStringList{"proc/self/cgroup",
                                                 "0::/a\n",
                                                 "sys/fs/cgroup/a/memory.max",
                                                 "max\n",
                                                 "sys/fs/cgroup/a/memory.current",
                                                 "4096\n"}
                                  << 64 * gibibyte << 32 * gibibyte;
        QTest::newRow("a limit") << QStringList{"proc/self/cgroup",
                                                "0::/a\n",
                                                "sys/fs/cgroup/a/memory.max",
                                                "2147483648\n",
                                                "sys/fs/cgroup/a/memory.current",
                                                "1073741824\n"}
                                 << 2 * gibibyte << gibibyte;
        QTest::newRow("file cache can be dropped")
            << QStringList{"proc/self/cgroup",
                           "0::/a\n",
                           "sys/fs/cgroup/a/memory.max",
                           "2147483648\n",
                           "sys/fs/cgroup/a/memory.current",
                           "1073741824\n",
                           "sys/fs/cgroup/a/memory.stat",
                           "anon 1\nactive_file 536870912\nslab 7\ninactive_file 268435456\n"}
            << 2 * gibibyte << gibibyte + 768 * mebibyte;
        QTest::newRow("the outer group is narrower") << QStringList{"proc/self/cgroup",
                                                                    "0::/a/b\n",
                                                                    "sys/fs/cgroup/a/b/memory.max",
                                                                    "8589934592\n",
                                                                    "sys/fs/cgroup/a/b/memory.current",
                                                                    "0\n",
                                                                    "sys/fs/cgroup/a/memory.max",
                                                                    "2147483648\n",
                                                                    "sys/fs/cgroup/a/memory.current",
                                                                    "0\n"}
                                                     << 2 * gibibyte << 2 * gibibyte;
        QTest::newRow("the path lies outside of what is mounted")
            << QStringList{"proc/self/cgroup", "0::/../../elsewhere\n",        "sys/fs/cgroup/memory.max",
                           "2147483648\n",     "sys/fs/cgroup/memory.current", "2147483648\n"}
            << 2 * gibibyte << quint64(0);
        QTest::newRow("version 1") << QStringList{"proc/self/cgroup",
                                                  "5:memory:/a\n",
                                                  "sys/fs/cgroup/memory/memory.limit_in_bytes",
                                                  "2147483648\n",
                                                  "sys/fs/cgroup/memory/memory.usage_in_bytes",
                                                  "1073741824\n"}
                                   << 2 * gibibyte << gibibyte;
        QTest::newRow("version 1, no limit")
            << QStringList{"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n",
                           "sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n"}
            << 64 * gibibyte << 32 * gibibyte;
    }

    void memory_follows_the_containers_limit() {
        QFETCH(QStringList, files);
        const Container container(as_map(files));
        const MemoryInfo info = memory_info(container.root());
        QTEST(quint64(info.total_bytes), "total");
        QTEST(quint64(info.available_bytes), "available");
    }

    void processor_time_follows_the_containers_quota_data() {
        QTest::addColumn<QStringList>("files");
        QTest::addColumn<int>("granted");
        const QString group = "proc/self/cgroup", max = "sys/fs/cgroup/a/cpu.max";
        QTest::newRow("no container") << QStringList{} << 1'000'000;
        QTest::newRow("no quota") << QStringList{group, "0::/a\n", max, "max 100000\n"} << 1'000'000;
        QTest::newRow("one") << QStringList{group, "0::/a\n", max, "100000 100000\n"} << 1;
        QTest::newRow("half of one") << QStringList{group, "0::/a\n", max, "50000 100000\n"} << 1;
        QTest::newRow("a little more than one") << QStringList{group, "0::/a\n", max, "101000 100000\n"} << 2;
        QTest::newRow("none at all") << QStringList{group, "0::/a\n", max, "0 100000\n"} << 1;
        QTest::newRow("more than there are")
            << QStringList{group, "0::/a\n", max, "99999900000 100000\n"} << 1'000'000;
        QTest::newRow("the outer group is narrower")
            << QStringList{group, "0::/a/b\n",      "sys/fs/cgroup/a/b/cpu.max", "9900000 100000\n",
                           max,   "100000 100000\n"}
            << 1;
        const QString quota = "sys/fs/cgroup/cpu/cpu.cfs_quota_us",
                      period = "sys/fs/cgroup/cpu/cpu.cfs_period_us";
        QTest::newRow("version 1") << QStringList{quota, "50000\n", period, "50000\n"} << 1;
        QTest::newRow("version 1, no quota") << QStringList{quota, "-1\n", period, "100000\n"} << 1'000'000;
    }

    void processor_time_follows_the_containers_quota() {
        QFETCH(QStringList, files);
        QFETCH(int, granted);
        const Container container(as_map(files));
        const ProcessorShare share = processor_share(container.root());
        QCOMPARE(share.allowed, processor_share("/nowhere").allowed); // of the mask alone
        QCOMPARE(share.granted, std::min(granted, share.allowed));
    }

private:
    static std::map<std::string, std::string> as_map(const QStringList& files) {
        std::map<std::string, std::string> map;
        for (int i = 0; i + 1 < files.size(); i += 2)
            map[files[i].toStdString()] = files[i + 1].toStdString();
        return map;
    }
#endif
};

QTEST_GUILESS_MAIN(tst_machine)
#include "tst_machine.moc"
