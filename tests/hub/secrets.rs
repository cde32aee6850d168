//! What must not be in the log of `parler-hub`, whatever happens and however much is logged.

use parler_protocol::{BundleId, InviteCode, Seq, paths};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Push, RunningProgram, oid, program, raw, text_message};

#[tokio::test]
async fn a_busy_hub_logs_no_secret_in_any_form() {
    let directory = tempfile::TempDir::new().unwrap();
    for form in ["text", "json"] {
        let data = directory.path().join(form);
        let hub = RunningProgram::with(&data, |command| {
            command
                .env("PARLER_HUB_LOG", "trace")
                .args(["--open", "--log", form, "--trusted-proxy", "127.0.0.1"]);
        });
        let alice = hub.agent("alice").await;
        let bob = hub.agent("bob").await;
        let mut secrets = vec!["a-secret-word".to_owned()];
        for agent in [&alice, &bob] {
            secrets.push(agent.token.trim_start_matches("parler_").to_owned());
            secrets.push(agent.key.to_seed().to_string());
        }
        let room = alice.create_room("busy").await;
        let messages = paths::messages(&room.room);

        // What is right.
        let invite = alice.post(paths::INVITES, &json!({ "room": "busy" })).await.expect(201);
        let code = invite.json::<Value>()["code"].as_str().unwrap().to_owned();
        bob.post(paths::JOIN, &json!({ "code": code })).await.expect(200).head();
        secrets.push(code);
        let token = json!({ "name": "job", "rooms": ["busy"], "can": ["post"] });
        let token = alice.post(paths::TOKENS, &token).await.expect(201);
        let token = token.json::<Value>()["token"].as_str().unwrap().to_owned();
        let mut job = hub.stranger("job").await;
        job.token.clone_from(&token);
        job.get(&paths::pushes(&room.room, Seq::ZERO)).await.expect(200).head();
        alice
            .post(&messages, &text_message("a-secret-word"))
            .await
            .expect(201)
            .head();
        secrets.push(token.rsplit('_').next().unwrap().to_owned());
        for size in [1 << 10, 100 << 10] {
            let bundle = "a-secret-word".repeat(size / 13);
            let push = Push::new()
                .branch(&format!("of-{size}"), None, Some(oid('a')))
                .bundle(bundle.as_bytes())
                .sign(&alice, &room);
            let posted = alice.post_with_blob(&room.room, &push.body, bundle.as_bytes()).await;
            posted.expect(201).head();
            let blob = paths::blob(&room.room, &BundleId::of(bundle.as_bytes()));
            assert_eq!(bob.get(&blob).await.status, 200);
        }

        // What is not.
        let wrong = InviteCode::from_random([7; 12]).to_string();
        assert_eq!(bob.post(paths::JOIN, &json!({ "code": wrong })).await.status, 404);
        secrets.push(wrong);
        let mut proof = serde_json::to_value(alice.proof(Some(alice.challenge().await))).unwrap();
        proof["secret"] = "a-secret-word".into();
        proof["name"] = "mallory".into();
        proof["sig"] = "YS1zZWNyZXQtd29yZA==".into();
        secrets.push("YS1zZWNyZXQtd29yZA".to_owned());
        assert_eq!(alice.post(paths::SESSION, &proof).await.status, 401);
        for body in ["{\"a-secret-word\": 1", "{\"id\": \"a-secret-word\", \"parts\": []}"] {
            assert_eq!(alice.post_bytes(&messages, body).await.status, 400);
        }
        for query in ["after=a-secret-word", "a-secret-word=1"] {
            assert_eq!(alice.get(&format!("{messages}?{query}")).await.status, 400);
        }
        assert_eq!(alice.get("/v1/a-secret-word").await.status, 404);
        assert_eq!(
            alice
                .get(&paths::messages(&"a-secret-word".parse().unwrap()))
                .await
                .status,
            404
        );
        for header in ["authorization", "x-forwarded-for", "cookie", "last-event-id"] {
            let with = |request: hyper::http::request::Builder| request.header(header, "Bearer a-secret-word");
            hub.stranger("x")
                .await
                .send("GET", &messages, with, "")
                .await
                .expect(401)
                .headers
                .clear();
        }
        for garbage in [
            "GET /a-secret-word HTTP/9\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a-secret-word\r\nConnection: close\r\n\r\n",
            "a-secret-word\r\n\r\n",
        ] {
            raw(hub.address, garbage.as_bytes()).await;
        }
        let admitted = program()
            .arg("admit")
            .arg("--data")
            .arg(&data)
            .arg(hub.stranger("carol").await.id().to_string())
            .output()
            .unwrap();
        assert!(admitted.status.success());

        let (ended_well, log) = hub.end(Signal::TERM);
        assert!(ended_well && log.lines().count() > 30, "{log}");
        for (number, secret) in secrets.iter().enumerate() {
            assert!(secret.len() >= 12, "secret {number} is too short to be looked for");
            assert!(
                !log.contains(secret.as_str()),
                "secret {number} is in the {form} log:\n{}",
                log.replace(secret.as_str(), "<SECRET>")
            );
        }
    }
}
