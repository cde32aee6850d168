//! The header parser against what git writes, what nobody should write, and everything else.

use proptest::prelude::*;

use super::*;

const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

fn parse(text: &str) -> Result<BundleHeader, BundleError> {
    BundleHeader::parse(text.as_bytes())
}

#[test]
fn what_git_writes_is_read() {
    let header = parse(&format!(
        "# v2 git bundle\n-{A} Fix \u{e9}\r\n{B} HEAD\n{B} refs/heads/main\n\n"
    ))
    .unwrap();
    assert_eq!(header.prerequisites, [A.parse().unwrap()]);
    assert_eq!(header.refs.len(), 2);
    assert_eq!(header.refs[0].name.without_refs(), "HEAD");
    assert_eq!(header.refs[1].name.without_refs(), "heads/main");
    let sha256 = format!(
        "# v3 git bundle\n@object-format=sha256\n{A}{} refs/tags/v1\n\n",
        &A[..24]
    );
    assert_eq!(parse(&sha256).unwrap().object_format, ObjectFormat::Sha256);
    assert!(
        parse(&format!(
            "# v3 git bundle\n@object-format=sha1\n-{A}\n{B} refs/parler/x\n\n"
        ))
        .is_ok()
    );
    assert!(parse(&format!("# v3 git bundle\n{B} refs/heads/x\n\n")).is_ok());
    assert!(
        BundleHeader::parse(
            &[
                b"# v2 git bundle\n-",
                A.as_bytes(),
                b" \xff\xfe\n",
                B.as_bytes(),
                b" HEAD\n\n"
            ]
            .concat()
        )
        .is_ok()
    );
}

#[test]
fn what_is_not_strictly_a_bundle_is_refused() {
    for text in [
        "",
        "x",
        "# v1 git bundle\n\n",
        "# v4 git bundle\n\n",
        "\u{feff}# v2 git bundle\n\n",
        "<html>\n\n",
        "# v2 git bundle\r\n\r\n",
        "# v2 git bundle\n\n",
        &format!("# v2 git bundle\n{B} refs/heads/x"),
        &format!("# v2 git bundle\n{B} refs/heads/x\n"),
        &format!("# v2 git bundle\n{B} refs/heads/x\r\n\n"),
        &format!("# v2 git bundle\n@object-format=sha1\n{B} refs/heads/x\n\n"),
        &format!("# v3 git bundle\n@filter=blob:none\n{B} refs/heads/x\n\n"),
        &format!("# v3 git bundle\n@object-format=sha1\n@object-format=sha1\n{B} refs/heads/x\n\n"),
        &format!("# v3 git bundle\n@object-format=md5\n{B} refs/heads/x\n\n"),
        &format!("# v3 git bundle\n@object-format=sha256\n{B} refs/heads/x\n\n"),
        &format!("# v3 git bundle\n@new\n{B} refs/heads/x\n\n"),
        &format!("# v2 git bundle\n{B} refs/heads/x\n-{A}\n\n"),
        &format!("# v2 git bundle\n-{A}\n\n"),
        &format!("# v2 git bundle\n-{A}x\n{B} refs/heads/x\n\n"),
        &format!("# v2 git bundle\n-{A} a\0b\n{B} refs/heads/x\n\n"),
        &format!("# v2 git bundle\n-{A}\n-{A} again\n{B} refs/heads/x\n\n"),
        &format!("# v2 git bundle\n{B} refs/heads/x\n{A} refs/heads/x\n\n"),
        &format!("# v2 git bundle\n{B} HEAD\n{A} refs/HEAD\n\n"),
        &format!("# v2 git bundle\n{B} refs/heads/a\n{A} refs/heads/a/b\n\n"),
        &format!("# v2 git bundle\n{}  refs/heads/x\n\n", &B[1..]),
        &format!("# v2 git bundle\n{} refs/heads/x\n\n", B.to_uppercase()),
        &format!("# v2 git bundle\n{} refs/heads/x\n\n", "0".repeat(40)),
        &format!("# v2 git bundle\n{B}  refs/heads/x\n\n"),
        &format!("# v2 git bundle\n{B} \n\n"),
        &format!("# v2 git bundle\n{B}\n\n"),
    ] {
        assert!(parse(text).is_err(), "{text:?}");
    }
    for name in [
        "refs/heads/../../../evil",
        "refs/heads/\x1b]0;x",
        "--upload-pack=touch",
        "refs/heads/a.lock",
        "a",
        "/x",
    ] {
        let error = parse(&format!("# v2 git bundle\n{B} {name}\n\n")).unwrap_err();
        assert!(matches!(error, BundleError::RefName { .. }), "{name:?}: {error}");
        assert!(!error.to_string().contains('\x1b'));
    }
}

