//! Which CI system runs this job, and what its variables say of it. A pure function of the variables: it reads no event file
//! and asks nobody.

use std::str::FromStr;

use parler_protocol::limits::MAX_CONTEXT_BYTES;
use parler_protocol::{BundleId, CommitStatus, Oid, RepositoryId, RunUrl, StatusContext, is_hidden};

/// What the variables say. What they do not say is left open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CiEnvironment {
    /// The system, as people call it.
    pub(crate) system: &'static str,
    /// The commit that the run is for: a merge commit where a request is tried.
    pub(crate) commit: Option<Oid>,
    /// What the job is called.
    pub(crate) context: Option<StatusContext>,
    pub(crate) repository: Option<RepositoryId>,
    /// The page of the run.
    pub(crate) url: Option<RunUrl>,
    /// The same whenever this job posts, and never the same for another job or another attempt at it.
    attempt_id: Option<String>,
}

impl CiEnvironment {
    /// Looks for the system. `variable` gives those that are set to something.
    pub(crate) fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let is_set = |name: &str| variable(name).is_some_and(|value| value != "false");
        if is_set("GITHUB_ACTIONS") {
            Some(Self::github(&variable))
        } else if is_set("GITLAB_CI") {
            Some(Self::gitlab(&variable))
        } else if is_set("BUILDKITE") {
            Some(Self::buildkite(&variable))
        } else if is_set("JENKINS_URL") {
            Some(Self::jenkins(&variable))
        } else {
            None
        }
    }

    /// GitHub, and Forgejo and Gitea, which say the same.
    fn github(variable: &impl Fn(&str) -> Option<String>) -> Self {
        let (server, repository) = (variable("GITHUB_SERVER_URL"), variable("GITHUB_REPOSITORY"));
        let address = server.zip(repository).map(|(server, name)| format!("{server}/{name}"));
        let (run, attempt) = (variable("GITHUB_RUN_ID"), variable("GITHUB_RUN_ATTEMPT"));
        let page = address.as_ref().zip(run.as_ref());
        let page = page.map(|(address, run)| match &attempt {
            Some(attempt) => format!("{address}/actions/runs/{run}/attempts/{attempt}"),
            None => format!("{address}/actions/runs/{run}"),
        });
        let name = match (variable("GITHUB_WORKFLOW"), variable("GITHUB_JOB")) {
            (Some(workflow), Some(job)) => Some(format!("{workflow} / {job}")),
            (workflow, job) => job.or(workflow),
        };
        let job = variable("GITHUB_JOB").unwrap_or_default();
        let place = address.clone().unwrap_or_default();
        Self {
            system: "GitHub Actions",
            commit: parsed(variable("GITHUB_SHA")),
            context: name.as_deref().and_then(context_of),
            repository: address.as_deref().and_then(RepositoryId::of_address),
            url: parsed(page),
            attempt_id: run
                .zip(attempt)
                .map(|(run, attempt)| format!("github\0{place}\0{run}\0{attempt}\0{job}")),
        }
    }

    fn gitlab(variable: &impl Fn(&str) -> Option<String>) -> Self {
        let place = variable("CI_SERVER_URL").unwrap_or_default();
        Self {
            system: "GitLab CI",
            commit: parsed(variable("CI_COMMIT_SHA")),
            context: variable("CI_JOB_NAME").as_deref().and_then(context_of),
            repository: variable("CI_PROJECT_URL").as_deref().and_then(RepositoryId::of_address),
            url: parsed(variable("CI_JOB_URL")),
            // Each attempt at a job has an id of its own.
            attempt_id: variable("CI_JOB_ID").map(|job| format!("gitlab\0{place}\0{job}")),
        }
    }

    fn buildkite(variable: &impl Fn(&str) -> Option<String>) -> Self {
        let job = variable("BUILDKITE_JOB_ID");
        let page = variable("BUILDKITE_BUILD_URL").map(|build| match &job {
            Some(job) => format!("{build}#{job}"),
            None => build,
        });
        let name = variable("BUILDKITE_STEP_KEY").or_else(|| variable("BUILDKITE_LABEL"));
        let attempt = variable("BUILDKITE_RETRY_COUNT").unwrap_or_default();
        Self {
            system: "Buildkite",
            commit: parsed(variable("BUILDKITE_COMMIT")),
            context: name.as_deref().and_then(context_of),
            repository: variable("BUILDKITE_REPO").as_deref().and_then(RepositoryId::of_address),
            url: parsed(page),
            attempt_id: job.map(|job| format!("buildkite\0{job}\0{attempt}")),
        }
    }

    fn jenkins(variable: &impl Fn(&str) -> Option<String>) -> Self {
        let place = variable("JENKINS_URL").unwrap_or_default();
        Self {
            system: "Jenkins",
            commit: parsed(variable("GIT_COMMIT")),
            context: variable("JOB_NAME").as_deref().and_then(context_of),
            repository: variable("GIT_URL").as_deref().and_then(RepositoryId::of_address),
            url: parsed(variable("BUILD_URL")),
            attempt_id: variable("BUILD_TAG").map(|build| format!("jenkins\0{place}\0{build}")),
        }
    }

    /// What makes this job's word about a commit in a context known when it is said again. That it does not know yet is
    /// another word than what it knows in the end. None where the variables do not tell one attempt from another.
    pub(crate) fn key(&self, context: &StatusContext, commit: &Oid, status: CommitStatus) -> Option<String> {
        let attempt_id = self.attempt_id.as_ref()?;
        let word = if status == CommitStatus::Pending {
            "pending"
        } else {
            "verdict"
        };
        let digest = BundleId::of(format!("{attempt_id}\0{context}\0{commit}\0{word}").as_bytes());
        Some(format!("ci-{digest}"))
    }
}

