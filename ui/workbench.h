// The program behind the window: the session, the chats, and the window itself, which is made anew when the
// language changes.
#pragma once

#include "ui/chat/chat_store.h"
#include "ui/engine_session.h"
#include "ui/frame_clock.h"
#include "ui/theme.h"

#include <memory>

namespace orrery::ui {

class MainWindow;

class Workbench : public QObject {
    Q_OBJECT

public:
    /// Needs a QApplication. Puts the chosen theme and language in force.
    explicit Workbench(SessionOptions options = {});
    ~Workbench() override;

    EngineSession& session() { return session_; }
    ChatStore& chats() { return chats_; }
    MainWindow* window() { return window_.get(); }

    void show();
    void setLanguage(const QString& code);
    void setTheme(theme::Choice choice);

signals:
    /// The first picture of the first window has been painted.
    void firstFrame();

private:
    void makeWindow();

    FrameClock clock_;
    EngineSession session_;
    ChatStore chats_;
    std::unique_ptr<MainWindow> window_;
};

} // namespace orrery::ui
