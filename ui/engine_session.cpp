#include "ui/engine_session.h"

#include "engine/model/gguf.h"
#include "engine/model/model.h"
#include "kernels/error.h"

#include <QFileInfo>
#include <QPointer>

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>

namespace orrery::ui {

namespace {

/// A drain of the text queue moves whatever a few steps brought; more than about 120 drains a second would
/// only cost the GUI thread time that no eye can see.
constexpr int drain_interval_ms = 8;

/// Progress of a load is worth one signal a frame.
constexpr int progress_interval_ms = 16;

std::filesystem::path nativePath(const QString& path) {
    // Wide on Windows, UTF-8 elsewhere: no path is lost to a code page.
    return std::filesystem::path(path.toStdU16String());
}

/// The format that most of the weights' bytes are in.
QString mainFormat(const orrery::GgufFile& file) {
    std::map<kernels::TensorType, size_t> bytes;
    for (const GgufTensor& tensor : file.tensors())
        bytes[tensor.type] += tensor.bytes.size();
    const auto most = std::max_element(bytes.begin(), bytes.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == bytes.end())
        return {};
    const kernels::TensorTypeInfo* type = kernels::tensor_type_info(static_cast<uint32_t>(most->first));
    return type ? QString::fromUtf8(type->name) : QString();
}

/// The file's name without its ending and format: what people know a model by. (The name that the file gives
/// itself is often that of a training run.)
QString displayName(const QString& path, const QString& format) {
    QString name = QFileInfo(path).completeBaseName();
    if (!format.isEmpty() && name.endsWith(format, Qt::CaseInsensitive))
        name.chop(format.size() + 1);
    return name.isEmpty() ? QFileInfo(path).fileName() : name;
}

ModelInfo describe(const orrery::Model& model, const orrery::EngineConfig& engine, qint64 loadMs) {
    ModelInfo info;
    info.path = QString::fromStdU16String(model.path.u16string());
    if (model.file)
        info.format = mainFormat(*model.file);
    info.name = displayName(info.path, info.format);
    info.title = QString::fromStdString(model.config.name);
    info.architecture = QString::fromStdString(model.config.architecture);
    info.vocabularyTokens = model.config.vocab;
    info.trainedContextTokens = model.config.context_length;
    info.contextTokens = engine.context;
    if (model.file)
        info.fileBytes = qint64(model.file->file_bytes());
    if (model.weights)
        info.weightBytes = qint64(model.weights->pass_bytes(1, true));
    if (model.backend) {
        const kernels::DeviceInfo& device = model.backend->device();
        info.device = QString::fromStdString(device.name);
        info.deviceReason = QString::fromStdString(device.why);
        info.threads = device.threads;
    }
    info.hasChatTemplate = model.chat_template.has_value();
    info.loadMs = loadMs;
    return info;
}

} // namespace

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
};

/// What the loader thread hands over.
struct EngineSession::Loaded {
    std::shared_ptr<orrery::Model> model;
    std::unique_ptr<orrery::EngineLoop> loop;
    ModelInfo info;
};

EngineSession::EngineSession(SessionOptions options, QObject* parent)
    : QObject(parent), options_(std::move(options)) {
    loader_.setMaxThreadCount(1);
    loader_.setObjectName(QStringLiteral("orrery loader"));
    text_.setMaxThreadCount(1);
    text_.setObjectName(QStringLiteral("orrery text"));
    drainTimer_.setSingleShot(true);
    drainTimer_.setTimerType(Qt::PreciseTimer);
    connect(&drainTimer_, &QTimer::timeout, this, &EngineSession::drainDeltas);
}

