// The window's only door to the engine.
//
// EngineSession has at most one model, with an engine on a thread of its own (EngineLoop), and turns what
// they bring into signals on the GUI thread: a ModelLoader loads, a text thread applies templates and
// tokenizes, and what the engine wrote and reported comes by the frame clock. Nothing here ever waits, not
// even the session's end.
//
// A request has one number from the window to a block event, given out at once: a request can be asked for
// while the model still loads. It ends exactly once, with one FinishReason, whatever happens to the model
// meanwhile.
#pragma once

#include "engine/text/chat_template.h"
#include "ui/failure.h"
#include "ui/model_loader.h"
#include "ui/worker.h"

#include <QObject>
#include <QString>
#include <QStringList>

#include <map>
#include <memory>
#include <vector>

namespace orrery::ui {

/// A conversation that waits for its next answer.
struct ChatRequest {
    std::vector<orrery::ChatMessage> messages; ///< with the system prompt first, where there is one
    orrery::SamplingParams sampling;
    int maxTokens = -1; ///< new tokens at the most; -1: until the context is full
    QStringList stop;
};

/// What is new about a request: a token, a piece of text, the end, or several of these. The end of a request
/// that did not reach the engine comes as one, too.
struct AnswerDelta : orrery::TokenDelta {
    AnswerFailure failure; ///< with an end as rejected or error
};

class EngineSession : public QObject {
    Q_OBJECT

public:
    enum class State {
        Empty,   ///< no model
        Loading, ///< a model loads; an earlier one may still be there and answer
        Ready,   ///< a model is there
    };
    Q_ENUM(State)

    /// The clock must live longer. It runs while a model loads and while requests have not ended.
    explicit EngineSession(FrameClock* clock, SessionOptions options = {}, QObject* parent = nullptr);
    /// Ends everything, without a signal. What cannot be interrupted runs on by itself (see Worker).
    ~EngineSession() override;

    FrameClock* clock() const { return clock_; }

    State state() const { return state_; }
    bool hasModel() const { return current_ != nullptr; }
    /// About the loaded model; empty where there is none.
    const ModelInfo& model() const;
    /// The file that is being loaded; empty where none is.
    QString loadingPath() const { return loader_.path(); }
    /// Requests that have not ended, waiting ones included.
    int activeRequests() const { return int(active_.size()); }

    /// Asks for an answer. While a model loads the request waits for it. The end comes by deltas(): where
    /// there is no model, with FinishReason::rejected.
    orrery::RequestId submit(ChatRequest request);
    /// Ends a request; what it wrote so far stays. Numbers of ended requests are ignored.
    void stop(orrery::RequestId request);
    /// New sampling parameters, in force from the request's next token.
    void retune(orrery::RequestId request, const orrery::SamplingParams& params);

public slots:
    /// Loads a model file in the background. The previous model stays until the new one is ready, and for
    /// good where the load fails. A load in progress is cancelled first.
    void loadModel(const QString& path);
    void cancelLoad();
    /// Takes the model out of memory; its requests end as cancelled.
    void unload();

signals:
    void stateChanged(orrery::ui::EngineSession::State state);
    // A load ends with exactly one of modelLoaded(), loadCancelled() and loadFailed().
    void loadStarted(const QString& path);
    void loadProgress(qint64 bytesDone, qint64 bytesTotal); ///< once a frame
    void loadCancelled(const QString& path);
    void loadFailed(const orrery::ui::LoadFailure& failure);
    void modelLoaded(const orrery::ui::ModelInfo& model);
    void modelUnloaded();

    /// The prompt has been tokenized and has gone to the engine.
    void requestStarted(orrery::RequestId request, int promptTokens);
    /// The engine does not take new parameters: `detail` says why. The request goes on with those before.
    void retuneRefused(orrery::RequestId request, const QString& detail);
    /// Everything that requests brought since the last frame, in order; nothing is dropped.
    void deltas(const std::vector<orrery::ui::AnswerDelta>& deltas);
    /// Steps since the last frame, oldest first; `dropped` are those that the ring could not hold. They come
    /// before the same frame's deltas().
    void reports(const std::vector<orrery::StepReport>& reports, quint64 dropped);
    /// The number of requests that have not ended has changed.
    void activityChanged(int activeRequests);

private:
    struct Active;
    Active* find(orrery::RequestId id);

    void connectLoader();
    void setState(State state);
    void adopt(const std::shared_ptr<LoadedModel>& model);
    void retire(bool endWaiting);
    void releaseWaiting();
    void prepare(orrery::RequestId id);
    void start(orrery::RequestId id, quint64 generation, std::vector<orrery::TokenId> prompt);
    void refuse(orrery::RequestId id, quint64 generation, AnswerFailure failure);
    void endLater(orrery::RequestId id, orrery::FinishReason reason, AnswerFailure failure = {});
    void activityHasChanged();
    void drain();
    void drainReports();
    void drainDeltas();
    AnswerFailure failureOf(const orrery::TokenDelta& end) const;

    FrameClock* clock_;
    ModelLoader loader_;
    Worker text_; ///< templates and tokenizing, in the order of the requests
    Mailbox mailbox_;
    State state_ = State::Empty;
    std::shared_ptr<LoadedModel> current_;
    quint64 generation_ = 0; ///< counts models; work prepared for an earlier one is prepared again
    std::map<orrery::RequestId, std::unique_ptr<Active>> active_; ///< in the order in which they were asked
};

} // namespace orrery::ui
