"""Units, number words, and the points at which formulas are compared: each by its value."""

from fractions import Fraction

import pytest

from stapo_bench.grading import units
from stapo_bench.grading.compare import functions, piecewise
from stapo_bench.grading.extraction.numerals import with_digits
from stapo_bench.grading.read import parse
from stapo_bench.grading.read.numerals import NUMERAL, in_digits
from stapo_bench.grading.tree import sym
from stapo_bench.grading.units import MULTIPLIERS, canonical, relation, singular

# One of each in the base unit of its dimension: https://www.bipm.org/en/publications/si-brochure, and for feet, pounds,
# gallons, parsecs and years the definitions by which these are exact, or rounded to the metre.
SIZES = {
    "m": {
        "m meter meters metre metres": "1", "dm decimeter decimeters": "1/10",
        "cm centimeter centimeters centimetre centimetres cms": "1/100",
        "mm millimeter millimeters millimetre millimetres": "1/1000",
        "um micrometer micrometers micron microns": "1e-6", "nm nanometer nanometers nanometre": "1e-9",
        "km kilometer kilometers kilometre kilometres kms": "1000", "angstrom angstroms Å": "1e-10",
        "in inch inches": "0.0254", "ft foot feet": "0.3048", "yd yard yards yds": "0.9144",
        "mi mile miles": "1609.344", "pc parsec parsecs": "30856775814913673", "au AU": "149597870700",
        "ly lightyear lightyears": "9460730472580800",
    },
    "s": {
        "s sec secs second seconds": "1", "min mins minute minutes": "60", "h hr hrs hour hours": "3600",
        "d day days": "86400", "week weeks wk": "604800", "ms millisecond milliseconds": "1e-3",
        "us microsecond microseconds": "1e-6", "ns nanosecond nanoseconds": "1e-9",
        "yr yrs year years": "31557600", "month months": "2629800",  # 365.25 days, and a twelfth of them
    },
    "kg": {
        "kg kilogram kilograms kgs": "1", "g gram grams gm": "1/1000", "mg milligram milligrams": "1e-6",
        "lb lbs pound pounds": "0.45359237", "oz ounce ounces": "0.028349523125", "ton tons tonne tonnes": "1000",
    },
    "m^3": {
        "L l liter liters litre litres": "1/1000", "mL ml milliliter milliliters cc": "1e-6",
        "gal gallon gallons": "0.003785411784",
    },
    "USD": {"USD usd dollar dollars $ bucks": "1", "cent cents ¢": "1/100"},
    "J": {"J joule joules": "1", "kJ kilojoule kilojoules": "1000", "erg ergs": "1e-7", "MJ megajoules": "1e6"},
    "W": {"W watt watts": "1", "kW kilowatt kilowatts": "1000", "mW milliwatt": "1e-3", "GW gigawatts": "1e9"},
    "N": {"N newton newtons": "1", "kN kilonewtons": "1000", "MN meganewton": "1e6"},
    "eV": {"eV": "1", "keV": "1000", "MeV": "1e6"},
    "Hz": {"Hz hertz": "1", "kHz kilohertz": "1000", "MHz megahertz": "1e6", "GHz gigahertz": "1e9"},
    "V": {"V volt volts": "1", "kV kilovolts": "1000", "mV millivolts": "1e-3"},
    "A": {"A amp amps ampere amperes": "1", "mA milliamperes": "1e-3"},
    "Pa": {"Pa pascal pascals": "1", "kPa kilopascals": "1000", "MPa megapascal": "1e6"},
    "mol": {"mol mole moles": "1", "mmol millimoles": "1e-3"},
    "ohm": {"ohm ohms Ω": "1", "kΩ kiloohm": "1000"},
    "bit": {"bit bits": "1", "byte bytes": "8"},
    "K": {"K kelvin": "1"}, "degC": {"degC Celsius celsius": "1"}, "degF": {"degF Fahrenheit fahrenheit": "1"},
    "deg": {"deg degree degrees °": "1"}, "rad": {"rad rads radian radians": "1"},
    "C": {"C coulomb coulombs": "1"}, "T": {"T tesla teslas": "1"}, "F": {"F farad farads": "1"},
    "H": {"H henry henries": "1"},
    "€": {"€ euro euros EUR": "1"}, "£": {"£ GBP": "1"}, "¥": {"¥ yen yuan": "1"}, "₹": {"₹ Rs rupee rupees": "1"},
}  # fmt: skip