EngineSession::~EngineSession() {
    if (cancelLoad_)
        *cancelLoad_ = true;
    text_.clear();
    loop_.reset(); // joins the engine's thread: no wakeup comes after this
    loader_.waitForDone();
    text_.waitForDone();
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

void EngineSession::loadModel(const QString& path) {
    if (cancelLoad_) {
        // What waits goes on waiting, now for this one.
        *cancelLoad_ = true;
        emit loadCancelled(loadingPath_);
    }
    const quint64 job = ++loadJob_;
    auto cancel = std::make_shared<std::atomic<bool>>(false);
    cancelLoad_ = cancel;
    loadingPath_ = path;
    setState(State::Loading);
    emit loadStarted(path);

    loader_.start([this, job, path, cancel, options = options_] {
        QElapsedTimer clock;
        clock.start();
        try {
            auto loaded = std::make_shared<Loaded>();
            LoadOptions load;
            load.backend = options.backend;
            load.threads = options.threads;
            load.cancel = cancel.get();
            qint64 nextProgressMs = 0;
            load.progress = [&](size_t done, size_t total) {
                if (done < total && clock.elapsed() < nextProgressMs)
                    return;
                nextProgressMs = clock.elapsed() + progress_interval_ms;
                QMetaObject::invokeMethod(
                    this,
                    [this, job, done, total] {
                        if (job == loadJob_ && state_ == State::Loading)
                            emit loadProgress(qint64(done), qint64(total));
                    },
                    Qt::QueuedConnection);
            };
            loaded->model = load_model(nativePath(path), load);
            if (*cancel)
                throw Cancelled("The load was cancelled.");
            auto engine = std::make_unique<Engine>(loaded->model, options.engine);
            loaded->loop = std::make_unique<EngineLoop>(std::move(engine));
            loaded->info = describe(*loaded->model, loaded->loop->config(), clock.elapsed());
            QMetaObject::invokeMethod(
                this,
                // Moved on, so that a model that came too late dies on the loader thread and not with the
                // event.
                [this, job, loaded]() mutable { finishLoad(job, std::move(loaded)); }, Qt::QueuedConnection);
        } catch (const Cancelled&) {
            QMetaObject::invokeMethod(
                this, [this, job, path] { failLoad(job, path, {}, true); }, Qt::QueuedConnection);
        } catch (const std::bad_alloc&) {
            const QString sentence =
                tr("There is not enough memory for '%1'. Close other programs, or open a smaller model.")
                    .arg(QFileInfo(path).fileName());
            QMetaObject::invokeMethod(
                this, [this, job, path, sentence] { failLoad(job, path, sentence, false); },
                Qt::QueuedConnection);
        } catch (const std::exception& error) {
            const QString sentence = QString::fromStdString(error.what());
            QMetaObject::invokeMethod(
                this, [this, job, path, sentence] { failLoad(job, path, sentence, false); },
                Qt::QueuedConnection);
        }
    });
}

void EngineSession::cancelLoad() {
    if (!cancelLoad_)
        return;
    *cancelLoad_ = true;
    // The loader thread answers when it notices; for the window the load is over now.
    const QString path = loadingPath_;
    failLoad(loadJob_, path, {}, true);
}

void EngineSession::failLoad(quint64 job, const QString& path, const QString& sentence, bool cancelled) {
    if (job != loadJob_ || !cancelLoad_)
        return; // cancelled or replaced meanwhile
    cancelLoad_.reset();
    ++loadJob_;
    loadingPath_.clear();
    setState(loop_ ? State::Ready : State::Empty);
    if (cancelled)
        emit loadCancelled(path);
    else {
        spdlog::info("ui: '{}' was not loaded: {}", path.toStdString(), sentence.toStdString());
        emit loadFailed(path, sentence);
    }
    releaseWaiting();
}

void EngineSession::finishLoad(quint64 job, std::shared_ptr<Loaded> loaded) {
    if (job != loadJob_ || !cancelLoad_) {
        // Too late: it was cancelled after the last byte. Its end may take a while, so not here.
        loader_.start([loaded = std::move(loaded)] {});
        return;
    }
    cancelLoad_.reset();
    loadingPath_.clear();
    retire(false);
    model_ = std::move(loaded->model);
    loop_ = std::move(loaded->loop);
    info_ = std::move(loaded->info);
    loop_->set_wakeup(
        [this] { QMetaObject::invokeMethod(this, &EngineSession::scheduleDrain, Qt::QueuedConnection); });
    setState(State::Ready);
    emit modelLoaded(info_);
    releaseWaiting();
}

void EngineSession::unload() {
    cancelLoad();
    if (!loop_)
        return;
    retire(true);
    info_ = {};
    setState(State::Empty);
    emit modelUnloaded();
}

/// Parts with the model in force: its requests end, and the loader thread waits for its engine's last step.
void EngineSession::retire(bool endWaiting) {
    ++generation_;
    if (!loop_)
        return;
    drainDeltas(); // what was written before the end is kept
    drainReports();
    if (!loop_)
        return; // somebody who heard of that unloaded it
    for (auto& [id, active] : active_)
        if (active->phase == Active::Phase::Running || endWaiting)
            endLater(id, FinishReason::cancelled);
    loop_->set_wakeup({});
    auto loop = std::shared_ptr<EngineLoop>(std::move(loop_));
    loader_.start([loop = std::move(loop), model = std::move(model_)] {});
}

// ---- Requests ----

RequestId EngineSession::submit(ChatRequest request) {
    const RequestId id = new_request_id();
    auto active = std::make_unique<Active>();
    active->request = std::move(request);
    active_.emplace(id, std::move(active));
    emit activityChanged(activeRequests());
    if (state_ == State::Ready)
        prepare(id);
    else if (state_ == State::Empty)
        endLater(id, FinishReason::rejected,
                 tr("No model is open, so there is nothing to answer with. Open one with File, Open model."));
    return id;
}

void EngineSession::stop(RequestId id) {
    Active* active = find(id);
    if (!active)
        return;
    if (active->phase == Active::Phase::Running)
        loop_->cancel(id);
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
        loop_->retune(id, params);
    } catch (const Error& error) {
        // The answer goes on as it was.
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
            endLater(id, FinishReason::rejected,
                     tr("The model was not loaded, so there is nothing to answer with. Open another model, "
                        "then ask again."));
    }
}

