use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use millrace_document::{Document, DocumentUpdate, DocumentValue};
use millrace_schema::{Schema, SchemaField};

use crate::execute::{ComponentResults, ScriptExecution};
use crate::parser;
use crate::resolve::{StatementResolver, is_number};
use crate::script::{IndexingExpression, IndexingScript, IndexingStatement, IndexingStep, ValueFunction};
use crate::{Error, IndexingCaller, IndexingComponents, IndexingEnvironment};

/// Compiled indexing statements of a schema.
///
/// Statements that only set how a field is searched are omitted, so that for most schemas there is nothing to
/// run.
pub struct SchemaScripts {
    schema: Arc<Schema>,
    components: Arc<dyn IndexingComponents>,
    environment: Arc<IndexingEnvironment>,
    fields: Vec<FieldScript>,
}

struct FieldScript {
    field: Arc<str>,
    script: IndexingScript,
    /// Fields that it reads.
    inputs: BTreeSet<String>,
    /// Fields that it writes.
    outputs: BTreeSet<String>,
    /// True if it waits for models.
    waits: bool,
}

impl SchemaScripts {
    /// Compiles the statements of all fields, in schema order: the document's fields, then those outside of
    /// it.
    ///
    /// A statement of a document field without an input starts with the field's own value.
    ///
    /// # Errors
    /// An [`Error::Script`] for each field with invalid statements: a syntax error, an unknown field, a value
    /// that does not fit a field's type, or a missing component, with its location; at least one.
    pub fn compile(
        schema: &Arc<Schema>,
        components: Arc<dyn IndexingComponents>,
        environment: Arc<IndexingEnvironment>,
    ) -> Result<SchemaScripts, Vec<Error>> {
        SchemaScripts::compile_for(schema, components, environment, false)
    }

    /// Compiles the statements of an application that is active already. What earlier versions accepted keeps
    /// its outcome, although [`SchemaScripts::compile`] refuses it.
    ///
    /// # Errors
    /// The errors of [`SchemaScripts::compile`], but for statements that earlier versions accepted.
    pub fn compile_active(
        schema: &Arc<Schema>,
        components: Arc<dyn IndexingComponents>,
        environment: Arc<IndexingEnvironment>,
    ) -> Result<SchemaScripts, Vec<Error>> {
        SchemaScripts::compile_for(schema, components, environment, true)
    }

