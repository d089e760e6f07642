//! Steps of a cursor, as text.

use millrace_cursor::{CommentStyle, NestingDepth, TextCursor, TextPosition};

const COMMENTS: &[CommentStyle] =
    &[CommentStyle::Line("#"), CommentStyle::Line("//"), CommentStyle::Block("/*", "*/")];

/// Runs steps over a text, and writes the result of each.
fn run(text: &str, steps: &str) -> String {
    let mut cursor = TextCursor::with_comments(text, COMMENTS);
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let results = steps.split(' ').map(|step| match step.split_once(':').unwrap_or((step, "")) {
        ("take", symbol) => cursor.take(symbol).to_string(),
        ("here", symbol) => cursor.take_here(symbol).to_string(),
        ("sees", symbol) => cursor.sees(symbol).to_string(),
        ("is", word) => cursor.take_word(word, is_part).to_string(),
        ("word", _) => cursor.word(is_part).unwrap_or("-").to_owned(),
        ("digits", _) => format!("<{}>", cursor.take_digits()),
        ("char", _) => format!("{:?}", cursor.take_char()),
        ("peek", _) => format!("{:?}", cursor.peek()),
        ("blanks", _) => {
            cursor.skip_blanks();
            cursor.offset().to_string()
        }
        ("back", offset) => {
            cursor.go_to(offset.parse().expect("an offset"));
            "".to_owned()
        }
        ("at", _) => {
            let TextPosition { line, column } = cursor.position();
            format!("{line}:{column}")
        }
        ("character", _) => cursor.character_at(cursor.offset()).to_string(),
        ("found", _) => cursor.found(),
        ("end", _) => cursor.is_at_end().to_string(),
        _ => panic!("{step} is not a step"),
    });
    results.collect::<Vec<_>>().join(" ")
}

#[test]
fn texts_are_read_step_by_step() {
    for (text, steps, expected) in [
        ("", "end found word take:a at", "true the end - false 1:1"),
        ("  a", "end take:b at here:a end", "false false 1:3 true true"),
        ("a+bc", "word take:- take:+ word end", "a false true bc true"),
        ("a +", "here:a here:+ take:+", "true false true"),
        ("in_x in x", "is:in word is:in word", "false in_x true x"),
        ("12ab", "digits digits word", "<12> <> ab"),
        ("é\u{3000}ß", "word at word at end", "é 1:2 ß 1:4 true"),
        ("éa", "char peek char char", "Some('é') Some('a') Some('a') None"),
        // Comments of each style, one after another, and up to the end.
        ("a#b\nc", "word word at", "a c 2:2"),
        ("a//b\rc", "word word", "a c"),
        ("a /* b\n * c */ d", "word word at", "a d 2:10"),
        ("#a\n//b\n/*c*/d", "word at", "d 3:7"),
        ("a # b", "word word end", "a - true"),
        ("/**/a", "word", "a"),
        ("/***/a", "word", "a"),
        // Without its end it is not a comment, and the star that opens one does not close it.
        ("/* a", "word found", "- '/* a'"),
        ("/*/ a", "blanks take:/*/ word", "0 true a"),
        ("a / b", "word take:/ word", "a true b"),
        // Errors show the rest of the line.
        ("  abc", "found take:x found", "'abc' false 'abc'"),
        ("abcdefghijklmnopqrstuvwxyz", "found", "'abcdefghijklmnopqrst'"),
        ("ab\ncd", "found char char found at", "'ab' Some('a') Some('b') 'cd' 1:3"),
        // Positions after going back.
        ("a\nbc\nd", "word word word at back:3 at character back:0 at", "a bc d 3:2  2:2 4  1:1"),
        ("é\né", "word word at character", "é é 2:2 4"),
    ] {
        assert_eq!(run(text, steps), expected, "{text:?}: {steps}");
    }
}

#[test]
fn positions_are_those_of_a_plain_count() {
    let text = "a\n\n é/* \n */b #\n\nc";
    let cursor = TextCursor::with_comments(text, COMMENTS);
    let offsets = || text.char_indices().map(|(offset, _)| offset).chain([text.len(), text.len() + 7]);
    for (offset, before) in offsets().zip(offsets().cycle().skip(5)) {
        cursor.position_at(before);
        assert_eq!(cursor.position_at(offset), TextPosition::of(text, offset), "{offset} after {before}");
    }
}

#[test]
fn nesting_is_bounded() {
    let mut depth = NestingDepth::new(2);
    let entered = [depth.enter(), depth.enter(), depth.enter()];
    depth.leave();
    assert_eq!((entered, depth.enter(), depth.enter()), ([true, true, false], true, false));
}