@pytest.mark.parametrize("base", SIZES)
def test_each_unit_in_the_base_of_its_dimension(base):
    for names, size in SIZES[base].items():
        for name in names.split():
            assert relation(name, base) == Fraction(size), name
            assert relation(base, name) == 1 / Fraction(size), name


def test_units_of_different_dimensions_clash():
    for one in SIZES:
        for other in SIZES:
            assert (relation(one, other) is None) == (one != other), (one, other)


@pytest.mark.parametrize(
    ("left", "right", "size"),
    [
        ("km/h", "m/s", "5/18"),
        ("kph", "km/h", "1"),
        ("kmph", "km/h", "1"),
        ("kmh", "km/h", "1"),
        ("mph", "mi/h", "1"),
        ("mps", "m/s", "1"),
        ("m per second", "m/s", "1"),
        ("m s^-1", "m/s", "1"),
        ("m/s^2", "m s^-2", "1"),
        ("cm^2", "m^2", "1/10000"),
        ("square cm", "cm^2", "1"),
        ("sq cm", "cm^2", "1"),
        ("cm squared", "cm^2", "1"),
        ("cubic cm", "mL", "1"),
        ("cu cm", "cc", "1"),
        ("m cubed", "L", "1000"),
        ("cm^{2}", "cm^2", "1"),
        ("g/cm^3", "kg/m^3", "1000"),
        ("m^12", "m^12", "1"),
        ("dollars per kg", "per kg", "1"),
        ("per kg", "dollars per kg", "1"),
        ("cents per kg", "per kg", "1/100"),
        ("dollars", "euros", None),
        ("dollars per kg", "euros per kg", None),
        ("dollars per kg", "dollars", None),
        ("apples", "apple", "1"),
        ("red apples", "apples", "1"),
        ("cherries", "cherry", "1"),
        ("boxes", "box", "1"),
        ("matches", "match", "1"),
        ("bushes", "bush", "1"),
        ("apples", "pears", None),
        ("apples", "cm", None),
        ("units", "cm", "1"),
        ("units", "apples", "1"),
        ("square units", "", "1"),
        ("of the", "cm", "1"),
    ],
)
def test_units_of_products_and_words(left, right, size):
    assert relation(left, right) == (None if size is None else Fraction(size))


def test_words_lose_the_ending_of_a_plural():
    words = {"cities": "city", "ties": "tie", "taxes": "tax", "glass": "glass", "gas": "gas", "cats": "cat", "is": "is"}
    assert {word: singular(word) for word in words} == words


def test_dimensions_that_cancel_leave_a_number():
    assert canonical("m/cm") == ((), Fraction(100))
    assert canonical("newton") == ((("L", 1), ("M", 1), ("T", -2)), Fraction(1))


def test_multipliers_by_their_values():
    powers = {"hundred": 2, "thousand": 3, "lakh": 5, "million": 6, "crore": 7, "billion": 9, "trillion": 12}
    parts = {
        "halves": 2, "halfs": 2, "thirds": 3, "quarters": 4, "fourths": 4, "fifths": 5, "sixths": 6, "sevenths": 7,
        "eighths": 8, "ninths": 9, "tenths": 10, "twelfths": 12, "sixteenths": 16, "hundredths": 100,
        "thousandths": 1000, "millionths": 10**6,
    }  # fmt: skip
    by_hand = {word: 10**count for word, count in powers.items()} | {"dozen": 12}
    assert by_hand | {word: Fraction(1, part) for word, part in parts.items()} == MULTIPLIERS


CARDINALS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
]  # fmt: skip
ORDINALS = {
    "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10,
    "eleventh": 11, "twelfth": 12, "thirteenth": 13, "fourteenth": 14, "fifteenth": 15, "sixteenth": 16,
    "seventeenth": 17, "eighteenth": 18, "nineteenth": 19, "twentieth": 20, "thirtieth": 30, "fortieth": 40,
    "fiftieth": 50, "sixtieth": 60, "seventieth": 70, "eightieth": 80, "ninetieth": 90, "hundredth": 100,
    "thousandth": 1000, "millionth": 10**6, "billionth": 10**9, "trillionth": 10**12,
}  # fmt: skip
NUMBER_WORDS = (
    [(word, str(value)) for value, word in enumerate(CARDINALS)]
    + [(f"a {word}", f"1/{value}") for word, value in ORDINALS.items()]
    + [(f"seven {word}s", str(Fraction(7, value))) for word, value in ORDINALS.items()]
    + [(f"zero point {word}", str(Fraction(value, 10))) for value, word in enumerate(CARDINALS[1:10], start=1)]
    + [
        ("thirty", "30"), ("forty", "40"), ("fifty", "50"), ("sixty", "60"), ("seventy", "70"), ("eighty", "80"),
        ("ninety-nine", "99"), ("twenty one", "21"), ("a hundred", "100"), ("nine hundred ninety-nine", "999"),
        ("two thousand and five", "2005"), ("one hundred and one", "101"), ("a dozen", "12"), ("three dozen", "36"),
        ("a million", "1000000"), ("two million three hundred thousand", "2300000"), ("five billion", "5000000000"),
        ("six trillion", "6000000000000"), ("twelve hundred", "1200"), ("two point zero five", "41/20"),
        ("one point five million", "1500000"), ("half", "1/2"), ("a half", "1/2"), ("quarter", "1/4"),
        ("three halves", "3/2"), ("two and a half", "5/2"), ("five and three quarters", "23/4"),
        ("twenty-one thirds", "7"), ("minus seven", "-7"), ("negative two thirds", "-2/3"), ("ten percent", "10%"),
        ("one hundred twenty-three thousand four hundred fifty-six", "123456"),
    ]
)  # fmt: skip


