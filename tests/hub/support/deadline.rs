//! What a test waits for comes, or the test fails: nothing is waited for longer than the harness waits.

use parler_harness::DEADLINE;

/// What comes before the deadline.
pub(crate) async fn in_time<T>(what: &str, coming: impl Future<Output = T>) -> T {
    let come = tokio::time::timeout(DEADLINE, coming).await;
    come.unwrap_or_else(|_| panic!("it does not come in {DEADLINE:?}: {what}"))
}

/// Looks until it is so. Nobody tells when.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let looked = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    in_time(what, looked).await;
}
