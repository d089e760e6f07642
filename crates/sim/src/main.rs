//! `millrace-sim [SEED [COUNT]]`: runs one seed and prints all its events, or many seeds and lists the
//! failing ones.

use std::process::ExitCode;

use millrace_sim::{SimOptions, run};

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let (Ok(seed), Ok(count)) = (numbers.next().unwrap_or(Ok(1)), numbers.next().unwrap_or(Ok(1))) else {
        eprintln!("usage: millrace-sim [SEED [COUNT]], both numbers");
        return ExitCode::FAILURE;
    };
    let (mut acknowledgements, mut reads, mut failed) = (0, 0, 0);
    for seed in seed..seed.saturating_add(count) {
        let outcome = run(seed, SimOptions { trace: count == 1, ..SimOptions::default() });
        acknowledgements += outcome.acknowledgements;
        reads += outcome.reads;
        for line in &outcome.lines {
            println!("{line}");
        }
        if let Some(wrong) = outcome.wrong {
            failed += 1;
            println!("seed {seed}: {wrong}");
        } else if count == 1 {
            println!("seed {seed}: well, and healed after {:?}", outcome.healed_in.unwrap_or_default());
        }
    }
    println!("{count} seeds, {failed} wrong; {acknowledgements} writes acknowledged, {reads} reads checked");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
