//! Operations on numbers: operators, scalar functions, aggregators. Each is defined once, as a closure that
//! is inlined into a loop over slices, so that the loop can be vectorized.

/// Numbers of a batch: one per entry, or the same for all entries.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Numbers<'a> {
    Same(f64),
    Each(&'a [f64]),
}

impl Numbers<'_> {
    pub(crate) fn get(&self, index: usize) -> f64 {
        match self {
            Numbers::Same(number) => *number,
            Numbers::Each(numbers) => numbers[index],
        }
    }
}

/// An operation on one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Unary {
    Negate,
    Not,
    Abs,
    Acos,
    Asin,
    Atan,
    Ceil,
    Cos,
    Cosh,
    Elu,
    Erf,
    Exp,
    Floor,
    IsNan,
    Log,
    Log10,
    Relu,
    Round,
    Sigmoid,
    Sign,
    Sin,
    Sinh,
    Sqrt,
    Square,
    Tan,
    Tanh,
}

impl Unary {
    pub(crate) fn apply(self, x: f64) -> f64 {
        let mut out = [x];
        self.apply_to(&mut out);
        out[0]
    }

    /// Replaces every number.
    pub(crate) fn apply_to(self, numbers: &mut [f64]) {
        fn each(numbers: &mut [f64], f: impl Fn(f64) -> f64) {
            numbers.iter_mut().for_each(|x| *x = f(*x));
        }
        match self {
            Unary::Negate => each(numbers, |x| -x),
            Unary::Not => each(numbers, |x| truth(x == 0.0)),
            Unary::Abs => each(numbers, f64::abs),
            Unary::Acos => each(numbers, f64::acos),
            Unary::Asin => each(numbers, f64::asin),
            Unary::Atan => each(numbers, f64::atan),
            Unary::Ceil => each(numbers, f64::ceil),
            Unary::Cos => each(numbers, f64::cos),
            Unary::Cosh => each(numbers, f64::cosh),
            Unary::Elu => each(numbers, |x| if x < 0.0 { x.exp() - 1.0 } else { x }),
            Unary::Erf => each(numbers, libm::erf),
            Unary::Exp => each(numbers, f64::exp),
            Unary::Floor => each(numbers, f64::floor),
            Unary::IsNan => each(numbers, |x| truth(x.is_nan())),
            Unary::Log => each(numbers, f64::ln),
            Unary::Log10 => each(numbers, f64::log10),
            Unary::Relu => each(numbers, |x| if x > 0.0 { x } else { 0.0 }),
            Unary::Round => each(numbers, |x| (x + 0.5).floor()),
            Unary::Sigmoid => each(numbers, |x| 1.0 / (1.0 + (-x).exp())),
            Unary::Sign => each(numbers, |x| if x == 0.0 || x.is_nan() { x } else { x.signum() }),
            Unary::Sin => each(numbers, f64::sin),
            Unary::Sinh => each(numbers, f64::sinh),
            Unary::Sqrt => each(numbers, f64::sqrt),
            Unary::Square => each(numbers, |x| x * x),
            Unary::Tan => each(numbers, f64::tan),
            Unary::Tanh => each(numbers, f64::tanh),
        }
    }
}

/// An operation on two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Binary {
    Or,
    And,
    Equal,
    NotEqual,
    Approximately,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    Atan2,
    Bit,
    Hamming,
    Ldexp,
    Max,
    Min,
}

/// Infix operators; an operator precedes its own prefixes.
const INFIX: [(&str, Binary, u8); 15] = [
    ("||", Binary::Or, 1),
    ("&&", Binary::And, 2),
    ("==", Binary::Equal, Binary::COMPARISON),
    ("!=", Binary::NotEqual, Binary::COMPARISON),
    ("~=", Binary::Approximately, Binary::COMPARISON),
    ("<=", Binary::LessEqual, Binary::COMPARISON),
    ("<", Binary::Less, Binary::COMPARISON),
    (">=", Binary::GreaterEqual, Binary::COMPARISON),
    (">", Binary::Greater, Binary::COMPARISON),
    ("+", Binary::Add, 4),
    ("-", Binary::Sub, 5),
    ("*", Binary::Mul, 6),
    ("/", Binary::Div, 7),
    ("%", Binary::Mod, 8),
    ("^", Binary::Pow, 9),
];

impl Binary {
    /// Precedence of comparisons and of `in`.
    pub(crate) const COMPARISON: u8 = 3;

    /// The infix operator at the start of `text`, with its spelling.
    pub(crate) fn of_prefix(text: &str) -> Option<(&'static str, Binary)> {
        INFIX
            .iter()
            .find(|(symbol, ..)| text.starts_with(symbol))
            .map(|(symbol, operator, _)| (*symbol, *operator))
    }

    /// Precedence of an infix operator; higher binds tighter.
    pub(crate) fn precedence(self) -> u8 {
        INFIX.iter().find(|(_, operator, _)| *operator == self).map_or(0, |(.., precedence)| *precedence)
    }

    pub(crate) fn apply(self, x: f64, y: f64) -> f64 {
        let mut out = [0.0];
        self.apply_to(Numbers::Same(x), Numbers::Same(y), &mut out);
        out[0]
    }

