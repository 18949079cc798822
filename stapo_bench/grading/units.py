r"""Units of measurement: which words they are, and how they convert. A unit may be dropped, not changed."""

import re
from fractions import Fraction
from functools import lru_cache

from stapo_bench.grading.patterns import regex

_BASE: dict[str, tuple[str, Fraction]] = {}


def _unit(dimension: str, factor: str, names: str) -> None:
    """Add the names of a unit to the vocabulary."""
    for name in names.split():
        _BASE[name] = (dimension, Fraction(factor))


for _factor, _names in [
    ("1", "m meter meters metre metres"), ("0.01", "cm centimeter centimeters centimetre centimetres cms"),
    ("0.001", "mm millimeter millimeters millimetre millimetres"),
    ("1000", "km kilometer kilometers kilometre kilometres kms"),
    ("0.000001", "um micrometer micrometers micrometre micrometres micron microns"),
    ("0.000000001", "nm nanometer nanometers nanometre nanometres"),
    ("0.1", "dm decimeter decimeters decimetre decimetres"),
    ("0.0254", "in inch inches"), ("0.3048", "ft foot feet"),
    ("0.9144", "yd yard yards yds"),
    ("1609.344", "mi mile miles"), ("0.0000000001", "angstrom angstroms Å"), ("30856775814913673", "pc parsec parsecs"),
    ("149597870700", "au AU"), ("9460730472580800", "ly lightyear lightyears"),
]:  # fmt: skip
    _unit("L", _factor, _names)
for _factor, _names in [
    ("1", "s sec secs second seconds"), ("60", "min mins minute minutes"), ("3600", "h hr hrs hour hours"),
    ("86400", "d day days"), ("604800", "week weeks wk"), ("0.001", "ms millisecond milliseconds"),
    ("0.000001", "us microsecond microseconds"), ("0.000000001", "ns nanosecond nanoseconds"),
    ("31557600", "yr yrs year years"),
    ("2629800", "month months"),
    ("1", "Sekunde Sekunden secondes segundos"), ("60", "Minuten minutos"),
    ("3600", "Stunde Stunden heure heures hora horas"), ("86400", "Tage jours días"),
]:  # fmt: skip
    _unit("T", _factor, _names)
for _factor, _names in [
    ("1", "kg kilogram kilograms kgs"), ("0.001", "g gram grams gm"), ("0.000001", "mg milligram milligrams"),
    ("0.45359237", "lb lbs pound pounds"), ("0.028349523125", "oz ounce ounces"), ("1000", "ton tons tonne tonnes"),
]:  # fmt: skip
    _unit("M", _factor, _names)
