// Values of the template language: Python's, as far as templates can see them.
//
// Numbers, none and undefined live in the Value itself and texts are shared. Lists, dictionaries and
// everything callable belong to the Heap of one rendering, which frees all of them at its end: templates can
// tie such objects into rings, and can nest them as deep as they like.
#pragma once

#include "engine/text/jinja/text.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace orrery::jinja {

/// What went wrong while a template ran; the interpreter adds the line and makes an orrery::Error of it.
class Fault : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

using Integer = __int128; ///< Python's integers have no limit; beyond 127 bits a template is refused

class Sequence;
class Dict;
class Object;
class Namespace;
class Callable;

struct None {};

/// Something that is not there: prints as nothing, counts as false, and says `message` when it is used.
struct Undefined {
    std::shared_ptr<const std::string> message;
};

struct String {
    std::shared_ptr<const Text> text;
    bool markup = false; ///< went through the filter `safe` or `escape`: adding to it escapes what is added
};

class Value {
public:
    Value() : data_(None{}) {}
    Value(bool value) : data_(value) {}
    Value(Integer value) : data_(value) {}
    Value(double value) : data_(value) {}
    Value(String value) : data_(std::move(value)) {}
    Value(Undefined value) : data_(std::move(value)) {}
    Value(Sequence* value) : data_(value) {}
    Value(Dict* value) : data_(value) {}
    template <class T> // any object; no other pointer, which would become a truth value
    Value(T* value) : data_(static_cast<Object*>(value)) {}

    static Value undefined(std::string message) {
        return Undefined{std::make_shared<const std::string>(std::move(message))};
    }

    bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
    bool is_none() const { return std::holds_alternative<None>(data_); }
    bool is_bool() const { return std::holds_alternative<bool>(data_); }
    bool is_integer() const { return std::holds_alternative<Integer>(data_); } ///< not a truth value
    bool is_float() const { return std::holds_alternative<double>(data_); }
    bool is_string() const { return std::holds_alternative<String>(data_); }
    bool is_number() const { return is_bool() || is_integer() || is_float(); }
    bool is_integral() const { return is_bool() || is_integer(); }

    bool boolean() const { return std::get<bool>(data_); }
    /// The value of an integer or a truth value.
    Integer integer() const { return is_bool() ? Integer(boolean()) : std::get<Integer>(data_); }
    /// The value of any number.
    double number() const { return is_float() ? std::get<double>(data_) : static_cast<double>(integer()); }
    const Text& text() const { return *std::get<String>(data_).text; }
    const std::string& bytes() const { return text().bytes(); }
    bool is_markup() const { return is_string() && std::get<String>(data_).markup; }
    const String& string() const { return std::get<String>(data_); }
    const std::string& undefined_message() const { return *std::get<Undefined>(data_).message; }

    Sequence* sequence() const { return get_pointer<Sequence>(); } ///< nullptr where it is none
    Dict* dict() const { return get_pointer<Dict>(); }
    Object* object() const { return get_pointer<Object>(); }
    template <class T>
    T* as() const {
        return dynamic_cast<T*>(object());
    }

private:
    template <class T>
    T* get_pointer() const {
        const auto* pointer = std::get_if<T*>(&data_);
        return pointer ? *pointer : nullptr;
    }

    std::variant<None, Undefined, bool, Integer, double, String, Sequence*, Dict*, Object*> data_;
};

/// Whatever the heap owns.
class HeapItem {
public:
    virtual ~HeapItem() = default;
};

/// What Python calls a list, a tuple, a range, a generator or a view of a dictionary.
class Sequence : public HeapItem {
public:
    enum class Kind { list, tuple, range, generator, keys, values, items };

    Sequence(Kind kind, std::vector<Value> items);

    Kind kind() const { return kind_; }
    const std::vector<Value>& items() const { return items_; }
    int depth() const { return depth_; }        ///< levels of containers below and including this one
    uint64_t weight() const { return weight_; } ///< steps that a walk over all of it takes
    const char* python_name() const;
    bool has_length() const { return kind_ != Kind::generator; }
    bool has_index() const { return kind_ == Kind::list || kind_ == Kind::tuple || kind_ == Kind::range; }

    /// What an iteration gives: all items; those of a generator only once.
    std::vector<Value> take();
    /// The next item of a generator alone.
    std::optional<Value> take_one();

    std::string display;   ///< how a range or a generator prints
    bool is_group = false; ///< a pair of groupby: its items are also `grouper` and `list`

private:
    Kind kind_;
    std::vector<Value> items_;
    int depth_ = 1;
    uint64_t weight_ = 1;
    size_t consumed_ = 0;
};

