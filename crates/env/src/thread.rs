//! What a thread is to the system's scheduler.
//!
//! With more threads than cores, a thread that wakes waits until one that runs has had its slice, some milliseconds on most systems. That
//! is nothing to a thread that computes, and much to one that others wait for and that works for microseconds each time it wakes.

/// A thread's part in the process. It takes it on for itself, for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadClass {
    /// Others wait for it, and it works briefly whenever it wakes: it gets a core at once, for a short slice.
    Prompt,
    /// Nobody waits for it: it stands back behind all others.
    Background,
}

impl ThreadClass {
    /// Makes the calling thread one of this class. Where the system does not know how, or does not allow it, it stays as it is.
    pub fn enter(self) {
        match self {
            ThreadClass::Prompt => set_slice(),
            ThreadClass::Background => {
                let thread = Some(rustix::thread::gettid());
                let Ok(nice) = rustix::process::getpriority_process(thread) else { return };
                let _ = rustix::process::setpriority_process(thread, nice.saturating_add(BACKGROUND_NICE));
            }
        }
    }
}

/// How far threads of the background stand back: enough to be in nobody's way, and not so far that they never get on while others take all
/// cores.
const BACKGROUND_NICE: i32 = 10;

/// The shortest slice that Linux gives (6.12 and later; earlier ones take no notice).
#[cfg(target_os = "linux")]
const SLICE_NS: u64 = 100_000;

#[cfg(target_os = "linux")]
fn set_slice() {
    // `struct sched_attr` in its first version; `man sched_setattr` has it.
    #[repr(C)]
    struct Attributes {
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
    // The thread stays as nice as it is.
    let Ok(nice) = rustix::process::getpriority_process(Some(rustix::thread::gettid())) else { return };
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: libc::SCHED_OTHER as u32,
        flags: 0,
        nice,
        priority: 0,
        runtime: SLICE_NS,
        deadline: 0,
        period: 0,
    };
    // SAFETY: the call only reads `attributes`, for as many bytes as `size` says, which is the size of the struct, and it does so before it
    // returns. A system that does not know the call returns an error, which changes nothing.
    unsafe { libc::syscall(libc::SYS_sched_setattr, CALLING_THREAD, &raw const attributes, NO_FLAGS) };
}

#[cfg(not(target_os = "linux"))]
fn set_slice() {}