_unit("$", "1", "USD usd dollar dollars $ bucks")
_unit("$", "0.01", "cent cents ¢")
_unit("€", "1", "€ euro euros EUR")
_unit("£", "1", "£ GBP")
_unit("£", "0.01", "pence")
_unit("¥", "1", "¥ yen yuan")
_unit("₹", "1", "₹ Rs rupee rupees")
_unit("angle", "1", "deg degree degrees °")
_unit("rad", "1", "rad rads radian radians")
_unit("LLL", "0.001", "L l liter liters litre litres")
_unit("LLL", "0.000001", "mL ml milliliter milliliters millilitre millilitres cc")
_unit("LL", "10000", "hectare hectares")
_unit("LL", "4046.8564224", "acre acres")
_unit("LLL", "0.003785411784", "gal gallon gallons")
_unit("N", "1", "N newton newtons")
_unit("J", "1", "J joule joules")
_unit("J", "1000", "kJ kilojoule kilojoules")
_unit("J", "0.0000001", "erg ergs")
_unit("W", "1", "W watt watts")
_unit("W", "1000", "kW kilowatt kilowatts")
_unit("Hz", "1", "Hz hertz")
_unit("eV", "1", "eV")
_unit("eV", "1000", "keV")
_unit("eV", "1000000", "MeV")
_unit("K", "1", "K kelvin")
_unit("degC", "1", "degC Celsius celsius")
_unit("degF", "1", "degF Fahrenheit fahrenheit")
_unit("mol", "1", "mol mole moles")
_unit("A", "1", "A amp amps ampere amperes")
_unit("V", "1", "V volt volts")
_unit("Pa", "1", "Pa pascal pascals")
_unit("Pa", "101325", "atm")
_unit("Ohm", "1", "ohm ohms Ω")
_unit("Ohm", "1000", "kohm")
_unit("C", "1", "C coulomb coulombs")
_unit("T ", "1", "T tesla teslas")
_unit("F", "1", "F farad farads")
_unit("H", "1", "H henry henries")
_unit("rpm", "1", "rpm")
_unit("bit", "1", "bit bits")
_unit("bit", "8", "byte bytes")
for _name, _whole in [("N", "newton"), ("J", "joule"), ("W", "watt"), ("V", "volt"), ("A", "ampere"), ("Pa", "pascal"),
                      ("Hz", "hertz"), ("mol", "mole"), ("Ω", "ohm"), ("C", "coulomb"), ("F", "farad"),
                      ("H", "henry")]:  # fmt: skip
    for _prefix, _word, _factor in [
        ("k", "kilo", "1e3"),
        ("M", "mega", "1e6"),
        ("G", "giga", "1e9"),
        ("m", "milli", "1e-3"),
        ("u", "micro", "1e-6"),
        ("n", "nano", "1e-9"),
    ]:
        if _prefix + _name not in _BASE:
            _unit(_BASE[_name][0], str(Fraction(_factor)), f"{_prefix}{_name} {_word}{_whole} {_word}{_whole}s")

_DERIVED = {  # in kilograms, metres, seconds and amperes
    "N": {"M": 1, "L": 1, "T": -2}, "J": {"M": 1, "L": 2, "T": -2}, "W": {"M": 1, "L": 2, "T": -3},
    "Pa": {"M": 1, "L": -1, "T": -2}, "Hz": {"T": -1}, "C": {"A": 1, "T": 1},
    "V": {"M": 1, "L": 2, "T": -3, "A": -1}, "Ohm": {"M": 1, "L": 2, "T": -3, "A": -2},
}  # fmt: skip
# "12 \text{ m/s }", "30 \text{ meters } \text{ per } \text{ second }", "12 Ω"
_TOLD, _IN_TEXT = regex(r"(?:\\text\s?\{[^{}]*\}\s*)+|(?<=\d) ?([kM]?Ω)(?!\w)"), regex(r"\\text\s?\{([^{}]*)\}")
_MICRO = regex(r"(?<=\d)( ?)[µμ](?=(?:[mgsAFCLlVWHJNT]|mol|Pa|Hz|eV)(?![A-Za-z]))")
_CURRENCIES = frozenset("$€£¥₹")
_POWER_WORDS = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}
_COMPOUND = {
    "mph": "mi/h",
    "kph": "km/h",
    "kmph": "km/h",
    "kmh": "km/h",
    "mps": "m/s",
    "mpg": "mi/gal",
    "kWh": "kW h",
    "Wh": "W h",
    "amu": "amu",
}
_FILLER = frozenset(["of", "the", "a", "an", "in", "total", "is", "are", "per"])
_EACH = (
    r"\bper\b|(?<=[a-z] )(?:an?|each|every)(?= (?:second|minute|hour|day|week|month|year|gram|kilogram|lit(?:er|re)"
    r"|gallon|met(?:er|re)|mile|kilomet(?:er|re))\b)"
)
# One-letter units would swallow variables: outside \text{} they count only after a number and a space.
WORDS = (
    frozenset(name for name in _BASE if len(name) > 1)
    | frozenset(_COMPOUND)
    | frozenset(_POWER_WORDS)
    | frozenset({"units", "unit"})
)
NAMES = frozenset(name for name in _BASE if name[0].isalpha())
SIGNS = frozenset("€£¥₹¢")
LETTERS = frozenset("m s g L N J W V K h")
# Words that turn a value into something else than that value.
HEDGES = frozenset({
    "or", "more", "less", "least", "most", "not", "no", "about", "approximately", "approx", "up", "over", "under",
    "above", "below", "between", "if", "unless", "maybe", "either", "except", "nor", "roughly", "around", "greater",
    "fewer", "to", "mod", "modulo", "base", "than", "and", "divided", "times", "plus", "minus", "possibly",
    "perhaps", "almost", "nearly", "wrong", "incorrect", "false", "otherwise", "else", "exist", "exists", "never",
    "cannot", "factorial", "pi",
})  # fmt: skip
BOUNDS = frozenset({"minimum", "maximum"})  # behind a value, or its unit
PERCENT_APART = "(in percent)"  # the unit of a bare number whose percent sign stands elsewhere in the response
BASE_APART = "(in base"  # behind a bare number whose base stands in words beside it
NEXT_VALUE = r" \text{(and)} "  # between values that have names of their own
IN_SENTENCE = r"\text{(in a sentence)} "  # before a sentence that holds an answer in words
NEXT_READING = "\x1e"  # between what a completion may be read to answer
NEXT_PART = r" \text{(next part)} "  # between the answers to the parts of one question
# Words that open a condition behind a value, or a reason for it.
CONDITIONS = frozenset({
    "for", "where", "when", "whenever", "with", "if", "provided", "unless", "otherwise", "else", "given", "since", "as",
    "respectively",
})  # fmt: skip
MULTIPLIERS: dict[str, int | Fraction] = {
    "hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12,
    "lakh": 10**5, "crore": 10**7, "halves": Fraction(1, 2), "halfs": Fraction(1, 2), "quarters": Fraction(1, 4),
    "thirds": Fraction(1, 3), "fourths": Fraction(1, 4), "fifths": Fraction(1, 5), "sixths": Fraction(1, 6),
    "sevenths": Fraction(1, 7), "eighths": Fraction(1, 8), "ninths": Fraction(1, 9), "tenths": Fraction(1, 10),
    "twelfths": Fraction(1, 12), "sixteenths": Fraction(1, 16), "hundredths": Fraction(1, 100),
    "thousandths": Fraction(1, 1000), "millionths": Fraction(1, 10**6),
}  # fmt: skip


