#include "ui/engine_session.h"

#include "kernels/error.h"
#include "ui/frame_clock.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

namespace orrery::ui {

/// A request that has not ended.
struct EngineSession::Active {
    enum class Phase {
        Waiting,   ///< for a model
        Preparing, ///< on the text thread
        Running,   ///< in the engine
        Ending,    ///< its end is on the way to deltas()
    };
    ChatRequest request;
    Phase phase = Phase::Waiting;
    int promptTokens = 0; ///< once running
    /// Set when it ends: what the text thread has not begun for it is not done any more.
    std::shared_ptr<std::atomic<bool>> ended = std::make_shared<std::atomic<bool>>(false);

    ~Active() { *ended = true; }
};

EngineSession::EngineSession(FrameClock* clock, SessionOptions options, QObject* parent)
    : QObject(parent), clock_(clock), loader_(clock, std::move(options)), mailbox_(this) {
    connect(clock, &FrameClock::tick, this, &EngineSession::drain);
    connectLoader();
}

EngineSession::~EngineSession() {
    mailbox_.close();
    loader_.disconnect(this);
    active_.clear();
    if (current_)
        loader_.dispose(std::move(current_));
}

const ModelInfo& EngineSession::model() const {
    static const ModelInfo none;
    return current_ ? current_->info : none;
}

EngineSession::Active* EngineSession::find(RequestId id) {
    const auto it = active_.find(id);
    return it == active_.end() ? nullptr : it->second.get();
}

void EngineSession::setState(State state) {
    if (state_ == state)
        return;
    state_ = state;
    emit stateChanged(state);
}

// ---- Models ----

void EngineSession::connectLoader() {
    connect(&loader_, &ModelLoader::started, this, [this](const QString& path) {
        setState(State::Loading);
        emit loadStarted(path);
    });
    connect(&loader_, &ModelLoader::progress, this, &EngineSession::loadProgress);
    connect(&loader_, &ModelLoader::cancelled, this, [this](const QString& path) {
        if (loader_.loading()) {
            // What waits goes on waiting, now for the load that has taken its place.
            emit loadCancelled(path);
            return;
        }
        setState(hasModel() ? State::Ready : State::Empty);
        emit loadCancelled(path);
        releaseWaiting();
    });
    connect(&loader_, &ModelLoader::failed, this, [this](const LoadFailure& failure) {
        setState(hasModel() ? State::Ready : State::Empty);
        emit loadFailed(failure);
        releaseWaiting();
    });
    connect(&loader_, &ModelLoader::loaded, this, &EngineSession::adopt);
}

void EngineSession::loadModel(const QString& path) {
    loader_.load(path);
}

void EngineSession::cancelLoad() {
    loader_.cancel();
}

void EngineSession::adopt(const std::shared_ptr<LoadedModel>& model) {
    retire(false);
    current_ = model;
    setState(State::Ready);
    emit modelLoaded(this->model());
    releaseWaiting();
}

void EngineSession::unload() {
    cancelLoad();
    if (!current_)
        return;
    retire(true);
    setState(State::Empty);
    emit modelUnloaded();
}

/// Parts with the model in force: its requests end, and its engine ends on the loader's thread.
void EngineSession::retire(bool endWaiting) {
    ++generation_;
    if (!current_)
        return;
    drain(); // what was written before the end is kept
    if (!current_)
        return; // a slot unloaded it
    for (auto& [id, active] : active_)
        if (active->phase == Active::Phase::Running || endWaiting)
            endLater(id, FinishReason::cancelled);
    loader_.dispose(std::move(current_));
}

// ---- Requests ----

RequestId EngineSession::submit(ChatRequest request) {
    const RequestId id = new_request_id();
    auto active = std::make_unique<Active>();
    active->request = std::move(request);
    active_.emplace(id, std::move(active));
    activityHasChanged();
    if (state_ == State::Ready)
        prepare(id);
    else if (state_ == State::Empty)
        endLater(id, FinishReason::rejected, {AnswerFailure::Code::NoModel});
    return id;
}

void EngineSession::stop(RequestId id) {
    Active* active = find(id);
    if (!active)
        return;
    if (active->phase == Active::Phase::Running)
        current_->loop->cancel(id);
    else
        endLater(id, FinishReason::cancelled);
}

void EngineSession::retune(RequestId id, const SamplingParams& params) {
    Active* active = find(id);
    if (!active)
        return;
    active->request.sampling = params;
    if (active->phase != Active::Phase::Running)
        return;
    try {
        current_->loop->retune(id, params);
    } catch (const Error& error) {
        emit retuneRefused(id, QString::fromStdString(error.what()));
    }
}

/// The load is over, one way or the other: what waited for it goes on.
void EngineSession::releaseWaiting() {
    std::vector<RequestId> waiting;
    for (const auto& [id, active] : active_)
        if (active->phase == Active::Phase::Waiting)
            waiting.push_back(id);
    for (const RequestId id : waiting) {
        if (state_ == State::Ready)
            prepare(id);
        else if (state_ == State::Empty)
            endLater(id, FinishReason::rejected, {AnswerFailure::Code::ModelNotLoaded});
    }
}

/// Renders and tokenizes on the text thread.
void EngineSession::prepare(RequestId id) {
    Active* active = find(id);
    active->phase = Active::Phase::Preparing;
    text_.post([this, id, generation = generation_, mailbox = mailbox_, model = current_->model,
                name = this->model().name, messages = active->request.messages, ended = active->ended] {
        if (*ended)
            return;
        // `this` is used in the mailbox's calls alone, and these only while there is a receiver.
        AnswerFailure failure{.model = name};
        try {
            std::vector<TokenId> prompt = model->encode_chat(messages);
            mailbox.post([this, id, generation, prompt = std::move(prompt)]() mutable {
                start(id, generation, std::move(prompt));
            });
            return;
        } catch (const std::bad_alloc&) {
            failure.code = AnswerFailure::Code::NoMemory;
        } catch (const std::exception& error) {
            failure.code = model->chat_template ? AnswerFailure::Code::TemplateRefused
                                                : AnswerFailure::Code::NoChatTemplate;
            failure.detail = QString::fromStdString(error.what());
        }
        mailbox.post([this, id, generation, failure] { refuse(id, generation, failure); });
    });
}

void EngineSession::start(RequestId id, quint64 generation, std::vector<TokenId> prompt) {
    Active* active = find(id);
    if (!active || active->phase != Active::Phase::Preparing)
        return; // stopped meanwhile
    if (generation != generation_) {
        // Another model came in between: its vocabulary is another one.
        active->phase = Active::Phase::Waiting;
        if (state_ == State::Ready)
            prepare(id);
        return;
    }
    Request request;
    request.prompt = std::move(prompt);
    request.is_reply = true;
    request.sampling = active->request.sampling;
    request.max_tokens = active->request.maxTokens;
    for (const QString& stop : std::as_const(active->request.stop))
        request.stop.push_back(stop.toStdString());
    const int promptTokens = int(request.prompt.size());
    current_->loop->submit(id, std::move(request));
    active->phase = Active::Phase::Running;
    active->promptTokens = promptTokens;
    emit requestStarted(id, promptTokens);
}

void EngineSession::refuse(RequestId id, quint64 generation, AnswerFailure failure) {
    // What an earlier model's template refused, the one in force may take: start() prepares again.
    if (generation != generation_)
        start(id, generation, {});
    else
        endLater(id, FinishReason::rejected, std::move(failure));
}

/// Ends a request that the engine does not have (any more): from the event loop, so that the caller of
/// submit() knows its number by then.
void EngineSession::endLater(RequestId id, FinishReason reason, AnswerFailure failure) {
    Active* active = find(id);
    if (!active || active->phase == Active::Phase::Ending)
        return;
    active->phase = Active::Phase::Ending;
    *active->ended = true;
    QMetaObject::invokeMethod(
        this,
        [this, id, reason, failure = std::move(failure)] {
            active_.erase(id);
            AnswerDelta end;
            end.request = id;
            end.finish = reason;
            end.failure = failure;
            emit deltas({end});
            activityHasChanged();
        },
        Qt::QueuedConnection);
}

void EngineSession::activityHasChanged() {
    clock_->setBusy(this, !active_.empty());
    emit activityChanged(activeRequests());
}

// ---- What comes out ----

void EngineSession::drain() {
    drainReports();
    drainDeltas();
}

void EngineSession::drainReports() {
    if (!current_)
        return;
    std::vector<StepReport> taken;
    const uint64_t dropped = current_->loop->take_reports(taken);
    if (!taken.empty() || dropped > 0)
        emit reports(taken, dropped);
}

void EngineSession::drainDeltas() {
    if (!current_)
        return;
    std::vector<TokenDelta> taken = current_->loop->take_deltas();
    if (taken.empty())
        return;
    std::vector<AnswerDelta> brought;
    brought.reserve(taken.size());
    bool ended = false;
    for (TokenDelta& delta : taken) {
        AnswerFailure failure = failureOf(delta);
        if (delta.finish != FinishReason::none)
            ended |= active_.erase(delta.request) > 0;
        brought.push_back({std::move(delta), std::move(failure)});
    }
    emit deltas(brought);
    if (ended)
        activityHasChanged();
}

AnswerFailure EngineSession::failureOf(const TokenDelta& end) const {
    AnswerFailure failure;
    if (end.finish != FinishReason::rejected && end.finish != FinishReason::error)
        return failure;
    failure.code = end.finish == FinishReason::rejected ? AnswerFailure::Code::Refused
                                                        : AnswerFailure::Code::EngineFailed;
    failure.detail = QString::fromStdString(end.error);
    const auto active = active_.find(end.request);
    if (failure.code == AnswerFailure::Code::Refused && active != active_.end() &&
        active->second->promptTokens >= current_->info.contextTokens) {
        failure.code = AnswerFailure::Code::PromptTooLong;
        failure.promptTokens = active->second->promptTokens;
        failure.contextTokens = current_->info.contextTokens;
    }
    return failure;
}

} // namespace orrery::ui
