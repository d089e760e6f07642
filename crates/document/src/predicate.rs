//! Values of predicate fields: conditions on the attributes that a query sends, as text.

use std::fmt;

use millrace_cursor::TextCursor;

/// Maximum depth of parentheses.
const DEPTH_MAX: usize = 100;

/// Condition of a document on the attributes of a query: `gender in [Female] and age in [20..30]`.
///
/// ```
/// use millrace_document::PredicateExpression;
///
/// let wanted = PredicateExpression::parse("gender in [Female] and age in [20..30]").unwrap();
/// let holds = |age| wanted.holds(&|key, value| key == "gender" && value == "Female", &|key, low, high| {
///     key == "age" && (low..=high).contains(&age)
/// });
/// assert!(holds(25) && !holds(31));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PredicateExpression {
    /// `true`, `false`
    Constant(bool),
    /// `key in [value, value]`
    ValueSet {
        /// Name of the attribute.
        key: String,
        /// Values, one of which the attribute must have.
        values: Vec<String>,
    },
    /// `key in [low..high]`
    NumberRange {
        /// Name of the attribute.
        key: String,
        /// Lowest number; the least there is if it is not given.
        low: i64,
        /// Highest number; the greatest there is if it is not given.
        high: i64,
    },
    /// `not (…)`, `key not in […]`, `not key in […]`
    Negation(Box<PredicateExpression>),
    /// `… and …`
    Conjunction(Vec<PredicateExpression>),
    /// `… or …`
    Disjunction(Vec<PredicateExpression>),
}

/// Mistake in the text of a predicate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PredicateMistake {
    /// Place in the text, in bytes from 0.
    pub at: usize,
    /// Expected and found text.
    pub reason: String,
}

impl fmt::Display for PredicateMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (character {}); write for example: gender in [Female]", self.reason, self.at + 1)
    }
}

impl PredicateExpression {
    /// Parses the text of a predicate.
    ///
    /// # Errors
    /// The text is not a predicate; the error has its place.
    pub fn parse(text: &str) -> Result<Self, PredicateMistake> {
        let mut parser = PredicateParser { tokens: tokens(text)?, next: 0, end: text.len() };
        let parsed = parser.disjunction(0)?;
        match parser.peek() {
            None => Ok(parsed),
            Some(_) => Err(parser.expected("and, or, or the end")),
        }
    }

