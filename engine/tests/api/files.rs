//! Uploads that succeed, uploads that leave nothing, ranges, imports, and files that go away.

use std::time::Duration;

use ambient_engine::broker::Job;
use ambient_engine::ids::VideoId;
use ambient_engine::store::records::WorkStatus;
use bytes::Bytes;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Api, form, video_bytes};

const FILE: &str = "Content-Disposition: form-data; name=\"file\"; filename=\"clip.mp4\"\r\nContent-Type: video/mp4";

#[tokio::test]
async fn an_upload_comes_back_as_it_was() {
    let api = Api::new().await.unwrap();
    let bytes = video_bytes(0);
    let mut file = api.upload(bytes.clone(), "clip.mp4").await.unwrap().ok();
    let id = file["id"].as_str().unwrap().to_owned();
    assert!(id.parse::<VideoId>().is_ok());
    assert!(file["created_at"].as_str().unwrap().starts_with("2026-11-29T22:00:00."));
    file["created_at"] = Value::Null;
    assert_eq!(
        file,
        json!({"id": id, "type": "file", "filename": "clip.mp4", "mime_type": "video/mp4", "size_bytes": bytes.len(),
            "created_at": null, "downloadable": true, "expires_at": null, "scope": null, "source_type": "upload",
            "source_status": "ready", "description_status": "pending"})
    );
    let whole = api.get(&format!("/v1/files/{id}")).await.unwrap().ok();
    assert_eq!((&whole["width"], &whole["height"], &whole["description"]), (&json!(160), &json!(120), &Value::Null));
    assert_eq!(api.video_folder().unwrap(), [format!("{id}.mp4")]);
    let content = api.request(Method::GET, &format!("/v1/files/{id}/content")).send().await.unwrap();
    assert_eq!(content.bytes().await.unwrap(), bytes);
    let job = api.broker.take(Duration::from_secs(5), Duration::from_mins(1)).await.unwrap().unwrap();
    assert_eq!(job.job, Job::Ingest { video: id.parse().unwrap() });
    api.end().await.unwrap();
}

#[tokio::test]
async fn parts_are_taken_as_clients_send_them() {
    let api = Api::new().await.unwrap();
    // BytesIO in the Python SDK: no file name at all, and fields may come first.
    let nameless = "Content-Disposition: form-data; name=\"file\"\r\nContent-Type: application/octet-stream";
    let expiry = "Content-Disposition: form-data; name=\"expires_in_seconds\"";
    let file = api.upload_form(&[(expiry, b"3600"), (nameless, &video_bytes(1))]).await.unwrap().ok();
    assert_eq!((&file["filename"], &file["mime_type"]), (&json!("unnamed.mp4"), &json!("video/mp4")));
    assert!(file["expires_at"].as_str().unwrap().starts_with("2026-11-29T23:00:00."), "{file}");
    let other_field = "Content-Disposition: form-data; name=\"video\"; filename=\"../../etc/pass wd.mov\"";
    let file = api.upload_form(&[(other_field, &video_bytes(2))]).await.unwrap().ok();
    // The bytes say what it is, whatever the name says.
    assert_eq!((&file["filename"], &file["mime_type"]), (&json!("pass wd.mov"), &json!("video/mp4")));
    let names = api.video_folder().unwrap();
    assert!(names.iter().all(|name| name.starts_with("vid_") && !name.contains('/')), "{names:?}");
    api.end().await.unwrap();
}

#[tokio::test]
async fn the_same_bytes_are_one_file_however_many_send_them() {
    let api = Api::new().await.unwrap();
    let uploads = (0..20).map(|number| api.upload(video_bytes(3), if number == 0 { "a.mp4" } else { "b.mp4" }));
    let files: Vec<Value> =
        futures::future::join_all(uploads).await.into_iter().map(|answer| answer.unwrap().ok()).collect();
    assert!(files.iter().all(|file| file["id"] == files[0]["id"] && file["filename"] == files[0]["filename"]));
    let listed = api.get("/v1/files").await.unwrap().ok();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    assert_eq!(api.video_folder().unwrap().len(), 1);
    api.end().await.unwrap();
}

