//! Operations on numbers: operators, scalar functions, aggregators. Each is defined once, as a closure that
//! is inlined into a loop over slices, so that the loop can be vectorized.

/// Numbers of a batch: one per entry, or the same for all entries.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BatchNumbers<'a> {
    Same(f64),
    Each(&'a [f64]),
}

impl BatchNumbers<'_> {
    pub(crate) fn get(&self, index: usize) -> f64 {
        match self {
            BatchNumbers::Same(number) => *number,
            BatchNumbers::Each(numbers) => numbers[index],
        }
    }
}

/// An operation on one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum UnaryNumberOp {
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

impl UnaryNumberOp {
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
            UnaryNumberOp::Negate => each(numbers, |x| -x),
            UnaryNumberOp::Not => each(numbers, |x| truth(x == 0.0)),
            UnaryNumberOp::Abs => each(numbers, f64::abs),
            UnaryNumberOp::Acos => each(numbers, f64::acos),
            UnaryNumberOp::Asin => each(numbers, f64::asin),
            UnaryNumberOp::Atan => each(numbers, f64::atan),
            UnaryNumberOp::Ceil => each(numbers, f64::ceil),
            UnaryNumberOp::Cos => each(numbers, f64::cos),
            UnaryNumberOp::Cosh => each(numbers, f64::cosh),
            UnaryNumberOp::Elu => each(numbers, |x| if x < 0.0 { x.exp() - 1.0 } else { x }),
            UnaryNumberOp::Erf => each(numbers, libm::erf),
            UnaryNumberOp::Exp => each(numbers, f64::exp),
            UnaryNumberOp::Floor => each(numbers, f64::floor),
            UnaryNumberOp::IsNan => each(numbers, |x| truth(x.is_nan())),
            UnaryNumberOp::Log => each(numbers, f64::ln),
            UnaryNumberOp::Log10 => each(numbers, f64::log10),
            UnaryNumberOp::Relu => each(numbers, |x| if x > 0.0 { x } else { 0.0 }),
            UnaryNumberOp::Round => each(numbers, |x| (x + 0.5).floor()),
            UnaryNumberOp::Sigmoid => each(numbers, |x| 1.0 / (1.0 + (-x).exp())),
            UnaryNumberOp::Sign => each(numbers, |x| if x == 0.0 || x.is_nan() { x } else { x.signum() }),
            UnaryNumberOp::Sin => each(numbers, f64::sin),
            UnaryNumberOp::Sinh => each(numbers, f64::sinh),
            UnaryNumberOp::Sqrt => each(numbers, f64::sqrt),
            UnaryNumberOp::Square => each(numbers, |x| x * x),
            UnaryNumberOp::Tan => each(numbers, f64::tan),
            UnaryNumberOp::Tanh => each(numbers, f64::tanh),
        }
    }
}

/// An operation on two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum BinaryNumberOp {
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
const INFIX: [(&str, BinaryNumberOp, u8); 15] = [
    ("||", BinaryNumberOp::Or, 1),
    ("&&", BinaryNumberOp::And, 2),
    ("==", BinaryNumberOp::Equal, BinaryNumberOp::COMPARISON),
    ("!=", BinaryNumberOp::NotEqual, BinaryNumberOp::COMPARISON),
    ("~=", BinaryNumberOp::Approximately, BinaryNumberOp::COMPARISON),
    ("<=", BinaryNumberOp::LessEqual, BinaryNumberOp::COMPARISON),
    ("<", BinaryNumberOp::Less, BinaryNumberOp::COMPARISON),
    (">=", BinaryNumberOp::GreaterEqual, BinaryNumberOp::COMPARISON),
    (">", BinaryNumberOp::Greater, BinaryNumberOp::COMPARISON),
    ("+", BinaryNumberOp::Add, 4),
    ("-", BinaryNumberOp::Sub, 5),
    ("*", BinaryNumberOp::Mul, 6),
    ("/", BinaryNumberOp::Div, 7),
    ("%", BinaryNumberOp::Mod, 8),
    ("^", BinaryNumberOp::Pow, 9),
];

impl BinaryNumberOp {
    /// Precedence of comparisons and of `in`.
    pub(crate) const COMPARISON: u8 = 3;

    /// The infix operator at the start of `text`, with its spelling.
    pub(crate) fn of_prefix(text: &str) -> Option<(&'static str, BinaryNumberOp)> {
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
        self.apply_to(BatchNumbers::Same(x), BatchNumbers::Same(y), &mut out);
        out[0]
    }