/// Renders and tokenizes on the text thread.
void EngineSession::prepare(RequestId id) {
    Active* active = find(id);
    active->phase = Active::Phase::Preparing;
    text_.start([this, id, generation = generation_, model = model_, messages = active->request.messages] {
        std::vector<TokenId> prompt;
        QString sentence;
        try {
            prompt = model->encode_chat(messages);
        } catch (const std::exception& error) {
            sentence = QString::fromStdString(error.what());
        }
        QMetaObject::invokeMethod(
            this,
            [this, id, generation, sentence, prompt = std::move(prompt)]() mutable {
                // What an earlier model's template refused, the one in force may take: start() prepares
                // again.
                if (sentence.isEmpty() || generation != generation_)
                    start(id, generation, std::move(prompt));
                else
                    endLater(id, FinishReason::rejected, sentence);
            },
            Qt::QueuedConnection);
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
    loop_->submit(id, std::move(request));
    active->phase = Active::Phase::Running;
    emit requestStarted(id, promptTokens);
}

/// Ends a request that the engine does not have (any more): from the event loop, so that whoever asked for it
/// knows its id by then.
void EngineSession::endLater(RequestId id, FinishReason reason, const QString& sentence) {
    Active* active = find(id);
    if (!active || active->phase == Active::Phase::Ending)
        return;
    active->phase = Active::Phase::Ending;
    QMetaObject::invokeMethod(
        this,
        [this, id, reason, sentence] {
            active_.erase(id);
            TokenDelta end;
            end.request = id;
            end.finish = reason;
            end.error = sentence.toStdString();
            emit deltas({end});
            emit activityChanged(activeRequests());
        },
        Qt::QueuedConnection);
}

// ---- What comes out ----

void EngineSession::scheduleDrain() {
    if (!loop_ || drainTimer_.isActive())
        return;
    if (!sinceDrain_.isValid() || sinceDrain_.elapsed() >= drain_interval_ms)
        drainDeltas();
    else
        drainTimer_.start(int(drain_interval_ms - sinceDrain_.elapsed()));
}

void EngineSession::drainDeltas() {
    if (!loop_)
        return;
    sinceDrain_.start();
    std::vector<TokenDelta> taken = loop_->take_deltas();
    if (taken.empty())
        return;
    bool ended = false;
    for (const TokenDelta& delta : taken)
        if (delta.finish != FinishReason::none)
            ended |= active_.erase(delta.request) > 0;
    emit deltas(taken);
    if (ended)
        emit activityChanged(activeRequests());
}

void EngineSession::drainReports() {
    if (!loop_)
        return;
    std::vector<StepReport> taken;
    const uint64_t dropped = loop_->take_reports(taken);
    if (taken.empty() && dropped == 0)
        return;
    emit reports(taken, dropped);
}

} // namespace orrery::ui
