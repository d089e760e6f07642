//! Types of expressions that contain others, or that call functions and components.

use std::sync::Arc;

use millrace_document::{DataType, DocumentField, StructType};
use millrace_schema::SourcePosition;
use millrace_tensor::TensorType;

use super::{ENTRY_KEY, ENTRY_VALUE, InferredType, StatementResolver, is_number, rank};
use crate::script::{
    IfExpression, IndexingScript, IndexingStatement, IndexingStep, SwitchExpression, ValueFunction,
};
use crate::{ComponentCall, Error, GeneratorTarget};

impl StatementResolver<'_> {
    pub(super) fn get_field(
        &self,
        name: &str,
        input: &InferredType,
        position: &SourcePosition,
    ) -> Result<InferredType, Error> {
        match input {
            Some(DataType::Struct(struct_type)) => match member_type(struct_type, name) {
                Some(member) => Ok(Some(member.clone())),
                None => self.fail(position, format!("struct {} has no field '{name}'", struct_type.name)),
            },
            Some(other) => self.fail(
                position,
                format!("get_field needs a struct, or within for_each an entry of a map, not a {other}"),
            ),
            None => Ok(None),
        }
    }

    pub(super) fn get_value(
        &self,
        input: &InferredType,
        position: &SourcePosition,
    ) -> Result<InferredType, Error> {
        match input {
            Some(DataType::Map(_, value)) => Ok(Some((**value).clone())),
            Some(other) => self.fail(position, format!("get_value needs a map, not a {other}")),
            None => Ok(None),
        }
    }

    pub(super) fn arithmetic(
        &mut self,
        left: &mut IndexingStep,
        right: &mut IndexingStep,
        input: &InferredType,
        position: &SourcePosition,
    ) -> Result<InferredType, Error> {
        let (left, right) = (self.step(left, input, &None)?, self.step(right, input, &None)?);
        for operand in [&left, &right].into_iter().flatten() {
            if !is_number(operand) {
                return self.fail(
                    position,
                    format!("arithmetic needs numbers, not a {operand}; convert it, as with to_int"),
                );
            }
        }
        Ok(left.zip(right).map(|(left, right)| arithmetic_type(&left, &right)))
    }

    /// Types of the parts of a concatenation.
    pub(super) fn types_of_parts(
        &mut self,
        parts: &mut [IndexingStep],
        input: &InferredType,
    ) -> Result<Vec<InferredType>, Error> {
        parts.iter_mut().map(|part| self.step(part, input, &None)).collect()
    }

    /// The first type that is known of the alternatives.
    pub(super) fn choice(
        &mut self,
        steps: &mut [IndexingStep],
        input: &InferredType,
        target: &InferredType,
    ) -> Result<InferredType, Error> {
        let mut known = None;
        for step in steps {
            let next = self.step(step, input, target)?;
            known = known.or(next);
        }
        Ok(known)
    }

    /// Type of a collection, or of a struct, whose elements or members a script has replaced.
    pub(super) fn for_each(
        &mut self,
        script: &mut IndexingScript,
        input: &InferredType,
        target: &InferredType,
        position: &SourcePosition,
    ) -> Result<InferredType, Error> {
        let wanted = match target {
            Some(DataType::Array(element) | DataType::WeightedSet { element, .. }) => {
                Some((**element).clone())
            }
            _ => None,
        };
        match input {
            None => {
                self.script(script, &None, &wanted)?;
                Ok(None)
            }
            Some(DataType::Array(element)) => {
                let element = self.script(script, &Some((**element).clone()), &wanted)?;
                Ok(element.map(|element| DataType::Array(Box::new(element))))
            }
            Some(DataType::WeightedSet { element, create_if_nonexistent, remove_if_zero }) => {
                let inner = self.script(script, &Some((**element).clone()), &wanted)?;
                Ok(inner.map(|element| DataType::WeightedSet {
                    element: Box::new(element),
                    create_if_nonexistent: *create_if_nonexistent,
                    remove_if_zero: *remove_if_zero,
                }))
            }
            Some(whole @ DataType::Struct(struct_type)) => {
                for member in &struct_type.fields {
                    self.script(script, &Some(member.data_type.clone()), &None)?;
                }
                Ok(Some(whole.clone()))
            }
            Some(DataType::Map(key, value)) => {
                let members = [(ENTRY_KEY, key), (ENTRY_VALUE, value)];
                let fields = members
                    .map(|(name, of)| DocumentField { name: name.into(), data_type: (**of).clone() })
                    .into();
                let entry = DataType::Struct(Arc::new(StructType { name: "map entry".to_owned(), fields }));
                let element = self.script(script, &Some(entry), &wanted)?;
                Ok(element.map(|element| DataType::Array(Box::new(element))))
            }
            Some(other) => self.fail(
                position,
                format!("for_each needs an array, weighted set, map or struct, not a {other}"),
            ),
        }
    }

    pub(super) fn condition(
        &mut self,
        of: &mut IfExpression,
        input: &InferredType,
        target: &InferredType,
    ) -> Result<InferredType, Error> {
        self.step(&mut of.left, input, &None)?;
        self.step(&mut of.right, input, &None)?;
        let then = self.script(&mut of.then, input, target)?;
        let otherwise = match &mut of.otherwise {
            Some(otherwise) => self.script(otherwise, input, target)?,
            None => None,
        };
        Ok(then.or(otherwise))
    }

    /// The type of the input, since the expression after a switch gets the value of the switch's input.
    pub(super) fn switch(
        &mut self,
        switch: &mut SwitchExpression,
        input: &InferredType,
        target: &InferredType,
    ) -> Result<InferredType, Error> {
        let cases = switch.cases.iter_mut().map(|(_, statement)| statement);
        for statement in cases.chain(&mut switch.default) {
            self.statement(statement, input, target)?;
        }
        Ok(input.clone())
    }

    pub(super) fn select_input(
        &mut self,
        cases: &mut [(String, IndexingStatement)],
        target: &InferredType,
        position: &SourcePosition,
    ) -> Result<InferredType, Error> {
        let mut known = None;
        for (field, statement) in cases {
            let of_field = self.input(std::slice::from_ref(field), position)?;
            let next = self.statement(statement, &Some(of_field), target)?;
            known = known.or(next);
        }
        Ok(known)
    }

    pub(super) fn apply(
        &self,
        function: &ValueFunction,
        input: &InferredType,
        position: &SourcePosition,
    ) -> Result<InferredType, Error> {
        // Earlier versions took values of all types.
        let is_of_any_type = matches!(function, ValueFunction::Base64Decode | ValueFunction::HexDecode);
        let input = if self.is_active && is_of_any_type { &None } else { input };
        if let ValueFunction::Substring(from, to) = function
            && to < from
            && !self.is_active
        {
            return self.fail(position, format!("substring ends at {to}, before it begins at {from}"));
        }
        function.result_type(input).or_else(|reason| self.fail(position, reason))
    }

    /// Type of the tensor that an embedder makes, which is that of the field that it is written to.
    pub(super) fn embedding(
        &self,
        call: &ComponentCall,
        input: &InferredType,
        target: &InferredType,
        position: &SourcePosition,
    ) -> Result<TensorType, Error> {
        if let Some(input) = input
            && !matches!(input, DataType::String | DataType::Array(_))
        {
            return self
                .fail(position, format!("embed needs a string or an array of strings, not a {input}"));
        }
        let Some(DataType::Tensor(wanted)) = target else {
            return self.fail(
                position,
                "embed makes a tensor: write it to a field of a tensor type, as in embed | attribute",
            );
        };
        let chunks = matches!(input, Some(DataType::Array(_)));
        self.components.check_embed(call, chunks, wanted).or_else(|reason| self.fail(position, reason))?;
        Ok(wanted.clone())
    }

    pub(super) fn chunk(
        &self,
        call: &ComponentCall,
        input: &InferredType,
        position: &SourcePosition,
    ) -> Result<InferredType, Error> {
        self.want_text("chunk", input, position)?;
        self.components.check_chunk(call).or_else(|reason| self.fail(position, reason))?;
        Ok(Some(DataType::Array(Box::new(DataType::String))))
    }

    /// Checks that a generator makes values of the wanted type from a text, or from each text of an array.
    pub(super) fn check_generate(
        &self,
        call: &ComponentCall,
        wanted: &GeneratorTarget,
        input: &InferredType,
        position: &SourcePosition,
    ) -> Result<(), Error> {
        let each = matches!(&wanted.data_type, DataType::Array(_));
        match input {
            Some(DataType::Array(element)) if each && **element == DataType::String => {}
            _ => self.want_text("generate", input, position)?,
        }
        self.components.check_generate(call, wanted).or_else(|reason| self.fail(position, reason))
    }
}

/// Type of a member of a struct; of an entry of a map, also that of a member of its value.
fn member_type<'t>(of: &'t StructType, name: &str) -> Option<&'t DataType> {
    match (of.field(name), of.field(ENTRY_VALUE).map(|value| &value.data_type)) {
        (Some(member), _) => Some(&member.data_type),
        (None, Some(DataType::Struct(value))) => value.field(name).map(|member| &member.data_type),
        (None, _) => None,
    }
}

fn arithmetic_type(left: &DataType, right: &DataType) -> DataType {
    let wider = if rank(left) >= rank(right) { left } else { right };
    if rank(wider) == 1 { DataType::Int } else { wider.clone() }
}
