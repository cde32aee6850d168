//! A file that no module line names is compiled by nobody, and its tests are run by nobody.

use std::fs;
use std::path::Path;

#[track_caller]
fn assert_all_named(suite: &str) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests").join(suite);
    let main = fs::read_to_string(directory.join("main.rs")).unwrap();
    for entry in fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs").filter(|module| *module != "main") else {
            continue;
        };
        assert!(
            main.contains(&format!("mod {module};")),
            "{suite}/{name} is named nowhere"
        );
    }
}

#[test]
fn every_file_of_the_suites_is_a_module() {
    assert_all_named("end_to_end");
    assert_all_named("architecture");
    assert_all_named("crash");
}
