"""Numbers in words of French, Spanish, German, Italian, Portuguese, Russian, Chinese, Japanese and Korean."""

import pytest

from stapo_bench.grading.extraction.numerals import with_digits

# Each pair is a number in words and its value, set in a sentence of the language.
SENTENCES = {
    "Il y a donc {} cas.": """
        zéro=0 deux=2 neuf=9 dix-sept=17 dix sept=17 vingt et un=21 vingt-et-un=21 vingt et une=21 vingt-deux=22
        soixante et onze=71 soixante-dix=70 soixante-dix-sept=77 quatre-vingts=80 quatre-vingt-un=81
        quatre-vingt-onze=91 quatre vingt onze=91 quatre vingt dix-huit=98 septante-deux=72 nonante=90 cent=100
        cent un=101 cent-huit=108 cent quatre-vingts=180 deux cents=200 deux cent trente et un=231
        neuf cent quatre-vingt-dix-neuf=999 mille=1000
        mille deux cents=1200 onze cents=1100 deux mille=2000 trois mille quatre=3004 deux cent mille=200000
        cent vingt mille trois cent quarante-cinq=120345
    """,
    "Por lo tanto, hay {} casos.": """
        cero=0 dos=2 once=11 dieciséis=16 dieciseis=16 veintiún=21 veintiuno=21 veintidós=22 veintidos=22 treinta=30
        treinta y una=31 noventa y nueve=99 cien=100 ciento uno=101 ciento ocho=108 doscientos=200
        doscientos treinta y un=231 quinientas=500 novecientos noventa y nueve=999 mil=1000 mil cien=1100
        mil doscientos=1200 dos mil cinco=2005 veintiún mil=21000 cien mil=100000
        doscientos mil trescientos cuarenta y cinco=200345
    """,
    "Es gibt also {} Fälle.": """
        null=0 zwei=2 zwo=2 fünf=5 fuenf=5 zwölf=12 sechzehn=16 siebzehn=17 einundzwanzig=21 dreiunddreißig=33
        dreiunddreissig=33 hundert=100 einhundert=100 hunderteins=101 hundertundeins=101 hundertacht=108
        einhundertfünfunddreißig=135 zweihundert=200 neunhundertneunundneunzig=999 tausend=1000 eintausend=1000
        Tausend=1000 zweitausend=2000 zwölfhundert=1200 eintausendzweihundert=1200 zweitausend dreihundert=2300
        achtzehntausend=18000 zweihunderttausenddreihundertfünfundvierzig=200345
    """,
    "Quindi i casi sono {} in tutto.": """
        zero=0 due=2 nove=9 diciassette=17 venti=20 ventuno=21 ventun=21 ventitré=23 ventitre=23 ventotto=28 ventisei=26
        trentotto=38 settantacinque=75 ottantuno=81 cento=100 centouno=101 centuno=101 centotto=108 centottanta=180
        centoquattro=104 duecento=200 duecentotrentuno=231 seicento=600 novecentonovantanove=999 mille=1000
        milleduecento=1200 mille duecento=1200 duemila=2000 seimila=6000 centomila=100000
        duecentomilatrecentoquarantacinque=200345
    """,
    "Portanto, existem {} casos ao todo.": """
        zero=0 dois=2 duas=2 três=3 seis=6 oito=8 catorze=14 quatorze=14 dezasseis=16 dezesseis=16 dezanove=19 vinte=20
        vinte e um=21 vinte e uma=21 noventa e nove=99 cem=100 cento e um=101 cento e oitenta=180 duzentos=200
        duzentas e trinta e uma=231 novecentos e noventa e nove=999 mil=1000 mil e duzentos=1200 mil duzentos=1200
        dois mil e cinco=2005 dois mil trezentos e quarenta e cinco=2345 cem mil=100000
        duzentos mil trezentos e quarenta e cinco=200345
    """,
    "Всего получаем {} разных случаев.": """
        ноль=0 два=2 двух=2 две=2 три=3 трёх=3 трех=3 тремя=3 пять=5 пяти=5 пятью=5 пятеро=5 восемью=8 одиннадцать=11
        двадцать=20 двадцать один=21 двадцати одного=21 сорок=40 сорока двух=42 девяносто=90 девяноста=90 сто=100
        ста=100 сто один=101 сто двадцать=120 двести=200 двухсот тридцати=230 девятьсот девяносто девять=999 тысяча=1000
        тысяча двести=1200 две тысячи=2000 одна тысяча=1000 двадцать одна тысяча=21000
        двести тысяч триста сорок пять=200345
    """,
}


