#include "engine/text/jinja/value.h"

#include "engine/text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace orrery::jinja {

namespace {

/// Far above every limit, and far below where adding two would overflow.
constexpr uint64_t max_weight = uint64_t{1} << 40;

uint64_t sum(uint64_t a, uint64_t b) {
    return std::min(a + b, max_weight);
}

/// Keys are hashed at each look-up; larger ones are not needed.
constexpr uint64_t max_key_weight = 1 << 20;

} // namespace

Sequence::Sequence(Kind kind, std::vector<Value> items) : kind_(kind), items_(std::move(items)) {
    for (const Value& item : items_) {
        depth_ = std::max(depth_, depth_of(item) + 1);
        weight_ = sum(weight_, weight_of(item));
    }
}

const char* Sequence::python_name() const {
    switch (kind_) {
    case Kind::list:
        return "list";
    case Kind::tuple:
        return "tuple";
    case Kind::range:
        return "range";
    case Kind::generator:
        return "generator";
    case Kind::keys:
        return "dict_keys";
    case Kind::values:
        return "dict_values";
    case Kind::items:
        return "dict_items";
    }
    return "list";
}

std::vector<Value> Sequence::take() {
    if (kind_ != Kind::generator)
        return items_;
    std::vector<Value> rest(items_.begin() + static_cast<std::ptrdiff_t>(consumed_), items_.end());
    consumed_ = items_.size();
    return rest;
}

std::optional<Value> Sequence::take_one() {
    if (consumed_ == items_.size())
        return std::nullopt;
    return items_[consumed_++];
}

std::optional<size_t> Dict::position(const Value& key, size_t hash) const {
    const auto [first, last] = index_.equal_range(hash);
    for (auto it = first; it != last; ++it)
        if (equals(entries_[it->second].first, key))
            return it->second;
    return std::nullopt;
}

void Dict::set(Value key, Value value) {
    const size_t hash = hash_of(key);
    depth_ = std::max({depth_, depth_of(key) + 1, depth_of(value) + 1});
    weight_ = sum(weight_, sum(weight_of(key), weight_of(value)));
    if (const auto at = position(key, hash)) {
        entries_[*at].second = std::move(value);
        return;
    }
    index_.emplace(hash, entries_.size());
    entries_.emplace_back(std::move(key), std::move(value));
}

const Value* Dict::find(const Value& key) const {
    const auto at = position(key, hash_of(key));
    return at ? &entries_[*at].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
    const auto [first, last] = index_.equal_range(std::hash<std::string_view>{}(key));
    for (auto it = first; it != last; ++it) {
        const Value& candidate = entries_[it->second].first;
        if (candidate.is_string() && candidate.bytes() == key)
            return &entries_[it->second].second;
    }
    return nullptr;
}

std::optional<Value> Namespace::attribute(std::string_view name) {
    for (const auto& [known, value] : attributes_)
        if (known == name)
            return value;
    return std::nullopt;
}

void Namespace::set(std::string_view name, Value value) {
    for (auto& [known, old] : attributes_)
        if (known == name) {
            old = std::move(value);
            return;
        }
    attributes_.emplace_back(name, std::move(value));
}

Value Heap::string(Text text, bool markup) {
    if (text.size() > limits_.text_bytes)
        throw Fault("a text has more than " + std::to_string(limits_.text_bytes >> 20) + " MiB");
    const size_t bytes = 2 * text.size() + object_overhead_bytes;
    charge_steps(1 + text.size() / 64);
    check_memory(bytes);
    auto owned = std::make_unique<const Text>(std::move(text));
    *text_bytes_ += bytes;
    return String{std::shared_ptr<const Text>(owned.release(),
                                              [counter = text_bytes_, bytes](const Text* dead) {
                                                  *counter -= bytes;
                                                  delete dead;
                                              }),
                  markup};
}

Value Heap::sequence(Sequence::Kind kind, std::vector<Value> items) {
    charge_steps(1 + items.size());
    charge_memory(items.size() * sizeof(Value));
    auto* made = make<Sequence>(kind, std::move(items));
    check_nesting(made->depth());
    return made;
}

Value Heap::generator(std::vector<Value> items, const char* function) {
    Value made = sequence(Sequence::Kind::generator, std::move(items));
    made.sequence()->display = std::string("<generator object ") + function + ">";
    return made;
}

Value Heap::adopt_dict(std::unique_ptr<Dict> dict) {
    check_nesting(dict->depth());
    charge_steps(1 + dict->size());
    // An entry also has a node in the index.
    charge_memory(sizeof(Dict) + dict->size() * (2 * sizeof(Value) + object_overhead_bytes));
    Dict* pointer = dict.get();
    items_.push_back(std::move(dict));
    return pointer;
}

void Heap::charge_steps(uint64_t steps) {
    steps_ += steps;
    if (steps_ > limits_.steps)
        throw Fault("the template does not end within " + std::to_string(limits_.steps) + " steps");
}

void Heap::charge_search(size_t text_bytes, size_t wanted_bytes) {
    // Bytes are compared 4096 times as fast as nodes are evaluated.
    const double comparisons = static_cast<double>(text_bytes) * static_cast<double>(wanted_bytes);
    charge_steps(1 + text_bytes / 64 +
                 (wanted_bytes <= text_bytes ? static_cast<uint64_t>(comparisons / 4096) : 0));
}

void Heap::check_memory(size_t bytes) const {
    const size_t used = object_bytes_ + *text_bytes_;
    if (bytes > limits_.memory_bytes || used > limits_.memory_bytes - bytes)
        throw Fault("the template needs more than " + std::to_string(limits_.memory_bytes >> 20) +
                    " MiB of memory");
}

void Heap::charge_memory(size_t bytes) {
    check_memory(bytes);
    object_bytes_ += bytes;
}

void Heap::check_nesting(int depth) const {
    if (depth > limits_.nesting)
        throw Fault("lists and dictionaries are nested more than " + std::to_string(limits_.nesting) +
                    " levels deep");
}

int depth_of(const Value& value) {
    if (const Sequence* sequence = value.sequence())
        return sequence->depth();
    if (const Dict* dict = value.dict())
        return dict->depth();
    return 0;
}

uint64_t weight_of(const Value& value) {
    if (value.is_string())
        return 1 + value.text().size() / 64;
    if (const Sequence* sequence = value.sequence())
        return sequence->weight();
    if (const Dict* dict = value.dict())
        return dict->weight();
    return 1;
}

uint64_t comparison_cost(const Value& a, const Value& b) {
    return std::min(weight_of(a), weight_of(b));
}

size_t hash_of(const Value& value) {
    if (weight_of(value) > max_key_weight)
        throw Fault("the key of a dictionary is too large");
    if (value.is_string())
        return std::hash<std::string_view>{}(value.bytes());
    if (value.is_number()) {
        const double number = value.number(); // 1, 1.0 and true are one key; −0.0 is 0
        return number == 0 ? 0 : std::hash<double>{}(number);
    }
    if (value.is_none())
        return 1;
    if (value.is_undefined())
        return 2;
    if (const Sequence* sequence = value.sequence()) {
        if (sequence->kind() == Sequence::Kind::tuple) {
            size_t hash = 3;
            for (const Value& item : sequence->items())
                hash = hash * 1'000'003 ^ hash_of(item);
            return hash;
        }
        if (sequence->kind() == Sequence::Kind::list)
            throw Fault("unhashable type: 'list'");
        return std::hash<const void*>{}(sequence);
    }
    if (value.dict())
        throw Fault("unhashable type: 'dict'");
    return std::hash<const void*>{}(value.object());
}

} // namespace orrery::jinja