    /// True if the predicate holds. `has` tells if the query has a value of an attribute, `has_within` if it
    /// has a number of an attribute within bounds.
    pub fn holds(
        &self,
        has: &dyn Fn(&str, &str) -> bool,
        has_within: &dyn Fn(&str, i64, i64) -> bool,
    ) -> bool {
        match self {
            PredicateExpression::Constant(value) => *value,
            PredicateExpression::ValueSet { key, values } => values.iter().any(|value| has(key, value)),
            PredicateExpression::NumberRange { key, low, high } => has_within(key, *low, *high),
            PredicateExpression::Negation(inner) => !inner.holds(has, has_within),
            PredicateExpression::Conjunction(all) => all.iter().all(|one| one.holds(has, has_within)),
            PredicateExpression::Disjunction(any) => any.iter().any(|one| one.holds(has, has_within)),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PredicateToken<'t> {
    /// Letters, digits and `_`, or a number with a sign.
    Plain(&'t str),
    /// Text in quotes.
    Quoted(String),
    /// `..`
    To,
    Sign(char),
}

fn tokens(text: &str) -> Result<Vec<(usize, PredicateToken<'_>)>, PredicateMistake> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut cursor = TextCursor::new(text);
    loop {
        cursor.skip_blanks();
        let (at, rest) = (cursor.offset(), cursor.rest());
        let Some(first) = cursor.peek() else { return Ok(tokens) };
        let token = match first {
            '\'' | '"' => {
                let (length, quoted) = quoted(rest, first).ok_or_else(|| PredicateMistake {
                    at,
                    reason: format!("expected {first} at the end of the text that begins here"),
                })?;
                cursor.skip(length);
                PredicateToken::Quoted(quoted)
            }
            '+' | '-' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                cursor.skip(1);
                let digits = cursor.take_digits();
                PredicateToken::Plain(&rest[..1 + digits.len()])
            }
            '.' if cursor.take("..") => PredicateToken::To,
            '[' | ']' | '(' | ')' | ',' | '=' | '+' | '-' => {
                cursor.skip(1);
                PredicateToken::Sign(first)
            }
            _ if is_word(first) => PredicateToken::Plain(cursor.take_while(is_word)),
            _ => {
                let reason = format!("found '{first}', which stands only in quotes");
                return Err(PredicateMistake { at, reason });
            }
        };
        tokens.push((at, token));
    }
}

/// Length of a quoted text with its quotes, and the text; `None` if it does not end.
fn quoted(text: &str, quote: char) -> Option<(usize, String)> {
    let mut bytes = Vec::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            _ if character == quote => {
                return Some((at + 1, String::from_utf8_lossy(&bytes).into_owned()));
            }
            '\\' => match characters.next()?.1 {
                't' => bytes.push(b'\t'),
                'n' => bytes.push(b'\n'),
                'f' => bytes.push(0x0c),
                'r' => bytes.push(b'\r'),
                'x' => {
                    let digits: String = [characters.next()?.1, characters.next()?.1].into_iter().collect();
                    bytes.push(u8::from_str_radix(&digits, 16).ok()?);
                }
                other => bytes.extend(other.encode_utf8(&mut [0; 4]).bytes()),
            },
            other => bytes.extend(other.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    None
}

struct PredicateParser<'t> {
    tokens: Vec<(usize, PredicateToken<'t>)>,
    next: usize,
    end: usize,
}

impl<'t> PredicateParser<'t> {
    fn peek(&self) -> Option<&PredicateToken<'t>> {
        self.ahead(0)
    }

    fn ahead(&self, count: usize) -> Option<&PredicateToken<'t>> {
        self.tokens.get(self.next + count).map(|(_, token)| token)
    }

    fn expected(&self, what: &str) -> PredicateMistake {
        let found = match self.peek() {
            None => "the end".to_owned(),
            Some(PredicateToken::Plain(text)) => format!("'{text}'"),
            Some(PredicateToken::Quoted(text)) => format!("'{text}'"),
            Some(PredicateToken::To) => "'..'".to_owned(),
            Some(PredicateToken::Sign(sign)) => format!("'{sign}'"),
        };
        let at = self.tokens.get(self.next).map_or(self.end, |(at, _)| *at);
        PredicateMistake { at, reason: format!("expected {what}, found {found}") }
    }

    /// True if the token `ahead` tokens from here is a keyword, in small or in capital letters.
    fn is_keyword(&self, ahead: usize, keyword: &str) -> bool {
        let is = |text: &str| {
            let mut capitals = keyword.bytes().map(|letter| letter.to_ascii_uppercase());
            text == keyword
                || text.len() == keyword.len() && text.bytes().all(|letter| capitals.next() == Some(letter))
        };
        matches!(self.ahead(ahead), Some(PredicateToken::Plain(text)) if is(text))
    }

    /// True if the token `ahead` tokens from here is the name of an attribute. The keywords are names, too.
    fn is_key(&self, ahead: usize) -> bool {
        self.is_keyword(ahead + 1, "in")
            || self.is_keyword(ahead + 1, "not") && self.is_keyword(ahead + 2, "in")
    }

    fn is_sign(&self, ahead: usize, sign: char) -> bool {
        self.ahead(ahead) == Some(&PredicateToken::Sign(sign))
    }

    fn takes_keyword(&mut self, keyword: &str) -> bool {
        let is = self.is_keyword(0, keyword);
        self.next += usize::from(is);
        is
    }

    fn takes_sign(&mut self, sign: char) -> bool {
        let is = self.is_sign(0, sign);
        self.next += usize::from(is);
        is
    }

    fn disjunction(&mut self, depth: usize) -> Result<PredicateExpression, PredicateMistake> {
        let mut any = vec![self.conjunction(depth)?];
        while self.takes_keyword("or") {
            any.push(self.conjunction(depth)?);
        }
        Ok(if any.len() == 1 { any.swap_remove(0) } else { PredicateExpression::Disjunction(any) })
    }

    fn conjunction(&mut self, depth: usize) -> Result<PredicateExpression, PredicateMistake> {
        let mut all = vec![self.condition(depth)?];
        while self.takes_keyword("and") {
            all.push(self.condition(depth)?);
        }
        Ok(if all.len() == 1 { all.swap_remove(0) } else { PredicateExpression::Conjunction(all) })
    }

    fn condition(&mut self, depth: usize) -> Result<PredicateExpression, PredicateMistake> {
        let negated = self.is_keyword(0, "not") && self.is_sign(1, '(');
        self.next += usize::from(negated);
        // Vespa's documentation negates a name, too, though its parser does not.
        if self.is_keyword(0, "not") && !self.is_key(0) && self.is_key(1) {
            self.next += 1;
            return Ok(PredicateExpression::Negation(Box::new(self.leaf()?)));
        }
        if self.takes_sign('(') {
            if depth == DEPTH_MAX {
                return Err(self.expected(&format!("at most {DEPTH_MAX} parentheses in each other")));
            }
            let inner = self.disjunction(depth + 1)?;
            if !self.takes_sign(')') {
                return Err(self.expected("')'"));
            }
            return Ok(if negated { PredicateExpression::Negation(Box::new(inner)) } else { inner });
        }
        self.leaf()
    }

    fn leaf(&mut self) -> Result<PredicateExpression, PredicateMistake> {
        for (keyword, value) in [("true", true), ("false", false)] {
            if !self.is_key(0) && self.takes_keyword(keyword) {
                return Ok(PredicateExpression::Constant(value));
            }
        }
        let key = self.value("the name of an attribute")?;
        let negated = self.takes_keyword("not");
        if !self.takes_keyword("in") {
            return Err(self.expected("in or not in"));
        }
        if !self.takes_sign('[') {
            return Err(self.expected("'['"));
        }
        let is_range = [0, 1].iter().any(|ahead| self.ahead(*ahead) == Some(&PredicateToken::To));
        let leaf = if is_range { self.range(key)? } else { self.values(key)? };
        if !self.takes_sign(']') {
            return Err(self.expected("']'"));
        }
        Ok(if negated { PredicateExpression::Negation(Box::new(leaf)) } else { leaf })
    }

    fn values(&mut self, key: String) -> Result<PredicateExpression, PredicateMistake> {
        let mut values = vec![self.value("a value")?];
        while self.takes_sign(',') {
            values.push(self.value("a value")?);
        }
        Ok(PredicateExpression::ValueSet { key, values })
    }

    fn range(&mut self, key: String) -> Result<PredicateExpression, PredicateMistake> {
        let low = self.bound(i64::MIN)?;
        if self.peek() != Some(&PredicateToken::To) {
            return Err(self.expected("'..'"));
        }
        self.next += 1;
        let high = self.bound(i64::MAX)?;
        // Partitions of the range say how an index stores it.
        if self.takes_sign('(') {
            while self.peek().is_some() && !self.is_sign(0, ')') {
                self.next += 1;
            }
            if !self.takes_sign(')') {
                return Err(self.expected("')'"));
            }
        }
        Ok(PredicateExpression::NumberRange { key, low, high })
    }

    fn bound(&mut self, missing: i64) -> Result<i64, PredicateMistake> {
        let Some(PredicateToken::Plain(text)) = self.peek() else { return Ok(missing) };
        let number = text.parse().map_err(|_| self.expected("a whole number of 64 bits"))?;
        self.next += 1;
        Ok(number)
    }

    fn value(&mut self, what: &str) -> Result<String, PredicateMistake> {
        let text = match self.peek() {
            Some(PredicateToken::Plain(text)) => (*text).to_owned(),
            Some(PredicateToken::Quoted(text)) => text.clone(),
            _ => return Err(self.expected(what)),
        };
        self.next += 1;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::PredicateExpression;

    /// Each predicate, and the attributes that it is asked for: a value (`a=b`) or a number (`a:5`).
    #[test]
    fn predicates_hold_for_attributes() {
        for (text, asked, expected) in [
            ("a in [b]", "a=b", true),
            ("a in [b]", "a=c", false),
            ("a in [b]", "", false),
            ("0 in [1]", "0=1", true),
            ("in in [in]", "in=in", true),
            ("and in [or]", "and=or", true),
            ("not in [not]", "not=not", true),
            ("true in [false]", "true=false", true),
            ("'-234' in ['+200']", "-234=+200", true),
            (r"'a\'' in ['b']", "a'=b", true),
            (r#""a\"" in ["b"]"#, "a\"=b", true),
            (r"string in ['foo\\_\x22\tbar']", "string=foo\\_\"\tbar", true),
            (r"'\xC3\xB8' in [b]", "ø=b", true),
            ("'ø' in [b]", "ø=b", true),
            ("a in [b, c, d]", "a=d", true),
            ("a in [B]", "a=b", false),
            ("a in [0..100]", "a:100", true),
            ("a in [0..100]", "a:101", false),
            ("a in [0..100]", "a=50", false),
            ("a in [..100]", "a:-5", true),
            ("a in [0..]", "a:-1", false),
            ("a in [..]", "a:7", true),
            ("a in [..]", "b:7", false),
            ("a in [-100..+100]", "a:-100", true),
            ("a in [-9223372036854775808..+9223372036854775807]", "a:0", true),
            ("a in [0..100 (a=0-99,a=100+[..0])]", "a:100", true),
            ("a in [-100..0 (a=-0-99,a=-100+[..0])]", "a:-1", true),
            ("a not in [b]", "a=b", false),
            ("a not in [b]", "", true),
            ("not (a in [b])", "a=c", true),
            ("not a in [b] and not 'c' in [1..2]", "a=c c:3", true),
            ("not a in [b] and not 'c' in [1..2]", "a=b c:3", false),
            ("not a not in [b]", "a=b", true),
            ("not not in [b]", "not=b", false),
            ("a in [b] and c in [d]", "a=b", false),
            ("a in [b] AND c IN [d]", "a=b c=d", true),
            ("a in [b] or c in [d]", "c=d", true),
            ("a in [b] and c in [d] or e in [f]", "e=f", true),
            ("a in [b] and (c in [d] or e in [f])", "e=f", false),
            ("(((a in [b]) or c in [d]) or e in [f])", "c=d", true),
            ("true", "", true),
            ("FALSE", "", false),
            ("true and not (false)", "", true),
        ] {
            let parsed =
                PredicateExpression::parse(text).unwrap_or_else(|mistake| panic!("{text}: {mistake}"));
            let has = |key: &str, value: &str| asked.split(' ').any(|one| one == format!("{key}={value}"));
            let within = |key: &str, low: i64, high: i64| {
                asked.split(' ').filter_map(|one| one.split_once(':')).any(|(known, number)| {
                    known == key && number.parse().is_ok_and(|number| (low..=high).contains(&number))
                })
            };
            assert_eq!(parsed.holds(&has, &within), expected, "{text} for {asked}");
        }
    }

    #[test]
    fn mistakes_have_their_place() {
        let deep = format!("{}a in [b]{}", "(".repeat(101), ")".repeat(101));
        for (text, at, reason) in [
            ("", 0, "expected the name of an attribute, found the end"),
            ("a", 1, "expected in or not in, found the end"),
            ("a in", 4, "expected '[', found the end"),
            ("a in [", 6, "expected a value, found the end"),
            ("a in [b", 7, "expected ']', found the end"),
            ("a-b in [b]", 1, "expected in or not in, found '-'"),
            ("a in b", 5, "expected '[', found 'b'"),
            ("a in [b] c", 9, "expected and, or, or the end, found 'c'"),
            ("a in [b] and", 12, "expected the name of an attribute, found the end"),
            ("(a in [b]", 9, "expected ')', found the end"),
            ("a in ['b", 6, "expected ' at the end"),
            ("a in [b.c]", 7, "found '.', which stands only in quotes"),
            ("a in [x..5]", 6, "expected a whole number of 64 bits, found 'x'"),
            (deep.as_str(), 101, "expected at most 100 parentheses"),
        ] {
            let mistake = PredicateExpression::parse(text).expect_err(text);
            assert_eq!(mistake.at, at, "{text}: {mistake}");
            assert!(mistake.reason.starts_with(reason), "{text}: {mistake}");
        }
    }
}
