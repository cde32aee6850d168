//! An answer of the hub.

use bytes::Bytes;
use hyper::HeaderMap;
use parler_protocol::{ErrorCode, Head, Problem, paths};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Status, headers and the whole body.
#[derive(Debug)]
#[must_use = "an answer is there to be checked"]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    #[track_caller]
    pub(crate) fn json<T: DeserializeOwned>(&self) -> T {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The problem, which has this code and that code's status.
    #[track_caller]
    pub(crate) fn problem(&self, code: ErrorCode) -> Problem {
        assert_eq!(self.headers["content-type"], paths::PROBLEM_TYPE, "{self:?}");
        let problem: Problem = self.json();
        assert_eq!(
            (problem.code, problem.status),
            (code, self.status),
            "{}",
            problem.detail
        );
        assert_eq!(self.status, code.status());
        problem
    }

    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .unwrap_or_else(|| panic!("no {name}: {self:?}"))
            .to_str()
            .unwrap()
    }

    #[track_caller]
    pub(crate) fn head(&self) -> Head {
        self.header(paths::HEAD_HEADER).parse().unwrap()
    }

    /// The stored bytes of a page's messages.
    #[track_caller]
    pub(crate) fn messages(&self) -> Vec<Vec<u8>> {
        #[derive(serde::Deserialize)]
        struct Messages {
            messages: Vec<Box<serde_json::value::RawValue>>,
        }
        self.json::<Messages>()
            .messages
            .into_iter()
            .map(|message| message.get().as_bytes().to_vec())
            .collect()
    }

    #[track_caller]
    pub(crate) fn seqs(&self) -> Vec<u64> {
        self.json::<Value>()["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["seq"].as_u64().unwrap())
            .collect()
    }
}