#[test]
fn numbers_are_limited() {
    let refs = |count: usize| (0..count).map(|n| format!("{B} refs/heads/{n}\n")).collect::<String>();
    assert!(parse(&format!("# v2 git bundle\n{}\n", refs(MAX_REF_UPDATES))).is_ok());
    let error = parse(&format!("# v2 git bundle\n{}\n", refs(MAX_REF_UPDATES + 1))).unwrap_err();
    assert!(matches!(error, BundleError::TooMany { .. }), "{error}");
    let prerequisites = (0..=MAX_PREREQUISITES).map(|n| format!("-{n:040x}\n").replace("-0000", "-1000"));
    let error = parse(&format!("# v2 git bundle\n{}\n", prerequisites.collect::<String>())).unwrap_err();
    assert!(matches!(error, BundleError::TooMany { .. }), "{error}");
}

#[test]
fn the_end_of_the_header_is_found_wherever_the_bytes_are_cut() {
    let file = format!("# v2 git bundle\n{B} refs/heads/x\n\nPACK\n\n").into_bytes();
    let end = file.len() - 6;
    for length in 0..file.len() {
        let expected = if length < end {
            HeaderEnd::NotYet
        } else {
            HeaderEnd::At(end)
        };
        for searched in 0..=length.min(end - 1) {
            assert_eq!(find_header_end(&file[..length], searched), Ok(expected));
        }
    }
    assert_eq!(find_header_end(b"<!DOC", 0), Err(BundleError::NotABundle));
    let endless = [b"# v2 git bundle\n".to_vec(), vec![b'x'; MAX_BUNDLE_HEADER_BYTES]].concat();
    assert_eq!(find_header_end(&endless, 0), Err(BundleError::HeaderTooLong));
}

#[test]
fn names_of_a_room_are_names_of_a_bundle() {
    for name in [
        "refs/heads/-dash",
        "refs/heads/@",
        "refs/heads/é/ü",
        "refs/stash",
        "refs/heads/a.lock.b",
        "refs/heads/\"q\"",
    ] {
        let name: RefName = name.parse().unwrap();
        assert_eq!(
            name.as_str().parse::<HeaderRefName>().unwrap(),
            HeaderRefName::from(&name)
        );
    }
    assert_eq!(HeaderRefName::from(&BundleRefName::Head).as_str(), "HEAD");
}

fn header() -> impl Strategy<Value = BundleHeader> {
    let name = prop_oneof![
        Just("HEAD".to_owned()),
        "refs/(heads|tags|notes)/[a-zA-Zé0-9_+-]{1,12}(/[a-z]{1,4})?"
    ];
    let names = prop::collection::hash_set(name, 1..6);
    let seeds = prop::collection::hash_set(1_u8.., 0..5);
    (any::<bool>(), names, seeds).prop_map(|(sha256, names, seeds)| {
        let oid = |seed: u8| Oid::from_bytes(&vec![seed; if sha256 { 32 } else { 20 }]).unwrap();
        BundleHeader {
            object_format: if sha256 {
                ObjectFormat::Sha256
            } else {
                ObjectFormat::Sha1
            },
            prerequisites: seeds.into_iter().map(oid).collect(),
            refs: names
                .iter()
                .map(|name| HeaderRef {
                    name: name.parse().unwrap(),
                    oid: oid(7),
                })
                .collect(),
        }
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back(header in header()) {
        prop_assume!(header.check().is_ok());
        let bytes = header.to_bytes();
        prop_assert_eq!(find_header_end(&bytes, 0), Ok(HeaderEnd::At(bytes.len())));
        prop_assert_eq!(BundleHeader::parse(&bytes), Ok(header));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), version in 2..4) {
        let _ = BundleHeader::parse(&bytes);
        let file = [format!("# v{version} git bundle\n").as_bytes(), &bytes, b"\n\n"].concat();
        let _ = BundleHeader::parse(&file);
        let _ = find_header_end(&file, bytes.len());
    }

    #[test]
    fn damaged_headers_never_panic(header in header(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = header.to_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(read) = BundleHeader::parse(&bytes) {
            prop_assert!(BundleHeader::parse(&read.to_bytes()) == Ok(read));
        }
    }
}
