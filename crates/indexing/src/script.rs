use millrace_document::{DataType, DocumentGroup, DocumentId, DocumentValue};
use millrace_schema::SourcePosition;
use millrace_tensor::TensorType;
use regex::Regex;

use crate::{ComponentCall, GeneratorTarget};

/// A sequence of statements.
#[derive(Debug, Clone, Default)]
pub(crate) struct IndexingScript {
    pub statements: Vec<IndexingStatement>,
}

/// Expressions, each of which gets the value of the previous one.
#[derive(Debug, Clone, Default)]
pub(crate) struct IndexingStatement {
    pub steps: Vec<IndexingStep>,
}

/// An expression with its location.
#[derive(Debug, Clone)]
pub(crate) struct IndexingStep {
    pub expression: IndexingExpression,
    pub position: SourcePosition,
}

#[derive(Debug, Clone)]
pub(crate) enum IndexingExpression {
    Constant(DocumentValue),
    /// `_` or `this`
    This,
    /// A document field, with struct members inside it.
    Input(Vec<String>),
    GetField(String),
    GetValue(String),
    GetVariable(String),
    SetVariable(String),
    /// Writes to a field; by default that of the script.
    Output(String),
    Binary(BinaryOperator, Box<IndexingStep>, Box<IndexingStep>),
    /// One text; or with `collects`, which depends on the types, one array or weighted set.
    Concat {
        parts: Vec<IndexingStep>,
        collects: bool,
    },
    Choice(Vec<IndexingStep>),
    Nested(IndexingScript),
    ForEach(IndexingScript),
    If(Box<IfExpression>),
    Switch(SwitchExpression),
    SelectInput(Vec<(String, IndexingStatement)>),
    Apply(ValueFunction),
    /// Hash as an `int` or `long`, depending on the field.
    Hash {
        long: bool,
    },
    Embed {
        call: ComponentCall,
        target: TensorType,
    },
    Chunk(ComponentCall),
    Generate {
        call: ComponentCall,
        wanted: GeneratorTarget,
    },
    SetLanguage,
    GetLanguage,
    Now,
    Random(Option<u32>),
    Hostname,
    DocumentId(DocumentIdPart),
    ClearState,
    /// Writes the value to the log.
    Echo,
}

/// Part of a document id that `documentid` gives; empty if the id does not have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentIdPart {
    Whole,
    Namespace,
    DocumentType,
    Group,
    Number,
    Specific,
}

impl DocumentIdPart {
    pub const NAMED: [(&str, DocumentIdPart); 5] = [
        ("namespace", DocumentIdPart::Namespace),
        ("documenttype", DocumentIdPart::DocumentType),
        ("group", DocumentIdPart::Group),
        ("number", DocumentIdPart::Number),
        ("specific", DocumentIdPart::Specific),
    ];

