//! What the page of `git parler ci` says.

use super::markup::Block::{Lines, Text};
use super::markup::Section;

pub(super) const CI: &[Section] = &[
    (
        "DESCRIPTION",
        &[
            Text(
                "Says how a commit stands, in one signed message: its status in a context, the findings of a tool, the commits that \
                 mend it, and whose turn it is. The newest status of a repository, commit and context counts. What GitHub \
                 Actions, GitLab CI, Buildkite and Jenkins say of the commit, the job, the repository and the run in their variables \
                 need not be said again.",
            ),
            Text(
                "A finding is sent with the place in the commit's tree that it names; where there is no such file or line it is \
                 sent without, and stderr says so. The token, and what variables hold that are called as secrets are, becomes \
                 `***`. Commits are sent without moving a ref, thin on what receivers have.",
            ),
            Text(
                "`annotate` writes what a message says of a commit in a form in which a CI system shows it: workflow commands and \
                 the step's summary for GitHub, a Code Quality report for GitLab, JUnit's XML, or SARIF.",
            ),
            Text(
                "Under `--idempotency-key auto` a job that posts again is answered as the first time; another attempt at the job \
                 is another word. `git parler status --commit` tells how a commit stands.",
            ),
            Text(
                "With `--ttl` it holds for a time: after that the status counts no longer, and what was handed over leads nobody who has \
                 not taken it up. Both are shown as expired; the message stays in the log.",
            ),
        ],
    ),
    (
        "EXAMPLES",
        &[Lines(
            "git parler ci post --room build --status pending --context lint --ttl 1h\n\
             git parler ci post --room build --status failure --context lint --report lint.json --idempotency-key auto\n\
             git parler ci post --room build --status success --context test --commit HEAD --bundle HEAD --reply-to 7\n\
             git parler ci annotate 7 --room build --format gitlab --output gl-code-quality.json\n\
             git parler ci post --room build --status failed --for fixer --next 'make the tests pass' --if-bad",
        )],
    ),
];
