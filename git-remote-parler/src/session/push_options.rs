//! What `git push -o KEY=TEXT` says: a note or a handoff that rides with the push, and the base of its bundle. Reads
//! options, and sends nothing.

use parler_protocol::limits::MAX_AGENT_NAME_BYTES;
use parler_protocol::{AgentName, BundleId, DispatchPart, HandoffPart, Part, ServiceName, TextPart};

use crate::base::BasePolicy;

const KEYS: [&str; 5] = ["base", "for", "next", "note", "summary"];

/// What rides with a push.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PushOptions {
    /// What the bundle may be made against, where the configuration does not decide.
    pub(super) base: Option<BasePolicy>,
    note: Option<String>,
    next: Option<String>,
    summary: Option<String>,
    to: Option<String>,
}

impl PushOptions {
    /// Reads options as users wrote them, of a push to this service if to one. The error has a line for people for each
    /// rule that was broken.
    pub(super) fn read(options: &[Vec<u8>], service: Option<&ServiceName>) -> Result<Self, Vec<String>> {
        let mut found = Self::default();
        let mut broken = Vec::new();
        let mut seen = Vec::new();
        for option in options {
            if let Err(line) = found.take(option, &mut seen) {
                broken.push(line);
            }
        }
        for key in ["for", "summary"] {
            if let Some(service) = service.filter(|_| seen.contains(&key)) {
                broken.push(format!(
                    "push option '{key}' is for a handoff, and whoever serves {service} takes a job: write -o next=TEXT alone"
                ));
            } else if seen.contains(&key) && !seen.contains(&"next") {
                broken.push(format!(
                    "push option '{key}' says more about 'next', which is not there: add -o next=TEXT"
                ));
            }
        }
        if broken.is_empty() { Ok(found) } else { Err(broken) }
    }

    fn take(&mut self, option: &[u8], seen: &mut Vec<&'static str>) -> Result<(), String> {
        let shown = String::from_utf8_lossy(option);
        let (key, text) = str::from_utf8(option)
            .map_err(|_| format!("push option '{shown}' is not UTF-8"))?
            .split_once('=')
            .unwrap_or((&shown, ""));
        let Some(key) = KEYS.into_iter().find(|known| *known == key) else {
            return Err(format!(
                "push option '{key}' is not known: there are {}",
                KEYS.map(|key| format!("{key}=")).join(" ")
            ));
        };
        if seen.contains(&key) {
            return Err(format!("push option '{key}' is there more than once"));
        }
        seen.push(key);
        if text.trim().is_empty() {
            return Err(format!("push option '{key}' is empty: write -o {key}=TEXT"));
        }
        let text = text.to_owned();
        match key {
            "base" => self.base = text.parse().ok(),
            "note" => self.note = Some(text),
            "next" => self.next = Some(text),
            "summary" => self.summary = Some(text),
            _ => {
                let name = text.trim();
                name.parse::<AgentName>().map_err(|_| {
                    format!("push option 'for' is not a name of 1 to {MAX_AGENT_NAME_BYTES} visible bytes")
                })?;
                self.to = Some(name.to_owned());
            }
        }
        Ok(())
    }

    /// Whether anything is to be posted with the refs.
    pub(super) fn has_parts(&self) -> bool {
        self.note.is_some() || self.next.is_some()
    }

    /// The parts of the message besides refs and bundle.
    pub(super) fn parts(&self, bundle: Option<BundleId>) -> Vec<Part> {
        let note = self.note.clone().map(|text| TextPart { text }.into());
        let handoff = self.next.clone().map(|next| {
            HandoffPart {
                next,
                summary: self.summary.clone(),
                to: self.to.clone(),
                bundle,
                ..HandoffPart::default()
            }
            .into()
        });
        note.into_iter().chain(handoff).collect()
    }

    /// The parts of a job besides ref and bundle. Whose turn it is, is for the service's queue to say.
    pub(super) fn parts_of_job(&self, dispatch: &DispatchPart) -> Vec<Part> {
        let texts = [&self.note, &self.next].into_iter().flatten().cloned();
        let texts = texts.map(|text| TextPart { text }.into());
        std::iter::once(dispatch.clone().into()).chain(texts).collect()
    }

