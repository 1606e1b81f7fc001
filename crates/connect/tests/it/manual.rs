//! Every statement of `docs/connect.md` is one that this program takes.

use somersault_connect::{SinkSpec, SourceSpec};
use somersault_lang::{Parser, Statement};

const PAGE: &str = include_str!("../../../../docs/connect.md");

#[test]
fn every_statement_of_the_manual_is_taken() {
    let blocks = PAGE.split("\n```\n").skip(1).step_by(2);
    // The first block is the grammar.
    let texts = blocks.filter(|it| it.starts_with("CREATE ") && !it.contains("[OR REPLACE]"));
    let (mut sources, mut sinks) = (0, 0);
    for text in texts {
        for one in Parser::new().parse_script(text).expect(text) {
            match one.statement {
                Statement::CreateSource(source) => {
                    SourceSpec::of(&source).expect(&one.text);
                    sources += 1;
                }
                Statement::CreateSink(sink) => {
                    SinkSpec::of(&sink).expect(&one.text);
                    sinks += 1;
                }
                Statement::CreateStream(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(sources > 0 && sinks > 0, "{sources} sources, {sinks} sinks");
}
