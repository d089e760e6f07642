//! Compilation of a profile's expressions, and setup of the features they use.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millrace_expression as expression;
use millrace_expression::{
    DecisionForest, ExpressionFault, ExpressionProgram, ExpressionScope, FeatureName, FunctionBody,
    ParsedExpression,
};
use millrace_plan::check_input_default;
use millrace_schema::{
    InputType, InvalidNames, OnnxModelConfig, PackageFindings, RankProfile, Schema, SchemaConstant,
    SourcePosition, SourcedText,
};
use millrace_tensor::json::TensorSeed;
use millrace_tensor::{Tensor, TensorType};
use serde::de::DeserializeSeed;

use crate::Error;
use crate::features::{
    FeatureSetup, RankFeature, default_features, expand_derived, expand_foreach, model_output, normalized,
    set_up,
};
use crate::global::{HitNormalizer, NormalizationKind, RECIPROCAL_RANK_K};
use crate::onnx::{self, ModelSource, ModelStep, RankModelEvaluation};
use crate::properties::RankProperties;
use crate::{forests, tokens};

/// A compiled expression and the sources of its inputs.
#[derive(Debug)]
pub(crate) struct CompiledExpression {
    pub program: ExpressionProgram,
    /// For each input of the program, the index of its feature in the profile.
    pub features: Vec<usize>,
}

/// A feature with its name.
type NamedFeature = (FeatureName, Box<dyn RankFeature>);

/// Compiler for the expressions of one profile.
pub(crate) struct ProfileCompiler<'a> {
    setup: FeatureSetup<'a>,
    functions: BTreeMap<String, (Vec<String>, ParsedExpression, SourcePosition)>,
    constants: BTreeMap<&'a str, &'a SchemaConstant>,
    /// Features in the order of their first use.
    features: RefCell<Vec<NamedFeature>>,
    /// Normalizers of the global phase, by name; `None` except while that phase is compiled.
    normalizers: RefCell<Option<Vec<(FeatureName, HitNormalizer)>>>,
    /// Decision-tree models read so far, by kind and file.
    forests: RefCell<BTreeMap<(String, String), Arc<DecisionForest>>>,
    /// Source of ONNX models.
    models: &'a dyn ModelSource,
    /// Model outputs used so far; a step follows the steps it depends on.
    steps: RefCell<Vec<ModelStep>>,
    /// Models whose inputs are being compiled, used to detect cycles.
    open: RefCell<Vec<FeatureName>>,
    /// File of the model that could not be read. It is not in the error, which passes through `expression`
    /// as a text.
    failed_file: RefCell<Option<String>>,
    /// Functions that cannot be parsed, and their callers.
    invalid: InvalidNames,
}

impl<'a> ProfileCompiler<'a> {
    /// Creates the compiler. Functions and scores that cannot be parsed are reported in `errors`, and so are
    /// defaults of inputs that are not values of their types.
    pub fn new(
        schema: &'a Schema,
        profile: &'a RankProfile,
        models: &'a dyn ModelSource,
        errors: &mut Vec<Error>,
    ) -> Self {
        let constants = schema.constants.iter().chain(&profile.constants);
        let mut compiler = ProfileCompiler {
            setup: FeatureSetup { schema, profile, properties: RankProperties::new(&profile.properties) },
            functions: BTreeMap::new(),
            constants: constants.map(|(name, constant)| (name.as_str(), constant)).collect(),
            features: RefCell::default(),
            normalizers: RefCell::default(),
            forests: RefCell::default(),
            models,
            steps: RefCell::default(),
            open: RefCell::default(),
            failed_file: RefCell::default(),
            invalid: InvalidNames::default(),
        };
        for (name, function) in &profile.functions {
            compiler.declare(name, &function.parameters, &function.body, errors);
        }
        // The score of an earlier phase stands for its expression, so it can be computed for any hit at any
        // time.
        let first = first_phase_expression(profile);
        let second = profile.second_phase.expression.as_ref();
        let phases = [
            ("firstPhase", Some(&first)),
            ("secondPhase", second),
            ("relevanceScore", second.or(Some(&first))),
        ];
        for (name, text) in phases {
            if let Some(text) = text {
                compiler.declare(name, &[], text, errors);
            }
        }
        compiler.mark_dependents();
        for (name, declared) in &profile.inputs {
            if let (Some(default), Err(error)) = (&declared.default, check_input_default(name, declared)) {
                errors.push(compiler.error(default.position.clone(), error.to_string()));
            }
        }
        compiler
    }

