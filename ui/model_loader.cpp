#include "ui/model_loader.h"

#include "kernels/error.h"
#include "ui/frame_clock.h"

#include <QElapsedTimer>
#include <QFileInfo>

#include <spdlog/spdlog.h>

#include <atomic>
#include <filesystem>
#include <new>

namespace orrery::ui {

namespace {

std::filesystem::path nativePath(const QString& path) {
    // Wide on Windows, UTF-8 elsewhere: no path is lost to a code page.
    return std::filesystem::path(path.toStdU16String());
}

/// What an error that is no lack of memory was about.
LoadFailure::Code codeOf(const QString& path) {
    const QFileInfo file(path);
    if (!file.exists())
        return LoadFailure::Code::Missing;
    return file.isReadable() ? LoadFailure::Code::NotUsable : LoadFailure::Code::NotReadable;
}

} // namespace

/// One load. It is held by the loader while it is the one that counts, and by the loader's thread while that
/// works on it: so that a model which came too late ends on that thread.
struct ModelLoader::Job {
    QString path;
    std::atomic<bool> cancel = false;
    std::atomic<qint64> bytesDone = 0;
    std::atomic<qint64> bytesTotal = 0;
    // Written by the thread before it announces the end:
    std::shared_ptr<LoadedModel> result; ///< none where it failed or was cancelled
    LoadFailure failure;
};

ModelLoader::ModelLoader(FrameClock* clock, SessionOptions options, QObject* parent)
    : QObject(parent), clock_(clock), options_(std::move(options)), mailbox_(this) {
    connect(clock, &FrameClock::tick, this, &ModelLoader::reportProgress);
}

ModelLoader::~ModelLoader() {
    mailbox_.close();
    if (!job_)
        return;
    job_->cancel = true;
    worker_.post([job = std::move(job_)] {});
}

QString ModelLoader::path() const {
    return job_ ? job_->path : QString();
}

void ModelLoader::load(const QString& path) {
    const std::shared_ptr<Job> before = job_;
    const auto job = std::make_shared<Job>();
    job->path = path;
    setJob(job);
    if (before) {
        before->cancel = true;
        emit cancelled(before->path);
    }
    emit started(path);
    worker_.post([job, options = options_, mailbox = mailbox_, this] {
        run(*job, options);
        // `this` is used in the mailbox's call alone, and that only while there is a receiver.
        mailbox.post([ended = std::weak_ptr(job), this] {
            if (const auto whole = ended.lock(); whole && whole == job_)
                finish();
        });
    });
}

/// On the loader's thread.
void ModelLoader::run(Job& job, const SessionOptions& options) {
    QElapsedTimer time;
    time.start();
    try {
        LoadOptions load;
        load.backend = options.backend;
        load.threads = options.threads;
        load.cancel = &job.cancel;
        load.progress = [&job](size_t done, size_t total) {
            job.bytesTotal = qint64(total);
            job.bytesDone = qint64(done);
        };
        auto result = std::make_shared<LoadedModel>();
        result->model = load_model(nativePath(job.path), load);
        if (job.cancel)
            return;
        result->loop = std::make_unique<EngineLoop>(std::make_unique<Engine>(result->model, options.engine));
        result->info = describe(*result->model, result->loop->config(), time.elapsed());
        job.result = std::move(result);
    } catch (const Cancelled&) {
    } catch (const OutOfMemory& error) {
        job.failure = {LoadFailure::Code::NoMemory, job.path, QString::fromStdString(error.what())};
    } catch (const std::bad_alloc&) {
        job.failure = {LoadFailure::Code::NoMemory, job.path, {}};
    } catch (const std::exception& error) {
        job.failure = {codeOf(job.path), job.path, QString::fromStdString(error.what())};
    }
}

void ModelLoader::finish() {
    reportProgress();
    const std::shared_ptr<Job> job = job_;
    setJob(nullptr);
    if (std::shared_ptr<LoadedModel> result = std::move(job->result)) {
        emit loaded(result);
        dispose(std::move(result)); // where no receiver keeps it
        return;
    }
    spdlog::info("ui: '{}' was not loaded: {}", job->path.toStdString(), job->failure.detail.toStdString());
    emit failed(job->failure);
}

void ModelLoader::cancel() {
    if (!job_)
        return;
    const std::shared_ptr<Job> job = job_;
    job->cancel = true;
    setJob(nullptr);
    emit cancelled(job->path);
}

void ModelLoader::dispose(std::shared_ptr<LoadedModel> model) {
    worker_.post([model = std::move(model)] {});
}

void ModelLoader::setJob(std::shared_ptr<Job> job) {
    job_ = std::move(job);
    reportedBytes_ = 0;
    clock_->setBusy(this, job_ != nullptr);
}

void ModelLoader::reportProgress() {
    if (!job_)
        return;
    const qint64 total = job_->bytesTotal;
    const qint64 done = job_->bytesDone;
    if (total <= 0 || done == reportedBytes_)
        return;
    reportedBytes_ = done;
    emit progress(done, total);
}

} // namespace orrery::ui
