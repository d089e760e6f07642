use std::collections::{HashMap, VecDeque};

use millrace_document::DocumentId;

use super::requests::RequestId;

/// Keeps the writes of one document in order as far as necessary. Blind writes run side by side, since their
/// timestamps order them. A modification waits until all earlier writes have ended, and runs alone; all later
/// writes wait for it.
#[derive(Default)]
pub(super) struct DocumentLanes {
    /// Never iterated: the order would differ from run to run.
    lanes: HashMap<DocumentId, DocumentLane>,
}

struct DocumentLane {
    running: usize,
    alone: bool,
    waiting: VecDeque<(RequestId, bool)>,
}

impl DocumentLanes {
    /// Adds a write; `alone` is true if it must run alone. Returns true if it may run now; otherwise
    /// [`DocumentLanes::leave`] returns it later.
    pub fn enter(&mut self, id: &DocumentId, request: RequestId, alone: bool) -> bool {
        match self.lanes.get_mut(id) {
            None => {
                self.lanes.insert(id.clone(), DocumentLane { running: 1, alone, waiting: VecDeque::new() });
                true
            }
            Some(lane) if !lane.alone && !alone && lane.waiting.is_empty() => {
                lane.running += 1;
                true
            }
            Some(lane) => {
                lane.waiting.push_back((request, alone));
                false
            }
        }
    }

    /// Ends a running write. Appends the writes that may run now.
    pub fn leave(&mut self, id: &DocumentId, next: &mut Vec<RequestId>) {
        let lane = self.lanes.get_mut(id).expect("a write that ran is in the lane of its document");
        assert!(lane.running > 0, "a write that ran was counted when it began");
        lane.running -= 1;
        if lane.running == 0 {
            self.advance(id, next);
        }
    }

    /// Removes a waiting write.
    pub fn forget(&mut self, id: &DocumentId, request: RequestId, next: &mut Vec<RequestId>) {
        let lane = self.lanes.get_mut(id).expect("a write that waits is in the lane of its document");
        let blocked_others = lane.waiting.front().is_some_and(|(first, _)| *first == request);
        lane.waiting.retain(|(other, _)| *other != request);
        // Unconditional writes behind a removed modification may run beside the running ones.
        if blocked_others && !lane.alone {
            while lane.waiting.front().is_some_and(|(_, alone)| !alone) {
                lane.running += 1;
                next.extend(lane.waiting.pop_front().map(|(request, _)| request));
            }
        }
    }

    fn advance(&mut self, id: &DocumentId, next: &mut Vec<RequestId>) {
        let lane = self.lanes.get_mut(id).expect("a lane is there until its last write has left");
        let Some((first, alone)) = lane.waiting.pop_front() else {
            self.lanes.remove(id);
            return;
        };
        lane.alone = alone;
        lane.running = 1;
        next.push(first);
        while !alone && lane.waiting.front().is_some_and(|(_, alone)| !alone) {
            lane.running += 1;
            next.extend(lane.waiting.pop_front().map(|(request, _)| request));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes enter (`p1`: a put, `m2`: a modification), leave (`-`) or give up waiting (`x1`); the running
    /// ones are recorded, in turns.
    fn check(steps: &str, expected: &str) {
        let id = DocumentId::parse("id:n:mail::1").expect("an id");
        let mut lanes = DocumentLanes::default();
        let ran: Vec<String> = steps
            .split(' ')
            .map(|step| {
                let number = RequestId(step[1..].parse().unwrap_or_default());
                let mut runs = Vec::new();
                match step.as_bytes()[0] {
                    b'-' => lanes.leave(&id, &mut runs),
                    b'x' => lanes.forget(&id, number, &mut runs),
                    kind => runs.extend(lanes.enter(&id, number, kind == b'm').then_some(number)),
                }
                let runs: Vec<String> = runs.iter().map(|run| run.0.to_string()).collect();
                if runs.is_empty() { ".".to_owned() } else { runs.join("+") }
            })
            .collect();
        assert_eq!(ran.join(" "), expected, "{steps}");
        assert!(lanes.lanes.is_empty(), "nothing is left of {steps}");
    }

    #[test]
    fn modifications_run_alone_and_in_order() {
        check("p1 p2 m3 p4 p5 m6 - - - - - -", "1 2 . . . . . 3 4+5 . 6 .");
        check("m1 m2 p3 - - -", "1 . . 2 3 .");
    }

    #[test]
    fn a_write_that_gives_up_waiting_holds_up_none() {
        check("p1 m2 p3 x2 - -", "1 . . 3 . .");
        check("m1 m2 p3 x2 - -", "1 . . . 3 .");
        check("m1 p2 x2 -", "1 . . .");
    }
}
