// The window: chats on the left, the conversation in the middle, knobs on the right, pictures below.
//
// It shows what the session and the chat store hold and owns neither, so that it can be made anew (which is
// how the language changes) without losing a word.
#pragma once

#include "ui/chat/chat_store.h"
#include "ui/engine_session.h"
#include "ui/theme.h"

#include <QMainWindow>
#include <QPointer>

class QAction;
class QMenu;

namespace orrery::ui {

class ChartStrip;
class ChatList;
class ChatPane;
class FrameClock;
class KnobsPanel;
class NoticeBar;
class StatusLine;

class MainWindow : public QMainWindow {
    Q_OBJECT

public:
    MainWindow(EngineSession* session, ChatStore* store, QWidget* parent = nullptr);
    ~MainWindow() override;

    ChatPane* chatPane() const { return pane_; }
    KnobsPanel* knobs() const { return knobs_; }
    ChartStrip* charts() const { return charts_; }
    FrameClock* frameClock() const { return session_->clock(); }
    ChatModel* chat() const { return chat_; }

    /// Writes size, place and docks to the settings; the next window takes them from there.
    void rememberState() const;

public slots:
    void newChat();
    void showChat(orrery::ui::ChatModel* chat);
    void deleteChat(orrery::ui::ChatModel* chat);
    void chooseModelFile();
    void openModel(const QString& path);
    void about();

signals:
    void languageChosen(const QString& code);
    void themeChosen(orrery::ui::theme::Choice choice);
    /// The first picture of the window has been painted.
    void firstFrame();

protected:
    void changeEvent(QEvent* event) override;
    void closeEvent(QCloseEvent* event) override;
    void dragEnterEvent(QDragEnterEvent* event) override;
    void dropEvent(QDropEvent* event) override;
    void paintEvent(QPaintEvent* event) override;

private:
    QWidget* makeCentre();
    void makeDocks();
    void makeMenus();
    void makeFileMenu();
    void makeChatMenu();
    void makeViewMenu();
    void makeHelpMenu();
    void fillRecentMenu();
    void connectSession();
    void refreshActions();

    EngineSession* session_;
    ChatStore* store_;
    QPointer<ChatModel> chat_;
    ChatPane* pane_;
    ChatList* list_;
    KnobsPanel* knobs_;
    ChartStrip* charts_;
    NoticeBar* notice_;
    StatusLine* status_;
    QDockWidget* docks_[3] = {};
    QMenu* recent_ = nullptr;
    QAction* unload_ = nullptr;
    QAction* stop_ = nullptr;
    QAction* regenerate_ = nullptr;
    bool painted_ = false;
};

} // namespace orrery::ui
