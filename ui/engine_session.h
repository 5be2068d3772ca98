// The window's only door to the engine.
//
// EngineSession owns the engine thread (EngineLoop), a loader thread and a text thread (templates and
// tokenizing), and turns what they say into signals on the GUI thread. Nothing here ever waits: a load, a
// long prompt and the engine's end all happen elsewhere, and the window hears of them by signal.
//
// A request has one number from the window to a block event, given out at once: a request can be asked for
// while the model still loads. It ends exactly once, with one FinishReason, whatever happens to the model
// meanwhile.
#pragma once

#include "engine/engine_loop.h"
#include "engine/text/chat_template.h"

#include <QElapsedTimer>
#include <QObject>
#include <QString>
#include <QStringList>
#include <QThreadPool>
#include <QTimer>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace orrery::ui {

/// What the window shows about a loaded model.
struct ModelInfo {
    QString path;
    QString name;         ///< by the file's name, such as "SmolLM2-135M-Instruct"
    QString title;        ///< what the file calls itself; may be empty
    QString architecture; ///< such as "llama"
    QString format;       ///< weight format that most bytes are in, such as "Q4_1"
    QString device;       ///< such as "CPU AVX-512 VNNI"
    QString deviceReason; ///< why this device; may be empty
    int threads = 0;
    int contextTokens = 0;        ///< tokens of the longest sequence that the engine takes
    int trainedContextTokens = 0; ///< what the model was trained for
    int vocabularyTokens = 0;
    qint64 fileBytes = 0;
    qint64 weightBytes = 0; ///< read by one pass
    qint64 loadMs = 0;      ///< what loading took
    bool hasChatTemplate = false;
};

/// A conversation that waits for its next answer.
struct ChatRequest {
    std::vector<orrery::ChatMessage> messages; ///< with the system prompt first, where there is one
    orrery::SamplingParams sampling;
    int maxTokens = -1; ///< new tokens at the most; -1: until the context is full
    QStringList stop;
};

/// How a session makes its engine; the defaults are the window's.
struct SessionOptions {
    orrery::kernels::BackendKind backend = orrery::kernels::BackendKind::automatic;
    int threads = 0; ///< 0: one per core
    orrery::EngineConfig engine;
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

    explicit EngineSession(SessionOptions options = {}, QObject* parent = nullptr);
    /// Ends everything. This is the one place that waits, for the step in progress and for the loader to
    /// notice.
    ~EngineSession() override;

    State state() const { return state_; }
    bool hasModel() const { return loop_ != nullptr; }
    /// About the loaded model; empty where there is none.
    const ModelInfo& model() const { return info_; }
    /// The file that is being loaded; empty where none is.
    QString loadingPath() const { return loadingPath_; }
    /// Requests that have not ended, waiting ones included.
    int activeRequests() const { return int(active_.size()); }

    /// Asks for an answer. While a model loads the request waits for it. The end comes by deltas(): where
    /// there is no model, with FinishReason::rejected and a sentence.
    orrery::RequestId submit(ChatRequest request);
    /// Ends a request; what it wrote so far stays. Numbers of ended requests are ignored.
    void stop(orrery::RequestId request);
    /// New sampling parameters, in force from the request's next token.
    void retune(orrery::RequestId request, const orrery::SamplingParams& params);

    /// Emits reports() with what the engine has reported since the last call. The window calls it once a
    /// frame.
    void drainReports();

public slots:
    /// Loads a model file in the background. The previous model stays until the new one is ready, and for
    /// good where the load fails. A load in progress is cancelled first.
    void loadModel(const QString& path);
    void cancelLoad();
    /// Takes the model out of memory; its requests end as cancelled.
    void unload();

signals:
    void stateChanged(orrery::ui::EngineSession::State state);
    void loadStarted(const QString& path);
    void loadProgress(qint64 bytesDone, qint64 bytesTotal);
    void loadCancelled(const QString& path);
    /// One sentence: what happened, to what, what to do.
    void loadFailed(const QString& path, const QString& sentence);
    void modelLoaded(const orrery::ui::ModelInfo& model);
    void modelUnloaded();

    /// The prompt has been tokenized and has gone to the engine.
    void requestStarted(orrery::RequestId request, int promptTokens);
    /// New parameters make no sense to the engine; the request goes on with those before.
    void retuneRefused(orrery::RequestId request, const QString& sentence);
    /// Everything that requests brought since the last signal, in order; at most one signal every 8 ms.
    void deltas(const std::vector<orrery::TokenDelta>& deltas);
    /// Steps since the last signal, oldest first; `dropped` are those that the ring could not hold.
    void reports(const std::vector<orrery::StepReport>& reports, quint64 dropped);
    /// The number of requests that have not ended has changed.
    void activityChanged(int activeRequests);

private:
    struct Active;
    struct Loaded;
    Active* find(orrery::RequestId id);

    void setState(State state);
    void finishLoad(quint64 job, std::shared_ptr<Loaded> loaded);
    void failLoad(quint64 job, const QString& path, const QString& sentence, bool cancelled);
    void releaseWaiting();
    void prepare(orrery::RequestId id);
    void start(orrery::RequestId id, quint64 generation, std::vector<orrery::TokenId> prompt);
    void retire(bool endWaiting);
    void scheduleDrain();
    void drainDeltas();
    void endLater(orrery::RequestId id, orrery::FinishReason reason, const QString& sentence = {});

    SessionOptions options_;
    State state_ = State::Empty;
    ModelInfo info_;
    std::shared_ptr<orrery::Model> model_;
    std::unique_ptr<orrery::EngineLoop> loop_;
    quint64 generation_ = 0; ///< counts models; work prepared for an earlier one is prepared again

    QThreadPool loader_; ///< one thread: loads, and ends of engines
    QThreadPool text_;   ///< one thread: templates and tokenizing, in order
    quint64 loadJob_ = 0;
    QString loadingPath_;
    std::shared_ptr<std::atomic<bool>> cancelLoad_;

    std::map<orrery::RequestId, std::unique_ptr<Active>> active_; ///< in the order in which they were asked

    QTimer drainTimer_;
    QElapsedTimer sinceDrain_;
};

} // namespace orrery::ui

Q_DECLARE_METATYPE(orrery::ui::ModelInfo)
