#include "tests/app/cli_run.h"

namespace orrery::test {

std::vector<nlohmann::json> CliResult::lines() const {
    std::vector<nlohmann::json> values;
    for (const QByteArray& line : QByteArray::fromStdString(out).split('\n'))
        if (!line.isEmpty())
            values.push_back(nlohmann::json::parse(line.toStdString()));
    return values;
}

QStringList words(const char* line) {
    return QString::fromUtf8(line).split(QLatin1Char(' '), Qt::SkipEmptyParts);
}

QString text(const std::filesystem::path& path) {
    return QString::fromStdString(path.string());
}

QStringList operator+(const QStringList& list, const char* line) {
    return list + words(line);
}

CliResult finish(QProcess& process) {
    CliResult result;
    if (process.waitForFinished(300'000) && process.exitStatus() == QProcess::NormalExit)
        result.status = process.exitCode();
    result.out = process.readAllStandardOutput().toStdString();
    result.err = process.readAllStandardError().toStdString();
    return result;
}

CliResult run_cli(const QStringList& arguments, const std::string& input,
                  const std::function<void(QProcess&)>& prepare) {
    QProcess process;
    if (prepare)
        prepare(process);
    process.start(QStringLiteral(ORRERY_CLI), arguments);
    process.write(input.data(), qint64(input.size()));
    process.closeWriteChannel();
    return finish(process);
}

bool is_one_sentence(const std::string& text) {
    const QByteArray trimmed = QByteArray::fromStdString(text).trimmed();
    return !trimmed.isEmpty() && !trimmed.contains('\n');
}

} // namespace orrery::test