def without_micro(text: str) -> str:
    """The text with a "u" for the micro sign of a unit behind a number.

    >>> without_micro("5 µF, 0.65 μm and μ = 3")
    '5 uF, 0.65 um and μ = 3'
    """
    return _MICRO.sub(r"\1u", text)


@lru_cache(maxsize=512)
def canonical(unit: str) -> tuple[tuple[tuple[str, int], ...], Fraction] | frozenset[str]:
    r"""Dimensions and size of a unit, or the set of its words where it is none that is known.

    >>> canonical("km/h")
    ((('L', 1), ('T', -1)), Fraction(5, 18))
    >>> canonical("square feet") == canonical("ft^2")
    True
    >>> canonical("N/m^2") == canonical("Pa"), canonical("N m") == canonical("J")
    (True, True)
    >>> canonical("dollars an hour") == canonical("USD/h")
    True
    >>> sorted(canonical("right triangles"))
    ['right', 'triangle']
    """
    text = re.sub(_EACH, "/", _COMPOUND.get(unit.strip(" ."), unit))
    text = re.sub(r"(?<=\w) in\s*$", "", text)  # "m/s in the direction of ..."
    text = re.sub(r"\\cdot\b|[{}~\\·]|\bunits?\b", " ", text)
    pieces = re.findall(r"[A-Za-zÅΩ°$€£¥₹¢]+|\^?\s*-?\d+|/|\S", text.replace("^ ", "^"))
    dims: dict[str, int] = {}
    factor = Fraction(1)
    sign, carry, last = 1, 1, ""
    words: set[str] = set()
    for piece in pieces:
        if piece == "/":
            sign = -1
        elif piece in _POWER_WORDS:
            if piece.endswith("d") and last:
                factor = _scale(dims, factor, last, sign * (_POWER_WORDS[piece] - 1))
            else:
                carry = _POWER_WORDS[piece]
        elif piece in _BASE:
            last = piece
            factor = _scale(dims, factor, piece, sign * carry)
            carry = 1
        elif re.fullmatch(r"\^?\s*-?\d+", piece) and last:
            exponent = int(piece.strip("^ ")[:3])
            factor = _scale(dims, factor, last, sign * (exponent - 1))
        elif re.fullmatch(r"[A-Za-z]+", piece) and piece.lower() not in _FILLER:
            words.add(singular(piece.lower()))
    if words or not dims:
        return frozenset(words | set(dims))
    return tuple(sorted((d, e) for d, e in dims.items() if e)), factor


