#include "engine/text/jinja/parser.h"

#include "engine/text/jinja/expression_parser.h"

#include <array>
#include <initializer_list>

namespace orrery::jinja {

namespace {

class Parser : public ExpressionParser {
public:
    using ExpressionParser::ExpressionParser;

    Body run() {
        Body body = statements({});
        if (current().kind != Token::Kind::end)
            unexpected();
        return body;
    }

private:
    /// Text, prints and statements up to a tag that begins with one of `ends` (left as the current token).
    Body statements(std::initializer_list<std::string_view> ends) {
        const Level level(*this);
        Body body;
        while (current().kind != Token::Kind::end) {
            const Token& token = current();
            if (token.kind == Token::Kind::data) {
                Statement text = make(Statement::Kind::text);
                text.constant = String{std::make_shared<const Text>(take().text, true), false};
                body.push_back(std::move(text));
            } else if (token.kind == Token::Kind::variable_begin) {
                Statement print = make(Statement::Kind::print);
                take();
                print.expression = tuple();
                if (current().kind != Token::Kind::variable_end)
                    unexpected("'}}'");
                take();
                refuse_unknown();
                body.push_back(std::move(print));
            } else if (token.kind == Token::Kind::block_begin) {
                take();
                for (const std::string_view end : ends)
                    if (current().is_name(end))
                        return body;
                statement(body);
                refuse_unknown();
                end_of_tag();
            } else {
                unexpected();
            }
        }
        if (ends.size() != 0)
            syntax_error(current().line,
                         "the template ends where '" + std::string(*(ends.end() - 1)) + "' is still to come");
        return body;
    }

    void end_of_tag() {
        if (current().kind != Token::Kind::block_end)
            unexpected("'%}'");
        take();
    }

    /// The body of a statement whose opening tag ends here; takes the name that ended it.
    Body body(std::initializer_list<std::string_view> ends) {
        refuse_unknown();
        skip(":");
        end_of_tag();
        return statements(ends);
    }

    /// A body that forms a scope: what is unknown in it is wrong even if the scope stands under an `if`.
    Body scoped_body(std::initializer_list<std::string_view> ends, int loops = 0) {
        const bool forgiving = std::exchange(forgiving_, false);
        const int around = std::exchange(loops_, loops);
        Body parsed = body(ends);
        forgiving_ = forgiving;
        loops_ = around;
        return parsed;
    }

    Statement make(Statement::Kind kind) const {
        Statement statement;
        statement.kind = kind;
        statement.line = current().line;
        return statement;
    }

    void statement(Body& out) {
        if (current().kind != Token::Kind::name)
            unexpected("the name of a statement");
        const std::string name = current().text;
        if (name == "if")
            out.push_back(branch());
        else if (name == "for")
            out.push_back(loop());
        else if (name == "set")
            out.push_back(set());
        else if (name == "macro")
            out.push_back(macro());
        else if (name == "call")
            out.push_back(call_block());
        else if (name == "filter")
            out.push_back(filter_block());
        else if (name == "with")
            out.push_back(with());
        else if (name == "print")
            print(out);
        else if (name == "break" || name == "continue")
            out.push_back(jump());
        else if (name == "block" || name == "generation" || name == "autoescape")
            out.push_back(scope());
        else if (name == "include" || name == "import" || name == "from" || name == "extends")
            out.push_back(other_file());
        else
            syntax_error(current().line, "there is no statement named '" + name + "'");
    }

    Statement branch() {
        Statement made = make(Statement::Kind::branch);
        take();
        const bool forgiving = std::exchange(forgiving_, true);
        while (true) {
            made.expressions.push_back(tuple(false));
            made.bodies.push_back(body({"elif", "else", "endif"}));
            if (skip_name("elif"))
                continue;
            if (skip_name("else")) {
                made.bodies.push_back(body({"endif"}));
            }
            take();
            break;
        }
        forgiving_ = forgiving;
        return made;
    }

    Statement loop() {
        Statement made = make(Statement::Kind::loop);
        take();
        ++in_loops_;
        made.targets.push_back(target(false, "in"));
        if (!skip_name("in"))
            unexpected("'in'");
        made.expression = tuple(false, "recursive");
        if (skip_name("if"))
            made.condition = expression();
        made.recursive = skip_name("recursive");
        made.bodies.push_back(scoped_body({"endfor", "else"}, loops_ + 1));
        if (skip_name("else"))
            made.bodies.push_back(scoped_body({"endfor"}, loops_));
        take();
        --in_loops_;
        return made;
    }

    Statement set() {
        Statement made = make(Statement::Kind::set);
        take();
        made.targets.push_back(target(true));
        if (skip("=")) {
            made.expression = tuple();
            return made;
        }
        made.kind = Statement::Kind::set_block;
        if (current().is("|"))
            made.expression = filters(nullptr);
        made.bodies.push_back(scoped_body({"endset"}, loops_));
        take();
        return made;
    }

