// The conversation in the middle of the window: the messages of one chat and the field to write in.
//
// Contract with the window:
//   setChat()  shows another chat; the pane keeps no conversation of its own, ChatModel does.
//   send(), stop(), regenerate() act on the chat that is shown; the window's menu calls them.
//   The pane asks for a new chat by newChatRequested(), and for a model by openModelRequested(); the window
//   makes them.
#pragma once

#include "ui/chat/chat_model.h"

#include <QPointer>
#include <QWidget>

class QPushButton;

namespace orrery::ui {

class Composer;
class ConversationView;

class ChatPane : public QWidget {
    Q_OBJECT

public:
    explicit ChatPane(EngineSession* session, QWidget* parent = nullptr);

    void setChat(ChatModel* chat);
    ChatModel* chat() const { return chat_; }
    /// Puts the cursor into the field to write in.
    void focusComposer();

public slots:
    /// Sends what stands in the field.
    void send();
    void stop();
    void regenerate();

signals:
    void newChatRequested();
    void openModelRequested();

protected:
    void changeEvent(QEvent* event) override;

private:
    void updateButton();
    void updateEmptyText();
    void onReports(const std::vector<orrery::StepReport>& reports);

    EngineSession* session_;
    QPointer<ChatModel> chat_;
    ConversationView* view_;
    Composer* composer_;
    QPushButton* button_;
    QPushButton* open_;
};

} // namespace orrery::ui
