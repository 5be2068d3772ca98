// The whole window, by real key presses and clicks, with a real engine on a tiny model: what a person does in
// the first minutes, and what must never happen then.
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"
#include "tests/support/tiny_model.h"
#include "ui/charts/chart_strip.h"
#include "ui/chat/chat_list.h"
#include "ui/chat/chat_pane.h"
#include "ui/frame_clock.h"
#include "ui/knobs/knob_row.h"
#include "ui/knobs/knobs_panel.h"
#include "ui/main_window.h"
#include "ui/models/recent_models.h"
#include "ui/workbench.h"

#include <QAccessible>
#include <QApplication>
#include <QDockWidget>
#include <QDropEvent>
#include <QLabel>
#include <QListView>
#include <QMenu>
#include <QMenuBar>
#include <QMimeData>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSettings>
#include <QSignalSpy>
#include <QSlider>
#include <QTemporaryDir>
#include <QToolButton>
#include <QtTest>

#include <fstream>

using namespace orrery;
using namespace orrery::ui;

namespace {

QString tinyPath(uint64_t seed = 1) {
    return QString::fromStdString(test::tiny_model({.seed = seed, .context_length = 16384}).string());
}

/// The tiny model's answers go on until the test stops them.
void makeEndless(ChatModel* chat) {
    ChatSettings settings = chat->settings();
    settings.sampling.logit_bias = {{2, -1e9f}, {0, -1e9f}};
    chat->setSettings(settings);
}

QAction* menuAction(const MainWindow* window, const QString& text) {
    for (QAction* action : window->findChildren<QAction*>())
        if (action->text() == text)
            return action;
    return nullptr;
}

} // namespace

class TestMainWindow : public QObject {
    Q_OBJECT

private:
    QTemporaryDir settings_;
    std::unique_ptr<Workbench> bench_;

    MainWindow* window() { return bench_->window(); }
    ChatModel* chat() { return window()->chat(); }
    QWidget* composer() { return window()->findChild<QWidget*>(QStringLiteral("composer")); }
    QPushButton* sendButton() { return window()->findChild<QPushButton*>(QStringLiteral("sendButton")); }
    template <typename T>
    T* find(const char* name) {
        return window()->findChild<T*>(QString::fromLatin1(name));
    }

