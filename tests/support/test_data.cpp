#include "tests/support/test_data.h"

#include <QByteArray>

#include <cstring>
#include <fstream>
#include <sstream>

namespace fs = std::filesystem;

namespace orrery::test {

fs::path source_dir() {
    return ORRERY_SOURCE_DIR;
}

fs::path data_dir() {
    if (const char* dir = std::getenv("ORRERY_TEST_DATA"))
        return fs::is_directory(dir) ? fs::path(dir) : fs::path();
    const fs::path beside = source_dir() / "../shared/data";
    return fs::is_directory(beside) ? fs::weakly_canonical(beside) : fs::path();
}

fs::path default_model() {
    if (const char* file = std::getenv("ORRERY_TEST_MODEL"))
        return fs::is_regular_file(file) ? fs::path(file) : fs::path();
    const char* data = std::getenv("XDG_DATA_HOME");
    const char* home = std::getenv("HOME");
    const fs::path base = data && *data ? fs::path(data) : fs::path(home ? home : "") / ".local/share";
    const fs::path model = base / "orrery/models/SmolLM2-135M-Instruct.Q4_1.gguf";
    return fs::is_regular_file(model) ? model : fs::path();
}

fs::path real_model(const std::string& name) {
    const char* models = std::getenv("ORRERY_TEST_MODELS");
    const char* home = std::getenv("HOME");
    const fs::path folder = models ? fs::path(models) : fs::path(home ? home : "") / ".cache/orrery-test";
    const fs::path model = folder / (name + ".gguf");
    return fs::is_regular_file(model) ? model : fs::path();
}

std::string read_file(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in)
        throw std::runtime_error("cannot open test file " + path.string());
    std::ostringstream out;
    out << in.rdbuf();
    return std::move(out).str();
}

nlohmann::json read_json(const fs::path& path) {
    return nlohmann::json::parse(read_file(path));
}

std::vector<nlohmann::json> read_json_lines(const fs::path& path) {
    std::vector<nlohmann::json> values;
    std::istringstream in(read_file(path));
    for (std::string line; std::getline(in, line);)
        if (!line.empty())
            values.push_back(nlohmann::json::parse(line));
    return values;
}

std::vector<float> floats_from_base64(const std::string& text) {
    const QByteArray raw = QByteArray::fromBase64(QByteArray::fromStdString(text));
    std::vector<float> values(raw.size() / sizeof(float));
    std::memcpy(values.data(), raw.constData(), values.size() * sizeof(float));
    return values;
}

} // namespace orrery::test
