// One conversation: its messages, its settings, and the answer that is being written.
//
// The model is the conversation; panes only show it. It goes on receiving its answer while another chat is on
// the screen, and keeps every character that has come, whatever ends the answer.
#pragma once

#include "ui/engine_session.h"

#include <QAbstractListModel>
#include <QDateTime>

#include <vector>

namespace orrery::ui {

/// What the knobs set; each chat has its own.
struct ChatSettings {
    orrery::SamplingParams sampling;
    QString systemPrompt;
    int maxTokens = -1; ///< new tokens at the most; -1: until the context is full
};

struct ChatMessageEntry {
    enum class Role { User, Assistant };
    enum class State {
        Waiting,   ///< for the model or for the engine's first token
        Streaming, ///< tokens are coming
        Done,
    };
    Role role = Role::User;
    State state = State::Done;
    QString text;
    QDateTime time;
    // Of an answer:
    orrery::RequestId request = 0; ///< while it has not ended, and after
    int promptTokens = 0;          ///< once it has gone to the engine
    int tokens = 0;                ///< new tokens so far
    orrery::FinishReason finish = orrery::FinishReason::none;
    AnswerFailure failure; ///< for rejected and error
    quint64 seed = 0;
    orrery::Usage usage;     ///< with the end
    orrery::Timings timings; ///< with the end

    bool isAnswer() const { return role == Role::Assistant; }
};

class ChatModel : public QAbstractListModel {
    Q_OBJECT

public:
    enum Role {
        TextRole = Qt::DisplayRole,
        IsAnswerRole = Qt::UserRole + 1,
        StateRole,
        ErrorRole, ///< the sentence about the failure; empty where there is none
    };

    /// The session must live longer.
    explicit ChatModel(EngineSession* session, QObject* parent = nullptr);

    QString title() const { return title_; }
    void setTitle(const QString& title);
    QDateTime created() const { return created_; }

    /// What stands in the field to write in while another chat is shown.
    QString draft() const { return draft_; }
    void setDraft(const QString& draft) { draft_ = draft; }

    const ChatSettings& settings() const { return settings_; }
    /// In force from the next token of a running answer (system prompt and length: from the next answer).
    void setSettings(const ChatSettings& settings);

    const std::vector<ChatMessageEntry>& messages() const { return messages_; }
    /// Whether an answer is being written or waited for.
    bool busy() const { return request_ != 0; }
    /// The running answer's request, or 0.
    orrery::RequestId request() const { return request_; }

    /// Adds the user's message and asks for an answer. Does nothing while busy or for blank text.
    void send(const QString& text);
    /// Ends the running answer; what has been written stays.
    void stop();
    /// Whether there is an answer, or a question without one, to ask again for.
    bool canRegenerate() const;
    /// Takes away the last answer and asks again (with a fresh seed, unless one is set).
    void regenerate();

    int rowCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;

signals:
    void titleChanged(const QString& title);
    void busyChanged(bool busy);
    /// A piece was added to the end of a message's text (dataChanged() follows it). Views append; they never
    /// render the whole text again.
    void textAppended(int row, const QString& piece);
    /// The answer has ended: its state, reason, usage and timings are set.
    void answerFinished(int row);

private:
    void ask();
    void onDeltas(const std::vector<AnswerDelta>& deltas);
    void onStarted(orrery::RequestId request, int promptTokens);
    void changed(int row);

    EngineSession* session_;
    QString title_;
    QString draft_;
    QDateTime created_;
    ChatSettings settings_;
    std::vector<ChatMessageEntry> messages_;
    orrery::RequestId request_ = 0;
};

} // namespace orrery::ui
