//! Changes of documents of this node, which it has admitted by the sizes of their groups.

use super::{ConditionalChange, FailedChange, SettledChange};
use crate::Error;

/// Changes of documents that this node owns. Those whose bytes it has not admitted wait: when the client sent
/// them, another node owned the documents, and would have admitted them.
pub(super) struct OwnChanges {
    pub(super) admitted: Vec<ConditionalChange>,
    /// True for each of all changes that is among the admitted ones.
    pub(super) is_admitted: Vec<bool>,
}

impl OwnChanges {
    pub(super) fn new(changes: Vec<ConditionalChange>) -> Self {
        let is_admitted = |change: &ConditionalChange| change.is_admitted || change.sent_bytes == 0;
        let admitted: Vec<bool> = changes.iter().map(is_admitted).collect();
        let changes = changes.into_iter().filter(is_admitted).collect();
        OwnChanges { admitted: changes, is_admitted: admitted }
    }

    /// Outcomes of all changes, by those of the admitted ones.
    pub(super) fn outcomes(
        is_admitted: Vec<bool>,
        outcomes: Vec<Result<SettledChange, FailedChange>>,
    ) -> Vec<Result<SettledChange, FailedChange>> {
        let mut outcomes = outcomes.into_iter();
        let of_change = |is_admitted| match is_admitted {
            true => outcomes.next(),
            false => {
                let reason = "this node owns the document since, and has not counted the size of its group";
                Some(Err(FailedChange::from(Error::Unsettled(reason.to_owned()))))
            }
        };
        is_admitted.into_iter().filter_map(of_change).collect()
    }
}

#[cfg(test)]
mod tests {
    use millrace_document::{DocumentId, Timestamp};

    use super::*;
    use crate::cluster::ConditionalEffect;

    #[test]
    fn an_owner_makes_the_changes_that_it_has_admitted() {
        let sent = |number: u64, sent_bytes: u64, is_admitted: bool| ConditionalChange {
            id: DocumentId::parse(&format!("id:a:b:n=7:{number}")).expect("an id"),
            effect: ConditionalEffect::Put(Vec::new()),
            sent_bytes,
            is_admitted,
            ..ConditionalChange::look(DocumentId::parse("id:a:b:n=7:x").expect("an id"))
        };
        // Sent bytes, and if they are admitted; and if the change is made.
        let table: [&[(u64, bool, bool)]; 5] = [
            &[],
            &[(5, true, true)],
            &[(5, false, false)],
            &[(0, false, true), (5, false, false), (5, true, true), (0, true, true)],
            &[(5, false, false), (0, false, true), (9, false, false)],
        ];
        for row in table {
            let changes =
                (0..).zip(row).map(|(number, (bytes, is_admitted, _))| sent(number, *bytes, *is_admitted));
            let changes: Vec<ConditionalChange> = changes.collect();
            let OwnChanges { admitted, is_admitted } = OwnChanges::new(changes.clone());
            let expected = changes.iter().zip(row).filter(|(_, (_, _, is_made))| *is_made);
            let expected: Vec<ConditionalChange> = expected.map(|(change, _)| change.clone()).collect();
            assert_eq!(admitted, expected, "{row:?}");
            let done = |number| Ok(SettledChange::Done { timestamp: Timestamp(number), existed: false });
            let outcomes = OwnChanges::outcomes(is_admitted, (1..).map(done).take(admitted.len()).collect());
            assert_eq!(outcomes.len(), row.len(), "{row:?}");
            let mut made = 0;
            for (outcome, (_, _, is_made)) in outcomes.into_iter().zip(row) {
                match (*is_made, outcome) {
                    (true, outcome) => {
                        made += 1;
                        assert_eq!(outcome, done(made), "{row:?}");
                    }
                    (false, Ok(outcome)) => panic!("{row:?}: {outcome:?}"),
                    (false, Err(failed)) => {
                        let error = Error::from(failed);
                        assert!(matches!(error, Error::Unsettled(_)), "{row:?}: {error}");
                    }
                }
            }
        }
    }
}
