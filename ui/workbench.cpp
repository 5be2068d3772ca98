#include "ui/workbench.h"

#include "ui/language.h"
#include "ui/main_window.h"

#include <QApplication>

namespace orrery::ui {

Workbench::Workbench(SessionOptions options) : session_(&clock_, std::move(options)), chats_(&session_) {
    theme::apply(*qApp, theme::chosen());
    language::apply(language::chosen());
    makeWindow();
    connect(window_.get(), &MainWindow::firstFrame, this, &Workbench::firstFrame);
}

Workbench::~Workbench() = default;

void Workbench::makeWindow() {
    window_ = std::make_unique<MainWindow>(&session_, &chats_);
    // Queued: the window is not replaced while it is still in the menu that asked for it.
    connect(window_.get(), &MainWindow::languageChosen, this, &Workbench::setLanguage, Qt::QueuedConnection);
    connect(window_.get(), &MainWindow::themeChosen, this, &Workbench::setTheme, Qt::QueuedConnection);
}

void Workbench::show() {
    window_->show();
}

void Workbench::setLanguage(const QString& code) {
    language::choose(code);
    language::apply(code);
    ChatModel* chat = window_->chat();
    window_->rememberState();
    const std::unique_ptr<MainWindow> old = std::move(window_);
    makeWindow();
    window_->showChat(chat);
    window_->show();
    // The old one goes last, so that the program never is without a window.
}

void Workbench::setTheme(theme::Choice choice) {
    theme::choose(choice);
    theme::apply(*qApp, choice);
}

} // namespace orrery::ui