def pairs(text):
    """The words and values of a list: words run up to "=", and the value to the next blank."""
    words = []
    for part in text.split():
        word, _, value = part.partition("=")
        words.append(word)
        if value:
            yield " ".join(words), value
            words = []


CASES = [
    (sentence.format(words), sentence.format(value))
    for sentence, text in SENTENCES.items()
    for words, value in pairs(text)
]


@pytest.mark.parametrize(("text", "digits"), CASES)
def test_numbers_in_sentences(text, digits):
    assert with_digits(text) == digits


def test_every_language_has_at_least_fifteen_numbers():
    assert all(len(list(pairs(text))) >= 15 for text in SENTENCES.values())
    assert sum(len(list(pairs(text))) for text in SENTENCES.values()) == len(CASES)


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("Le train parcourt cent vingt kilomètres en une heure.", "Le train parcourt 120 kilomètres en une heure."),
        ("La réponse est douze, non six, et le dé donne un six.", "La réponse est 12, non 6, et le dé donne un 6."),
        ("Ils sont deux, sept ou neuf.", "Ils sont 2, 7 ou 9."),
        ("Cada uno mide, o sea, ciento ocho grados.", "Cada uno mide, o sea, 108 grados."),
        ("Son ciento ocho grados.", "Son 108 grados."),
        ("Los números son dos y tres.", "Los números son 2 y 3."),
        ("Insgesamt sind acht Kugeln rot.", "Insgesamt sind 8 Kugeln rot."),
        ("Das sind tausend Uhren und hundert einzelne Teile.", "Das sind 1000 Uhren und 100 einzelne Teile."),
        ("I divisori sono in tutto nove, tra cui il 36.", "I divisori sono in tutto 9, tra cui il 36."),
        ("Ne restano otto, quindi la risposta è otto.", "Ne restano 8, quindi la risposta è 8."),
        ("Le facce sono sei.", "Le facce sono 6."),
        ("Ci sono sei triangoli e mille unità.", "Ci sono 6 triangoli e 1000 unità."),
        ("Portanto existem oito múltiplos de 6.", "Portanto existem 8 múltiplos de 6."),
        ("Resposta: vinte e quatro anagramas.", "Resposta: 24 anagramas."),
        ("Итого у неё пять граней.", "Итого у неё 5 граней."),
        ("Значит, всего таких чисел восемь.", "Значит, всего таких чисел 8."),
    ],
)  # fmt: skip
def test_sentences(text, digits):
    assert with_digits(text) == digits


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("La probabilité est donc un tiers.", "La probabilité est donc 1/3."),
        ("La probabilité est de deux cinquièmes.", "La probabilité est de 2/5."),
        ("La probabilidad es tres cuartos.", "La probabilidad es 3/4."),
        ("Die Wahrscheinlichkeit ist fünf Sechstel.", "Die Wahrscheinlichkeit ist 5/6."),
        ("La probabilità è due terzi.", "La probabilità è 2/3."),
        ("La probabilità è di tre quarti.", "La probabilità è di 3/4."),
        ("La probabilità è un quinto", "La probabilità è 1/5"),
        ("A probabilidade é dois terços.", "A probabilidade é 2/3."),
        ("A probabilidade é três quartos.", "A probabilidade é 3/4."),
        ("Вероятность равна две трети.", "Вероятность равна 2/3."),
        ("Вероятность равна трём четвертям.", "Вероятность равна 3/4."),
        ("Вероятность — это одна треть.", "Вероятность — это 1/3."),
        ("Вероятность равна пяти шестым.", "Вероятность равна 5/6."),
        ("Вероятность составляет одну треть.", "Вероятность составляет 1/3."),
        ("確率は6分の2、すなわち3分の1となる。", "確率は2/6、すなわち1/3となる。"),
        ("確率は三分の一となる。", "確率は1/3となる。"),
        ("概率为三分之二，即百分之二十。", "概率为2/3，即20%。"),
        ("共有一百二十种。", "共有120种。"),
        ("Es ist zwei Drittel der Zahl.", "Es ist 2 Drittel der Zahl."),
        ("La duración es de dos horas y media.", "La duración es de 2.5 horas."),
        ("La respuesta es dos y medio.", "La respuesta es 2.5."),
        ("Это два с половиной часа.", "Это 2.5 часа."),
    ],
)
def test_fractions(text, digits):
    assert with_digits(text) == digits


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("La réponse est moins sept.", "La réponse est -7."),
        ("La respuesta es menos veintiuno.", "La respuesta es -21."),
        ("Das Ergebnis ist minus sieben.", "Das Ergebnis ist -7."),
        ("Ответ: минус семь.", "Ответ: -7."),
        ("Diez menos siete son tres.", "10 menos 7 son 3."),
    ],
)
def test_signs(text, digits):
    assert with_digits(text) == digits


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("모두 세 개입니다.", "모두 3개입니다."),
        ("모두 열 개입니다.", "모두 10개입니다."),
        ("모두 열두 개입니다.", "모두 12개입니다."),
        ("모두 스무 개입니다.", "모두 20개입니다."),
        ("모두 스물네 개입니다.", "모두 24개입니다."),
        ("학생은 서른 명입니다.", "학생은 30명입니다."),
        ("학생은 아흔아홉 명이다.", "학생은 99명이다."),
        ("모두 개입니다.", "모두 개입니다."),
        ("세 개의 공이 있다.", "세 개의 공이 있다."),
    ],
)
def test_korean(text, digits):
    assert with_digits(text) == digits