def told_units(answer: str) -> list[tuple[tuple[tuple[str, int], ...], Fraction]]:
    r"""Dimensions and size of each unit that an answer tells behind a value, where it is one that is known.

    >>> told_units(r"30 \text{ meters } \text{ per } \text{ second }") == [canonical("m/s")]
    True
    >>> told_units("24 Ω") == [canonical("ohm")]
    True
    """
    told = ["".join(_IN_TEXT.findall(match[0])) or match[1] for match in _TOLD.finditer(answer)]
    return [unit for unit in map(canonical, told) if isinstance(unit, tuple)]


def _scale(dims: dict[str, int], factor: Fraction, name: str, times: int) -> Fraction:
    """Multiply a dimension, so many times, into ``dims``; the factor that comes with it."""
    dimension, size = _BASE[name]
    lengths = {"L": len(dimension)} if set(dimension) == {"L"} else None
    for base, exponent in (_DERIVED.get(dimension) or lengths or {dimension: 1}).items():
        dims[base] = dims.get(base, 0) + times * exponent
    return factor * size ** max(-12, min(12, times))


def singular(word: str) -> str:
    """The word without the ending of its plural.

    >>> singular("apples"), singular("boxes"), singular("glass")
    ('apple', 'box', 'glass')
    """
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word


def inverse(unit: str) -> str:
    """One over a unit.

    >>> inverse("mol/L"), inverse("s"), inverse("")
    ('L / mol', '/ s', '')
    """
    above, _, below = re.sub(r"\bper\b", "/", unit).partition("/")
    return f"{below.replace('/', ' ').strip()} / {above.strip()}".strip() if above.strip() else below.strip()


def product(factors: list[str]) -> str:
    """The unit of a product.

    >>> product(["mol", "L / mol"]), product(["kg", "m/s"])
    ('mol L / mol', 'kg m / s')
    """
    parts = [re.sub(r"\bper\b", "/", factor).partition("/") for factor in factors]
    above = " ".join(part[0].strip() for part in parts if part[0].strip())
    below = " ".join(part[2].replace("/", " ").strip() for part in parts if part[2].strip())
    return f"{above} / {below}".strip() if below else above


def relation(left: str, right: str) -> Fraction | None:
    """Size of one ``left`` in ``right`` (``cm`` in ``m``: 1/100); 1 where either is absent; None where they clash.

    >>> relation("cm", "m"), relation("", "km"), relation("cm", "s"), relation("apples", "oranges")
    (Fraction(1, 100), Fraction(1, 1), None, None)
    """
    if not left.strip() or not right.strip():
        return Fraction(1)
    a, b = canonical(left), canonical(right)
    if isinstance(a, frozenset) and isinstance(b, frozenset):
        return Fraction(1) if not a or not b or a & b else None
    if isinstance(a, frozenset) or isinstance(b, frozenset):
        loose = a if isinstance(a, frozenset) else b
        return Fraction(1) if not loose else None
    if a[0] == b[0]:
        return a[1] / b[1]
    priced = [tuple(part for part in dims if part[0] not in _CURRENCIES) for dims in (a[0], b[0])]
    one_is_bare = (priced[0] == a[0]) is not (priced[1] == b[0])  # "1.50/kg" leaves out the dollar of "$1.50/kg"
    return a[1] / b[1] if one_is_bare and priced[0] == priced[1] else None
