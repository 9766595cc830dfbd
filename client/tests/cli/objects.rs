//! `get`, `list`, `create`, `put` and `delete`.

use listwatch::v1::View;

use crate::{
    fake::Fake,
    run::{listwatch, listwatch_with},
};

#[tokio::test(flavor = "multi_thread")]
async fn an_object_goes_through_its_whole_life() {
    let fake = Fake::start().await;
    let run = |args: &[&str]| listwatch(&fake, args);
    assert_eq!(
        run(&[
            "create", "pods", "a", "-n", "x", "--value", "1", "--label", "k=v"
        ])
        .ok(),
        "pods/x/a created\n"
    );
    assert_eq!(
        run(&["put", "pods", "x/a", "--value", "2"]).ok(),
        "pods/x/a replaced\n"
    );
    assert_eq!(
        run(&["put", "pods/x/b", "--value", "2"]).ok(),
        "pods/x/b created\n"
    );
    assert_eq!(
        run(&["get", "pods", "x/a", "-o", "name"]).ok(),
        "pods/x/a\n"
    );
    let shown = run(&["get", "pods", "a", "-n", "x"]).ok();
    assert!(
        shown.starts_with("NAMESPACE  NAME  REVISION  UPDATED\nx          a     2 "),
        "{shown}"
    );
    let shown = run(&["get", "pods/x/a", "-o", "json"]).ok();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["valueText"], "2");
    assert_eq!(
        run(&["delete", "pods/x/a", "pods/x/b"]).ok(),
        "pods/x/a deleted\npods/x/b deleted\n"
    );
    assert!(fake.names().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_tell_what_went_wrong() {
    let fake = Fake::start().await;
    let code = |args: &[&str]| {
        let ran = listwatch(&fake, args);
        assert_eq!(ran.err.lines().count(), 1, "one line: {}", ran.err);
        (ran.code, ran.err)
    };
    listwatch(&fake, &["put", "pods", "a", "--value", "1"]).ok();
    let (exit, why) = code(&["get", "pods", "gone"]);
    assert!(
        exit == 3 && why.contains("pods/gone") && why.contains("-n NAMESPACE"),
        "{why}"
    );
    assert_eq!(code(&["get", "pods", "gone", "a"]).0, 1);
    assert_eq!(code(&["delete", "pods", "gone"]).0, 3);
    assert_eq!(code(&["create", "pods", "a", "--value", "1"]).0, 4);
    assert_eq!(
        code(&["put", "pods", "a", "--value", "1", "--if-revision", "99"]).0,
        4
    );
    assert_eq!(code(&["put", "pods", "refused", "--value", "1"]).0, 2);
    listwatch(&fake, &["compact", "1"]).ok();
    let (exit, why) = code(&["list", "pods", "--at-revision", "0"]);
    assert_eq!(exit, 6, "{why}");
    listwatch(&fake, &["delete", "pods", "gone", "--ignore-not-found"]).ok();
    for usage in [
        &["get", "pods"][..],
        &["put", "pods", "a"],
        &["put", "a", "b", "c", "--value", "1"],
        &["list", "pods", "-l", "a in x"],
        &["put", "pods", "a", "--value", "1", "--ttl", "soon"],
        &["nonsense"],
    ] {
        assert_eq!(listwatch(&fake, usage).code, 2, "{usage:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_goes_through_all_pages_and_asks_for_no_more_than_it_shows() {
    let fake = Fake::start().await;
    for index in 0..25 {
        let label = format!("odd={}", index % 2);
        listwatch(
            &fake,
            &[
                "put",
                "pods",
                &format!("p{index:02}"),
                "--value",
                "v",
                "--label",
                &label,
            ],
        )
        .ok();
    }
    fake.state().views.clear();
    let names = listwatch(&fake, &["list", "pods", "--page-size", "10", "-o", "name"]).ok();
    assert_eq!(names.lines().count(), 25);
    assert_eq!(fake.state().views, [View::Key; 3]);
    let table = listwatch(
        &fake,
        &["list", "pods", "--page-size", "10", "--show-labels"],
    )
    .ok();
    assert_eq!(table.lines().count(), 26);
    assert_eq!(fake.state().views[3..], [View::Metadata; 3]);
    let json = listwatch(&fake, &["list", "pods", "--page-size", "10", "-o", "json"]).ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["items"].as_array().unwrap().len(), 25);
    assert_eq!(json["revision"], 25);
    let odd = listwatch(&fake, &["list", "pods", "-l", "odd in (1)", "-o", "name"]).ok();
    assert_eq!(odd.lines().count(), 12);
    let none = listwatch(&fake, &["list", "nodes"]);
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert!(none.err.contains("no objects in nodes"));
}

#[tokio::test(flavor = "multi_thread")]
async fn values_come_from_flags_files_and_standard_input() {
    let fake = Fake::start().await;
    listwatch_with(
        &fake,
        &["put", "c", "a", "--value-file", "-"],
        b"from stdin",
    )
    .ok();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"\xff from file").unwrap();
    let path = file.path().to_str().unwrap();
    listwatch(&fake, &["put", "c", "b", "--value-file", path]).ok();
    let state = fake.state();
    let values: Vec<_> = state.objects.values().map(|it| it.value.to_vec()).collect();
    assert_eq!(values, [b"from stdin".to_vec(), b"\xff from file".to_vec()]);
}
