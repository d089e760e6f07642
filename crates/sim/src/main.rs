//! `millrace-sim [SEED [COUNT]]`: runs one seed and prints all its events, or many seeds and lists the
//! failing ones. Each seed is run four times: as it is, with reindexing, with logs, and with placed indexes.

use std::process::ExitCode;

use millrace_sim::{SimOptions, run};

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let (Ok(seed), Ok(count)) = (numbers.next().unwrap_or(Ok(1)), numbers.next().unwrap_or(Ok(1))) else {
        eprintln!("usage: millrace-sim [SEED [COUNT]], both numbers");
        return ExitCode::FAILURE;
    };
    let (mut acknowledgements, mut reads, mut ended, mut rewritten, mut failed) = (0, 0, 0, 0, 0);
    let (mut events, mut index_queries, mut index_moves) = (0, 0, 0);
    for seed in seed..seed.saturating_add(count) {
        let trace = count == 1;
        for (name, options) in [
            ("seed", SimOptions::default()),
            ("reindexing seed", SimOptions { reindexing: true, ..SimOptions::default() }),
            ("seed with logs", SimOptions { logs: true, ..SimOptions::default() }),
            ("seed with indexes", SimOptions { indexes: true, ..SimOptions::default() }),
        ] {
            let outcome = run(seed, SimOptions { trace, ..options });
            acknowledgements += outcome.acknowledgements;
            reads += outcome.reads;
            ended += outcome.reindexings;
            rewritten += outcome.rewritten;
            events += outcome.events;
            index_queries += outcome.index_queries;
            index_moves += outcome.index_moves;
            for line in &outcome.lines {
                println!("{line}");
            }
            if let Some(wrong) = outcome.wrong {
                failed += 1;
                println!("{name} {seed}: {wrong}");
            } else if count == 1 {
                println!("{name} {seed}: well, and healed after {:?}", outcome.healed_in.unwrap_or_default());
            }
        }
    }
    println!(
        "{count} seeds, {failed} lives wrong; {acknowledgements} writes acknowledged, {reads} reads checked, \
         {rewritten} documents indexed again in {ended} reindexings, {events} events of logs, {index_queries} \
         queries of copies of indexes, {index_moves} of which came as files"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
