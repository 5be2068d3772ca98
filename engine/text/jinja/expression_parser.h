// The expressions of a template: Jinja's precedence, from `x if y else z` down to names and brackets.
#pragma once

#include "engine/text/jinja/ast.h"
#include "engine/text/jinja/lexer.h"

#include <algorithm>

namespace orrery::jinja {

/// Reads expressions from a stream of tokens. The parser of statements builds on it.
class ExpressionParser {
public:
    explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

protected:
    /// Templates that people write stay below 30 levels; Jinja itself fails near 80.
    static constexpr int max_nesting = 100;
    /// Levels of one expression's tree: a + b + c + … is as deep as it is long.
    static constexpr int max_tree_depth = 250;

    static constexpr size_t max_arguments = 1000;

    /// Counts levels of recursion for as long as it lives.
    class Level {
    public:
        explicit Level(ExpressionParser& parser);
        ~Level() { --depth_; }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;

    private:
        int& depth_;
    };

    const Token& current() const { return tokens_[at_]; }
    const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
    Token take();
    bool skip(std::string_view symbol);
    bool skip_name(std::string_view name);
    void expect(std::string_view symbol);
    std::string expect_name();
    [[noreturn]] void unexpected(const std::string& expected = "") const;

    ExpressionPtr expression(bool with_condition = true);
    /// One expression, or a tuple where a comma follows. `stop` is a name that ends it.
    ExpressionPtr tuple(bool with_condition = true, std::string_view stop = "", bool in_brackets = false);
    /// Filters that follow a |, applied to `operand`; the first name has no | before it with `begun`.
    ExpressionPtr filters(ExpressionPtr operand, bool begun = false);
    std::vector<Argument> arguments();
    ExpressionPtr postfix(ExpressionPtr node);
    ExpressionPtr unary(bool with_filters = true);

    /// Throws where a filter or test that does not exist was named outside of a condition.
    void refuse_unknown() const;

    /// Unknown filters and tests are wrong where the template is read, but under an `if` only when they run.
    bool forgiving_ = false;
    /// Signatures of the macros around the current position.
    std::vector<Signature*> macros_;
    /// Loops in which break and continue may stand.
    int loops_ = 0;

private:
    void note_unknown(const char* kind, const std::string& name);

    ExpressionPtr either();
    ExpressionPtr both();
    ExpressionPtr negation();
    ExpressionPtr comparison();
    ExpressionPtr sum();
    ExpressionPtr concatenation();
    ExpressionPtr product();
    ExpressionPtr power();
    ExpressionPtr primary();
    ExpressionPtr list();
    ExpressionPtr dict();
    ExpressionPtr subscript(ExpressionPtr node);
    ExpressionPtr one_subscript(ExpressionPtr node);
    ExpressionPtr test(ExpressionPtr node);
    bool ends_tuple(std::string_view stop) const;

    static ExpressionPtr make(Expression::Kind kind, int line, std::string name = "");
    /// Puts `operand` below `node`, which must not become deeper than the limit.
    static void adopt(Expression& node, ExpressionPtr operand);
    static ExpressionPtr binary(std::string op, ExpressionPtr left, ExpressionPtr right,
                                Expression::Kind kind);

    struct Unknown {
        int line;
        std::string message;
    };

    std::vector<Unknown> unknown_; ///< may yet turn out to stand before an `if`
    std::vector<Token> tokens_;
    size_t at_ = 0;
    int depth_ = 0;
};

} // namespace orrery::jinja
