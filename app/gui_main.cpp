// The program with the window: orrery [MODEL] [--backend …] [--threads N].
#include "kernels/error.h"
#include "kernels/make_backend.h"
#include "ui/language.h"
#include "ui/models/recent_models.h"
#include "ui/workbench.h"

#include <QApplication>
#include <QCommandLineParser>
#include <QElapsedTimer>
#include <QFileInfo>

#include <spdlog/spdlog.h>

namespace {

class Words {
    Q_DECLARE_TR_FUNCTIONS(CommandLine)
};

} // namespace

int main(int argc, char** argv) {
    QElapsedTimer sinceStart;
    sinceStart.start();
    QApplication app(argc, argv);
    QApplication::setOrganizationName(QStringLiteral("orrery"));
    QApplication::setApplicationName(QStringLiteral("orrery"));
    QApplication::setApplicationDisplayName(QStringLiteral("Orrery"));
    QApplication::setApplicationVersion(QStringLiteral(ORRERY_VERSION));
    QApplication::setDesktopFileName(QStringLiteral("orrery"));

    orrery::ui::language::apply(orrery::ui::language::chosen());

    QCommandLineParser parser;
    parser.setApplicationDescription(Words::tr("A workbench for the inference of language models."));
    parser.addHelpOption();
    parser.addVersionOption();
    parser.addPositionalArgument(QStringLiteral("model"), Words::tr("The model to open (a .gguf file)."),
                                 QStringLiteral("[model]"));
    const QCommandLineOption backend(QStringLiteral("backend"), Words::tr("reference, cpu, cuda or auto"),
                                     QStringLiteral("name"), QStringLiteral("auto"));
    const QCommandLineOption threads(QStringLiteral("threads"),
                                     Words::tr("Threads of the CPU back end; 0: one per core"),
                                     QStringLiteral("number"), QStringLiteral("0"));
    const QCommandLineOption log(QStringLiteral("log"), Words::tr("debug, info, warning or error"),
                                 QStringLiteral("level"), QStringLiteral("warning"));
    parser.addOptions({backend, threads, log});
    parser.process(app);
    spdlog::set_level(spdlog::level::from_str(parser.value(log).toStdString()));

    orrery::ui::SessionOptions options;
    try {
        options.backend = orrery::kernels::backend_kind(parser.value(backend).toStdString());
        bool isNumber = false;
        options.threads = parser.value(threads).toInt(&isNumber);
        if (!isNumber || options.threads < 0 || options.threads > 1024)
            throw orrery::Error("--threads is '" + parser.value(threads).toStdString() +
                                "': it must be a whole number up to 1024, 0 for one per core.");
    } catch (const orrery::Error& error) {
        fprintf(stderr, "%s\n", error.what());
        return 2;
    }

    orrery::ui::Workbench workbench(options);
    const QStringList arguments = parser.positionalArguments();
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
