// The conversation in the middle of the window: the messages of one chat and the field to write in.
//
// Contract with the window:
//   setChat()  shows another chat; the pane keeps no conversation of its own, ChatModel does, and the text
//   that is
//              not sent yet goes to ChatModel::draft() (the window is made anew when the language changes).
//   send(), stop(), regenerate() act on the chat that is shown; the window's menu calls them.
//   The pane asks for a new chat by newChatRequested(); the window makes it.
#pragma once

#include "ui/chat/chat_model.h"

#include <QPointer>
#include <QWidget>

class QPlainTextEdit;
class QPushButton;

namespace orrery::ui {

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

private:
    void refresh();

    EngineSession* session_;
    QPointer<ChatModel> chat_;
    QPlainTextEdit* view_;
    QPlainTextEdit* composer_;
    QPushButton* button_;
};

} // namespace orrery::ui
