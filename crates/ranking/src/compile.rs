//! A profile's expressions made into programs, and the features they use set up.

use std::cell::RefCell;
use std::collections::BTreeMap;

use millrace_expression as expression;
use millrace_expression::{Expression, FeatureName, FunctionBody, Program, Scope};
use millrace_schema::{Constant, InputType, Place, RankProfile, Schema, Sourced};
use millrace_tensor::json::TensorSeed;
use millrace_tensor::{Tensor, TensorType};
use serde::de::DeserializeSeed;

use crate::Error;
use crate::features::{Feature, Setup, set_up};
use crate::properties::Properties;

/// An expression, compiled, and where its inputs are found.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub program: Program,
    /// For each input of the program, the place among the profile's features.
    pub features: Vec<usize>,
}

/// Compiles the expressions of one profile.
pub(crate) struct ProfileCompiler<'a> {
    setup: Setup<'a>,
    functions: BTreeMap<String, (Vec<String>, Expression, Place)>,
    constants: BTreeMap<&'a str, &'a Constant>,
    /// Features so far, in the order of their first use.
    features: RefCell<Vec<(FeatureName, Box<dyn Feature>)>>,
}

impl<'a> ProfileCompiler<'a> {
    pub fn new(schema: &'a Schema, profile: &'a RankProfile) -> Result<Self, Error> {
        let constants = schema.constants.iter().chain(&profile.constants);
        let mut compiler = ProfileCompiler {
            setup: Setup { schema, profile, properties: Properties::new(&profile.properties) },
            functions: BTreeMap::new(),
            constants: constants.map(|(name, constant)| (name.as_str(), constant)).collect(),
            features: RefCell::default(),
        };
        for (name, function) in &profile.functions {
            let body = compiler.parse(&function.body)?;
            let declared = (function.parameters.clone(), body, function.body.place.clone());
            compiler.functions.insert(name.clone(), declared);
        }
        // The scores of earlier phases are their expressions, so that they can be had of any hit at any time.
        let phases = [("firstPhase", &profile.first_phase), ("secondPhase", &profile.second_phase)];
        for (name, phase) in phases {
            if let Some(text) = &phase.expression {
                let body = compiler.parse(text)?;
                compiler.functions.insert(name.to_owned(), (Vec::new(), body, text.place.clone()));
            }
        }
        Ok(compiler)
    }

    fn error(&self, place: Place, reason: impl Into<String>) -> Error {
        Error::Profile { place, profile: self.setup.profile.name.clone(), reason: reason.into() }
    }

    fn parse(&self, text: &Sourced<String>) -> Result<Expression, Error> {
        Expression::parse(&text.value).map_err(|error| self.located(&error, &text.place))
    }

    /// An error in a text that begins at `place`.
    fn located(&self, error: &expression::Error, place: &Place) -> Error {
        let spot = error.spot();
        let begin =
            spot.function.as_ref().and_then(|name| self.functions.get(name)).map_or(place, |(.., at)| at);
        let column = if spot.line == 1 { begin.column + spot.column - 1 } else { spot.column };
        let place = Place { file: begin.file.clone(), line: begin.line + spot.line - 1, column };
        self.error(place, error.reason())
    }

    /// Compiles an expression.
    pub fn compile(&self, text: &Sourced<String>) -> Result<Compiled, Error> {
        let parsed = self.parse(text)?;
        let program = Program::compile(&parsed, self).map_err(|error| self.located(&error, &text.place))?;
        let features = self.features.borrow();
        let place =
            |name: &FeatureName| features.iter().position(|(known, _)| known == name).unwrap_or_default();
        let places = program.inputs().iter().map(|(name, _)| place(name)).collect();
        Ok(Compiled { program, features: places })
    }

    /// Compiles an expression whose value is a number.
    pub fn compile_score(&self, text: &Sourced<String>) -> Result<Compiled, Error> {
        let compiled = self.compile(text)?;
        let tensor_type = compiled.program.tensor_type();
        if tensor_type.is_scalar() {
            return Ok(compiled);
        }
        Err(self.error(text.place.clone(), format!("a score must be a number, but this is {tensor_type}")))
    }

    /// The features that the compiled expressions use.
    pub fn into_features(self) -> Vec<Box<dyn Feature>> {
        self.features.into_inner().into_iter().map(|(_, feature)| feature).collect()
    }

    fn constant(&self, name: &str) -> Option<Result<Tensor, String>> {
        let constant = self.constants.get(name)?;
        let declared = match &constant.constant_type {
            InputType::Tensor(tensor_type) => tensor_type.clone(),
            InputType::String => {
                let text = constant.value.value.trim().trim_matches('"');
                return Some(Ok(Tensor::scalar(expression::string_hash(text))));
            }
        };
        let parsed = parse_constant(&constant.value.value, &declared);
        Some(parsed.map_err(|reason| format!("constant {name} at {}: {reason}", constant.value.place)))
    }
}

/// A literal, or the JSON of a file.
fn parse_constant(text: &str, declared: &TensorType) -> Result<Tensor, String> {
    Tensor::parse(text, Some(declared)).or_else(|literal| {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        // A text that is neither is taken for a literal that is wrong.
        TensorSeed(declared).deserialize(&mut deserializer).map_err(|_| literal.to_string())
    })
}

impl Scope for ProfileCompiler<'_> {
    fn feature(&self, name: &FeatureName) -> Result<expression::Feature, String> {
        let bare = name.parameters.is_empty() && name.output.is_none();
        let constant = match (name.name.as_str(), name.parameters.as_slice()) {
            ("constant", [constant]) => Some(
                self.constant(constant).unwrap_or_else(|| Err(format!("there is no constant '{constant}'"))),
            ),
            (name, _) if bare => self.constant(name),
            _ => None,
        };
        if let Some(tensor) = constant {
            return tensor.map(expression::Feature::Constant);
        }
        match (name.name.as_str(), bare) {
            ("e", true) => return Ok(expression::Feature::Constant(Tensor::scalar(std::f64::consts::E))),
            ("pi", true) => return Ok(expression::Feature::Constant(Tensor::scalar(std::f64::consts::PI))),
            _ => {}
        }
        let known =
            self.features.borrow().iter().find(|(known, _)| known == name).map(|(_, f)| f.tensor_type());
        if let Some(tensor_type) = known {
            return Ok(expression::Feature::Input(tensor_type));
        }
        let feature = set_up(&self.setup, name)?;
        let tensor_type = feature.tensor_type();
        self.features.borrow_mut().push((name.clone(), feature));
        Ok(expression::Feature::Input(tensor_type))
    }

    fn function(&self, name: &str) -> Option<FunctionBody<'_>> {
        let (parameters, body, _) = self.functions.get(name)?;
        Some(FunctionBody { parameters, body })
    }
}
