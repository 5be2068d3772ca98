// The program with the window.
#include "ui/main_window.h"
#include "ui/theme.h"

#include <QApplication>

int main(int argc, char** argv) {
    QApplication app(argc, argv);
    QApplication::setOrganizationName(QStringLiteral("orrery"));
    QApplication::setApplicationName(QStringLiteral("orrery"));
    orrery::ui::theme::apply(app, orrery::ui::theme::Choice::System);

    orrery::ui::EngineSession session;
    orrery::ui::MainWindow window(&session);
    window.show();
    return QApplication::exec();
}