    fn declare(
        &mut self,
        name: &str,
        parameters: &[String],
        body: &SourcedText<String>,
        errors: &mut Vec<Error>,
    ) {
        match self.parse(body) {
            Ok(parsed) => {
                let declared = (parameters.to_vec(), parsed, body.position.clone());
                self.functions.insert(name.to_owned(), declared);
            }
            Err(error) => {
                self.invalid.add(name);
                errors.push(error);
            }
        }
    }

    /// Marks functions that call an invalid function as invalid.
    fn mark_dependents(&mut self) {
        let functions = &self.setup.profile.functions;
        let calls = |name: &str, invalid: &InvalidNames| {
            !invalid.has(name)
                && functions.get(name).is_some_and(|function| invalid.is_in(&function.body.value))
        };
        while let Some(name) = functions.keys().find(|name| calls(name, &self.invalid)) {
            self.invalid.add(name);
        }
    }

    fn error(&self, position: SourcePosition, reason: impl Into<String>) -> Error {
        let (profile, file) = (self.setup.profile.name.clone(), self.failed_file.take());
        Error::Profile { position, profile, file, reason: reason.into() }
    }

    /// Runs `compile` on a text and reports its error in `errors`. Texts that use an invalid function are
    /// skipped.
    pub fn attempt<T>(
        &self,
        text: &SourcedText<String>,
        errors: &mut Vec<Error>,
        compile: impl FnOnce(&Self, &SourcedText<String>) -> Result<T, Error>,
    ) -> Option<T> {
        if self.invalid.is_in(&text.value) {
            return None;
        }
        match compile(self, text) {
            Ok(compiled) => Some(compiled),
            Err(error) => {
                let is_repeated = self.setup.properties.is_repeated() && !errors.is_empty();
                errors.extend((!is_repeated).then_some(error));
                None
            }
        }
    }

    fn parse(&self, text: &SourcedText<String>) -> Result<ParsedExpression, Error> {
        ParsedExpression::parse(&text.value).map_err(|error| self.located(&error, &text.position))
    }

    /// Locates an error in a text that begins at `position`.
    fn located(&self, error: &expression::Error, position: &SourcePosition) -> Error {
        let spot = error.spot();
        let begin =
            spot.function.as_ref().and_then(|name| self.functions.get(name)).map_or(position, |(.., at)| at);
        let column = if spot.line == 1 { begin.column + spot.column - 1 } else { spot.column };
        let position = SourcePosition { file: begin.file.clone(), line: begin.line + spot.line - 1, column };
        self.error(position, error.reason())
    }

    /// Compiles an expression.
    pub fn compile(&self, text: &SourcedText<String>) -> Result<CompiledExpression, Error> {
        let parsed = self.parse(text)?;
        let program = ExpressionProgram::compile(&parsed, self)
            .map_err(|error| self.located(&error, &text.position))?;
        let features = self.features.borrow();
        let place =
            |name: &FeatureName| features.iter().position(|(known, _)| known == name).unwrap_or_default();
        let places = program.inputs().iter().map(|(name, _)| place(name)).collect();
        Ok(CompiledExpression { program, features: places })
    }

    /// Compiles an expression whose value is a number.
    pub fn compile_score(&self, text: &SourcedText<String>) -> Result<CompiledExpression, Error> {
        let compiled = self.compile(text)?;
        let tensor_type = compiled.program.tensor_type();
        if tensor_type.is_scalar() {
            return Ok(compiled);
        }
        Err(self.error(text.position.clone(), format!("a score must be a number, but this is {tensor_type}")))
    }

    /// Compiles the expression of the global phase, and returns it with its normalizers.
    pub fn compile_global(
        &self,
        text: &SourcedText<String>,
    ) -> Result<(CompiledExpression, Vec<HitNormalizer>), Error> {
        *self.normalizers.borrow_mut() = Some(Vec::new());
        let compiled = self.compile_score(text);
        let normalizers = self.normalizers.borrow_mut().take().unwrap_or_default();
        Ok((compiled?, normalizers.into_iter().map(|(_, normalizer)| normalizer).collect()))
    }

