#include "engine/platform/mapped_file.h"
#include "engine/platform/paths.h"
#include "kernels/error.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temporary_folder.h"

#include <QtTest>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#ifndef _WIN32
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

using namespace orrery;
using platform::MappedFile;
using test::TemporaryFolder;

namespace {

std::vector<std::byte> random_bytes(size_t count, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<std::byte> bytes(count);
    for (std::byte& byte : bytes)
        byte = static_cast<std::byte>(random() & 0xff);
    return bytes;
}

#ifndef _WIN32
sigjmp_buf back;
volatile sig_atomic_t passed_on = 0;

void handler_of_before(int) {
    passed_on = passed_on + 1;
    siglongjmp(back, 1);
}
#endif

std::string error_of(const std::filesystem::path& path) {
    try {
        const MappedFile file(path);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

} // namespace

class tst_mapped_file : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() {
#ifndef _WIN32
        ::signal(SIGBUS, handler_of_before); // before anything is mapped
#endif
    }

    void holds_the_bytes_of_the_file() {
        const TemporaryFolder folder;
        const size_t page = 4096;
        for (const size_t size : {size_t{0}, size_t{1}, page - 1, page, page + 1, 5 * page + 77}) {
            const auto bytes = random_bytes(size, static_cast<uint32_t>(size) + 1);
            const auto path = folder / std::to_string(size);
            test::write_file(path, bytes);
            const MappedFile file(path);
            QCOMPARE(file.size(), size);
            QVERIFY(std::ranges::equal(file.bytes(), bytes));
        }
    }

    void opens_a_name_beyond_ascii() {
        const TemporaryFolder folder;
        const auto path = folder / platform::from_utf8("模型 – ä.gguf");
        test::write_file(path, random_bytes(10, 1));
        QCOMPARE(MappedFile(path).size(), size_t{10});
    }

    void stays_readable_when_the_name_is_gone() {
        const TemporaryFolder folder;
        const auto bytes = random_bytes(10000, 2);
        test::write_file(folder / "a", bytes);
        const MappedFile file(folder / "a");
        std::filesystem::remove(folder / "a");
        QVERIFY(std::ranges::equal(file.bytes(), bytes));
    }

    void moves_its_mapping() {
        const TemporaryFolder folder;
        const auto first = random_bytes(5000, 3), second = random_bytes(700, 4);
        test::write_file(folder / "a", first);
        test::write_file(folder / "b", second);
        MappedFile a(folder / "a"), b(folder / "b");
        const std::byte* at = a.bytes().data();
        b = std::move(a);
        QCOMPARE(b.bytes().data(), at);
        QVERIFY(std::ranges::equal(b.bytes(), first));
        QCOMPARE(a.size(), size_t{0});
        const MappedFile c(std::move(b));
        QVERIFY(std::ranges::equal(c.bytes(), first));
    }

#ifndef _WIN32
    /// Pages that are gone read as zeros, and the mapping says so; others are not concerned.
    void a_cut_file_reads_as_zeros() {
        const TemporaryFolder folder;
        const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
        const auto bytes = random_bytes(64 * page + 100, 6);
        for (const size_t left : {size_t{0}, size_t{1}, page, page + 1, 63 * page, 64 * page + 1}) {
            test::write_file(folder / "a", bytes);
            test::write_file(folder / "b", bytes);
            MappedFile file(folder / "a");
            const MappedFile other(folder / "b");
            QVERIFY(!file.changed());
            std::filesystem::resize_file(folder / "a", left);
            // From several threads at once, back to front, so that pages vanish in pieces.
            std::vector<std::thread> threads;
            std::atomic<bool> right{true};
            for (int t = 0; t < 4; ++t)
                threads.emplace_back([&, t] {
                    for (size_t i = bytes.size(); i-- > 0;)
                        if ((i + size_t(t)) % 97 == 0 &&
                            file.bytes()[i] != (i < left ? bytes[i] : std::byte{0}))
                            right = false;
                });
            for (std::thread& thread : threads)
                thread.join();
            QVERIFY(right);
            QVERIFY(file.changed());
            QVERIFY(!other.changed() && std::ranges::equal(other.bytes(), bytes));
            // A mapping that has moved knows it too, and one that comes later begins anew.
            const MappedFile moved(std::move(file));
            QVERIFY(moved.changed() && !file.changed());
            const MappedFile again(folder / "a");
            QCOMPARE(again.size(), left);
            QVERIFY(!again.changed());
        }
    }

    void a_file_of_the_same_size_may_have_changed() {
        const TemporaryFolder folder;
        test::write_file(folder / "a", random_bytes(10000, 7));
        const MappedFile file(folder / "a");
        QVERIFY(!file.changed());
        test::write_file(folder / "new", random_bytes(10000, 8));
        std::filesystem::rename(folder / "new", folder / "a");
        QVERIFY(!file.changed()); // another file of that name
        const MappedFile second(folder / "a");
        std::filesystem::last_write_time(folder / "a", std::filesystem::file_time_type::clock::now() +
                                                           std::chrono::seconds(1));
        QVERIFY(second.changed());
    }

    /// What no mapping of ours has raised goes where it went before.
    void other_signals_are_passed_on() {
        const TemporaryFolder folder;
        const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
        test::write_file(folder / "a", random_bytes(4 * page, 9));
        test::write_file(folder / "b", random_bytes(4 * page, 9));
        const MappedFile file(folder / "a");
        const int descriptor = ::open((folder / "b").c_str(), O_RDONLY);
        void* foreign = ::mmap(nullptr, 4 * page, PROT_READ, MAP_SHARED, descriptor, 0);
        QVERIFY(foreign != MAP_FAILED);
        ::close(descriptor);
        std::filesystem::resize_file(folder / "b", 0);
        passed_on = 0;
        if (sigsetjmp(back, 1) == 0) {
            static_cast<void>(*static_cast<volatile char*>(foreign));
            QFAIL("the page was there");
        }
        QCOMPARE(int(passed_on), 1);
        if (sigsetjmp(back, 1) == 0) {
            ::raise(SIGBUS);
            QFAIL("the signal did not come");
        }
        QCOMPARE(int(passed_on), 2);
        ::munmap(foreign, 4 * page);
        QVERIFY(!file.changed());
    }
#endif

    void advice_never_changes_content() {
        const TemporaryFolder folder;
        const auto bytes = random_bytes(40000, 5);
        test::write_file(folder / "a", bytes);
        const MappedFile file(folder / "a");
        using enum MappedFile::Advice;
        for (const auto advice : {sequential, will_need, random})
            for (const size_t offset :
                 {size_t{0}, size_t{1}, size_t{4097}, size_t{39999}, size_t{40000}, SIZE_MAX})
                for (const size_t length : {size_t{0}, size_t{1}, size_t{8192}, SIZE_MAX})
                    file.advise(advice, offset, length);
        QVERIFY(std::ranges::equal(file.bytes(), bytes));
        test::write_file(folder / "empty", {});
        MappedFile(folder / "empty").advise(will_need);
    }

    void says_what_cannot_be_opened_and_why() {
        const TemporaryFolder folder;
        const std::string missing = error_of(folder / "missing.gguf");
        QVERIFY2(missing.find((folder / "missing.gguf").string()) != std::string::npos, missing.c_str());
        QVERIFY2(missing.find("No such file") != std::string::npos, missing.c_str());
        QCOMPARE(error_of(folder.path()), folder.path().string() + " is a folder, not a file.");
#ifndef _WIN32
        // A named pipe without a writer: this must not wait for one.
        QCOMPARE(::mkfifo((folder / "pipe").c_str(), 0600), 0);
        QCOMPARE(error_of(folder / "pipe"), (folder / "pipe").string() + " is not a regular file.");
#endif
    }
};

QTEST_GUILESS_MAIN(tst_mapped_file)
#include "tst_mapped_file.moc"