    /// Fills `out`; `x` and `y` have the same length.
    pub(crate) fn apply_to(self, x: BatchNumbers<'_>, y: BatchNumbers<'_>, out: &mut [f64]) {
        fn each(x: BatchNumbers<'_>, y: BatchNumbers<'_>, out: &mut [f64], f: impl Fn(f64, f64) -> f64) {
            match (x, y) {
                (BatchNumbers::Same(x), BatchNumbers::Same(y)) => out.fill(f(x, y)),
                (BatchNumbers::Same(x), BatchNumbers::Each(y)) => {
                    out.iter_mut().zip(y).for_each(|(out, y)| *out = f(x, *y));
                }
                (BatchNumbers::Each(x), BatchNumbers::Same(y)) => {
                    out.iter_mut().zip(x).for_each(|(out, x)| *out = f(*x, y));
                }
                (BatchNumbers::Each(x), BatchNumbers::Each(y)) => {
                    out.iter_mut().zip(x).zip(y).for_each(|((out, x), y)| *out = f(*x, *y));
                }
            }
        }
        match self {
            BinaryNumberOp::Or => each(x, y, out, |x, y| truth(x != 0.0 || y != 0.0)),
            BinaryNumberOp::And => each(x, y, out, |x, y| truth(x != 0.0 && y != 0.0)),
            BinaryNumberOp::Equal => each(x, y, out, |x, y| truth(x == y)),
            BinaryNumberOp::NotEqual => each(x, y, out, |x, y| truth(x != y)),
            BinaryNumberOp::Approximately => each(x, y, out, |x, y| truth(approximately(x, y))),
            BinaryNumberOp::Less => each(x, y, out, |x, y| truth(x < y)),
            BinaryNumberOp::LessEqual => each(x, y, out, |x, y| truth(x <= y)),
            BinaryNumberOp::Greater => each(x, y, out, |x, y| truth(x > y)),
            BinaryNumberOp::GreaterEqual => each(x, y, out, |x, y| truth(x >= y)),
            BinaryNumberOp::Add => each(x, y, out, |x, y| x + y),
            BinaryNumberOp::Sub => each(x, y, out, |x, y| x - y),
            BinaryNumberOp::Mul => each(x, y, out, |x, y| x * y),
            BinaryNumberOp::Div => each(x, y, out, |x, y| x / y),
            BinaryNumberOp::Mod => each(x, y, out, |x, y| x % y),
            BinaryNumberOp::Pow => each(x, y, out, f64::powf),
            BinaryNumberOp::Atan2 => each(x, y, out, f64::atan2),
            BinaryNumberOp::Bit => each(x, y, out, |x, y| {
                truth((0.0..8.0).contains(&y) && x as i8 & 1i8.wrapping_shl(y as u32) != 0)
            }),
            BinaryNumberOp::Hamming => each(x, y, out, |x, y| f64::from((x as i8 ^ y as i8).count_ones())),
            BinaryNumberOp::Ldexp => each(x, y, out, |x, y| x * y.trunc().exp2()),
            BinaryNumberOp::Max => each(x, y, out, |x, y| if x > y || x.is_nan() { x } else { y }),
            BinaryNumberOp::Min => each(x, y, out, |x, y| if x < y || x.is_nan() { x } else { y }),
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
pub(crate) enum ReduceAggregator {
    Avg,
    Count,
    Max,
    Median,
    Min,
    Prod,
    Sum,
}

impl ReduceAggregator {
    pub(crate) const NAMES: [(&'static str, ReduceAggregator); 7] = [
        ("avg", ReduceAggregator::Avg),
        ("count", ReduceAggregator::Count),
        ("max", ReduceAggregator::Max),
        ("median", ReduceAggregator::Median),
        ("min", ReduceAggregator::Min),
        ("prod", ReduceAggregator::Prod),
        ("sum", ReduceAggregator::Sum),
    ];

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, aggregator)| *aggregator)
    }

    /// [`ReduceAggregator::apply`] without a change of the cells; `buffer` is used for a copy where one is
    /// needed.
    pub(crate) fn apply_to_slice(self, cells: &[f64], buffer: &mut Vec<f64>) -> f64 {
        match self {
            ReduceAggregator::Sum => sum(cells),
            ReduceAggregator::Avg if !cells.is_empty() => sum(cells) / cells.len() as f64,
            _ => {
                buffer.clear();
                buffer.extend_from_slice(cells);
                self.apply(buffer)
            }
        }
    }

    /// The value of these cells; 0 without cells. The median may reorder them.
    pub(crate) fn apply(self, cells: &mut [f64]) -> f64 {
        if cells.is_empty() {
            return 0.0;
        }
        match self {
            ReduceAggregator::Avg => sum(cells) / cells.len() as f64,
            ReduceAggregator::Count => cells.len() as f64,
            ReduceAggregator::Max => {
                let larger = |x: f64, y: f64| if x > y || x.is_nan() { x } else { y };
                cells.iter().copied().fold(f64::NEG_INFINITY, larger)
            }
            ReduceAggregator::Min => {
                let smaller = |x: f64, y: f64| if x < y || x.is_nan() { x } else { y };
                cells.iter().copied().fold(f64::INFINITY, smaller)
            }
            ReduceAggregator::Prod => cells.iter().product(),
            ReduceAggregator::Sum => sum(cells),
            ReduceAggregator::Median => {
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

/// The sum of these numbers, in several lanes, so that additions do not wait for each other.
fn sum(cells: &[f64]) -> f64 {
    let (blocks, rest) = cells.as_chunks::<8>();
    let mut lanes = [0.0; 8];
    for block in blocks {
        lanes.iter_mut().zip(block).for_each(|(lane, cell)| *lane += cell);
    }
    let of_rest: f64 = rest.iter().sum();
    of_rest
        + ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5]))
        + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]))
}
