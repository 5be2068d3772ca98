#include "ui/model_info.h"

#include "engine/model/gguf.h"

#include <QFileInfo>

#include <algorithm>
#include <map>

namespace orrery::ui {

namespace {

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

/// The file's name without its ending and format: the usual name of a model. (The name in its metadata is
/// often that of a training run.)
QString displayName(const QString& path, const QString& format) {
    QString name = QFileInfo(path).completeBaseName();
    if (!format.isEmpty() && name.endsWith(format, Qt::CaseInsensitive))
        name.chop(format.size() + 1);
    return name.isEmpty() ? QFileInfo(path).fileName() : name;
}

} // namespace

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

} // namespace orrery::ui
