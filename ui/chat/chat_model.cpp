#include "ui/chat/chat_model.h"

#include "ui/format.h"

namespace orrery::ui {

namespace {
constexpr int max_title_length = 48;
}

ChatModel::ChatModel(EngineSession* session, QObject* parent)
    : QAbstractListModel(parent), session_(session), created_(QDateTime::currentDateTime()) {
    connect(session, &EngineSession::deltas, this, &ChatModel::onDeltas);
    connect(session, &EngineSession::requestStarted, this, &ChatModel::onStarted);
}

void ChatModel::setTitle(const QString& title) {
    if (title_ == title)
        return;
    title_ = title;
    emit titleChanged(title_);
}

void ChatModel::setSettings(const ChatSettings& settings) {
    settings_ = settings;
    if (request_)
        session_->retune(request_, settings_.sampling);
}

void ChatModel::send(const QString& text) {
    if (busy() || text.trimmed().isEmpty())
        return;
    if (title_.isEmpty())
        setTitle(format::shortened(text.simplified(), max_title_length));
    const int row = int(messages_.size());
    beginInsertRows({}, row, row);
    ChatMessageEntry message;
    message.text = text;
    message.time = QDateTime::currentDateTime();
    messages_.push_back(std::move(message));
    endInsertRows();
    ask();
}

void ChatModel::ask() {
    ChatRequest request;
    if (!settings_.systemPrompt.trimmed().isEmpty())
        request.messages.push_back({"system", settings_.systemPrompt.toStdString()});
    for (size_t i = 0; i < messages_.size(); ++i) {
        const ChatMessageEntry& message = messages_[i];
        // What was refused (it was too long, say) would be refused again, and every later question with it.
        if (!message.isAnswer() && i + 1 < messages_.size() &&
            messages_[i + 1].finish == FinishReason::rejected)
            continue;
        // An answer that brought nothing is no turn of the conversation.
        if (message.isAnswer() && message.text.isEmpty())
            continue;
        request.messages.push_back({message.isAnswer() ? "assistant" : "user", message.text.toStdString()});
    }
    request.sampling = settings_.sampling;
    request.maxTokens = settings_.maxTokens;

    const int row = int(messages_.size());
    beginInsertRows({}, row, row);
    ChatMessageEntry answer;
    answer.role = ChatMessageEntry::Role::Assistant;
    answer.state = ChatMessageEntry::State::Waiting;
    answer.time = QDateTime::currentDateTime();
    request_ = answer.request = session_->submit(std::move(request));
    messages_.push_back(std::move(answer));
    endInsertRows();
    emit busyChanged(true);
}

void ChatModel::stop() {
    if (request_)
        session_->stop(request_);
}

bool ChatModel::canRegenerate() const {
    return !busy() && !messages_.empty();
}

void ChatModel::regenerate() {
    if (!canRegenerate())
        return;
    if (messages_.back().isAnswer()) {
        const int row = int(messages_.size()) - 1;
        beginRemoveRows({}, row, row);
        messages_.pop_back();
        endRemoveRows();
    }
    ask();
}

void ChatModel::onStarted(RequestId request, int promptTokens) {
    if (request != request_)
        return;
    messages_.back().promptTokens = promptTokens;
    changed(int(messages_.size()) - 1);
}

void ChatModel::onDeltas(const std::vector<AnswerDelta>& deltas) {
    if (!request_)
        return;
    // The pieces of one signal go to the view as one.
    QString piece;
    const AnswerDelta* end = nullptr;
    bool touched = false;
    ChatMessageEntry& answer = messages_.back();
    for (const AnswerDelta& delta : deltas) {
        if (delta.request != request_)
            continue;
        touched = true;
        piece += QString::fromStdString(delta.text);
        if (delta.token)
            ++answer.tokens;
        if (delta.seed)
            answer.seed = delta.seed;
        if (delta.finish != FinishReason::none)
            end = &delta;
    }
    if (!touched)
        return;
    const int row = int(messages_.size()) - 1;
    if (answer.state == ChatMessageEntry::State::Waiting && answer.tokens > 0)
        answer.state = ChatMessageEntry::State::Streaming;
    if (end) {
        answer.state = ChatMessageEntry::State::Done;
        answer.finish = end->finish;
        answer.failure = end->failure;
        answer.usage = end->usage;
        answer.timings = end->timings;
        request_ = 0;
    }
    if (!piece.isEmpty()) {
        answer.text += piece;
        emit textAppended(row, piece);
    }
    changed(row);
    if (end) {
        emit answerFinished(row);
        emit busyChanged(false);
    }
}

void ChatModel::changed(int row) {
    emit dataChanged(index(row), index(row));
}

int ChatModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : int(messages_.size());
}

QVariant ChatModel::data(const QModelIndex& index, int role) const {
    if (!checkIndex(index, CheckIndexOption::IndexIsValid | CheckIndexOption::ParentIsInvalid))
        return {};
    const ChatMessageEntry& message = messages_[size_t(index.row())];
    switch (role) {
    case TextRole:
        return message.text;
    case IsAnswerRole:
        return message.isAnswer();
    case StateRole:
        return int(message.state);
    case ErrorRole:
        return sentence(message.failure);
    case Qt::AccessibleTextRole:
        return (message.isAnswer() ? tr("Answer: %1") : tr("You: %1")).arg(message.text);
    default:
        return {};
    }
}

} // namespace orrery::ui
