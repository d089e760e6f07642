//! Figures of the process from `/proc`, under the names of Prometheus' client libraries.

use std::fmt::Write as _;
use std::fs;

/// Ticks a second in `/proc`: a constant of Linux.
const TICKS: f64 = 100.0;

/// Appends the figures of this process. A figure that the system does not give is left out.
pub(super) fn write(text: &mut String) {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let open_files = fs::read_dir("/proc/self/fd").map(|files| files.count()).ok();
    let proc_files = [read("/proc/self/stat"), read("/proc/self/status"), read("/proc/stat")];
    write_figures(text, proc_files.each_ref().map(|file| &**file), open_files);
}

/// Share that this process uses of the memory that it may have; `None` if the system does not say.
pub(crate) fn share_of_memory() -> Option<f64> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
    let limit = read(&format!("/sys/fs/cgroup{group}/memory.max"));
    // A container sees its own group as the root, also where it has the path of the machine's.
    let limit = limit.or_else(|| read("/sys/fs/cgroup/memory.max")).unwrap_or_default();
    share_of(&read("/proc/self/status")?, &read("/proc/meminfo")?, &limit)
}

/// Share of the memory that a process uses, by the contents of files. A control group without a limit has no
/// number there.
fn share_of(status: &str, machine: &str, limit: &str) -> Option<f64> {
    let used = number_after(status, "VmRSS:")? * 1024.0;
    let all = number_after(machine, "MemTotal:")? * 1024.0;
    let limit = limit.trim().parse::<f64>().unwrap_or(all).min(all);
    (limit > 0.0).then_some(used / limit)
}

/// Number at the beginning of the line with this name.
fn number_after(file: &str, name: &str) -> Option<f64> {
    let line = file.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn write_figures(text: &mut String, [stat, status, system]: [&str; 3], open_files: Option<usize>) {
    // The second field is the name of the program, which may have spaces and parentheses.
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<f64>().ok();
    let cpu = ticks(14).zip(ticks(15)).map(|(user, system)| (user + system) / TICKS);
    let start = number_after(system, "btime ").zip(ticks(22)).map(|(boot, since)| boot + since / TICKS);
    for (name, kind, description, value) in [
        ("process_cpu_seconds_total", "counter", "User and system CPU time, in seconds", cpu),
        (
            "process_resident_memory_bytes",
            "gauge",
            "Resident memory, in bytes",
            number_after(status, "VmRSS:").map(|kilobytes| kilobytes * 1024.0),
        ),
        (
            "process_virtual_memory_bytes",
            "gauge",
            "Virtual memory, in bytes",
            number_after(status, "VmSize:").map(|kilobytes| kilobytes * 1024.0),
        ),
        ("process_open_fds", "gauge", "Open file descriptors", open_files.map(|files| files as f64)),
        ("process_threads", "gauge", "Threads", number_after(status, "Threads:")),
        ("process_start_time_seconds", "gauge", "Start of the process, in seconds since 1970", start),
    ] {
        if let Some(value) = value {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# HELP {name} {description}\n# TYPE {name} {kind}\n{name} {value}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_files_of_proc() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 0 0 0 0 0 250 50 0 0 20 0 9 0 1000 99 5";
        let status = "Name:\ta\nVmSize:\t  8 kB\nVmRSS:\t  4 kB\nThreads:\t9\n";
        let mut text = String::new();
        write_figures(&mut text, [stat, status, "cpu 1\nbtime 1700000000\n"], Some(12));
        let values: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            values,
            [
                "process_cpu_seconds_total 3",
                "process_resident_memory_bytes 4096",
                "process_virtual_memory_bytes 8192",
                "process_open_fds 12",
                "process_threads 9",
                "process_start_time_seconds 1700000010",
            ]
        );
        text.clear();
        write_figures(&mut text, ["", "", ""], None);
        assert_eq!(text, "", "what the system does not give is left out");
    }

    #[test]
    fn the_share_of_memory_is_that_of_the_lower_limit() {
        let (status, machine) = ("VmRSS:\t  256 kB\n", "MemTotal:  1024 kB\nMemFree: 1 kB\n");
        for (limit, expected) in [("max\n", 0.25), ("", 0.25), ("524288\n", 0.5), ("9000000\n", 0.25)] {
            assert_eq!(share_of(status, machine, limit), Some(expected), "{limit}");
        }
        assert_eq!((share_of("", machine, ""), share_of(status, "", "")), (None, None));
    }
}
