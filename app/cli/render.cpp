// render: a chat template with a context, exactly the text that it gives.
#include "app/cli/verbs.h"
#include "engine/model/gguf.h"
#include "engine/parameter.h"
#include "engine/platform/file.h"
#include "kernels/error.h"

namespace orrery::cli {

namespace {

std::string template_source(const Options& options, const std::filesystem::path& file) {
    if (file.empty())
        return GgufFile::open(model_path(options))->get_string("tokenizer.chat_template");
    return platform::read_whole_file(file);
}

int render(const Options& options, const std::filesystem::path& file) {
    const ChatTemplate chat_template(template_source(options, file));
    const Json context = parse_json(read_input(), "The context on standard input");
    if (!context.is_object())
        refuse_value("The context on standard input", context, "an object");
    const std::string text = chat_template.render_text(context);
    if (options.json)
        print_line({{"text", text}});
    else
        print(text);
    return 0;
}

} // namespace

void add_render(CLI::App& app, Options& options, Run& run) {
    auto* verb =
        app.add_subcommand("render", "Render a chat template with the JSON context on standard input");
    auto file = std::make_shared<std::filesystem::path>();
    verb->add_option("--template", *file, "A file with the template; default: the model's own");
    add_model_options(*verb, options);
    verb->callback([&options, &run, file] { run = [&options, file] { return render(options, *file); }; });
}

} // namespace orrery::cli
