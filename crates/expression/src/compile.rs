//! Compilation of a syntax tree to a program: name lookup, inlining of functions, type checks.
//!
//! Programs nest: the functions of `map` and `join` are closed programs; the body of a generated tensor is an
//! open program that captures nodes of the surrounding levels. `level` counts the nesting from the outermost
//! program.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use millrace_tensor::{Tensor, TensorType};

use crate::builder::{NODES, ProgramBuilder};
use crate::operators::{BinaryNumberOp, UnaryNumberOp};
use crate::program::{CellFunction, ExpressionProgram, NodeId, ProgramOp};
use crate::syntax::{ExpressionKind, ExpressionNode, NameArgument, QualifiedName};
use crate::value::TensorValue;
use crate::{
    DecisionForest, Error, ExpressionFault, ExpressionSpot, FeatureName, ParsedExpression, TokenSequence,
    string_hash,
};

/// Maximum depth of an expression after inlining all functions.
const DEPTH: usize = 200;

/// Names available to an expression.
pub trait ExpressionScope {
    /// Looks up a rank feature.
    ///
    /// # Errors
    /// The feature does not exist; the text gives the reason and a valid form.
    fn feature(&self, name: &FeatureName) -> Result<FeatureKind, ExpressionFault>;

    /// The function of this name.
    fn function(&self, name: &str) -> Option<FunctionBody<'_>>;
}

/// Meaning of a feature in an expression.
#[derive(Debug, Clone)]
pub enum FeatureKind {
    /// A value of this type, known at evaluation.
    Input(TensorType),
    /// A constant.
    Constant(Tensor),
    /// The value of this expression.
    Expression(String),
    /// A decision-tree model over features.
    Forest(Arc<DecisionForest>),
    /// A token sequence for a transformer.
    TokenSequence(TokenSequence),
}

/// A function of the application: parameters and body.
#[derive(Debug, Clone, Copy)]
pub struct FunctionBody<'a> {
    /// Parameter names.
    pub parameters: &'a [String],
    /// The body.
    pub body: &'a ParsedExpression,
}

impl ExpressionProgram {
    /// Compiles an expression.
    ///
    /// # Errors
    /// [`Error::Meaning`]
    pub fn compile(expression: &ParsedExpression, scope: &dyn ExpressionScope) -> Result<Self, Error> {
        let mut compiler = ExpressionCompiler {
            scope,
            levels: vec![FunctionLevel::default()],
            functions: HashMap::new(),
            depth: 0,
        };
        let env = CompileNames {
            source: &expression.source,
            function: None,
            level: 0,
            names: HashMap::new(),
            calls: Vec::new(),
        };
        let result = compiler.expr(&expression.root, &env, 0)?;
        let Some(level) = compiler.levels.pop() else {
            unreachable!("levels are popped by those who pushed them")
        };
        Ok(level.builder.finish(result, false))
    }
}

/// Names visible to a text, in addition to features and functions.
pub(crate) struct CompileNames<'e> {
    source: &'e str,
    /// The function whose body the text is.
    function: Option<&'e str>,
    /// Level at which the text starts.
    level: usize,
    names: HashMap<String, NameBinding<'e>>,
    /// Functions whose bodies surround this text, outermost first.
    calls: Vec<String>,
}

enum NameBinding<'e> {
    /// A node with its level.
    Node(usize, NodeId),
    /// An argument of a call, compiled on its first use as a value.
    Argument(&'e NameArgument, &'e CompileNames<'e>, OnceCell<NodeId>),
    /// Dimension names.
    Names(Vec<String>),
}

#[derive(Default)]
pub(crate) struct FunctionLevel {
    pub builder: ProgramBuilder,
    /// True if nodes of surrounding levels may be captured.
    open: bool,
    /// Captured nodes of the level below, each with the input that represents it here.
    captured: Vec<(NodeId, NodeId)>,
}

pub(crate) struct ExpressionCompiler<'s> {
    scope: &'s dyn ExpressionScope,
    pub levels: Vec<FunctionLevel>,
    /// Compiled functions without parameters, at level 0.
    functions: HashMap<String, NodeId>,
    depth: usize,
}