    /// Input for a number that is normalized over the hits of the global phase.
    fn normalizer(&self, name: &FeatureName) -> Result<expression::FeatureKind, Error> {
        let usage = || match name.name.as_str() {
            "normalize_linear" => Error::setup(format!("{name}: write normalize_linear(feature)")),
            _ => Error::setup(format!("{name}: write reciprocal_rank(feature,k), k a number of at least 0")),
        };
        let kind = match (name.name.as_str(), name.parameters.as_slice()) {
            ("normalize_linear", [_]) => NormalizationKind::Linear,
            ("reciprocal_rank", [_]) => NormalizationKind::ReciprocalRank { k: RECIPROCAL_RANK_K },
            ("reciprocal_rank", [_, k]) => {
                let k = k.parse().ok().filter(|k: &f64| *k >= 0.0).ok_or_else(usage)?;
                NormalizationKind::ReciprocalRank { k }
            }
            _ => return Err(usage()),
        };
        let only_global =
            || Error::setup(format!("{name} compares hits with each other, which only the global phase can"));
        // Normalizers do not nest, so the list is absent while the argument of one is compiled.
        let mut known = self.normalizers.borrow_mut().take().ok_or_else(only_global)?;
        if !known.iter().any(|(known, _)| known == name) {
            let position = self.setup.profile.position.clone();
            let input = self.compile_score(&SourcedText { value: name.parameters[0].clone(), position });
            let input = input.map_err(|error| Error::setup(format!("{name}: {}", error.reason())))?;
            self.features.borrow_mut().push((name.clone(), normalized(known.len())));
            known.push((name.clone(), HitNormalizer { input, kind }));
        }
        *self.normalizers.borrow_mut() = Some(known);
        Ok(expression::FeatureKind::Input(TensorType::scalar()))
    }

    /// Names of the fields that are filters.
    pub fn filters(&self) -> BTreeSet<String> {
        self.setup.filters()
    }

    /// Returns the features that the compiled expressions use, with their names, and the models behind some
    /// of them.
    pub fn into_features(self) -> (Vec<NamedFeature>, Vec<ModelStep>) {
        (self.features.into_inner(), self.steps.into_inner())
    }

    /// The output of an ONNX model: `onnx(name)`, `onnx(name).output`.
    fn onnx(&self, name: &FeatureName) -> Result<expression::FeatureKind, Error> {
        let profile = self.setup.profile;
        let known = || {
            let names: Vec<&str> = profile
                .onnx_models
                .keys()
                .chain(self.setup.schema.onnx_models.keys())
                .map(String::as_str)
                .collect();
            if names.is_empty() { "none".to_owned() } else { format!("only {}", names.join(", ")) }
        };
        let declared = match name.parameters.as_slice() {
            [model] => profile.onnx_models.get(model).or_else(|| self.setup.schema.onnx_models.get(model)),
            _ => {
                return Err(Error::setup(format!(
                    "{name}: write {}(name) or {}(name).output",
                    name.name, name.name
                )));
            }
        };
        let declared =
            declared.ok_or_else(|| Error::setup(format!("{name}: no such onnx-model, {}", known())))?;
        if self.open.borrow().contains(name) {
            return Err(Error::setup(format!("{name}: the model is its own input")));
        }
        self.open.borrow_mut().push(name.clone());
        // Model inputs cannot be normalized, because normalization happens later.
        let normalizers = self.normalizers.borrow_mut().take();
        let step = self.step(name, declared);
        *self.normalizers.borrow_mut() = normalizers;
        self.open.borrow_mut().pop();
        let (evaluation, inputs) =
            step.map_err(|reason| Error::setup(format!("{name}: {}: {reason}", declared.file.value)))?;
        let tensor_type = evaluation.tensor_type();
        let (mut steps, mut features) = (self.steps.borrow_mut(), self.features.borrow_mut());
        features.push((name.clone(), model_output(steps.len(), tensor_type.clone())));
        steps.push(ModelStep { evaluation, inputs, feature: features.len() - 1 });
        Ok(expression::FeatureKind::Input(tensor_type))
    }

