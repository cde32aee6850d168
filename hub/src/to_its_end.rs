//! Work that goes on when nobody waits for it any more. What is stored by then has to be told to those who wait for it, and to
//! be tidied up after. It becomes a task of its own only when it is left alone.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

/// A future that goes on when it is dropped before it is ready, once it has begun. A body that ends early ends it all the
/// same, and so does a panic.
pub(crate) struct ToItsEnd<T: Send + 'static> {
    /// Empty while it is polled, so that what has panicked is not tried again.
    work: Option<BoxFuture<'static, T>>,
    has_begun: bool,
}

impl<T: Send + 'static> ToItsEnd<T> {
    pub(crate) fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self {
            work: Some(Box::pin(work)),
            has_begun: false,
        }
    }
}

impl<T: Send + 'static> fmt::Debug for ToItsEnd<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToItsEnd").finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Future for ToItsEnd<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        this.has_begun = true;
        // As long as a future that was ready is not asked again, there is one.
        let Some(mut work) = this.work.take() else {
            return Poll::Pending;
        };
        let polled = work.as_mut().poll(cx);
        if polled.is_pending() {
            this.work = Some(work);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for ToItsEnd<T> {
    fn drop(&mut self) {
        let Some(work) = self.work.take().filter(|_| self.has_begun) else {
            return;
        };
        // Where there is no runtime any more the process ends, too.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { drop(work.await) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    /// How many tasks there are beside the one that asks.
    fn tasks() -> usize {
        Handle::current().metrics().num_alive_tasks()
    }

    #[tokio::test]
    async fn what_is_waited_for_is_no_task_and_what_is_left_alone_becomes_one() {
        let (go, gone) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        let mut work = ToItsEnd::new(async move {
            gone.await.unwrap();
            tell.send(7).unwrap();
        });
        assert!((&mut work).now_or_never().is_none());
        let before = tasks();
        drop(work);
        assert_eq!(tasks(), before + 1);
        go.send(()).unwrap();
        let told = tokio::time::timeout(Duration::from_secs(60), told).await;
        assert_eq!(told.unwrap().unwrap(), 7);
    }

    #[tokio::test]
    async fn what_is_over_or_has_not_begun_or_has_panicked_is_not_gone_on_with() {
        let before = tasks();
        let mut over = ToItsEnd::new(async { 7 });
        assert_eq!((&mut over).now_or_never(), Some(7));
        drop(over);
        drop(ToItsEnd::new(std::future::pending::<()>()));
        let mut panicked = ToItsEnd::new(async { panic!("as it does") });
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (&mut panicked).now_or_never()));
        assert!(polled.is_err());
        drop(panicked);
        assert_eq!(tasks(), before);
    }
}
