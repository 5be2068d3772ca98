#include "tests/support/temporary_folder.h"

#include <random>
#include <string>
#include <system_error>

namespace fs = std::filesystem;

namespace orrery::test {

TemporaryFolder::TemporaryFolder() {
    std::random_device random;
    do
        path_ = fs::temp_directory_path() / ("orrery-test-" + std::to_string(random()));
    while (!fs::create_directory(path_)); // false where another process has it already
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

} // namespace orrery::test