    /// Whom the message mentions, as it must name them.
    pub(super) fn mentions(&self) -> Vec<String> {
        self.to.iter().map(|name| name.to_lowercase()).collect()
    }

    /// The name or role that the handoff is for, where it is for one.
    pub(super) fn named_addressee(&self) -> Option<&str> {
        self.next.as_ref().and(self.to.as_deref())
    }

    /// Who the handoff is for, in words; none where there is no handoff.
    pub(super) fn addressee(&self) -> Option<&str> {
        self.next.as_ref()?;
        Some(self.to.as_deref().unwrap_or("anybody"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: &[&str]) -> Result<PushOptions, Vec<String>> {
        let options: Vec<_> = options.iter().map(|option| option.as_bytes().to_vec()).collect();
        PushOptions::read(&options, None)
    }

    #[test]
    fn options_become_parts() {
        let options = read(&[
            "note=see = sea",
            "next=review\né",
            "summary= done ",
            "for= Bob ",
            "base=v1 v2",
        ])
        .unwrap();
        assert_eq!(
            options.base,
            Some(BasePolicy::Revisions(vec!["v1".into(), "v2".into()]))
        );
        assert_eq!(options.mentions(), ["bob"]);
        assert_eq!(options.addressee(), Some("Bob"));
        let expected: [Part; 2] = [
            TextPart {
                text: "see = sea".into(),
            }
            .into(),
            HandoffPart {
                next: "review\né".into(),
                summary: Some(" done ".into()),
                to: Some("Bob".into()),
                ..HandoffPart::default()
            }
            .into(),
        ];
        assert_eq!(options.parts(None), expected);
        let none = read(&["base=none"]).unwrap();
        assert!(!none.has_parts() && none.parts(None).is_empty() && none.addressee().is_none());
    }

    #[test]
    fn at_a_service_they_are_a_jobs_texts() {
        let service: ServiceName = "review".parse().unwrap();
        let read = |options: &[&str]| {
            let options: Vec<_> = options.iter().map(|option| option.as_bytes().to_vec()).collect();
            PushOptions::read(&options, Some(&service))
        };
        let dispatch = DispatchPart {
            role: "review".into(),
            ..DispatchPart::default()
        };
        let text = |text: &str| Part::from(TextPart { text: text.into() });
        let job = read(&["next=look", "note=please"]).unwrap();
        let expected = [dispatch.clone().into(), text("please"), text("look")];
        assert_eq!(job.parts_of_job(&dispatch), expected);
        for (options, lines) in [(&["for=bob"][..], 1), (&["next=x", "summary=y", "for=bob"], 2)] {
            let broken = read(options).unwrap_err();
            assert_eq!(broken.len(), lines, "{broken:?}");
            assert!(
                broken.iter().all(|line| line.contains("whoever serves review")),
                "{broken:?}"
            );
        }
    }

    #[test]
    fn each_broken_rule_is_a_line() {
        for (options, words) in [
            (&["x=1"] as &[&str], &["push option 'x' is not known"] as &[&str]),
            (&["next"], &["'next' is empty"]),
            (&["next= "], &["'next' is empty"]),
            (&[""], &["push option '' is not known"]),
            (&["Next=x"], &["'Next' is not known"]),
            (&["next=x", "next=y"], &["'next' is there more than once"]),
            (&["for=bob"], &["'for' says more about 'next'"]),
            (&["next=x", "for=a\u{202e}"], &["'for' is not a name"]),
            (
                &["y", "summary=x", "for=bob", "note=a", "note=b"],
                &[
                    "'y' is not known",
                    "'note' is there more than once",
                    "'for' says",
                    "'summary' says",
                ],
            ),
        ] {
            let broken = read(options).unwrap_err();
            assert_eq!(broken.len(), words.len(), "{broken:?}");
            for (line, words) in broken.iter().zip(words) {
                assert!(line.contains(words), "{line}");
            }
        }
        let bytes = PushOptions::read(&[b"note=\xff".to_vec()], None).unwrap_err();
        assert!(bytes[0].contains("is not UTF-8"));
    }
}