    /// Fills `out`; `x` and `y` have the same length.
    pub(crate) fn apply_to(self, x: Numbers<'_>, y: Numbers<'_>, out: &mut [f64]) {
        fn each(x: Numbers<'_>, y: Numbers<'_>, out: &mut [f64], f: impl Fn(f64, f64) -> f64) {
            match (x, y) {
                (Numbers::Same(x), Numbers::Same(y)) => out.fill(f(x, y)),
                (Numbers::Same(x), Numbers::Each(y)) => {
                    out.iter_mut().zip(y).for_each(|(out, y)| *out = f(x, *y));
                }
                (Numbers::Each(x), Numbers::Same(y)) => {
                    out.iter_mut().zip(x).for_each(|(out, x)| *out = f(*x, y));
                }
                (Numbers::Each(x), Numbers::Each(y)) => {
                    out.iter_mut().zip(x).zip(y).for_each(|((out, x), y)| *out = f(*x, *y));
                }
            }
        }
        match self {
            Binary::Or => each(x, y, out, |x, y| truth(x != 0.0 || y != 0.0)),
            Binary::And => each(x, y, out, |x, y| truth(x != 0.0 && y != 0.0)),
            Binary::Equal => each(x, y, out, |x, y| truth(x == y)),
            Binary::NotEqual => each(x, y, out, |x, y| truth(x != y)),
            Binary::Approximately => each(x, y, out, |x, y| truth(approximately(x, y))),
            Binary::Less => each(x, y, out, |x, y| truth(x < y)),
            Binary::LessEqual => each(x, y, out, |x, y| truth(x <= y)),
            Binary::Greater => each(x, y, out, |x, y| truth(x > y)),
            Binary::GreaterEqual => each(x, y, out, |x, y| truth(x >= y)),
            Binary::Add => each(x, y, out, |x, y| x + y),
            Binary::Sub => each(x, y, out, |x, y| x - y),
            Binary::Mul => each(x, y, out, |x, y| x * y),
            Binary::Div => each(x, y, out, |x, y| x / y),
            Binary::Mod => each(x, y, out, |x, y| x % y),
            Binary::Pow => each(x, y, out, f64::powf),
            Binary::Atan2 => each(x, y, out, f64::atan2),
            Binary::Bit => each(x, y, out, |x, y| {
                truth((0.0..8.0).contains(&y) && x as i8 & 1i8.wrapping_shl(y as u32) != 0)
            }),
            Binary::Hamming => each(x, y, out, |x, y| f64::from((x as i8 ^ y as i8).count_ones())),
            Binary::Ldexp => each(x, y, out, |x, y| x * y.trunc().exp2()),
            Binary::Max => each(x, y, out, |x, y| if x > y || x.is_nan() { x } else { y }),
            Binary::Min => each(x, y, out, |x, y| if x < y || x.is_nan() { x } else { y }),
        }
    }
}

fn truth(value: bool) -> f64 {
    f64::from(u8::from(value))
}

/// Equality up to the precision of a `float`: relative above 1, absolute below.
fn approximately(x: f64, y: f64) -> bool {
    let tolerance = f64::from(f32::EPSILON);
    x == y || (x - y).abs() < tolerance * x.abs().max(1.0)
}

/// Function by which `reduce` combines numbers into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Aggregator {
    Avg,
    Count,
    Max,
    Median,
    Min,
    Prod,
    Sum,
}

impl Aggregator {
    pub(crate) const NAMES: [(&'static str, Aggregator); 7] = [
        ("avg", Aggregator::Avg),
        ("count", Aggregator::Count),
        ("max", Aggregator::Max),
        ("median", Aggregator::Median),
        ("min", Aggregator::Min),
        ("prod", Aggregator::Prod),
        ("sum", Aggregator::Sum),
    ];

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, aggregator)| *aggregator)
    }

    /// The value of these cells; 0 without cells. The median may reorder them.
    pub(crate) fn of(self, cells: &mut [f64]) -> f64 {
        if cells.is_empty() {
            return 0.0;
        }
        match self {
            Aggregator::Avg => cells.iter().sum::<f64>() / cells.len() as f64,
            Aggregator::Count => cells.len() as f64,
            Aggregator::Max => cells.iter().copied().fold(f64::NEG_INFINITY, |x, y| Binary::Max.apply(x, y)),
            Aggregator::Min => cells.iter().copied().fold(f64::INFINITY, |x, y| Binary::Min.apply(x, y)),
            Aggregator::Prod => cells.iter().product(),
            Aggregator::Sum => cells.iter().sum(),
            Aggregator::Median => {
                if cells.iter().any(|cell| cell.is_nan()) {
                    return f64::NAN;
                }
                let middle = cells.len() / 2;
                let odd = cells.len() % 2 == 1;
                let (below, upper, _) = cells.select_nth_unstable_by(middle, f64::total_cmp);
                let upper = *upper;
                if odd {
                    return upper;
                }
                let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                (lower + upper) / 2.0
            }
        }
    }
}
