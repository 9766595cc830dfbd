//! sled panics on some damaged files, also in threads of its own. Here those panics become
//! errors.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    sync::Once,
};

thread_local! {
    static CONTAINED: Cell<u32> = const { Cell::new(0) };
}

/// Runs what may panic; the panic's message otherwise. Nothing is printed: the first call
/// puts a filter before the process's panic hook, which lets everything else through.
pub(super) fn contain<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            let here = CONTAINED.with(|depth| depth.get() > 0);
            let in_sled = info
                .location()
                .is_some_and(|location| location.file().contains("/sled-0.34"));
            if here || in_sled {
                tracing::debug!("contained: {info}");
            } else {
                before(info);
            }
        }));
    });
    CONTAINED.with(|depth| depth.set(depth.get() + 1));
    let result = catch_unwind(AssertUnwindSafe(work));
    CONTAINED.with(|depth| depth.set(depth.get() - 1));
    result.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        text.unwrap_or_else(|| "a panic".into())
    })
}
