use crate::layout::COMPONENTS_MAX;

/// Error in the declaration of a key, or in conditions on it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The number of components is out of range.
    #[error("a key has 1 to {COMPONENTS_MAX} components, not {0}")]
    Components(usize),
    /// Several components can have several values.
    #[error("components {first} and {second} can both have several values: at most one of a key can")]
    Several {
        /// Position of the first one, from 1.
        first: usize,
        /// Position of another one, from 1.
        second: usize,
    },
    /// A condition does not fit the type of its component.
    #[error("component {position} of the key is {component}, and the condition is about {condition}")]
    Condition {
        /// Position of the component, from 1.
        position: usize,
        /// Its type.
        component: &'static str,
        /// Type of the condition's values.
        condition: &'static str,
    },
    /// Conditions beyond the last component, or after one that is not an equality.
    #[error(
        "the conditions are not those of leading components: only the last one can be a range or a prefix"
    )]
    Order,
    /// The conditions make too many ranges.
    #[error("the conditions make {0} ranges: at most {max} are scanned", max = crate::range::RANGES_MAX)]
    Ranges(usize),
}
