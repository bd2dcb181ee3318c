//! Environments, and what an old change does to one.

use ambient_engine::ids::EnvironmentId;
use ambient_engine::store::Inserted;

use crate::databases::Database;
use crate::page;
use crate::records::{at, environment, file};

contract!(environments_have_names_of_their_own, an_update_with_an_old_time_changes_nothing,);

async fn environments_have_names_of_their_own(database: &Database) {
    let store = database.store();
    let first = environment(1);
    assert_eq!(store.insert_environment(&first).await.unwrap(), Inserted::New);
    assert_eq!(store.environment(&first.id).await.unwrap(), Some(first.clone()));
    let mut second = environment(2);
    let own_name = std::mem::replace(&mut second.name, first.name.clone());
    assert_eq!(store.insert_environment(&second).await.unwrap(), Inserted::Existing(Box::new(first.clone())));
    assert!(store.environment_name_taken(&first.name, &second.id).await.unwrap());
    assert!(!store.environment_name_taken(&first.name, &first.id).await.unwrap());
    assert!(!store.environment_name_taken("free", &first.id).await.unwrap());

    second.name = own_name;
    assert_eq!(store.insert_environment(&second).await.unwrap(), Inserted::New);
    let mut renamed = second.clone();
    renamed.name = first.name.clone();
    renamed.updated_at = at(3);
    assert!(!store.update_environment(&renamed, second.updated_at).await.unwrap(), "the name is taken");

    let mut gone = first.clone();
    gone.archived_at = Some(at(4));
    gone.updated_at = at(4);
    assert!(store.update_environment(&gone, first.updated_at).await.unwrap());
    assert!(store.update_environment(&renamed, second.updated_at).await.unwrap(), "an archived one frees its name");

    assert_eq!(store.environments(&page(5), false).await.unwrap().items, vec![renamed.clone()]);
    assert_eq!(store.environments(&page(5), true).await.unwrap().items, vec![renamed.clone(), gone]);
    assert!(store.delete_environment(&renamed.id).await.unwrap());
    assert!(!store.delete_environment(&renamed.id).await.unwrap());
    assert_eq!(store.environment(&EnvironmentId::generate()).await.unwrap(), None);
}

async fn an_update_with_an_old_time_changes_nothing(database: &Database) {
    let store = database.store();
    let standing = file(1);
    store.insert_file(&standing).await.unwrap();
    let mut next = standing.clone();
    next.description = Some("new".to_owned());
    next.updated_at = at(2);
    assert!(!store.update_file(&next, at(0)).await.unwrap());
    assert_eq!(store.file(&standing.id).await.unwrap(), Some(standing.clone()));
    assert!(store.update_file(&next, standing.updated_at).await.unwrap());
    assert_eq!(store.file(&standing.id).await.unwrap(), Some(next.clone()));
    assert!(!store.update_file(&next, standing.updated_at).await.unwrap(), "the second writer was not first");
    let made = environment(1);
    store.insert_environment(&made).await.unwrap();
    assert!(!store.update_environment(&made, at(7)).await.unwrap());
}