    pub fn text_in(self, id: &DocumentId) -> String {
        match (self, id.group()) {
            (DocumentIdPart::Whole, _) => id.as_str().to_owned(),
            (DocumentIdPart::Namespace, _) => id.namespace().to_owned(),
            (DocumentIdPart::DocumentType, _) => id.document_type().to_owned(),
            (DocumentIdPart::Specific, _) => id.name().to_owned(),
            (DocumentIdPart::Group, DocumentGroup::Name(name)) => name.clone(),
            (DocumentIdPart::Number, DocumentGroup::Number(number)) => number.to_string(),
            (DocumentIdPart::Group | DocumentIdPart::Number, _) => String::new(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinaryOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Debug, Clone)]
pub(crate) struct IfExpression {
    pub left: IndexingStep,
    pub comparison: IfComparison,
    pub right: IndexingStep,
    pub then: IndexingScript,
    pub otherwise: Option<IndexingScript>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfComparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone)]
pub(crate) struct SwitchExpression {
    pub cases: Vec<(String, IndexingStatement)>,
    pub default: Option<IndexingStatement>,
}

/// A conversion that depends only on its input.
#[derive(Debug, Clone)]
pub(crate) enum ValueFunction {
    /// `to_int` and similar functions.
    Convert(DataType),
    ToArray,
    ToWeightedSet {
        create_if_nonexistent: bool,
        remove_if_zero: bool,
    },
    ToPosition,
    /// The position as one number, latitude and longitude interleaved bit by bit.
    ZCurve,
    ToEpochSecond,
    Lowercase,
    Normalize,
    Trim,
    Substring(usize, usize),
    Split(Regex),
    Join(String),
    Base64Decode,
    Base64Encode,
    HexDecode,
    HexEncode,
    Binarize(f64),
    PackBits,
    /// `tokenize`, `ngram`, `exact`, `flatten`: no effect here, because words are created with the columns,
    /// by the field's settings.
    Annotate,
}

impl IndexingExpression {
    /// True if the expression uses the previous value; without one, it uses the field's own value.
    pub fn needs_input(&self) -> bool {
        match self {
            IndexingExpression::This
            | IndexingExpression::GetField(_)
            | IndexingExpression::GetValue(_)
            | IndexingExpression::SetVariable(_)
            | IndexingExpression::Output(_)
            | IndexingExpression::ForEach(_)
            | IndexingExpression::Switch(_)
            | IndexingExpression::Apply(_)
            | IndexingExpression::Hash { .. }
            | IndexingExpression::Embed { .. }
            | IndexingExpression::Chunk(_)
            | IndexingExpression::Generate { .. }
            | IndexingExpression::SetLanguage
            | IndexingExpression::Random(None)
            | IndexingExpression::Echo => true,
            IndexingExpression::Constant(_)
            | IndexingExpression::Input(_)
            | IndexingExpression::GetVariable(_)
            | IndexingExpression::SelectInput(_)
            | IndexingExpression::GetLanguage
            | IndexingExpression::Now
            | IndexingExpression::Random(Some(_))
            | IndexingExpression::Hostname
            | IndexingExpression::DocumentId(_)
            | IndexingExpression::ClearState => false,
            IndexingExpression::Binary(_, left, right) => {
                left.expression.needs_input() || right.expression.needs_input()
            }
            IndexingExpression::Choice(steps) | IndexingExpression::Concat { parts: steps, .. } => {
                steps.iter().any(|step| step.expression.needs_input())
            }
            IndexingExpression::Nested(script) => script.needs_input(),
            IndexingExpression::If(of) => {
                of.left.expression.needs_input() || of.right.expression.needs_input() || of.then.needs_input()
            }
        }
    }

    /// Calls `visit` with this expression and all nested ones, outermost first.
    pub fn visit(&self, visit: &mut impl FnMut(&IndexingExpression)) {
        visit(self);
        match self {
            IndexingExpression::Binary(_, left, right) => {
                left.expression.visit(visit);
                right.expression.visit(visit);
            }
            IndexingExpression::Choice(steps) | IndexingExpression::Concat { parts: steps, .. } => {
                steps.iter().for_each(|step| step.expression.visit(visit))
            }
            IndexingExpression::Nested(script) | IndexingExpression::ForEach(script) => script.visit(visit),
            IndexingExpression::If(of) => {
                of.left.expression.visit(visit);
                of.right.expression.visit(visit);
                of.then.visit(visit);
                of.otherwise.iter().for_each(|script| script.visit(visit));
            }
            IndexingExpression::Switch(switch) => {
                switch.cases.iter().for_each(|(_, statement)| statement.visit(visit));
                switch.default.iter().for_each(|statement| statement.visit(visit));
            }
            IndexingExpression::SelectInput(cases) => {
                cases.iter().for_each(|(_, statement)| statement.visit(visit))
            }
            _ => {}
        }
    }
}

impl IndexingStatement {
    pub fn needs_input(&self) -> bool {
        self.steps.first().is_some_and(|step| step.expression.needs_input())
    }

    pub fn visit(&self, visit: &mut impl FnMut(&IndexingExpression)) {
        self.steps.iter().for_each(|step| step.expression.visit(visit));
    }
}

impl IndexingScript {
    pub fn needs_input(&self) -> bool {
        self.statements.iter().any(IndexingStatement::needs_input)
    }

    pub fn visit(&self, visit: &mut impl FnMut(&IndexingExpression)) {
        self.statements.iter().for_each(|statement| statement.visit(visit));
    }
}