#[tokio::test]
async fn sending_the_bytes_again_repairs_what_is_missing() {
    let api = Api::new().await.unwrap();
    let id: VideoId = api.video().await.unwrap().parse().unwrap();
    let path = api.uploads.local_path(&id, ".mp4");
    std::fs::write(&path, b"cut off").unwrap();
    let mut record = api.store.file(&id).await.unwrap().unwrap();
    let before = record.updated_at;
    record.description_status = Some(WorkStatus::Failed);
    record.description_error = Some("no model".into());
    record.description_attempts = 3;
    record.updated_at = before.checked_add(Duration::from_secs(1)).unwrap();
    assert!(api.store.update_file(&record, before).await.unwrap());
    while let Some(job) = api.broker.take(Duration::from_millis(20), Duration::from_mins(1)).await.unwrap() {
        api.broker.finish(&job).await.unwrap();
    }
    let again = api.upload(video_bytes(0), "other name.mp4").await.unwrap().ok();
    assert_eq!((&again["filename"], &again["description_status"]), (&json!("clip.mp4"), &json!("pending")));
    assert_eq!(std::fs::read(&path).unwrap(), video_bytes(0));
    let repaired = api.store.file(&id).await.unwrap().unwrap();
    assert_eq!((repaired.description_error, repaired.description_attempts), (None, 0));
    assert!(api.broker.take(Duration::from_secs(5), Duration::from_mins(1)).await.unwrap().is_some());
    assert_eq!(api.video_folder().unwrap().len(), 1);
    api.end().await.unwrap();
}

#[tokio::test]
async fn what_is_no_video_is_refused_and_leaves_nothing() {
    let api = Api::with(|settings| settings.server.max_upload_bytes = 100_000).await.unwrap();
    let playlist = b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n".as_slice();
    let concat = b"ffconcat version 1.0\nfile /etc/passwd\n".as_slice();
    for (bytes, why) in [
        (b"".as_slice(), "uploaded file is empty"),
        (b"just some text\n", "refused"),
        (b"<html><body>502</body></html>", "refused"),
        (playlist, "refused"),
        (concat, "refused"),
        (&video_bytes(0)[..2000], "refused"),
    ] {
        let answer = api.upload(bytes.to_vec(), "clip.mp4").await.unwrap();
        assert_eq!(answer.error().0, 400);
        assert!(answer.message().contains(why) && !answer.message().contains("/tmp"), "{}", answer.message());
        assert_eq!(api.video_folder().unwrap(), Vec::<String>::new());
    }
    let large = api.upload(vec![0; 100_001], "clip.mp4").await.unwrap();
    assert_eq!(large.error().0, 413);
    assert!(large.message().contains("100000 bytes"), "{large:?}");
    let much_larger = api.upload(vec![0; 3_000_000], "clip.mp4").await.unwrap();
    assert_eq!(much_larger.error().0, 413);
    assert_eq!(api.video_folder().unwrap(), Vec::<String>::new());
    assert_eq!(api.get("/v1/files").await.unwrap().ok()["data"], json!([]));
    api.end().await.unwrap();
}

#[tokio::test]
async fn bodies_without_a_file_are_refused() {
    let api = Api::new().await.unwrap();
    let missing = "multipart form must include a file part";
    let field = api.upload_form(&[("Content-Disposition: form-data; name=\"other\"", b"1")]).await.unwrap();
    assert_eq!(field.error(), (400, "invalid_request_error", missing));
    let json = api.post("/v1/files", json!({"file": "x"})).await.unwrap();
    assert_eq!(json.error(), (400, "invalid_request_error", missing));
    let nothing = api.send(api.form_request(Vec::new())).await.unwrap();
    assert_eq!(nothing.error().0, 400);
    let expiry = "Content-Disposition: form-data; name=\"expires_in_seconds\"";
    for bad in ["60", "never", "99999999"] {
        let answer = api.upload_form(&[(expiry, bad.as_bytes()), (FILE, &video_bytes(0))]).await.unwrap();
        assert_eq!(answer.error().0, 400);
        assert!(answer.message().starts_with("`expires_in_seconds`"), "{answer:?}");
    }
    let long = "Content-Disposition: form-data; name=\"note\"";
    let answer = api.upload_form(&[(long, &vec![b'x'; 70_000])]).await.unwrap();
    assert!(answer.message().contains("`note`"), "{answer:?}");
    assert_eq!(api.video_folder().unwrap(), Vec::<String>::new());
    api.end().await.unwrap();
}

