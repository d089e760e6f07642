//! Trees of which a part is decided when the nearest documents are known.

use millrace_plan::LeafId;

use crate::bits::DocumentBits;

/// Result of a (part of a) tree before the nearest documents are known.
pub(crate) enum ResidualTree {
    Known(DocumentBits),
    /// The nearest documents for this leaf.
    Nearest(LeafId),
    And(Vec<ResidualTree>),
    Or(Vec<ResidualTree>),
    AndNot(Box<ResidualTree>, Vec<ResidualTree>),
}

impl ResidualTree {
    /// Matching documents, given the nearest documents of each leaf by `nearest`. Its second argument is true
    /// if the result will be negated.
    pub(crate) fn resolve(&self, nearest: &dyn Fn(LeafId, bool) -> DocumentBits) -> DocumentBits {
        self.resolve_as(nearest, false)
    }

    fn resolve_as(&self, nearest: &dyn Fn(LeafId, bool) -> DocumentBits, negated: bool) -> DocumentBits {
        let child = |child: &ResidualTree| child.resolve_as(nearest, negated);
        match self {
            ResidualTree::Known(bits) => *bits,
            ResidualTree::Nearest(leaf) => nearest(*leaf, negated),
            ResidualTree::And(children) => {
                children.iter().map(child).reduce(|a, b| a.and(&b)).unwrap_or(DocumentBits::NONE)
            }
            ResidualTree::Or(children) => {
                children.iter().map(child).fold(DocumentBits::NONE, |a, b| a.or(&b))
            }
            ResidualTree::AndNot(positive, negatives) => negatives
                .iter()
                .map(|negative| negative.resolve_as(nearest, !negated))
                .fold(child(positive), |a, b| a.without(&b)),
        }
    }

    /// Upper bound of the matching documents: all candidates of nearest-neighbour leaves count as matches.
    pub(super) fn at_most(&self, within: &DocumentBits) -> DocumentBits {
        self.resolve(&|_, negated| if negated { DocumentBits::NONE } else { *within })
    }

    fn known(&self) -> Option<&DocumentBits> {
        match self {
            ResidualTree::Known(bits) => Some(bits),
            _ => None,
        }
    }
}

/// Turns a residual without unknown parts into a known set.
pub(super) fn simplified(residual: ResidualTree) -> ResidualTree {
    let children: Box<dyn Iterator<Item = &ResidualTree> + '_> = match &residual {
        ResidualTree::Known(_) | ResidualTree::Nearest(_) => return residual,
        ResidualTree::And(children) | ResidualTree::Or(children) => Box::new(children.iter()),
        ResidualTree::AndNot(positive, negatives) => Box::new(std::iter::once(&**positive).chain(negatives)),
    };
    let known = children.into_iter().all(|child| child.known().is_some());
    if known { ResidualTree::Known(residual.resolve(&|_, _| DocumentBits::NONE)) } else { residual }
}