    void type(const QString& text) { QTest::keyClicks(composer(), text); }
    void send(const QString& text) {
        type(text);
        QTest::mouseClick(sendButton(), Qt::LeftButton);
    }
    void load(const QString& path = tinyPath()) {
        QSignalSpy loaded(&bench_->session(), &EngineSession::modelLoaded);
        window()->openModel(path);
        QVERIFY(loaded.count() || loaded.wait(20'000));
    }

private slots:
    void initTestCase() {
        QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, settings_.path());
        QCoreApplication::setOrganizationName(QStringLiteral("orrery-test"));
        QCoreApplication::setApplicationName(QStringLiteral("window"));
        QApplication::setQuitOnLastWindowClosed(false);
        tinyPath(); // made before anything is measured or waited for
    }

    void init() {
        QSettings().clear();
        QSettings().setValue(QStringLiteral("language"), QStringLiteral("en"));
        bench_ = std::make_unique<Workbench>();
        bench_->show();
        QVERIFY(QTest::qWaitForWindowExposed(window()));
        window()->activateWindow();
        makeEndless(chat());
    }

    void cleanup() { bench_.reset(); }

    void cleanupTestCase() { QVERIFY(Worker::waitForEnded(std::chrono::seconds(20))); }

    void startsReadyToType() {
        QVERIFY(composer()->hasFocus());
        QCOMPARE(bench_->chats().rowCount(), 1);
        QVERIFY(find<QDockWidget>("chatsDock")->isVisible());
        QVERIFY(find<QDockWidget>("knobsDock")->isVisible());
        QVERIFY(find<QDockWidget>("chartsDock")->isVisible());
        QVERIFY(find<QLabel>("statusDevice")->text().contains(QStringLiteral("no model")));
        QVERIFY(!window()->frameClock()->running()); // nothing goes on: nothing is drawn
    }

    void paintsBeforeAnythingIsLoaded() {
        Workbench another;
        QSignalSpy first(&another, &Workbench::firstFrame);
        another.show();
        QTRY_COMPARE(first.count(), 1);
        QCOMPARE(another.session().state(), EngineSession::State::Empty);
        another.window()->repaint();
        QTest::qWait(20);
        QCOMPARE(first.count(), 1);
        // Another language makes another window, but the start is over: nothing is loaded again.
        another.setLanguage(QStringLiteral("zh_CN"));
        QTest::qWait(100);
        QCOMPARE(first.count(), 1);
        another.setLanguage(QStringLiteral("en"));
    }

    void typesWhileTheModelLoads() {
        window()->openModel(tinyPath());
        QVERIFY(bench_->session().state() == EngineSession::State::Loading);
        QVERIFY(find<QWidget>("loadBar")->isVisible());
        send(QStringLiteral("hello"));
        QCOMPARE(int(chat()->messages().size()), 2);
        QCOMPARE(chat()->messages()[0].text, QStringLiteral("hello"));
        QVERIFY(chat()->busy());
        QTRY_VERIFY(chat()->messages().back().tokens > 10);
        QVERIFY(!find<QWidget>("loadBar")->isVisible());
        window()->chatPane()->stop();
        QTRY_VERIFY(!chat()->busy());
    }

    void stopKeepsThePartialAnswer() {
        load();
        send(QStringLiteral("tell me"));
        QTRY_VERIFY(chat()->messages().back().text.size() > 30);
        QTest::keyClick(window(), Qt::Key_Escape);
        QTRY_VERIFY(!chat()->busy());
        const ChatMessageEntry& answer = chat()->messages().back();
        QCOMPARE(answer.finish, FinishReason::cancelled);
        QVERIFY(answer.text.size() > 30);
        QCOMPARE(answer.usage.completion_tokens, answer.tokens);
        QVERIFY(composer()->isEnabled());
    }

    void answersAgain() {
        load();
        send(QStringLiteral("one"));
        QTRY_VERIFY(chat()->messages().back().tokens > 10);
        QVERIFY(!menuAction(window(), QStringLiteral("&Answer again"))->isEnabled()); // not while it writes
        QTest::mouseClick(sendButton(), Qt::LeftButton);                              // now it stops
        QTRY_VERIFY(!chat()->busy());
        const QString before = chat()->messages().back().text;
        QTest::keyClick(window(), Qt::Key_R, Qt::ControlModifier);
        QVERIFY(chat()->busy());
        QCOMPARE(int(chat()->messages().size()), 2);
        QCOMPARE(chat()->messages()[0].text, QStringLiteral("one"));
        QTRY_VERIFY(chat()->messages().back().tokens > 10);
        window()->chatPane()->stop();
        QTRY_VERIFY(!chat()->busy());
        QVERIFY(chat()->messages().back().text != before); // a fresh seed
    }

    /// A knob that is turned by the keyboard while the answer streams is in force from the next token: at
    /// temperature 0 every token is the likeliest one, which the engine itself reports.
    void turnsAKnobInMidAnswer() {
        ChatSettings settings = chat()->settings();
        settings.sampling.temperature = 2;
        settings.sampling.top_k = 0;
        settings.sampling.top_p = 1;
        settings.sampling.min_p = 0;
        settings.sampling.logprobs = 1;
        chat()->setSettings(settings);
        window()->knobs()->setSettings(settings);
        std::vector<bool> likeliest;
        connect(&bench_->session(), &EngineSession::deltas, this,
                [&](const std::vector<AnswerDelta>& deltas) {
                    for (const AnswerDelta& delta : deltas)
                        if (delta.token && !delta.top_logprobs.empty())
                            likeliest.push_back(*delta.token == delta.top_logprobs.front().token);
                });
        load();
        send(QStringLiteral("anything"));
        QTRY_VERIFY(likeliest.size() > 50);
        QVERIFY(std::count(likeliest.begin(), likeliest.end(), false) > 10);

        auto* slider =
            window()->knobs()->findChild<KnobRow*>(QStringLiteral("temperature"))->findChild<QSlider*>();
        QTest::keyClick(slider, Qt::Key_Home);
        QVERIFY(chat()->busy());
        QCOMPARE(chat()->settings().sampling.temperature, 0.0f);
        QTRY_VERIFY(likeliest.size() > 100 && std::count(likeliest.end() - 50, likeliest.end(), true) == 50);
        window()->chatPane()->stop();
        QTRY_VERIFY(!chat()->busy());
        disconnect(&bench_->session(), nullptr, this, nullptr);
    }

    void aBrokenFileIsToldAndTheModelStays() {
        load();
        test::TemporaryFolder folder;
        const std::string whole = test::read_file(tinyPath().toStdString());
        const std::filesystem::path broken = folder / "broken.gguf";
        std::ofstream(broken, std::ios::binary) << whole.substr(0, whole.size() / 2);
        QSignalSpy failed(&bench_->session(), &EngineSession::loadFailed);
        window()->openModel(QString::fromStdString(broken.string()));
        QVERIFY(failed.count() || failed.wait(20'000));
        QVERIFY(!QApplication::activeModalWidget()); // never a dialog in the way
        auto* notice = find<QWidget>("noticeBar");
        QVERIFY(notice->isVisible());
        QVERIFY(find<QLabel>("noticeText")->text().contains(QStringLiteral("broken.gguf")));
        QVERIFY(!recent_models::list().contains(QString::fromStdString(broken.string())));

        send(QStringLiteral("still there?"));
        QTRY_VERIFY(chat()->messages().back().tokens > 5);
        window()->chatPane()->stop();
        QTRY_VERIFY(!chat()->busy());

        QTest::mouseClick(find<QToolButton>("noticeClose"), Qt::LeftButton);
        QVERIFY(!notice->isVisible());
    }

    /// A model leaves the recent ones only where its file is not there any more: any other failure may pass.
    void recentModelsOutliveFailuresThatMayPass_data() {
        QTest::addColumn<QString>("failure");
        QTest::addColumn<bool>("stays");
        QTest::newRow("memory") << "memory" << true;
        QTest::newRow("cancelled") << "cancelled" << true;
        QTest::newRow("replaced by another") << "replaced" << true;
        QTest::newRow("damaged") << "damaged" << true;
        QTest::newRow("moved away") << "missing" << false;
    }
    void recentModelsOutliveFailuresThatMayPass() {
        QFETCH(QString, failure);
        QFETCH(bool, stays);
        test::TemporaryFolder folder;
        const std::string whole = test::read_file(tinyPath().toStdString());
        const std::filesystem::path file = folder / "mine.gguf";
        std::ofstream(file, std::ios::binary) << whole;
        const QString path = QString::fromStdString(file.string());
        load(path);
        QCOMPARE(recent_models::list(), QStringList{path});

        SessionOptions options;
        if (failure == QStringLiteral("memory"))
            options.engine.cache_bytes = size_t(1) << 46; // 64 TiB
        if (failure == QStringLiteral("damaged"))
            std::filesystem::resize_file(file, whole.size() / 2);
        if (failure == QStringLiteral("missing"))
            std::filesystem::remove(file);
        bench_ = std::make_unique<Workbench>(options);
        bench_->show();
        QSignalSpy failed(&bench_->session(), &EngineSession::loadFailed);
        QSignalSpy cancelled(&bench_->session(), &EngineSession::loadCancelled);
        window()->openModel(path);
        if (failure == QStringLiteral("cancelled"))
            bench_->session().cancelLoad();
        if (failure == QStringLiteral("replaced"))
            window()->openModel(tinyPath(3));
        QTRY_COMPARE_WITH_TIMEOUT(failed.count() + cancelled.count(), 1, 20'000);
        QCOMPARE(recent_models::list().contains(path), stays);
        QCOMPARE(find<QWidget>("noticeBar")->isVisible(), failed.count() == 1);
    }

    /// What went wrong is worded when it is shown: another language words it anew.
    void failuresFollowTheLanguage() {
        send(QStringLiteral("nothing is open"));
        QTRY_VERIFY(!chat()->busy());
        const auto shown = [this] {
            return window()
                ->findChild<QWidget*>(QStringLiteral("answer"))
                ->findChild<QLabel*>(QStringLiteral("messageError"))
                ->text();
        };
        QVERIFY(shown().startsWith(QStringLiteral("No model is open")));
        bench_->setLanguage(QStringLiteral("zh_CN"));
        QVERIFY2(shown().startsWith(QString::fromUtf8("没有打开模型")), qPrintable(shown()));
        bench_->setLanguage(QStringLiteral("en"));
    }

    void askingWithoutAModelSaysWhatToDo() {
        send(QStringLiteral("hello?"));
        QTRY_VERIFY(!chat()->busy());
        QCOMPARE(chat()->messages().back().finish, FinishReason::rejected);
        QCOMPARE(chat()->messages().back().failure.code, AnswerFailure::Code::NoModel);
        QVERIFY(chat()->canRegenerate());
        load();
        QTest::keyClick(window(), Qt::Key_R, Qt::ControlModifier);
        QTRY_VERIFY(chat()->messages().back().tokens > 5);
        QVERIFY(!chat()->messages().back().failure);
    }

    void closesInMidAnswer() {
        load();
        send(QStringLiteral("a long story"));
        QTRY_VERIFY(chat()->messages().back().tokens > 5);
        QVERIFY(window()->close());
        bench_.reset(); // and the engine ends with it
    }

    void closesWhileAModelLoads() {
        window()->openModel(tinyPath(3));
        send(QStringLiteral("too early"));
        QVERIFY(window()->close());
        bench_.reset();
    }

    /// A tokenizer cannot be interrupted: the window's end leaves it alone.
    void closesWhileALongTextIsTokenized() {
        load();
        ChatRequest request;
        request.messages = {{"user", std::string(50'000'000, 'x')}};
        bench_->session().submit(request);
        QTest::qWait(50); // it has begun
        QCOMPARE(bench_->session().activeRequests(), 1);
        QVERIFY(window()->close());
        bench_.reset();
        QVERIFY(!Worker::waitForEnded(std::chrono::milliseconds(0)));
        QVERIFY(Worker::waitForEnded(std::chrono::minutes(2)));
    }

    /// Law 5: one timer drives all of the window, whatever goes on in it (what Qt's own widgets need for
    /// themselves, such as the blinking cursor, aside).
    void oneClockDrivesTheWholeWindow() {
        struct Watch : QObject {
            std::map<QObject*, int> fired;
            bool eventFilter(QObject* watched, QEvent* event) override {
                if (event->type() == QEvent::Timer &&
                    (qobject_cast<QTimer*>(watched) ||
                     QByteArray(watched->metaObject()->className()).startsWith("orrery::")))
                    ++fired[watched];
                return false;
            }
        } watch;
        qApp->installEventFilter(&watch);
        load();
        send(QStringLiteral("a long story"));
        QTRY_VERIFY(chat()->messages().back().tokens > 200);
        QTRY_VERIFY(!window()->charts()->stepCost()->columns().empty());
        QTRY_VERIFY(find<QLabel>("statusRate")->text().endsWith(QStringLiteral("tok/s")));
        window()->chatPane()->stop();
        QTRY_VERIFY(!chat()->busy());
        QTRY_VERIFY(!window()->frameClock()->running());
        qApp->removeEventFilter(&watch);
        // Qt Test's own waiting does not come by timer objects that live on.
        const auto* timer = window()->frameClock()->findChild<QTimer*>();
        QVERIFY(timer && watch.fired[const_cast<QTimer*>(timer)] > 10);
        for (const auto& [receiver, times] : watch.fired)
            QVERIFY2(receiver == timer || times <= 1, qPrintable(QStringLiteral("%1 times").arg(times)));
    }

    void twoChatsAnswerAtOnce() {
        load();
        ChatModel* first = chat();
        send(QStringLiteral("first"));
        QTest::keyClick(window(), Qt::Key_N, Qt::ControlModifier);
        ChatModel* second = chat();
        QVERIFY(second != first);
        QVERIFY(composer()->hasFocus());
        makeEndless(second);
        send(QStringLiteral("second"));
        QCOMPARE(bench_->session().activeRequests(), 2);
        QTRY_VERIFY(first->messages().back().tokens > 20);
        QTRY_VERIFY(second->messages().back().tokens > 20);
        // Choosing the other in the list shows it, and stops nothing.
        auto* list = find<QListView>("chatView");
        QCOMPARE(list->model()->rowCount(), 2);
        QTest::mouseClick(list->viewport(), Qt::LeftButton, {},
                          list->visualRect(list->model()->index(1, 0)).center());
        QCOMPARE(chat(), first);
        QCOMPARE(bench_->session().activeRequests(), 2);
        // Deleting one that writes ends its answer.
        window()->deleteChat(first);
        QCOMPARE(chat(), second);
        QTRY_COMPARE(bench_->session().activeRequests(), 1);
        QCOMPARE(bench_->chats().rowCount(), 1);
        second->stop();
        QTRY_COMPARE(bench_->session().activeRequests(), 0);
    }

    void theLastChatCanBeDeletedTwice() {
        send(QStringLiteral("x"));
        QTRY_VERIFY(!chat()->busy());
        window()->deleteChat(chat());
        QCOMPARE(bench_->chats().rowCount(), 1);
        QVERIFY(chat()->messages().empty());
        window()->deleteChat(chat());
        QCOMPARE(bench_->chats().rowCount(), 1);
    }

    void newChatTakesTheSettingsOver() {
        ChatSettings settings = chat()->settings();
        settings.sampling.temperature = 1.25f;
        settings.systemPrompt = QStringLiteral("Be brief.");
        chat()->setSettings(settings);
        send(QStringLiteral("x"));
        QTest::keyClick(window(), Qt::Key_N, Qt::ControlModifier);
        QCOMPARE(chat()->settings().sampling.temperature, 1.25f);
        QCOMPARE(window()->knobs()->settings().systemPrompt, QStringLiteral("Be brief."));
    }

    void aDraftStaysWithItsChat() {
        send(QStringLiteral("x"));
        QTRY_VERIFY(!chat()->busy());
        type(QStringLiteral("half a thought"));
        ChatModel* first = chat();
        QTest::keyClick(window(), Qt::Key_N, Qt::ControlModifier);
        QCOMPARE(chat()->draft(), QString());
        window()->showChat(first);
        QCOMPARE(qobject_cast<QPlainTextEdit*>(composer())->toPlainText(), QStringLiteral("half a thought"));
    }

    void dropsOpenModels() {
        const auto drop = [this](const QString& path) {
            QMimeData data;
            data.setUrls({QUrl::fromLocalFile(path)});
            QDragEnterEvent enter(QPoint(10, 10), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
            enter.ignore();
            QApplication::sendEvent(window(), &enter);
            if (!enter.isAccepted())
                return false;
            QDropEvent event(QPointF(10, 10), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
            QApplication::sendEvent(window(), &event);
            return true;
        };
        QVERIFY(!drop(QStringLiteral("/tmp/picture.png")));
        QSignalSpy loaded(&bench_->session(), &EngineSession::modelLoaded);
        QVERIFY(drop(tinyPath()));
        QVERIFY(loaded.count() || loaded.wait(20'000));
        QCOMPARE(recent_models::list(), QStringList{tinyPath()});
    }

    void theStatusLineShowsWhatRuns() {
        load();
        QVERIFY(find<QLabel>("statusModel")->text().contains(QStringLiteral("F32")));
        QVERIFY(find<QLabel>("statusDevice")->text().contains(QStringLiteral("thread")));
        QCOMPARE(find<QLabel>("statusContext")->text(), QStringLiteral("context 0 of 16,384"));
        send(QStringLiteral("count"));
        QTRY_VERIFY(window()->frameClock()->running());
        QTRY_VERIFY(find<QLabel>("statusRate")->text().endsWith(QStringLiteral("tok/s")));
        QTRY_VERIFY(!find<QLabel>("statusContext")->text().startsWith(QStringLiteral("context 0 ")));
        window()->chatPane()->stop();
        QTRY_VERIFY(!chat()->busy());
        const Usage usage = chat()->messages().back().usage;
        QTRY_COMPARE(
            find<QLabel>("statusContext")->text(),
            QStringLiteral("context %1 of 16,384")
                .arg(QLocale(QLocale::English).toString(usage.prompt_tokens + usage.completion_tokens)));
        QTRY_VERIFY(!window()->frameClock()->running());
    }

    void unloadsFromTheMenu() {
        load();
        QAction* unload = menuAction(window(), QStringLiteral("&Unload model"));
        QVERIFY(unload->isEnabled());
        unload->trigger();
        QCOMPARE(bench_->session().state(), EngineSession::State::Empty);
        QVERIFY(!unload->isEnabled());
    }

    void docksAreRemembered() {
        window()->findChild<QDockWidget*>(QStringLiteral("chartsDock"))->hide();
        window()->resize(1100, 700);
        QVERIFY(window()->close());
        bench_ = std::make_unique<Workbench>();
        bench_->show();
        QVERIFY(!find<QDockWidget>("chartsDock")->isVisible());
        QVERIFY(find<QDockWidget>("knobsDock")->isVisible());
        QCOMPARE(window()->size(), QSize(1100, 700));
    }

    void themesSwitchWhileItRuns() {
        load();
        send(QStringLiteral("x"));
        for (const theme::Choice choice :
             {theme::Choice::Dark, theme::Choice::Light, theme::Choice::System}) {
            bench_->setTheme(choice);
            QCOMPARE(theme::chosen(), choice);
            QTest::qWait(20);
            window()->grab();
        }
        QVERIFY(chat()->busy());
    }

    /// Tab goes round the whole window and comes back, and every stop has a name for a screen reader.
    void everythingIsReachedByTheKeyboard() {
        load();
        QSet<QWidget*> reached;
        composer()->setFocus();
        QWidget* focus = composer();
        for (int i = 0; i < 300 && !reached.contains(focus); ++i) {
            reached.insert(focus);
            QAccessibleInterface* accessible = QAccessible::queryAccessibleInterface(focus);
            QVERIFY2(accessible && !accessible->text(QAccessible::Name).isEmpty(),
                     qPrintable(QString::fromLatin1(focus->metaObject()->className()) + QLatin1Char(' ') +
                                focus->objectName()));
            QTest::keyClick(focus, Qt::Key_Tab);
            focus = QApplication::focusWidget();
            QVERIFY(focus);
        }
        for (const char* name :
             {"chatSearch", "chatView", "newChatButton", "presets", "maxTokens", "systemPrompt"})
            QVERIFY2(reached.contains(find<QWidget>(name)), name);
        for (const KnobRow* row : window()->findChildren<KnobRow*>())
            if (row->isVisible() && row->findChild<QSlider*>())
                QVERIFY2(reached.contains(row->findChild<QSlider*>()), row->knob().parameter->name);
    }

    /// Nothing is cut off at the smallest size that the layout allows.
    void fitsSmallWindows() {
        window()->resize(window()->minimumSizeHint());
        QTest::qWait(20);
        QVERIFY2(window()->width() <= 1000, qPrintable(QString::number(window()->width())));
        for (const QLabel* label : window()->knobs()->findChildren<QLabel*>())
            if (label->isVisible() && !label->text().isEmpty())
                QVERIFY2(label->width() >= label->minimumSizeHint().width(), qPrintable(label->text()));
    }
};

QTEST_MAIN(TestMainWindow)
#include "tst_main_window.moc"
