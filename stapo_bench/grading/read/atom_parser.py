"""Atoms, the parts of a product: numbers, names, functions with arguments, fractions, roots, groups in brackets."""

from stapo_bench.grading import units
from stapo_bench.grading.read.environments import determinant
from stapo_bench.grading.read.lexer import FUNCTIONS, Token, TokenKind, is_product
from stapo_bench.grading.read.number_parser import NumberParser, attach, derivative
from stapo_bench.grading.tree import Kind, Node, Refusal, call, divide, mul, negate, num, power, sym

ACCENTS = frozenset(
    ["dot", "ddot", "hat", "bar", "vec", "tilde", "overline", "widehat", "overrightarrow", "mathbb", "mathbf"]
)
ATOMS = frozenset(
    ["angle", "triangle", "frac", "cfrac", "sqrt", "binom", "lfloor", "lceil", "begin", "sum", "prod", "emptyset"]
)
_TRIG = frozenset(["sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth"])
_NAMED = frozenset(["f", "g", "h", "F", "G", "H"])


class AtomParser(NumberParser):
    """Parses atoms; the sums, products and powers around them are ``ExpressionParser``'s."""

    def argument(self) -> Node:
        """What ``^``, ``\\frac`` and ``\\sqrt`` take: a group in braces, or one token."""
        self.deeper()
        if self.accept("{"):
            node = self.expression()
            self.expect("}")
        elif self.peek().text == "-":
            self.take()
            node = negate(self.argument())
        else:
            node = self.atom()
        self.depth -= 1
        return node

    def _digit_argument(self) -> Node:
        r"""``\frac12`` takes one digit at a time: the token 12 is split."""
        token = self.peek()
        if token.kind is TokenKind.NUMBER and len(token.text) > 1 and token.text.isdigit():
            self.tokens[self.position : self.position + 1] = [
                Token(TokenKind.NUMBER, token.text[0]),
                Token(TokenKind.NUMBER, token.text[1:]),
            ]
        return self.argument()

    def atom(self) -> Node:
        """One atom; ``Refusal`` where none stands here."""
        kind = self.peek().kind
        if kind is TokenKind.NUMBER:
            return self.number()
        if kind is TokenKind.NAME:
            return self._name()
        if kind in (TokenKind.WORD, TokenKind.TEXT):
            return self._word()
        if kind is TokenKind.OPERATOR:
            return self._enclosed()
        if kind is TokenKind.COMMAND:
            return self._command()
        raise Refusal(f"cannot read {self.peek().text!r}")

    def _word(self) -> Node:
        """A word is one name; a unit may stand before its value: "USD 36", "Rs. 450"; elsewhere "mg" is m times g."""
        token = self.peek()
        is_letters = token.kind is TokenKind.WORD and token.text.islower() and is_product(token.text)
        if is_letters and token.text in units.WORDS and self.peek(1).kind is not TokenKind.NUMBER:
            letters = [Token(TokenKind.NAME, letter, False) for letter in token.text]
            self.tokens[self.position : self.position + 1] = letters
            return self._name()
        if token.text.strip(". ") in units.WORDS:
            self.take()
            return attach(self.power(), token.text.strip(". "))
        if token.kind is TokenKind.TEXT:
            raise Refusal(f"cannot read {token.text!r}")
        self.take()
        return self.subscript(sym(token.text))

    def _enclosed(self) -> Node:
        """What brackets, braces or bars enclose, or a value behind the sign of its currency."""
        text = self.peek().text
        if text in ("(", "[", "\\{"):
            return self.bracket(self)
        if text == "{":
            return self._group()
        if text == "|":
            return self._absolute()
        if text in units.SIGNS:
            self.take()
            return attach(self.power(), text)
        raise Refusal(f"cannot read {text!r}")

    def _group(self) -> Node:
        """A group in braces; several values in it are a set."""
        self.take()
        if self.accept(","):  # a{,}b outside a number
            self.expect("}")
            raise Refusal("stray comma")
        node = self.expression()
        items = [node]
        while self.accept(",", ";"):
            items.append(self.expression())
        self.expect("}")
        return node if len(items) == 1 else Node(Kind.SET, tuple(items))

    def _absolute(self) -> Node:
        """An absolute value."""
        self.take()
        self.bars += 1
        node = self.expression()
        self.expect("|")
        self.bars -= 1
        return call("abs", node)

    def _name(self) -> Node:
        """A symbol, with index and argument, or a function of what follows."""
        token = self.take()
        name = token.text
        if name == "sqrt":
            return self._root()
        if name in ("frac", "binom") and self.peek().text == "{":
            return divide(self.argument(), self.argument())
        if name in FUNCTIONS:
            return self._function(name)
        if name == "infty":
            return sym("infty")
        node = self.subscript(sym(name))
        if name in _NAMED and [self.peek(k).text for k in range(6)] == ["^", "{", "-", "1", "}", "("]:
            self.position += 5
            node = sym(f"{name}^-1")
        if (
            name in _NAMED
            and self.peek().text == "("
            and self.peek(2).text == ")"
            and self.peek(1).kind in (TokenKind.NAME, TokenKind.NUMBER)
        ):
            node = sym(f"{node.label}({self.peek(1).text})")
            self.position += 3
        elif (
            self.peek().text == "(" and self.peek(1).text == "0" and self.peek(2).text == ")" and not self.peek().space
        ):
            node = sym(f"{node.label}(0)")
            self.position += 3
        return node

    def subscript(self, node: Node) -> Node:
        """The symbol with the index behind it, if there is one."""
        if self.peek().text != "_" or self.peek().kind is not TokenKind.OPERATOR:
            return node
        self.take()
        pieces: list[str] = []
        if self.accept("{"):
            depth = 1
            while True:
                token = self.take()
                if token.kind is TokenKind.END:
                    raise Refusal("unclosed subscript")
                depth += (token.text == "{") - (token.text == "}")
                if not depth:
                    break
                pieces.append(token.text.replace(" ", ""))
        else:
            pieces.append(self.take().text)
        return sym(f"{node.label}_{''.join(pieces)}")

    def _function(self, name: str) -> Node:
        """A function with its base, exponent and arguments."""
        base: Node | None = None
        exponent: Node | None = None
        while self.peek().text in ("_", "^") and self.peek().kind is TokenKind.OPERATOR:
            if self.take().text == "_":
                base = self.argument()
            elif self.peek().text == "{" and self.peek(1).text == "circ":
                raise Refusal("degrees of a function name")
            else:
                exponent = self.argument()
        if exponent == num(-1) and name in _TRIG:
            name, exponent = "arc" + name, None
        args = self._function_arguments()
        if name == "det" and len(args) == 1 and args[0].kind is Kind.MATRIX and base is exponent is None:
            return determinant([row.args for row in args[0].args])
        if base is not None:
            if name not in ("log", "lg"):
                raise Refusal(f"subscript on {name}")
            node = divide(call("ln", *args), call("ln", base))
        elif name == "lg":
            node = divide(call("ln", *args), call("ln", num(10)))
        else:
            node = call({"log": "ln", "sign": "sgn", "arg": "Arg"}.get(name, name), *args)
        return node if exponent is None else power(node, exponent)

    def _function_arguments(self) -> tuple[Node, ...]:
        """The arguments in brackets, or what follows without them."""
        if self.peek().text in ("(", "[") and self.peek().kind is TokenKind.OPERATOR:
            closing = ")" if self.take().text == "(" else "]"
            args = [self.expression()]
            while self.accept(",", ";"):
                args.append(self.expression())
            self.expect(closing)
            return tuple(args)
        if self.peek().text in ("{", "|"):
            return (self.power(),)
        return (self._bare_argument(),)

    def _bare_argument(self) -> Node:
        r"""``\sin 2\pi t``: implied factors up to the next sign, operator or function."""
        node = self.unary()
        while True:
            token = self.peek()
            if token.kind is TokenKind.NAME and token.text in FUNCTIONS and token.text != "sqrt":
                return node
            if (
                token.text == "/"
                and token.kind is TokenKind.OPERATOR
                and self.peek(1).kind is TokenKind.NUMBER
                and node.kind is not Kind.NUMBER
            ):
                self.take()
                node = divide(node, self.power())
            elif token.kind is TokenKind.NAME or (token.kind is TokenKind.COMMAND and token.text in ("frac", "sqrt")):
                node = mul(node, self.power())
            else:
                return node

    def _root(self) -> Node:
        """A root behind its command, with its degree if one is given."""
        degree: Node | None = None
        if self.peek().text == "[" and any(t.text == "]" for t in self.tokens[self.position : self.position + 12]):
            self.take()
            degree = self.expression()
            self.expect("]")
        if self.peek().text == "(":
            self.take()
            node = self.expression()
            self.expect(")")
        else:
            node = self.argument()
        return call("sqrt", node) if degree is None or degree == num(2) else call("root", node, degree)

    def _command(self) -> Node:  # noqa: PLR0911 - one return for each command
        """What a command stands for, with its arguments."""
        name = self.take().text
        if name in ("frac", "cfrac"):
            top = self._digit_argument()
            bottom = self._digit_argument()
            return derivative(top, bottom) or divide(top, bottom)
        if name == "sqrt":
            return self._root()
        if name == "binom":
            top = self._digit_argument()
            return call("binom", top, self._digit_argument())
        if name in ("lfloor", "lceil"):
            node = self.expression()
            self.expect("rfloor" if name == "lfloor" else "rceil")
            return call("floor" if name == "lfloor" else "ceil", node)
        if name in ("overline", "bar") and self._is_sum_in_braces():
            return call("conj", self.argument())
        if name in ACCENTS:
            inner = self.accented()
            accent = {"overline": "bar", "widehat": "hat", "overrightarrow": "vec"}.get(name, name)
            return self.subscript(
                sym(inner if accent in ("vec", "mathbf") and len(inner) == 1 else f"{accent}({inner})")
            )
        if name in ("angle", "triangle", "measuredangle"):
            return self._figure(name)
        if name == "begin":
            self.position -= 1
            return self.bracket(self)
        if name == "emptyset":
            return Node(Kind.SET)
        if name in ("sum", "prod"):
            return self._series(name)
        raise Refusal(f"cannot read \\{name}")

    def _is_sum_in_braces(self) -> bool:
        r"""``\overline{2+i}`` is a conjugate; ``\overline{AB}`` and ``\overline{z}`` are names."""
        ahead = 1
        while self.peek(ahead).kind is not TokenKind.END and self.peek(ahead).text != "}":
            if self.peek(ahead).text in ("+", "-") and ahead > 1:
                return self.peek().text == "{"
            ahead += 1
        return False

    def _figure(self, name: str) -> Node:
        r"""``\angle ABC``: the letters are the name of a thing."""
        letters = ""
        while self.peek().kind in (TokenKind.NAME, TokenKind.WORD):
            letters += self.subscript(sym(self.take().text)).label
        if not letters:
            raise Refusal(f"\\{name} of nothing")
        return sym(f"{name}({letters})")

    def _series(self, name: str) -> Node:
        r"""``\sum_{k=1}^{10} k^2``; the terms run to the next sum sign."""
        self.expect("_")
        self.expect("{")
        variable = self.take().text
        self.expect("=")
        low = self.expression()
        self.expect("}")
        self.expect("^")
        high = self.argument()
        return call(name, sym(variable), low, high, self.product())
