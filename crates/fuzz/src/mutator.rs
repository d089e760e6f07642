/// Generator of inputs by mutation: a few changes each, of kinds that often break parsers. The same seed
/// gives the same inputs.
pub struct InputMutator<'c> {
    corpus: &'c [Vec<u8>],
    state: u64,
}

/// Maximum length of a generated input in bytes.
const BYTES_MAX: usize = 1 << 14;

/// Text with a meaning in many languages.
const TOKENS: [&str; 36] = [
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "\"",
    "'",
    "\\",
    "\\u0000",
    "\\ud800",
    ",",
    ":",
    ";",
    "=",
    "<",
    ">",
    "</a>",
    "<a>",
    "&lt;",
    "|",
    "-",
    ".",
    "1e999",
    "-0",
    "9223372036854775808",
    "18446744073709551616",
    "0x",
    "NaN",
    "null",
    "true",
    "é",
    "\u{1F600}",
    "\u{FFFF}",
    "\n",
    "\t",
];

impl<'c> InputMutator<'c> {
    /// Creates a generator of mutations of `corpus`.
    pub fn new(corpus: &'c [Vec<u8>], seed: u64) -> Self {
        InputMutator { corpus, state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 }
    }

    /// The next input.
    pub fn input(&mut self) -> Vec<u8> {
        let mut input = self.some_input();
        for _ in 0..=self.below(4) {
            self.change(&mut input);
        }
        input.truncate(BYTES_MAX);
        input
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        // xorshift64*
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }

    fn some_input(&mut self) -> Vec<u8> {
        let index = self.below(self.corpus.len().max(1));
        self.corpus.get(index).cloned().unwrap_or_default()
    }

    /// A part of the input of at most `length` bytes.
    fn range(&mut self, input: &[u8], length: usize) -> std::ops::Range<usize> {
        let from = self.below(input.len() + 1);
        let to = (from + self.below(length + 1)).min(input.len());
        from..to
    }

    /// A few hundred repetitions of a part; occasionally as many as fit.
    fn many(&mut self, part: &[u8]) -> Vec<u8> {
        let limit = if self.below(8) == 0 { BYTES_MAX / part.len().max(1) } else { 400 };
        part.repeat(1 + self.below(limit.max(1)))
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let place = self.below(input.len() + 1);
        match self.below(11) {
            0 if place < input.len() => input[place] ^= 1 << self.below(8),
            1 => input.insert(place, self.below(256) as u8),
            2 => {
                let range = self.range(input, 16);
                input.drain(range);
            }
            3 => input.truncate(place),
            4 => {
                let part = self.range(input, 64);
                let part = input[part].to_vec();
                input.splice(place..place, part);
            }
            5 => {
                let other = self.some_input();
                let part = self.range(&other, 64);
                input.splice(place..place, other[part].iter().copied());
            }
            6 => {
                let part = self.range(input, 8);
                let many = self.many(&input[part]);
                input.splice(place..place, many);
            }
            7 => {
                // Repeated opening tokens: a parser must not recurse as often.
                let token = TOKENS[self.below(TOKENS.len())];
                let many = self.many(token.as_bytes());
                input.splice(place..place, many);
            }
            _ => {
                let token = TOKENS[self.below(TOKENS.len())];
                let until = (place + self.below(3)).min(input.len());
                input.splice(place..until, token.bytes());
            }
        }
    }
}
