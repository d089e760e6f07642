use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::write_standard_error;

/// Exit status of a process that ends itself because of a bug: the internal software error of sysexits.
const EXIT_INTERNAL_ERROR: i32 = 70;

/// Runs the work of a thread that is essential for the process. A panic ends the process, with a message on
/// standard error.
///
/// A process that lives but answers nothing is worse than one that is restarted: no other process takes over
/// from it.
pub fn run_or_exit(work: &str, run: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        exit(work, &*panic);
    }
}

/// Waits for the end of a task that is essential for the process. A panic ends the process, as with
/// [`run_or_exit`].
pub async fn await_or_exit(work: &str, task: impl Future<Output = ()>) {
    let mut task = std::pin::pin!(task);
    let polled = std::future::poll_fn(|context| {
        catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(context)))
            .unwrap_or_else(|panic| exit(work, &*panic))
    });
    polled.await;
}

fn exit(work: &str, panic: &(dyn Any + Send)) -> ! {
    let reason = panic_message(panic);
    write_standard_error(format_args!(
        "millrace: a bug: {work} panicked: {reason}; the process ends, and what was acknowledged is safe"
    ));
    std::process::exit(EXIT_INTERNAL_ERROR);
}

/// The message of a panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}