@pytest.mark.parametrize(("words", "digits"), NUMBER_WORDS)
def test_numbers_in_words(words, digits):
    assert in_digits(words) == digits
    found = NUMERAL.search(f"it is {words}.")
    assert found is not None and found.group() == words


@pytest.mark.parametrize(
    "words", ["two three", "twenty eleven", "twenty zero", "ten five", "fifth", "the", "one one", "point five", "an"]
)
def test_words_that_are_no_one_number(words):
    assert in_digits(words) is None


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("Il y a donc deux cas.", "Il y a donc 2 cas."),
        ("Il y a donc dix-sept cas.", "Il y a donc 17 cas."),
        ("Il y a donc vingt et un cas.", "Il y a donc 21 cas."),
        ("Il y a donc trente-deux cas.", "Il y a donc 32 cas."),
        ("Il y a donc trente-deux cas.", "Il y a donc 32 cas."),
        ("Il y a donc soixante cas.", "Il y a donc 60 cas."),
        ("Il y a donc soixante-neuf cas.", "Il y a donc 69 cas."),
        ("Il y a donc soixante-dix-neuf cas.", "Il y a donc 79 cas."),
        ("Il y a donc quatre-vingts cas.", "Il y a donc 80 cas."),
        ("Il y a donc quatre-vingt-un cas.", "Il y a donc 81 cas."),
        ("Il y a donc quatre-vingt-dix-neuf cas.", "Il y a donc 99 cas."),
        ("Il y a donc cent cas.", "Il y a donc 100 cas."),
        ("Il y a donc mille cas.", "Il y a donc 1000 cas."),
        ("Por lo tanto, la respuesta es dieciséis.", "Por lo tanto, la respuesta es 16."),
        ("Por lo tanto, la respuesta es veintinueve.", "Por lo tanto, la respuesta es 29."),
        ("Por lo tanto, la respuesta es treinta.", "Por lo tanto, la respuesta es 30."),
        ("Por lo tanto, la respuesta es treinta y uno.", "Por lo tanto, la respuesta es 31."),
        ("Por lo tanto, la respuesta es noventa y nueve.", "Por lo tanto, la respuesta es 99."),
        ("Por lo tanto, la respuesta es cien.", "Por lo tanto, la respuesta es 100."),
        ("Por lo tanto, la respuesta es mil.", "Por lo tanto, la respuesta es 1000."),
        ("Es gibt also zwölf Fälle.", "Es gibt also 12 Fälle."),
        ("Es gibt also zwanzig Fälle.", "Es gibt also 20 Fälle."),
        ("Es gibt also einundzwanzig Fälle.", "Es gibt also 21 Fälle."),
        ("Es gibt also neunundneunzig Fälle.", "Es gibt also 99 Fälle."),
        ("Es gibt also hundert Fälle.", "Es gibt also 100 Fälle."),
        ("Es gibt also tausend Fälle.", "Es gibt also 1000 Fälle."),
        ("共有一百二十种。", "共有120种。"),
        ("共有十二种。", "共有12种。"),
        ("共有两千零五种。", "共有2005种。"),
        ("共有三万四千种。", "共有34000种。"),
        ("答案为九。", "答案为9。"),
        ("概率为三分之一。", "概率为1/3。"),
        ("第三种", "第三种"),
        ("三角形", "三角形"),
        ("There are two cases.", "There are two cases."),
    ],
)
def test_numbers_in_words_of_other_languages(text, digits):
    assert with_digits(text) == digits


