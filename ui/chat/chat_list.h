// The list of chats at the left: new, find, choose, rename, delete.
#pragma once

#include "ui/chat/chat_store.h"

#include <QWidget>

class QLineEdit;
class QListView;
class QSortFilterProxyModel;

namespace orrery::ui {

class ChatList : public QWidget {
    Q_OBJECT

public:
    explicit ChatList(ChatStore* store, QWidget* parent = nullptr);

    /// Marks a chat as the one that is shown.
    void setCurrent(const ChatModel* chat);
    void focusSearch();

signals:
    void chosen(orrery::ui::ChatModel* chat);
    void newChatRequested();
    void deleteRequested(orrery::ui::ChatModel* chat);

private:
    void showMenu(const QPoint& at);
    ChatModel* chatAt(const QModelIndex& index) const;

    ChatStore* store_;
    QSortFilterProxyModel* filter_;
    QListView* view_;
    QLineEdit* search_;
};

} // namespace orrery::ui
