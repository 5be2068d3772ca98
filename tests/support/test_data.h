// Test data: files with right values that come from independent implementations. They lie beside the
// repository (../shared/data) or where the environment variable ORRERY_TEST_DATA says; a user's clone
// has none, and tests that need them are skipped.
#pragma once

#include <QtTest>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace orrery::test {

/// The folder of test data, or an empty path where there is none.
std::filesystem::path data_dir();

/// The repository's own root folder.
std::filesystem::path source_dir();

/// The default model's file (environment variable ORRERY_TEST_MODEL, or the user's data folder), or an
/// empty path where it has not been fetched.
std::filesystem::path default_model();

/// NAME.gguf among the real models for tests (the folder that ORRERY_TEST_MODELS names, or
/// ~/.cache/orrery-test), or an empty path where it is not there.
std::filesystem::path real_model(const std::string& name);

std::string read_file(const std::filesystem::path& path);
nlohmann::json read_json(const std::filesystem::path& path);
/// One JSON value per non-empty line.
std::vector<nlohmann::json> read_json_lines(const std::filesystem::path& path);
/// Little-endian float32 values from their base64 text (RFC 4648).
std::vector<float> floats_from_base64(const std::string& text);

} // namespace orrery::test

/// Skips the running test where there is no test data.
#define ORRERY_NEED_TEST_DATA()                                                                              \
    if (orrery::test::data_dir().empty())                                                                    \
    QSKIP("skipped: no test data")

/// Skips the running test where the default model has not been fetched.
#define ORRERY_NEED_DEFAULT_MODEL()                                                                          \
    if (orrery::test::default_model().empty())                                                               \
    QSKIP("skipped: the default model is not there (./run fetches it)")

/// Skips the running test where a real model is not there.
#define ORRERY_NEED_REAL_MODEL(name)                                                                         \
    if (orrery::test::real_model(name).empty())                                                              \
    QSKIP("skipped: " name ".gguf is not in ~/.cache/orrery-test")