impl<'e> CompileNames<'e> {
    /// Environment of a built-in function's body: its parameters are nodes of `level`, or names.
    pub fn for_expansion(
        body: &'e ParsedExpression,
        level: usize,
        nodes: Vec<(String, NodeId)>,
        names: HashMap<String, Vec<String>>,
    ) -> Self {
        let nodes = nodes.into_iter().map(|(name, id)| (name, NameBinding::Node(level, id)));
        let names = names.into_iter().map(|(name, names)| (name, NameBinding::Names(names)));
        CompileNames {
            source: &body.source,
            function: None,
            level,
            names: nodes.chain(names).collect(),
            calls: Vec::new(),
        }
    }
}

impl CompileNames<'_> {
    pub fn error(&self, at: usize, reason: impl Into<String>) -> Error {
        Error::Meaning { spot: ExpressionSpot::of(self.source, at, self.function), reason: reason.into() }
    }

    /// The names that `name` represents as an argument: those bound to it, or itself.
    pub fn names_of(&self, name: &str) -> Vec<String> {
        match self.names.get(name) {
            Some(NameBinding::Names(names)) => names.clone(),
            _ => vec![name.to_owned()],
        }
    }

    /// Text of a feature's parameter, with the arguments of the surrounding function substituted.
    fn parameter_text(&self, argument: &NameArgument) -> String {
        match argument.tree.as_ref().map(|tree| &tree.kind) {
            Some(ExpressionKind::Name(name)) if name.output.is_none() && name.arguments.is_empty() => {
                match self.names.get(&name.name) {
                    Some(NameBinding::Argument(argument, env, _)) => env.parameter_text(argument),
                    _ => argument.text.clone(),
                }
            }
            Some(ExpressionKind::Name(name)) if !name.arguments.is_empty() => {
                let parameters =
                    name.arguments.iter().map(|argument| self.parameter_text(argument)).collect();
                FeatureName { name: name.name.clone(), parameters, output: name.output.clone() }.to_string()
            }
            _ => argument.text.clone(),
        }
    }
}