    Signature signature() {
        Signature made;
        expect("(");
        while (!current().is(")")) {
            if (!made.parameters.empty())
                expect(",");
            Parameter parameter;
            parameter.name = assigned_name();
            if (skip("="))
                parameter.fallback = expression();
            else if (!made.parameters.empty() && made.parameters.back().fallback)
                syntax_error(current().line, "a parameter without a default follows one that has one");
            made.parameters.push_back(std::move(parameter));
        }
        expect(")");
        return made;
    }

    /// The body of a macro or a call block; finds out which special names it uses.
    Body callable_body(Signature& signature, std::string_view end) {
        macros_.push_back(&signature);
        Body parsed = scoped_body({end});
        macros_.pop_back();
        take();
        return parsed;
    }

    Statement macro() {
        Statement made = make(Statement::Kind::macro);
        take();
        made.name = assigned_name();
        made.signature = signature();
        made.bodies.push_back(callable_body(made.signature, "endmacro"));
        return made;
    }

    Statement call_block() {
        Statement made = make(Statement::Kind::call_block);
        take();
        if (current().is("("))
            made.signature = signature();
        made.expression = expression();
        if (made.expression->kind != Expression::Kind::call)
            syntax_error(made.line, "a call block needs a call");
        made.bodies.push_back(callable_body(made.signature, "endcall"));
        return made;
    }

    Statement filter_block() {
        Statement made = make(Statement::Kind::filter_block);
        take();
        made.expression = filters(nullptr, true);
        made.bodies.push_back(scoped_body({"endfilter"}, loops_));
        take();
        return made;
    }

    Statement with() {
        Statement made = make(Statement::Kind::with);
        take();
        while (current().kind != Token::Kind::block_end) {
            if (!made.targets.empty())
                expect(",");
            made.targets.push_back(target(false));
            expect("=");
            made.expressions.push_back(expression());
        }
        made.bodies.push_back(scoped_body({"endwith"}, loops_));
        take();
        return made;
    }

    void print(Body& out) {
        take();
        for (bool first = true; current().kind != Token::Kind::block_end; first = false) {
            if (!first)
                expect(",");
            Statement made = make(Statement::Kind::print);
            made.expression = expression();
            out.push_back(std::move(made));
        }
    }

    Statement jump() {
        const bool is_break = take().text == "break";
        if (loops_ == 0)
            syntax_error(current().line,
                         is_break ? "'break' outside of a loop" : "'continue' outside of a loop");
        return make(is_break ? Statement::Kind::break_loop : Statement::Kind::continue_loop);
    }

    Statement scope() {
        Statement made = make(Statement::Kind::scope);
        const std::string kind = take().text;
        std::string name;
        if (kind == "block") {
            name = expect_name();
            skip_name("scoped");
            skip_name("required");
        } else if (kind == "autoescape") {
            const ExpressionPtr on = expression();
            if (on->kind != Expression::Kind::constant || !on->constant.is_bool() || on->constant.boolean())
                syntax_error(made.line, "automatic escaping is not supported");
        }
        const std::string end = "end" + kind;
        made.bodies.push_back(scoped_body({end}, kind == "autoescape" ? loops_ : 0));
        take();
        if (kind == "block")
            skip_name(name);
        return made;
    }

    /// Templates of models have no other files: these statements fail when they run.
    Statement other_file() {
        Statement made = make(Statement::Kind::refuse);
        made.name = take().text;
        while (current().kind != Token::Kind::block_end && current().kind != Token::Kind::end)
            take();
        return made;
    }

    std::string assigned_name() {
        const int line = current().line;
        std::string name = expect_name();
        for (const char* constant : {"true", "false", "none", "True", "False", "None"})
            if (name == constant)
                syntax_error(line, "'" + name + "' cannot be assigned to");
        return name;
    }

    Target one_target(bool with_attribute, std::string_view stop) {
        const Level level(*this);
        if (skip("(")) {
            Target made = target(with_attribute, stop);
            expect(")");
            return made;
        }
        Target made;
        const int line = current().line;
        made.name = assigned_name();
        if (in_loops_ > 0 && made.name == "loop" && !current().is("."))
            syntax_error(line, "'loop' cannot be assigned to inside of a loop");
        if (with_attribute && skip("."))
            made.attribute = expect_name();
        return made;
    }

    Target target(bool with_attribute, std::string_view stop = "") {
        Target first = one_target(with_attribute, stop);
        if (!current().is(","))
            return first;
        Target made;
        made.unpacks = true;
        made.targets.push_back(std::move(first));
        while (skip(",")) {
            if (current().is(")") || current().is("=") || (!stop.empty() && current().is_name(stop)))
                break;
            made.targets.push_back(one_target(with_attribute, stop));
        }
        return made;
    }

    int in_loops_ = 0; ///< `for` statements around the current position, also outside of a macro
};

/// Real templates stay below 100 KiB; work that grows with the square of the source stays bounded.
constexpr size_t max_source_bytes = size_t{1} << 20;

} // namespace

Body parse_template(std::string_view source) {
    if (source.size() > max_source_bytes)
        syntax_error(1, "it has " + std::to_string(source.size()) + " bytes, and " +
                            std::to_string(max_source_bytes) + " are the most that is read");
    return Parser(tokenize(source)).run();
}

} // namespace orrery::jinja