    /// Binds a model to its inputs.
    fn step(
        &self,
        name: &FeatureName,
        declared: &OnnxModelConfig,
    ) -> Result<(Arc<dyn RankModelEvaluation>, Vec<CompiledExpression>), Error> {
        let of_model = |error| self.in_file(declared.file.value.to_string(), error);
        let model = self.models.open(&name.parameters[0], declared).map_err(of_model)?;
        let output = onnx::output_name(declared, &*model, name.output.as_deref())?;
        let known = model.inputs();
        if let Some((unknown, _)) = declared.inputs.iter().find(|(input, _)| !known.contains(input)) {
            return Err(Error::setup(format!(
                "Model does not contain input: '{unknown}'. Model contains: {}",
                known.join(", ")
            )));
        }
        let mut inputs = Vec::with_capacity(known.len());
        for input in &known {
            let source =
                declared.inputs.iter().find(|(name, _)| name == input).map(|(_, source)| source.clone());
            // An input without a declared source is fed by the function of the same name.
            let source = source.unwrap_or_else(|| SourcedText {
                value: onnx::plain(input),
                position: declared.file.position.clone(),
            });
            let compiled =
                self.compile(&source).map_err(|error| Error::setup(format!("input '{input}': {error}")))?;
            inputs.push((input.as_str(), compiled));
        }
        let types: Vec<(&str, &TensorType)> =
            inputs.iter().map(|(input, compiled)| (*input, compiled.program.tensor_type())).collect();
        let evaluation = model.bind(&types, &output)?;
        Ok((evaluation, inputs.into_iter().map(|(_, compiled)| compiled).collect()))
    }

    /// Records the file that an error is about, for [`ProfileCompiler::error`].
    fn in_file(&self, file: String, error: Error) -> Error {
        *self.failed_file.borrow_mut() = Some(file);
        error
    }

    /// Names of the features listed for a profile that does not name its own.
    pub fn default_features(&self) -> Result<Vec<String>, Error> {
        default_features(&self.setup)
            .map_err(|error| self.error(self.setup.profile.position.clone(), error.to_string()))
    }

    /// Reads a decision-tree model of the application package.
    fn forest(&self, name: &FeatureName) -> Result<Arc<DecisionForest>, Error> {
        let [file] = name.parameters.as_slice() else {
            return Err(Error::setup(format!(
                "{name} needs the name of a file in models/, as in {}(\"my_model.json\")",
                name.name
            )));
        };
        let key = (name.name.clone(), file.clone());
        if let Some(known) = self.forests.borrow().get(&key) {
            return Ok(Arc::clone(known));
        }
        let models = &self.setup.schema.models;
        let Some(bytes) = models.get(file) else {
            let known: Vec<&str> = models.keys().map(String::as_str).collect();
            return Err(Error::setup(match known.is_empty() {
                true => format!("{name}: the package has no text files in models/"),
                false => format!("{name}: no file models/{file}, only {}", known.join(", ")),
            }));
        };
        let path = format!("models/{file}");
        let wrong = |error| self.in_file(path.clone(), Error::setup(format!("{path}: {error}")));
        let names = forests::TreeModel::names_path(file).and_then(|names| models.get(&names));
        let forest = forests::read(&name.name, file, bytes, names.map(Vec::as_slice)).map_err(wrong)?;
        let forest = Arc::new(forest);
        self.forests.borrow_mut().insert(key, Arc::clone(&forest));
        Ok(forest)
    }

    fn constant(&self, name: &str) -> Option<Result<Tensor, Error>> {
        let constant = self.constants.get(name)?;
        let declared = match &constant.constant_type {
            InputType::Tensor(tensor_type) => tensor_type.clone(),
            InputType::String => {
                let text = constant.value.value.trim().trim_matches('"');
                return Some(Ok(Tensor::scalar(expression::string_hash(text))));
            }
        };
        let parsed = parse_constant(&constant.value.value, &declared);
        Some(parsed.map_err(|reason| {
            Error::setup(format!("constant {name} at {}: {reason}", constant.value.position))
        }))
    }
}

/// Checks all constants of a schema, also those that no expression uses. Reports constants that are not a
/// value of their type, and returns their names.
pub fn check_constants(schema: &Schema, findings: &mut PackageFindings) -> InvalidNames {
    let mut invalid = InvalidNames::default();
    for (name, constant) in &schema.constants {
        if let InputType::Tensor(declared) = &constant.constant_type
            && let Err(error) = parse_constant(&constant.value.value, declared)
        {
            invalid.add(name);
            findings.report(Error::Constant {
                position: constant.value.position.clone(),
                name: name.clone(),
                tensor_type: declared.to_string(),
                reason: error.to_string(),
            });
        }
    }
    invalid
}