@pytest.mark.parametrize(
    "text",
    [
        "There are six cases, once.",
        "Los Angeles: six cars of ten",
        "Payment due in 50 cent",
        "Cost: 50 cent",
        "Il y a un cas et une solution.",
        "Es el uno de la suma.",
        "Das ist ein Fall und eine Lösung.",
        "È uno dei casi, una soluzione.",
        "Há um caso e uma solução.",
        "Есть только один случай, одна задача.",
        "C'est le vingt et unième cas, puis le vingt-deuxième, le cent vingt-deuxième et le deuxième.",
        "Es la segunda, la vigésima y la tercera vez.",
        "Das ist der zweite, der zweiundzwanzigste und der hundertste Fall.",
        "È il terzo caso, il ventunesimo e il centesimo della lista.",
        "É o segundo caso, o vigésimo da lista.",
        "Это двадцать первый случай, сто двадцать второй и третий.",
        "Sei x eine Zahl, und das ist der Wert.",
        "Tu sei bravo, e la soluzione è giusta.",
        "Non sei sicuro della risposta.",
        "Sei un genio della matematica, ci sei.",
        "Eu sei que a soma dos números é par, não há outra.",
        "La somma di tutti i numeri: siete sicuri della risposta.",
        "A soma dos ângulos é correta.",
        "Il y a deux millions d'habitants dans la ville.",
        "Hay dos millones de habitantes en la ciudad.",
        "Das sind sechs- bis siebenmal so viele.",
        "La réponse est très bonne, elle est centrale.",
        "Die Achtung und der Elfmeter sind hundertprozentig, Tausende kamen.",
        "пять целых две десятых",
        "Ответ: двадцать одна сотая",
        "Ответ: не двадцать один.",
        "пять шестых",
        "два пять",
        "Sono i due terzi della somma.",
        "São dois terços das vendas.",
        "A resposta não é esta: não oito.",
        "第三种",
        "三角形",
    ],
)
def test_words_that_stay(text):
    assert with_digits(text) == text


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("Cela fait vingt pour cent.", "Cela fait 20%."),
        ("Je suis sûr à cent pour cent, le prix est bon.", "Je suis sûr à 100%, le prix est bon."),
        ("Es el veinte por ciento de los casos.", "Es el 20% de los casos."),
        ("È il venti per cento del totale.", "È il 20% del totale."),
        ("São vinte por cento das vendas.", "São 20% das vendas."),
        ("Es sind zwanzig Prozent.", "Es sind 20%."),
        ("Это двадцать процентов от числа.", "Это 20% от числа."),
        ("Il faut payer pour cent vingt jours.", "Il faut payer pour 120 jours."),
    ],
)
def test_per_cent(text, digits):
    assert with_digits(text) == digits


