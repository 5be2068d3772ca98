// Running orrery-cli as its users and other programs do: what goes in, what comes out, with which exit
// status.
#pragma once

#include <QProcess>
#include <QStringList>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace orrery::test {

struct CliResult {
    int status = -1; ///< −1: it did not end by itself, or not in time
    std::string out;
    std::string err;

    /// The JSON values of standard output, one a line.
    std::vector<nlohmann::json> lines() const;
};

/// The arguments of a command line that has no spaces within them, such as "score --top=0".
QStringList words(const char* line);
QString text(const std::filesystem::path& path);
QStringList operator+(const QStringList& list, const char* line);

/// Runs to the end; `input` is all of standard input. `prepare` may change the process before it starts.
CliResult run_cli(const QStringList& arguments, const std::string& input = {},
                  const std::function<void(QProcess&)>& prepare = {});

/// Waits for a process that has been started, and takes what it has written since.
CliResult finish(QProcess& process);

/// Whether a text is a single line that is not empty.
bool is_one_sentence(const std::string& text);

} // namespace orrery::test