impl ExpressionCompiler<'_> {
    /// Compiles a tree node to a node at `level`.
    pub fn expr(
        &mut self,
        expr: &ExpressionNode,
        env: &CompileNames<'_>,
        level: usize,
    ) -> Result<NodeId, Error> {
        self.depth += 1;
        if self.depth > DEPTH {
            let reason = format!("with all functions in place this is nested deeper than {DEPTH} levels");
            return Err(env.error(expr.at, reason));
        }
        if self.levels[level].builder.nodes.len() > NODES {
            let reason = format!("with all functions in place this has more than {NODES} operations");
            return Err(env.error(expr.at, reason));
        }
        let id = self.kind(expr, env, level);
        self.depth -= 1;
        id
    }

    fn kind(&mut self, expr: &ExpressionNode, env: &CompileNames<'_>, level: usize) -> Result<NodeId, Error> {
        let at = expr.at;
        match &expr.kind {
            ExpressionKind::Number(number) => Ok(self.build(level).number(*number)),
            ExpressionKind::Text(text) => Ok(self.build(level).number(string_hash(text))),
            ExpressionKind::Negate(of) => {
                let of = self.expr(of, env, level)?;
                self.unary(UnaryNumberOp::Negate, of, level).map_err(|reason| env.error(at, reason))
            }
            ExpressionKind::Not(of) => {
                let of = self.expr(of, env, level)?;
                self.unary(UnaryNumberOp::Not, of, level).map_err(|reason| env.error(at, reason))
            }
            ExpressionKind::Chain(first, rest) => {
                let mut left = self.expr(first, env, level)?;
                for (operator, right) in rest {
                    let right_id = self.expr(right, env, level)?;
                    left = self
                        .binary(*operator, left, right_id, level)
                        .map_err(|reason| env.error(right.at, reason))?;
                }
                Ok(left)
            }
            ExpressionKind::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                let condition_id = self.expr(condition, env, level)?;
                let (then, otherwise) = (self.expr(then, env, level)?, self.expr(otherwise, env, level)?);
                self.choose(condition_id, then, otherwise, level).map_err(|reason| env.error(at, reason))
            }
            ExpressionKind::In(of, set) => {
                let of = self.expr(of, env, level)?;
                let mut found = self.build(level).number(0.0);
                for member in set {
                    let member_id = self.expr(member, env, level)?;
                    let both = self
                        .binary(BinaryNumberOp::Equal, of, member_id, level)
                        .and_then(|equal| self.binary(BinaryNumberOp::Or, found, equal, level));
                    found = both.map_err(|reason| env.error(member.at, reason))?;
                }
                Ok(found)
            }
            ExpressionKind::Name(name) => self.name(name, at, env, level),
            ExpressionKind::Call(function, arguments) => self.call(function, arguments, at, env, level),
            ExpressionKind::Generate(tensor_type, body) => self.generate(tensor_type, body, at, env, level),
            ExpressionKind::Literal(tensor_type, cells) => self.literal(tensor_type, cells, at, env, level),
            ExpressionKind::Slice(of, address) => self.slice(of, address, at, env, level),
        }
    }

    pub fn build(&mut self, level: usize) -> &mut ProgramBuilder {
        &mut self.levels[level].builder
    }

    pub fn tensor_type(&self, id: NodeId, level: usize) -> TensorType {
        self.levels[level].builder.tensor_type(id).clone()
    }

    /// Converts a node of level `from` to one of level `to`, which is `from` or nested in it.
    fn node_in_level(
        &mut self,
        mut id: NodeId,
        from: usize,
        to: usize,
        reason: &str,
    ) -> Result<NodeId, ExpressionFault> {
        for level in from + 1..=to {
            if !self.levels[level].open {
                return Err(ExpressionFault::new(format!(
                    "{reason}: the function of a map, join or merge sees its own parameters only"
                )));
            }
            if let Some((_, known)) = self.levels[level].captured.iter().find(|(outer, _)| *outer == id) {
                id = *known;
                continue;
            }
            let tensor_type = self.tensor_type(id, level - 1);
            let name = format!("captured {}", self.levels[level].captured.len());
            let name = FeatureName { name, parameters: Vec::new(), output: None };
            let here = self.build(level).input(name, &tensor_type);
            self.levels[level].captured.push((id, here));
            id = here;
        }
        Ok(id)
    }

    fn name(
        &mut self,
        name: &QualifiedName,
        at: usize,
        env: &CompileNames<'_>,
        level: usize,
    ) -> Result<NodeId, Error> {
        let bare = name.arguments.is_empty() && name.output.is_none();
        if bare {
            match env.names.get(&name.name) {
                Some(NameBinding::Node(from, id)) => {
                    let reason = format!("'{}' is not known here", name.name);
                    return self
                        .node_in_level(*id, *from, level, &reason)
                        .map_err(|reason| env.error(at, reason));
                }
                Some(NameBinding::Argument(argument, outer, node)) => {
                    let id = match node.get() {
                        Some(id) => *id,
                        None => {
                            let Some(tree) = &argument.tree else {
                                let reason = format!(
                                    "'{}' is used as a value, but is not an expression",
                                    argument.text
                                );
                                return Err(env.error(at, reason));
                            };
                            let id = self.expr(tree, outer, env.level)?;
                            *node.get_or_init(|| id)
                        }
                    };
                    let reason = format!("'{}' is not known here", name.name);
                    return self
                        .node_in_level(id, env.level, level, &reason)
                        .map_err(|reason| env.error(at, reason));
                }
                Some(NameBinding::Names(_)) => {
                    return Err(env.error(at, "expected a value, found names of dimensions"));
                }
                None => {}
            }
        }
        if name.output.is_none() && self.scope.function(&name.name).is_some() {
            return self.inline(name, at, env, level);
        }
        if let ("rankingExpression", [inner], None) =
            (name.name.as_str(), name.arguments.as_slice(), &name.output)
        {
            let text = env.parameter_text(inner);
            let id = self.expression_text(&text, at, env)?;
            return self
                .node_in_level(id, 0, level, "rankingExpression cannot be used here")
                .map_err(|reason| env.error(at, reason));
        }
        self.feature(name, at, env, level)
    }

    fn feature(
        &mut self,
        name: &QualifiedName,
        at: usize,
        env: &CompileNames<'_>,
        level: usize,
    ) -> Result<NodeId, Error> {
        let feature = FeatureName {
            name: name.name.clone(),
            parameters: name.arguments.iter().map(|argument| env.parameter_text(argument)).collect(),
            output: name.output.clone(),
        };
        let id = match self.scope.feature(&feature).map_err(|reason| env.error(at, reason))? {
            FeatureKind::Input(tensor_type) => self.build(0).input(feature.clone(), &tensor_type),
            FeatureKind::Constant(tensor) => self.build(0).constant(TensorValue::from_tensor(&tensor)),
            FeatureKind::Expression(text) => self.expression_text(&text, at, env)?,
            FeatureKind::Forest(forest) => self.forest(forest, &feature, at, env)?,
            FeatureKind::TokenSequence(sequence) => self.token_sequence(sequence, &feature, at, env)?,
        };
        self.node_in_level(id, 0, level, &format!("{feature} cannot be used here"))
            .map_err(|reason| env.error(at, reason))
    }

    /// Compiles an expression given as text, at level 0.
    fn expression_text(&mut self, text: &str, at: usize, env: &CompileNames<'_>) -> Result<NodeId, Error> {
        // A position in a text that is not part of the application would not help the reader, so the reason
        // names the text.
        ParsedExpression::parse(text)
            .and_then(|expression| self.own_text(&expression, env))
            .map_err(|error| env.error(at, error.reason()))
    }

    /// Compiles an expression that sees only features and functions, at level 0.
    fn own_text(&mut self, expression: &ParsedExpression, env: &CompileNames<'_>) -> Result<NodeId, Error> {
        let inner = CompileNames {
            source: &expression.source,
            function: None,
            level: 0,
            names: HashMap::new(),
            calls: env.calls.clone(),
        };
        self.expr(&expression.root, &inner, 0)
    }

    fn forest(
        &mut self,
        forest: Arc<DecisionForest>,
        model: &FeatureName,
        at: usize,
        env: &CompileNames<'_>,
    ) -> Result<NodeId, Error> {
        let mut inputs = Vec::with_capacity(forest.inputs().len());
        for input in forest.inputs() {
            let node = self.own_text(input, env).map_err(|error| {
                env.error(at, format!("{model}: its feature {}: {}", input.source, error.reason()))
            })?;
            let tensor_type = self.tensor_type(node, 0);
            if !tensor_type.is_scalar() {
                let reason = format!(
                    "{model}: its feature {} must be a number, but it is {tensor_type}",
                    input.source
                );
                return Err(env.error(at, reason));
            }
            inputs.push(node);
        }
        Ok(self.build(0).add(ProgramOp::Forest(forest, inputs), TensorType::scalar()))
    }

    fn token_sequence(
        &mut self,
        sequence: TokenSequence,
        feature: &FeatureName,
        at: usize,
        env: &CompileNames<'_>,
    ) -> Result<NodeId, Error> {
        let mut inputs = Vec::with_capacity(sequence.inputs.len());
        for input in &sequence.inputs {
            let node = self.expression_text(input, at, env)?;
            let tensor_type = self.tensor_type(node, 0);
            if !tensor_type.is_dense() || tensor_type.dimensions().len() != 1 {
                let reason = format!(
                    "{feature}: {input} must be a tensor of tokens such as tensor<float>(d0[128]), but it is {tensor_type}"
                );
                return Err(env.error(at, reason));
            }
            inputs.push(node);
        }
        let tensor_type = sequence.tensor_type().map_err(|reason| env.error(at, reason))?;
        Ok(self.build(0).add(ProgramOp::TokenSequence(Arc::new(sequence), inputs), tensor_type))
    }

    /// Inlines the body of a function at a call.
    fn inline(
        &mut self,
        name: &QualifiedName,
        at: usize,
        env: &CompileNames<'_>,
        level: usize,
    ) -> Result<NodeId, Error> {
        let scope = self.scope;
        let Some(function) = scope.function(&name.name) else {
            return Err(env.error(at, format!("no function '{}'", name.name)));
        };
        if function.parameters.len() != name.arguments.len() {
            let (expected, found) = (function.parameters.len(), name.arguments.len());
            return Err(
                env.error(at, format!("function {} takes {expected} arguments, found {found}", name.name))
            );
        }
        if env.calls.contains(&name.name) {
            let reason = format!("function {} calls itself, by way of {}", name.name, env.calls.join(", "));
            return Err(env.error(at, reason));
        }
        let plain = function.parameters.is_empty();
        let own_level = if plain { 0 } else { level };
        let known = if plain { self.functions.get(&name.name).copied() } else { None };
        let id = match known {
            Some(id) => id,
            None => {
                let bind = |(parameter, argument)| {
                    let parameter: &String = parameter;
                    (parameter.clone(), NameBinding::Argument(argument, env, OnceCell::new()))
                };
                let inner = CompileNames {
                    source: &function.body.source,
                    function: Some(&name.name),
                    level: own_level,
                    names: function.parameters.iter().zip(&name.arguments).map(bind).collect(),
                    calls: env.calls.iter().chain([&name.name]).cloned().collect(),
                };
                let id = self.expr(&function.body.root, &inner, own_level)?;
                if plain {
                    self.functions.insert(name.name.clone(), id);
                }
                id
            }
        };
        let reason = format!("function {} cannot be used here", name.name);
        self.node_in_level(id, own_level, level, &reason).map_err(|reason| env.error(at, reason))
    }

    /// A separate program whose parameters have these types.
    pub fn lambda(
        &mut self,
        parameters: &[String],
        types: &[TensorType],
        body: &ExpressionNode,
        env: &CompileNames<'_>,
    ) -> Result<ExpressionProgram, Error> {
        let (program, _) = self.program(parameters, types, body, env, false)?;
        Ok(program)
    }

    /// A separate program; if it is open, also the nodes it captures from `level`.
    pub fn program(
        &mut self,
        parameters: &[String],
        types: &[TensorType],
        body: &ExpressionNode,
        env: &CompileNames<'_>,
        open: bool,
    ) -> Result<(ExpressionProgram, Vec<NodeId>), Error> {
        let level = self.levels.len();
        self.levels.push(FunctionLevel { open, ..FunctionLevel::default() });
        let mut names: HashMap<String, NameBinding<'_>> = HashMap::new();
        if open {
            for (name, binding) in &env.names {
                let binding = match binding {
                    NameBinding::Node(level, id) => NameBinding::Node(*level, *id),
                    NameBinding::Names(names) => NameBinding::Names(names.clone()),
                    NameBinding::Argument(argument, outer, node) => {
                        NameBinding::Argument(argument, outer, node.clone())
                    }
                };
                names.insert(name.clone(), binding);
            }
        }
        for (name, tensor_type) in parameters.iter().zip(types) {
            let feature = FeatureName { name: name.clone(), parameters: Vec::new(), output: None };
            let id = self.build(level).input(feature, tensor_type);
            names.insert(name.clone(), NameBinding::Node(level, id));
        }
        // Arguments of a surrounding function are compiled at the level of that function.
        let inner = CompileNames {
            source: env.source,
            function: env.function,
            level: env.level,
            names,
            calls: env.calls.clone(),
        };
        let result = self.expr(body, &inner, level)?;
        let Some(done) = self.levels.pop() else { unreachable!("this level was pushed above") };
        let captured = done.captured.iter().map(|(outer, _)| *outer).collect();
        Ok((done.builder.finish(result, true), captured))
    }

    pub fn unary(
        &mut self,
        unary: UnaryNumberOp,
        of: NodeId,
        level: usize,
    ) -> Result<NodeId, ExpressionFault> {
        let tensor_type = self.tensor_type(of, level);
        if tensor_type.is_scalar() {
            return Ok(self.build(level).add(ProgramOp::Unary(unary, of), tensor_type));
        }
        let result = crate::types::map(&tensor_type)?;
        Ok(self.build(level).add(ProgramOp::Map(CellFunction::Unary(unary), of), result))
    }

    pub fn binary(
        &mut self,
        binary: BinaryNumberOp,
        a: NodeId,
        b: NodeId,
        level: usize,
    ) -> Result<NodeId, ExpressionFault> {
        if self.tensor_type(a, level).is_scalar() && self.tensor_type(b, level).is_scalar() {
            return Ok(self.build(level).add(ProgramOp::Binary(binary, a, b), TensorType::scalar()));
        }
        self.join(CellFunction::Binary(binary), a, b, level)
    }

    fn choose(
        &mut self,
        condition: NodeId,
        a: NodeId,
        b: NodeId,
        level: usize,
    ) -> Result<NodeId, ExpressionFault> {
        let (a_type, b_type) = (self.tensor_type(a, level), self.tensor_type(b, level));
        let condition_type = self.tensor_type(condition, level);
        if !condition_type.is_scalar() {
            return Err(ExpressionFault::new(format!(
                "the condition of an if must be a number, found {condition_type}"
            )));
        }
        if a_type.dimensions() != b_type.dimensions() {
            return Err(ExpressionFault::new(format!(
                "both results of an if must have the same type, found {a_type} and {b_type}"
            )));
        }
        if let Some(condition) = self.build(level).known_number(condition) {
            return Ok(if condition != 0.0 { a } else { b });
        }
        let result = if a_type == b_type { a_type } else { crate::types::join(&a_type, &b_type)? };
        Ok(self.build(level).add(ProgramOp::Choose(condition, a, b), result))
    }
}
