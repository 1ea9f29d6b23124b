//! Telling about results as they come.

use std::ops::ControlFlow;

/// Who is told about results: a closure, or something that also shows progress.
pub trait OutcomeObserver<T> {
    /// The next image's result, in the order of the images. Breaking ends the
    /// work.
    fn outcome(&mut self, outcome: T) -> ControlFlow<()>;

    /// So many more noisy copies have been evaluated.
    fn samples(&mut self, _count: usize) {}
}

impl<T, F: FnMut(T) -> ControlFlow<()>> OutcomeObserver<T> for F {
    fn outcome(&mut self, outcome: T) -> ControlFlow<()> {
        self(outcome)
    }
}

/// An observer of finished tasks that passes their results on.
pub(crate) struct Mapped<'o, O: ?Sized, F> {
    pub observer: &'o mut O,
    pub map: F,
}

impl<T, U, O: OutcomeObserver<U> + ?Sized, F: FnMut(T) -> U> OutcomeObserver<T>
    for Mapped<'_, O, F>
{
    fn outcome(&mut self, outcome: T) -> ControlFlow<()> {
        self.observer.outcome((self.map)(outcome))
    }

    fn samples(&mut self, count: usize) {
        self.observer.samples(count);
    }
}