/// Expansion of `reciprocal_rank_fusion(a,b,…)`: the sum of the reciprocal ranks.
fn fusion(name: &FeatureName) -> Result<String, Error> {
    if name.parameters.len() < 2 {
        return Err(Error::setup(format!(
            "{name}: write reciprocal_rank_fusion(a,b,…), of at least two features"
        )));
    }
    let ranks: Vec<String> = name
        .parameters
        .iter()
        .map(|feature| {
            FeatureName {
                name: "reciprocal_rank".to_owned(),
                parameters: vec![feature.clone()],
                output: None,
            }
            .to_string()
        })
        .collect();
    Ok(ranks.join("+"))
}

/// Expression of the first phase.
pub(crate) fn first_phase_expression(profile: &RankProfile) -> SourcedText<String> {
    profile.first_phase.expression.clone().unwrap_or_else(|| {
        let value = if profile.name == "unranked" { "0" } else { "nativeRank" };
        SourcedText {
            value: value.to_owned(),
            position: SourcePosition { line: 1, column: 1, ..profile.position.clone() },
        }
    })
}

/// Parses a tensor literal or the JSON of a file. A text that begins with a brace may be either; the error is
/// that of the form it resembles.
fn parse_constant(text: &str, declared: &TensorType) -> Result<Tensor, Error> {
    Tensor::parse(text, Some(declared)).or_else(|literal| {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let looks_like_json = text.trim_start().trim_start_matches(['{', '[']).trim_start().starts_with('"');
        TensorSeed(declared).deserialize(&mut deserializer).map_err(|json| {
            Error::setup(if looks_like_json { json.to_string() } else { literal.to_string() })
        })
    })
}

impl ProfileCompiler<'_> {
    /// The meaning of a feature: a constant, a model, another expression, or a value of each hit.
    fn feature_kind(&self, name: &FeatureName) -> Result<expression::FeatureKind, Error> {
        let only_output = match name.name.as_str() {
            "constant" => Some("out"),
            "foreach" => Some("value"),
            _ => None,
        };
        if let (Some(only), Some(output)) = (only_output, &name.output)
            && only != output
        {
            return Err(Error::setup(format!("{name}: {} has the output {only}", name.name)));
        }
        let bare = name.parameters.is_empty() && name.output.is_none();
        let constant = match (name.name.as_str(), name.parameters.as_slice()) {
            ("constant", [constant]) => Some(
                self.constant(constant)
                    .unwrap_or_else(|| Err(Error::setup(format!("no constant '{constant}'")))),
            ),
            (name, _) if bare => self.constant(name),
            _ => None,
        };
        if let Some(tensor) = constant {
            return tensor.map(expression::FeatureKind::Constant);
        }
        match (name.name.as_str(), bare) {
            ("e", true) => return Ok(expression::FeatureKind::Constant(Tensor::scalar(std::f64::consts::E))),
            ("pi", true) => {
                return Ok(expression::FeatureKind::Constant(Tensor::scalar(std::f64::consts::PI)));
            }
            _ => {}
        }
        match name.name.as_str() {
            "foreach" => return expand_foreach(&self.setup, name).map(expression::FeatureKind::Expression),
            "xgboost" | "lightgbm" => return self.forest(name).map(expression::FeatureKind::Forest),
            "normalize_linear" | "reciprocal_rank" => return self.normalizer(name),
            "reciprocal_rank_fusion" => return fusion(name).map(expression::FeatureKind::Expression),
            _ => {}
        }
        if let Some(expression) = expand_derived(&self.setup, name) {
            return expression.map(expression::FeatureKind::Expression);
        }
        if let Some(sequence) = tokens::sequence(name) {
            return sequence.map(expression::FeatureKind::TokenSequence);
        }
        let known =
            self.features.borrow().iter().find(|(known, _)| known == name).map(|(_, f)| f.tensor_type());
        if let Some(tensor_type) = known {
            return Ok(expression::FeatureKind::Input(tensor_type));
        }
        if matches!(name.name.as_str(), "onnx" | "onnxModel") {
            return self.onnx(name);
        }
        let feature = set_up(&self.setup, name)?;
        let tensor_type = feature.tensor_type();
        self.features.borrow_mut().push((name.clone(), feature));
        Ok(expression::FeatureKind::Input(tensor_type))
    }
}

impl ExpressionScope for ProfileCompiler<'_> {
    fn feature(&self, name: &FeatureName) -> Result<expression::FeatureKind, ExpressionFault> {
        Ok(self.feature_kind(name)?)
    }

    fn function(&self, name: &str) -> Option<FunctionBody<'_>> {
        let (parameters, body, _) = self.functions.get(name)?;
        Some(FunctionBody { parameters, body })
    }
}