/// Python's dict: keeps the order of insertion; 1, 1.0 and true are the same key.
class Dict : public HeapItem {
public:
    /// Throws Fault where the key is a list or a dictionary.
    void set(Value key, Value value);
    const Value* find(const Value& key) const;
    const Value* find(std::string_view key) const;

    const std::vector<std::pair<Value, Value>>& entries() const { return entries_; }
    size_t size() const { return entries_.size(); }
    int depth() const { return depth_; }
    uint64_t weight() const { return weight_; }

private:
    std::optional<size_t> position(const Value& key, size_t hash) const;

    std::vector<std::pair<Value, Value>> entries_;
    std::unordered_multimap<size_t, size_t> index_; ///< hash of a key → its position
    int depth_ = 1;
    uint64_t weight_ = 1;
};

/// Everything else: namespaces, functions, macros, loops.
class Object : public HeapItem {
public:
    virtual std::string python_name() const = 0;
    virtual std::string display() const { return "<" + python_name() + " object>"; }
    /// An attribute, or nothing where there is none of this name.
    virtual std::optional<Value> attribute(std::string_view) { return std::nullopt; }
};

/// namespace(…): the one object whose attributes a template may set.
class Namespace : public Object {
public:
    std::string python_name() const override { return "Namespace"; }
    std::optional<Value> attribute(std::string_view name) override;
    void set(std::string_view name, Value value);
    const std::vector<std::pair<std::string, Value>>& attributes() const { return attributes_; }

private:
    std::vector<std::pair<std::string, Value>> attributes_;
};

/// Bounds of one rendering. Hostile templates end in a Fault; real ones use a small part of this.
struct Limits {
    uint64_t steps = 20'000'000;             ///< evaluated nodes, visited items and 64-byte pieces of text
    size_t memory_bytes = size_t{256} << 20; ///< of all texts and containers alive
    size_t output_bytes = size_t{64} << 20;  ///< of the rendered text
    size_t text_bytes = size_t{64} << 20;    ///< of one text
    int nesting = 128;                       ///< levels of lists and dictionaries in each other
    int recursion = 1000;                    ///< nested evaluations: expressions, statements and macros
};

/// Owns the objects of one rendering and counts what it costs.
class Heap {
public:
    explicit Heap(const Limits& limits) : limits_(limits) {}
    Heap(const Heap&) = delete;
    Heap& operator=(const Heap&) = delete;

    const Limits& limits() const { return limits_; }

    Value string(Text text, bool markup = false);
    /// Text that this program wrote about a template's values: not trusted.
    Value string(std::string_view utf8) { return string(Text(utf8, false)); }

    Value sequence(Sequence::Kind kind, std::vector<Value> items);
    Value list(std::vector<Value> items) { return sequence(Sequence::Kind::list, std::move(items)); }
    Value tuple(std::vector<Value> items) { return sequence(Sequence::Kind::tuple, std::move(items)); }
    Value generator(std::vector<Value> items, const char* function);
    /// Fills a new dictionary by `fill(dict)` before anything can refer to it.
    template <class Fill>
    Value dict(Fill fill) {
        auto owned = std::make_unique<Dict>();
        fill(*owned);
        return adopt_dict(std::move(owned));
    }
    template <class T, class... Args>
    T* make(Args&&... args) {
        charge_memory(sizeof(T) + object_overhead_bytes);
        auto owned = std::make_unique<T>(std::forward<Args>(args)...);
        T* pointer = owned.get();
        items_.push_back(std::move(owned));
        return pointer;
    }

    /// Counts work. Throws Fault when the template has used up its share.
    void charge_steps(uint64_t steps);
    /// Counts a search for `wanted_bytes` in `text_bytes` of text, which may compare each with each.
    void charge_search(size_t text_bytes, size_t wanted_bytes);
    /// Throws Fault unless `bytes` more would fit.
    void check_memory(size_t bytes) const;

private:
    static constexpr size_t object_overhead_bytes = 64;

    Value adopt_dict(std::unique_ptr<Dict> dict);
    void charge_memory(size_t bytes);
    void check_nesting(int depth) const;

    Limits limits_;
    uint64_t steps_ = 0;
    std::shared_ptr<size_t> text_bytes_ = std::make_shared<size_t>(0); ///< alive; texts may outlive the heap
    size_t object_bytes_ = 0;
    std::vector<std::unique_ptr<HeapItem>> items_;
};

/// Levels of containers that a value has.
int depth_of(const Value& value);
/// Steps that a walk over the whole value takes; what a value holds several times counts several times, so
/// that a small template cannot build a value that takes for ever to print or to compare.
uint64_t weight_of(const Value& value);
/// Steps that comparing two values takes at most.
uint64_t comparison_cost(const Value& a, const Value& b);
/// Equal keys have equal hashes. Throws Fault where Python would find the value unhashable.
size_t hash_of(const Value& value);

} // namespace orrery::jinja
