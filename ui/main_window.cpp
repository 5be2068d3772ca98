#include "ui/main_window.h"

#include "ui/charts/chart_strip.h"
#include "ui/chat/chat_list.h"
#include "ui/chat/chat_pane.h"
#include "ui/dock.h"
#include "ui/frame_clock.h"
#include "ui/knobs/knobs_panel.h"
#include "ui/language.h"
#include "ui/models/load_bar.h"
#include "ui/models/recent_models.h"
#include "ui/notice_bar.h"
#include "ui/status_line.h"

#include <QActionGroup>
#include <QApplication>
#include <QCloseEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QMenuBar>
#include <QMessageBox>
#include <QMimeData>
#include <QSettings>
#include <QVBoxLayout>

namespace orrery::ui {

namespace {

/// Counts up when docks change so much that an old state must not be put back.
constexpr int state_version = 1;
constexpr QSize first_size(1280, 860);
constexpr int chats_width = 220;
constexpr int knobs_width = 290;
constexpr int charts_height = 230;

QString geometryKey() {
    return QStringLiteral("window/geometry");
}
QString stateKey() {
    return QStringLiteral("window/state");
}

/// The model file in what is dragged, or nothing.
QString draggedModel(const QMimeData* data) {
    if (!data->hasUrls() || data->urls().size() != 1)
        return {};
    const QString path = data->urls().constFirst().toLocalFile();
    return path.endsWith(QLatin1String(".gguf"), Qt::CaseInsensitive) ? path : QString();
}

} // namespace

MainWindow::MainWindow(EngineSession* session, ChatStore* store, QWidget* parent)
    : QMainWindow(parent),
      session_(session),
      store_(store),
      pane_(new ChatPane(session)),
      list_(new ChatList(store)),
      knobs_(new KnobsPanel),
      charts_(new ChartStrip(session)),
      notice_(new NoticeBar),
      status_(new StatusLine(session)) {
    setObjectName(QStringLiteral("mainWindow"));
    setWindowTitle(tr("Orrery"));
    setWindowIcon(QIcon(QStringLiteral(":/orrery/icons/orrery.svg")));
    setAcceptDrops(true);
    setDockNestingEnabled(false);
    setCentralWidget(makeCentre());
    setStatusBar(status_);
    makeDocks();
    makeMenus();
    connectSession();

    resize(first_size);
    const QSettings settings;
    restoreGeometry(settings.value(geometryKey()).toByteArray());
    if (!restoreState(settings.value(stateKey()).toByteArray(), state_version)) {
        resizeDocks({docks_[0], docks_[1]}, {chats_width, knobs_width}, Qt::Horizontal);
        resizeDocks({docks_[2]}, {charts_height}, Qt::Vertical);
    }

    if (store_->rowCount() == 0)
        newChat();
    else
        showChat(store_->chat(0));
}

MainWindow::~MainWindow() = default;

// ---- Layout ----

QWidget* MainWindow::makeCentre() {
    auto* centre = new QWidget;
    centre->setObjectName(QStringLiteral("centre"));
    auto* column = new QVBoxLayout(centre);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    column->addWidget(notice_);
    column->addWidget(new LoadBar(session_));
    column->addWidget(pane_, 1);
    return centre;
}

void MainWindow::makeDocks() {
    setCorner(Qt::BottomLeftCorner, Qt::BottomDockWidgetArea);
    setCorner(Qt::BottomRightCorner, Qt::BottomDockWidgetArea);
    docks_[0] = makeDock(QStringLiteral("chatsDock"), tr("Chats"), list_, this);
    docks_[1] = makeDock(QStringLiteral("knobsDock"), tr("Knobs"), knobs_, this);
    docks_[2] = makeDock(QStringLiteral("chartsDock"), tr("Engine"), charts_, this);
    addDockWidget(Qt::LeftDockWidgetArea, docks_[0]);
    addDockWidget(Qt::RightDockWidgetArea, docks_[1]);
    addDockWidget(Qt::BottomDockWidgetArea, docks_[2]);
}

void MainWindow::makeMenus() {
    makeFileMenu();
    makeChatMenu();
    makeViewMenu();
    makeHelpMenu();
}

void MainWindow::makeFileMenu() {
    QMenu* menu = menuBar()->addMenu(tr("&File"));
    QAction* open = menu->addAction(theme::icon(QStringLiteral("folder")), tr("&Open model…"), this,
                                    &MainWindow::chooseModelFile);
    open->setShortcut(QKeySequence::Open);
    recent_ = menu->addMenu(tr("&Recent models"));
    connect(recent_, &QMenu::aboutToShow, this, &MainWindow::fillRecentMenu);
    unload_ = menu->addAction(tr("&Unload model"), session_, &EngineSession::unload);
    menu->addSeparator();
    QAction* quit = menu->addAction(tr("&Quit"), this, &QWidget::close);
    quit->setShortcut(QKeySequence::Quit);
    quit->setMenuRole(QAction::QuitRole);
}

void MainWindow::makeChatMenu() {
    QMenu* menu = menuBar()->addMenu(tr("&Chat"));
    QAction* add =
        menu->addAction(theme::icon(QStringLiteral("plus")), tr("&New chat"), this, &MainWindow::newChat);
    add->setShortcut(QKeySequence::New);
    QAction* find = menu->addAction(theme::icon(QStringLiteral("search")), tr("&Find a chat"), this, [this] {
        docks_[0]->show();
        list_->focusSearch();
    });
    find->setShortcut(Qt::CTRL | Qt::SHIFT | Qt::Key_F);
    menu->addSeparator();
    regenerate_ = menu->addAction(theme::icon(QStringLiteral("regenerate")), tr("&Answer again"), pane_,
                                  &ChatPane::regenerate);
    regenerate_->setShortcut(Qt::CTRL | Qt::Key_R);
    stop_ =
        menu->addAction(theme::icon(QStringLiteral("stop")), tr("&Stop the answer"), pane_, &ChatPane::stop);
    stop_->setShortcut(Qt::Key_Escape);
}

void MainWindow::makeViewMenu() {
    QMenu* menu = menuBar()->addMenu(tr("&View"));
    const QKeyCombination keys[] = {Qt::CTRL | Qt::SHIFT | Qt::Key_L, Qt::CTRL | Qt::SHIFT | Qt::Key_K,
                                    Qt::CTRL | Qt::SHIFT | Qt::Key_E};
    for (size_t i = 0; i < std::size(docks_); ++i) {
        QAction* toggle = docks_[i]->toggleViewAction();
        toggle->setShortcut(keys[i]);
        menu->addAction(toggle);
    }
    menu->addSeparator();

    QMenu* themes = menu->addMenu(tr("&Theme"));
    auto* themeGroup = new QActionGroup(this);
    const std::pair<theme::Choice, QString> choices[] = {{theme::Choice::System, tr("As the system")},
                                                         {theme::Choice::Light, tr("Light")},
                                                         {theme::Choice::Dark, tr("Dark")}};
    for (const auto& [choice, name] : choices) {
        QAction* action =
            themes->addAction(name, this, [this, choice = choice] { emit themeChosen(choice); });
        action->setCheckable(true);
        action->setChecked(theme::chosen() == choice);
        themeGroup->addAction(action);
    }

    QMenu* languages = menu->addMenu(tr("&Language"));
    auto* languageGroup = new QActionGroup(this);
    std::vector<language::Language> all = language::available();
    all.insert(all.begin(), {QString(), tr("As the system")});
    for (const auto& [code, name] : all) {
        QAction* action =
            languages->addAction(name, this, [this, code = code] { emit languageChosen(code); });
        action->setCheckable(true);
        action->setChecked(language::chosen() == code);
        languageGroup->addAction(action);
    }
}

void MainWindow::makeHelpMenu() {
    QMenu* menu = menuBar()->addMenu(tr("&Help"));
    QAction* action = menu->addAction(tr("&About Orrery"), this, &MainWindow::about);
    action->setMenuRole(QAction::AboutRole);
}

void MainWindow::fillRecentMenu() {
    recent_->clear();
    const QStringList paths = recent_models::list();
    for (const QString& path : paths) {
        QAction* action =
            recent_->addAction(QFileInfo(path).completeBaseName(), this, [this, path] { openModel(path); });
        action->setToolTip(path);
        action->setStatusTip(path);
    }
    if (paths.isEmpty()) {
        recent_->addAction(tr("None yet"))->setEnabled(false);
        return;
    }
    recent_->addSeparator();
    recent_->addAction(tr("Forget all"), this, [] { recent_models::clear(); });
}

// ---- What happens ----

void MainWindow::connectSession() {
    session_->clock()->setWindow(this);
    connect(session_, &EngineSession::stateChanged, this, &MainWindow::refreshActions);
    connect(session_, &EngineSession::loadStarted, notice_, &NoticeBar::dismiss);
    connect(session_, &EngineSession::loadFailed, this, [this](const LoadFailure& failure) {
        // Any other failure may pass.
        if (failure.code == LoadFailure::Code::Missing)
            recent_models::remove(failure.path);
        QString text = sentence(failure);
        if (session_->hasModel())
            text += QLatin1Char(' ') + tr("%1 stays in use.").arg(session_->model().name);
        notice_->showError(text);
    });
    connect(session_, &EngineSession::retuneRefused, this, [this](RequestId, const QString& detail) {
        notice_->showError(tr("The answer goes on with the settings that it had. %1").arg(detail));
    });
    connect(session_, &EngineSession::modelLoaded, this,
            [](const ModelInfo& info) { recent_models::add(info.path); });

    connect(knobs_, &KnobsPanel::settingsChanged, this, [this](const ChatSettings& settings) {
        if (chat_)
            chat_->setSettings(settings);
    });
    connect(pane_, &ChatPane::newChatRequested, this, &MainWindow::newChat);
    connect(pane_, &ChatPane::openModelRequested, this, &MainWindow::chooseModelFile);
    connect(list_, &ChatList::newChatRequested, this, &MainWindow::newChat);
    connect(list_, &ChatList::chosen, this, &MainWindow::showChat);
    connect(list_, &ChatList::deleteRequested, this, &MainWindow::deleteChat);
}

void MainWindow::newChat() {
    showChat(store_->addChat(chat_));
    pane_->focusComposer();
}

void MainWindow::showChat(ChatModel* chat) {
    if (chat == chat_)
        return;
    if (chat_)
        disconnect(chat_, nullptr, this, nullptr);
    chat_ = chat;
    connect(chat_, &ChatModel::busyChanged, this, &MainWindow::refreshActions);
    connect(chat_, &ChatModel::rowsInserted, this, &MainWindow::refreshActions);
    pane_->setChat(chat_);
    knobs_->setSettings(chat_->settings());
    status_->setChat(chat_);
    list_->setCurrent(chat_);
    refreshActions();
}

void MainWindow::deleteChat(ChatModel* chat) {
    const int row = store_->rowOf(chat);
    if (row < 0)
        return;
    // Another one first: the window never shows a chat that is gone.
    if (chat == chat_) {
        const int next = row + 1 < store_->rowCount() ? row + 1 : row - 1;
        if (next >= 0)
            showChat(store_->chat(next));
        else if (!chat->messages().empty())
            showChat(store_->addChat(chat_));
        else
            return; // the one empty chat stays
    }
    store_->removeChat(store_->rowOf(chat));
    list_->setCurrent(chat_);
}

void MainWindow::chooseModelFile() {
    auto* dialog = new QFileDialog(this, tr("Open a model"));
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setFileMode(QFileDialog::ExistingFile);
    dialog->setNameFilters({tr("Models (*.gguf)"), tr("All files (*)")});
    const QStringList recent = recent_models::list();
    dialog->setDirectory(recent.isEmpty() ? recent_models::modelFolder()
                                          : QFileInfo(recent.first()).absolutePath());
    connect(dialog, &QFileDialog::fileSelected, this, &MainWindow::openModel);
    dialog->open();
}

void MainWindow::openModel(const QString& path) {
    session_->loadModel(path);
}

void MainWindow::about() {
    auto* box = new QMessageBox(this);
    box->setAttribute(Qt::WA_DeleteOnClose);
    box->setWindowTitle(tr("About Orrery"));
    box->setIconPixmap(windowIcon().pixmap(QSize(64, 64), devicePixelRatioF()));
    box->setText(QStringLiteral("<h3>Orrery %1</h3>").arg(QApplication::applicationVersion()));
    box->setInformativeText(
        tr("A workbench for the inference of language models. Every number and every picture in it is "
           "measured in "
           "the step that has just run.\n\nFree software under the GNU General Public License, version 3."));
    box->open();
}

void MainWindow::refreshActions() {
    unload_->setEnabled(session_->hasModel());
    stop_->setEnabled(chat_ && chat_->busy());
    regenerate_->setEnabled(chat_ && chat_->canRegenerate());
}

void MainWindow::rememberState() const {
    QSettings settings;
    settings.setValue(geometryKey(), saveGeometry());
    settings.setValue(stateKey(), saveState(state_version));
}

// ---- Events ----

void MainWindow::changeEvent(QEvent* event) {
    QMainWindow::changeEvent(event);
    if (event->type() == QEvent::ThemeChange)
        emit themeChosen(
            theme::chosen()); // the desktop's theme is another one: put the choice in force again
}

void MainWindow::closeEvent(QCloseEvent* event) {
    rememberState();
    QMainWindow::closeEvent(event);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
    if (!draggedModel(event->mimeData()).isEmpty())
        event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
    const QString path = draggedModel(event->mimeData());
    if (path.isEmpty())
        return;
    event->acceptProposedAction();
    openModel(path);
}

void MainWindow::paintEvent(QPaintEvent* event) {
    QMainWindow::paintEvent(event);
    if (painted_)
        return;
    painted_ = true;
    // Its children paint after it, in the same turn of the event loop.
    QMetaObject::invokeMethod(this, &MainWindow::firstFrame, Qt::QueuedConnection);
}

} // namespace orrery::ui
