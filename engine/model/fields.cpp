#include "engine/model/fields.h"

#include "engine/model/wording.h"
#include "engine/platform/paths.h"
#include "kernels/error.h"

#include <cmath>
#include <sstream>

namespace orrery {

Fields::Fields(const GgufFile& file, std::string_view architecture) : file_(file), prefix_(architecture) {
    prefix_ += '.';
}

void Fields::fail(const std::string& sentence) const {
    throw Error(platform::to_utf8(file_.path()) + ": " + sentence);
}

int Fields::checked(std::string_view field, int64_t value, int min, int max) const {
    if (value < min || value > max)
        fail("the field '" + key(field) + "' is " + std::to_string(value) + "; it has to be from " +
             std::to_string(min) + " to " + std::to_string(max) + ".");
    return static_cast<int>(value);
}

int Fields::integer(std::string_view field, int min, int max) const {
    return checked(field, file_.get_int(key(field)), min, max);
}

int Fields::integer(std::string_view field, int min, int max, int otherwise) const {
    return has(field) ? integer(field, min, max) : otherwise;
}

bool Fields::boolean(std::string_view field, bool otherwise) const {
    return file_.get_bool(key(field), otherwise);
}

std::vector<int> Fields::per_layer(std::string_view field, int layers, int min, int max,
                                   int otherwise) const {
    const auto count = static_cast<size_t>(layers);
    if (!has(field) && otherwise >= 0)
        return std::vector<int>(count, otherwise);
    const std::vector<int64_t> values = file_.get_ints(key(field));
    if (values.empty())
        return std::vector<int>(count, integer(field, min, max)); // says that it is missing
    if (values.size() != 1 && values.size() != count)
        fail("the field '" + key(field) + "' has " + grouped(values.size()) + " numbers, but the model has " +
             std::to_string(layers) + " layers.");
    std::vector<int> all(count);
    for (size_t i = 0; i < count; ++i)
        all[i] = checked(field, values[values.size() == 1 ? 0 : i], min, max);
    return all;
}

double Fields::positive(std::string_view field) const {
    const double value = file_.get_float(key(field));
    if (!std::isfinite(value) || value <= 0)
        fail("the field '" + key(field) + "' is " + number_text(value) + "; it has to be a positive number.");
    return value;
}

double Fields::positive(std::string_view field, double otherwise) const {
    return has(field) ? positive(field) : otherwise;
}

double Fields::positive_or_none(std::string_view field, double none) const {
    return has(field) && file_.get_float(key(field)) != 0 ? positive(field) : none;
}

std::string number_text(double value) {
    std::ostringstream out;
    out << value;
    return out.str();
}

} // namespace orrery
