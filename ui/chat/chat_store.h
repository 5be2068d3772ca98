// The chats of this session of the program, newest first. They outlive the window that shows them.
#pragma once

#include "ui/chat/chat_model.h"

#include <QAbstractListModel>

#include <vector>

namespace orrery::ui {

class ChatStore : public QAbstractListModel {
    Q_OBJECT

public:
    enum Role { BusyRole = Qt::UserRole + 1 };

    /// The session must live longer.
    explicit ChatStore(EngineSession* session, QObject* parent = nullptr);

    ChatModel* chat(int row) const { return chats_[size_t(row)]; }
    int rowOf(const ChatModel* chat) const; ///< -1 where it is not one of these

    /// Adds an empty chat with the settings of `like`, where given; an empty chat that is there already
    /// serves.
    ChatModel* addChat(const ChatModel* like = nullptr);
    /// Stops the chat's answer and forgets the chat.
    void removeChat(int row);

    int rowCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    bool setData(const QModelIndex& index, const QVariant& value, int role) override;
    Qt::ItemFlags flags(const QModelIndex& index) const override;

private:
    void changed(const ChatModel* chat);

    EngineSession* session_;
    std::vector<ChatModel*> chats_;
};

} // namespace orrery::ui