#[tokio::test]
async fn an_upload_that_breaks_off_leaves_nothing_and_can_be_repeated() {
    let api = Api::new().await.unwrap();
    let whole = form(&[(FILE, &video_bytes(4))]);
    // Ends in the middle, as a chunked body whose sender lost its file.
    let cut: Vec<Result<Bytes, std::io::Error>> = vec![Ok(Bytes::copy_from_slice(&whole[..3000]))];
    let ended = api.send(api.form_request(reqwest::Body::wrap_stream(futures::stream::iter(cut)))).await.unwrap();
    assert_eq!(ended.error().0, 400);
    assert!(ended.message().contains("cut off"), "{ended:?}");
    // The connection breaks.
    let broken = vec![Ok(Bytes::copy_from_slice(&whole[..3000])), Err(std::io::Error::other("the client died"))];
    assert!(api.form_request(reqwest::Body::wrap_stream(futures::stream::iter(broken))).send().await.is_err());
    for _ in 0..500 {
        if api.video_folder().unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(api.video_folder().unwrap(), Vec::<String>::new());
    api.send(api.form_request(whole)).await.unwrap().ok();
    assert_eq!(api.video_folder().unwrap().len(), 1);
    api.end().await.unwrap();
}

#[tokio::test]
async fn contents_come_whole_and_in_ranges() {
    let api = Api::new().await.unwrap();
    let bytes = video_bytes(0);
    let id = api.video().await.unwrap();
    let path = format!("/v1/files/{id}/content");
    let get = |headers: Vec<(&'static str, String)>| {
        let request = headers
            .into_iter()
            .fold(api.request(Method::GET, &path), |request, (name, value)| request.header(name, value));
        async move {
            let response = request.send().await.unwrap();
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            (status, headers, response.bytes().await.unwrap())
        }
    };
    let (status, headers, body) = get(vec![]).await;
    assert_eq!((status, body.as_ref()), (200, bytes.as_slice()));
    let text = |name: &str| headers[name].to_str().unwrap().to_owned();
    assert_eq!(
        (text("content-type"), text("accept-ranges"), text("content-length"), text("content-disposition")),
        (
            "video/mp4".into(),
            "bytes".into(),
            bytes.len().to_string(),
            "attachment; filename=\"clip.mp4\"; filename*=UTF-8''clip.mp4".into()
        )
    );
    assert!(headers.contains_key("request-id"));
    let etag = text("etag");
    let (status, headers, body) = get(vec![("range", "bytes=10-19".into())]).await;
    assert_eq!((status, body.as_ref()), (206, &bytes[10..20]));
    assert_eq!(headers["content-range"], format!("bytes 10-19/{}", bytes.len()).as_str());
    let (status, _, body) = get(vec![("range", "bytes=-5".into())]).await;
    assert_eq!((status, body.as_ref()), (206, &bytes[bytes.len() - 5..]));
    let (status, _, body) = get(vec![("range", "bytes=10-19".into()), ("if-range", etag.clone())]).await;
    assert_eq!((status, body.len()), (206, 10));
    let (status, _, body) = get(vec![("range", "bytes=10-19".into()), ("if-range", "\"other\"".into())]).await;
    assert_eq!((status, body.len()), (200, bytes.len()));
    let (status, _, body) = get(vec![("if-none-match", etag)]).await;
    assert_eq!((status, body.len()), (304, 0));
    let outside = api.send(api.request(Method::GET, &path).header("range", "bytes=999999-")).await.unwrap();
    assert_eq!(
        (outside.error().0, outside.header("content-range")),
        (416, format!("bytes */{}", bytes.len()).as_str())
    );
    let head = api.request(Method::HEAD, &path).send().await.unwrap();
    assert_eq!(head.headers()["content-length"], bytes.len().to_string().as_str());
    let by_query = api.bare(Method::GET, &format!("{path}?api_key=dev-token")).send().await.unwrap();
    assert_eq!(by_query.status(), 200);
    assert_eq!(api.bare(Method::GET, &format!("/v1/files/{id}?api_key=dev-token")).send().await.unwrap().status(), 401);
    std::fs::remove_file(api.uploads.local_path(&id.parse().unwrap(), ".mp4")).unwrap();
    let gone = api.get(&path).await.unwrap();
    assert_eq!(gone.error(), (404, "not_found_error", format!("file content {id} not found").as_str()));
    api.end().await.unwrap();
}

#[tokio::test]
async fn lists_name_single_files_and_page_through_all() {
    let api = Api::new().await.unwrap();
    let mut ids = Vec::new();
    for variant in 1..=3 {
        ids.push(api.upload(video_bytes(variant), "a.mp4").await.unwrap().ok()["id"].as_str().unwrap().to_owned());
    }
    ids.reverse();
    let page = api.get("/v1/files?beta=true&limit=1").await.unwrap().ok();
    assert_eq!(
        (&page["has_more"], &page["first_id"], &page["last_id"]),
        (&json!(true), &json!(ids[0]), &json!(ids[0]))
    );
    let next = api.get(&format!("/v1/files?limit=1&after_id={}", ids[0])).await.unwrap().ok();
    assert_eq!(next["data"][0]["id"], json!(ids[1]));
    let token = page["next_page"].as_str().unwrap();
    let next = api.get(&format!("/v1/files?limit=5&page={token}")).await.unwrap().ok();
    assert_eq!((next["data"].as_array().unwrap().len(), &next["next_page"]), (2, &Value::Null));
    let some = api.get(&format!("/v1/files?ids[]={}&ids%5B%5D={}&ids[]=vid_nope", ids[2], ids[0])).await.unwrap().ok();
    let found: Vec<&Value> = some["data"].as_array().unwrap().iter().map(|file| &file["id"]).collect();
    assert_eq!(found, [&json!(ids[2]), &json!(ids[0])]);
    let many = format!("ids[]={}&", ids[0]).repeat(101);
    assert_eq!(api.get(&format!("/v1/files?{many}")).await.unwrap().error().0, 400);
    assert_eq!(api.get(&format!("/v1/files?ids[]={}&limit=5", ids[0])).await.unwrap().error().0, 400);
    api.end().await.unwrap();
}

#[tokio::test]
async fn deleted_and_expired_files_are_gone_with_all_that_was_made_of_them() {
    let api = Api::new().await.unwrap();
    let id = api.video().await.unwrap();
    let folder = api.settings.media.video_folder.join(&id).join("clips");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.mp4"), b"x").unwrap();
    assert_eq!(api.delete(&format!("/v1/files/{id}")).await.unwrap().ok(), json!({"id": id, "type": "file_deleted"}));
    assert_eq!(api.video_folder().unwrap(), Vec::<String>::new());
    assert_eq!(api.delete(&format!("/v1/files/{id}")).await.unwrap().error().0, 404);

    let expiry = "Content-Disposition: form-data; name=\"expires_in_seconds\"";
    let file = api.upload_form(&[(expiry, b"3600"), (FILE, &video_bytes(5))]).await.unwrap().ok();
    let path = format!("/v1/files/{}", file["id"].as_str().unwrap());
    api.uploads.sweep().await.unwrap();
    api.get(&path).await.unwrap().ok();
    api.clock.advance(Duration::from_hours(1));
    let expired = api.get(&path).await.unwrap();
    assert_eq!((expired.error().0, &expired.json["error"]["details"]["error_code"]), (404, &json!("file_expired")));
    assert_eq!(api.get("/v1/files").await.unwrap().ok()["data"], json!([]));
    api.uploads.sweep().await.unwrap();
    assert_eq!(api.video_folder().unwrap(), Vec::<String>::new());
    assert_eq!(api.get(&path).await.unwrap().json["error"]["details"], Value::Null);
    api.end().await.unwrap();
}

#[tokio::test]
async fn imports_are_noted_and_queued() {
    let api = Api::new().await.unwrap();
    let file = api
        .post("/v1/files/import", json!({"url": "https://youtu.be/dQw4w9WgXcQ", "metadata": {"a": "b"}}))
        .await
        .unwrap()
        .ok();
    assert_eq!(
        (&file["source_type"], &file["source_status"], &file["downloadable"], &file["filename"]),
        (&json!("youtube"), &json!("pending"), &json!(false), &json!("dQw4w9WgXcQ.mp4"))
    );
    let same =
        api.post("/v1/files/import", json!({"url": "https://www.youtube.com/live/dQw4w9WgXcQ"})).await.unwrap().ok();
    assert_eq!(same["id"], file["id"]);
    let job = api.broker.take(Duration::from_secs(5), Duration::from_mins(1)).await.unwrap().unwrap();
    assert_eq!(job.job, Job::Ingest { video: file["id"].as_str().unwrap().parse().unwrap() });
    for (body, text) in [
        (json!({"url": "https://youtu.be/x", "source_type": 5}), "source_type must be a string"),
        (json!({"url": "https://youtu.be/x", "source_type": "vimeo"}), "only source_type='youtube' is supported"),
        (json!({}), "url is required"),
        (json!({"url": " "}), "url is required"),
        (json!({"url": "https://example.com/watch?v=dQw4w9WgXcQ"}), "url must be a YouTube URL"),
    ] {
        let answer = api.post("/v1/files/import", body).await.unwrap();
        assert_eq!(answer.error(), (400, "invalid_request_error", text));
    }
    api.end().await.unwrap();
    let closed = Api::with(|settings| settings.youtube.import_enabled = false).await.unwrap();
    let answer = closed.post("/v1/files/import", json!({"url": "https://youtu.be/dQw4w9WgXcQ"})).await.unwrap();
    assert_eq!(answer.error(), (400, "invalid_request_error", "YouTube URL imports are disabled"));
    closed.end().await.unwrap();
}