fn parsed<T: FromStr>(value: Option<String>) -> Option<T> {
    value?.parse().ok()
}

/// A name that was not made to be a context, as one: without what cannot be seen, and with `;` for commas.
fn context_of(name: &str) -> Option<StatusContext> {
    let visible: String = name
        .chars()
        .filter(|character| !is_hidden(*character))
        .map(|character| if character == ',' { ';' } else { character })
        .collect();
    let end = visible.floor_char_boundary(MAX_CONTEXT_BYTES);
    visible[..end].trim().trim_start_matches('-').trim_start().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const COMMIT: &str = "0123456789012345678901234567890123456789";

    fn environment(variables: &[(&str, &str)]) -> Option<CiEnvironment> {
        let variables: HashMap<_, _> = variables.iter().copied().collect();
        CiEnvironment::of(|name| variables.get(name).map(|value| (*value).to_owned()))
    }

    fn words(found: &CiEnvironment) -> [String; 4] {
        let word = |word: Option<String>| word.unwrap_or_default();
        [
            word(found.commit.as_ref().map(ToString::to_string)),
            word(found.context.as_ref().map(ToString::to_string)),
            word(found.repository.as_ref().map(ToString::to_string)),
            word(found.url.as_ref().map(ToString::to_string)),
        ]
    }

    #[test]
    fn each_system_tells_of_its_job() {
        for (system, variables, context, url) in [
            (
                "GitHub Actions",
                &[
                    ("GITHUB_ACTIONS", "true"),
                    ("GITHUB_SHA", COMMIT),
                    ("GITHUB_SERVER_URL", "https://git.example"),
                    ("GITHUB_REPOSITORY", "Org/shop"),
                    ("GITHUB_RUN_ID", "7"),
                    ("GITHUB_RUN_ATTEMPT", "2"),
                    ("GITHUB_WORKFLOW", "CI"),
                    ("GITHUB_JOB", "lint"),
                ][..],
                "CI / lint",
                "https://git.example/Org/shop/actions/runs/7/attempts/2",
            ),
            (
                "GitLab CI",
                &[
                    ("GITLAB_CI", "true"),
                    ("CI_COMMIT_SHA", COMMIT),
                    ("CI_PROJECT_URL", "https://git.example/org/shop"),
                    ("CI_JOB_NAME", "test: [linux, 1.90]"),
                    ("CI_JOB_URL", "https://git.example/org/shop/-/jobs/9"),
                    ("CI_JOB_ID", "9"),
                ],
                "test: [linux; 1.90]",
                "https://git.example/org/shop/-/jobs/9",
            ),
            (
                "Buildkite",
                &[
                    ("BUILDKITE", "true"),
                    ("BUILDKITE_COMMIT", COMMIT),
                    ("BUILDKITE_REPO", "git@git.example:org/shop.git"),
                    ("BUILDKITE_LABEL", ":rust: test"),
                    ("BUILDKITE_BUILD_URL", "https://ci.example/7"),
                    ("BUILDKITE_JOB_ID", "a-b"),
                ],
                ":rust: test",
                "https://ci.example/7#a-b",
            ),
            (
                "Jenkins",
                &[
                    ("JENKINS_URL", "https://ci.example/"),
                    ("GIT_COMMIT", COMMIT),
                    ("GIT_URL", "https://user:secret@git.example/org/shop.git"),
                    ("JOB_NAME", "shop/main"),
                    ("BUILD_URL", "https://ci.example/job/7/"),
                    ("BUILD_TAG", "jenkins-shop-7"),
                ],
                "shop/main",
                "https://ci.example/job/7/",
            ),
        ] {
            let found = environment(variables).unwrap();
            assert_eq!(found.system, system);
            assert_eq!(
                words(&found),
                [COMMIT, context, "git.example/org/shop", url],
                "{system}"
            );
            assert!(found.attempt_id.is_some(), "{system}");
        }
        assert_eq!(environment(&[("CI", "true")]), None);
        assert_eq!(environment(&[("GITHUB_ACTIONS", "false")]), None);
    }

    #[test]
    fn what_a_system_does_not_say_is_left_open() {
        let found = environment(&[
            ("GITHUB_ACTIONS", "true"),
            ("GITHUB_SHA", "HEAD"),
            ("GITHUB_JOB", "\u{202e}"),
            ("GITHUB_SERVER_URL", "file:///srv"),
            ("GITHUB_REPOSITORY", "x"),
        ])
        .unwrap();
        assert_eq!(words(&found), ["", "", "", ""]);
        let long = environment(&[("JENKINS_URL", "x"), ("JOB_NAME", &format!("- {}", "é".repeat(100)))]).unwrap();
        assert!(long.context.unwrap().as_str().len() <= MAX_CONTEXT_BYTES);
    }

    #[test]
    fn a_key_is_of_one_attempt_at_one_job_and_what_it_says_of_what() {
        let of = |attempt: &str, job: &str| {
            environment(&[
                ("GITHUB_ACTIONS", "true"),
                ("GITHUB_RUN_ID", "7"),
                ("GITHUB_RUN_ATTEMPT", attempt),
                ("GITHUB_JOB", job),
            ])
            .unwrap()
        };
        let (lint, test) = ("lint".parse().unwrap(), "test".parse().unwrap());
        let commits = ["a", "b"].map(|digit| digit.repeat(40).parse().unwrap());
        let (failure, pending) = (CommitStatus::Failure, CommitStatus::Pending);
        let base = of("1", "x").key(&lint, &commits[0], failure).unwrap();
        assert!(base.len() <= 256 && base.bytes().all(|byte| byte.is_ascii_graphic()));
        assert_eq!(
            of("1", "x").key(&lint, &commits[0], CommitStatus::Success).unwrap(),
            base
        );
        for other in [
            of("2", "x").key(&lint, &commits[0], failure),
            of("1", "y").key(&lint, &commits[0], failure),
            of("1", "x").key(&test, &commits[0], failure),
            of("1", "x").key(&lint, &commits[1], failure),
            of("1", "x").key(&lint, &commits[0], pending),
        ] {
            assert_ne!(other.unwrap(), base);
        }
        // A run may be tried again, and then is another word.
        for untold in [
            &[("GITHUB_ACTIONS", "true")][..],
            &[("GITHUB_ACTIONS", "true"), ("GITHUB_RUN_ID", "7")],
        ] {
            assert_eq!(environment(untold).unwrap().key(&lint, &commits[0], failure), None);
        }
    }
}