# fmt: off
GERMAN = ["null", "ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf"]
ITALIAN = [
    "zero", "uno", "due", "tre", "quattro", "cinque", "sei", "sette", "otto", "nove", "dieci", "undici", "dodici",
    "tredici", "quattordici", "quindici", "sedici", "diciassette", "diciotto", "diciannove",
]
FRENCH = [
    "zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix", "onze", "douze", "treize",
    "quatorze", "quinze", "seize", "dix-sept", "dix-huit", "dix-neuf",
]
# fmt: on


def in_german(number):
    """A number below 1000, as 100 a + b, and b as one of the teens or as ones und tens."""
    if number >= 100:
        return in_german(number // 100) + "hundert" + (in_german(number % 100) if number % 100 else "")
    if number < 13:
        return GERMAN[number]
    if number < 20:
        return {16: "sech", 17: "sieb"}.get(number, GERMAN[number - 10]) + "zehn"
    tens = ["zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"][number // 10 - 2]
    return (in_german(number % 10) + "und" if number % 10 else "") + tens


def in_italian(number):
    """A number below 1000; tens lose their last vowel before uno and otto, and three at the end has an accent."""
    if number >= 100:
        before = in_italian(number // 100) if number >= 200 else ""
        return before + "cento" + (in_italian(number % 100) if number % 100 else "")
    if number < 20:
        return ITALIAN[number]
    tens = ["venti", "trenta", "quaranta", "cinquanta", "sessanta", "settanta", "ottanta", "novanta"][number // 10 - 2]
    if number % 10 in (1, 8):
        tens = tens[:-1]
    return tens + {0: "", 3: "tré"}.get(number % 10, ITALIAN[number % 10])


def in_french(number):
    """A number below 1000, of the traditional spelling."""
    if number >= 100:
        many, rest = divmod(number, 100)
        hundred = "cent" if many == 1 else f"{FRENCH[many]} cent{'' if rest else 's'}"
        return f"{hundred} {in_french(rest)}" if rest else hundred
    if number < 20:
        return FRENCH[number]
    if number >= 80:
        return "quatre-vingts" if number == 80 else f"quatre-vingt-{FRENCH[number - 80]}"
    tens, rest = (60, number - 60) if number >= 60 else (number // 10 * 10, number % 10)
    word = {20: "vingt", 30: "trente", 40: "quarante", 50: "cinquante", 60: "soixante"}[tens]
    if rest in (1, 11):
        return f"{word} et {FRENCH[rest]}"
    return f"{word}-{FRENCH[rest]}" if rest else word


@pytest.mark.parametrize(
    ("spelled", "sentence", "thousand"),
    [
        (in_german, "Es sind {} Fälle und das ist der Wert.", "{}tausend{}"),
        (in_italian, "Quindi i casi della lista sono {} in tutto.", "{}mila{}"),
        (in_french, "Il y a donc {} cas dans la liste.", "{} mille {}"),
    ],
)
def test_a_speller_of_its_own_is_read_back(spelled, sentence, thousand):
    for number in range(2, 1000):
        assert with_digits(sentence.format(spelled(number))) == sentence.format(number), spelled(number)
    for number in range(2001, 1_000_000, 4097):
        words = thousand.format(spelled(number // 1000), spelled(number % 1000))
        assert with_digits(sentence.format(words)) == sentence.format(number), words
        assert with_digits(sentence.format(words.replace("-", " "))) == sentence.format(number), words
