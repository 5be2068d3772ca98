#include "engine/text/jinja/expression_parser.h"

#include "engine/text/jinja/filters.h"
#include "engine/text/jinja/tests.h"

#include <algorithm>

namespace orrery::jinja {

ExpressionParser::Level::Level(ExpressionParser& parser) : depth_(parser.depth_) {
    if (depth_ >= max_nesting)
        syntax_error(parser.current().line,
                     "it is nested more than " + std::to_string(max_nesting) + " levels deep");
    ++depth_;
}

Token ExpressionParser::take() {
    Token token = tokens_[at_];
    if (at_ + 1 < tokens_.size())
        ++at_;
    return token;
}

bool ExpressionParser::skip(std::string_view symbol) {
    if (!current().is(symbol))
        return false;
    take();
    return true;
}

bool ExpressionParser::skip_name(std::string_view name) {
    if (!current().is_name(name))
        return false;
    take();
    return true;
}

void ExpressionParser::expect(std::string_view symbol) {
    if (!skip(symbol))
        unexpected("'" + std::string(symbol) + "'");
}

std::string ExpressionParser::expect_name() {
    if (current().kind != Token::Kind::name)
        unexpected("a name");
    return take().text;
}

void ExpressionParser::unexpected(const std::string& expected) const {
    syntax_error(current().line,
                 "unexpected " + current().describe() + (expected.empty() ? "" : ", expected " + expected));
}

ExpressionPtr ExpressionParser::make(Expression::Kind kind, int line, std::string name) {
    auto node = std::make_unique<Expression>();
    node->kind = kind;
    node->line = line;
    node->name = std::move(name);
    return node;
}

void ExpressionParser::adopt(Expression& node, ExpressionPtr operand) {
    if (operand) {
        node.depth = std::max(node.depth, operand->depth + 1);
        if (node.depth > max_tree_depth)
            syntax_error(node.line, "an expression is nested more than " + std::to_string(max_tree_depth) +
                                        " levels deep");
    }
    node.operands.push_back(std::move(operand));
}

ExpressionPtr ExpressionParser::binary(std::string op, ExpressionPtr left, ExpressionPtr right,
                                       Expression::Kind kind) {
    auto node = make(kind, left->line, std::move(op));
    adopt(*node, std::move(left));
    adopt(*node, std::move(right));
    return node;
}

ExpressionPtr ExpressionParser::expression(bool with_condition) {
    const Level level(*this);
    if (!with_condition)
        return either();
    const size_t known = unknown_.size();
    ExpressionPtr node = either();
    while (skip_name("if")) {
        auto conditional = make(Expression::Kind::conditional, node->line);
        adopt(*conditional, std::move(node));
        adopt(*conditional, either());
        adopt(*conditional, skip_name("else") ? expression() : nullptr);
        node = std::move(conditional);
        unknown_.resize(known);
    }
    return node;
}

void ExpressionParser::note_unknown(const char* kind, const std::string& name) {
    if (!forgiving_)
        unknown_.push_back({current().line, std::string("there is no ") + kind + " named '" + name + "'"});
}

void ExpressionParser::refuse_unknown() const {
    if (!unknown_.empty())
        syntax_error(unknown_.front().line, unknown_.front().message);
}

ExpressionPtr ExpressionParser::either() {
    ExpressionPtr left = both();
    while (skip_name("or"))
        left = binary("or", std::move(left), both(), Expression::Kind::either);
    return left;
}

ExpressionPtr ExpressionParser::both() {
    ExpressionPtr left = negation();
    while (skip_name("and"))
        left = binary("and", std::move(left), negation(), Expression::Kind::both);
    return left;
}

ExpressionPtr ExpressionParser::negation() {
    if (!current().is_name("not"))
        return comparison();
    const Level level(*this);
    auto node = make(Expression::Kind::unary, take().line, "not");
    adopt(*node, negation());
    return node;
}

ExpressionPtr ExpressionParser::comparison() {
    ExpressionPtr first = sum();
    ExpressionPtr node;
    while (true) {
        Comparison op;
        if (skip("=="))
            op = Comparison::equal;
        else if (skip("!="))
            op = Comparison::not_equal;
        else if (skip("<"))
            op = Comparison::less;
        else if (skip("<="))
            op = Comparison::less_equal;
        else if (skip(">"))
            op = Comparison::greater;
        else if (skip(">="))
            op = Comparison::greater_equal;
        else if (skip_name("in"))
            op = Comparison::in;
        else if (current().is_name("not") && ahead().is_name("in"))
            take(), take(), op = Comparison::not_in;
        else
            break;
        if (!node) {
            node = make(Expression::Kind::compare, first->line);
            adopt(*node, std::move(first));
        }
        node->comparisons.push_back(op);
        adopt(*node, sum());
    }
    return node ? std::move(node) : std::move(first);
}

ExpressionPtr ExpressionParser::sum() {
    ExpressionPtr left = concatenation();
    while (current().is("+") || current().is("-")) {
        std::string op = take().text;
        left = binary(std::move(op), std::move(left), concatenation(), Expression::Kind::binary);
    }
    return left;
}

ExpressionPtr ExpressionParser::concatenation() {
    ExpressionPtr first = product();
    if (!current().is("~"))
        return first;
    auto node = make(Expression::Kind::concat, first->line);
    adopt(*node, std::move(first));
    while (skip("~"))
        adopt(*node, product());
    return node;
}

ExpressionPtr ExpressionParser::product() {
    ExpressionPtr left = power();
    while (current().is("*") || current().is("/") || current().is("//") || current().is("%")) {
        std::string op = take().text;
        left = binary(std::move(op), std::move(left), power(), Expression::Kind::binary);
    }
    return left;
}

ExpressionPtr ExpressionParser::power() {
    ExpressionPtr left = unary();
    while (skip("**"))
        left = binary("**", std::move(left), unary(), Expression::Kind::binary);
    return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
    ExpressionPtr node;
    if (current().is("-") || current().is("+")) {
        const Level level(*this);
        const int line = current().line;
        node = make(Expression::Kind::unary, line, take().text);
        adopt(*node, unary(false));
    } else {
        node = primary();
    }
    node = postfix(std::move(node));
    if (!with_filters)
        return node;
    while (true) { // filters, tests and calls of what a filter gave
        if (current().is("|"))
            node = filters(std::move(node));
        else if (current().is_name("is"))
            node = test(std::move(node));
        else if (current().is("("))
            node = postfix(std::move(node));
        else
            return node;
    }
}

ExpressionPtr ExpressionParser::primary() {
    const Token token = current();
    if (token.kind == Token::Kind::name) {
        take();
        auto constant = make(Expression::Kind::constant, token.line);
        if (token.text == "true" || token.text == "True") {
            constant->constant = Value(true);
        } else if (token.text == "false" || token.text == "False") {
            constant->constant = Value(false);
        } else if (token.text != "none" && token.text != "None") {
            for (Signature* macro : macros_) {
                macro->uses_varargs |= token.text == "varargs";
                macro->uses_kwargs |= token.text == "kwargs";
                macro->uses_caller |= token.text == "caller";
            }
            return make(Expression::Kind::name, token.line, token.text);
        }
        return constant;
    }
    if (token.kind == Token::Kind::string) {
        std::string text;
        while (current().kind == Token::Kind::string)
            text += take().text;
        auto node = make(Expression::Kind::constant, token.line);
        node->constant = String{std::make_shared<const Text>(text, true), false};
        return node;
    }
    if (token.kind == Token::Kind::integer || token.kind == Token::Kind::floating) {
        take();
        auto node = make(Expression::Kind::constant, token.line);
        node->constant = token.kind == Token::Kind::integer ? Value(token.integer) : Value(token.floating);
        return node;
    }
    if (token.is("(")) {
        take();
        ExpressionPtr node = tuple(true, "", true);
        expect(")");
        return node;
    }
    if (token.is("["))
        return list();
    if (token.is("{"))
        return dict();
    unexpected();
}

bool ExpressionParser::ends_tuple(std::string_view stop) const {
    const Token& token = current();
    return token.kind == Token::Kind::variable_end || token.kind == Token::Kind::block_end ||
           token.kind == Token::Kind::end || token.is(")") || (!stop.empty() && token.is_name(stop));
}

ExpressionPtr ExpressionParser::tuple(bool with_condition, std::string_view stop, bool in_brackets) {
    const int line = current().line;
    std::vector<ExpressionPtr> items;
    bool comma = false;
    while (true) {
        if (comma)
            expect(",");
        if (ends_tuple(stop))
            break;
        items.push_back(expression(with_condition));
        if (!current().is(","))
            break;
        comma = true;
    }
    if (!comma && items.size() == 1)
        return std::move(items.front());
    if (items.empty() && !in_brackets)
        unexpected("an expression");
    auto node = make(Expression::Kind::tuple, line);
    for (ExpressionPtr& item : items)
        adopt(*node, std::move(item));
    return node;
}

ExpressionPtr ExpressionParser::list() {
    auto node = make(Expression::Kind::list, take().line);
    while (!current().is("]")) {
        if (!node->operands.empty())
            expect(",");
        if (current().is("]"))
            break;
        adopt(*node, expression());
    }
    expect("]");
    return node;
}

ExpressionPtr ExpressionParser::dict() {
    auto node = make(Expression::Kind::dict, take().line);
    while (!current().is("}")) {
        if (!node->operands.empty())
            expect(",");
        if (current().is("}"))
            break;
        adopt(*node, expression());
        expect(":");
        adopt(*node, expression());
    }
    expect("}");
    return node;
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr node) {
    while (true) {
        if (current().is(".") || current().is("[")) {
            node = subscript(std::move(node));
        } else if (current().is("(")) {
            auto call = make(Expression::Kind::call, current().line);
            adopt(*call, std::move(node));
            call->arguments = arguments();
            for (const Argument& argument : call->arguments)
                call->depth = std::max(call->depth, argument.value->depth + 1);
            node = std::move(call);
        } else {
            return node;
        }
    }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr node) {
    const int line = current().line;
    if (skip(".")) {
        if (current().kind == Token::Kind::integer) {
            auto index = make(Expression::Kind::constant, line);
            index->constant = take().integer;
            return binary("", std::move(node), std::move(index), Expression::Kind::item);
        }
        if (current().kind != Token::Kind::name)
            unexpected("the name of an attribute");
        auto attribute = make(Expression::Kind::attribute, line, take().text);
        adopt(*attribute, std::move(node));
        return attribute;
    }
    expect("[");
    ExpressionPtr subscripted = one_subscript(std::move(node));
    if (current().is(",")) { // x[a, b] looks up the tuple (a, b)
        if (subscripted->kind != Expression::Kind::item)
            unexpected("']'");
        auto key = make(Expression::Kind::tuple, line);
        adopt(*key, std::move(subscripted->operands[1]));
        while (skip(","))
            adopt(*key, expression());
        ExpressionPtr object = std::move(subscripted->operands[0]);
        subscripted = binary("", std::move(object), std::move(key), Expression::Kind::item);
    }
    expect("]");
    return subscripted;
}

ExpressionPtr ExpressionParser::one_subscript(ExpressionPtr node) {
    const int line = current().line;
    ExpressionPtr first;
    if (!current().is(":")) {
        first = expression();
        if (!current().is(":"))
            return binary("", std::move(node), std::move(first), Expression::Kind::item);
    }
    auto slice = make(Expression::Kind::slice, line);
    adopt(*slice, std::move(node));
    adopt(*slice, std::move(first));
    for (int part = 0; part < 2; ++part) {
        const bool there = skip(":") && !current().is("]") && !current().is(",") && !current().is(":");
        adopt(*slice, there ? expression() : nullptr);
    }
    return slice;
}

std::vector<Argument> ExpressionParser::arguments() {
    std::vector<Argument> found;
    bool named = false;
    bool spread = false;
    bool spread_named = false;
    expect("(");
    while (!current().is(")")) {
        if (!found.empty()) {
            expect(",");
            if (current().is(")"))
                break;
        }
        if (spread_named)
            unexpected("')'");
        Argument argument;
        if (skip("**")) {
            argument.kind = Argument::Kind::spread_named;
            spread_named = true;
        } else if (current().is("*") && !spread) {
            take();
            argument.kind = Argument::Kind::spread;
            spread = true;
        } else if (current().kind == Token::Kind::name && ahead().is("=")) {
            argument.kind = Argument::Kind::named;
            argument.name = take().text;
            take();
            named = true;
            for (const Argument& other : found)
                if (other.kind == Argument::Kind::named && other.name == argument.name)
                    syntax_error(current().line, "the argument '" + argument.name + "' is given twice");
        } else if (named || spread) {
            unexpected("a named argument");
        }
        argument.value = expression();
        found.push_back(std::move(argument));
        if (found.size() > max_arguments)
            syntax_error(current().line,
                         "a call has more than " + std::to_string(max_arguments) + " arguments");
    }
    expect(")");
    return found;
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr operand, bool begun) {
    while (begun || skip("|")) {
        begun = false;
        const int line = current().line;
        std::string name = expect_name();
        while (skip("."))
            name += "." + expect_name();
        if (!is_filter(name))
            note_unknown("filter", name);
        auto node = make(Expression::Kind::filter, line, std::move(name));
        adopt(*node, std::move(operand));
        if (current().is("("))
            node->arguments = arguments();
        for (const Argument& argument : node->arguments)
            node->depth = std::max(node->depth, argument.value->depth + 1);
        operand = std::move(node);
    }
    return operand;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr operand) {
    const int line = take().line;
    const bool negated = skip_name("not");
    std::string name = expect_name();
    while (skip("."))
        name += "." + expect_name();
    if (!is_test(name))
        note_unknown("test", name);
    auto node = make(Expression::Kind::test, line, std::move(name));
    adopt(*node, std::move(operand));
    const Token& next = current();
    const bool begins_argument = next.kind == Token::Kind::name || next.kind == Token::Kind::string ||
                                 next.kind == Token::Kind::integer || next.kind == Token::Kind::floating ||
                                 next.is("[") || next.is("{");
    if (next.is("(")) {
        node->arguments = arguments();
    } else if (begins_argument && !next.is_name("else") && !next.is_name("or") && !next.is_name("and")) {
        if (next.is_name("is"))
            syntax_error(next.line, "tests cannot be chained with 'is'");
        Argument argument;
        argument.value = postfix(primary());
        node->arguments.push_back(std::move(argument));
    }
    for (const Argument& argument : node->arguments)
        node->depth = std::max(node->depth, argument.value->depth + 1);
    if (!negated)
        return node;
    auto inverse = make(Expression::Kind::unary, line, "not");
    adopt(*inverse, std::move(node));
    return inverse;
}

} // namespace orrery::jinja
