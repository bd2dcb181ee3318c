//! Files, and the pages in which all kinds are listed.

use ambient_engine::store::records::WorkStatus;
use ambient_engine::store::{Inserted, Position, Window};

use crate::databases::Database;
use crate::page;
use crate::records::{at, file, video_id};

contract!(
    files_come_back_as_they_went_in,
    files_are_found_by_id_and_by_description,
    pages_go_both_ways_over_items_of_one_moment,
);

async fn files_come_back_as_they_went_in(database: &Database) {
    let store = database.store();
    let full = file(1);
    let mut bare = file(2);
    bare.source = ambient_engine::store::records::FileSource::Upload;
    (bare.media, bare.description_status, bare.bucket_key, bare.expires_at) = (None, None, None, None);
    (bare.description, bare.description_error, bare.source_error) = (None, None, None);
    for record in [&full, &bare] {
        assert_eq!(store.insert_file(record).await.unwrap(), Inserted::New);
        assert_eq!(store.file(&record.id).await.unwrap().as_ref(), Some(record));
        let keys =
            |record: &ambient_engine::store::records::FileRecord| record.metadata.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&store.file(&record.id).await.unwrap().unwrap()), keys(record), "the order is the client's");
    }
    let mut again = full.clone();
    "other.mp4".clone_into(&mut again.filename);
    assert_eq!(store.insert_file(&again).await.unwrap(), Inserted::Existing(Box::new(full.clone())));
    assert_eq!(store.files(&page(9)).await.unwrap().items, vec![bare, full.clone()]);
    assert!(store.delete_file(&full.id).await.unwrap());
    assert!(!store.delete_file(&full.id).await.unwrap());
    assert_eq!(store.file(&full.id).await.unwrap(), None);
}

async fn files_are_found_by_id_and_by_description(database: &Database) {
    let store = database.store();
    let (a, mut b, mut c) = (file(1), file(2), file(3));
    b.description_status = Some(WorkStatus::Ready);
    c.description_status = None;
    for record in [&a, &b, &c] {
        store.insert_file(record).await.unwrap();
    }
    let wanted = [c.id.clone(), video_id(), a.id.clone()];
    assert_eq!(store.files_by_id(&wanted).await.unwrap(), vec![c, a.clone()]);
    assert_eq!(store.files_by_id(&[]).await.unwrap(), vec![]);
    let both = [WorkStatus::Pending, WorkStatus::Ready];
    assert_eq!(store.files_with_description(&both, at(9), 9).await.unwrap(), vec![a.clone(), b]);
    assert_eq!(store.files_with_description(&both, at(9), 1).await.unwrap(), vec![a.clone()]);
    assert_eq!(store.files_with_description(&both, at(2), 9).await.unwrap(), vec![a]);
    assert_eq!(store.files_with_description(&[WorkStatus::Failed], at(9), 9).await.unwrap(), vec![]);
}

/// Seven files, five of them of one moment: whatever the page size and direction, walking shows each once, in order.
async fn pages_go_both_ways_over_items_of_one_moment(database: &Database) {
    let store = database.store();
    let mut files: Vec<_> = [1, 5, 5, 5, 5, 5, 9].map(file).into();
    for record in &files {
        store.insert_file(record).await.unwrap();
    }
    let place = |record: &ambient_engine::store::records::FileRecord| Position {
        at: record.created_at,
        id: record.id.to_string(),
    };
    for ascending in [false, true] {
        files.sort_by_key(|record| (record.created_at, record.id.clone()));
        if !ascending {
            files.reverse();
        }
        for limit in 1..=8 {
            let mut seen = Vec::new();
            let mut after = None;
            loop {
                let window = Window { limit, ascending, after, before: None };
                let listed = store.files(&window).await.unwrap();
                after = listed.items.last().map(place);
                seen.extend(listed.items);
                if !listed.has_more {
                    break;
                }
            }
            assert_eq!(seen, files, "forward, ascending {ascending}, limit {limit}");

            let mut seen = Vec::new();
            let mut before = files.last().map(place);
            loop {
                let window = Window { limit, ascending, after: None, before };
                let listed = store.files(&window).await.unwrap();
                before = listed.items.first().map(place);
                seen.splice(0..0, listed.items);
                if !listed.has_more {
                    break;
                }
            }
            assert_eq!(seen, files[..6], "backward, ascending {ascending}, limit {limit}");
        }
        let between = Window { limit: 9, ascending, after: Some(place(&files[1])), before: Some(place(&files[4])) };
        assert_eq!(store.files(&between).await.unwrap().items, files[2..4]);
    }
    let place_of_none = Position { at: at(5), id: "vid_7".to_owned() };
    let window = Window { limit: 9, ascending: true, after: Some(place_of_none), before: None };
    let behind = store.files(&window).await.unwrap();
    let expected = files.iter().filter(|record| (record.created_at, record.id.as_str()) > (at(5), "vid_7")).count();
    assert_eq!(behind.items.len(), expected, "a place outlives its item");
}
