// The program with the window: orrery [MODEL] [--backend …] [--threads N].
#include "kernels/error.h"
#include "kernels/make_backend.h"
#include "ui/language.h"
#include "ui/models/recent_models.h"
#include "ui/workbench.h"
#include "ui/worker.h"

#include <QApplication>
#include <QCommandLineParser>
#include <QElapsedTimer>
#include <QFileInfo>

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

class Words {
    Q_DECLARE_TR_FUNCTIONS(CommandLine)
};

void nameProgram() {
    QCoreApplication::setOrganizationName(QStringLiteral("orrery"));
    QCoreApplication::setApplicationName(QStringLiteral("orrery"));
    QCoreApplication::setApplicationVersion(QStringLiteral(ORRERY_VERSION));
}

/// The options and arguments that the program takes.
struct CommandLine {
    QCommandLineParser parser;
    QCommandLineOption backend{QStringLiteral("backend"), Words::tr("reference, cpu, cuda or auto"),
                               QStringLiteral("name"), QStringLiteral("auto")};
    QCommandLineOption threads{QStringLiteral("threads"),
                               Words::tr("Threads of the CPU back end; 0: one per core"),
                               QStringLiteral("number"), QStringLiteral("0")};
    QCommandLineOption log{QStringLiteral("log"), Words::tr("debug, info, warning or error"),
                           QStringLiteral("level"), QStringLiteral("warning")};

    CommandLine() {
        parser.setApplicationDescription(Words::tr("A workbench for the inference of language models."));
        parser.addHelpOption();
        parser.addVersionOption();
        parser.addPositionalArgument(QStringLiteral("model"), Words::tr("The model to open (a .gguf file)."),
                                     QStringLiteral("[model]"));
        parser.addOptions({backend, threads, log});
    }
};

/// Whether only help or version is asked for: that needs no display.
bool asksForText(int argc, char** argv) {
    return std::any_of(argv + std::min(argc, 1), argv + argc, [](std::string_view argument) {
        return argument == "--version" || argument == "-v" || argument == "--help" || argument == "-h" ||
               argument == "--help-all";
    });
}

/// What Qt warned of while the QApplication was made.
QStringList& earlyWarnings() {
    static QStringList warnings;
    return warnings;
}

/// While the QApplication is made: where Qt finds no display it would abort with a core dump. It says so with
/// a fatal message after some warnings; one sentence stands for all of them.
void onEarlyMessage(QtMsgType type, const QMessageLogContext&, const QString& message) {
    if (type != QtFatalMsg) {
        earlyWarnings() << message;
        return;
    }
    QStringList tried;
    for (const char* name : {"QT_QPA_PLATFORM", "WAYLAND_DISPLAY", "DISPLAY"})
        if (const QString value = qEnvironmentVariable(name); !value.isEmpty())
            tried << QStringLiteral("%1 is '%2'").arg(QLatin1String(name), value);
    std::fprintf(stderr,
                 "There is no display that the window could open on (%s); 'orrery-cli ask' chats on a "
                 "terminal.\n",
                 tried.isEmpty() ? "neither DISPLAY nor WAYLAND_DISPLAY is set"
                                 : qPrintable(tried.join(QStringLiteral(", "))));
    std::_Exit(1);
}

int run(QApplication& app, const QElapsedTimer& sinceStart) {
    orrery::ui::language::apply(orrery::ui::language::chosen());
    CommandLine line;
    line.parser.process(app);
    spdlog::set_level(spdlog::level::from_str(line.parser.value(line.log).toStdString()));

    orrery::ui::SessionOptions options;
    try {
        options.backend = orrery::kernels::backend_kind(line.parser.value(line.backend).toStdString());
        const QString threads = line.parser.value(line.threads);
        bool isNumber = false;
        options.threads = threads.toInt(&isNumber);
        if (!isNumber || options.threads < 0 || options.threads > 1024)
            throw orrery::Error("--threads is '" + threads.toStdString() +
                                "': it must be a whole number up to 1024, 0 for one per core.");
    } catch (const orrery::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
    }

    orrery::ui::Workbench workbench(options);
    const QStringList arguments = line.parser.positionalArguments();
    const QString model = arguments.isEmpty() ? orrery::ui::recent_models::modelToStartWith()
                                              : QFileInfo(arguments.first()).absoluteFilePath();
    QObject::connect(&workbench, &orrery::ui::Workbench::firstFrame, &app, [&] {
        spdlog::debug("ui: first frame {} ms after the start", sinceStart.elapsed());
        // Only now: the window is there before the model begins to load.
        if (!model.isEmpty())
            workbench.session().loadModel(model);
    });
    workbench.show();
    return QApplication::exec();
}

} // namespace

int main(int argc, char** argv) {
    QElapsedTimer sinceStart;
    sinceStart.start();
    nameProgram();
    if (asksForText(argc, argv)) {
        const QCoreApplication app(argc, argv);
        orrery::ui::language::apply(orrery::ui::language::chosen());
        CommandLine().parser.process(app); // prints and ends the program
    }

    const QtMessageHandler before = qInstallMessageHandler(onEarlyMessage);
    QApplication app(argc, argv);
    qInstallMessageHandler(before);
    for (const QString& warning : std::as_const(earlyWarnings()))
        qWarning("%s", qPrintable(warning));
    QApplication::setApplicationDisplayName(QStringLiteral("Orrery"));
    QApplication::setDesktopFileName(QStringLiteral("orrery"));
    const int status = run(app, sinceStart);

    // The window has gone. Work that could not be interrupted may still run, on what the end of main() would
    // take away: then the system ends both.
    if (!orrery::ui::Worker::waitForEnded(std::chrono::milliseconds(100))) {
        std::fflush(nullptr);
        std::_Exit(status);
    }
    return status;
}