def is_prime(number):
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def test_sample_points_are_primes_over_primes_and_none_comes_twice():
    """No relation among the points: a formula that agrees at all of them agrees."""
    parts = [abs(part) for point in (*functions._POINTS, *functions._STEPS) for part in point]
    assert all(map(is_prime, parts))
    assert len(set(functions._POINTS)) == 10 and len(set(functions._STEPS)) == 8
    assert len({Fraction(*point) for point in functions._POINTS}) == 10
    assert {point < 0 for point, _ in functions._POINTS} == {True, False}
    assert len(set(functions._COUNTS)) == len(functions._COUNTS) == 8 and min(functions._COUNTS) > 2
    assert [abs(far) > 100 for far in functions._FAR] == [True] * 4


def test_sample_points_by_hand():
    x, y = sym("x"), sym("y")
    first, second, third = functions.points(x, y, ["x", "y"])[:3]
    # the first name has the point itself; the second the point times a step of its own, and a seventh of the index
    assert first == {"x": Fraction(37, 29), "y": Fraction(37, 29) * Fraction(67, 73)}
    assert second == {"x": Fraction(-53, 31), "y": -(Fraction(-53, 31) * Fraction(109, 97) + Fraction(1, 7))}
    assert third == {"x": Fraction(83, 23), "y": -(Fraction(83, 23) * Fraction(79, 113) + Fraction(2, 7))}
    counts = functions.points(parse("n!"), x, ["n", "x"])
    assert [env["n"] for env in counts] == [6, 7, 9, 4, 12, 5, 3, 10, 6, 7]
    assert counts[0]["x"] == Fraction(37, 29) * Fraction(67, 73)  # no counter: its point
    for env in functions.points(parse("a_1"), parse("b"), ["a_1", "b"]):
        assert min(env.values()) > 0  # measured quantities
    for env in functions.points(x, x, ["p", "u", "v", "w"]):
        assert min(env.values()) > 0


def test_far_points_by_hand():
    x, y = sym("x"), sym("y")
    far = functions._far_points(x, y, ["x", "y"])
    first = Fraction(1009, 7)
    assert [env["x"] for env in far] == [first, -first, Fraction(10**4, 3), Fraction(-(10**4), 3)]
    # the second name goes three, four, ... further on, with its sign turned at each other point
    assert [env["y"] for env in far] == [first + 3, first - 4, Fraction(10**4, 3) + 5, Fraction(10**4, 3) - 6]
    whole = functions._far_points(parse(r"\lfloor n \rfloor"), x, ["n"])
    assert [env["n"] for env in whole] == [23, 6, 101, 1009, 144, 144, 3333, 3333]
    assert min(functions._far_points(parse("a_1"), x, ["a_1"])[1].values()) > 0
    assert min(functions._far_points(x, y, ["p", "u", "v", "w"])[1].values()) > 0


def test_signs_of_sample_points():
    signs = [env["y"] > 0 for env in functions.points(sym("x"), sym("y"), ["x", "y"])]
    by_x = [env["x"] > 0 for env in functions.points(sym("x"), sym("y"), ["x", "y"])]
    assert [a is not b for a, b in zip(signs, by_x, strict=True)][:5] == [False, True, True, False, True]
    deep = functions.points(sym("a"), sym("b"), list("abcdefg"))[0]  # the powers of a step start again after five
    assert deep["f"] == Fraction(37, 29) and deep["g"] == Fraction(37, 29) * Fraction(157, 131)


def test_words_that_hedge_are_no_units():
    assert not units.HEDGES & (units.WORDS | set(MULTIPLIERS))
    assert not units.CONDITIONS & units.WORDS


def test_where_pieces_of_the_line_are_looked_at():
    assert all(0 < share < 1 for share in piecewise._SHARES) and len(set(piecewise._SHARES)) == 4
    assert all(is_prime(part) for share in piecewise._SHARES for part in (share.numerator, share.denominator))
    assert all(is_prime(part) for far in piecewise._FAR for part in (far.numerator, far.denominator))
    assert [point.value for point in piecewise._between([])] == [
        Fraction(-61, 13), Fraction(-7, 19), 0, Fraction(47, 29), Fraction(113, 7),
    ]  # fmt: skip
    found = [point.value for point in piecewise._between([parse("1"), parse("3")])]
    below, within, above = found[:4], found[4:8], found[8:]
    assert [1 - value for value in below] == list(piecewise._FAR) == [value - 3 for value in above]
    assert [(value - 1) / 2 for value in within] == list(piecewise._SHARES)
