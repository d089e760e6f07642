//! Classes of threads for the system's scheduler.
//!
//! With more threads than cores, a thread that wakes waits until a running one has used its slice, some
//! milliseconds on most systems. That is nothing to a thread that computes, and much to one that others wait
//! for and that works for microseconds each time it wakes.
//!
//! A thread begins in the class of the thread that started it.

/// Class of a thread. A thread sets it for itself, permanently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadClass {
    /// Others wait for it, and it works briefly whenever it wakes: it gets a core at once, for a short slice.
    Prompt,
    /// Computing for as long as there is work, in slices of the default length.
    Computing,
    /// In the background: no request waits for it, and all others have priority.
    Background,
}

impl ThreadClass {
    /// Sets the class of the calling thread. Has no effect if the system does not support or allow it.
    pub fn enter(self) {
        match self {
            ThreadClass::Prompt => set_slice(SLICE_NS),
            ThreadClass::Computing => set_slice(DEFAULT_SLICE),
            ThreadClass::Background => {
                let thread = Some(rustix::thread::gettid());
                let Ok(nice) = rustix::process::getpriority_process(thread) else { return };
                let _ = rustix::process::setpriority_process(thread, nice.saturating_add(BACKGROUND_NICE));
            }
        }
    }
}

/// Nice value of background threads: high enough not to disturb others, and low enough to make progress while
/// others use all cores.
const BACKGROUND_NICE: i32 = 5;

/// The shortest slice that Linux gives (6.12 and later; earlier ones ignore it), in nanoseconds.
const SLICE_NS: u64 = 100_000;

/// Stands for the slice that threads have by default.
const DEFAULT_SLICE: u64 = 0;

/// Sets the length of the slices of the calling thread, in nanoseconds.
#[cfg(target_os = "linux")]
fn set_slice(slice_ns: u64) {
    // First version of `struct sched_attr`; see `man sched_setattr`.
    #[repr(C)]
    struct SchedulingAttributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    const CALLING_THREAD: libc::pid_t = 0;
    const NO_FLAGS: libc::c_uint = 0;
    // The thread keeps its nice value and its policy.
    let Ok(nice) = rustix::process::getpriority_process(Some(rustix::thread::gettid())) else { return };
    let attributes = SchedulingAttributes {
        size: size_of::<SchedulingAttributes>() as u32,
        policy: 0,
        flags: libc::SCHED_FLAG_KEEP_POLICY as u64,
        nice,
        priority: 0,
        runtime: slice_ns,
        deadline: 0,
        period: 0,
    };
    // SAFETY: the call only reads `attributes`, for as many bytes as `size` says, which is the size of the
    // struct, and it does so before it returns. A system that does not know the call returns an error, which
    // changes nothing.
    unsafe { libc::syscall(libc::SYS_sched_setattr, CALLING_THREAD, &raw const attributes, NO_FLAGS) };
}

#[cfg(not(target_os = "linux"))]
fn set_slice(_: u64) {}
