"""Answers in classes: the first and any other of a class are one answer, of two classes two, whichever is the gold."""

import pytest

from stapo_bench.grading import grade_answer
from stapo_bench.records import Outcome

CLASSES = {
    "regions": [
        [
            "x<2", r"(-\infty, 2)", "2>x", r"x \in (-\infty,2)", r"\{x \mid x < 2\}", "3x<6", "2 - x > 0",
            r"\mathbb{R} \setminus [2,\infty)",
        ],
        [r"x \le 2", r"(-\infty, 2]", r"2x \le 4", r"x \notin (2, \infty)", r"-x \ge -2"],
        ["x>2", r"(2,\infty)", "-x < -2", "1-x<-1"],
        [r"x \ge 2", r"[2,\infty)", r"[2,5] \cup [5, \infty)", r"[2,5) \cup [5,\infty)"],
        ["|x|<2", "x^2<4", "-2<x<2", r"x > -2 \text{ and } x < 2", r"(-2,2]\cap[-5,2)", "x^2-4<0", "4-x^2>0"],
        [r"|x| \le 2", r"x^2 \le 4", "-2 \\le x \\le 2", r"[-2,0] \cup [0,2]", r"4 \ge x^2", r"4-x^2 \ge 0"],
        [
            "|x|>2", "x^2>4", r"x<-2 \text{ or } x>2", r"(-\infty,-2)\cup(2,\infty)", r"\mathbb{R}\setminus[-2,2]",
            "x < -2, x > 2", r"(2,\infty)\cup(-\infty,-2)",
        ],
        [r"|x| \ge 2", r"x^2 \ge 4", r"(-\infty,-2]\cup[2,\infty)"],
        [
            r"\mathbb{R}", r"(-\infty,\infty)", r"x^2 \ge 0", "x^2 > -1", r"x \in \mathbb{R}",
            r"x < 3 \text{ or } x > 1",
        ],
        [r"x \ne 2", r"\mathbb{R} \setminus \{2\}", r"(-\infty,2)\cup(2,\infty)", r"x<2 \text{ or } x>2"],
        [r"x^2 \ne 4", r"\mathbb{R}\setminus\{-2,2\}", r"(-\infty,-2)\cup(-2,2)\cup(2,\infty)"],
        [r"[0,1) \cup (1,2]", r"[0,2] \setminus \{1\}", r"(1,2] \cup [0,1)"],
        [r"[0,1] \cup [1,2]", r"0 \le x \le 2", r"[0,1) \cup [1,2]", r"|x-1| \le 1", r"x^2-2x \le 0"],
        [r"x = 0 \text{ or } x > 1", r"\{0\} \cup (1,\infty)"],
        [r"x < \sqrt{2}", r"(-\infty, \sqrt{2})", r"\sqrt2 > x"],
        [r"x^2=4 \text{ or } x>3", r"x=2 \text{ or } x=-2 \text{ or } x>3", r"\{-2,2\} \cup (3,\infty)"],
        ["|2x-1| < 3", "-1<x<2"],
        [r"|2x-1| > 3", r"x<-1 \text{ or } x>2"],
        [r"-\sqrt2 < x < \sqrt2", "x^2<2", r"|x| < \sqrt{2}"],
    ],
    "regions with letters": [
        ["x > a", r"(a, \infty)"],
        [r"x \ge a", r"[a,\infty)"],
        ["x < a", r"(-\infty, a)"],
        [r"x \le a", r"(-\infty, a]"],
        ["(a,b]", r"a < x \le b", r"b \ge x > a", r"x \in (a,b]"],
        ["[a,b)", r"a \le x < b", r"b > x \ge a"],
        [r"(-\infty,a) \cup (b,\infty)", r"x \in (-\infty,a) \cup (b,\infty)"],
        [r"a \le x \le b", r"b \ge x \ge a", r"x \in [a,b]"],
        ["a < x < b", "b > x > a", r"x \in (a,b)"],
    ],
    "equations": [
        ["y = 2x+1", "2x - y + 1 = 0", "y - 2x = 1", r"\frac{y-1}{2} = x", "4x+2=2y"],
        ["y=2x-1", "2x-y=1"],
        ["x^2+y^2=1", "1 = x^2+y^2", "2x^2+2y^2=2", "x^2 = 1-y^2"],
        ["x^2-y^2=1", "y^2 = x^2-1"],
        [r"\frac{x}{2}+\frac{y}{3}=1", "3x+2y=6"],
        ["x+y<1", "y<1-x", "1>x+y", "-x-y>-1", "2x+2y<2"],
        [r"x+y \le 1", r"-x-y \ge -1", r"\frac{x+y}{3} \le \frac13"],
        ["x+y>1", "y>1-x"],
        [r"x+y \ge 1"],
        [r"x+y \ne 1"],
        ["xy = 1", r"y = \frac{1}{x}", r"x = \frac1y"],
        [r"y = \frac{x}{x+1}", "xy+y=x"],
        [r"\sqrt2 x + \sqrt2 y = 1", r"x + y = \frac{1}{\sqrt2}"],
        ["0<x+y<1", "1>x+y>0"],
    ],
    "lists": [
        [
            "1,2", "2,1", r"1 \text{ and } 2", r"x=1 \text{ or } x=2", r"\{1,2\}", r"x \in \{1,2\}", "x=1, x=2",
            "x = 1, 2", r"\{2,1,2\}",
        ],
        ["1,3", r"\{1,3\}"],
        ["1,2,3", r"\{3,2,1\}", r"1, 2 \text{ and } 3", "1; 2; 3"],
        [r"\pm 1", "1,-1", r"x=\pm1", r"\{-1,1\}", r"x = 1 \text{ or } x=-1"],
        [r"2 \pm \sqrt3", r"2+\sqrt3, 2-\sqrt3", r"\{2-\sqrt3, 2+\sqrt3\}"],
        [r"\pm1 \pm 2", "3, -1, 1, -3", r"\pm 1, \pm 3", r"\{-3, -1, 1, 3\}"],
        ["(1,2),(3,4)", "(3,4),(1,2)", r"\{(1,2),(3,4)\}", r"(1,2) \text{ and } (3,4)"],
        ["(1,2),(4,3)"],
        [r"1, 2, \ldots, 6", "1,2,3,4,5,6"],
        [r"\emptyset", r"\{\}", r"\varnothing"],
        [r"f(x) = x, g(x) = 2", r"g(x) = 2, f(x) = x"],
        [r"f(x) = 2, g(x) = x"],
    ],
    "tuples": [
        [
            "(1,2)", r"\left(1,2\right)", "(x,y)=(1,2)", r"\begin{pmatrix}1\\2\end{pmatrix}", "P(1,2)",
            r"\langle 1,2\rangle", r"(\frac22, \sqrt4)",
        ],
        ["(2,1)", "(x,y)=(2,1)"],
        ["(1,2,3)", r"(1,2,\sqrt9)"],
        ["(1,3,2)"],
        ["(-1,2)"],
    ],
    "numbers": [
        [r"\sqrt8", r"2\sqrt2", r"\frac{4}{\sqrt2}", "8^{1/2}", "2^{3/2}", r"\sqrt[4]{64}"],
        [r"\sqrt2", "2^{1/2}", r"\frac{2}{\sqrt2}"],
        [r"\pi", r"\frac{2\pi}{2}", r"\arccos(-1)", r"4\arctan 1"],
        [r"\frac{\pi}{2}", r"\arcsin 1", r"\pi/2"],
        ["e^2", r"e \cdot e", r"\exp(2)"],
        [r"\ln 2", r"-\ln\frac12", r"\log_{e}2", r"\frac{\ln 4}{2}"],
        [
            "3", r"\log_2 8", r"\sqrt9", r"\binom32", r"\lfloor\pi\rfloor", "|-3|", r"\gcd(6,9)", "3!/2",
            r"\sum_{k=1}^{2}k", r"\lceil e \rceil", r"\max(1,3)", r"\frac{27}{9}", "+3",
        ],
        ["1/3", r"0.\overline{3}", r"\frac{2}{6}", "3^{-1}", r"0.333\ldots"],
        ["2.5", "5/2", r"2\frac12", r"\frac{10}{4}"],
        ["i", r"\sqrt{-1}", r"e^{i\pi/2}"],
        ["-1", "i^2", r"e^{i\pi}", r"\cos\pi"],
        ["1+i", r"\sqrt2 e^{i\pi/4}"],
        ["1-i", r"\overline{1+i}"],
        [r"\infty", r"+\infty"],
        [r"-\infty"],
        ["10^{50}", "100^{25}"],
        ["10^{50}+1"],
        ["2^{100}", "4^{50}", "1024^{10}"],
        ["100!", r"100 \cdot 99!"],
        ["99!"],
        ["2^{10^6}", "4^{500000}"],
        ["2^{10^6}+1"],
        [r"\sin 30^\circ", r"\frac12", "0.5", r"\cos 60^\circ"],
        [r"\tan 60^\circ", r"\sqrt3"],
        ["10!!", "3840"],
        ["9!!", "945"],
    ],
    "formulas": [
        ["(x+1)^2", "x^2+2x+1", "(1+x)(x+1)"],
        ["x^2+1"],
        [r"\sin 2x", r"2\sin x\cos x"],
        [r"\cos 2x", r"1-2\sin^2x", r"\cos^2x-\sin^2x"],
        [r"\sqrt{x^2}", "|x|"],
        ["x"],
        ["-x"],
        [r"\frac{x^2-1}{x-1}", "x+1"],
        [r"\tan x", r"\frac{\sin x}{\cos x}"],
        ["x^2 y", "yx^2", r"x \cdot xy"],
        [r"\frac{1}{x}+\frac{1}{y}", r"\frac{x+y}{xy}"],
        ["e^{x+y}", "e^xe^y"],
        ["n!", "n(n-1)!"],
        [r"\binom{n}{2}", r"\frac{n(n-1)}{2}"],
        ["2^{n+1}", r"2\cdot2^n"],
        ["(-1)^n", r"\cos(n\pi)"],
        ["|x-10|"],
        ["10-x"],
        ["x-10"],
        [r"\lfloor x \rfloor"],
        [r"\lceil x \rceil", r"-\lfloor -x \rfloor"],
        ["x^2+C", "C+x^2", "x^2+c"],
        [r"\ln x", r"\frac{\ln x^2}{2}"],
        ["abc"],
        [r"\frac{a}{b}"],
        [r"\ln(-1-x^2)", r"\ln(-(x^2+1))"],  # real nowhere
        [r"\ln(-2-x^2)"],
        [r"x^{0.5} y^{0.5}", r"(xy)^{0.5}", r"\sqrt{xy}"],
        [r"\infty+x"],
        [r"\infty-x"],
        [r"\frac{b}{a}"],
    ],
    "units": [
        [r"5 \text{ m}", r"500 \text{ cm}", r"0.005 \text{ km}"],
        [r"50 \text{ m}", r"5000 \text{ cm}"],
        [r"5 \text{ s}", r"5000 \text{ ms}"],
        [r"36 \text{ km/h}", r"10 \text{ m/s}"],
        [r"2 \text{ h}", r"120 \text{ min}", r"7200 \text{ s}"],
        [r"\frac32 \text{ h}", r"1 \text{ h } 30 \text{ min}", r"90 \text{ minutes}"],
        [r"5 \text{ m}^2", r"50000 \text{ cm}^2"],
        [r"\$5", r"5 \text{ dollars}", r"500 \text{ cents}"],
        [r"5\text{ kg}", r"5000\text{ g}"],
        [r"45^\circ", r"45 \text{ degrees}", r"\frac{\pi}{4}", r"\frac{\pi}{4} \text{ rad}"],
        [r"45^\circ 30'", r"45.5^\circ"],
    ],
    "ratios": [["3:4", "6:8", r"\frac34"], ["4:3", r"\frac43"], ["3:4:5", "6:8:10"], ["3:5:4"], ["0:1"], ["1:2:0"]],
    "matrices": [
        [
            r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{bmatrix}1&2\\3&4\end{bmatrix}",
            r"\frac12\begin{pmatrix}2&4\\6&8\end{pmatrix}",
        ],
        [r"\begin{pmatrix}1&3\\2&4\end{pmatrix}"],
        [r"\begin{pmatrix}1&2\end{pmatrix}"],
        [r"\begin{pmatrix}1&2&3\\4&5&6\end{pmatrix}"],
    ],
    "residues": [
        [r"x \equiv 2 \pmod 5", r"x \equiv 7 \pmod 5", r"x \equiv -3 \pmod{5}"],
        [r"x \equiv 3 \pmod 5"],
        [r"x \equiv 2 \pmod 6", r"x \equiv 8 \pmod 6"],
        [r"y \equiv 2 \pmod 5"],
    ],
    "cases": [
        [
            r"\begin{cases}x & x\ge0\\-x&x<0\end{cases}", "|x|",
            r"\begin{cases}-x & x<0\\x & \text{otherwise}\end{cases}",
            r"\begin{cases}x & x>0\\-x&x\le0\end{cases}",
        ],
        [r"\begin{cases}x & x>0\\-x&x<0\end{cases}"],
        [r"\begin{cases}x & x\ge1\\-x&x<1\end{cases}", r"\begin{cases}-x & x<1\\x&x\ge1\end{cases}"],
        [r"\begin{cases}x & x>1\\-x&x\le1\end{cases}"],
        [
            r"\begin{cases}x^2 & x < \sqrt2\\2 & x \ge \sqrt2\end{cases}",
            r"\begin{cases}2 & x > \sqrt2\\x^2 & x \le \sqrt2\end{cases}",
        ],
        [r"\begin{cases}x^2 & x < \sqrt3\\2 & x \ge \sqrt3\end{cases}"],
        [r"\begin{cases}1 & 0<x<1\\0&\text{otherwise}\end{cases}"],
        [r"\begin{cases}1 & 0<x\le1\\0&\text{otherwise}\end{cases}"],
        [r"\begin{cases}1 & n \text{ is even}\\0& n \text{ is odd}\end{cases}"],
        [r"\begin{cases}0 & n \text{ is even}\\1& n \text{ is odd}\end{cases}"],
    ],
    "families": [
        [
            r"2\pi k, k \in \mathbb{Z}", r"2\pi n, n\in\mathbb{Z}", r"2\pi k \text{ where } k \text{ is an integer}",
            r"2\pi k \text{ for any integer } k", r"2\pi k \text{ for all } k",
        ],
        [r"2\pi k, k \in \mathbb{N}", r"2\pi k \text{ for natural } k"],
        [r"\pi k, k \in \mathbb{Z}"],
        [r"2^n, n \ge 1", r"2^n \text{ for } n \ge 1"],
        [r"2^n, n \ge 2"],
        [r"2^n \text{ for } n > 2"],
    ],
}  # fmt: skip


@pytest.mark.parametrize("group", CLASSES)
def test_one_class_is_one_answer(group):
    classes = CLASSES[group]
    same = [pair for first, *others in classes for other in others for pair in ((first, other), (other, first))]
    firsts = [answers[0] for answers in classes]
    different = [(a, b) for shift in (1, 3) for a, b in zip(firsts, firsts[shift:] + firsts[:shift], strict=True)]
    pairs = [(pair, True) for pair in same] + [(pair, False) for pair in different if pair[0] != pair[1]]
    assert [pair for pair, alike in pairs if accepted(*pair) is not alike] == []


def accepted(response, gold):
    return grade_answer(rf"\boxed{{{response}}}", gold).outcome is Outcome.CORRECT
