//! What threads and tasks share, under one name, so that it can be exchanged: with the feature
//! `interleavings`, locks and atomics belong to a scheduler that decides at each of them who goes
//! on ([shuttle](https://docs.rs/shuttle)), and the tests in `interleavings/` try thousands of
//! orders of the very code that is served with. Without it these are the plain types.
//!
//! Left as they are: counters of figures, cells that are filled once, and the channels of tokio
//! other than [`watch`]. Nobody may wait for another inside of those.

#[cfg(not(feature = "interleavings"))]
mod plain {
    pub(crate) use std::sync::atomic;

    pub(crate) use futures::task::AtomicWaker;
    pub(crate) use parking_lot::{Mutex, RwLock};
    pub(crate) use tokio::{spawn, sync::watch};
}

#[cfg(feature = "interleavings")]
mod scheduled {
    pub(crate) use shuttle::sync::atomic;
    use shuttle::sync::atomic::{AtomicBool, Ordering};
    pub(crate) use shuttle_parking_lot::{Mutex, RwLock};

    /// Where another may come in: a load that nothing depends on.
    #[derive(Debug, Default)]
    struct Gap(AtomicBool);

    impl Gap {
        fn pass(&self) {
            self.0.load(Ordering::SeqCst);
        }
    }

    /// Runs beside its caller, for as long as it likes.
    pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        drop(shuttle::future::spawn(task));
    }

    /// The real one, with a gap before each step.
    #[derive(Debug, Default)]
    pub(crate) struct AtomicWaker {
        waker: futures::task::AtomicWaker,
        gap: Gap,
    }

    impl AtomicWaker {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn register(&self, waker: &std::task::Waker) {
            self.gap.pass();
            self.waker.register(waker);
        }

        pub(crate) fn wake(&self) {
            self.gap.pass();
            self.waker.wake();
        }
    }

    /// tokio's, with a gap before each step of the sender.
    pub(crate) mod watch {
        use tokio::sync::watch;

        use super::Gap;

        #[derive(Debug)]
        pub(crate) struct Sender<T> {
            sender: watch::Sender<T>,
            gap: Gap,
        }

        pub(crate) fn channel<T>(value: T) -> (Sender<T>, watch::Receiver<T>) {
            let (sender, receiver) = watch::channel(value);
            let gap = Gap::default();
            (Sender { sender, gap }, receiver)
        }

        impl<T> Sender<T> {
            pub(crate) fn borrow(&self) -> watch::Ref<'_, T> {
                self.gap.pass();
                self.sender.borrow()
            }

            pub(crate) fn subscribe(&self) -> watch::Receiver<T> {
                self.gap.pass();
                self.sender.subscribe()
            }

            pub(crate) fn send_modify(&self, change: impl FnOnce(&mut T)) {
                self.gap.pass();
                self.sender.send_modify(change);
            }

            pub(crate) fn send_replace(&self, value: T) -> T {
                self.gap.pass();
                self.sender.send_replace(value)
            }
        }
    }
}

#[cfg(not(feature = "interleavings"))]
pub(crate) use self::plain::*;
#[cfg(feature = "interleavings")]
pub(crate) use self::scheduled::*;
