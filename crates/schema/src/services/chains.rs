//! Inheritance of search chains.

use roxmltree::Node;

/// A chain with all chains that it inherits.
pub(super) struct ChainLineage<'a, 'i> {
    /// The chains, itself first.
    pub(super) chains: Vec<Node<'a, 'i>>,
    /// Inherited names that are not chains of services.xml: those of built-in chains.
    pub(super) built_in: Vec<&'a str>,
}

impl<'a, 'i> ChainLineage<'a, 'i> {
    /// Inheritance of a chain; `all` are the chains of the container.
    pub(super) fn of(chain: Node<'a, 'i>, all: &[Node<'a, 'i>]) -> Self {
        let (mut chains, mut built_in, mut next) = (Vec::new(), Vec::new(), vec![chain]);
        while let Some(chain) = next.pop() {
            if chains.contains(&chain) {
                continue;
            }
            chains.push(chain);
            for id in chain.attribute("inherits").unwrap_or_default().split_whitespace() {
                match all.iter().find(|other| other.attribute("id") == Some(id)) {
                    Some(inherited) => next.push(*inherited),
                    None => built_in.push(id),
                }
            }
        }
        ChainLineage { chains, built_in }
    }
}
