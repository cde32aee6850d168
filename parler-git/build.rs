//! Writes what `src/names/skeleton.rs` looks up: the characters that look like others, from the library that knows them.
//! Its own table holds a pointer for each, which the loader has to correct at every start of a program; ours is numbers alone.

use std::fmt::Write;
use std::path::PathBuf;
use std::{env, error, fs, iter};

use unicode_normalization::UnicodeNormalization;
use unicode_security::skeleton;

fn main() -> Result<(), Box<dyn error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let (mut from, mut starts, mut to) = (String::new(), String::new(), String::new());
    let (mut characters, mut length) = (0_usize, 0_usize);
    for character in '\0'..=char::MAX {
        // A text is decomposed before it is looked at.
        if !iter::once(character).nfd().eq([character]) {
            continue;
        }
        let alike: Vec<char> = skeleton(character.encode_utf8(&mut [0; 4])).collect();
        if alike == [character] {
            continue;
        }
        write!(from, "{character:?}, ")?;
        write!(starts, "{length}, ")?;
        for other in &alike {
            write!(to, "{other:?}, ")?;
        }
        characters += 1;
        length += alike.len();
    }
    let table = format!(
        "static FROM: [char; {characters}] = [{from}];\n\
         static STARTS: [u16; {}] = [{starts}{length}];\n\
         static TO: [char; {length}] = [{to}];\n",
        characters + 1
    );
    let path = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    fs::write(path.join("skeleton_table.rs"), table)?;
    Ok(())
}