    fn compile_for(
        schema: &Arc<Schema>,
        components: Arc<dyn IndexingComponents>,
        environment: Arc<IndexingEnvironment>,
        is_active: bool,
    ) -> Result<SchemaScripts, Vec<Error>> {
        let (mut fields, mut errors) = (Vec::new(), Vec::new());
        for field in in_order(schema) {
            match FieldScript::compile(field, schema, &*components, is_active) {
                Ok(of) if of.script.statements.is_empty() => {}
                Ok(of) => fields.push(of),
                Err(error) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(SchemaScripts { schema: Arc::clone(schema), components, environment, fields })
    }

    /// True if there is nothing to run: documents are not changed.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// True if statements embed texts or generate values, so that a document waits for models.
    pub fn waits(&self) -> bool {
        self.fields.iter().any(|of| of.waits)
    }

    /// Returns the document with the values set by the statements.
    ///
    /// # Errors
    /// [`Error::Document`] if a value cannot be converted; [`Error::Component`] if a component fails.
    pub fn run(&self, document: Document, caller: &IndexingCaller) -> Result<Document, Error> {
        self.run_scripts(document, caller, |_| true)
    }

    /// Returns the document, to which `update` has been applied, with the values set by statements that read
    /// an updated field.
    ///
    /// # Errors
    /// The errors of [`SchemaScripts::run`].
    pub fn run_update(
        &self,
        document: Document,
        update: &DocumentUpdate,
        caller: &IndexingCaller,
    ) -> Result<Document, Error> {
        // A script may read the output of another.
        let mut changed: BTreeSet<&str> = update.fields.iter().map(|field| &*field.path.field).collect();
        for of in &self.fields {
            if of.inputs.iter().any(|input| changed.contains(input.as_str())) {
                changed.extend(of.outputs.iter().map(String::as_str));
            }
        }
        self.run_scripts(document, caller, |of| {
            of.inputs.iter().any(|input| changed.contains(input.as_str()))
        })
    }

    fn run_scripts(
        &self,
        mut document: Document,
        caller: &IndexingCaller,
        wanted: impl Fn(&FieldScript) -> bool,
    ) -> Result<Document, Error> {
        if !self.fields.iter().any(&wanted) {
            return Ok(document);
        }
        // Fields set by statements are recomputed, so that no value remains whose source was removed.
        for name in self.fields.iter().filter(|of| wanted(of)).flat_map(|of| &of.outputs) {
            if self.schema.fields.get(name.as_str()).is_some_and(|field| field.synthetic) {
                document.clear(name);
            }
        }
        let mut execution = ScriptExecution {
            schema: &self.schema,
            components: &*self.components,
            environment: &self.environment,
            document: &document,
            outputs: Vec::new(),
            variables: HashMap::new(),
            language: None,
            results: ComponentResults::default(),
            caller,
        };
        for of in self.fields.iter().filter(|of| wanted(of)) {
            execution.variables.clear();
            execution.script(&of.script, &None).map_err(|failure| Error::failed(&of.field, failure))?;
        }
        let outputs = execution.outputs;
        for (name, value) in outputs {
            match self.schema.fields.get(name.as_str()) {
                Some(field) if !value.is_empty() => document.set(&field.name, value),
                _ => document.clear(&name),
            }
        }
        Ok(document)
    }
}

impl FieldScript {
    fn compile(
        field: &SchemaField,
        schema: &Schema,
        components: &dyn IndexingComponents,
        is_active: bool,
    ) -> Result<Self, Error> {
        let Some(source) = &field.indexing else {
            return Ok(Self::new(&field.name, IndexingScript::default()));
        };
        let mut script = parser::parse(source, &field.name)?;
        for statement in &mut script.statements {
            begin_with_input(statement, field)?;
        }
        let (field_name, variables) = (&*field.name, HashMap::new());
        let mut resolver = StatementResolver { schema, components, field: field_name, is_active, variables };
        resolver.script(&mut script, &None, &None)?;
        script.statements.retain(|statement| !is_trivial(statement, field));
        Ok(Self::new(&field.name, script))
    }

    fn new(field: &Arc<str>, script: IndexingScript) -> Self {
        let (mut inputs, mut outputs, mut waits) = (BTreeSet::new(), BTreeSet::new(), false);
        script.visit(&mut |expression| match expression {
            IndexingExpression::Input(path) => inputs.extend(path.first().cloned()),
            IndexingExpression::SelectInput(cases) => {
                inputs.extend(cases.iter().map(|(field, _)| field.clone()))
            }
            IndexingExpression::Output(name) => {
                outputs.insert(name.clone());
            }
            IndexingExpression::Embed { .. } | IndexingExpression::Generate { .. } => waits = true,
            _ => {}
        });
        FieldScript { field: Arc::clone(field), script, inputs, outputs, waits }
    }
}

/// The document's fields in order, then those outside of it in the order of the file.
pub(crate) fn in_order(schema: &Schema) -> Vec<&SchemaField> {
    let own = schema.document_type.fields().iter().filter_map(|field| schema.fields.get(&field.name));
    let mut beside: Vec<&SchemaField> =
        schema.fields.values().filter(|field| schema.document_type.field(&field.name).is_none()).collect();
    beside.sort_by_key(|field| (field.position.line, field.position.column));
    own.chain(beside).collect()
}

/// Inserts the field's own value before a statement that has no input. A mutable attribute outside of the
/// document begins with 0, as in Vespa, or without a value if it is not a number.
fn begin_with_input(statement: &mut IndexingStatement, field: &SchemaField) -> Result<(), Error> {
    let Some(first) = statement.steps.first().filter(|step| step.expression.needs_input()) else {
        return Ok(());
    };
    let position = first.position.clone();
    let is_mutable = field.attribute.as_ref().is_some_and(|attribute| attribute.mutable);
    let input = if !field.synthetic {
        IndexingExpression::Input(vec![field.name.to_string()])
    } else if is_mutable && is_number(&field.data_type) {
        IndexingExpression::Constant(DocumentValue::Int(0))
    } else if is_mutable {
        statement.steps.clear();
        return Ok(());
    } else {
        return Err(Error::Script {
            position,
            field: field.name.to_string(),
            reason: "the field is not in the document, so its statements begin with a value, as in: input title | index"
                .to_owned(),
        });
    };
    statement.steps.insert(0, IndexingStep { expression: input, position });
    Ok(())
}

/// True if a statement only assigns the field's own value to itself: this sets how the field is searched, and
/// has no effect here.
fn is_trivial(statement: &IndexingStatement, field: &SchemaField) -> bool {
    statement.steps.iter().all(|step| match &step.expression {
        IndexingExpression::Input(path) => path.len() == 1 && path[0] == *field.name,
        IndexingExpression::Output(name) => *name == *field.name,
        IndexingExpression::Apply(ValueFunction::Annotate) => true,
        _ => false,
    })
}
