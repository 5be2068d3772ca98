// inspect: what is in a model file, and raw blocks decoded.
#include "app/cli/verbs.h"
#include "engine/model/describe.h"
#include "engine/model/gguf.h"
#include "engine/model/wording.h"
#include "engine/platform/file.h"
#include "kernels/error.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>

namespace orrery::cli {

namespace {

namespace fs = std::filesystem;

kernels::TensorType tensor_type(const std::string& name) {
    for (const kernels::TensorType type : kernels::all_tensor_types())
        if (name == kernels::info(type).name)
            return type;
    std::string known;
    for (const kernels::TensorType type : kernels::all_tensor_types())
        known += (known.empty() ? "" : ", ") + std::string(kernels::info(type).name);
    throw Error("There is no block format '" + name + "': it is one of " + known + ".");
}

/// Decodes a file of raw blocks to a file of little-endian float32 values.
int dequantize(const std::vector<std::string>& arguments) {
    const kernels::TensorType type = tensor_type(arguments[0]);
    const std::string blocks = platform::read_whole_file(arguments[1]);
    std::error_code absent;
    if (fs::equivalent(arguments[1], arguments[2], absent))
        throw Error("'" + arguments[2] + "' is the file that is read: the values need another one.");
    const kernels::TensorTypeInfo& layout = kernels::info(type);
    if (blocks.size() % layout.block_bytes != 0)
        throw Error("'" + arguments[1] + "' has " + std::to_string(blocks.size()) +
                    " bytes, which is no multiple of the " + std::to_string(layout.block_bytes) +
                    " bytes of a block of " + layout.name + ".");
    std::vector<float> values(blocks.size() / layout.block_bytes * layout.block_elements);
    kernels::decode(type, reinterpret_cast<const std::byte*>(blocks.data()), values.data(), values.size());
    errno = 0;
    std::ofstream out(arguments[2], std::ios::binary);
    out.write(reinterpret_cast<const char*>(values.data()),
              static_cast<std::streamsize>(values.size() * sizeof(float)));
    if (!out.flush())
        platform::refuse_file(arguments[2], "written", {errno, std::generic_category()});
    return 0;
}

/// The description for people: fields, then formats, then the memory plan, then tensors.
std::string tables(const Json& description) {
    std::ostringstream out;
    for (const auto& [key, value] : description.items())
        if (value.is_primitive())
            out << key << ": "
                << (value.is_string()           ? value.get<std::string>()
                    : value.is_number_integer() ? grouped(value.get<int64_t>())
                                                : value.dump())
                << '\n';
    out << "\nmetadata\n";
    for (const auto& [key, value] : description["metadata"].items()) {
        std::string shown = value.is_string() ? value.get<std::string>() : value.dump();
        std::replace(shown.begin(), shown.end(), '\n', ' ');
        out << "  " << key << " = " << (shown.size() > 160 ? shown.substr(0, 157) + "..." : shown) << '\n';
    }
    out << "\nformats\n";
    for (const auto& [key, value] : description["sizes"].items())
        out << "  " << key << ": " << grouped(value["tensors"]) << " tensors, "
            << grouped(value["parameters"]) << " weights, " << grouped(value["bytes"]) << " bytes\n";
    out << "\nmemory plan\n";
    for (const auto& [key, value] : description["memory"].items())
        out << "  " << key << ": "
            << (value.is_number_integer() ? grouped(value.get<int64_t>()) : value.dump()) << '\n';
    out << "\ntensors\n";
    for (const Json& tensor : description["tensors"])
        out << "  " << tensor["name"].get<std::string>() << "  " << tensor["type"].get<std::string>() << "  "
            << tensor["shape"].dump() << "  " << grouped(tensor["bytes"]) << " bytes\n";
    return std::move(out).str();
}

int inspect(const Options& options) {
    const auto file = GgufFile::open(model_path(options));
    const Json description = describe(*file);
    if (options.json)
        print_line(description);
    else
        print(tables(description));
    return 0;
}

} // namespace

void add_inspect(CLI::App& app, Options& options, Run& run) {
    auto* verb =
        app.add_subcommand("inspect", "What is in a model file: metadata, tensors, sizes, memory plan");
    auto arguments = std::make_shared<std::vector<std::string>>();
    verb->add_option("--dequantize", *arguments, "Decode a file of raw blocks to float32 instead")
        ->type_name("TYPE IN OUT")
        ->expected(3);
    add_model_options(*verb, options);
    verb->callback([&options, &run, arguments] {
        run = [&options, arguments] {
            return arguments->empty() ? inspect(options) : dequantize(*arguments);
        };
    });
}

} // namespace orrery::cli
